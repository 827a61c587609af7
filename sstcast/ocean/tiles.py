"""A region's tiles: `[..., lat, lon]` <-> `[..., tile, node]`.

Tiles, and the nodes in each tile, are numbered row by row from the south-west. Values are only rearranged.
"""

from collections.abc import Iterator
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
    if outside := [t for t in region.skip if not 0 <= t < len(tiles)]:
        raise SSTCastError(f"region.skip: no tile {outside[0]}; the region has tiles 0..{len(tiles) - 1}")
    return np.delete(tiles, list(region.skip), axis=0)


def in_tiles(region: Region, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return a mask `[lat, lon]` of the cells, land or ocean, that lie in a tile."""
    cells = np.zeros(shape[-2:], bool)
    cells.flat[tile_index(region, shape)] = True
    return cells


def to_tiles(field: NDArray[Any], index: NDArray[np.int64]) -> NDArray[Any]:
    """Divide `field` of shape `[..., lat, lon]` into tiles, `[..., tile, node]`."""
    tiles = np.empty((*field.shape[:-2], *index.shape), field.dtype)
    for tile, (rows, columns) in enumerate(_rectangles(index, field.shape[-1])):
        cells = field[..., rows, columns]
        tiles[..., tile, :].reshape(cells.shape)[...] = cells
    return tiles


def from_tiles(tiles: NDArray[Any], index: NDArray[np.int64], shape: tuple[int, int]) -> NDArray[Any]:
    """Return `tiles` of shape `[..., tile, node]` as a map `[..., lat, lon]`, NaN outside the tiles."""
    field = np.full((*tiles.shape[:-2], *shape), np.nan, dtype=tiles.dtype)
    for tile, (rows, columns) in enumerate(_rectangles(index, shape[1])):
        cells = field[..., rows, columns]
        cells[...] = tiles[..., tile, :].reshape(cells.shape)
    return field


def _rectangles(index: NDArray[np.int64], width: int) -> Iterator[tuple[slice, slice]]:
    """Yield the rows and columns of each tile on a map of `width` columns.

    Unlike indexing with an integer array, indexing with slices keeps the axes in memory order.
    """
    for first, last in index[:, [0, -1]].tolist():
        (top, left), (bottom, right) = divmod(first, width), divmod(last, width)
        yield slice(top, bottom + 1), slice(left, right + 1)
