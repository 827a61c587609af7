"""Large temporary arrays, memory-mapped from unnamed files, so that any region can be scored in little memory.

The files are in the system's temporary folder and disappear with their arrays. Pages that were read or written
count as memory of the process until `release` is called. Their values are kept.
"""

import os
from collections.abc import Iterator
from mmap import MADV_DONTNEED, mmap
from tempfile import TemporaryFile
from typing import Any
from weakref import WeakSet

import numpy as np
import xarray as xr
from numpy.typing import DTypeLike, NDArray

from sstcast.progress import tracked
from sstcast.storage.memory import trim

KEPT = 2**22  # values; smaller arrays stay in memory
VALUES_AT_ONCE = 2**21  # minimum number of values to read from a store at once, in whole chunks
LEAST_KEPT = 2**29  # bytes of free memory; the next block takes them again, and the kernel need not clear them
_kept = [LEAST_KEPT]  # rises to what a block needed
_FILES: WeakSet[mmap] = WeakSet()


def scratch_array(shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> NDArray[Any]:
    """Return an uninitialised array, in a file if it is large. Raises OSError if the disk is too full."""
    if np.prod(shape) <= KEPT:
        return np.empty(shape, dtype)
    with TemporaryFile() as file:
        # Reserving the space makes a full disk an error here. Once mapped, it would kill the process.
        if hasattr(os, "posix_fallocate"):  # macOS has none
            os.posix_fallocate(file.fileno(), 0, int(np.prod(shape)) * np.dtype(dtype).itemsize)
        array = np.memmap(file, dtype, "w+", shape=shape)
        _FILES.add(array._mmap)  # type: ignore[attr-defined]
        return array


class GrowingArray:
    """A one-dimensional array of unknown length, in an unnamed file to which values are appended."""

    def __init__(self, dtype: DTypeLike) -> None:
        self._dtype, self._file = np.dtype(dtype), TemporaryFile()  # noqa: SIM115

    def append(self, values: NDArray[Any]) -> None:
        """Append values, converted to the type of the array."""
        self._file.write(np.ascontiguousarray(values, self._dtype).tobytes())

    def array(self) -> NDArray[Any]:
        """Return all values, which stay in the file. Nothing can be appended after that."""
        with self._file:
            length = self._file.tell() // self._dtype.itemsize
            return np.memmap(self._file, self._dtype, "r", shape=(length,)) if length else np.empty(0, self._dtype)


def release() -> None:
    """Free the memory of pages that arrays in files have touched, and most of what no block needed.

    Clearing pages again takes the kernel longer than some blocks take to compute. So when the free memory exceeds
    what is kept, it is given back once, and as much is kept from then on, up to a quarter of the machine's memory.
    """
    for file in _FILES:
        file.madvise(MADV_DONTNEED)
    if _FILES and (free := trim(_kept[0])) > _kept[0]:
        largest = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4
        _kept[0] = max(LEAST_KEPT, min(free + LEAST_KEPT // 2, largest))


def in_scratch(field: xr.DataArray) -> xr.DataArray:
    """Load a field, lazy or not, into a `scratch_array`."""
    values = scratch_array(field.shape, field.dtype)
    for part in parts(field):
        values[part] = field[part].values
        release()
    return field.copy(data=values)


def parts(field: xr.DataArray | NDArray[Any]) -> Iterator[slice]:
    """Divide the first axis of a field into slices of whole chunks that fit in memory. An array is one chunk.

    Shows how many of them are done.
    """
    slices, first, last = [], 0, 0
    for length in (getattr(field, "chunks", None) or ((len(field),),))[0]:
        last += length
        if last == len(field) or (last - first) * np.prod(field.shape[1:]) >= VALUES_AT_ONCE:
            slices.append(slice(first, last))
            first = last
    yield from tracked(slices, f"reading {getattr(field, 'name', None) or 'values'}")
