"""The forecast of the most severe marine heatwave in a run's test days, beside the observed temperatures."""

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sstcast.errors import counted, reading
from sstcast.extremes.heatwave_record import events_of_cells, events_of_series
from sstcast.extremes.heatwaves import FREEZING, LIMITS, MARGIN_DAYS, events, limits_of
from sstcast.figures.curves import (
    BAND_ALPHA,
    MODEL_COLOUR,
    SIZE,
    THRESHOLD_COLOUR,
    Chart,
    date_axis,
    legend,
    style_axes,
)
from sstcast.figures.events import draw_events_by_year, fill_categories
from sstcast.figures.maps import select_region
from sstcast.figures.results import Results
from sstcast.forecasting.chances import between, chance
from sstcast.forecasting.freezing import interval
from sstcast.names import DAY
from sstcast.reading.days_of_year import on_days
from sstcast.scores.evaluate import open_forecasts
from sstcast.types import Array

if TYPE_CHECKING:
    from sstcast.forecasting.spread import Spread

INTERVALS = (95, 80, 50)  # per cent
SHOWN_DAYS = 42  # days shown before the forecast
EXPECTED = ("heatwave_threshold", "climatology")
LIMITS_OF_EVENTS = ("climatology", "heatwave_threshold")
DAYS_AFTER_ONSET = 3  # preferred days from the onset of the heatwave to the initial date of the forecast
MOST_DAYS = 7  # from the onset to the initial date, beyond which the figure has them in its title
LONGEST_YEAR = 366 * DAY


def heatwave_case(results: Results) -> Iterator[Chart]:
    """Draw temperature and heatwave probability as forecast shortly after the onset of the most severe heatwave.

    The heatwave is chosen from observations only, by its cumulative intensity: the sum of its departures from the
    climatology (Hobday et al. 2016).
    """
    if results.run is None or (position := _most_severe(results)) is None:
        return
    date, row, col, after = position
    cell, spread = _forecast(results, date, {"lat": [row], "lon": [col]})
    init, last = cell["init_time"].values[0], cell["valid_time"].values[0, -1]
    observed = results.prepared.open_cube()["sst"].isel(lat=[row], lon=[col])
    days = observed.sel(time=slice(init - (SHOWN_DAYS - 1) * DAY, last + MARGIN_DAYS * DAY)).load()
    limits = limits_of(results.prepared, *EXPECTED).isel(lat=[row], lon=[col])
    width = spread.spread(cell["valid_time"]).values.ravel()
    daily = xr.Dataset({name: on_days(limits[name], days["time"]) for name in EXPECTED})
    inside = events(days.values > daily["heatwave_threshold"].values).ravel()
    daily = daily.assign(sst=days).isel(lat=0, lon=0).assign(inside=("time", inside))
    yield _draw_case(cell, width, daily.sel(time=slice(None, last)), after)


def heatwave_history(results: Results) -> Iterator[Chart]:
    """Draw all heatwaves of the cell of the most severe heatwave in the test days."""
    if results.run is None or (position := _most_severe(results)) is None:
        return
    _, row, col, _ = position
    series = results.prepared.open_cube()["sst"].isel(lat=row, lon=col).load()
    limits = limits_of(results.prepared, *EXPECTED).isel(lat=row, lon=col)
    normal, threshold = (on_days(limits[name], series["time"]).values[:, None] for name in LIMITS_OF_EVENTS)
    place = series.expand_dims(place=["cell"], axis=1).drop_vars(["lat", "lon"])
    table = events_of_series(place, normal, threshold)
    worst = table.loc[table["intensity_cumulative"].idxmax()]
    years = f"{series.time.dt.year.values[0]} to {series.time.dt.year.values[-1]}"
    text = (
        f"The {counted(len(table), 'heatwave')} of the cell at {_location(series)}, {years}, at their peaks, in "
        "the colours of their categories. The one with the largest cumulative intensity lasted "
        f"{counted(int(worst['duration']), 'day')}, to {worst['end']:%Y-%m-%d}."
    )
    figure = draw_events_by_year(table)
    figure.set_size_inches(SIZE)  # a column of the report: drawn for a whole page, its text would be too small
    yield Chart(figure, text, text)


