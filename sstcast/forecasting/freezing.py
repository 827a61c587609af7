"""The freezing point in a forecast's file, which no temperature of its distributions is below."""

from statistics import NormalDist
from typing import TypeVar

import numpy as np
import xarray as xr

from sstcast.extremes.heatwaves import FREEZING
from sstcast.types import Array

Values = TypeVar("Values", Array, xr.DataArray)


def freezing_point_of(forecast: xr.Dataset) -> xr.DataArray:
    """Return the freezing point `(lat, lon)` in degC of a forecast from one day, NaN where there is none.

    In a file without it, it is the lowest quantile where this equals the next, but not all.
    """
    if FREEZING in forecast:
        return forecast[FREEZING]
    if "sst_quantile" not in forecast:
        return xr.full_like(forecast["sst"].isel(lead=0, drop=True), np.nan)
    quantile = forecast["sst_quantile"]
    lowest, following, highest = (quantile.isel(quantile=position, drop=True) for position in (0, 1, -1))
    return lowest.where((lowest == following) & (following < highest)).max("lead").rename(FREEZING)


def interval(mean: Values, spread: Values, level: int, lowest: Values | float) -> tuple[Values, Values]:
    """Return the ends of the central interval with a probability of `level` per cent, all in degC.

    `lowest` is the freezing point, which no end is below, NaN where there is none.
    """
    half = NormalDist().inv_cdf((1 + level / 100) / 2) * spread
    low, high = (xr.where(end < lowest, lowest, end) for end in (mean - half, mean + half))
    return low, high
