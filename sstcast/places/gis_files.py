"""Reads the features of shapefiles, GeoPackages and KML.

GDAL would open whatever such a file names: other files, addresses, SQL. Here only the file is read and, beside a
shapefile, regular files of the same stem. No view and no function of a file is run. A small file stays small in
memory, even if its parts overlap.
"""

import re
import sqlite3
import time
import warnings
from codecs import lookup
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from itertools import pairwise
from pathlib import Path
from struct import unpack_from
from typing import Any, BinaryIO, NamedTuple
from xml.etree import ElementTree

import numpy as np
import shapely

from sstcast.errors import SSTCastError
from sstcast.log import LOG
from sstcast.storage.paths import open_regular
from sstcast.types import Array

SIGNATURES = {".shp": b"\0\0\x27\x0a", ".gpkg": b"SQLite format 3\0", ".kml": b""}  # what the files begin with
FINEST_EDGE = 10_000.0  # metres, between the points of an outline that is projected to degrees
MOST_SECONDS = 60  # of reading a GeoPackage, whose pages may lead in a circle
MOST_KEPT = 4  # times the size of the file; columns with default values take no space in a GeoPackage
SQLITE_STEPS = 100_000  # of SQLite between two looks at the clock
READ_ONLY = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_PRAGMA)
ENVELOPES = (0, 32, 48, 48, 64)  # bytes, by the kind of envelope of a geometry in a GeoPackage
NO_TEXTS = ("KEY", "DATE")  # types of columns of a GeoPackage that SQLite stores as text, or numbers
OTHER_KML = ("Model", "Track", "MultiTrack")
POINT, LINE, POLYGON, COLLECTIONS = 1, 2, 3, (4, 6, 7)  # kinds of WKB
VALUES = (2, 3, 3, 4)  # of a position in WKB: with neither height nor measure, with one of them, with both
# Where the text of a coordinate reference system may name files, which PROJ opens; and the text that names none.
FILES_OF_PROJ = re.compile(r'parameterfile|extension|"proj[ -]|\+\s*[a-z_]+\s*=', re.IGNORECASE)
WEB_MERCATOR = re.compile(
    r'extension\["proj4", ?"(\+(proj=merc|(a|b|lat_ts|lon_0|x_0|y_0|k)=[-\d.]+|units=m|nadgrids=@null|wktext'
    r'|no_defs|type=crs) ?)+"\]',
    re.IGNORECASE,
)


class Feature(NamedTuple):
    """A geometry of a file, with its properties and its id."""

    geometry: Any
    properties: dict[str, Any]
    id: Any = None


def read_features(path: Path) -> list[Feature]:
    """Read the only layer of a shapefile or GeoPackage, or all placemarks of a KML, in degrees.

    Raises SSTCastError if the file is another one, or has no or several layers. A damaged file raises any error.
    """
    suffix = path.suffix.lower()
    with open_regular(path) as file:
        if file.read(len(SIGNATURES[suffix])) != SIGNATURES[suffix]:
            raise _other_file(path)
        file.seek(0)
        if suffix == ".gpkg":
            return _in_geopackage(path)
        return _in_kml(path, file) if suffix == ".kml" else _in_shapefile(path, file)


def _other_file(path: Path) -> SSTCastError:
    return SSTCastError(f"{path}: does not hold what its name says; give a shapefile, GeoPackage or KML")


def _in_shapefile(path: Path, file: BinaryIO) -> list[Feature]:
    import shapefile  # imported here because few places are in one

    def beside(suffix: str) -> BinaryIO | None:
        for name in (suffix, suffix.upper()):
            with suppress(FileNotFoundError):
                return stack.enter_context(open_regular(path.with_suffix(name)))
        return None

    def texts(row: list[Any]) -> list[Any]:
        return [_decoded(value.encode("latin-1"), codecs) if isinstance(value, str) else value for value in row]

    features, kept = [], _Kept(path)
    with ExitStack() as stack, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        index, table, system, encoding = map(beside, (".shx", ".dbf", ".prj", ".cpg"))
        if index is None:
            raise SSTCastError(f"{path}: lacks its .shx, which tells where each shape is; copy that as well")
        codecs = _codecs(encoding.read(100).decode().strip() if encoding else "")
        shapes = shapefile.Reader(shp=file, shx=index)
        rows = shapefile.Reader(dbf=table, encoding="latin-1") if table else None
        if rows is not None and len(rows) != len(shapes):
            raise ValueError(f"{len(shapes)} shapes, but {len(rows)} rows in its .dbf")
        columns = texts([field[0] for field in rows.fields[1:]]) if rows is not None else []
        for number in range(len(shapes)):
            row = rows.record(number) if rows is not None else []
            if row is not None:  # it was not deleted
                shape = shapes.shape(number)
                kept.add(16 * len(shape.points))
                properties = {
                    key: None if value == "" else value for key, value in zip(columns, texts(row), strict=True)
                }
                features.append(Feature(_of_shape(shape, shapefile), properties))
        return _in_degrees(features, system.read().decode("utf-8-sig").strip() if system else "", path)


