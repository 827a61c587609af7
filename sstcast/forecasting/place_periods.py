"""The forecast of places by week and over all days: the mean, its quantiles, and the chance of a heatwave.

A point is in a heatwave if its cell is, and an area if at least the smallest of its shares is. The chance of a
period is the share of the trajectories of a cell, or of the joint samples of an area, in which the place is in one
on a day or more. The means are those of joint samples.
"""

from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.extremes.heatwaves import MARGIN_DAYS
from sstcast.extremes.terciles import whole_weeks
from sstcast.forecasting.areas import HAZEN
from sstcast.forecasting.fields import on_cells
from sstcast.forecasting.heatwaves import CELLS_AT_ONCE, Trajectories
from sstcast.forecasting.samples import ErrorsOfCells, sampled
from sstcast.forecasting.spread import QUANTILES
from sstcast.ocean.lead_weeks import WEEK
from sstcast.types import Array

OF_PERIOD = ("sst", "sst_quantile", "heatwave_probability")  # the fields `place_PERIOD_NAME`


def periods_of(leads: int) -> list[slice]:
    """Return the positions of the days of each whole week, and of all days of the forecast."""
    return [slice(WEEK * n, WEEK * (n + 1)) for n in range(whole_weeks(leads))] + [slice(0, leads)]


def means_of_cells(
    fields: xr.Dataset, cells: NDArray[np.intp], errors: Array | ErrorsOfCells, lowest: Array
) -> Array:
    """Return samples of the mean over each period in some cells, `[period, cell, sample]`, in degC.

    `cells` count as in `fields.on_cells`. `errors` and `lowest` are those of `places.with_places`.
    """
    mean, spread = (on_cells(fields, name)[:, cells] for name in ("sst", "sst_spread"))
    periods = periods_of(len(mean))
    means = np.zeros((len(periods), len(cells), errors.shape[-1]), np.float32)
    for day in range(len(mean)):
        values = sampled(mean[day], spread[day], errors[day][cells], lowest[cells])
        for number, period in enumerate(periods):
            if period.start <= day < period.stop:
                means[number] += values / np.float32(period.stop - period.start)
    return means


def chances_of_cells(fields: xr.Dataset, cells: NDArray[np.intp], trajectories: Trajectories) -> Array:
    """Return the chance of a day in a heatwave in each period, `[period, cell]`, NaN where no event is defined.

    The trajectories are those that `heatwave_probability` is from.
    """
    beyond = on_cells(fields, "exceedance_probability")[:, cells]
    hot = (on_cells(fields, "sst_past") > on_cells(fields, "heatwave_threshold_past"))[-MARGIN_DAYS - 1 :, cells]
    periods = periods_of(len(beyond))
    chances = np.full((len(periods), len(cells)), np.nan, np.float32)
    for start in range(0, len(cells), CELLS_AT_ONCE):
        part = slice(start, start + CELLS_AT_ONCE)
        known = ~np.isnan(beyond[:, part])
        inside = trajectories.in_event(beyond[:, part], hot[:, part])[len(hot) : -MARGIN_DAYS] * known[:, None]
        for number, days in enumerate(periods):
            share = trajectories.share(np.bitwise_or.reduce(inside[days]))
            chances[number, part] = np.where(known[days].any(0), share, np.nan)
    return chances


def means_of_areas(samples: Array) -> Array:
    """Return samples of the mean over each period, `[period, area, sample]`, of `samples [lead, area, sample]`."""
    return np.stack([samples[days].mean(0) for days in periods_of(len(samples))])


def chances_of_areas(inside: Array, least: np.float32) -> Array:
    """Return the chance `[period, area]` that at least this share of an area is in a heatwave on one of the days.

    `inside [lead, area, sample]` are samples of the share, NaN where no event is defined.
    """
    known = np.asarray(~np.isnan(inside).all(-1))
    of_days = [(inside[days] >= least).any(0).mean(-1) for days in periods_of(len(inside))]
    return np.where([known[days].any(0) for days in periods_of(len(inside))], of_days, np.nan).astype(np.float32)


def quantiles(samples: Array) -> Array:
    """Return the quantiles `[..., quantile, place]` of `samples [..., place, sample]`."""
    return np.moveaxis(np.quantile(samples, QUANTILES, axis=-1, method=HAZEN), 0, -2)


def table_beside(forecast: Path) -> Path:
    """Return the path of the table of the places in a forecast's file, of which a Zarr keeps its ending."""
    return forecast.with_name(f"{forecast.name if forecast.suffix == '.zarr' else forecast.stem}-places.csv")
