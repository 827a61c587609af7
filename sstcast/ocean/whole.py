"""A whole region as one tile, read in blocks of days, so that linear systems can be fitted to any region."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import xarray as xr

from sstcast.config import DataConfig, Region
from sstcast.ocean.windows import Empty, Windows, days_in, in_memory, windows_of
from sstcast.scratch import scratch_array

KEPT, AT_ONCE = 2**27, 2**25  # values: that are read once, and of a block where all would be too many
LEAST = 2 * 365  # days that windows must be left if the first days of a record only precede windows


@dataclass(frozen=True)
class WholeRegion:
    """The windows of a split, with the whole region as one tile.

    `anomalies` are the split's days and the `before` days that precede them, opened lazily. They are read once and
    kept, unless they are very many.
    """

    anomalies: xr.Dataset
    region: Region
    history: int
    horizon: int
    before: int = 0

    @classmethod
    def of(cls, anomalies: xr.Dataset, data: DataConfig, split: str, before: int = 0) -> "WholeRegion":
        """Take the windows of `split`, each after `before` days of the record.

        Where the record lacks such days, windows begin later; where this would leave less than two years, they
        begin at once, with no days before them. Raises SSTCastError if the split is too short for even one.
        """
        days, region = days_in(anomalies, data, split), whole(data.box, anomalies)
        if before:
            first = int(anomalies.indexes["time"].get_loc(days.indexes["time"][0]))
            lacking, count = max(0, before - first), days.sizes["time"]
            if lacking and count - lacking < LEAST:
                before = 0
            days = anomalies.isel(time=slice(max(0, first - before), first + count))
        return cls(days, region, data.history, data.horizon, before)

    @property
    def shape(self) -> tuple[int, int]:
        return self.region.tile

    def blocks(self, stride: int) -> Iterator[Windows]:
        """Yield the windows of every `stride`-th day, consecutive blocks of days in memory at a time."""
        days, nodes = self.anomalies.sizes["time"], self.shape[0] * self.shape[1]
        length = self.before + self.history + self.horizon
        if days * nodes <= KEPT:
            yield self._all.thinned(stride)
            return
        starts, count = days - length, max(1, AT_ONCE // nodes // stride) * stride
        for first in range(0, starts, count):
            last = min(first + count, starts)
            yield self._read(slice(first, last + length)).thinned(stride)

    @cached_property
    def _all(self) -> Windows:
        return self._read(slice(None), scratch_array)

    def _read(self, days: slice, empty: Empty = in_memory) -> Windows:
        days_read = self.anomalies.isel(time=days)
        return windows_of(days_read, self.region, self.history, self.horizon, empty, self.before)


def whole(region: Region, field: xr.Dataset) -> Region:
    """Return a region as one tile of all cells `lat`, `lon` of `field`."""
    return region.model_copy(
        update={"tile": (field.sizes["lat"], field.sizes["lon"]), "skip": (), "land_tiles": "keep"}
    )
