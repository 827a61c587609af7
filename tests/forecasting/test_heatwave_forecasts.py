"""Probabilities of heatwaves against closed forms, drawn trajectories, and the events of a perfect forecast."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.ndimage import label
from scipy.stats import norm

from sstcast.extremes.heatwaves import MARGIN_DAYS, categories, events
from sstcast.forecasting.heatwaves import with_heatwaves
from sstcast.forecasting.spread import Spread
from sstcast.storage.cf import describe
from sstcast.storage.dataset_files import write

PAST, LEADS, ROWS, COLS = 12, 20, 4, 30
INIT = np.datetime64("2003-12-20", "ns")
RANDOM = np.random.default_rng(0)


def walk(days: int) -> np.ndarray:
    """Return slow anomalies `[day, lat, lon]` in degC."""
    steps = RANDOM.normal(0, 0.5, (days + 40, ROWS, COLS))
    for day in range(1, len(steps)):
        steps[day] += 0.9 * steps[day - 1]
    return steps[40:].astype(np.float32)


def ocean(width: float, sign: int = 1) -> tuple[xr.Dataset, Spread, xr.Dataset]:
    """Return a forecast, its spread, and limits of one and minus one degree about 20 degC; the corner is land."""
    axes = {"lat": np.arange(ROWS) + 0.5, "lon": np.arange(COLS) + 0.5}
    sst = 20 + sign * walk(PAST + LEADS)
    sst[:, 0, 0] = np.nan
    lead = np.arange(1, LEADS + 1, dtype=np.int32)
    coords = axes | {"init_time": [INIT], "lead": lead, "past": np.arange(1 - PAST, 1)}
    dims = ("init_time", "lead", "lat", "lon")
    fields = xr.Dataset(
        {"sst": (dims, sst[None, PAST:]), "sst_past": (("init_time", "past", "lat", "lon"), sst[None, :PAST])},
        coords | {"valid_time": (dims[:2], INIT + (lead[None] * np.timedelta64(1, "D")))},
    )
    days = {"dayofyear": np.arange(1, 367), **axes}
    daily = xr.DataArray(np.full((366, ROWS, COLS), 20, np.float32), days, tuple(days))
    limits = xr.Dataset({"climatology": daily, "heatwave_threshold": daily + 1, "cold_spell_threshold": daily - 1})
    seasons = {"season": ["DJF", "MAM", "JJA", "SON"], "lead": lead, **axes}
    spread = xr.DataArray(np.full((4, LEADS, ROWS, COLS), width, np.float32), seasons, tuple(seasons))
    apart = np.abs(np.subtract.outer(lead, lead))
    return fields, Spread(spread, 0.9**apart), limits


@pytest.mark.parametrize(("event", "sign"), [("heatwave", 1), ("cold_spell", -1)])
def test_without_spread_a_forecast_holds_the_events_that_are_detected_in_it(event: str, sign: int) -> None:
    fields, spread, limits = ocean(0, sign)
    found = with_heatwaves(fields, spread, limits)
    whole = sign * (np.concatenate([fields["sst_past"][0], fields["sst"][0]]) - 20)
    whole = np.concatenate([whole, np.repeat(whole[-1:], MARGIN_DAYS, axis=0)])  # the last margin stays
    ahead = slice(PAST, PAST + LEADS)
    detected = events(whole > 1)
    assert 0.05 < detected[ahead].mean() < 0.95
    land = np.isnan(whole[0])
    np.testing.assert_array_equal(found[f"{event}_probability"][0].values[:, ~land], detected[ahead][:, ~land])
    assert np.isnan(found[f"{event}_probability"][0].values[:, land]).all()
    category = np.where(land, np.nan, categories(whole, np.zeros_like(whole), np.ones_like(whole))[ahead])
    np.testing.assert_array_equal(found[f"{event}_category"][0], category)
    if event == "cold_spell":
        return
    np.testing.assert_array_equal(
        found["exceedance_probability"][0].values[:, ~land], (whole > 1)[ahead][:, ~land]
    )
    for row, col in np.ndindex(ROWS, COLS):
        start, end = (pd.Timestamp(found[name].values[0, row, col]) for name in ("heatwave_start", "heatwave_end"))
        days = detected[:, row, col]
        inside = np.flatnonzero(days[ahead])
        if land[row, col] or not len(inside):
            assert (start, end) == (pd.NaT, pd.NaT)
            continue
        numbers, _ = label(days[: PAST + LEADS])
        event = np.flatnonzero(numbers == numbers[PAST + inside[0]])
        running = found["heatwave_running_probability"][0, :, row, col]
        assert running["running_day"].values.tolist() == [7, 14]
        assert running.values.tolist() == [PAST + day - 1 in event for day in (7, 14)]
        assert float(found["heatwave_event_probability"][0, row, col]) == 1
        ends = event[[0, -1]] - PAST + 1
        assert [(day - pd.Timestamp(INIT)).days for day in (start, end)] == ends.tolist()


def test_probabilities_are_those_of_many_drawn_trajectories() -> None:
    fields, spread, limits = ocean(0.8)
    found = with_heatwaves(fields, spread, limits).isel(init_time=0)
    mean = np.concatenate([fields["sst"][0], np.repeat(fields["sst"][0, -1:], MARGIN_DAYS, axis=0)]) - 20
    lead = np.arange(LEADS + MARGIN_DAYS)
    factor = np.linalg.cholesky(0.9 ** np.abs(np.subtract.outer(lead, lead)))
    draws = 4000
    area = found["heatwave_probability"].weighted(np.cos(np.radians(found["lat"]))).mean(["lat", "lon"])
    np.testing.assert_allclose(found["heatwave_area"], area, rtol=1e-5)
    for row, col in ((1, 3), (2, 17), (3, 8)):
        drawn = mean[:, row, col, None] + 0.8 * factor @ RANDOM.normal(size=(len(lead), draws))
        before = np.repeat(fields["sst_past"][0, :, row, col].values[:, None] - 20, draws, axis=1)
        whole = np.concatenate([before, drawn])
        inside, degree = (
            events(whole > 1)[PAST:-MARGIN_DAYS],
            categories(whole, 0 * whole, 0 * whole + 1)[PAST:-MARGIN_DAYS],
        )
        cell = found.isel(lat=row, lon=col)
        np.testing.assert_allclose(cell["heatwave_probability"], inside.mean(1), atol=0.06)
        begun = np.logical_or.accumulate(inside)
        over = np.logical_or.accumulate(begun[:-1] & ~inside[1:])
        expected = [(inside[day - 1] & ~over[day - 2]).mean() for day in (7, 14)]
        np.testing.assert_allclose(cell["heatwave_running_probability"], expected, atol=0.06)
        np.testing.assert_allclose(
            cell["exceedance_probability"], norm.sf(1, mean[:LEADS, row, col], 0.8), atol=1e-5
        )
        assert float(cell["heatwave_event_probability"]) == pytest.approx(inside.any(0).mean(), abs=0.06)
        shares = np.stack([(degree == number).mean(1) for number in range(5)])
        chosen = cell["heatwave_category"].values.astype(int)
        assert (shares.max(0) - shares[chosen, lead[:LEADS]]).max() < 0.1  # it is the most likely, or nearly
        if inside.any(0).mean() > 0.6:
            first = inside.argmax(0)[inside.any(0)]
            start = (cell["heatwave_start"].values - INIT) / np.timedelta64(1, "D") - 1
            assert abs(max(start, 0) - np.median(first)) <= 1


def test_where_no_event_is_defined_nothing_is_said_of_it() -> None:
    fields, spread, limits = ocean(0.5)
    whole = with_heatwaves(fields, spread, limits).isel(init_time=0)
    limits["heatwave_threshold"][:, 1, 4] = np.nan  # on no day
    days = fields["valid_time"].dt.dayofyear.values[0, 8:12] - 1
    limits["heatwave_threshold"][days, 2, 5] = np.nan
    found = with_heatwaves(fields, spread, limits).isel(init_time=0)
    undefined = np.zeros((LEADS, ROWS, COLS), bool)
    undefined[:, 1, 4] = undefined[8:12, 2, 5] = True
    land = np.isnan(fields["sst"][0].values)
    for name in ("exceedance_probability", "heatwave_probability"):
        np.testing.assert_array_equal(np.isnan(found[name]), undefined | land)
    np.testing.assert_array_equal(found["heatwave_category"] == 5, undefined)
    assert np.isnat(found["heatwave_start"].values[1, 4])
    cells = ~undefined.any(0)
    for name in ("heatwave_probability", "heatwave_category", "exceedance_probability"):
        np.testing.assert_array_equal(found[name].values[:, cells], whole[name].values[:, cells])
    xr.testing.assert_equal(found["cold_spell_probability"], whole["cold_spell_probability"])
    # The days without a threshold end an event, like days below it.
    assert (
        (found["heatwave_probability"][:, 2, 5] <= whole["heatwave_probability"][:, 2, 5] + 1e-6).values[:8].all()
    )


@pytest.mark.parametrize("ending", ["nc", "zarr"])
def test_days_and_categories_survive_a_file(tmp_path: Path, ending: str) -> None:
    fields, spread, limits = ocean(0.5)
    made = with_heatwaves(fields, spread, limits)
    path = tmp_path / f"forecast.{ending}"
    write(describe(made), path)
    with xr.open_dataset(path, engine="netcdf4" if ending == "nc" else "zarr") as read:
        assert made["heatwave_start"].isnull().any()
        assert made["heatwave_start"].notnull().any()
        for name in ("heatwave_start", "heatwave_end"):
            np.testing.assert_array_equal(read[name], made[name])
        np.testing.assert_array_equal(read["heatwave_category"], made["heatwave_category"])
        assert (
            read["heatwave_category"].attrs["flag_meanings"]
            == "none moderate strong severe extreme no_event_defined"
        )
