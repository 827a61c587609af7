"""Means of areas and their shares in a marine heatwave, from the joint samples of a forecast.

All arrays hold the ocean cells of one forecast. `weights [area, cell]` say how much of an area lies in each cell.
"""

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.extremes.heatwaves import MARGIN_DAYS, events
from sstcast.forecasting.fields import on_cells
from sstcast.forecasting.samples import CELLS_AT_ONCE, ErrorsOfCells, sampled
from sstcast.forecasting.spread import QUANTILES
from sstcast.geo import area_weights
from sstcast.types import Array

INTERVAL, INTERVAL_NOW = "heatwave_area_quantile", "heatwave_area_now_quantile"
HAZEN: Any = "hazen"  # the plotting position (i - 1/2) / N, at which joint samples have their values


def area_means(
    mean: Array, spread: Array, errors: Array | ErrorsOfCells, weights: Array, lowest: Array | None = None
) -> NDArray[np.float32]:
    """Return samples of the mean of each area, `[lead, area, sample]`, in degC.

    Args:
        mean, spread: mean and standard deviation in degC, `[lead, cell]`.
        errors: standardised errors `[lead or more, cell, sample]` (see `ErrorPaths.standard_errors`).
        weights: weights `[area, cell]`, with a positive sum for each area.
        lowest: the value `[cell]` that no sample is below, in the terms of `mean`; NaN or -inf where there is
            none.
    """
    shares = (weights / weights.sum(1, keepdims=True)).astype(np.float32)
    if lowest is None or np.isnan(lowest).all():
        of_errors = [(width * shares) @ errors[day] for day, width in enumerate(spread)]
        return (mean @ shares.T)[..., None] + np.stack(of_errors)
    days = zip(mean, spread, strict=True)
    return np.stack([shares @ sampled(*of, errors[day], lowest) for day, of in enumerate(days)])


def heatwave_shares(
    hot: NDArray[np.bool_], margin: Array, spread: Array, errors: Array | ErrorsOfCells, weights: Array
) -> Array:
    """Return samples of the share of each area in a heatwave, `[1 + lead, area, sample]`, initial date first.

    After the last lead, margin and spread keep their last values, and only the errors change from day to day.
    Cells and days on which no event is defined have no weight. A share is NaN if this leaves nothing of an area.

    Args:
        hot: whether each of the last days was above the threshold, `[past, cell]`. The last is the initial date.
            The `MARGIN_DAYS` days before it decide whether it is in an event.
        margin: the mean minus the threshold in degC, `[lead, cell]`, NaN where no event is defined.
        spread: standard deviation in degC, `[lead, cell]`.
        errors: standardised errors `[lead + MARGIN_DAYS, cell, sample]`.
        weights: weights `[area, cell]`.
    """
    hot, leads, samples = hot[-MARGIN_DAYS - 1 :], len(margin), errors.shape[-1]
    defined = np.isfinite(margin)
    defined = np.concatenate([defined.any(0, keepdims=True), defined])
    days = np.minimum(np.arange(leads + MARGIN_DAYS), leads - 1)
    inside_area = np.zeros((1 + leads, len(weights), samples), np.float32)
    for start in range(0, len(hot[0]), CELLS_AT_ONCE):
        part = slice(start, start + CELLS_AT_ONCE)
        if not weights[:, part].any():
            continue
        limit = (-margin[:, part] / spread[:, part]).astype(np.float32)
        # A bit for each sample. None is set where the limit is NaN.
        ahead = np.packbits(errors[:, part] > limit[days, :, None], axis=-1)
        before = np.where(hot[:, part, None], np.uint8(255), np.uint8(0))
        before = np.broadcast_to(before, (len(hot), *ahead.shape[1:]))
        inside = events(np.concatenate([before, ahead]))[len(hot) - 1 : -MARGIN_DAYS]
        for day, bits in enumerate(inside):
            cells = np.unpackbits(bits, axis=-1, count=samples).astype(np.float32)
            inside_area[day] += (weights[:, part] * defined[day, part]) @ cells
    whole = (defined @ weights.T).astype(np.float32)[..., None]
    return np.asarray(inside_area / np.where(whole > 0, whole, np.float32(np.nan)), np.float32)


def with_interval_of_area(fields: xr.Dataset, errors: Array) -> xr.Dataset:
    """Add quantiles of the share of the sea in a heatwave to a forecast.

    Args:
        fields: a forecast from one initial date, with the fields of `heatwaves.with_heatwaves`.
        errors: standardised errors `[lead + MARGIN_DAYS, cell, sample]` of the cells in which `sst` is not NaN.

    Returns:
        `fields` with `heatwave_area_quantile(init_time, lead, quantile)` and, for the initial date,
        `heatwave_area_now_quantile(init_time, quantile)`.
    """
    cells = cells_of(fields)
    ocean = fields["sst"].notnull().isel(init_time=0, lead=0, drop=True)
    weights = (area_weights(fields["lat"]) * xr.ones_like(ocean, np.float32)).values[ocean.values]
    shares = heatwave_shares(*cells, errors, weights[None].astype(np.float32))[:, 0]
    now, *ahead = np.quantile(shares, QUANTILES, axis=-1, method=HAZEN).T.astype(np.float32)
    return fields.assign(
        {
            INTERVAL: (("init_time", "lead", "quantile"), np.stack(ahead)[None]),
            INTERVAL_NOW: (("init_time", "quantile"), now[None]),
        }
    )


def cells_of(fields: xr.Dataset) -> tuple[NDArray[np.bool_], Array, Array]:
    """Return the arguments `hot`, `margin` and `spread` of `heatwave_shares` from a forecast (see there)."""
    hot = on_cells(fields, "sst_past") > on_cells(fields, "heatwave_threshold_past")
    margin = on_cells(fields, "sst") - on_cells(fields, "heatwave_threshold")
    return hot, margin, on_cells(fields, "sst_spread")
