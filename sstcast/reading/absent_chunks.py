"""Chunks that a Zarr store lacks. They read as the fill value of their array, which may pass for data."""

import itertools
import math
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from zarr.storage import LocalStore

from sstcast.errors import SSTCastError, reading
from sstcast.reading.flags import Rule, unpacked

REMEDY = "write it again, or declare the fill value as its _FillValue if it marks missing values"
ZERO_IS_MISSING = "with 0 as missing, because 0 is its fill_value; set that to NaN or null if 0 is a value"
Chunk = tuple[int, ...]


@dataclass(frozen=True)
class Absent:
    """What an absent chunk of a field means.

    Attributes:
        path: the store, for messages.
        array: the Zarr array of the field.
        value: what the chunk reads as, NaN if it is missing.
        is_sst: whether the field is SST, of which a chunk is left out only if it is land on all days.
        days: the axes of `array` along which chunks are of one place.
        levels: the number of the chunk that is read along an axis of levels.
    """

    path: Path
    array: Any
    value: float
    is_sst: bool
    days: tuple[int, ...]
    levels: Mapping[int, int]

    @property
    def name(self) -> str:
        return str(self.array.basename)

    @property
    def told(self) -> str:
        """The end of a sentence on a field of which 0 is left out."""
        return f"with {self.value:g} in chunks that are not there"

    @property
    def _ranges(self) -> list[Sequence[int]]:
        lengths = self.array.shards or self.array.chunks
        counts = [math.ceil(size / length) for size, length in zip(self.array.shape, lengths, strict=True)]
        levels = {axis: index // lengths[axis] for axis, index in self.levels.items()}
        return [[levels[axis]] if axis in levels else range(count) for axis, count in enumerate(counts)]

    def key(self, chunk: Chunk) -> str:
        """Return the key of a chunk in the store."""
        return f"{self.array.path}/{self.array.metadata.encode_chunk_key(chunk)}"

    def chunk(self, key: str) -> Chunk:
        """Return the chunk of a key."""
        return tuple(map(int, re.findall(r"\d+", key.removeprefix(self.array.path))[-self.array.ndim :]))

    def place(self, chunk: Chunk) -> Chunk:
        """Return what the chunks of one place have in common."""
        return tuple(index for axis, index in enumerate(chunk) if axis not in self.days)

    def of_place(self, chunk: Chunk) -> Iterator[str]:
        """Yield the keys of all chunks of a place."""
        ranges = [r if axis in self.days else [chunk[axis]] for axis, r in enumerate(self._ranges)]
        yield from map(self.key, itertools.product(*ranges))

    def counted(self, root: Path) -> tuple[int, int]:
        """Return how many chunks of a store in a folder are lost, and how many it would have."""
        ranges = self._ranges
        chunks = list(itertools.product(*ranges))
        is_there = np.array([(root / self.key(chunk)).is_file() for chunk in chunks], bool)
        is_there = is_there.reshape([len(part) for part in ranges])
        lost = ~is_there & is_there.any(self.days, keepdims=True) if self.is_sst else ~is_there
        return int(lost.sum()), is_there.size


def check_chunks(
    stored: xr.DataArray,
    array: Any,
    space: set[Hashable],
    rules: Sequence[Rule],
    levels: Mapping[Hashable, int],
    is_sst: bool,
    path: Path,
) -> str:
    """Return how a field is read of which chunks are not there, as the end of a sentence, or "".

    A chunk is missing if its fill value is, by the attributes or `rules` of the field; of Zarr 2, whose default
    makes zeros missing, this is told. A field of which 0 is left out, such as ice, is read. SST lacks chunks of
    land on all days. Any other absent chunk is lost. The store of a URL judges so when it meets one.

    Args:
        stored: the field, with the dimensions of sstcast.
        array: its Zarr array.
        space: its dimensions in space.
        rules: those by which its values are kept.
        levels: the level that is read along a dimension.
        is_sst: whether it is SST.
        path: the store, for messages.

    Raises SSTCastError if a chunk is lost.
    """
    with reading(path, REMEDY):  # attributes may be no numbers
        value = read_as(stored, array, rules)
    dims = stored.dims[len(stored.dims) - array.ndim :]
    days = tuple(axis for axis, dim in enumerate(dims) if dim not in space)
    of_axes = {dims.index(dim): level for dim, level in levels.items() if dim in dims}
    absent = Absent(path, array, value, is_sst, days, of_axes)
    if not isinstance(array.store, LocalStore):
        array.store.absent[absent.name] = absent
    if np.isnan(value):
        is_zero = not is_sst and array.metadata.zarr_format == 2 and _fill(stored, array)[0] == 0
        return ZERO_IS_MISSING if is_zero else ""
    if not isinstance(array.store, LocalStore):
        return ""
    lost, total = absent.counted(array.store.root)
    if not lost:
        return ""
    if value == 0 and not is_sst:
        return f"{absent.told}, {lost} of {total}"
    raise SSTCastError(
        f"{path}: {absent.name} lacks {lost} of {total} chunks, which would read as {value:g}; {REMEDY}"
    )


def read_as(stored: xr.DataArray, array: Any, rules: Sequence[Rule] = ()) -> float:
    """Return the value as which an absent chunk reads, NaN if that is missing."""
    if array.dtype.kind not in "iuf":
        return np.nan
    value, *missing = _fill(stored, array)
    read = xr.DataArray(np.nan if value in missing else value)
    for rule in rules:
        read = read if rule.name else rule.keeps(read)
    return float(read)


def _fill(stored: xr.DataArray, array: Any) -> list[float]:
    """Return the fill value of an array, and the values that its attributes call missing."""
    fill, packing = array.metadata.fill_value, stored.encoding
    marks = [np.ravel(packing[key]) for key in ("_FillValue", "missing_value") if key in packing]
    return unpacked(
        stored, array.dtype, np.concatenate([[0 if fill is None else fill], *marks]).astype(float).tolist()
    )
