"""Marine heatwaves and cold spells that a forecast and its spread make probable.

The probability that a day is beyond a threshold follows from the Gaussian of the day. Whether it lies in an event
depends on the days around it, so events are detected in a few hundred trajectories: days observed, then days
forecast with errors drawn from the Gaussian of all leads, then `AROUND` days more on which margin and spread stay
as they were on the last one.

Where a trajectory is beyond a threshold is one bit. The errors are drawn once, and from cell to cell only their
sizes differ. So if n of them are beyond the threshold on some day, they are the n that rank first on that
day. n is rounded from the probability of the day, which has less sampling noise than drawing has.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray

from sstcast.forecasting.spread import Spread
from sstcast.ocean.anomalies import on_days
from sstcast.ocean.heatwaves import AROUND, events, multiples

SAMPLES = 256
WORD = 64  # trajectories in an integer
CELLS_AT_ONCE = 1024  # whose trajectories fit the cache

Array = NDArray[np.floating]
Bits = NDArray[np.uint64]


def probability(margin: Array, spread: Array) -> NDArray[np.float32]:
    """Return the probability that a Gaussian is above a limit that its mean exceeds by `margin`.

    Without spread it is 0 or 1; where either is NaN it is 0.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        sigmas = torch.from_numpy(np.asarray(margin / spread, np.float32))
    return torch.special.ndtr(sigmas).nan_to_num_(0).numpy()


