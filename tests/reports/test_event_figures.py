"""Figures of events: what they draw is what the tables and fields hold."""

import re

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_hex

from sstcast.extremes.heatwaves import events, limits_of
from sstcast.figures import heatwave_case as heatwave_case_module
from sstcast.figures.colours import CATEGORY_COLOURS
from sstcast.figures.events import days_by_week, draw_days_by_week, draw_event, draw_events_by_year
from sstcast.figures.heatwave_case import _most_severe, heatwave_case
from sstcast.figures.maps import ticks_of
from sstcast.figures.results import Results
from sstcast.ocean.prepared import Prepared
from sstcast.reading.days_of_year import on_days
from sstcast.runs import Run

TIME = pd.date_range("2020-01-01", periods=40)


def days(sst: np.ndarray, sign: int = 1) -> xr.Dataset:
    fields = {"sst": sst, "climatology": np.full(40, 20.0), "threshold": np.full(40, 20.0 + sign)}
    return xr.Dataset({name: ("time", values) for name, values in fields.items()}, {"time": TIME})


@pytest.mark.parametrize("sign", [1, -1])
def test_the_line_of_an_event_fills_the_categories_it_reaches(sign: int) -> None:
    sst = 20 + sign * 3.5 * np.exp(-((np.arange(40) - 15) ** 2) / 20)
    whole = days(sst, sign)
    ahead = whole.isel(time=slice(25, None)).assign(sst_spread=("time", np.full(15, 0.5)))
    figure = draw_event(whole.isel(time=slice(0, 25)), ahead, cold=sign == -1)
    (ax,) = figure.axes
    lines = {line.get_label(): line for line in ax.lines}
    np.testing.assert_array_equal(lines["observed"].get_ydata(), sst[:25])
    np.testing.assert_array_equal(lines["forecast, 80 % interval"].get_ydata(), sst[25:])
    filled = {area.get_label(): area for area in ax.collections}
    assert {"moderate", "strong", "severe"} <= set(filled)
    assert "extreme" not in filled  # 3.5 multiples
    for number, name in enumerate(("moderate", "strong", "severe"), 1):
        assert to_hex(filled[name].get_facecolor()[0]) == CATEGORY_COLOURS[number]
        heights = sign * (np.concatenate([path.vertices for path in filled[name].get_paths()])[:, 1] - 20)
        assert heights.min() == pytest.approx(number, abs=1e-6)
        assert heights.max() == pytest.approx(min(number + 1, 3.5), abs=1e-6)
    interval = next(area for area in ax.collections if str(area.get_label()).startswith("_"))
    ends = np.concatenate([path.vertices for path in interval.get_paths()])[:, 1]
    assert ends.max() == pytest.approx(sst[25:].max() + 1.2816 * 0.5, abs=1e-3)


def test_events_by_year_have_a_stem_each() -> None:
    table = pd.DataFrame({"peak": TIME[[3, 20, 33]], "intensity_max": [1.5, 2.5, 4.2]})
    table["category"] = ["moderate", "strong", "moderate"]
    (ax,) = draw_events_by_year(table).axes
    heads = [line for line in ax.lines if line.get_marker() == "o"]
    assert sorted(value for line in heads for value in line.get_ydata()) == [1.5, 2.5, 4.2]
    assert to_hex(heads[1].get_color()) == CATEGORY_COLOURS[2]
    assert draw_events_by_year(table.iloc[:0]).axes


def test_days_in_a_category_are_counted_by_week() -> None:
    category = np.zeros((10, 4, 5))
    category[:3, 0, 0], category[6, 0, 0], category[7:, 0, 0] = 1, 2, 3
    category[:, 1, 1] = np.nan  # land
    category[:7, 2, 2] = 5  # no event is defined in the first week
    axes = {"lead": np.arange(1, 11), "lat": -40 + 0.25 * np.arange(4), "lon": 150 + 0.25 * np.arange(5)}
    field = xr.DataArray(category, axes, ("lead", "lat", "lon"))
    found = days_by_week(field)
    assert found.sizes["week"] == 2
    assert found[:, :, 0, 0].values.tolist() == [[3, 0], [1, 0], [0, 3], [0, 0]]
    assert found[:, :, 1, 1].isnull().all()
    assert found[0, :, 2, 2].isnull().values.tolist() == [True, False]
    figure = draw_days_by_week(field)
    (mesh, *_) = figure.axes[0].findobj(QuadMesh)
    colours = {tuple(mesh.cmap(mesh.norm(count))) for count in range(8)}
    assert len(colours) == 8  # one for each number of days in a week
    np.testing.assert_array_equal(ticks_of(mesh.norm), np.arange(8))
    titles = {ax.get_title() for ax in figure.axes} - {""}
    assert titles == {"Week 1\nmoderate", "Week 1\nstrong", "Week 2\nsevere"}


@pytest.mark.parametrize("month", [31, 200])
def test_the_heatwave_shown_is_the_most_severe_that_is_forecast_soon_after_its_onset(
    scored: Run, month: int
) -> None:
    """By runs of days of each cell in turn, with initial dates so far apart that few or none follow an onset."""
    results = Results(scored.folder)
    vars(results.scores)["tables"] = tables = results.scores.tables.isel(init_time=slice(5, None, month))
    starts, valid = (tables[name].values for name in ("init_time", "valid_time"))
    sst = Prepared.of(results.data).open_cube()["sst"].load()
    limits = limits_of(results.prepared)
    normal, threshold = (
        on_days(limits[name], sst["time"]).values for name in ("climatology", "heatwave_threshold")
    )
    time, found = sst["time"].values, []
    for row, column in np.ndindex(sst.shape[1:]):
        inside = events((sst.values > threshold)[:, row, column, None])[:, 0]
        edges = np.flatnonzero(np.diff(np.r_[0, inside, 0]))
        for first, stop in zip(edges[::2], edges[1::2], strict=True):
            total = (sst.values - normal)[first:stop, row, column].sum()
            dates = [date for date in range(len(starts)) if np.isin(time[first:stop], valid[date]).any()]
            after = [int((starts[date] - time[first]) / np.timedelta64(1, "D")) for date in dates]
            if dates:
                found.append((any(0 <= of <= 7 for of in after), float(total), row, column, first))
    worst = max(found)
    date, row, column, after = _most_severe.__wrapped__(results)
    assert (row, column) == worst[2:4]
    assert starts[date] == time[worst[4]] + np.timedelta64(after, "D")
    assert (0 <= after <= 7) is worst[0]
    assert np.isin(valid[date], time[worst[4] :]).any()


def test_days_since_the_onset_are_in_the_title_if_they_are_many(
    scored: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    chart = next(heatwave_case(Results(scored.folder)))
    assert "The most severe heatwave" in chart.caption
    assert re.search(r"forecast ([1-7] days? after its onset|at its onset), from 200[34]", chart.caption)
    assert chart.figure.axes[0].get_title() == ""
    results = Results(scored.folder)
    date, row, column, _ = _most_severe(results)
    monkeypatch.setattr(heatwave_case_module, "_most_severe", lambda _: (date, row, column, 40))
    chart = next(heatwave_case(results))
    assert chart.figure.axes[0].get_title() == "Forecast 40 days after its onset"
