"""The presets of `configs/models/`: one of each size a model, all of which can be built and compared."""

import pytest
import torch

from sstcast.artefacts import packaged
from sstcast.config import RunConfig, load_config
from sstcast.models import MODELS, build_forecaster

FOLDERS = ["configs/models", "configs/models/paper"]


def preset(folder: str, name: str) -> RunConfig:
    return load_config(packaged(f"{folder}/{name}.yaml"))


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_model_has_one(folder: str) -> None:
    assert {path.stem for path in packaged(folder).glob("*.yaml")} == set(MODELS)
    for name in MODELS:
        assert preset(folder, name).name == preset(folder, name).model.name == name


@pytest.mark.parametrize("folder", FOLDERS)
def test_all_see_the_same_windows(folder: str) -> None:
    first, *others = (preset(folder, name) for name in MODELS)
    for other in others:
        own = {"training": {"learning_rate"}, "model": True, "name": True}
        assert other.model_dump(exclude=own) == first.model_dump(exclude=own)


def test_both_sizes_are_runs_of_their_own() -> None:
    folders = [preset(folder, name).folder for folder in FOLDERS for name in MODELS]
    assert len(set(folders)) == len(folders)


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("name", MODELS)
def test_their_options_exist(folder: str, name: str) -> None:
    config = preset(folder, name)
    with torch.device("meta"):  # no numbers: the largest has 85 million of them
        build_forecaster(name, history=42, horizon=28, shape=config.data.box.tile, **config.model.options)