def _of_shape(shape: Any, shapefile: Any) -> Any:
    """Return the geometry of a shape. Rings that run clockwise are outlines, the others holes."""
    if shape.shapeType not in (shapefile.POLYGON, shapefile.POLYGONM, shapefile.POLYGONZ):
        return None if shape.shapeType == shapefile.NULL else shapely.geometry.shape(shape.__geo_interface__)
    if list(shape.parts) != [0, *sorted(set(shape.parts) - {0})]:
        raise ValueError("the rings of a polygon overlap")
    rings = [shape.points[first:last] for first, last in pairwise([*shape.parts, len(shape.points)])]
    return shapely.GeometryCollection(
        [shapely.Polygon(outline, holes) for outline, *holes in shapefile.organize_polygon_rings(rings)]
    )


def _codecs(cpg: str) -> list[str]:
    """Return the names in Python of the encoding in a .cpg, for instance UTF-8, 88591 or ANSI 1252.

    Without one, texts are UTF-8, or else Latin-1.
    """
    digits = "".join(filter(str.isdigit, cpg))
    number = f"iso8859-{digits[4:]}" if digits.startswith("8859") else f"cp{digits}"
    for name in (cpg, number) if cpg else ():
        with suppress(LookupError):
            return [lookup(name).name]
    if cpg:
        raise ValueError("its .cpg names no known encoding")
    return ["utf-8", "latin-1"]


def _decoded(text: bytes, codecs: list[str]) -> str:
    for codec in codecs[:-1]:
        with suppress(UnicodeDecodeError):
            return text.decode(codec)
    return text.decode(codecs[-1])


class _Kept:
    """Counts the bytes kept of a file, which may name the same bytes again and again."""

    def __init__(self, path: Path) -> None:
        self.left = MOST_KEPT * path.stat().st_size

    def add(self, number: int) -> None:
        self.left -= number
        if self.left < 0:
            raise ValueError("parts of it overlap")


def _in_geopackage(path: Path) -> list[Feature]:
    for journal in ("-wal", "-journal"):
        if (beside := path.with_name(path.name + journal)).is_file() and beside.stat().st_size:
            raise SSTCastError(f"{path}: {beside.name} holds changes of it; close the program that edits it")
    ends, kept = time.monotonic() + MOST_SECONDS, _Kept(path)
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as base:
        base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, path.stat().st_size)
        base.set_progress_handler(lambda: time.monotonic() > ends, SQLITE_STEPS)
        base.set_authorizer(
            lambda action, first, second, name, view: (
                sqlite3.SQLITE_OK if action in READ_ONLY and view is None else sqlite3.SQLITE_DENY
            )
        )
        layers = list(_rows(base, "gpkg_geometry_columns", kept))
        names = [str(layer["table_name"]) for layer in layers]
        if len(names) != 1:
            raise SSTCastError(
                f"{path}: has the layers {', '.join(names) or 'none'}; save one in a file of its own"
            )
        column, code = layers[0]["column_name"], layers[0]["srs_id"]
        systems = list(_rows(base, "gpkg_spatial_ref_sys", kept))
        (system,) = (row for row in systems if row["srs_id"] == code)
        of_columns = _columns(base, names[0])
        texts = [name for name, kind in of_columns.items() if name != column and not kind.startswith(NO_TEXTS)]
        features = [
            Feature(row[column] and _of_blob(row[column]), {name: row[name] for name in texts})
            for row in _rows(base, names[0], kept)
        ]
    if str(system["organization"]).upper() == "EPSG":
        return _in_degrees(features, int(system["organization_coordsys_id"]), path)
    if str(system["srs_name"]).lower().startswith("undefined"):
        return _in_degrees(features, "", path)
    in_wkt2 = system.get("definition_12_063")  # which GeoPackages of WKT 2 have beside the definition
    definition = system["definition"] if in_wkt2 in (None, "undefined") else in_wkt2
    return _in_degrees(features, str(definition), path)


def _columns(base: sqlite3.Connection, table: str) -> dict[str, str]:
    """Return the names of the columns that a table stores, with their types. It may be no view."""
    tables = base.execute("select name, sql from sqlite_master").fetchall()
    if not any(str(name).lower() == table.lower() and str(sql).startswith("CREATE TABLE") for name, sql in tables):
        raise ValueError(f"{table} is no table of it")
    stored = base.execute(f"pragma table_xinfo({_quoted(table)})")
    return {
        name: "KEY" if key and kind.upper() == "INTEGER" else kind.upper()
        for _, name, kind, _, _, key, is_computed in stored
        if not is_computed
    }


def _rows(base: sqlite3.Connection, table: str, kept: _Kept) -> Iterator[dict[str, Any]]:
    names = list(_columns(base, table))
    for row in base.execute(f"select {', '.join(map(_quoted, names))} from {_quoted(table)}"):
        kept.add(sum(len(value) for value in row if isinstance(value, (str, bytes))))
        yield dict(zip(names, row, strict=True))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _of_blob(blob: bytes) -> Any:
    """Return the geometry after the header that GeoPackage puts before WKB."""
    magic, flags = blob[:2], blob[3]
    if magic != b"GP" or flags & 32:
        raise ValueError("a geometry that is none of GeoPackage's own")
    return _of_wkb(blob, 8 + ENVELOPES[flags >> 1 & 7])[0]


