"""The forecast of the most severe marine heatwave in a run's test days, beside the observed temperatures."""

from collections.abc import Iterator
from statistics import NormalDist

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sstcast.errors import reading
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
from sstcast.figures.results import Results
from sstcast.ocean.anomalies import on_days
from sstcast.ocean.forecast_files import DAY
from sstcast.ocean.heatwaves import MARGIN_DAYS, events, limits_of
from sstcast.ocean.prepared import Prepared
from sstcast.scores.evaluate import open_forecasts

INTERVALS = (95, 80, 50)  # per cent
SHOWN_DAYS = 42  # days shown before the forecast
EXPECTED = ("heatwave_threshold", "climatology")
ALONG_TIME = np.zeros((3, 3, 3))  # connectivity that joins consecutive days of a cell, but not neighbouring cells
ALONG_TIME[:, 1, 1] = 1
DAYS_AFTER_ONSET = 3  # days from the onset of the heatwave to the initial date of the forecast


def heatwave_case(results: Results) -> Iterator[Chart]:
    """Draw temperature and heatwave probability as forecast shortly after the onset of the most severe heatwave.

    The heatwave is chosen from observations only, by its cumulative intensity: the sum of its departures from the
    climatology (Hobday et al. 2016).
    """
    # Imported here because these modules need PyTorch, which no other figure does.
    from sstcast.forecasting.heatwaves import with_heatwaves
    from sstcast.forecasting.spread import Spread, calibrated

    if results.run is None or (position := _most_severe(results)) is None:
        return
    date, row, col = position
    with reading(results.run.forecasts, "delete it and evaluate again"):
        cell = open_forecasts(results.run)[["sst"]].isel(init_time=[date], lat=[row], lon=[col]).load()
    prepared = Prepared.of(results.data)
    observed = prepared.open()[0]["sst"].isel(lat=[row], lon=[col])
    init, last = cell["init_time"].values[0], cell["valid_time"].values[0, -1]
    days = observed.sel(time=slice(init - (SHOWN_DAYS - 1) * DAY, last + MARGIN_DAYS * DAY)).load()
    past = days.sel(time=slice(None, init))
    cell["sst_past"] = (("init_time", "past", "lat", "lon"), past.values[None])
    cell = cell.assign_coords(past=np.arange(1 - past.sizes["time"], 1))
    limits = limits_of(results.data).isel(lat=[row], lon=[col])
    spread = calibrated(results.run)
    spread = Spread(spread.values.isel(lat=[row], lon=[col]), spread.correlation)
    cell = with_heatwaves(cell, spread, limits)
    width = spread.spread(cell["valid_time"]).values.ravel()
    daily = xr.Dataset({name: on_days(limits[name], days["time"]) for name in EXPECTED})
    inside = events(days.values > daily["heatwave_threshold"].values).ravel()
    daily = daily.assign(sst=days).isel(lat=0, lon=0).assign(inside=("time", inside))
    yield _draw_case(cell, width, daily.sel(time=slice(None, last)))


def _most_severe(results: Results) -> tuple[int, int, int] | None:
    """Return the positions of initial date, row and column of the forecast to show, or None without a heatwave."""
    from scipy import ndimage  # imported here because it takes half a second

    data, starts = results.data, results.tables["init_time"].values
    days = slice(starts[0], results.tables["valid_time"].values[-1, -1])
    sst = Prepared.of(data).open()[0]["sst"].sel(time=days)
    sst = sst.where(results.tables["mse_by_cell"].isel(units=0, system=0, week=0).notnull()).load()
    expected = {name: on_days(limits_of(data)[name], sst["time"]).values for name in EXPECTED}
    inside = events(sst.values > expected["heatwave_threshold"])
    heatwave, count = ndimage.label(inside, ALONG_TIME)
    severity = ndimage.sum_labels(sst.values - expected["climatology"], heatwave, np.arange(1, count + 1))
    day, row, col = np.unravel_index(np.unique(heatwave, return_index=True)[1][1:], heatwave.shape)
    init = sst["time"].values[day] + DAYS_AFTER_ONSET * DAY
    severity[(day == 0) | ~np.isin(init, starts)] = 0  # a heatwave on the first day may have begun before it
    if not severity.any():
        return None
    worst = np.argmax(severity)
    return int(np.flatnonzero(starts == init[worst])[0]), int(row[worst]), int(col[worst])


def _draw_case(cell: xr.Dataset, width: NDArray[np.floating], daily: xr.Dataset) -> Chart:
    """Draw the forecast of a cell with its spread `width [lead]`, and the `daily` observations and thresholds."""
    figure = Figure(figsize=(SIZE[0], 1.4 * SIZE[1]), dpi=150, layout="constrained")
    top, bottom = figure.subplots(2, sharex=True, height_ratios=(2, 1))
    time, days, mean = daily["time"].values, cell["valid_time"].values.ravel(), cell["sst"].values.ravel()
    for level in INTERVALS:
        half = NormalDist().inv_cdf((1 + level / 100) / 2) * width
        top.fill_between(days, mean - half, mean + half, color=MODEL_COLOUR, alpha=BAND_ALPHA, linewidth=0)
    top.plot(days, mean, color=MODEL_COLOUR, linewidth=2.4, label="forecast: 50, 80, 95 %")
    top.plot(time, daily["sst"], color="black", linewidth=1.4, label="observed")
    top.plot(time, daily["heatwave_threshold"], color=THRESHOLD_COLOUR, linestyle="--", label="90th percentile")
    top.plot(time, daily["climatology"], color="0.4", linestyle=":", label="climatology")
    top.set_ylabel("SST (°C)")
    chance = cell["heatwave_probability"].values.ravel()
    bottom.plot(days, chance, color=MODEL_COLOUR, linewidth=2.4)
    inside = daily["inside"].values
    bottom.fill_between(
        time, 0, 1, where=inside, step="mid", color=THRESHOLD_COLOUR, alpha=BAND_ALPHA, linewidth=0
    )
    bottom.set_ylim(0, 1)
    bottom.set_ylabel("Heatwave probability")
    for ax in (top, bottom):
        ax.axvline(cell["init_time"].values[0], color="0.2", linewidth=0.8)
        style_axes(ax)
    date_axis(bottom)
    legend(figure)
    init, last = (np.datetime_as_string(day, unit="D") for day in (cell["init_time"].values[0], days[-1]))
    lat, lon = float(cell["lat"][0]), float(cell["lon"][0])
    location = f"{abs(lat):.2f}°{'N' if lat >= 0 else 'S'} {lon:.2f}°E"
    text = (
        f"The most severe heatwave of the test days, at {location}, forecast {DAYS_AFTER_ONSET} days after its "
        f"onset, from {init} to {last}. Shaded: observed heatwave days. The probability of a heatwave day is "
        f"{chance.min():.0%} to {chance.max():.0%}, and on average {chance[inside[-len(days) :]].mean():.0%} on "
        "heatwave days."
    )
    return Chart(figure, text, text)
