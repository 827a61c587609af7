"""Places and areas: points and polygons, and the share that each has in the cells of a grid."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import shapely
import xarray as xr
from numpy.typing import NDArray

from sstcast.errors import SSTCastError, counted
from sstcast.geo import EARTH_RADIUS, Box, bounds, spans_globe
from sstcast.log import LOG
from sstcast.places.place_files import TINY_DEGREES, read_geometries, united
from sstcast.types import Array

LEAST_COVERED = 0.5  # share of a polygon that must be sea of the region
OUTLINES = "places"  # the attribute of a forecast, and the key of scores, that holds places as GeoJSON
FINEST_STEP = 0.25  # of a cell, between the points of a polygon's outline


@dataclass(frozen=True)
class Place:
    """A point, or an area of one or more polygons, in degrees."""

    name: str
    geometry: Any

    @property
    def is_point(self) -> bool:
        """Whether the place is a point."""
        return bool(self.geometry.geom_type == "Point")

    @property
    def lat(self) -> float:
        """The latitude of the point, or of a point inside the area."""
        return float(self.geometry.representative_point().y)

    @property
    def lon(self) -> float:
        """The longitude of the point, or of a point inside the area, within -180..180."""
        return float((self.geometry.representative_point().x + 180) % 360 - 180)


@dataclass(frozen=True)
class Places:
    """The places in one or more files.

    Attributes:
        files: the files.
        places: the places, which have different names.
        kept: whether they are of an earlier call, so that they may lie outside the region.
    """

    files: tuple[Path, ...]
    places: tuple[Place, ...]
    kept: bool = False

    @classmethod
    def read(cls, *files: Path) -> "Places":
        """Read files of points or polygons (see `place_files.read_geometries`).

        Polygons of one name in one file are united, which is logged. A place may be in several files.

        Raises SSTCastError if one cannot be read, or holds no place, two points of one name, or one that is not
        usable, or if two files hold different places of one name.
        """
        first: dict[str, tuple[Path, Any]] = {}
        for path in files:
            for name, geometry in _in_file(path):
                other, known = first.setdefault(name, (path, geometry))
                if not geometry.equals(known):
                    raise SSTCastError(
                        f"{path}: {name} is another place than in {other}; give each a name of its own"
                    )
        return cls(files, tuple(Place(name, geometry) for name, (_, geometry) in first.items()))

    def __len__(self) -> int:
        """Return the number of places."""
        return len(self.places)

    @property
    def where(self) -> str:
        """The files, for messages."""
        return ", ".join(map(str, self.files))

    @property
    def names(self) -> list[str]:
        """The names of the places."""
        return [place.name for place in self.places]

    @cached_property
    def are_points(self) -> NDArray[np.bool_]:
        """Whether each place is a point, `[place]`."""
        return np.array([place.is_point for place in self.places])

    @cached_property
    def geojson(self) -> str:
        """The places as GeoJSON, which tells whether two files hold the same places."""
        features = [
            {
                "type": "Feature",
                "properties": {"name": place.name},
                "geometry": json.loads(shapely.to_geojson(place.geometry)),
            }
            for place in self.places
        ]
        return json.dumps({"type": "FeatureCollection", "features": features})

    @classmethod
    def from_geojson(cls, text: str, *files: Path) -> "Places":
        """Return the places in the text of `geojson`, which an earlier call has read from `files`."""
        features = json.loads(text)["features"]
        places = [
            Place(feature["properties"]["name"], shapely.geometry.shape(feature["geometry"]))
            for feature in features
        ]
        return cls(files, tuple(places), kept=True)

    def weights(self, fraction: xr.DataArray, ocean: NDArray[np.bool_]) -> Any:
        """Return how much of each place lies in each cell, as a SciPy `csr_array [place, lat * lon]`.

        The weight of a cell of an area is the area of their intersection times the ocean fraction of the cell. A
        point has the weight 1 in its cell. If that is land, the nearest ocean cell has the weight, if it is beside
        that cell. A place without such a cell, or outside the region, has no weights.

        Args:
            fraction: the share of ocean of each cell, `(lat, lon)`.
            ocean: the cells that have forecasts, `[lat, lon]`.

        Logs each area, each point on land, and each place without a cell.

        Raises SSTCastError if less than half of an area that touches the region is in its ocean cells, unless the
        places are `kept`. Those have no weights then.
        """
        from scipy.sparse import csr_array  # imported here because it takes a tenth of a second

        box, ends = Box.of(fraction), [bounds(fraction[axis]) for axis in ("lat", "lon")]
        cells, weights = [], []
        for place in self.places:
            if place.is_point:
                cells.append(_cell_of_point(place, fraction, ocean, box, ends))
                weights.append(np.ones(len(cells[-1]), np.float32))
            else:
                of_cells = self._weights_of_area(place, fraction, ocean, box)
                cells.append(np.flatnonzero(of_cells))
                weights.append(of_cells.ravel()[cells[-1]])
        first = np.cumsum([0, *map(len, cells)])
        return csr_array((np.concatenate(weights), np.concatenate(cells), first), (len(cells), ocean.size))

    def _weights_of_area(
        self, place: Place, fraction: xr.DataArray, ocean: NDArray[np.bool_], box: Box
    ) -> NDArray[np.float32]:
        """Return the weights `[lat, lon]` of an area in the cells of a grid, all 0 outside the region."""
        inside, whole = _intersections(place, fraction, box)
        if not inside.any():
            LOG.info(f"{place.name}: lies outside the region, {box}, so it is left out")
            return inside.astype(np.float32)
        sea = inside * fraction.values * ocean
        share = sea.sum() / whole
        if share < LEAST_COVERED:
            found = f"only {share:.0%} of its area are ocean cells of the region, {box}"
            if self.kept:
                LOG.info(f"{place.name}: {found}, so it is left out")
                return np.zeros_like(inside, np.float32)
            raise SSTCastError(
                f"{self.where}: {place.name}: {found}; {LEAST_COVERED:.0%} are needed: choose a larger region, or "
                "leave the place out"
            )
        west, east = _ends(place.geometry)
        cells = counted(int((sea > 0).sum()), "ocean cell")
        LOG.info(f"{place.name}: {share:.0%} of its area are in {cells}, from {west:g} to {east:g} degrees east")
        return np.asarray(sea / sea.sum(), np.float32)


def _in_file(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the names and geometries in a file, each name once (see `Places.read`)."""
    by_name: dict[str, list[Any]] = {}
    for name, geometry in read_geometries(path):
        if "\0" in name:
            raise SSTCastError(f"{path}: the name {name} holds a NUL, which no column of names can; remove it")
        by_name.setdefault(name, []).append(geometry)
    if not by_name:
        raise SSTCastError(f"{path}: holds no place; give one or more")
    for name, geometries in by_name.items():
        if len(geometries) == 1:
            yield name, geometries[0]
        elif any(geometry.geom_type == "Point" for geometry in geometries):
            raise SSTCastError(f"{path}: two places are called {name}; give each a name of its own")
        else:
            LOG.info(f"{path}: {name}: {len(geometries)} features of this name are united")
            yield name, united(list(shapely.get_parts(geometries)), f"{path}: {name}")


