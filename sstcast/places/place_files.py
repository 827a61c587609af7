"""Reads the names and geometries of places from files.

A CSV with the columns `name`, `lat` and `lon` holds points. GeoJSON, shapefiles, GeoPackage and KML hold points
and polygons, which may have holes and several parts. Longitudes follow any convention. If two successive corners
of a polygon are more than 180 degrees of longitude apart, the line between them takes the shorter way, across the
date line or Greenwich. With longitudes beyond 180, it is refused unless the shorter way is below `CLEARLY_SHORTER`
degrees. Corners 360 degrees apart close a band around the globe.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import shapely

from sstcast.errors import SSTCastError, reading
from sstcast.log import LOG
from sstcast.places.gis_files import SIGNATURES, Feature, read_features
from sstcast.places.point_files import COLUMN_NAMES
from sstcast.storage.csv_files import check_not_repeated, lines_of, read_table
from sstcast.types import Array

COLUMNS = ("name", "lat", "lon")
NAME_COLUMNS = ("name", "site", "station")  # of a CSV; the first that it has
JSON_SUFFIXES = (".geojson", ".json")
SEQUENCE_SUFFIXES = (".geojsonl", ".geojsons", ".geojsonseq", ".jsonl", ".ndjson")
RECORD_SEPARATOR = "\x1e"  # before each feature of a GeoJSON sequence (RFC 8142), if lines do not separate them
CLEARLY_SHORTER = 90.0  # degrees of longitude: no one means the other way around the globe, more than 270
AREA_ROUNDING = 1e-9  # as a share of an area
TINY_DEGREES = 1e-9
MENDED_AREA = 0.01  # share of an area by which an outline that is made valid may differ


def read_geometries(path: Path) -> Iterator[tuple[str, Any]]:
    """Read a CSV, GeoJSON, a GeoJSON sequence, a shapefile, GeoPackage or KML, and yield names and geometries.

    The latter three are projected to degrees. The name of a feature is its property `name`, its id, or the only
    property that holds text. A single feature may have the name of the file.

    Raises SSTCastError if the file cannot be read, has several layers, or holds a place without a name or a
    coordinate, another geometry than points and polygons, or an invalid polygon.
    """
    suffix = path.suffix.lower()
    with reading(path, f"give a CSV with {', '.join(COLUMNS)}, or GeoJSON"):
        if suffix in (*JSON_SUFFIXES, *SEQUENCE_SUFFIXES):
            yield from _named(path, _in_geojson(path))
        elif suffix in SIGNATURES:
            yield from _named(path, read_features(path))
        else:
            yield from _in_csv(path)


def _in_csv(path: Path) -> Iterator[tuple[str, Any]]:
    table = read_table(path, dtype=str, keep_default_na=False)
    lower = {str(column).strip().lower(): column for column in table.columns}
    known = {"name": NAME_COLUMNS, "lat": COLUMN_NAMES["lat"], "lon": COLUMN_NAMES["lon"]}
    columns = {key: lower[name] for key, names in known.items() for name in reversed(names) if name in lower}
    if missing := [column for column in COLUMNS if column not in columns]:
        raise SSTCastError(f"{path}: has no column {missing[0]}; give {', '.join(COLUMNS)}")
    check_not_repeated(path, table.columns, *map(str, columns.values()))
    lines = lines_of(path)
    for row, cells in table.iterrows():
        where = f"{path}: line {lines[int(str(row))]}"
        position = {}
        for axis in ("lat", "lon"):
            text = str(cells[columns[axis]]).strip()
            try:
                position[axis] = float(text.replace(",", "."))
            except ValueError:
                raise SSTCastError(
                    f"{where}: {axis} {text!r} is no number; write degrees, such as -42.35"
                ) from None
        name = str(cells[columns["name"]]).strip()
        if not name:
            raise SSTCastError(f"{where}: the place has no name; give it one")
        _check_degrees(position["lon"], position["lat"], where)
        yield name, shapely.Point(position["lon"], position["lat"])


def _in_geojson(path: Path) -> list[Feature]:
    text = path.read_text(encoding="utf-8-sig")
    if RECORD_SEPARATOR in text:
        texts = text.split(RECORD_SEPARATOR)
    else:
        texts = text.split("\n") if path.suffix.lower() in SEQUENCE_SUFFIXES else [text]
    features = []
    for content in (json.loads(text) for text in texts if text.strip()):
        for of in content["features"] if content["type"] == "FeatureCollection" else [content]:
            geometry = of["geometry"] if of["type"] == "Feature" else of
            shape = None if geometry is None else shapely.geometry.shape(geometry)
            features.append(Feature(shape, of.get("properties") or {}, of.get("id")))
    return features


def _named(path: Path, features: list[Feature]) -> Iterator[tuple[str, Any]]:
    """Yield the names and the geometries, whose outlines have no jumps in longitude."""
    texts = {key: None for of in features for key, value in of.properties.items() if isinstance(value, str)}
    for number, feature in enumerate(features, 1):
        named = {key.lower(): value for key, value in feature.properties.items()}
        only_text = feature.properties.get(next(iter(texts))) if len(texts) == 1 else None
        last = [only_text, path.stem if len(features) == 1 else None]
        if path.suffix.lower() in JSON_SUFFIXES:  # whose single feature was named after its file before
            last.reverse()
        given = (named.get("name"), feature.id, *last)
        name = next((text for value in given if value is not None and (text := str(value).strip())), "")
        if not name:
            listed = f"; its properties that hold text are {', '.join(texts)}" if len(texts) > 1 else ""
            raise SSTCastError(f"{path}: feature {number} has no name{listed}; give it one in properties.name")
        where = f"{path}: {name}"
        if feature.geometry is None or feature.geometry.is_empty:
            raise SSTCastError(f"{where}: has no geometry; give it one, or leave it out")
        parts = list(shapely.get_parts(shapely.force_2d(feature.geometry)))
        kinds = {part.geom_type for part in parts}
        if not (kinds == {"Polygon"} or (kinds == {"Point"} and len(parts) == 1)):
            raise SSTCastError(
                f"{where}: is a {feature.geometry.geom_type}, not a point or a polygon; give one of these"
            )
        lon, lat = shapely.get_coordinates(parts).T
        _check_degrees(lon, lat, where)
        if kinds == {"Point"}:
            yield name, parts[0]
        else:
            yield name, united([_unwrapped(part, where) for part in parts], where)


def _check_degrees(lon: Any, lat: Any, where: str) -> None:
    if not np.all((abs(lat) <= 90) & (abs(lon) <= 540)):
        raise SSTCastError(
            f"{where}: coordinates must be degrees, lat within -90..90; check their order and units"
        )


def united(parts: list[Any], where: str) -> Any:
    """Return an area of several parts, each made valid. Those that touch along a line, or overlap, are united."""
    parts = [polygon for part in parts for polygon in _made_valid(part, where)]
    area, whole = shapely.MultiPolygon(parts), shapely.union_all(_in_one_turn(parts))
    if not area.is_valid or whole.area < area.area * (1 - AREA_ROUNDING):
        area = shapely.MultiPolygon(_polygons(whole))
    return area


def _made_valid(part: Any, where: str) -> list[Any]:
    """Return the polygons of a part whose outline may touch itself, which is logged.

    Raises SSTCastError if they have another area than the outline, which crosses itself then.
    """
    if part.is_valid:
        return [part]
    valid, reason = (
        shapely.make_valid(part, method="structure", keep_collapsed=False),
        shapely.is_valid_reason(part),
    )
    if valid.is_empty or abs(valid.area - part.area) > MENDED_AREA * valid.area:
        raise SSTCastError(f"{where}: is not a valid polygon ({reason}); mend its outline")
    LOG.info(f"{where}: its outline touches itself ({reason}), and is made valid")
    return _polygons(valid)


def _polygons(area: Any) -> list[Any]:
    return [part for part in shapely.get_parts(area) if part.geom_type == "Polygon"]


def _in_one_turn(parts: list[Any]) -> list[Any]:
    """Return parts of an area within 360 degrees of longitude, which begin where they cut no part, if possible."""
    west, _, east, _ = shapely.bounds(parts).T
    after = (west[:, None] - west + TINY_DEGREES) % 360  # of each west end, from that of each part
    uncut = ((after <= 2 * TINY_DEGREES) | (after >= east - west)).all(1)
    first = west[uncut.argmax()]
    moved = []
    for part, turn in zip(parts, np.floor((west - first + TINY_DEGREES) / 360) * 360, strict=True):
        moved.append(shapely.affinity.translate(part, -turn))
        if moved[-1].bounds[2] > first + 360 + TINY_DEGREES:
            around = moved.pop()
            window = shapely.box(first, -90, first + 360, 90)
            moved += [shapely.intersection(shapely.affinity.translate(around, by), window) for by in (0, -360)]
    return moved


def _unwrapped(polygon: Any, where: str) -> Any:
    """Return a polygon whose longitudes have no jumps at the date line or at Greenwich."""
    rings: list[Array] = []
    for ring in (polygon.exterior, *polygon.interiors):
        points = np.array(ring.coords)
        points[:, 0] = _without_jumps(points[:, 0], where)
        if rings:  # a hole lies in the 360 degrees that begin at the west end of the polygon
            points[:, 0] -= 360 * np.floor((points[:, 0].min() - rings[0][:, 0].min() + TINY_DEGREES) / 360)
        rings.append(points)
    return shapely.Polygon(rings[0], rings[1:])


def _without_jumps(lon: Array, where: str) -> Array:
    """Return the longitudes of a ring, whose first and last corner are the same, without jumps."""
    steps = np.diff(lon)
    if abs(lon).max() > 180:
        shorter = 360 - abs(steps)
        for edge in np.flatnonzero((abs(steps) > 180 + TINY_DEGREES) & (shorter >= CLEARLY_SHORTER)):
            west, east = np.sort(lon[edge : edge + 2])
            raise SSTCastError(
                f"{where}: has an edge that is {east - west:g} degrees wide from {west:g} to {east:g}, or "
                f"{shorter[edge]:g} from {east:g} to {west:g}; add a corner between them"
            )
    unwrapped: Array = np.unwrap(lon, period=360)
    around = abs(abs(steps) - 360) < TINY_DEGREES
    if around.any() and (abs(unwrapped[-1] - unwrapped[0]) > TINY_DEGREES or np.ptp(unwrapped) < TINY_DEGREES):
        unwrapped = lon[0] + np.concatenate([[0], np.where(around, steps, np.diff(unwrapped)).cumsum()])
    if abs(unwrapped[-1] - unwrapped[0]) > TINY_DEGREES:
        raise SSTCastError(f"{where}: encircles a pole; divide it into parts that do not")
    return unwrapped
