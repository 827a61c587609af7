"""Probabilities of marine heatwaves and cold spells, from a forecast and its spread.

The probability that a day is beyond a threshold follows from the Gaussian of that day. Whether the day is part of
an event also depends on the days around it. Events are therefore detected in a few hundred trajectories. Each
consists of the observed days, the days forecast with errors drawn from the joint Gaussian of all leads, and
`MARGIN_DAYS` further days that keep the margin and spread of the last lead.

One bit records whether a trajectory is beyond a threshold on a day. The same standardised errors serve all cells,
which differ only in margin and spread. If n trajectories are beyond the threshold on some day, they are therefore
the n trajectories with the largest errors on that day. n is rounded from the Gaussian probability of the day,
which avoids sampling noise.
"""

import re
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.extremes.heatwaves import MARGIN_DAYS, UNDEFINED, events, multiples
from sstcast.forecasting.spread import Spread
from sstcast.geo import area_weights
from sstcast.reading.days_of_year import on_days
from sstcast.types import Array

TRAJECTORIES = 256
RUNNING_DAY = "running_day"  # a dimension
OF_EVENTS = re.compile(
    r"(place_|place_(week|horizon)_)?(heatwave|cold_spell|event|running|share)_"
    r"((event_|running_)?probability|category|start|end|(area|share).*)"
)
WORD = 64  # trajectories per integer
RUNNING_DAYS = (7, 14, 28)  # days ahead on which an event may still be running
CELLS_AT_ONCE = 1024  # the trajectories of this many cells fit in the processor's cache

Bits = NDArray[np.uint64]
MaskOrBits = TypeVar("MaskOrBits", NDArray[np.bool_], NDArray[np.uint64])


def probability(margin: Array, spread: Array) -> NDArray[np.float32]:
    """Return the probability that a Gaussian exceeds a limit, if its mean exceeds the limit by `margin`.

    With zero spread, the probability is 0 or 1. If either argument is NaN, so is the probability.
    """
    import torch  # imported late, as it takes a second

    with np.errstate(divide="ignore", invalid="ignore"):
        sigmas = np.asarray(margin / spread, np.float32)
    sigmas[np.broadcast_to((spread == 0) & (margin == 0), sigmas.shape)] = -np.inf  # at the limit, not beyond it
    return torch.special.ndtr(torch.from_numpy(sigmas)).numpy()


