"""Periods above and below a temperature, against a loop over days."""

from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import sstcast
from sstcast.errors import SSTCastError
from sstcast.extremes.definition import Definition
from sstcast.extremes.heatwave_events import find_events
from sstcast.extremes.records import Question

MEASURES = ("mean", "max", "variability", "cumulative")
COLUMNS = [
    *("place", "start", "peak", "end", "duration"),
    *(f"intensity_{name}{of}" for of in ("_threshold", "_absolute") for name in MEASURES),
    *("onset_rate", "decline_rate", "baseline"),
]


def runs(beyond: np.ndarray, shortest: int, gap: int) -> list[tuple[int, int]]:
    """Return first and last day of the runs of days, joined over gaps."""
    found, day = [], 0
    for is_beyond, group in groupby(beyond):
        length = len([*group])
        if is_beyond and length >= shortest:
            joined = found and day - found[-1][1] - 1 <= gap
            found[-1:] = [(found[-1][0], day + length - 1)] if joined else [*found[-1:], (day, day + length - 1)]
        day += length
    return found


@pytest.mark.parametrize("below", [False, True])
def test_periods_beyond_a_temperature_are_those_of_a_loop(tmp_path: Path, below: bool, command: Any) -> None:
    """Of half a year, for which no climatology is known."""
    time = pd.date_range("2001-01-01", "2001-06-30")
    noise = np.convolve(np.random.default_rng(1).normal(size=len(time) + 9), np.exp(-np.arange(10) / 4), "valid")
    values = (15 + noise).astype(np.float32)
    values[:8] = 11 if below else 19
    axes = {"time": time, "lat": [-42.0, -41.75], "lon": [148.0, 148.25]}
    grid = np.broadcast_to(values[:, None, None], (len(time), 2, 2))
    xr.Dataset({"sst": (("time", "lat", "lon"), grid, {"units": "degC"})}, axes).to_netcdf(tmp_path / "x.nc")
    option, limit, sign = ("below", 14.6, -1) if below else ("above", 15.4, 1)
    expected = runs(sign * values.astype(float) > sign * limit, 3, 1)
    assert len(expected) > 5
    (points := tmp_path / "points.csv").write_text("name,lat,lon\npier,-42,148\n")
    common = (tmp_path / "x.nc", f"--{option}", limit, "--shortest", 3, "--longest-gap", 1, "--out")
    code, said, _ = command("heatwaves", *common, tmp_path / "own.csv", "--places", points)
    assert code == 0
    assert f"pier: {len(expected)} {'cold' if below else 'warm'} periods, the longest of " in said
    table = pd.read_csv(tmp_path / "own.csv")
    assert [*table.columns] == COLUMNS
    assert set(table["baseline"]) == {f"{option} {limit} degC, events of at least 3 days, joined over at most 1"}
    for row, (first, last) in zip(table.to_dict("records"), expected, strict=True):
        own = values[first : last + 1].astype(float)
        assert (row["start"], row["end"]) == tuple(str(time[day].date()) for day in (first, last))
        assert row["peak"] == str(time[first + (sign * own).argmax()].date())
        assert row["duration"] == len(own)
        for of, shift in (("_threshold", limit), ("_absolute", 0)):
            departure = own - shift
            measures = [departure.mean(), sign * (sign * departure).max(), departure.std(ddof=1), departure.sum()]
            found = [row[f"intensity_{name}{of}"] for name in MEASURES]
            np.testing.assert_allclose(found, measures, atol=2e-5)
        extreme = sign * (sign * (own - limit)).max()
        beside = (own[0] + values[first - 1]) / 2 - limit
        rate = (extreme - beside) / ((sign * own).argmax() + 0.5) if first else np.nan
        np.testing.assert_allclose(row["onset_rate"], rate, atol=2e-5)
    cells = sstcast.heatwaves(
        tmp_path / "x.nc", **{option: limit}, shortest=3, longest_gap=1, out=tmp_path / "own.nc"
    ).value
    assert not {"event_category", "event_days_moderate", "event_intensity_mean", "event_intensity"} & {*cells}
    assert cells.attrs["title"] == f"Periods {option} a temperature in x.nc"
    assert f"every event ({option} {limit} degC, " in cells.attrs["summary"]
    assert cells["cell_events"].values.tolist() == [len(expected)] * 4
    np.testing.assert_array_equal(cells["event_duration"][: len(expected)], table["duration"])
    total = sum((values[first : last + 1].astype(float) - limit).sum() for first, last in expected)
    np.testing.assert_allclose(cells["event_intensity_threshold"].values, total, rtol=1e-5)


def test_equal_temperatures_are_not_beyond_one_another() -> None:
    for sign in (1, -1):
        values = np.full((6, 3), 20, np.float32) + np.float32(sign) * np.array([0, 5e-5, 2e-4], np.float32)
        limit = np.full((6, 3), 20, np.float32)
        assert find_events(values, None, limit, cold=sign < 0)[1]["series"].tolist() == [2]


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("--above: has no --below; leave one", {"above": 28, "below": 10}),
        ("--below: has no --cold", {"below": 10, "cold": True}),
        ("--above: has no --dhw", {"above": 28, "dhw": True}),
        ("--above: has no --years", {"above": 28, "years": "1991:2000"}),
        ("--above: has no --baseline", {"above": 28, "kind": "moving"}),
        ("--above: has no --window", {"above": 28, "definition": Definition(window=5)}),
        ("--above 82: give one temperature from -2 to 45 degC", {"above": 82}),
        ("--below nan", {"below": np.nan}),
    ],
)
def test_a_temperature_has_no_climatology(words: str, options: dict[str, Any]) -> None:
    with pytest.raises(SSTCastError, match=words):
        Question(**options).check()
    Question(above=28, definition=Definition(shortest=10, longest_gap=3)).check()
