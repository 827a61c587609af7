"""`sstcast.load(run).forecast(history)`: the histories it takes, and those it refuses."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scored_runs
import xarray as xr
from refusals import refused
from scored_runs import configure
from small_ocean import make_sst
from untrained import make_run

import sstcast
from sstcast.config import load_config
from sstcast.errors import SSTCastError
from sstcast.forecasting.loaded_run import LoadedRun
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared

Change = Callable[[xr.DataArray], xr.DataArray]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, stores: Path, sst_file: Path) -> LoadedRun:
    config = configure(tmp_path_factory.mktemp("runs"), sst_file, horizon=5, directory=stores)
    return sstcast.load(scored_runs.make_run(config))


@pytest.fixture
def history() -> xr.DataArray:
    return make_sst()["sst"][-30:]


@pytest.fixture(scope="module")
def expected(run: LoadedRun) -> xr.Dataset:
    return run.forecast(make_sst()["sst"][-30:])


def same(one: xr.Dataset, other: xr.Dataset) -> None:
    xr.testing.assert_allclose(one.drop_attrs(), other.drop_attrs(), rtol=0, atol=1e-5)


WELCOME: dict[str, Change] = {
    "the last ten days only": lambda h: h[-10:],
    "float32 at noon, north first, west of Greenwich": lambda h: (
        h[:, ::-1].astype("float32").assign_coords(lon=h["lon"] - 360, time=h["time"] + np.timedelta64(12, "h"))
    ),
    "larger, in other order, of dask, a scalar more": lambda h: (
        h.pad(lat=(0, 2), lon=(3, 3), mode="wrap")
        .assign_coords(lat=-11.875 + 0.25 * np.arange(10), lon=169.375 + 0.25 * np.arange(18), zlev=0.0)
        .transpose("lon", "time", "lat")
        .chunk(time=7)
    ),
    "times as texts, in disorder": lambda h: h.assign_coords(
        time=[f"{day:%Y-%m-%d}" for day in h.indexes["time"]]
    ).isel(time=[*range(10, 30), *range(10)]),
    "times of cftime": lambda h: h.convert_calendar("standard", use_cftime=True),
}


@pytest.mark.parametrize("case", WELCOME)
def test_histories_of_all_kinds_give_one_forecast(
    run: LoadedRun, history: xr.DataArray, expected: xr.Dataset, case: str
) -> None:
    same(of_leads(run.forecast(WELCOME[case](history))), of_leads(expected))


def of_leads(forecast: xr.Dataset) -> xr.Dataset:
    """Leave out the past, and the start of an event that may have begun in it."""
    of_past = ["heatwave_start", "heatwave_end", "heatwave_area_now", "heatwave_area_now_quantile"]
    return forecast.drop_dims("past").drop_vars(of_past)


def test_only_the_last_days_count(run: LoadedRun, history: xr.DataArray, expected: xr.Dataset) -> None:
    older = history.copy()
    older[:-10] += 2
    same(of_leads(run.forecast(older)), of_leads(expected))
    older[-10] += 2
    assert float(abs(run.forecast(older)["sst"] - expected["sst"]).max()) > 1e-3


def without(history: xr.DataArray, *cell: int | slice) -> xr.DataArray:
    holed = history.copy()
    holed[cell] = np.nan
    return holed


REFUSED: dict[str, tuple[Change, str]] = {
    "nine days": (lambda h: h[-9:], "history: holds 9 days; the run needs the last 10"),
    "a gap": (lambda h: h.isel(time=[*range(20), *range(22, 30)]), "2004-12-23 is missing"),
    "a day twice": (lambda h: h.isel(time=[*range(30), 25]), "history: holds 2004-12-27 twice; keep one"),
    "a jump": (lambda h: h.where(h["time"] < h["time"][-1], h + 12), "2004-12-30 and 2004-12-31 differ by 12."),
    "an hole in one day": (
        lambda h: without(h, -4, 5, 5),
        "1 day without values at ocean cells, the first 2004-12-28",
    ),
    "a hole in all days": (lambda h: without(h, slice(None), 5, 5), "1 cells hold values where the run has land"),
    "values on land": (lambda h: h.fillna(0), "6 cells hold values where the run has land"),
    "kelvin": (lambda h: h + 273.15, "not sea surface temperatures in degC"),
    "nothing": (lambda h: h * np.nan, "values from nan"),
    "half the region": (lambda h: h[:, :, :6], "does not hold the run's cells"),
    "other cells": (lambda h: h.assign_coords(lat=h["lat"] + 0.1), "lat -11.875..-10.125 (8)"),
    "no longitude": (lambda h: h.drop_vars("lon"), "none is recognised as lon"),
    "members": (lambda h: xr.concat([h, h], "member"), "has an extra dimension member of 2"),
    "numbers for days": (lambda h: h.assign_coords(time=range(30)), "time does not hold dates"),
    "a dataset": (lambda h: h.to_dataset(name="sst"), "is a Dataset"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_histories_it_refuses(run: LoadedRun, history: xr.DataArray, case: str) -> None:
    change, words = REFUSED[case]
    with refused(words):
        run.forecast(change(history))


@pytest.mark.parametrize("protocol", ["physical", "paper"])
def test_cells_before_and_after_averaging(
    run_yaml: Path, history: xr.DataArray, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sstcast.forecasting.loaded_run.check_forecast", lambda *_: None)  # of random weights
    coarse = ["data.region.coarsen=2", "data.region.tile=[4, 3]", f"data.protocol={protocol}"]
    config = load_config(run_yaml, coarse)
    prepare(config.data)
    run = sstcast.load(make_run(config).folder)
    native = run.forecast(history)
    assert (native.sizes["lat"], native.sizes["lon"]) == (4, 6)
    cube = xr.open_zarr(Prepared.of(config.data).cube)["sst"]
    if protocol == "physical":
        same(of_leads(run.forecast(cube)), of_leads(native))
    else:
        with pytest.raises(SSTCastError, match="give the cells of the source"):
            run.forecast(cube)


def test_preliminary_days_are_named(run: LoadedRun, history: xr.DataArray, expected: xr.Dataset) -> None:
    assert expected.attrs["data"].endswith("not known which days are preliminary")
    marks = np.isin(np.arange(30), [3, 25, 26, 29])
    marked = history.assign_coords(preliminary=("time", marks))
    named = "preliminary days: 2004-12-27..2004-12-28, 2004-12-31"
    assert run.forecast(marked).attrs["data"].endswith(named)
    final = history.assign_coords(preliminary=("time", np.zeros(30, bool)))
    assert run.forecast(final).attrs["data"].endswith("preliminary days: none")


def test_absent_stores_are_prepared(
    run: LoadedRun, run_yaml: Path, tmp_path: Path, history: xr.DataArray, expected: xr.Dataset, sst_file: Path
) -> None:
    config = configure(tmp_path, shutil.copy(sst_file, tmp_path / "small.nc"), horizon=5)
    made = make_run(config)
    with refused("small.nc: no such file"):
        Path(config.data.source).rename(tmp_path / "away.nc")
        sstcast.load(made).forecast(history)
    (tmp_path / "away.nc").rename(config.data.source)
    shutil.copy(run.run.best, made.best)
    same(sstcast.load(made).forecast(history), expected)


def test_geography_reaches_the_model(run_yaml: Path, history: xr.DataArray) -> None:
    """A model that knows the time of year forecasts another change from the same anomalies half a year on."""
    config = load_config(run_yaml, ["model.geography=true"])
    prepare(config.data)
    run = sstcast.load(make_run(config).folder)
    climatology = xr.open_zarr(Prepared.of(config.data).statistics)["climatology"].load()

    def normal(day: str) -> xr.DataArray:
        days = pd.date_range(end=day, periods=10)
        values = climatology.sel(dayofyear=days.day_of_year).values
        return history[-10:].copy(data=values).assign_coords(time=days)

    winter, summer = (run.forecast(normal(day))["sst_anomaly"].values for day in ("2004-12-31", "2004-06-30"))
    assert np.nanmax(abs(winter - summer)) > 1e-3
