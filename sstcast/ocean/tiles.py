"""Regions and their tiles: `[..., lat, lon]` <-> `[..., tile, node]`.

Tiles are counted row by row from the south-west; a tile's nodes likewise. Both directions are pure
reshapes of NumPy arrays.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sstcast.config import Region
from sstcast.errors import SSTCastError


def tile_index(region: Region, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return `[tile, node]`: the position of every node in the flattened `(lat, lon)` field of `shape`."""
    (rows, cols), (height, width) = region.tile, shape[-2:]
    cells = np.arange(height * width).reshape(height // rows, rows, width // cols, cols)
    tiles = cells.transpose(0, 2, 1, 3).reshape(-1, rows * cols)
    if outside := [t for t in region.skip if not 0 <= t < len(tiles)]:
        raise SSTCastError(f"region.skip: no tile {outside[0]}; the region has tiles 0..{len(tiles) - 1}")
    return np.delete(tiles, list(region.skip), axis=0)


def to_tiles(field: NDArray[Any], index: NDArray[np.int64]) -> NDArray[Any]:
    """Cut `field` of shape `[..., lat, lon]` into `[..., tile, node]`."""
    return field.reshape(*field.shape[:-2], -1)[..., index]


def from_tiles(tiles: NDArray[Any], index: NDArray[np.int64], shape: tuple[int, int]) -> NDArray[Any]:
    """Put `tiles` of shape `[..., tile, node]` back on the map, `[..., lat, lon]`; NaN where no tile lies."""
    field = np.full((*tiles.shape[:-2], shape[0] * shape[1]), np.nan, dtype=tiles.dtype)
    field[..., index] = tiles
    return field.reshape(*tiles.shape[:-2], *shape)
