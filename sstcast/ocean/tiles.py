"""A region's tiles: `[..., lat, lon]` <-> `[..., tile, node]`.

Tiles, and the nodes in each tile, are numbered row by row from the south-west. Values are only rearranged.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sstcast.config import Region
from sstcast.errors import SSTCastError


def tile_index(region: Region, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the position of every node in a flattened `(lat, lon)` field of `shape`, `[tile, node]`.

    Raises SSTCastError if `region.skip` names a tile that does not exist.
    """
    (rows, cols), (height, width) = region.tile, shape[-2:]
    cells = np.arange(height * width).reshape(height // rows, rows, width // cols, cols)
    tiles = cells.transpose(0, 2, 1, 3).reshape(-1, rows * cols)
    if invalid_tiles := [t for t in region.skip if not 0 <= t < len(tiles)]:
        raise SSTCastError(f"region.skip: no tile {invalid_tiles[0]}; the region has tiles 0..{len(tiles) - 1}")
    return np.delete(tiles, list(region.skip), axis=0)


def in_tiles(region: Region, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return a mask `[lat, lon]` of the cells, land or ocean, that lie in a tile."""
    cells = np.zeros(shape[-2:], bool)
    cells.flat[tile_index(region, shape)] = True
    return cells


def to_tiles(field: NDArray[Any], index: NDArray[np.int64]) -> NDArray[Any]:
    """Divide `field` of shape `[..., lat, lon]` into tiles, `[..., tile, node]`."""
    return np.take(field.reshape(*field.shape[:-2], -1), index, axis=-1)


def from_tiles(tiles: NDArray[Any], index: NDArray[np.int64], shape: tuple[int, int]) -> NDArray[Any]:
    """Return `tiles` of shape `[..., tile, node]` as a map `[..., lat, lon]`, NaN outside the tiles."""
    nodes, outside = np.zeros(shape, np.intp), np.ones(shape, bool)
    nodes.flat[index], outside.flat[index] = np.arange(index.size).reshape(index.shape), False
    field = np.take(tiles.reshape(*tiles.shape[:-2], -1), nodes, axis=-1)  # ten times as fast as assignment
    if outside.any():
        field[..., outside] = np.nan
    return field
