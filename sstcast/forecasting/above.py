"""The probability of a day above a temperature, from a forecast and its spread."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from sstcast.extremes.above import exceeds
from sstcast.forecasting.heatwaves import probability
from sstcast.types import Array


def chance_above(mean: Array, spread: Array, limit: Array | np.float32, lowest: Array | None) -> Array:
    """Return the probability that a Gaussian that is clipped at `lowest` exceeds a limit, all in the same units.

    A distribution is clipped at the freezing point of a cell, -inf where none is known, and None if nowhere.
    """
    chance = probability(mean - limit, spread)
    return chance if lowest is None else np.where(exceeds(lowest, limit), np.float32(1), chance)


def with_above(fields: xr.Dataset, above: Sequence[float], lowest: xr.DataArray) -> xr.Dataset:
    """Add to a forecast the probability of days above some temperatures in degC.

    Args:
        fields: `sst` and `sst_spread(init_time, lead, lat, lon)` in degC, NaN on land.
        above: the temperatures in degC, which are exceeded, not equalled.
        lowest: the freezing point `(lat, lon)` in degC, NaN where none is known.

    Returns:
        `fields` with `above_probability(init_time, above, lead, lat, lon)` and `above`, or as they are if no
        temperature is given.
    """
    if not above:
        return fields
    dims = ("init_time", "lead", "lat", "lon")
    mean, spread = (fields[name].transpose(*dims).values for name in ("sst", "sst_spread"))
    clipped = lowest.fillna(-np.inf).transpose("lat", "lon").values
    chances = [chance_above(mean, spread, np.float32(limit), clipped) for limit in above]
    chance = np.where(np.isfinite(mean[:, None]), np.stack(chances, 1), np.float32(np.nan))
    fields = fields.assign_coords(above=list(above))
    return fields.assign(above_probability=(("init_time", "above", *dims[1:]), chance))