def _ends(area: Any) -> tuple[float, float]:
    """Return the west and the east end of an area, within -180..180: those of its widest gap in longitude."""
    west, _, east, _ = shapely.bounds(shapely.get_parts(area)).T
    west, east = west % 360, west % 360 + (east - west)
    order = np.argsort(west)
    reached = np.maximum.accumulate(np.append(east.max() - 360, east[order[:-1]]))
    gaps = west[order] - reached
    widest = int(gaps.argmax())
    if gaps[widest] <= TINY_DEGREES:
        return -180.0, 180.0
    first, last = west[order[widest]], reached[widest]
    return float((first + 180) % 360 - 180), float(180 - (180 - last) % 360)


def _intersections(place: Place, grid: xr.DataArray, box: Box) -> tuple[Array, float]:
    """Return the area that a place shares with each cell, `[lat, lon]`, and its own area, in the same unit.

    Both are computed in longitude and the sine of latitude, in which areas are true.
    """
    lat, lon = (bounds(grid[axis]) for axis in ("lat", "lon"))
    smallest = min(abs(np.diff(lat)).min(), abs(np.diff(lon)).min())
    lat = np.sin(np.radians(lat.clip(-90, 90)))
    outline = shapely.segmentize(place.geometry, FINEST_STEP * smallest)
    area = shapely.transform(outline, lambda xy: np.column_stack([xy[:, 0], np.sin(np.radians(xy[:, 1]))]))
    shared = np.zeros((len(lat), len(lon)))
    for shift in range(-720, 721, 360):
        moved = shapely.transform(area, lambda xy, by=shift: np.add(xy, [by, 0]))
        west, south, east, north = moved.bounds
        rows = np.flatnonzero((lat[:, 1] > south) & (lat[:, 0] < north))
        columns = np.flatnonzero((lon[:, 1] > west) & (lon[:, 0] < east))
        if not (rows.size and columns.size):
            continue
        at = np.ix_(rows, columns)
        cells = shapely.box(
            lon[columns, 0][None], lat[rows, 0][:, None], lon[columns, 1][None], lat[rows, 1][:, None]
        )
        shapely.prepare(moved)
        shared[at] += shapely.area(shapely.intersection(moved, cells))
    return shared, float(area.area)


