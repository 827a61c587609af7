"""A whole region as one tile, read in blocks of days, so that linear systems can be fitted to any region."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import xarray as xr

from sstcast.config import DataConfig, Region
from sstcast.ocean.windows import Empty, Windows, in_memory, preceded, windows_of
from sstcast.scratch import scratch_array

KEPT, AT_ONCE = 2**27, 2**25  # values: that are read once, and of a block where all would be too many


@dataclass(frozen=True)
class WholeRegion:
    """The windows of a split, with the whole region as one tile.

    `anomalies` are the split's days and the `before` days that precede them, without the first `absent` of these,
    opened lazily. They are read once and kept, unless they are very many.
    """

    anomalies: xr.Dataset
    region: Region
    history: int
    horizon: int
    before: int = 0
    absent: int = 0

    @classmethod
    def of(cls, anomalies: xr.Dataset, data: DataConfig, split: str, before: int = 0) -> "WholeRegion":
        """Take the windows of `split`, each after `before` days of the record (see `windows.preceded`).

        Raises SSTCastError if the split is too short for even one.
        """
        days, before, absent = preceded(anomalies, data, split, before)
        return cls(days, whole(data.box, anomalies), data.history, data.horizon, before, absent)

    @property
    def shape(self) -> tuple[int, int]:
        return self.region.tile

    def blocks(self, stride: int) -> Iterator[Windows]:
        """Yield the windows of every `stride`-th day, consecutive blocks of days in memory at a time."""
        days, nodes = self.absent + self.anomalies.sizes["time"], self.shape[0] * self.shape[1]
        length = self.before + self.history + self.horizon
        if days * nodes <= KEPT:
            yield self._all.thinned(stride)
            return
        starts, count = days - length, max(1, AT_ONCE // nodes // stride) * stride
        for first in range(0, starts, count):
            last = min(first + count, starts)
            yield self._read(first, last + length).thinned(stride)

    @cached_property
    def _all(self) -> Windows:
        return self._read(0, self.absent + self.anomalies.sizes["time"], scratch_array)

    def _read(self, first: int, stop: int, empty: Empty = in_memory) -> Windows:
        absent = max(0, self.absent - first)
        days = self.anomalies.isel(time=slice(first + absent - self.absent, stop - self.absent))
        return windows_of(days, self.region, self.history, self.horizon, empty, self.before, absent)


def whole(region: Region, field: xr.Dataset) -> Region:
    """Return a region as one tile of all cells `lat`, `lon` of `field`."""
    return region.model_copy(
        update={"tile": (field.sizes["lat"], field.sizes["lon"]), "skip": (), "land_tiles": "keep"}
    )
