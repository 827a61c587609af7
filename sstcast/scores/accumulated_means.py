"""Means of statistics, accumulated from blocks of initial dates.

Standardised errors give all ocean cells equal weight, as in the published table. Errors in degC weight cells by
area (cosine of latitude).
"""

from collections.abc import Collection, Iterable

import numpy as np
from numpy.typing import NDArray

from sstcast.ocean.lead_weeks import week_starts
from sstcast.storage.scratch import scratch_array
from sstcast.types import Array


class AccumulatedMeans:
    """Accumulates means of statistics, by name, from blocks of initial dates.

    Values on land are ignored, because the weight of land nodes is 0.

    Attributes:
        by_date: weighted means over the cells, `[starts, lead]`.
        by_cell: means over dates and the days of a lead week of statistics `mapped`, `[week, tile, N]`.
        by_week: means over the days of a lead week of the statistic `keep`, `[starts, week, tile, N]`.
    """

    def __init__(
        self, starts: int, leads: NDArray[np.integer], weights: Array, mapped: Collection[str] = (), keep: str = ""
    ) -> None:
        """Take the number of initial dates, the leads in days, and `weights [tile, N]` that sum to 1."""
        self.shape, self.weights, self.mapped, self.keep = (starts, len(leads)), weights, mapped, keep
        self.weeks = week_starts(leads)
        self.by_date: dict[str, NDArray[np.floating]] = {}
        self.by_cell: dict[str, NDArray[np.floating]] = {}
        # Stored in the order in which `compare_cells` reads it: all dates of a week and a tile together.
        by_week = scratch_array((len(self.weeks), len(weights), starts if keep else 0, weights.shape[1]))
        self.by_week = by_week.transpose(2, 0, 1, 3)

    def add(self, dates: slice, fields: Iterable[tuple[str, Array]]) -> None:
        """Add the statistics of `dates`: pairs of a name and an array `[dates, lead, tile, N]`."""
        for name, values in fields:
            values = values.astype(np.float32, copy=False)  # some statistics are boolean
            means = self.by_date.setdefault(name, np.full(self.shape, np.nan, np.float32))
            # Tile by tile, so that rounding does not depend on the memory layout.
            means[dates] = np.einsum("sltn,tn->slt", values, self.weights).sum(-1)
            if name in self.mapped:
                self.by_cell[name] = (
                    self.by_cell.get(name, 0) + weekly(values.sum(0), 0, self.weeks) / self.shape[0]
                )
            if name == self.keep:
                self.by_week[dates] = weekly(values, 1, self.weeks)


def weekly(by_lead: Array, axis: int, starts: NDArray[np.intp]) -> Array:
    """Average over the days of each lead week along `axis`."""
    weeks = np.split(by_lead, starts[1:], axis)
    return np.stack([days.mean(axis) for days in weeks], axis)
