"""Places and areas: points and polygons from a file, and the share that each has in the cells of a grid.

A CSV with the columns `name`, `lat` and `lon` holds points. GeoJSON holds points and polygons, which may have
holes and several parts. Longitudes follow any convention. If two successive corners of a polygon are more than 180
degrees of longitude apart, the line between them takes the shorter way, across the date line or Greenwich. With
longitudes beyond 180, it is refused unless the shorter way is below `CLEARLY_SHORTER` degrees. Corners 360 degrees
apart close a band around the globe.
"""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import shapely
import xarray as xr
from numpy.typing import NDArray

from sstcast.errors import SSTCastError, counted, reading
from sstcast.geo import EARTH_RADIUS, Box, bounds
from sstcast.log import LOG

COLUMNS = ("name", "lat", "lon")
JSON_SUFFIXES = (".geojson", ".json")
LEAST_COVERED = 0.5  # share of a polygon that must be sea of the region
OUTLINES = "places"  # the attribute of a forecast, and the key of scores, that holds places as GeoJSON
FINEST_STEP = 0.25  # of a cell, between the points of a polygon's outline
CLEARLY_SHORTER = 90.0  # degrees of longitude: no one means the other way around the globe, more than 270
TINY = 1e-9

Array = NDArray[np.float64]


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
    """The places in a file.

    Attributes:
        path: the file.
        places: the places, which have different names.
    """

    path: Path
    places: tuple[Place, ...]

    @classmethod
    def read(cls, path: Path) -> "Places":
        """Read a CSV or GeoJSON file.

        Raises SSTCastError if it cannot be read, lacks a name or coordinate, or holds no place, two places of one
        name, another geometry than points and polygons, or an invalid polygon.
        """
        with reading(path, f"give a CSV with {', '.join(COLUMNS)}, or GeoJSON"):
            from_file = _in_geojson if path.suffix.lower() in JSON_SUFFIXES else _in_csv
            places = tuple(from_file(path))
        if not places:
            raise SSTCastError(f"{path}: holds no place; give one or more")
        names = [place.name for place in places]
        for name in names:
            if names.count(name) > 1:
                raise SSTCastError(f"{path}: two places are called {name}; give each a name of its own")
        return cls(path, places)

    @property
    def names(self) -> list[str]:
        """The names of the places."""
        return [place.name for place in self.places]

    @property
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
    def from_geojson(cls, text: str) -> "Places":
        """Return the places in the text of `geojson`."""
        features = json.loads(text)["features"]
        places = [
            Place(feature["properties"]["name"], shapely.geometry.shape(feature["geometry"]))
            for feature in features
        ]
        return cls(Path("places.geojson"), tuple(places))

    def weights(self, fraction: xr.DataArray, ocean: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Return how much of each place lies in each cell, `[place, lat, lon]`.

        The weight of a cell of an area is the area of their intersection times the ocean fraction of the cell. A
        point has the weight 1 in its cell. If that is land, the nearest ocean cell has the weight, if it is beside
        that cell. All weights of a place without such a cell, or outside the region, are 0.

        Args:
            fraction: the share of ocean of each cell, `(lat, lon)`.
            ocean: the cells that have forecasts, `[lat, lon]`.

        Logs each area, each point on land, and each place without a cell.

        Raises SSTCastError if less than half of an area that touches the region is in its ocean cells.
        """
        weights_of_places = np.zeros((len(self.places), *ocean.shape), np.float32)
        box = Box.of(fraction)
        for place, weights in zip(self.places, weights_of_places, strict=True):
            if place.is_point:
                _weigh_point(place, fraction, ocean, box, weights)
                continue
            inside, whole = _intersections(place, fraction, box)
            if not inside.any():
                LOG.info(f"{place.name}: lies outside the region, {box}, so it has no forecast")
                continue
            sea = inside * fraction.values * ocean
            share = sea.sum() / whole
            if share < LEAST_COVERED:
                raise SSTCastError(
                    f"{self.path}: {place.name}: only {share:.0%} of its area are ocean cells of the region, "
                    f"{box}; {LEAST_COVERED:.0%} are needed: choose a larger region, or leave the place out"
                )
            weights[:] = sea / sea.sum()
            west, east = _ends(place.geometry)
            cells = counted(int((sea > 0).sum()), "ocean cell")
            LOG.info(
                f"{place.name}: {share:.0%} of its area are in {cells}, from {west:g} to {east:g} degrees east"
            )
        return weights_of_places


def _in_csv(path: Path) -> Iterator[Place]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.DictReader(file, skipinitialspace=True)
        columns = [(column or "").strip().lower() for column in rows.fieldnames or ()]
        if missing := [column for column in COLUMNS if column not in columns]:
            raise SSTCastError(f"{path}: has no column {missing[0]}; give {', '.join(COLUMNS)}")
        rows.fieldnames = columns
        for row in rows:
            where = f"{path}: line {rows.line_num}"
            try:
                lat, lon = float(row["lat"]), float(row["lon"])
            except (TypeError, ValueError):
                raise SSTCastError(f"{where}: lat and lon must be numbers; write degrees") from None
            name = (row["name"] or "").strip()
            if not name:
                raise SSTCastError(f"{where}: the place has no name; give it one")
            _check_degrees(np.array([[lon, lat]]), where)
            yield Place(name, shapely.Point(lon, lat))


def _in_geojson(path: Path) -> Iterator[Place]:
    content = json.loads(path.read_text(encoding="utf-8-sig"))
    features = content["features"] if content["type"] == "FeatureCollection" else [content]
    for number, feature in enumerate(features, 1):
        properties = (feature.get("properties") or {}) if feature["type"] == "Feature" else {}
        names = {str(key).lower(): value for key, value in properties.items()}
        given = (names.get("name"), feature.get("id"), path.stem if len(features) == 1 else None)
        name = next((text for value in given if value is not None and (text := str(value).strip())), "")
        if not name:
            raise SSTCastError(f"{path}: feature {number} has no name; give it one in properties.name")
        where = f"{path}: {name}"
        geometry = shapely.force_2d(
            shapely.geometry.shape(feature["geometry"] if feature["type"] == "Feature" else feature)
        )
        if geometry.is_empty or geometry.geom_type not in ("Point", "Polygon", "MultiPolygon"):
            raise SSTCastError(f"{where}: is a {geometry.geom_type}, not a point or a polygon; give one of these")
        _check_degrees(shapely.get_coordinates(geometry), where)
        if geometry.geom_type != "Point":
            geometry = _of_parts([_unwrapped(part, where) for part in shapely.get_parts(geometry)], where)
        yield Place(name, geometry)


def _check_degrees(points: Array, where: str) -> None:
    lon, lat = points.T
    if not (np.isfinite(points).all() and (abs(lat) <= 90).all() and (abs(lon) <= 540).all()):
        raise SSTCastError(
            f"{where}: coordinates must be degrees, lat within -90..90; check their order and units"
        )


def _of_parts(parts: list[Any], where: str) -> Any:
    """Return an area of several parts. Those that touch along a line, or overlap, are united."""
    area = shapely.MultiPolygon(parts)
    if shapely.is_valid(parts).all():
        west = shapely.bounds(parts)[:, 0]
        turns = np.floor((west - west[0] + TINY) / 360) * 360
        moved = [shapely.affinity.translate(part, -turn) for part, turn in zip(parts, turns, strict=True)]
        united = shapely.union_all(moved)
        if not area.is_valid or united.area < area.area * (1 - TINY):
            area = shapely.MultiPolygon(list(shapely.get_parts(united)))
    if not area.is_valid:
        raise SSTCastError(f"{where}: is not a valid polygon ({shapely.is_valid_reason(area)}); mend its outline")
    return area


def _unwrapped(polygon: Any, where: str) -> Any:
    """Return a polygon whose longitudes have no jumps at the date line or at Greenwich."""
    rings: list[Array] = []
    for ring in (polygon.exterior, *polygon.interiors):
        points = np.array(ring.coords)
        points[:, 0] = _without_jumps(points[:, 0], where)
        if rings:  # a hole lies in the 360 degrees that begin at the west end of the polygon
            points[:, 0] -= 360 * np.floor((points[:, 0].min() - rings[0][:, 0].min() + TINY) / 360)
        rings.append(points)
    return shapely.Polygon(rings[0], rings[1:])


def _without_jumps(lon: Array, where: str) -> Array:
    """Return the longitudes of a ring, whose first and last corner are the same, without jumps."""
    steps = np.diff(lon)
    if abs(lon).max() > 180:
        shorter = 360 - abs(steps)
        for edge in np.flatnonzero((abs(steps) > 180 + TINY) & (shorter >= CLEARLY_SHORTER)):
            west, east = np.sort(lon[edge : edge + 2])
            raise SSTCastError(
                f"{where}: has an edge that is {east - west:g} degrees wide from {west:g} to {east:g}, or "
                f"{shorter[edge]:g} from {east:g} to {west:g}; add a corner between them"
            )
    unwrapped: Array = np.unwrap(lon, period=360)
    around = abs(abs(steps) - 360) < TINY
    if around.any() and (abs(unwrapped[-1] - unwrapped[0]) > TINY or np.ptp(unwrapped) < TINY):
        unwrapped = lon[0] + np.concatenate([[0], np.where(around, steps, np.diff(unwrapped)).cumsum()])
    if abs(unwrapped[-1] - unwrapped[0]) > TINY:
        raise SSTCastError(f"{where}: encircles a pole; divide it into parts that do not")
    return unwrapped


def _ends(area: Any) -> tuple[float, float]:
    """Return the west and the east end of an area, within -180..180: those of its widest gap in longitude."""
    west, _, east, _ = shapely.bounds(shapely.get_parts(area)).T
    west, east = west % 360, west % 360 + (east - west)
    order = np.argsort(west)
    reached = np.maximum.accumulate(np.append(east.max() - 360, east[order[:-1]]))
    gaps = west[order] - reached
    widest = int(gaps.argmax())
    if gaps[widest] <= TINY:
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


def _weigh_point(
    place: Place,
    fraction: xr.DataArray,
    ocean: NDArray[np.bool_],
    box: Box,
    weights: NDArray[np.float32],
) -> None:
    """Set the weight of the cell of a point, or of the nearest ocean cell if that is beside it."""
    lat, lon = place.lat, float(box.eastward(place.lon))
    if not box.contains(lat, lon):
        LOG.info(f"{place.name}: lies outside the region, {box}, so it has no forecast")
        return
    ends = [bounds(fraction[axis]) for axis in ("lat", "lon")]
    row, column = (
        min(int(np.searchsorted(cell_bounds[:, 1], value)), len(cell_bounds) - 1)
        for cell_bounds, value in zip(ends, (lat, lon), strict=True)
    )
    if not ocean[row, column]:
        rows, columns = np.nonzero(ocean)
        apart = _kilometres(lat, lon, fraction["lat"].values[rows], fraction["lon"].values[columns])
        nearest = int(apart.argmin())
        beside = max(abs(rows[nearest] - row), abs(columns[nearest] - column)) <= 1
        row, column = int(rows[nearest]), int(columns[nearest])
        cell = f"{float(fraction['lat'][row]):g}, {float(fraction['lon'][column]):g}"
        use = "its forecast is used" if beside else "it is too far away for a forecast"
        LOG.info(
            f"{place.name}: is on land; the nearest ocean cell is at {cell}, {apart[nearest]:.0f} km away; {use}"
        )
        if not beside:
            return
    weights[row, column] = 1


def _kilometres(lat: float, lon: float, lats: Array, lons: Array) -> Array:
    """Return the great-circle distances of a point from other points, in km, by the haversine formula."""
    phi, phis, lon_difference = np.radians(lat), np.radians(lats), np.radians(lons - lon)
    half = np.sin((phis - phi) / 2) ** 2 + np.cos(phi) * np.cos(phis) * np.sin(lon_difference / 2) ** 2
    return np.asarray(2 * EARTH_RADIUS * np.arcsin(np.sqrt(half)))