def _cell_of_point(
    place: Place, fraction: xr.DataArray, ocean: NDArray[np.bool_], box: Box, ends: Sequence[Array]
) -> NDArray[np.intp]:
    """Return the cell of a point, or the nearest ocean cell if that is beside it, or none.

    `ends` are the bounds of rows and columns.
    """
    none = np.zeros(0, np.intp)
    lat, lon = place.lat, float(box.eastward(place.lon))
    if not box.contains(lat, lon):
        LOG.info(f"{place.name}: lies outside the region, {box}, so it is left out")
        return none
    row, column = (
        min(int(np.searchsorted(cell_bounds[:, 1], value)), len(cell_bounds) - 1)
        for cell_bounds, value in zip(ends, (lat, lon), strict=True)
    )
    if not ocean.any():
        LOG.info(f"{place.name}: is on land, and no ocean cell is near")
        return none
    if not ocean[row, column]:
        rows, columns = np.nonzero(ocean)
        apart = kilometres(lat, lon, fraction["lat"].values[rows], fraction["lon"].values[columns])
        nearest = int(apart.argmin())
        across = abs(columns[nearest] - column)
        if spans_globe(fraction["lon"].values):
            across = min(across, ocean.shape[1] - across)
        beside = max(abs(rows[nearest] - row), across) <= 1
        row, column = int(rows[nearest]), int(columns[nearest])
        cell = f"{float(fraction['lat'][row]):g}, {float(fraction['lon'][column]):g}"
        use = "that cell is used" if beside else "that is too far away"
        LOG.info(
            f"{place.name}: is on land; the nearest ocean cell is at {cell}, {apart[nearest]:.0f} km away; {use}"
        )
        if not beside:
            return none
    return np.array([row * ocean.shape[1] + column])


def kilometres(lat: float, lon: float, lats: Array, lons: Array) -> Array:
    """Return the great-circle distances of a point from other points, in km, by the haversine formula."""
    phi, phis, lon_difference = np.radians(lat), np.radians(lats), np.radians(lons - lon)
    half = np.sin((phis - phi) / 2) ** 2 + np.cos(phi) * np.cos(phis) * np.sin(lon_difference / 2) ** 2
    return np.asarray(2 * EARTH_RADIUS * np.arcsin(np.sqrt(half)))
