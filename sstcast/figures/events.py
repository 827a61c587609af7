"""Figures of marine heatwaves: the line of an event, events by year, and days in each category by week."""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from sstcast.extremes.heatwaves import CATEGORIES, FREEZING, UNDEFINED, multiples
from sstcast.figures.colours import CATEGORY_COLOURS
from sstcast.figures.curves import BAND_ALPHA, MODEL_COLOUR, SIZE, THRESHOLD_COLOUR, date_axis, legend, style_axes
from sstcast.figures.maps import SLIDE, PanelArea, draw_panels
from sstcast.figures.projection import DEFAULT_PROJECTION, View
from sstcast.forecasting.freezing import interval
from sstcast.geo import Box
from sstcast.ocean.lead_weeks import WEEK
from sstcast.types import Array


def draw_event(
    days: xr.Dataset, forecast: xr.Dataset | None = None, cold: bool = False, title: str = ""
) -> Figure:
    """Draw the temperature of a place with climatology and threshold, and fill the categories of its days.

    Args:
        days: `sst`, `climatology` and `threshold(time)` in degC.
        forecast: `sst` and `sst_spread(time)` in degC of days ahead, with their `climatology` and `threshold`, and
            the `freezing_point` if there is one. The line goes on with an interval of 80 %.
        cold: whether the threshold is that of cold spells.
        title: the title.
    """
    figure = Figure(figsize=(2 * SIZE[0], SIZE[1]), dpi=150, layout="constrained")
    ax = figure.add_subplot(ylabel="SST (°C)", title=title)
    names = ["sst", "climatology", "threshold"]
    whole = days[names] if forecast is None else xr.concat([days[names], forecast[names]], "time")
    time = whole["time"].values
    sst, climatology, threshold = (whole[name].values for name in names)
    fill_categories(ax, time, sst, climatology, threshold, cold)
    ax.plot(time, whole["climatology"], color="0.4", linestyle=":", label="climatology")
    percentile = "10th percentile" if cold else "90th percentile"
    ax.plot(time, whole["threshold"], color=THRESHOLD_COLOUR, linestyle="--", label=percentile)
    ax.plot(days["time"].values, days["sst"], color="black", linewidth=1.4, label="observed")
    if forecast is not None:
        ahead, mean = forecast["time"].values, forecast["sst"]
        ends = interval(mean, forecast["sst_spread"], 80, forecast.get(FREEZING, np.nan))
        ax.fill_between(ahead, *ends, color=MODEL_COLOUR, alpha=BAND_ALPHA, linewidth=0)
        ax.plot(ahead, mean, color=MODEL_COLOUR, linewidth=2.4, label="forecast, 80 % interval")
        ax.axvline(days["time"].values[-1], color="0.2", linewidth=0.8)
    style_axes(ax)
    date_axis(ax)
    legend(figure)
    return figure


def fill_categories(
    ax: Any, time: NDArray[Any], sst: Array, climatology: Array, threshold: Array, cold: bool = False
) -> None:
    """Fill the area between threshold and temperature with the colours of the categories that it reaches."""
    sign = -1 if cold else 1
    lower = multiples(sign * climatology, sign * threshold)
    for number in range(1, len(CATEGORIES)):
        top = sign * sst if number == len(CATEGORIES) - 1 else np.minimum(sign * sst, lower[number])
        above = sign * sst > lower[number - 1]
        if above.any():
            edges = sign * lower[number - 1], sign * top
            style: Any = {"color": CATEGORY_COLOURS[number], "linewidth": 0, "label": CATEGORIES[number]}
            ax.fill_between(time, *edges, where=above, interpolate=True, alpha=0.8, zorder=0.9, **style)


def draw_events_by_year(events: pd.DataFrame, title: str = "") -> Figure:
    """Draw the largest intensity of each event at its peak, in the colour of its category.

    Args:
        events: a table of `sstcast.heatwaves`, with `peak`, `intensity_max` and `category`.
        title: the title.
    """
    figure = Figure(figsize=(2 * SIZE[0], SIZE[1]), dpi=150, layout="constrained")
    ax = figure.add_subplot(ylabel="Largest intensity (°C)", title=title)
    style_axes(ax)
    for number, category in enumerate(CATEGORIES[1:], 1):
        own = events[events["category"] == category]
        colour = CATEGORY_COLOURS[number]
        ax.vlines(own["peak"], 0, own["intensity_max"], color=colour, linewidth=1.5)
        ax.plot(own["peak"], own["intensity_max"], "o", color=colour, markersize=5)
    ax.axhline(0, color="0.2", linewidth=0.8)
    handles = [
        Line2D([], [], marker="o", color=CATEGORY_COLOURS[number], label=category)
        for number, category in enumerate(CATEGORIES[1:], 1)
        if (events["category"] == category).any()
    ]
    if handles:
        date_axis(ax)
        figure.legend(handles=handles, loc="outside upper left", ncols=4, frameon=False)
    return figure


def days_by_week(category: xr.DataArray) -> xr.DataArray:
    """Return the days in each category, `(category, week, lat, lon)`, from `category(lead, lat, lon)`, by lead
    week.

    Land is NaN, and so are cells in which no event is defined on any day of a week.
    """
    week = xr.DataArray((category["lead"].values - 1) // WEEK + 1, dims="lead", name="week")
    known = (category.notnull() & (category >= 0) & (category != UNDEFINED)).groupby(week).any()
    counts = [(category == number).groupby(week).sum() for number in range(1, len(CATEGORIES))]
    return xr.concat(counts, pd.Index(CATEGORIES[1:], name="category")).where(known)


def draw_days_by_week(
    category: xr.DataArray,
    *,
    title: str = "",
    credit: str = "",
    projection: str = DEFAULT_PROJECTION,
    area: PanelArea = SLIDE,
) -> Figure:
    """Draw a map for each lead week and each category that occurs, with the days in this category.

    Args:
        category: `category(lead, lat, lon)` as in a forecast's `heatwave_category`.
        title, credit, projection, area: as in `maps.draw_weeks`.
    """
    days = days_by_week(category)
    panels = {
        f"Week {week}\n{name}": days.sel(category=name, week=week)
        for name in days["category"].values
        for week in days["week"].values
    }
    occurring = {name: field for name, field in panels.items() if bool((field > 0).any())}
    view = View(Box.of(category), projection)
    whole_week = np.array([0.0, WEEK])
    figure, _ = draw_panels(
        occurring or panels, view, label="Days in the category", kind="count", area=area, values=whole_week
    )
    if title:
        figure.suptitle(title, fontsize="x-large")
    if credit:
        figure.supxlabel(credit, fontsize="x-small")
    return figure
