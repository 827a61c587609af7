"""Events of another definition than Hobday's, against plain NumPy and loops over days."""

import inspect
from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import sstcast
from sstcast.errors import SSTCastError
from sstcast.extremes.baselines import Baseline
from sstcast.extremes.definition import HOBDAY, Definition
from sstcast.extremes.records import Question
from sstcast.forecasting.forecast_events import events_of_forecast
from sstcast.reading.xarray_objects import hold

OWN = {"percentile": 87.5, "shortest": 3, "longest_gap": 1, "window": 5, "smooth": 7}


@pytest.fixture(scope="module")
def sst() -> xr.DataArray:
    """Six years of days in a grid of 2 x 2 equal cells."""
    time = pd.date_range("1999-01-01", "2004-12-31")
    random = np.random.default_rng(0)
    noise = np.convolve(random.normal(size=len(time) + 9), np.exp(-np.arange(10) / 4), "valid")
    values = 15 + 4 * np.sin(2 * np.pi * time.day_of_year.values / 365.25) + noise
    grid = np.broadcast_to(values.astype(np.float32)[:, None, None], (len(time), 2, 2))
    axes = {"time": time, "lat": [-42.0, -41.75], "lon": [148.0, 148.25]}
    return xr.DataArray(grid, axes, ("time", "lat", "lon"), "sst", {"units": "degC"})


def threshold_by_hand(sst: xr.DataArray, percent: float) -> np.ndarray:
    """Return the threshold of each day of the first cell, with the widths of `OWN`."""
    series = sst[:, 0, 0].to_series().astype(float)
    years = sorted({*series.index.year})
    days = list(pd.date_range("2000-01-01", "2000-12-31"))
    table = np.full((len(years), 366), np.nan)
    for row, year in enumerate(years):
        for column, day in enumerate(days):
            if (day.month, day.day) != (2, 29) or year % 4 == 0:
                table[row, column] = series[pd.Timestamp(year, day.month, day.day)]
        if year % 4:
            table[row, 59] = (table[row, 58] + table[row, 60]) / 2
    flat, found = table.ravel(), []
    for column in range(366):
        near = [row * 366 + column + shift for row in range(len(years)) for shift in range(-2, 3)]
        found.append(np.percentile([flat[index] for index in near if 0 <= index < flat.size], percent))
    smooth = np.mean([np.roll(found, shift) for shift in range(-3, 4)], axis=0)
    column_of = {(day.month, day.day): column for column, day in enumerate(days)}
    return np.array([smooth[column_of[day.month, day.day]] for day in series.index])


def events_by_hand(beyond: np.ndarray) -> list[tuple[int, int]]:
    """Return first and last day of the events of `OWN`: runs of three days, joined over one day."""
    runs, day = [], 0
    for is_beyond, group in groupby(beyond):
        length = len([*group])
        if is_beyond and length >= 3:
            if runs and day - runs[-1][1] <= 2:
                runs[-1] = (runs[-1][0], day + length - 1)
            else:
                runs.append((day, day + length - 1))
        day += length
    return runs


