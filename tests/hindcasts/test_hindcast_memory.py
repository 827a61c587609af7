"""Linear systems with a memory in hindcasts and forecasts: the days they read, and those that they must not."""

import contextlib
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from small_hindcast import plan, system, without_baselines, write_ocean

import sstcast
from sstcast.config import RunConfig, Splits
from sstcast.errors import SSTCastError
from sstcast.extremes.heatwaves import MARGIN_DAYS
from sstcast.forecasting.forecast import forecast
from sstcast.forecasting.system import system_of
from sstcast.hindcasts.hindcast import hindcast
from sstcast.runs import Run
from sstcast.training.checkpoint import load_checkpoint

FOLD = "hindcast/one/fold-2005"


def local() -> RunConfig:
    return system("one", "local-ridge", options={"memory": True, "stencil": True})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hindcast."""
    return make(tmp_path_factory.mktemp("memory"))


def make(folder: Path, jump: float = 0) -> Path:
    """Make the hindcast in `folder`, and return it. What compares it with baselines is tested elsewhere."""
    write_ocean(folder, jump, years=6)
    with contextlib.chdir(folder), without_baselines():
        hindcast(plan(local(), fold=2))
    return folder


def forecasts(folder: Path) -> xr.DataArray:
    return xr.open_zarr(folder / "hindcast/one/hindcast.zarr")["sst"].load()


def test_no_later_day_enters_a_choice_a_weight_or_a_forecast(folder: Path, tmp_path: Path) -> None:
    ours, theirs = forecasts(folder), forecasts(make(tmp_path, jump=2))
    early = ours["init_time"].values < np.datetime64("2006-01-01")
    np.testing.assert_array_equal(ours[early], theirs[early])
    assert float(abs(ours[~early] - theirs[~early]).max()) > 0.1
    ours, theirs = (
        xr.open_dataset(place / FOLD / "hindcast.nc", engine="netcdf4")["heatwave_brier_by_date"].sel(
            forecaster="one"
        )
        for place in (folder, tmp_path)
    )
    early = ours["init_time"].values < np.datetime64("2006-01-01") - np.timedelta64(8 + MARGIN_DAYS, "D")
    np.testing.assert_array_equal(ours[:, early], theirs[:, early])
    assert float(abs(ours[:, ~early] - theirs[:, ~early]).max()) > 0.1
    with contextlib.chdir(folder):  # its spread is that of the same system, fitted to earlier days
        (model,) = system_of(Run(folder / FOLD), held_out=True).models
    assert model.inputs.memory
    assert model.inputs.stencil
    one, other = (load_checkpoint(Run(place / FOLD).best) for place in (folder, tmp_path))
    assert one["chosen"] == other["chosen"]
    assert one["model"]["remembers"]
    assert all(torch.equal(value, other["model"][name]) for name, value in one["model"].items())


def test_a_forecast_is_the_hindcasts_and_refuses_less_than_a_year(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    hindcasts = forecasts(folder)
    date = hindcasts["init_time"].sel(init_time="2005-10").values[0]
    expected = hindcasts.sel(init_time=date).values
    fold = folder / FOLD
    path, _ = forecast(fold, str(date)[:10])
    made = xr.load_dataset(path, engine="netcdf4")
    np.testing.assert_allclose(made["sst"].values[0], expected, atol=1e-4)
    assert made.sizes["past"] == 84
    run = sstcast.load(fold)
    with xr.open_dataset("small.nc", engine="netcdf4") as ocean:
        days = ocean["sst"].sel(time=slice(None, date)).load()
    np.testing.assert_allclose(run.forecast(days)["sst"].values[0], expected, atol=1e-4)
    days[-300:-50] += 1  # before the history, which has 10 days
    assert float(abs(run.forecast(days)["sst"].values[0] - expected)[..., 3:].max()) > 1e-4
    with pytest.raises(SSTCastError, match="history: holds 364 days; the run needs the last 365"):
        run.forecast(days[-364:])


def test_a_forecast_uses_the_last_whole_year(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From 2006 on, the fold that was fitted up to 2004 forecasts as a run that is fitted up to 2005."""
    monkeypatch.chdir(folder)
    splits = {"train": [2001, 2004], "validation": [2005, 2005], "test": [2006, 2006]}
    data = local().data.model_copy(
        update={"splits": Splits.model_validate(splits | {"base_period": [2001, 2005]})}
    )
    newer = sstcast.train(local().model_copy(update={"name": "newer", "data": data}))
    ours, theirs = (
        sstcast.forecast(run, "2006-03-01", out=f"{name}.nc").value
        for name, run in (("ours", folder / FOLD), ("theirs", newer))
    )
    for name in ("sst", "sst_anomaly", "sst_spread", "heatwave_probability"):
        np.testing.assert_array_equal(ours[name], theirs[name])
    assert "2001-01-01..2005-12-31" in ours.attrs["source"]


def test_a_short_record_is_told_and_needs_no_year(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_ocean(tmp_path, years=6)
    monkeypatch.chdir(tmp_path)
    run = sstcast.train(local())  # on two years
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("runs/one: fitted without memory: ")
    path, _ = forecast(run.folder, "2001-02-01")
    assert np.isfinite(xr.load_dataset(path, engine="netcdf4")["sst"].values[..., 3:]).all()
