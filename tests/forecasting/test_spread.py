"""The spread of a run's forecasts: from its validation days alone, and kept with the run."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
import torch
import xarray as xr
from scored_runs import configure, make_run, metrics_of
from small_ocean import make_sst
from untrained import replace_weights

from sstcast.config import ModelConfig
from sstcast.forecasting import spread
from sstcast.forecasting.fitted import held_out_fit
from sstcast.forecasting.forecast import forecast
from sstcast.forecasting.spread import SpreadCalibrator, calibrated, pooled
from sstcast.forecasting.system import Fits, system_of
from sstcast.models.linear import MultiscaleRidge
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.reading.days_of_year import on_days
from sstcast.runs import Run
from sstcast.scores.evaluate import evaluate
from sstcast.training.train import train, training_windows

SPREAD = "spread.nc"
SPLITS = {"train": [2001, 2002], "validation": ["2003-07-01", "2003-12-31"], "test": [2004, 2004]}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run and its ocean."""
    folder = tmp_path_factory.mktemp("made")
    make_sst().to_netcdf(folder / "small.nc", engine="netcdf4")
    with contextlib.chdir(folder):
        make_run(configure(Path(), "small.nc", splits=SPLITS))
    return folder


@pytest.fixture
def run(made: Path, as_made: Callable[[Path], Run]) -> Run:
    return as_made(made)


def linear_run(run: Run, name: str, **model: object) -> Run:
    """Make a run like another one whose model is linear."""
    changes = {"name": name, "model": ModelConfig.model_validate({"name": "multiscale-ridge"} | model)}
    return make_run(run.config.model_copy(update=changes))


def test_no_test_day_enters_the_spread(run: Run) -> None:
    """Neither that of a network nor that of a linear system, which is not kept in the run's folder."""
    linear = linear_run(run, "linear")
    calibrated(run)
    before, of_linear = (run.folder / SPREAD).read_bytes(), calibrated(linear).values
    for days, same in (("2004", True), ("2003-08", False)):
        changed = make_sst()
        changed["sst"].loc[{"time": days}] += 1
        changed.to_netcdf(run.config.data.source, engine="netcdf4")
        prepare(run.config.data)
        (run.folder / SPREAD).unlink()
        calibrated(run)
        assert ((run.folder / SPREAD).read_bytes() == before) is same
        assert calibrated(linear).values.equals(of_linear) is same


def test_a_stale_or_damaged_file_is_made_again(run: Run) -> None:
    found = calibrated(run)
    file = run.folder / SPREAD
    whole, written = file.read_bytes(), file.stat().st_mtime_ns
    xr.testing.assert_equal(calibrated(run).values, found.values)
    assert file.stat().st_mtime_ns == written
    for damaged in (whole[:-100], b"nothing"):
        file.write_bytes(damaged)
        xr.testing.assert_equal(calibrated(run).values, found.values)
        assert file.read_bytes() == whole
    other = make_run(run.config.model_copy(update={"name": "other"}), (7,))
    replace_weights(run, other.best.read_bytes())
    xr.testing.assert_equal(calibrated(run).values, calibrated(other).values)
    assert not calibrated(run).values.equals(found.values)


def test_the_climatological_spread_by_hand(run: Run) -> None:
    data = run.config.data
    climatology = Prepared.of(data).open()[1]["climatology"].load()
    winter = make_sst()["sst"].sel(time=slice("2001", "2002"))
    winter = winter[winter["time"].dt.month.isin([6, 7, 8])]
    departure = winter.values - climatology.sel(dayofyear=winter["time"].dt.dayofyear).values
    expected = np.sqrt((departure**2).mean(0))
    found = SpreadCalibrator(Prepared.of(data)).climatological
    np.testing.assert_allclose(found.values.sel(season="JJA", lead=3), expected, rtol=1e-3)
    valid = xr.DataArray(pd.date_range("2004-08-27", periods=8).values[None], dims=("init_time", "lead"))
    spread = found.spread(valid.assign_coords(lead=found.values["lead"]))
    assert spread.dims == ("init_time", "lead", "lat", "lon")
    for lead, season in ((5, "JJA"), (6, "SON")):  # 31 August, 1 September
        expected = found.values.sel(season=season, lead=lead)
        np.testing.assert_array_equal(spread.isel(init_time=0, lead=lead - 1), expected)
    anomalies = Prepared.of(data).open()[1]
    days = anomalies["anomaly"].sel(time=slice("2001", "2002")).load()
    errors = np.nan_to_num((days * on_days(anomalies["scale"].load(), days["time"])).values.astype(float))
    lagged = [(errors[lag:] * errors[: len(errors) - lag]).sum() for lag in range(data.horizon)]
    np.testing.assert_allclose(found.correlation, scipy.linalg.toeplitz(lagged) / lagged[0], rtol=1e-4, atol=1e-6)


def test_what_learnt_the_validation_days_is_not_calibrated_on_them(run: Run) -> None:
    config, data = run.config, run.config.data
    assert held_out_fit(run, data) is None
    training = config.training.model_copy(update={"include_validation": True, "epochs": 1})
    learnt = make_run(config.model_copy(update={"name": "learnt", "training": training}))
    made, _ = forecast(learnt.folder, "2004-05-05")
    assert f" of 2001-01-01..{data.splits.validation[1]}, region" in xr.load_dataset(made).attrs["source"]
    (stand_in,) = system_of(learnt, held_out=True).models
    (refitted,) = Fits.of(Prepared.of(data)).system("multiscale-ridge").models
    assert isinstance(stand_in, MultiscaleRidge)
    assert not torch.equal(stand_in.weight, refitted.weight)
    west = data.box.model_copy(update={"lon": (165.0, 168.0)})  # an ocean of which it has learnt nothing
    assert held_out_fit(learnt, data.model_copy(update={"region": west})) is None


