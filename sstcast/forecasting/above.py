"""The probability of a day above or below a temperature, from a forecast and its spread."""

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.extremes.above import ABOVE, Temperatures, exceeds
from sstcast.forecasting.fields import on_cells
from sstcast.forecasting.heatwaves import probability
from sstcast.forecasting.place_periods import periods_of
from sstcast.types import Array


def chance_above(mean: Array, spread: Array, limit: Array | np.float32, lowest: Array | None) -> Array:
    """Return the probability that a Gaussian that is clipped at `lowest` exceeds a limit, all in the same units.

    A distribution is clipped at the freezing point of a cell, -inf where none is known, and None if nowhere.
    """
    chance = probability(mean - limit, spread)
    return chance if lowest is None else np.where(exceeds(lowest, limit), np.float32(1), chance)


def chance_below(mean: Array, spread: Array, limit: np.float32, lowest: Array) -> Array:
    """Return the probability that a Gaussian that is clipped at `lowest` is below a limit (see `chance_above`)."""
    chance = probability(limit - mean, spread)
    return np.where(exceeds(np.asarray(limit), lowest), chance, np.where(np.isnan(chance), chance, np.float32(0)))


def with_temperatures(fields: xr.Dataset, temperatures: Temperatures, lowest: xr.DataArray) -> xr.Dataset:
    """Add to a forecast the probability of days above and below some temperatures in degC.

    Args:
        fields: `sst` and `sst_spread(init_time, lead, lat, lon)` in degC, NaN on land.
        temperatures: the temperatures. A day that equals one is neither above nor below it.
        lowest: the freezing point `(lat, lon)` in degC, NaN where none is known.

    Returns:
        `fields` with `above_probability(init_time, above, lead, lat, lon)` and `above`, and the same of `below`.
        What no temperature is given for is not added.
    """
    dims = ("init_time", "lead", "lat", "lon")
    mean, spread = (fields[name].transpose(*dims).values for name in ("sst", "sst_spread"))
    clipped = lowest.fillna(-np.inf).transpose("lat", "lon").values
    for side, levels in temperatures._asdict().items():
        if levels:
            chance_of = chance_above if side == ABOVE else chance_below
            chances = np.stack([chance_of(mean, spread, np.float32(level), clipped) for level in levels], 1)
            chances = np.where(np.isfinite(mean[:, None]), chances, np.float32(np.nan))
            fields = fields.assign_coords({side: list(levels)})
            fields = fields.assign({f"{side}_probability": (("init_time", side, *dims[1:]), chances)})
    return fields


def days_of_places(
    fields: xr.Dataset,
    count: int,
    points: NDArray[np.intp],
    cells: NDArray[np.intp],
    areas: NDArray[np.intp],
    means: Array | None,
) -> dict[str, Any]:
    """Return what places have of the temperatures of a forecast, as variables.

    Args:
        fields: a forecast from one initial date with the fields of `with_temperatures`.
        count: the number of places.
        points, cells: the numbers of the points among the places, and of their cells (see `fields.on_cells`).
        areas: the numbers of the areas.
        means: samples `[lead, area, sample]` of their means in degC, None without areas.

    Returns:
        `place_above_probability(init_time, above, lead, place)`, that of the cell of a point, and of an area the
        share of the samples of its mean; and the expected number of days, `place_week_days_above(init_time, week,
        above, place)` and `place_horizon_days_above(init_time, above, place)`, which is the sum of the
        probabilities of the days. The same of `below`. Values of places without cells are NaN.
    """
    variables: dict[str, Any] = {}
    for side in [side for side in Temperatures._fields if f"{side}_probability" in fields]:
        levels = fields[side].values.astype(np.float32)
        chances = np.full((len(levels), fields.sizes["lead"], count), np.nan, np.float32)
        chances[..., points] = on_cells(fields, f"{side}_probability")[..., cells]
        if means is not None:
            beyond = [exceeds(means, level) if side == ABOVE else exceeds(level, means) for level in levels]
            chances[..., areas] = np.stack(beyond).mean(-1)
        *weeks, horizon = (chances[:, days].sum(1) for days in periods_of(fields.sizes["lead"]))
        variables[f"place_{side}_probability"] = (("init_time", side, "lead", "place"), chances[None])
        variables[f"place_horizon_days_{side}"] = (("init_time", side, "place"), horizon[None])
        if weeks:
            variables[f"place_week_days_{side}"] = (("init_time", "week", side, "place"), np.stack(weeks)[None])
    return variables