def _of_wkb(blob: bytes, at: int, inside: bool = False) -> tuple[Any, int]:
    """Return the geometry in WKB that begins at a byte, and where it ends. Deep nesting would end GEOS' reader."""
    order = "<" if blob[at] else ">"
    kind, number = unpack_from(f"{order}II", blob, at + 1)
    kind, size = kind % 1000, VALUES[kind // 1000]
    if kind == LINE:
        return shapely.from_wkb(blob[at:]), len(blob)
    if kind == POINT:
        return shapely.Point(unpack_from(f"{order}2d", blob, at + 5)), at + 5 + 8 * size
    at += 9
    if kind in COLLECTIONS and not inside:
        parts = []
        for _ in range(number):
            part, at = _of_wkb(blob, at, inside=True)
            parts.append(part)
        return shapely.GeometryCollection(parts), at
    if kind != POLYGON:
        raise ValueError(f"a geometry of kind {kind}, not a point or a polygon")
    rings = []
    for _ in range(number):
        (length,) = unpack_from(f"{order}I", blob, at)
        rings.append(np.frombuffer(blob, f"{order}f8", length * size, at + 4).reshape(length, size)[:, :2])
        at += 4 + 8 * length * size
    return (shapely.Polygon(rings[0], rings[1:]) if rings else shapely.Polygon()), at


class _Tree(ElementTree.TreeBuilder):
    """A tree of XML without a document type, whose entities may grow without end."""

    def doctype(self, *_: Any) -> None:
        raise ValueError("has a document type")


def _in_kml(path: Path, file: BinaryIO) -> list[Feature]:
    root = ElementTree.parse(file, ElementTree.XMLParser(target=_Tree())).getroot()
    if _kind(root) != "kml":
        raise _other_file(path)
    features = []
    for placemark in root.iterfind(".//{*}Placemark"):
        parts = list(_of_kml(placemark))
        geometry = parts[0] if len(parts) == 1 else shapely.GeometryCollection(parts)
        features.append(Feature(geometry if parts else None, {"name": placemark.findtext("{*}name")}))
    return features


def _kind(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _of_kml(element: ElementTree.Element) -> Iterator[Any]:
    """Yield the geometries in an element of KML."""
    for child in element:
        kind = _kind(child)
        if kind == "MultiGeometry":
            yield from _of_kml(child)
        elif kind == "Point":
            (position,) = _positions(child)
            yield shapely.Point(position)
        elif kind == "Polygon":
            (outline,), holes = (
                child.findall(f"{{*}}{side}BoundaryIs/{{*}}LinearRing") for side in ("outer", "inner")
            )
            yield shapely.Polygon(_positions(outline), list(map(_positions, holes)))
        elif kind in ("LineString", "LinearRing"):
            yield shapely.LineString(_positions(child))
        elif kind in OTHER_KML:
            raise ValueError(f"a {kind}, not a point or a polygon")


def _positions(element: ElementTree.Element) -> list[tuple[float, float]]:
    """Return the longitudes and latitudes of an element of KML, whose heights are left out."""
    positions = [text.split(",") for text in (element.findtext("{*}coordinates") or "").split()]
    return [(float(lon), float(lat)) for lon, lat, *_ in positions]


def _in_degrees(features: list[Feature], system: str | int, path: Path) -> list[Feature]:
    """Return features in degrees.

    Their coordinate reference system is a text in WKT, which may be empty, or the number that EPSG gives it.
    """
    if not system:
        LOG.info(f"{path}: states no coordinate reference system, so its coordinates are read as degrees")
        return features
    if isinstance(system, str) and FILES_OF_PROJ.search(WEB_MERCATOR.sub("", " ".join(system.split()))):
        raise SSTCastError(f"{path}: its coordinate reference system names files; save it with one of EPSG's")
    import pyproj  # imported here because few files need it

    crs = pyproj.CRS.from_wkt(system) if isinstance(system, str) else pyproj.CRS.from_epsg(system)
    to_degrees = pyproj.Transformer.from_crs(crs, "EPSG:4326", always_xy=True)

    def convert(points: Array) -> Array:
        lon, lat = to_degrees.transform(*points.T)
        if crs.is_geographic:  # longitudes beyond 180 stay beyond it
            lon = points[:, 0] + (lon - points[:, 0] + 180) % 360 - 180
        return np.column_stack([lon, lat])

    shapes = np.array([feature.geometry for feature in features], object)
    if not crs.is_geographic:  # edges that are straight on the map bend in degrees
        shapes = shapely.segmentize(shapes, FINEST_EDGE / crs.axis_info[0].unit_conversion_factor)
    return [
        feature._replace(geometry=shape)
        for feature, shape in zip(features, shapely.transform(shapes, convert), strict=True)
    ]