def heatwave_weeks(results: Results) -> tuple[xr.DataArray, str] | None:
    """Return the category of each day forecast at the onset of the most severe heatwave, and its initial date.

    The category is `(lead, lat, lon)`. Without a run or a heatwave, it is None.
    """
    if results.run is None or (position := _most_severe(results)) is None:
        return None
    fields, _ = _forecast(results, position[0], {})
    category = select_region(fields[["heatwave_category"]].isel(init_time=0), results.region)["heatwave_category"]
    return category, str(np.datetime_as_string(fields["init_time"].values[0], unit="D"))


def _forecast(results: Results, date: int, cells: dict[str, list[int]]) -> tuple[xr.Dataset, "Spread"]:
    """Return the forecast of some `cells`, with heatwaves, from the initial date at a position, and its spread."""
    # Imported here because these modules need PyTorch, which no other figure does.
    from sstcast.forecasting.heatwaves import with_heatwaves
    from sstcast.forecasting.spread import Spread, calibrated

    assert results.run is not None
    with reading(results.run.forecasts, "delete it and evaluate again"):
        fields = open_forecasts(results.run)[["sst"]].isel({"init_time": [date], **cells}).load()
    init = fields["init_time"].values[0]
    observed = results.prepared.open_cube()["sst"].isel(cells)
    past = (
        observed.sel(time=slice(init - (SHOWN_DAYS - 1) * DAY, init)).where(fields["sst"][0, 0].notnull()).load()
    )
    fields["sst_past"] = (("init_time", "past", "lat", "lon"), past.transpose("time", "lat", "lon").values[None])
    fields = fields.assign_coords(past=np.arange(1 - past.sizes["time"], 1))
    spread = calibrated(results.run, results.prepared)
    spread = Spread(spread.values.isel(cells), spread.correlation)
    limits = limits_of(results.prepared, *LIMITS, FREEZING).isel(cells)
    return with_heatwaves(fields, spread, limits).assign({FREEZING: limits[FREEZING]}), spread


@lru_cache(maxsize=1)
def _most_severe(results: Results) -> tuple[int, int, int, int] | None:
    """Return the positions of initial date, row and column of the forecast to show, and its days after the onset.

    Of the heatwaves of which a day is forecast at most `MOST_DAYS` days after the onset, it is the one with the
    largest cumulative intensity, also of its days up to a year before the first forecast and after the last. If
    there are none, it is that of all of which a day is forecast. Return None if there is none.
    """
    tables = results.scores.tables
    starts, valid = tables["init_time"].values, tables["valid_time"].values
    sst = results.prepared.open_cube()["sst"].sel(time=slice(starts[0] - LONGEST_YEAR, valid.max() + LONGEST_YEAR))
    sst = sst.where(tables["mse_by_cell"].isel(units=0, system=0, week=0).notnull())
    limits = limits_of(results.prepared, *EXPECTED).transpose(..., "lat", "lon").stack(cell=("lat", "lon"))

    def daily(block: xr.DataArray) -> tuple[Array, Array]:
        own = limits.isel(cell=block["cell"].values)
        normal, threshold = (on_days(own[name], block["time"]).values for name in LIMITS_OF_EVENTS)
        return normal, threshold

    found = events_of_cells(sst, daily)
    onsets, ends = found["event_start"].values, found["event_end"].values
    cells = np.repeat(np.arange(found.sizes["cell"]), found["cell_events"].values)
    chosen: tuple[int, int, int] | None = None  # event, date and days after the onset
    for event in np.argsort(-found["event_intensity_cumulative"].values, kind="stable"):
        reaches = ((valid >= onsets[event]) & (valid <= ends[event])).any(1)
        if not reaches.any():
            continue
        after = (starts - onsets[event]) // DAY
        date = int(np.argmin(np.where(reaches, abs(after - DAYS_AFTER_ONSET), np.iinfo(int).max)))
        is_soon = 0 <= after[date] <= MOST_DAYS
        if is_soon or chosen is None:
            chosen = int(event), date, int(after[date])
        if is_soon:
            break
    if chosen is None:
        return None
    event, date, days = chosen
    lat, lon = (found[f"cell_{axis}"].values[cells[event]] for axis in ("lat", "lon"))
    return date, int(sst.indexes["lat"].get_loc(lat)), int(sst.indexes["lon"].get_loc(lon)), days


