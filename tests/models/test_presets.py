"""The presets of `configs/models/`: one of each size a model, all of which can be built and compared."""

import pytest
import torch

from sstcast.artefacts import packaged
from sstcast.config import RunConfig, load_config
from sstcast.graphs.grid import GridGraph
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
        assert other.data == first.data
        same = {"training": {"learning_rate"}, "model": True, "name": True}
        assert other.model_dump(exclude=same) == first.model_dump(exclude=same)


def test_both_sizes_are_runs_of_their_own() -> None:
    folders = [preset(folder, name).folder for folder in FOLDERS for name in MODELS]
    assert len(set(folders)) == len(folders)


@pytest.mark.parametrize("name", MODELS)
def test_a_small_one_forecasts_its_tile(name: str) -> None:
    config = preset("configs/models", name)
    data, shape = config.data, config.data.box.tile
    model = build_forecaster(
        name, history=data.history, horizon=data.horizon, shape=shape, **config.model.options
    ).eval()
    out = model(torch.randn(1, shape[0] * shape[1], data.history), GridGraph(*shape))
    assert out.shape == (1, shape[0] * shape[1], data.horizon)
    assert torch.isfinite(out).all()


@pytest.mark.parametrize("name", MODELS)
def test_the_options_of_the_paper_size_exist(name: str) -> None:
    config = preset("configs/models/paper", name)
    with torch.device("meta"):  # no numbers: the largest has 85 million of them
        build_forecaster(name, history=42, horizon=28, shape=config.data.box.tile, **config.model.options)
