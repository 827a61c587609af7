"""Scores of heatwave probabilities in a hindcast, against plain NumPy from its forecasts and the source."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from scipy.stats import norm
from small_hindcast import metrics, plan, system

CELLS = ("lat", "lon")


def threshold(sst: xr.DataArray) -> np.ndarray:
    """The 90th percentile of each day of the year, `[366, lat, lon]`: 11 days around, smoothed over 31."""
    day, found = sst["time"].dt.dayofyear.values, []
    for centre in range(1, 367):
        apart = np.abs(day - centre)
        found.append(np.percentile(sst.values[np.minimum(apart, 366 - apart) <= 5], 90, axis=0))
    return np.mean([np.roll(found, shift, axis=0) for shift in range(-15, 16)], axis=0)


def in_event(hot: xr.DataArray) -> xr.DataArray:
    """Days of runs of five or more, and of the gaps of one or two days between two of them."""
    found = np.zeros(hot.shape)
    for cell in np.ndindex(hot.shape[1:]):
        series = "".join("x" if yes else "." for yes in hot.values[:, *cell])
        runs = series.replace("x.", "x .").replace(".x", ". x").split()
        long = "".join(run if len(run) >= 5 else "." * len(run) for run in runs)
        joined = long.replace("x.x", "xxx").replace("x..x", "xxxx")
        found[:, *cell] = [mark == "x" for mark in joined]
    return hot.copy(data=found)


@pytest.fixture
def folds(inside: Path) -> dict[str, xr.Dataset]:
    """By fold: what came true, what was known on the initial date, base rates, and the chances of system `one`."""
    with xr.open_dataset("small.nc") as ocean:
        sst = ocean["sst"].load()
    forecasts, found = xr.open_zarr("hindcast/one/hindcast.zarr"), {}
    for first in (2005, 2007):
        before = slice(None, str(first - 1))
        limit = sst.copy(data=threshold(sst.sel(time=before))[sst["time"].dt.dayofyear.values - 1])
        hot = (sst > limit).astype(float)
        event, row = in_event(hot), (hot.rolling(time=5).sum() == 5).astype(float)
        some = forecasts.sel(init_time=slice(str(first), str(first + 1))).load()
        margin = some["sst"] - limit.sel(time=some["valid_time"]).drop_vars("time")
        found[str(first)] = xr.Dataset(
            {
                "chance": margin.copy(data=norm.cdf(margin / some["sst_spread"])),
                "exceedance": hot.sel(time=some["valid_time"]).drop_vars("time"),
                "event": event.sel(time=some["valid_time"]).drop_vars("time"),
                "exceedance state": hot.sel(time=some["init_time"]).drop_vars("time"),
                "event state": row.sel(time=some["init_time"]).drop_vars("time"),
                "exceedance rate": hot.sel(time=before).mean("time"),
                "event rate": in_event(hot.sel(time=before)).mean("time"),
                "area": np.cos(np.deg2rad(sst["lat"])) * sst[0].notnull(),
            }
        )
    return found


@pytest.mark.parametrize(
    ("kind", "name", "probability"),
    [
        ("exceedance", "one", "chance"),
        ("exceedance", "base rate", "exceedance rate"),
        ("exceedance", "persistence of state", "exceedance state"),
        ("event", "base rate", "event rate"),
        ("event", "persistence of state", "event state"),
    ],
)
def test_brier_scores_of_all_folds_by_thresholds_of_the_days_before(
    folds: dict[str, xr.Dataset], kind: str, name: str, probability: str
) -> None:
    scores, ratios = metrics()["heatwaves"][kind], metrics()["ratios"][kind][name]
    of, area = scores[name], folds["2005"]["area"]
    errors = [((days[probability] - days[kind]) ** 2).transpose("init_time", ...) for days in folds.values()]
    both = xr.concat(errors, "init_time").where(area > 0).weighted(area)
    close = 5e-4  # forecasts are stored in hundredths of a degree

    by_date = both.mean(CELLS)
    assert of["brier"] == pytest.approx(float(by_date.mean()), abs=close)
    np.testing.assert_allclose(of["by_lead"]["brier"], by_date.mean("init_time"), atol=close)
    years = by_date["init_time"].dt.year
    for fold, brier in of["by_fold"]["brier"].items():
        inside = (years >= int(fold)) & (years <= int(fold) + 1)
        assert brier == pytest.approx(float(by_date[inside].mean()), abs=close)
    summer = by_date["valid_time"].dt.season == "DJF"
    assert of["by_season"]["brier"]["DJF"] == pytest.approx(float(by_date.where(summer).mean()), abs=close)
    came = xr.concat([days[kind] for days in folds.values()], "init_time").weighted(area).mean()
    assert of["observed"] == pytest.approx(float(came), abs=1e-4)  # two days are equal to the threshold
    for other in ("base rate", metrics()["reference"]):
        compared = ratios[other]
        assert compared["ratio"] == pytest.approx(of["brier"] / scores[other]["brier"], rel=1e-3)
        assert compared["interval"][0] <= compared["ratio"] <= compared["interval"][1]


def test_all_systems_are_measured_by_the_longest_record() -> None:
    late = {"train": ["2001-06-01", "2002-12-31"], "validation": [2003, 2003], "test": [2004, 2004]}
    planned = plan(system("late", splits=late), system("early"))
    bases = [[str(day) for day in planned.thresholds(fold).splits.base] for fold in planned.protocol.folds]
    assert bases == [["2001-01-01", "2004-12-31"], ["2001-01-01", "2006-12-31"]]