@pytest.mark.parametrize("cold", [False, True])
def test_events_of_an_own_definition_are_those_of_plain_numpy(
    sst: xr.DataArray,
    tmp_path: Path,
    cold: bool,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threshold = threshold_by_hand(sst, 12.5 if cold else 87.5)
    values = sst[:, 0, 0].values.astype(float)
    expected = events_by_hand(values < threshold if cold else values > threshold)
    with caplog.at_level("INFO", "sstcast"):
        found = sstcast.heatwaves(sst, cold=cold, out=tmp_path / "own.nc", **OWN).value
    assert "are not Hobday's: percentile 87.5" in caplog.text
    first = slice(0, int(found["cell_events"][0]))
    days = [sst["time"].values[list(ends)] for ends in zip(*expected, strict=True)]
    for name, of in zip(("start", "end"), days, strict=True):
        np.testing.assert_array_equal(found[f"event_{name}"][first], of)
    assert len(expected) > 30
    text = (
        "percentile 87.5, window of 5 days, smoothed over 7 days, events of at least 3 days, joined over at most 1"
    )
    assert found.attrs["definition"] == text
    assert text in found.attrs["summary"]
    (points := tmp_path / "points.csv").write_text("name,lat,lon\npier,-42,148\n")
    table = sstcast.heatwaves(sst, points, cold=cold, out=tmp_path / "own.csv", **OWN).value
    np.testing.assert_array_equal(table["start"], days[0])
    assert set(table["definition"]) == {text}
    monkeypatch.chdir(tmp_path)
    before = {*tmp_path.iterdir()}
    for places in ((), points):  # of an object there is no file unless it is named
        in_memory = sstcast.heatwaves(sst, places, cold=cold, **OWN)
        assert (in_memory.path, in_memory.new, {*tmp_path.iterdir()}) == (None, False, before)
        if places:
            assert in_memory.value.equals(table)
        else:
            xr.testing.assert_allclose(in_memory.value.drop_attrs(), found.drop_attrs())


def test_the_default_is_hobdays_and_only_another_is_told(
    sst: xr.DataArray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = inspect.signature(sstcast.heatwaves).parameters
    assert Definition(**{name: defaults[name].default for name in OWN}) == HOBDAY
    monkeypatch.chdir(tmp_path)
    sst.to_netcdf("x.nc")
    made = sstcast.heatwaves("x.nc")
    assert "definition" not in made.value.attrs
    assert "definition" not in made.value.attrs["recipe"]
    made.value.close()
    with pytest.raises(
        SSTCastError, match=r"holds .*, events of Hobday's definition, fixed, .*; name another file with --out"
    ):
        sstcast.heatwaves("x.nc", shortest=6)
    one = sstcast.heatwaves("x.nc", shortest=1, longest_gap=0, out="one.nc").value
    single = one["event_duration"].values == 1
    assert single.any()
    assert np.isnan(one["event_intensity_variability"].values[single]).all()


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("--percentile 50: give one between 50 and 100", {"percentile": 50}),
        ("--percentile nan", {"percentile": np.nan}),
        ("--percentile 100", {"percentile": 100}),
        ("--shortest 0", {"shortest": 0, "longest_gap": 0}),
        ("--longest-gap 5: give 0 or more days, fewer than --shortest, 5", {"longest_gap": 5}),
        ("--longest-gap -1", {"longest_gap": -1}),
        (r"--window 10: give the full width, an odd number .* \(a half width of 5 is 11\)", {"window": 10}),
        ("--window 367", {"window": 367}),
        ("--smooth 0", {"smooth": 0}),
    ],
)
def test_a_definition_that_is_none_is_refused(words: str, options: dict[str, float]) -> None:
    with pytest.raises(SSTCastError, match=words):
        Definition(**options)


def test_heat_stress_and_forecasts_have_no_definition(sst: xr.DataArray) -> None:
    question = Question(definition=Definition(longest_gap=1))
    with pytest.raises(SSTCastError, match="--dhw: degree heating weeks have no --longest-gap"):
        question._replace(dhw=True).check()
    days = sstcast.api.arguments.field_source(hold(sst))
    with pytest.raises(SSTCastError, match=r"--longest-gap: .* is a forecast"):
        events_of_forecast(xr.Dataset(), days, question)


def test_a_detrended_baseline_is_of_the_definition(sst: xr.DataArray) -> None:
    series = sst[:, 0, :1].rename(lon="place").drop_vars("lat")
    first, last = (sst.indexes["time"][day].date() for day in (0, -1))
    limits = [
        Baseline("detrended", first, last, Definition(percentile=percent)).daily(series)[1] for percent in (80, 95)
    ]
    assert (limits[0] < limits[1]).all()