@dataclass(frozen=True)
class Trajectories:
    """Random errors on the days forecast and the `MARGIN_DAYS` days after them, which all cells share.

    Attributes:
        correlation: correlation of the errors between leads, `[lead, lead]`.
        samples: number of trajectories, a multiple of 64.
    """

    correlation: Array
    samples: int = TRAJECTORIES

    @cached_property
    def first(self) -> Bits:
        """Bit sets of the n trajectories with the largest errors on each day, `[word, day, n]`, n = 0..samples."""
        size = len(self.correlation)
        lags = np.arange(MARGIN_DAYS + 1)
        step = self.correlation[-1, -2] if size > 1 else 0.0
        days = np.minimum(np.arange(size + MARGIN_DAYS), size - 1)
        days_past_end = np.maximum(np.arange(size + MARGIN_DAYS) - size + 1, 0)
        # Beyond the last lead, the correlation decays from day to day as between the last two leads.
        decay = step ** lags[np.abs(days_past_end[:, None] - days_past_end)]
        values, vectors = np.linalg.eigh(self.correlation[np.ix_(days, days)] * decay)
        factor = vectors * np.sqrt(np.maximum(values, 0))
        errors = np.random.default_rng(0).standard_normal((self.samples, len(days))) @ factor.T
        trajectory = np.arange(self.samples)
        single_bits = np.zeros((self.samples, self.samples // WORD), np.uint64)
        single_bits[trajectory, trajectory // WORD] = np.uint64(1) << (trajectory % WORD).astype(np.uint64)
        table = np.zeros((single_bits.shape[1], len(days), self.samples + 1), np.uint64)
        for day, order in enumerate(np.argsort(-errors, axis=0).T):
            table[:, day, 1:] = np.cumsum(single_bits[order], axis=0, dtype=np.uint64).T
        return table

    def beyond(self, probability: NDArray[np.float32]) -> Bits:
        """Return the bits of trajectories beyond a limit, `[lead + MARGIN_DAYS, word, cell]`.

        `probability [lead, cell]` is the probability of being beyond it. Where it is NaN, no trajectory is.
        """
        number = (np.nan_to_num(probability) * np.float32(self.samples) + np.float32(0.5)).astype(np.intp)
        number = np.concatenate([number, np.broadcast_to(number[-1:], (MARGIN_DAYS, *number.shape[1:]))])
        flat_index = number + (self.samples + 1) * np.arange(len(number))[:, None]
        return np.stack([word.take(flat_index) for word in self.first.reshape(len(self.first), -1)], axis=1)

    def in_event(self, probability: NDArray[np.float32], observed: NDArray[np.bool_]) -> Bits:
        """Return the bits of trajectories in an event, `[day, word, cell]`.

        The days are those observed, those forecast, and `MARGIN_DAYS` more. `probability [lead, cell]` is the
        probability of a day beyond the threshold. `observed [day, cell]` marks the days before the first lead that
        were beyond it.
        """
        future = self.beyond(probability)
        past = np.where(observed[:, None], ~np.uint64(0), np.uint64(0))
        return events(np.concatenate([np.broadcast_to(past, (len(past), *future.shape[1:])), future]))

    def probability(self, beyond: NDArray[np.float32], observed: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Return the probability `[lead, cell]` of being in an event (see `in_event` for the arguments).

        It is NaN where `beyond` is.
        """
        event_share = self.share(self.in_event(beyond, observed)[len(observed) : -MARGIN_DAYS])
        return np.where(np.isnan(beyond), np.float32(np.nan), event_share)

    def share(self, bits: Bits) -> NDArray[np.float32]:
        """Return the share of trajectories whose bit is set in `bits [..., word, cell]`."""
        return np.bitwise_count(bits).sum(-2, dtype=np.float32) / np.float32(self.samples)


def with_heatwaves(fields: xr.Dataset, spread: Spread, limits: xr.Dataset) -> xr.Dataset:
    """Add the thresholds and probabilities of heatwaves and cold spells to a forecast.

    Args:
        fields: `sst(init_time, lead, lat, lon)` from one initial date and `sst_past(init_time, past, lat, lon)`,
            in degC, NaN on land.
        spread: the spread model of the forecast.
        limits: those of `sstcast.extremes.heatwaves.limits_of`. Where a threshold is NaN, no event is defined:
            probabilities are NaN, and the category is `UNDEFINED`.

    Returns:
        `fields` with these variables added. `heatwave_climatology`, `heatwave_threshold`, `cold_spell_threshold`
        and the same of the days of history, with `_past`, in degC. `exceedance_probability` of a day above the
        heatwave threshold. `heatwave_probability` and `cold_spell_probability` of a day in an event.
        `heatwave_category` and `cold_spell_category`, the most likely category. `heatwave_start` and
        `heatwave_end(init_time, lat, lon)`, the medians of the first and last day of the first event with a day in
        the forecast, if such an event has a probability of at least 0.5. It may have begun on any day of
        `sst_past`. An end on the last lead means that day or later. `heatwave_event_probability(init_time, lat,
        lon)` of such an event, and `heatwave_running_probability(init_time, running_day, lat, lon)` that it is
        running on the `running_days`, and both of cold spells.
        `heatwave_area(init_time, lead)` and `heatwave_area_now(init_time)`, the expected share of the sea in a
        heatwave, over the cells where an event is defined.
    """
    days, past_days = fields["valid_time"], fields["init_time"] + fields["past"] * np.timedelta64(1, "D")
    ocean = fields["sst"].notnull().isel(init_time=0, lead=0, drop=True)
    trajectories, width = Trajectories(spread.correlation), _at(spread.spread(days), ocean)
    result = fields.copy()
    for event, sign in (("heatwave", 1), ("cold_spell", -1)):
        threshold, past_threshold = (
            on_days(limits[f"{event}_threshold"], time).where(ocean) for time in (days, past_days)
        )
        result[f"{event}_threshold"] = threshold
        climatology = on_days(limits["climatology"], days)
        bounds = multiples(*(sign * _at(field, ocean) for field in (climatology, threshold)))
        exceedance = probability(sign * _at(fields["sst"], ocean) - bounds, width)
        observed = sign * _at(fields["sst_past"], ocean) > sign * _at(past_threshold, ocean)
        in_event, category, event_probability, running, initial_probability, first, last = _event_fields(
            trajectories, exceedance, observed
        )
        result[f"{event}_threshold_past"] = past_threshold
        result[f"{event}_event_probability"] = _on_map(event_probability, ocean, days.dims[:1])
        result[f"{event}_running_probability"] = _on_map(running, ocean, (*days.dims[:1], RUNNING_DAY))
        result[f"{event}_probability"] = _on_map(in_event, ocean, days.dims)
        result[f"{event}_category"] = _on_map(category, ocean, days.dims)
        if event == "heatwave":
            result["heatwave_climatology"] = climatology.where(ocean)
            result["heatwave_climatology_past"] = on_days(limits["climatology"], past_days).where(ocean)
            result["exceedance_probability"] = _on_map(exceedance[0], ocean, days.dims)
            for name, day in (("heatwave_start", first), ("heatwave_end", last)):
                date = fields["init_time"].values + (day + 1) * np.timedelta64(1, "D")
                date = np.where(event_probability >= 0.5, date, np.datetime64("NaT", "ns"))
                result[name] = _on_map(date.astype("datetime64[ns]"), ocean, days.dims[:1])
            areas = {"heatwave_area": result["heatwave_probability"]}
            areas["heatwave_area_now"] = _on_map(initial_probability, ocean, days.dims[:1])
            for name, share in areas.items():
                area = share.weighted(area_weights(fields["lat"])).mean(["lat", "lon"])
                result[name] = area.astype(np.float32)
    return result.assign_coords({RUNNING_DAY: running_days(days.sizes["lead"])})


def without_events(fields: xr.Dataset) -> xr.Dataset:
    """Return a forecast in which all that depends on events is missing: probabilities, categories, dates, shares.

    Thresholds, climatologies and the probabilities of days beyond a threshold stay.
    """
    names = [name for name in map(str, fields) if OF_EVENTS.fullmatch(name)]
    return fields.assign({name: fields[name].where(False) for name in names})


def running_days(leads: int) -> NDArray[np.int32]:
    """Return the `RUNNING_DAYS` in a forecast of `leads` days, or its last day if it is shorter."""
    return np.array([day for day in RUNNING_DAYS if day <= leads] or [leads], np.int32)


def _event_fields(
    trajectories: Trajectories, beyond: NDArray[np.float32], observed: NDArray[np.bool_]
) -> list[NDArray[Any]]:
    """Compute event probabilities and dates, a block of cells at a time.

    `beyond [category, lead, cell]` is the probability of a day beyond the lower limit of each category.
    `observed [past, cell]` marks the past days that were beyond the threshold.

    Returns the probability of a day in an event and the most likely category, `[lead, cell]`, the probabilities of
    any event in the forecast, of the first one on the `running_days [day, cell]`, and of an event on the initial
    date, and the medians of the first and last day of the first event, `[cell]`. Day 0 is the first lead.
    """
    cells = range(0, beyond.shape[-1], CELLS_AT_ONCE)
    parts = [slice(first, first + CELLS_AT_ONCE) for first in cells]
    block_fields = [_of_cells(trajectories, beyond[..., part], observed[:, part]) for part in parts]
    return [np.concatenate(fields, axis=-1) for fields in zip(*block_fields, strict=True)]


def _of_cells(
    trajectories: Trajectories, beyond: NDArray[np.float32], observed: NDArray[np.bool_]
) -> tuple[NDArray[Any], ...]:
    """Compute event probabilities and dates for one block of cells (see `_event_fields`).

    All probabilities are shares of trajectories. The median of the first (last) day is the first day on which the
    event has begun (ended) in half of the trajectories with an event.
    """
    in_event, past = trajectories.in_event(beyond[0], observed), len(observed)
    forecast_events, share, undefined = in_event[past:-MARGIN_DAYS], trajectories.share, np.isnan(beyond[0])
    at_least = np.stack([share(forecast_events & trajectories.beyond(limit)[:-MARGIN_DAYS]) for limit in beyond])
    shares = -np.diff(at_least, axis=0, prepend=1, append=0)  # no event, then each category

    # Whether the event on the first lead includes this past day.
    reaches_back = np.bitwise_and.accumulate(in_event[past::-1])[:0:-1]
    had_event, ended = first_event(in_event[past:], len(forecast_events))
    running = running_event(in_event[past:], len(forecast_events))
    begun_share, ended_share = share(np.concatenate([reaches_back, had_event])), share(ended)
    half_share = begun_share[-1] / 2  # of the trajectories with an event
    last = np.where(ended_share[-1] >= half_share, (ended_share >= half_share).argmax(0), len(had_event) - 1)
    first = (begun_share >= half_share).argmax(0) - past
    probability = np.where(undefined, np.float32(np.nan), share(forecast_events))
    category = np.where(undefined, np.float32(UNDEFINED), shares.argmax(0).astype(np.float32))
    never_defined = undefined.all(0)
    initial_probability = np.where(never_defined, np.float32(np.nan), share(in_event[past - 1]))
    return (
        probability,
        category,
        np.where(never_defined, np.float32(np.nan), begun_share[-1]),
        np.where(never_defined, np.float32(np.nan), share(running)),
        initial_probability,
        first,
        last,
    )


def first_event(in_event: MaskOrBits, leads: int) -> tuple[MaskOrBits, MaskOrBits]:
    """Return whether the first event with a day in the forecast has begun, and whether it has ended, by each lead.

    `in_event [lead or more, ...]` are bits or a mask of days in an event. An event has ended by its last day.
    """
    begun = np.bitwise_or.accumulate(in_event[:leads])
    return begun, np.bitwise_or.accumulate(begun & ~in_event[1 : leads + 1])


def running_event(in_event: MaskOrBits, leads: int) -> MaskOrBits:
    """Return whether the first event with a day in the forecast is running on each of the `running_days`."""
    _, ended = first_event(in_event, leads)
    running = in_event[:leads].copy()
    running[1:] &= ~ended[:-1]
    return running[running_days(leads) - 1]


def _at(field: xr.DataArray, ocean: xr.DataArray) -> NDArray[np.float32]:
    """Return the ocean cells `[day, cell]` of `field(init_time, day, lat, lon)`, which has one initial date."""
    return field.isel(init_time=0).transpose(..., "lat", "lon").values[:, ocean.values]


def _on_map(cells: NDArray[Any], ocean: xr.DataArray, dims: tuple[Hashable, ...]) -> xr.DataArray:
    """Put ocean cells `[..., cell]` on the map `(init_time, ..., lat, lon)`. Land is NaN or NaT."""
    fill = np.array("NaT" if cells.dtype.kind == "M" else np.nan, cells.dtype)
    values = np.full((1, *cells.shape[:-1], *ocean.shape), fill)
    values[..., ocean.values] = cells
    return xr.DataArray(values, dims=(*dims, "lat", "lon"))
