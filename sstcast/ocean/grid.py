"""Boxes of the global 0.25 degree grid that OISST lives on."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sstcast.errors import SSTCastError

if TYPE_CHECKING:
    from sstcast.config import Region

CELLS_PER_DEGREE = 4


@dataclass(frozen=True)
class Grid:
    """The cells whose centres lie in a box: `lon` west and east edge, `lat` south and north edge, degrees.

    Longitudes run eastward from the west edge within -180..360.
    """

    lon_edges: tuple[float, float]
    lat_edges: tuple[float, float]

    @cached_property
    def lat(self) -> NDArray[np.float64]:
        """Cell centres `[lat]`, ascending."""
        return _centres(*self.lat_edges)

    @cached_property
    def lon(self) -> NDArray[np.float64]:
        """Cell centres `[lon]`, ascending."""
        west, east = self.lon_edges
        centres = _centres(west % 360, west % 360 + ((east - west) % 360 or 360))
        return centres - 360 if centres.size and centres[-1] > 360 else centres

    @property
    def shape(self) -> tuple[int, int]:
        """Number of cells, (lat, lon)."""
        return self.lat.size, self.lon.size

    def __str__(self) -> str:
        return f"lat {self.lat[0]:g}..{self.lat[-1]:g}, lon {self.lon[0]:g}..{self.lon[-1]:g}"


def parse_grid(region: str) -> Grid:
    """Read `global`, a name in `configs/regions.yaml` or `W,E,S,N` in degrees.

    Raises SSTCastError if it is none of them or holds no cell.
    """
    from sstcast.config import load_region  # here, as readers of files start without it

    if region == "global":
        return Grid((0, 360), (-90, 90))
    box = load_region(region) if "," not in region else _parse_box(region)
    grid = Grid(box.lon, box.lat)
    if 0 in grid.shape:
        raise SSTCastError(f"--region {region}: holds no 0.25 degree cell; widen it")
    return grid


def _parse_box(region: str) -> "Region":
    from sstcast.config import Region, validate

    try:
        west, east, south, north = (float(edge) for edge in region.split(","))
        if not all(abs(edge) <= 360 for edge in (west, east, south, north)):  # nan is not, either
            raise ValueError
    except ValueError:
        raise SSTCastError(f"--region {region}: write W,E,S,N in degrees, for instance 180,270,-15,15") from None
    return validate(Region, {"lon": [west, east], "lat": [south, north]}, f"--region {region}")


def _centres(low: float, high: float) -> NDArray[np.float64]:
    first = np.ceil(low * CELLS_PER_DEGREE - 0.5)
    last = np.ceil(high * CELLS_PER_DEGREE - 0.5)
    return (np.arange(first, last) + 0.5) / CELLS_PER_DEGREE