def _draw_case(cell: xr.Dataset, width: NDArray[np.floating], daily: xr.Dataset, after: int) -> Chart:
    """Draw the forecast of a cell with its spread `width [lead]`, and the `daily` observations and thresholds.

    The forecast begins `after` days after the onset of the heatwave, or before it if negative.
    """
    figure = Figure(figsize=(SIZE[0], 1.4 * SIZE[1]), dpi=150, layout="constrained")
    top, bottom = figure.subplots(2, sharex=True, height_ratios=(2, 1))
    time, days, mean = daily["time"].values, cell["valid_time"].values.ravel(), cell["sst"].values.ravel()
    for level in INTERVALS:
        ends = interval(mean, width, level, cell[FREEZING].item())
        top.fill_between(days, *ends, color=MODEL_COLOUR, alpha=BAND_ALPHA, linewidth=0)
    normal, limit = (daily[name].values for name in LIMITS_OF_EVENTS)
    fill_categories(top, time, daily["sst"].values, normal, limit)
    top.plot(days, mean, color=MODEL_COLOUR, linewidth=2.4, label="forecast: 50, 80, 95 %")
    top.plot(time, daily["sst"], color="black", linewidth=1.4, label="observed")
    top.plot(time, daily["heatwave_threshold"], color=THRESHOLD_COLOUR, linestyle="--", label="90th percentile")
    top.plot(time, daily["climatology"], color="0.4", linestyle=":", label="climatology")
    top.set_ylabel("SST (°C)")
    probability = cell["heatwave_probability"].values.ravel()
    bottom.plot(days, probability, color=MODEL_COLOUR, linewidth=2.4)
    inside = daily["inside"].values
    bottom.fill_between(
        time, 0, 1, where=inside, step="mid", color=THRESHOLD_COLOUR, alpha=BAND_ALPHA, linewidth=0
    )
    bottom.set_ylim(0, 1)
    bottom.set_ylabel("Heatwave\nprobability")
    for ax in (top, bottom):
        ax.axvline(cell["init_time"].values[0], color="0.2", linewidth=0.8)
        style_axes(ax)
    date_axis(bottom)
    legend(figure)
    onset = (
        f"{counted(abs(after), 'day')} {'after' if after > 0 else 'before'} its onset" if after else "at its onset"
    )
    is_soon = 0 <= after <= MOST_DAYS
    if not is_soon:
        top.set_title(f"Forecast {onset}", fontsize="medium")
    init, last = (np.datetime_as_string(day, unit="D") for day in (cell["init_time"].values[0], days[-1]))
    location = _location(cell.isel(lat=0, lon=0))
    text = (
        f"The most severe heatwave{' that is forecast soon after its onset' * is_soon}, at {location}, forecast "
        f"{onset}, from {init} to {last}. Shaded: observed heatwave days. The probability of a heatwave day is "
        f"{between([probability.min(), probability.max()])}, and on average "
        f"{chance(probability[inside[-len(days) :]].mean())} on heatwave days."
    )
    return Chart(figure, text, text)


def _location(cell: xr.Dataset | xr.DataArray) -> str:
    lat, lon = float(cell["lat"]), float(cell["lon"])
    return f"{abs(lat):.2f}°{'N' if lat >= 0 else 'S'} {lon:.2f}°E"
