"""Why a forecast is as it is: what each part of what it reads contributes to its anomaly.

A linear system is a sum: its forecast is that of zeros, and what each part of what it reads adds to that on its
own. So contributions are exact. They are not causes: parts that vary together share what they tell as the fit
divided it.

What is missing stays missing in every part. A ridge reads SST beside a field only where the field is known, so
without the field, SST would contribute something else.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from sstcast.errors import SSTCastError
from sstcast.forecasting.fields import FIELD, on_cells
from sstcast.forecasting.place_periods import periods_of
from sstcast.forecasting.places import PART, PLACE_CONTRIBUTION, points_and_areas
from sstcast.forecasting.places_told import MOST_LINES
from sstcast.log import show
from sstcast.models import LINEAR, LINEAR_BASES, base_of
from sstcast.ocean.lead_weeks import WEEK
from sstcast.places.places import Places
from sstcast.predictors.predictors import VARIABLE_PREFIX, predictors_in
from sstcast.reading.days_of_year import on_days
from sstcast.runs import Run
from sstcast.storage.scratch import release, scratch_array

if TYPE_CHECKING:
    from sstcast.forecasting.system import Combination, Models

CONTRIBUTION = "sst_contribution"
LAST_WEEK, HISTORY, MEMORY = "last_week", "history", "memory"  # of the days of SST
PREDICTOR = "predictor "  # before the name of a predictor
CONSTANT, NETWORK, FREEZING = "constant", "network", "freezing"
PARTS = (LAST_WEEK, HISTORY, MEMORY, CONSTANT, NETWORK, FREEZING)
WORDS = {LAST_WEEK: "last week", HISTORY: "weeks before"}  # for people, where they differ
SMALLEST = 0.05  # degC, which is told as 0.1


def check_explained(run: Run) -> None:
    """Raise SSTCastError if a forecast of a run is no sum, because it is from a network without a linear base."""
    for system in run.systems:
        model = system.config.model
        if model.name not in LINEAR and base_of(model.options)[0] not in LINEAR_BASES:
            part = "" if system == run.trained else f"its part {system.folder} is "
            raise SSTCastError(
                f"{run.folder}: --why: {part}a network without a linear base, whose forecast is no sum of what it "
                "reads; leave it out, or train with model.base linear or local"
            )


def contributions(
    system: "Models | Combination",
    days: xr.Dataset,
    forecast: xr.DataArray,
    clipped: xr.DataArray,
) -> xr.DataArray:
    """Return what each part of what a system reads contributes to a forecast, in degC.

    Args:
        system: the system. Its networks have a linear base.
        days: the days that it reads, of which the last `system.history` are its history and those before its
            memory: `anomaly(time, lat, lon)` in standardised units, what they know of predictors, `ocean_mask(lat,
            lon)`, and `scale(dayofyear, lat, lon)` in degC. Earlier days may be there.
        forecast: its forecast from these days, standardised anomalies `(member, init_time, lead, lat, lon)`.
        clipped: the same, not below the freezing point, or `forecast` itself where no sea freezes.

    Returns:
        `(init_time, part, lead, lat, lon)`, NaN where the forecast is. They add up to the mean of the members of
        `clipped`. A part of SST or a predictor is the forecast with all else at 0 less that of zeros, which is
        `constant`. `network` is what networks add to their linear bases, and `freezing` what the freezing point
        adds. Parts that there are not are left out.
    """
    from sstcast.ocean.windows import with_earlier  # imported late, as it imports PyTorch

    linear, history = system.without_change(), system.history
    days = days.isel(time=slice(-history - system.before, None))
    read = _read(days.sizes["time"], history, linear.reads)
    zeros = _with_zeros(days)

    def forecast_from(read: xr.Dataset) -> xr.DataArray:
        return linear.predict(with_earlier(read.isel(time=slice(-history, None)), read))

    def differences() -> Iterator[xr.DataArray]:
        constant = forecast_from(zeros)
        for name, span in read.values():
            yield forecast_from(zeros.assign({name: _within(span, days[name], zeros[name])})) - constant
        yield constant
        if linear is not system:
            yield forecast - forecast_from(days)
        if clipped is not forecast:
            yield clipped - forecast

    parts = [*read, CONSTANT, *[NETWORK] * (linear is not system), *[FREEZING] * (clipped is not forecast)]
    scale = on_days(days["scale"], forecast["valid_time"])
    starts, *sizes = (forecast.sizes[dim] for dim in FIELD)
    values = scratch_array((starts, len(parts), *sizes))  # so that one part is in memory
    for number, difference in enumerate(differences()):
        values[:, number] = (difference * scale).mean("member", skipna=False).transpose(*FIELD)
        release()
    coordinates = forecast.isel(member=0).coords
    return xr.DataArray(values, coordinates, (FIELD[0], PART, *FIELD[1:])).assign_coords({PART: parts})


def _read(count: int, history: int, predictors: Sequence[str]) -> dict[str, tuple[str, slice]]:
    """Return the parts of what is read on `count` days: the variable of each, and on which of the days it is."""
    first, week = count - history, count - min(WEEK, history)
    spans = {LAST_WEEK: slice(week, count), HISTORY: slice(first, week), MEMORY: slice(0, first)}
    parts = {part: ("anomaly", span) for part, span in spans.items() if span.start < span.stop}
    return parts | {PREDICTOR + name: (VARIABLE_PREFIX + name, slice(0, count)) for name in predictors}


def _with_zeros(days: xr.Dataset) -> xr.Dataset:
    """Return the same days with 0 for all that is known of SST and predictors."""
    fields = {"anomaly": days["anomaly"]} | predictors_in(days)
    return days.assign({name: xr.zeros_like(field).where(field.notnull()) for name, field in fields.items()})


def _within(span: slice, field: xr.DataArray, other: xr.DataArray) -> xr.DataArray:
    """Return a field on the days of a span, and the `other` one on all others."""
    values = other.copy(deep=True)
    values[{"time": span}] = field[{"time": span}]
    return values


def with_contributions_of_places(fields: xr.Dataset, places: Places, weights: Any) -> xr.Dataset:
    """Add the contributions to the anomaly of places to a forecast from one initial date.

    Args:
        fields: a forecast with the result of `contributions`.
        places: the places.
        weights: their weights in the cells, `[place, lat * lon]` (see `Places.weights`).

    Returns:
        `fields` with `place_contribution(init_time, part, lead, place)` in degC, and its means over the days of
        each week, `place_week_contribution(init_time, week, part, place)`, and of the forecast,
        `place_horizon_contribution(init_time, part, place)`. That of a point is of its cell, that of an area the
        mean over its cells. Places without weights are NaN.
    """
    points, cells, areas, weights_of_areas = points_and_areas(fields, places, weights)
    shares = weights_of_areas / weights_of_areas.sum(1, keepdims=True)
    by_day = np.full((*(fields.sizes[dim] for dim in (PART, "lead")), len(places)), np.nan, np.float32)
    for number in range(len(by_day)):
        values = on_cells(fields[["sst", CONTRIBUTION]].isel({PART: number}), CONTRIBUTION)
        by_day[number][:, points] = values[:, cells]
        by_day[number][:, areas] = values @ shares.T
    *weeks, horizon = (by_day[:, days].mean(1) for days in periods_of(by_day.shape[1]))
    variables: dict[str, Any] = {
        PLACE_CONTRIBUTION: (("init_time", PART, "lead", "place"), by_day[None]),
        "place_horizon_contribution": (("init_time", PART, "place"), horizon[None]),
    }
    if weeks:
        variables["place_week_contribution"] = (("init_time", "week", PART, "place"), np.stack(weeks)[None])
    return fields.assign(variables)


def print_why(forecast: xr.Dataset) -> None:
    """Print the lines that say why a forecast of places in a file is as it is."""
    show(*lines_of_why(forecast.isel(init_time=-1)))


def lines_of_why(forecast: xr.Dataset) -> list[str]:
    """Return a line for each of ten places of a forecast from one day, with its parts in order of size.

    It tells of the first week, or of all days if they are fewer. Without contributions, there are no lines.
    """
    if PLACE_CONTRIBUTION not in forecast:
        return []
    lines, when, of_period = [], "week 1", forecast.get("place_week_contribution")
    if of_period is None:
        when, of_period = (
            f"{forecast.sizes['lead']} days",
            forecast["place_horizon_contribution"].expand_dims("week"),
        )
    names = [_told(part) for part in forecast[PART].values.tolist()]
    for place in of_period.isel(week=0, place=slice(MOST_LINES)).transpose("place", PART).load():
        total, sizes = float(place.sum(skipna=False)), dict(zip(names, place.values.tolist(), strict=True))
        if np.isnan(total):
            continue
        told = [name for name in sorted(names, key=lambda name: -abs(sizes[name])) if abs(sizes[name]) >= SMALLEST]
        of_parts = ", ".join(f"{name} {sizes[name]:+.1f}" for name in told) or "no part"
        anomaly = (
            f"{total:+.1f} degC {'above' if total > 0 else 'below'}" if abs(total) >= SMALLEST else "0.0 degC from"
        )
        lines.append(f"{place['place'].item()}, {when}: {anomaly} normal: {of_parts}")
    return lines


def _told(part: str) -> str:
    """Return a part for people: a predictor by its name, unless that is also the name of another part."""
    name = part.removeprefix(PREDICTOR)
    return part if name != part and name in PARTS else WORDS.get(part, name)