def test_runs_share_the_spread_of_their_linear_system(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    config = run.config
    fits: list[str] = []
    system = Fits.system
    monkeypatch.setattr(
        Fits,
        "system",
        lambda days, name, *rest, **options: (fits.append(name), system(days, name, *rest, **options))[1],
    )
    first, stencil = linear_run(run, "first"), linear_run(run, "stencil", stencil=True)
    found, other = calibrated(first), calibrated(stencil)
    assert not found.values.equals(other.values)
    training = config.training.model_copy(update={"include_validation": True, "epochs": 1})
    network = {"name": "mpnn-vn", "width": 8, "layers": 2, "base": {"name": "linear", "stencil": True}}
    changes = {"name": "network", "training": training, "model": ModelConfig.model_validate(network)}
    on_stencil = make_run(config.model_copy(update=changes))
    for again, wanted in (
        (linear_run(run, "second"), found),
        (stencil, other),
        (on_stencil, other),
        (first, found),
    ):
        xr.testing.assert_equal(calibrated(again).values, wanted.values)
    assert fits == ["multiscale-ridge"] * 2
    files = sorted(run.config.data.directory.glob("*/*.spread.nc"))
    assert len(files) == 2
    assert not [*run.folder.parent.glob("*/spread.nc")]
    contents = [file.read_bytes() for file in files]
    for damaged in (
        contents[::-1],
        [content[:-100] for content in contents],
    ):  # each with the other's content, cut
        for file, content in zip(files, damaged, strict=True):
            file.write_bytes(content)
        xr.testing.assert_equal(calibrated(first).values, found.values)
        xr.testing.assert_equal(calibrated(on_stencil).values, other.values)
        assert [file.read_bytes() for file in files] == contents
    for one, another in (files, [file.with_name(f".{file.name}.note") for file in files]):
        one.rename(one.with_suffix(".other"))
        another.rename(one)
        one.with_suffix(".other").rename(another)
    xr.testing.assert_equal(calibrated(first).values, found.values)
    xr.testing.assert_equal(calibrated(on_stencil).values, other.values)
    recipe = spread.spread_file(first, Prepared.of(config.data))[1]
    for name in ("LAYOUT", "__version__"):
        with monkeypatch.context() as patch:
            patch.setattr(spread, name, 0)
            assert spread.spread_file(first, Prepared.of(config.data))[1] != recipe, name


def test_a_cell_that_never_changes_takes_no_part_in_pooling() -> None:
    random = np.random.default_rng(0)
    sums, counts = random.gamma(4, size=(4, 8, 5, 6)), np.full((4, 8), 20.0)
    climate, weights = random.gamma(4, size=(4, 5, 6)), random.random((5, 6)) + 0.5
    sums[..., 0, :2] = np.nan  # land
    absent, constant = sums.copy(), climate.copy()
    absent[..., 3, 4], constant[:, 3, 4] = np.nan, np.nan
    wanted, found = pooled(absent, counts, climate, weights), pooled(sums, counts, constant, weights)
    assert (found[..., 3, 4] == np.float32(0.01)).all()
    found[..., 3, 4] = np.nan
    np.testing.assert_array_equal(found, wanted)
    nothing = pooled(sums, counts, np.full_like(climate, np.nan), weights)
    assert (nothing[..., 1:, :] == np.float32(0.01)).all()
    frozen = sums.copy()
    frozen[..., 2, 2] = 0  # varied in the base period and not since
    assert np.isfinite(pooled(frozen, counts, climate, weights)[..., 1:, :]).all()


def test_constant_cells_leave_the_probabilities_of_all_others(tmp_path: Path) -> None:
    """The frozen one, which ice makes, and a warm one."""
    chances, constants = [], {(5, 7): -1.8, (3, 2): 25.0}
    for name in ("varied", "constant"):
        ocean, folder = make_sst(), tmp_path / name
        folder.mkdir()
        if name == "constant":
            for cell, value in constants.items():
                ocean["sst"][:, *cell] = value
        ocean.to_netcdf(folder / "small.nc", engine="netcdf4")
        splits = {"train": [2001, 2002], "validation": [2003, 2003], "test": ["2004-04-15", "2004-05-15"]}
        config = configure(folder, folder / "small.nc", model={"name": "ridge"}, splits=splits)
        prepare(config.data)
        run, _ = train(config, training_windows(config))
        made, _ = forecast(run.folder, "2004-05-05")
        chances.append(xr.load_dataset(made)["exceedance_probability"][0].values)
    evaluate(run)
    metrics = metrics_of(run)
    assert {of["crps"] is not None for of in metrics["probabilities"].values()} == {True}
    assert metrics["ratios"]["event"]["model"]["base rate"]["ratio"] < 0.9
    others = [row * 12 + column for row, column in constants]
    control, constant = (np.delete(field.reshape(len(field), -1), others, axis=1) for field in chances)
    assert np.nanmax(abs(control - constant)) < 0.02
    assert 0.02 < np.nanmean(constant) < 0.98
