"""Applies a function to each chunk of days of a field."""

import uuid
from collections.abc import Callable

import numpy as np
import xarray as xr
from dask.array.overlap import overlap
from numpy.typing import NDArray

Field = NDArray[np.float32]


def by_day(
    block: Callable[[Field, NDArray[np.datetime64]], Field], field: xr.DataArray, before: int = 0
) -> xr.DataArray:
    """Apply `block(values [time, lat, lon], days [time])` to each chunk of days of `field(time, lat, lon)`.

    `block` also receives the last `before` days of the previous chunk. Its results for them are dropped.
    """
    days = field["time"].values
    if not field.chunks:
        return field.copy(data=block(field.values, days))
    lengths = field.chunksizes["time"]
    firsts = np.cumsum((0, *lengths))[:-1] - before

    def apply_to_chunk(values: Field, block_id: tuple[int, ...]) -> Field:
        first = max(int(firsts[block_id[0]]), 0)
        return block(values, days[first : first + len(values)])[-lengths[block_id[0]] :]

    padded_data = overlap(field.data, {0: (before, 0), 1: 0, 2: 0}, "none") if before else field.data
    name = f"by-day-{uuid.uuid4().hex}"  # dask would hash everything that the function refers to
    return field.copy(
        data=padded_data.map_blocks(apply_to_chunk, chunks=field.chunks, dtype=field.dtype, name=name)
    )
