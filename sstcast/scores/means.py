"""Means over forecasts that come a block of initial dates at a time, so that no field need be held whole."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from sstcast.scratch import scratch_array

Array = NDArray[np.floating]
Days = NDArray[np.integer]


class Means:
    """Mean statistics of one method's forecasts, by name; land nodes may hold anything, their weight is 0.

    Attributes:
        by_date: area means `[starts, lead]`.
        by_tile: means `[tile, lead]` over dates and the tile's area, NaN for a tile without ocean.
        by_cell: means `[week, tile, N]` over dates and the days of a lead week.
        by_week: of the statistic `keep` the means `[starts, week, tile, N]` over the days of a lead week.

    All but `by_date` only if `mapped`.
    """

    def __init__(self, starts: int, leads: Days, weights: Array, *, mapped: bool = False, keep: str = "") -> None:
        """Take the number of initial dates, leads in days, and `weights [tile, N]`, which sum to 1."""
        self.shape, self.weights, self.mapped, self.keep = (starts, len(leads)), weights, mapped, keep
        self.weeks = week_starts(leads)
        self.by_date: dict[str, Array] = {}
        self.by_tile: dict[str, Array] = {}
        self.by_cell: dict[str, Array] = {}
        # In the order in which it is read again: all dates of a week and a tile.
        by_week = scratch_array((len(self.weeks), len(weights), starts if keep else 0, weights.shape[1]))
        self.by_week = by_week.transpose(2, 0, 1, 3)

    def add(self, dates: slice, fields: Iterable[tuple[str, Array]]) -> None:
        """Take in the statistics of `dates`, each a name and `[dates, lead, tile, N]`, one after the other."""
        for name, values in fields:
            values = values.astype(np.float32, copy=False)  # a statistic may be true or false
            in_tiles = np.einsum("sltn,tn->slt", values, self.weights)
            means = self.by_date.setdefault(name, np.full(self.shape, np.nan, np.float32))
            means[dates] = in_tiles.sum(-1)
            if self.mapped:
                area = self.weights.sum(-1, keepdims=True)
                part = in_tiles.sum(0, dtype=float).T / np.where(area > 0, area, np.nan)
                self.by_tile[name] = self.by_tile.get(name, 0) + part / self.shape[0]
                self.by_cell[name] = (
                    self.by_cell.get(name, 0) + weekly(values.sum(0), 0, self.weeks) / self.shape[0]
                )
            if name == self.keep:
                self.by_week[dates] = weekly(values, 1, self.weeks)


def of_members(members: Array) -> Array:
    """Return the mean of `members [M, ...]`; if there is only one, it is not copied."""
    return members.mean(0) if len(members) > 1 else members[0]


def week_starts(leads: Days) -> NDArray[np.intp]:
    """Return the positions at which the lead weeks of ascending `leads` begin; a week may lack days."""
    return np.unique((leads - 1) // 7, return_index=True)[1]


def weekly(by_lead: Array, axis: int, starts: NDArray[np.intp]) -> Array:
    """Average over the days of each lead week along `axis`."""
    weeks = np.split(by_lead, starts[1:], axis)
    return np.stack([days.mean(axis) for days in weeks], axis)


def sum_to_one(weights: NDArray[np.generic]) -> NDArray[np.float32]:
    """Return `weights` over their sum."""
    total = weights.sum(dtype=float)
    return (weights / total).astype(np.float32)
