"""Cross-fitting: the share of a network's change that holds in blocks of years it has not seen."""

from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from small_hindcast import system, write_ocean

from sstcast.config import RunConfig
from sstcast.errors import SSTCastError
from sstcast.forecasting.system import Models, system_of
from sstcast.models import build_forecaster
from sstcast.models.base import ForecastModel
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.ocean.windows import Windows, cut_windows, with_earlier
from sstcast.training.checkpoint import load_checkpoint
from sstcast.training.cross_fitting import blocks_of_years, supported_share
from sstcast.training.forecast_task import fit
from sstcast.training.train import train, training_windows

SPLITS = {"train": [2001, 2005], "validation": [2006, 2006], "test": [2007, 2008]}


def network(base: object = "linear", **training: int) -> RunConfig:
    """Describe a small network on a linear base, with a share from two blocks of years."""
    return system(
        "net",
        training={"epochs": 1, "windows_per_epoch": 100, "compile": False, "cross_fit": 2, **training},
        options={"width": 8, "base": base},
        splits=SPLITS,
        region={"lon": [170, 173], "lat": [-12, -10], "tile": [8, 12]},
    )


@pytest.fixture(scope="module")
def ocean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the ocean, which the first test prepares."""
    return write_ocean(tmp_path_factory.mktemp("ocean")).parent


def cut(folder: Path, monkeypatch: pytest.MonkeyPatch, before: int = 0) -> Windows:
    """Prepare the ocean in `folder`, the new working folder, and return its training windows."""
    monkeypatch.chdir(folder)
    data = network().data
    prepare(data)
    return cut_windows(Prepared.of(data).open()[1], data, "train", before)


def days_of(windows: Windows, before: int = 0) -> set[int]:
    """Return the days of the windows, with `before` days of their memory, counted from the first of the record."""
    length = before + windows.history + windows.horizon
    return set((windows.at[:, None] - before + np.arange(length)).flat)


@pytest.mark.parametrize("before", [0, 300])
def test_no_day_of_a_block_is_among_the_others_and_no_memory_reads_what_it_forecasts(
    ocean: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    windows = cut(ocean, monkeypatch, before=before)
    assert windows.before == before
    blocks = blocks_of_years(windows, 3)
    dates = np.concatenate([block.init_times for _, block in blocks])
    np.testing.assert_array_equal(dates, windows.init_times)  # each date is in one block
    for others, block in blocks:
        assert days_of(block).isdisjoint(days_of(others))
        targets = (block.at[:, None] + block.history + np.arange(block.horizon)).flat
        assert days_of(others, before).isdisjoint(targets)
        assert len(others) > len(windows) / 4
    with pytest.raises(SSTCastError, match=r"training.cross_fit: 5 years .* choose fewer"):
        blocks_of_years(windows, 6)


def test_a_block_that_leaves_no_window_supports_no_share(
    ocean: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    windows = cut(ocean, monkeypatch, before=300)
    short = windows.part(0, int(np.searchsorted(windows.init_times, np.datetime64("2002-10-01"))))
    blocks = blocks_of_years(short, 2)
    assert blocks == []
    assert "no training window is clear of 2001..2001" in capsys.readouterr().err
    assert supported_share([], 8).tolist() == [0] * 8


def test_a_share_is_a_regression(ocean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    windows = cut(ocean, monkeypatch)
    sizes = {"history": windows.history, "horizon": windows.horizon, "shape": windows.shape}
    model = build_forecaster("mlp-pointwise", **sizes, width=8, base="linear", shared=True).eval()
    assert model.linear is not None
    fit(model.linear, windows, None)
    for parameter in model.head.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    share = supported_share([(model, windows)], windows.horizon)
    every = windows.thinned(3)
    batch = every.batch(torch.arange(len(every)))
    with torch.no_grad():
        change = model.change(batch.history, batch.graph)[batch.ocean].double().numpy()
        left = (batch.target - model.linear(batch.history, batch.graph))[batch.ocean].double().numpy()
    for week in (slice(0, 7), slice(7, 8)):
        best = np.linalg.lstsq(change[:, week].reshape(-1, 1), left[:, week].ravel(), rcond=None)[0]
        np.testing.assert_allclose(share[week], np.clip(best, 0, 1).item(), rtol=1e-4, atol=1e-6)


def test_without_a_share_a_run_is_its_base_to_the_bit_and_no_later_day_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = {"name": "local", "memory": True, "stencil": True}
    found = []
    for name, jump in (("one", 0.0), ("other", 2.0)):
        write_ocean(tmp_path / name, jump)
        cut(tmp_path / name, monkeypatch)
        config = network(base)
        run, new = train(config, training_windows(config))
        assert new
        assert train(config, training_windows(config)) == (run, False)
        found.append(load_checkpoint(run.best)["model"])
    ours, theirs = found
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())
    assert ((ours["share"] >= 0) & (ours["share"] <= 1)).all()
    predictor = system_of(run)
    (model,) = predictor.models
    assert isinstance(model.linear, ForecastModel)
    anomalies = Prepared.of(config.data).open()[1]
    days = anomalies.sel(time=slice("2006-06-01", "2006-08-01")).load()
    past = with_earlier(days, anomalies)
    shared = predictor.predict(past)
    model.share.zero_()
    alone = Models(config.data.box, config.data.history, config.data.horizon, [model.linear], torch.device("cpu"))
    np.testing.assert_array_equal(predictor.predict(past), alone.predict(past))
    assert not shared.equals(predictor.predict(past)) or not ours["share"].any()


def test_a_share_needs_a_linear_base_and_two_blocks(ocean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut(ocean, monkeypatch)
    config = network("persistence")
    with pytest.raises(SSTCastError, match=r"cross_fit: needs model\.base linear or local"):
        train(config, training_windows(config))
    with pytest.raises((ValidationError, SSTCastError), match="a single block leaves nothing to train on"):
        network(cross_fit=1)
