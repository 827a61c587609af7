"""A whole region as one tile, read in blocks of days, so that linear systems can be fitted to any region."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import xarray as xr

from sstcast.config import DataConfig
from sstcast.ocean.rooms import room
from sstcast.ocean.windows import Empty, Windows, days_in, in_memory, windows_of
from sstcast.region import Region

KEPT, AT_ONCE = 2**27, 2**25  # values: that are read once, and of a block where all would be too many


@dataclass(frozen=True)
class WholeRegion:
    """The windows of a split, with the whole region as one tile.

    `anomalies` are the split's days, opened lazily. They are read once and kept, unless they are very many.
    """

    anomalies: xr.Dataset
    region: Region
    history: int
    horizon: int

    @classmethod
    def of(cls, anomalies: xr.Dataset, data: DataConfig, split: str) -> "WholeRegion":
        """Take the windows of `split`; raise SSTCastError if it is too short for even one."""
        return cls(days_in(anomalies, data, split), whole(data.box, anomalies), data.history, data.horizon)

    @property
    def shape(self) -> tuple[int, int]:
        return self.region.tile

    def blocks(self, stride: int) -> Iterator[Windows]:
        """Yield the windows of every `stride`-th day, consecutive blocks of days in memory at a time."""
        days, nodes = self.anomalies.sizes["time"], self.shape[0] * self.shape[1]
        length = self.history + self.horizon
        if days * nodes <= KEPT:
            yield replace(self._all, every=stride)
            return
        starts, count = days - length, max(1, AT_ONCE // nodes // stride) * stride
        for first in range(0, starts, count):
            last = min(first + count, starts)
            yield replace(self._read(slice(first, last + length)), every=stride)

    @cached_property
    def _all(self) -> Windows:
        return self._read(slice(None), room)

    def _read(self, days: slice, empty: Empty = in_memory) -> Windows:
        return windows_of(self.anomalies.isel(time=days), self.region, self.history, self.horizon, empty)


def whole(region: Region, field: xr.Dataset) -> Region:
    """Return a region as one tile of all cells `lat`, `lon` of `field`."""
    return region.model_copy(
        update={"tile": (field.sizes["lat"], field.sizes["lon"]), "skip": (), "land_tiles": "keep"}
    )
