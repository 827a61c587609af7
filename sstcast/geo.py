"""Boxes on the globe: their edges and cells, longitudes in any convention, tiles, areas."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sstcast.errors import SSTCastError

if TYPE_CHECKING:  # processes that read downloaded files start faster without them
    import xarray as xr

    from sstcast.config import Region

CELLS_PER_DEGREE = 4  # in OISST

Axis = NDArray[np.float64]


@dataclass(frozen=True)
class Box:
    """A box in degrees; longitudes are in any convention, so it may cross the date line or Greenwich."""

    west: float
    east: float
    south: float
    north: float

    @classmethod
    def of(cls, field: Any) -> "Box":
        """Return the box of the outer cell edges of `field(..., lat, lon)`, or of a mapping with these two axes.

        Both axes must ascend; longitudes may exceed 360.
        """
        return cls(*span(np.asarray(field["lon"])), *span(np.asarray(field["lat"])))

    def __str__(self) -> str:
        """Return the box in the form that `config.parse_box` reads."""
        return ",".join(f"{edge:g}" for edge in (self.west, self.east, self.south, self.north))

    @property
    def yaml(self) -> str:
        """The box in the form used in a configuration's YAML."""
        south, north = max(self.south, -90.0), min(self.north, 90.0)  # cells centred on a pole extend beyond it
        return f"{{lon: [{self.west:.7g}, {self.east:.7g}], lat: [{south:.7g}, {north:.7g}]}}"

    @property
    def width(self) -> float:
        """Degrees of longitude from west to east; 360 for a box around the globe."""
        return (self.east - self.west) % 360 or 360.0

    @property
    def centre(self) -> float:
        """The central longitude, east of `west`."""
        return self.west + self.width / 2

    @property
    def middle(self) -> float:
        """The central latitude."""
        return (self.south + self.north) / 2

    def eastward(self, lon: Any, near: float = 0.0) -> Any:
        """Convert longitudes of any convention to the range from `west - near` to 360 degrees east of it."""
        return self.west + (lon - self.west + near) % 360 - near

    def contains(self, lat: Any, lon: Any) -> Any:
        """Return which points are inside the box, for NumPy or xarray arrays."""
        return (lat > self.south) & (lat < self.north) & ((lon - self.west) % 360 < self.width)

    @cached_property
    def lat(self) -> Axis:
        """Centres of the box's 0.25 degree cells `[lat]`, those of OISST, ascending."""
        return _centres(self.south, self.north)

    @cached_property
    def lon(self) -> Axis:
        """Centres of the box's 0.25 degree cells `[lon]`, ascending within -180..360."""
        centres = _centres(self.west % 360, self.west % 360 + self.width)
        return centres - 360 if centres.size and centres[-1] > 360 else centres

    @property
    def shape(self) -> tuple[int, int]:
        """Number of 0.25 degree cells, (lat, lon)."""
        return self.lat.size, self.lon.size


def step(centres: Axis) -> float:
    """Return the median cell width along an axis, in degrees."""
    return float(np.median(np.abs(np.diff(centres))))


def span(centres: Axis, chosen: NDArray[np.intp] | slice = slice(None)) -> tuple[float, float]:
    """Return the outer edges, in degrees, of the adjacent cells `chosen` on an axis of `centres`."""
    cells = centres[chosen]
    if cells.size > 1:
        first, last = (cells[1] - cells[0]) / 2, (cells[-1] - cells[-2]) / 2
    else:
        first = last = step(centres) / 2
    return round(float(cells[0] - first), 5), round(float(cells[-1] + last), 5)


def area_weights(lat: "xr.DataArray") -> "xr.DataArray":
    """Return the relative area of cells on a regular grid: the cosine of their latitude, given in degrees."""
    import xarray as xr

    return xr.ufuncs.cos(xr.ufuncs.deg2rad(lat)).rename("area")


# A region's tiles, `[..., lat, lon]` <-> `[..., tile, node]`: tiles are numbered row by row from the south-west,
# as are the nodes in a tile. Both directions only rearrange values.


def tile_index(region: "Region", shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return `[tile, node]`: the position of every node in the flattened `(lat, lon)` field of `shape`."""
    (rows, cols), (height, width) = region.tile, shape[-2:]
    cells = np.arange(height * width).reshape(height // rows, rows, width // cols, cols)
    tiles = cells.transpose(0, 2, 1, 3).reshape(-1, rows * cols)
    if outside := [t for t in region.skip if not 0 <= t < len(tiles)]:
        raise SSTCastError(f"region.skip: no tile {outside[0]}; the region has tiles 0..{len(tiles) - 1}")
    return np.delete(tiles, list(region.skip), axis=0)


def in_tiles(region: "Region", shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return which cells `[lat, lon]` of a field of `shape` lie in a tile, land or ocean."""
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
    """Put `tiles` of shape `[..., tile, node]` back on the map, `[..., lat, lon]`; NaN outside the tiles."""
    field = np.full((*tiles.shape[:-2], *shape), np.nan, dtype=tiles.dtype)
    for tile, (rows, columns) in enumerate(_rectangles(index, shape[1])):
        cells = field[..., rows, columns]
        cells[...] = tiles[..., tile, :].reshape(cells.shape)
    return field


def _rectangles(index: NDArray[np.int64], width: int) -> Iterator[tuple[slice, slice]]:
    """Yield the rows and columns of each tile on a map of `width` columns.

    Indexed by slices, as by no array of integers, the result lies in memory in the order of its axes.
    """
    for first, last in index[:, [0, -1]].tolist():
        (top, left), (bottom, right) = divmod(first, width), divmod(last, width)
        yield slice(top, bottom + 1), slice(left, right + 1)


def _centres(low: float, high: float) -> Axis:
    first = np.ceil(low * CELLS_PER_DEGREE - 0.5)
    last = np.ceil(high * CELLS_PER_DEGREE - 0.5)
    return (np.arange(first, last) + 0.5) / CELLS_PER_DEGREE