@dataclass(frozen=True)
class Trajectories:
    """The same draws for every cell: the errors of the days forecast and of `AROUND` days after them.

    Attributes:
        correlation: of the errors between leads, `[lead, lead]`.
        samples: how many, a multiple of 64.
    """

    correlation: Array
    samples: int = SAMPLES

    @cached_property
    def first(self) -> Bits:
        """The bits of the n trajectories that rank first on a day, `[word, day, n]`, n = 0..samples."""
        size = len(self.correlation)
        after = np.arange(AROUND + 1)
        step = self.correlation[-1, -2] if size > 1 else 0.0
        days = np.minimum(np.arange(size + AROUND), size - 1)
        late = np.maximum(np.arange(size + AROUND) - size + 1, 0)
        reach = step ** after[np.abs(late[:, None] - late)]  # errors after the last lead forget as those before it
        values, vectors = np.linalg.eigh(self.correlation[np.ix_(days, days)] * reach)
        factor = vectors * np.sqrt(np.maximum(values, 0))
        errors = np.random.default_rng(0).standard_normal((self.samples, len(days))) @ factor.T
        trajectory = np.arange(self.samples)
        one = np.zeros((self.samples, self.samples // WORD), np.uint64)
        one[trajectory, trajectory // WORD] = np.uint64(1) << (trajectory % WORD).astype(np.uint64)
        table = np.zeros((one.shape[1], len(days), self.samples + 1), np.uint64)
        for day, order in enumerate(np.argsort(-errors, axis=0).T):
            table[:, day, 1:] = np.cumsum(one[order], axis=0, dtype=np.uint64).T
        return table

    def beyond(self, probability: NDArray[np.float32]) -> Bits:
        """Return which are beyond a limit, `[lead + AROUND, word, cell]`, from the `probability [lead, cell]`."""
        number = (probability * np.float32(self.samples) + np.float32(0.5)).astype(np.intp)
        number = np.concatenate([number, np.broadcast_to(number[-1:], (AROUND, *number.shape[1:]))])
        place = number + (self.samples + 1) * np.arange(len(number))[:, None]
        return np.stack([word.take(place) for word in self.first.reshape(len(self.first), -1)], axis=1)

    def in_event(self, probability: NDArray[np.float32], observed: NDArray[np.bool_]) -> Bits:
        """Return which are in an event, `[day, word, cell]`: days observed, days forecast and `AROUND` more.

        `observed [day, cell]` are the days before the first lead that were beyond the threshold.
        """
        ahead = self.beyond(probability)
        before = np.where(observed[:, None], ~np.uint64(0), np.uint64(0))
        return events(np.concatenate([np.broadcast_to(before, (len(before), *ahead.shape[1:])), ahead]))

    def probability(self, beyond: NDArray[np.float32], observed: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Return the probability `[lead, cell]` of being in an event; the arguments are those of `in_event`."""
        return self.share(self.in_event(beyond, observed)[len(observed) : -AROUND])

    def share(self, bits: Bits) -> NDArray[np.float32]:
        """Return the share of trajectories whose bit is set in `[..., word, cell]`."""
        return np.bitwise_count(bits).sum(-2, dtype=np.float32) / np.float32(self.samples)


def with_heatwaves(fields: xr.Dataset, spread: Spread, limits: xr.Dataset) -> xr.Dataset:
    """Return a forecast with the thresholds and probabilities of heatwaves and cold spells.

    Args:
        fields: `sst(init_time, lead, lat, lon)` from one initial date and `sst_past(init_time, past, lat, lon)`,
            in degC, NaN on land.
        spread: of the forecasts.
        limits: `sstcast.ocean.heatwaves.limits` of the base period.

    Returns:
        `fields` and `heatwave_threshold`, `heatwave_threshold_past`, `cold_spell_threshold`;
        `exceedance_probability` of the first; `heatwave_probability`, `cold_spell_probability` of being in an
        event; `heatwave_category`, `cold_spell_category`, the most likely one; `heatwave_start` and
        `heatwave_end(init_time, lat, lon)` of the first event with a day in the forecast: medians of its first and
        last day, where such an event is as likely as not. It may have begun on any day of `sst_past`; an end on
        the last lead means then or later.
    """
    days, past = fields["valid_time"], fields["init_time"] + fields["past"] * np.timedelta64(1, "D")
    ocean = fields["sst"].notnull().isel(init_time=0, lead=0, drop=True)
    trajectories, width = Trajectories(spread.correlation), _at(spread.spread(days), ocean)
    result = fields.copy()
    for event, sign in (("heatwave", 1), ("cold_spell", -1)):
        threshold, before = (on_days(limits[f"{event}_threshold"], time).where(ocean) for time in (days, past))
        result[f"{event}_threshold"] = threshold
        climatology = on_days(limits["climatology"], days)
        bounds = multiples(*(sign * _at(field, ocean) for field in (climatology, threshold)))
        beyond = probability(sign * _at(fields["sst"], ocean) - bounds, width)
        observed = sign * _at(fields["sst_past"], ocean) > sign * _at(before, ocean)
        found = _products(trajectories, beyond, observed)
        result[f"{event}_probability"] = _on_map(found.event, ocean, days.dims)
        result[f"{event}_category"] = _on_map(found.category, ocean, days.dims)
        if event == "heatwave":
            result["heatwave_threshold_past"] = before
            result["exceedance_probability"] = _on_map(beyond[0], ocean, days.dims)
            for name, day in (("heatwave_start", found.first), ("heatwave_end", found.last)):
                date = fields["init_time"].values + (day + 1) * np.timedelta64(1, "D")
                date = np.where(found.likely, date, np.datetime64("NaT"))
                result[name] = _on_map(date.astype("datetime64[ns]"), ocean, days.dims[:1])
    return result


class _Products(NamedTuple):
    """By cell: the probability of an event and the most likely category, `[lead, cell]`; whether an event with a
    day in the forecast is as likely as not, and the medians of its first and last day, 0 being the first lead.
    """

    event: NDArray[np.float32]
    category: NDArray[np.float32]
    likely: NDArray[np.bool_]
    first: NDArray[np.intp]
    last: NDArray[np.intp]


def _products(trajectories: Trajectories, beyond: NDArray[np.float32], observed: NDArray[np.bool_]) -> _Products:
    """Return the products of some cells from the probabilities `[4, lead, cell]` of being beyond the lower limit
    of each category, and the days observed to be beyond the threshold, `[past, cell]`.
    """
    cells = range(0, beyond.shape[-1], CELLS_AT_ONCE)
    parts = [slice(first, first + CELLS_AT_ONCE) for first in cells]
    found = [_of_cells(trajectories, beyond[..., part], observed[:, part]) for part in parts]
    return _Products(*(np.concatenate(fields, axis=-1) for fields in zip(*found, strict=True)))


def _of_cells(trajectories: Trajectories, beyond: NDArray[np.float32], observed: NDArray[np.bool_]) -> _Products:
    inside, past = trajectories.in_event(beyond[0], observed), len(observed)
    ahead, share = inside[past:-AROUND], trajectories.share
    at_least = np.stack([share(ahead & trajectories.beyond(limit)[:-AROUND]) for limit in beyond])
    shares = -np.diff(at_least, axis=0, prepend=1, append=0)  # of none and of each category

    seen = np.bitwise_or.accumulate(ahead)  # an event with a day in the forecast
    back = np.bitwise_and.accumulate(inside[past::-1])[:0:-1]  # one on the first lead that covers the day, too
    begun = share(np.concatenate([back, seen]))
    over = share(np.bitwise_or.accumulate(seen & ~inside[past + 1 : past + 1 + len(seen)]))
    half = begun[-1] / 2
    last = np.where(over[-1] >= half, (over >= half).argmax(0), len(seen) - 1)
    first = (begun >= half).argmax(0) - past
    return _Products(share(ahead), shares.argmax(0).astype(np.float32), begun[-1] >= 0.5, first, last)


def _at(field: xr.DataArray, ocean: xr.DataArray) -> NDArray[np.float32]:
    """Return `field(init_time, day, lat, lon)` from the only initial date as `[day, cell]`."""
    return field.isel(init_time=0).transpose(..., "lat", "lon").values[:, ocean.values]


def _on_map(cells: NDArray[Any], ocean: xr.DataArray, dims: tuple[Hashable, ...]) -> xr.DataArray:
    """Put `[..., cell]` on `(init_time, ..., lat, lon)`; land is NaN, or NaT."""
    fill = np.array("NaT" if cells.dtype.kind == "M" else np.nan, cells.dtype)
    values = np.full((1, *cells.shape[:-1], *ocean.shape), fill)
    values[..., ocean.values] = cells
    return xr.DataArray(values, dims=(*dims, "lat", "lon"))
