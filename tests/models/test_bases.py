"""Linear systems as runs, as bases of networks, and on regions too large for memory."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from scored_runs import configure

from sstcast.config import RunConfig, TrainingConfig
from sstcast.errors import SSTCastError
from sstcast.forecasting.system import system_of
from sstcast.models import LINEAR_BASES, build_forecaster, eof_models, transfer_of
from sstcast.models.base import LinearSystem
from sstcast.models.linear import Ridge
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.ocean.windows import Windows, whole_windows
from sstcast.scores.analysis import Analysis
from sstcast.scores.combine import combine
from sstcast.training.forecast_task import fit, in_parts
from sstcast.training.train import train, training_windows


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("prepared")


@pytest.fixture
def config(tmp_path: Path, sst_file: Path, stores: Path) -> RunConfig:
    config = configure(tmp_path, sst_file, directory=stores)
    prepare(config.data)
    return config


def changed(config: RunConfig, name: str | None = None, **training: object) -> RunConfig:
    """Take another model, or the same network on a linear base, with these options of the training."""
    model = config.model.model_validate({"name": name} if name else config.model.model_dump() | {"base": "linear"})
    return config.model_copy(update={"model": model, "training": config.training.model_copy(update=training)})


def fitted(name: str, windows: Windows, validation: Windows | None = None) -> LinearSystem:
    """Fit a linear system to windows of ten days of history and eight ahead."""
    model = build_forecaster(name, history=10, horizon=8, shape=windows.shape)
    assert isinstance(model, LinearSystem)
    fit(model, windows, validation)
    return model


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mpnn", {"width": 8, "layers": 1, "base": "linear"}),
        ("mlp", {"hidden": 8, "base": "linear"}),
        ("tfnet", {"width": 4, "base": "local"}),
    ],
)
def test_a_network_that_says_nothing_is_its_linear_base(
    tmp_path: Path, sst_file: Path, stores: Path, name: str, options: dict[str, Any]
) -> None:
    """Here on a single tile, the only one that a local base can be fitted to."""
    region = {"lon": [170, 171.5], "lat": [-12, -10], "tile": [8, 6]}
    config = configure(tmp_path, sst_file, "one", region=region, directory=stores)
    prepare(config.data)
    windows = training_windows(config)
    base = fitted(LINEAR_BASES[options["base"]], windows["train"])
    net = build_forecaster(name, history=10, horizon=8, shape=(8, 6), **options)
    assert isinstance(net.linear, LinearSystem)
    fit(net.linear, windows["train"], None)
    batch = windows["validation"].batch(torch.arange(7))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.zero_()
        assert torch.equal(net.eval()(batch.history, batch.graph), base(batch.history, batch.graph))


def test_a_local_base_is_for_one_tile(config: RunConfig) -> None:
    with pytest.raises(SSTCastError, match=r"model\.base: local is fitted to the cells of one tile"):
        training_windows(config.model_copy(update={"model": config.model.model_copy(update={"base": "local"})}))
    assert [transfer_of("mpnn", {"base": base}) for base in ("local", "linear")] == ["region", "anywhere"]


def test_a_base_is_saved_with_the_run_and_not_fitted_again(config: RunConfig) -> None:
    config = changed(config, epochs=1, compile=False, windows_per_epoch=20)
    windows = training_windows(config)
    run, _ = train(config, windows)
    (loaded,) = system_of(run).models
    assert isinstance(loaded.linear, Ridge)
    assert torch.equal(loaded.linear.weight, fitted("multiscale-ridge", windows["train"]).weight)
    assert train(config, windows) == (run, False)


def test_a_network_may_learn_from_the_validation_days_too(config: RunConfig, tmp_path: Path) -> None:
    """It then trains on the same days as linear systems, so combining weights cannot be fitted to its errors."""
    config = changed(config, epochs=1, compile=False, windows_per_epoch=20, include_validation=True)
    windows = training_windows(config)
    (first, _), (_, last) = config.data.splits.train, config.data.splits.validation
    days = windows["train"].days  # type: ignore[union-attr]
    assert (str(days[0])[:10], str(days[-1])[:10]) == (str(first), str(last))
    run, _ = train(config, windows)
    linear = changed(config, "ridge").model_copy(update={"name": "linear"})
    other, _ = train(linear, training_windows(linear))
    with pytest.raises(SSTCastError, match="was trained on its validation days; combine it with --equal"):
        combine([run, other], tmp_path / "both")
    assert combine([run, other], tmp_path / "mean", equal=True)[0].best.exists()
    with pytest.raises(ValidationError, match="weights cannot be selected on training days; set epochs to 1"):
        TrainingConfig(epochs=2, include_validation=True)


@pytest.mark.parametrize("name", ["local-ridge", "lim"])
def test_a_linear_run_forecasts_like_its_model(config: RunConfig, name: str) -> None:
    config = changed(config, name)
    windows = training_windows(config)
    run, new = train(config, windows)
    assert new
    assert train(config, windows) == (run, False)
    data = Analysis.of(run)
    model = fitted(name, windows["train"], windows["validation"])
    test = region_windows(config, "test")
    with torch.no_grad():
        batch = test.batch(torch.tensor([5]))
        expected = model(batch.history, batch.graph)[0].T.reshape(8, *test.shape)
    found = system_of(run).predict(*data.histories(slice(5, 6)))[0, 0].values
    ocean = batch.ocean[0].reshape(test.shape).numpy()
    np.testing.assert_allclose(found[:, ocean], expected.numpy()[:, ocean], atol=1e-5)


def test_bases_that_cannot_be() -> None:
    with pytest.raises(SSTCastError, match=r"model\.base: 'liner' is not one of .*did you mean 'linear'"):
        build_forecaster("mpnn", history=10, horizon=8, shape=(4, 4), base="liner")


# A region too large for memory, which linear systems read from a file.


def region_windows(config: RunConfig, split: str) -> Windows:
    return whole_windows(Prepared.of(config.data).open()[1], config.data, split)


def test_values_in_a_file_are_those_in_memory(config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    in_memory = region_windows(config, "validation")
    monkeypatch.setattr("sstcast.storage.scratch.KEPT", 0)
    in_file = region_windows(config, "validation")
    index = torch.arange(len(in_memory))
    for field in ("history", "target", "ocean"):
        assert torch.equal(getattr(in_file.batch(index), field), getattr(in_memory.batch(index), field))
    assert sum(part.starts for part in in_parts(in_file)(3)) == -(-(365 - 18) // 3)


def test_eofs_of_many_days_are_those_of_some(config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    of_all = eof_models.eofs(in_parts(region_windows(config, "train")), 2).numpy()
    monkeypatch.setattr(eof_models, "LARGEST_FIELD", 96 * 100)
    of_some = eof_models.eofs(in_parts(region_windows(config, "train")), 2).numpy()
    assert not np.array_equal(of_all, of_some)
    np.testing.assert_allclose(of_some @ of_some.T, np.eye(2), atol=1e-5)
    shared = np.linalg.svd(of_all @ of_some.T)[1]  # the wave of the small ocean is in both
    assert shared.min() > 0.99
