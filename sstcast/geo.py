"""Longitude-latitude boxes: edges, 0.25 degree cells, longitude conventions and area weights."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # workers that read downloaded files start faster without xarray
    import xarray as xr

CELLS_PER_DEGREE = 4  # in OISST
EARTH_RADIUS = 6371.0  # km, of a sphere
# Coordinates that hold the edges of each row, where the source's bounds do not lie halfway between the centres.
SOUTH, NORTH = "row_south", "row_north"
EVEN = 0.01  # largest difference between the widths of cells of a regular axis, as a fraction of a cell

Axis = NDArray[np.float64]


@dataclass(frozen=True)
class Box:
    """A box in degrees. Longitudes follow any convention, so it may cross the date line or Greenwich."""

    west: float
    east: float
    south: float
    north: float

    @classmethod
    def of(cls, field: Any) -> "Box":
        """Return the outer cell edges of `field(..., lat, lon)`, or of a mapping with the axes `lat` and `lon`.

        Both axes must ascend. Longitudes may exceed 360.
        """
        rows = field["lat"]
        south, north = edges(rows)[[0, -1]].round(5) if _own(rows) else span(np.asarray(rows))
        return cls(*span(np.asarray(field["lon"])), float(south), float(north))

    def __str__(self) -> str:
        """Format the box as `W,E,S,N`, which `config.parse_box` reads."""
        return ",".join(f"{edge:g}" for edge in (self.west, self.east, self.south, self.north))

    @property
    def yaml(self) -> str:
        """The box as the keys `lon` and `lat` of a configuration's YAML."""
        south, north = max(self.south, -90.0), min(self.north, 90.0)  # a cell centred on a pole extends beyond it
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
        """Convert longitudes to the 360 degrees that begin at `west - near`."""
        return self.west + (lon - self.west + near) % 360 - near

    def contains(self, lat: Any, lon: Any) -> Any:
        """Return a mask of the points inside the box. Accepts NumPy and xarray arrays."""
        return (lat > self.south) & (lat < self.north) & ((lon - self.west) % 360 < self.width)

    @cached_property
    def lat(self) -> Axis:
        """Latitudes of the centres of the OISST cells (0.25 degrees) in the box, `[lat]`, ascending."""
        return _centres(self.south, self.north)

    @cached_property
    def lon(self) -> Axis:
        """Longitudes of the centres of the OISST cells in the box, `[lon]`, ascending within -180..360."""
        centres = _centres(self.west % 360, self.west % 360 + self.width)
        return centres - 360 if centres.size and centres[-1] > 360 else centres

    @property
    def shape(self) -> tuple[int, int]:
        """Number of OISST cells along (lat, lon)."""
        return self.lat.size, self.lon.size


def step(centres: Axis) -> float:
    """Return the median cell width along an axis, in degrees."""
    return float(np.median(np.abs(np.diff(centres))))


def edges(axis: "Axis | xr.DataArray") -> Axis:
    """Return the n + 1 edges of n >= 2 adjacent cells on an axis, in degrees (see `bounds`)."""
    low, high = bounds(axis).T
    return np.append(low, high[-1])


def bounds(axis: "Axis | xr.DataArray") -> Axis:
    """Return the lower and the upper edge of n >= 2 adjacent cells on an axis, `[n, 2]`.

    Edges are those in the coordinates `SOUTH` and `NORTH` of the axis, if it has them. Otherwise they lie halfway
    between the centres, and the outer cells extend as far outwards as inwards. The cells of an evenly spaced axis
    all have its mean width, so that rounded centres do not matter.
    """
    if edges := _own(axis):
        return np.stack([edges[SOUTH].values, edges[NORTH].values], axis=1)
    centres = np.asarray(axis)
    if evenly_spaced(centres):
        half = (centres[-1] - centres[0]) / (len(centres) - 1) / 2
        return np.stack([centres - half, centres + half], axis=1)
    between = (centres[1:] + centres[:-1]) / 2
    ends = np.concatenate([[2 * centres[0] - between[0]], between, [2 * centres[-1] - between[-1]]])
    return np.stack([ends[:-1], ends[1:]], axis=1)


def evenly_spaced(axis: "Axis | xr.DataArray") -> bool:
    """Return whether all cells of an axis have nearly the same width."""
    widths = np.diff(bounds(axis), axis=1) if _own(axis) else np.diff(np.asarray(axis))
    return bool(np.ptp(widths) <= EVEN * np.median(np.abs(widths)))


def _own(axis: Any) -> Any:
    """Return the coordinates of an axis if they hold its edges, or None."""
    coords = getattr(axis, "coords", {})
    return coords if SOUTH in coords else None


def span(centres: Axis, index: NDArray[np.intp] | slice = slice(None)) -> tuple[float, float]:
    """Return the outer edges, in degrees, of adjacent cells on an axis.

    `centres` are the cell centres, and `index` selects the cells, by default all. The outer cells extend as far
    outwards as inwards. `grid.box_of` gives the edges of rows whose spacing varies.
    """
    cells = centres[index]
    if cells.size > 1:
        first_half, last_half = (cells[1] - cells[0]) / 2, (cells[-1] - cells[-2]) / 2
    else:
        first_half = last_half = step(centres) / 2
    return round(float(cells[0] - first_half), 5), round(float(cells[-1] + last_half), 5)


def spans_globe(lon: Axis) -> bool:
    """Return whether cells with the centres `lon`, in eastward order, go around the globe."""
    return lon.size > 2 and abs(lon[-1] - lon[0] + step(lon) - 360) < step(lon) / 2


def area_weights(lat: "xr.DataArray") -> "xr.DataArray":
    """Return the relative area of cells: of a regular grid, the cosine of `lat` in degrees.

    If the rows `lat` are unevenly spaced, it is the difference of the sines of their edges, divided by the median
    height, which is nearly the same number on a regular grid.
    """
    import xarray as xr

    if lat.size < 2 or (evenly_spaced(lat) and not _own(lat)):
        return xr.ufuncs.cos(xr.ufuncs.deg2rad(lat)).rename("area")
    sines = np.sin(np.radians(edges(lat).clip(-90, 90)))
    return lat.copy(data=abs(np.diff(sines)) / np.radians(step(lat.values))).rename("area")


def _centres(low: float, high: float) -> Axis:
    first = np.ceil(low * CELLS_PER_DEGREE - 0.5)
    last = np.ceil(high * CELLS_PER_DEGREE - 0.5)
    return (np.arange(first, last) + 0.5) / CELLS_PER_DEGREE


# Trenberth (1997), Bull. Amer. Meteor. Soc. 78; NOAA Climate Prediction Center.
NINO: dict[str, Box] = {
    "nino12": Box(270, 280, -10, 0),
    "nino3": Box(210, 270, -5, 5),
    "nino34": Box(190, 240, -5, 5),
    "nino4": Box(160, 210, -5, 5),
}
