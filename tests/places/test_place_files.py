"""Files of polygons as geographic information systems write them, beside what GDAL reads from them."""

import json
import os
import sqlite3
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyproj
import pytest
import shapely
from refusals import refused

from sstcast.errors import SSTCastError
from sstcast.places.places import Places

REEF, BAY = shapely.box(170, -12, 172, -11), shapely.box(-179, -20, -178, -19)
FORMATS = {".shp": "ESRI Shapefile", ".gpkg": "GPKG", ".kml": "KML"}


def feature(geometry: Any, **properties: Any) -> dict[str, Any]:
    return {"type": "Feature", "properties": properties, "geometry": json.loads(shapely.to_geojson(geometry))}


def save(
    path: Path, geometries: list[Any], crs: str | None = "EPSG:4326", layer: str = "areas", **columns: Any
) -> None:
    """Write geometries with columns by pyogrio."""
    pyogrio = pytest.importorskip("pyogrio")
    kind = "Polygon" if all(of.geom_type == "Polygon" for of in geometries) else "Unknown"
    options: dict[str, Any] = {} if path.suffix == ".shp" else {"layer": layer, "append": path.exists()}
    values = [np.array(column, object if isinstance(column[0], str) else None) for column in columns.values()]
    pyogrio.raw.write(
        path, shapely.to_wkb(geometries), values, list(columns), driver=FORMATS[path.suffix], crs=crs,
        geometry_type=kind, **options,
    )  # fmt: skip


@pytest.mark.parametrize("separator", ["\n", "\n\x1e"])
def test_a_sequence_of_features_is_read_like_a_collection(tmp_path: Path, separator: str) -> None:
    features = [feature(REEF, name="reef \u2028 north"), feature(shapely.Point(1, 2), name="site")]
    lines = [json.dumps(of, ensure_ascii=False) for of in features]
    sequence, collection = tmp_path / "a.geojsonl", tmp_path / "a.geojson"
    sequence.write_text(separator.lstrip("\n") + separator.join(lines) + "\n", encoding="utf-8")
    collection.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    assert Places.read(sequence).geojson == Places.read(collection).geojson


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.filterwarnings("ignore:.*CRS")
def test_shapes_of_other_programs_are_those_of_geojson(tmp_path: Path, suffix: str) -> None:
    path, collection = tmp_path / f"areas{suffix}", tmp_path / "a.geojson"
    save(path, [REEF, BAY], Name=["reef", "bay"], note=["a", "b"])
    features = [feature(REEF, name="reef"), feature(BAY, name="bay")]
    collection.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    found, expected = Places.read(path), Places.read(collection)
    assert found.names == expected.names
    for one, other in zip(found.places, expected.places, strict=True):
        assert shapely.equals(one.geometry, other.geometry)


def test_other_coordinates_are_projected_with_the_bend_of_their_edges(tmp_path: Path) -> None:
    """Edges between two meridians of a polar map, against the middles of the chords."""
    antarctic = pyproj.Transformer.from_crs("EPSG:4326", "EPSG:3031", always_xy=True)
    corners = np.array([[170.0, -60], [-170, -60], [-170, -70], [170, -70]])
    square = shapely.Polygon(np.column_stack(antarctic.transform(*corners.T)))
    save(tmp_path / "ice.gpkg", [square], "EPSG:3031", site=["ross"])
    (place,) = Places.read(tmp_path / "ice.gpkg").places
    assert place.name == "ross"
    west, south, east, north = place.geometry.bounds
    assert (west % 360, east % 360) == pytest.approx((170, 190), abs=1e-6)
    radii = np.hypot(*antarctic.transform([180, 180], [-60, -70])) * np.cos(np.radians(10))
    outer, inner = antarctic.transform(np.zeros(2), -radii, direction="INVERSE")[1]
    assert (south, north) == pytest.approx((inner, -60), abs=1e-3)
    assert inner < -70.2
    assert outer < -60.2
    assert not place.geometry.contains(shapely.Point([180, -180][west < 0], (outer - 60) / 2))


def test_longitudes_beyond_180_of_another_datum_stay(tmp_path: Path) -> None:
    wide = shapely.Polygon([[x, -30] for x in (40, 150, 290)] + [[x, -10] for x in (290, 150, 40)])
    save(tmp_path / "wide.gpkg", [wide], "EPSG:4269", site=["wide"])
    assert Places.read(tmp_path / "wide.gpkg").places[0].geometry.bounds == pytest.approx((40, -30, 290, -10))
    with pytest.raises(SSTCastError, match=r"250 degrees wide from 40 to 290, or 110"):
        save(tmp_path / "box.gpkg", [shapely.box(40, -30, 290, -10)], "EPSG:4269", site=["wide"])
        Places.read(tmp_path / "box.gpkg")


def test_names_come_from_the_only_text(tmp_path: Path) -> None:
    path = tmp_path / "areas.shp"
    save(path, [REEF, BAY], number=[1, 2], site=["reef", "bay"])
    assert Places.read(path).names == ["reef", "bay"]
    save(path, [REEF, BAY], site=["reef", "bay"], state=["a", "b"])
    with pytest.raises(SSTCastError, match=r"shp: feature 1 has no name; its .* text are site, state; give"):
        Places.read(path)
    save(path, [REEF], number=[1])
    assert Places.read(path).names == ["areas"]
    rows = tmp_path / "a.geojson"
    rows.write_text(json.dumps({"type": "FeatureCollection", "features": [feature(REEF, of="x", n=1)]}))
    assert Places.read(rows).names == ["a"]  # as before


def test_unusable_files_of_polygons_are_refused(tmp_path: Path) -> None:
    layers = tmp_path / "two.gpkg"
    save(layers, [REEF], layer="north", site=["a"])
    save(layers, [BAY], layer="south", site=["b"])
    save(tmp_path / "line.gpkg", [shapely.LineString([[0, 0], [1, 1]])], site=["a"])
    for path, words in (
        (layers, "has the layers north, south; save one in a file of its own"),
        (tmp_path / "line.gpkg", "a: is a LineString, not a point or a polygon"),
    ):
        with pytest.raises(SSTCastError) as error:
            Places.read(path)
        assert str(error.value).startswith(f"{path}: ")
        assert words in str(error.value)


def check_beside_gdal(path: Path) -> None:
    """Check names and degrees of a file beside those of GDAL."""
    meta, _, blobs, columns = pytest.importorskip("pyogrio").raw.read(path, force_2d=True)
    names = columns[[field.lower() for field in meta["fields"]].index("name")]
    to_degrees = pyproj.Transformer.from_crs(meta["crs"], "EPSG:4326", always_xy=True)
    found = Places.read(path)
    assert found.names == [str(name) for name in names]
    for place, shape in zip(found.places, shapely.from_wkb(blobs), strict=True):
        degrees = shapely.transform(shape, lambda points: np.column_stack(to_degrees.transform(*points.T)))
        parts = [shapely.GeometryCollection(list(shapely.get_parts(of))) for of in (place.geometry, degrees)]
        assert shapely.equals_exact(*parts, 1e-9, normalize=True)


RING = shapely.Polygon(shapely.box(140, -40, 150, -30).exterior, [shapely.box(142, -38, 146, -34).exterior])
ISLANDS = shapely.MultiPolygon([RING, shapely.box(143, -37, 144, -36), shapely.box(160, -40, 161, -39)])


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("system", ["EPSG:4326", "EPSG:4283", "EPSG:3577"])
@pytest.mark.filterwarnings("ignore:.*CRS")
def test_files_are_read_as_gdal_reads_them(tmp_path: Path, suffix: str, system: str) -> None:
    to_system = pyproj.Transformer.from_crs("EPSG:4326", system, always_xy=True)
    shapes = [
        shapely.transform(shape, lambda points: np.column_stack(to_system.transform(*points.T)))
        for shape in (shapely.segmentize(ISLANDS, 0.01), shapely.box(150, -20, 150.01, -19.99))
    ]
    save(tmp_path / f"a{suffix}", shapes, system, Name=["Île d’été", "海"])
    check_beside_gdal(tmp_path / f"a{suffix}")


def test_heights_points_and_encodings_are_read_as_gdal_reads_them(tmp_path: Path) -> None:
    for suffix in FORMATS:
        save(
            path := tmp_path / f"a{suffix}", [shapely.Point(1, 2, 3), shapely.Point(-170, -3, 0)], Name=["a", "b"]
        )
        check_beside_gdal(path)
    for text, codec, cpg in (
        ("é", "latin-1", "88591"),
        ("д", "cp1251", "ANSI 1251"),
        ("é", "utf-8", "UTF-8"),
        ("é", "latin-1", None),
    ):
        save(path := tmp_path / f"{codec}{cpg}.shp", [REEF], name=["x"])
        table = path.with_suffix(".dbf")
        table.write_bytes(table.read_bytes().replace(b" x ", (b" " + text.encode(codec)).ljust(3)))
        path.with_suffix(".cpg").unlink() if cpg is None else path.with_suffix(".cpg").write_text(cpg)
        assert Places.read(path).names == [text]
        check_beside_gdal(path)
    path.with_suffix(".cpg").write_text("no codec")
    with refused(path, "its .cpg names no known encoding"):
        Places.read(path)


def test_a_shapefile_edited_in_place_is_read_by_its_index(tmp_path: Path) -> None:
    """Rows that were deleted are left out, and shapes lie where the index says."""
    save(path := tmp_path / "a.shp", [shapely.box(i, 0, i + 1, 1) for i in range(3)], name=["a", "b", "c"])
    index, table = path.with_suffix(".shx"), path.with_suffix(".dbf")
    records = index.read_bytes()
    index.write_bytes(records[:100] + records[116:124] + records[108:116] + records[100:108])
    table.write_bytes(table.read_bytes().replace(b" b ", b"*b "))
    check_beside_gdal(path)
    assert [(of.name, of.geometry.bounds[0]) for of in Places.read(path).places] == [("a", 2), ("c", 0)]
    table.write_bytes(table.read_bytes()[:4] + b"\2" + table.read_bytes()[5:])
    with refused(path, "3 shapes, but 2 rows in its .dbf"):
        Places.read(path)
    index.unlink()
    with refused(path, "lacks its .shx"):
        Places.read(path)


def test_pipes_beside_a_shapefile_are_not_read(tmp_path: Path) -> None:
    save(path := tmp_path / "a.shp", [REEF], name=["a"])
    expected = Places.read(path).places[0].geometry
    for suffix in (".dbf", ".prj", ".cpg"):
        path.with_suffix(suffix).unlink()
        os.mkfifo(path.with_suffix(suffix))
    assert Places.read(path).names == ["a"]  # of the file
    assert Places.read(path).places[0].geometry == expected


VRT = """<OGRVRTDataSource><OGRVRTLayer name="secret"><SrcDataSource>{}</SrcDataSource>
<GeometryType>wkbPoint</GeometryType><GeometryField encoding="PointFromColumns" x="lon" y="lat"/>
</OGRVRTLayer></OGRVRTDataSource>"""


def test_a_recipe_of_gdal_is_no_place_file(tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("name,lat,lon\nsecret,-44.1,151.1\n")
    recipe = VRT.format(tmp_path / "secret.csv")
    in_doctype = f"<?xml version='1.0'?><!DOCTYPE kml [ <!ENTITY a ']>{recipe}<!-- '> <!-- --> ]><kml/>"
    for number, text in enumerate((recipe, recipe.replace("><", "><!-- <kml -->", 1), in_doctype)):
        for suffix in FORMATS:
            (path := tmp_path / f"{number}{suffix}").write_text(text)
            with refused(path):
                Places.read(path)


def in_geopackage(path: Path, table: str, *blobs: bytes, definition: str = "") -> Path:
    """Write a GeoPackage by hand, whose table `places` has the columns `fid`, `name` and `geom`."""
    with sqlite3.connect(path) as base:
        base.execute("create table gpkg_geometry_columns(table_name, column_name, srs_id)")
        base.execute("insert into gpkg_geometry_columns values('places', 'geom', 4326)")
        base.execute(
            "create table gpkg_spatial_ref_sys("
            "srs_name, srs_id, organization, organization_coordsys_id, definition)"
        )
        row = ("x", 4326, "NONE" if definition else "EPSG", 4326, definition)
        base.execute("insert into gpkg_spatial_ref_sys values(?, ?, ?, ?, ?)", row)
        base.execute(table)
        for blob in blobs:
            base.execute("insert into places(geom) values(?)", (b"GP\0\1" + bytes(4) + blob,))
    base.close()
    return path


ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select i"
STORED = "create table places(fid integer primary key, name text default 'a', geom blob)"
COMPUTED = STORED.replace("default 'a'", "as (hex(zeroblob(30000000)))")


def test_no_sql_of_a_geopackage_is_run(tmp_path: Path) -> None:
    reef = shapely.to_wkb(REEF)
    for number, table in enumerate(
        (f"create view places as {ENDLESS} as fid from n", "create virtual table places using fts5(name, geom)")
    ):
        with refused("places is no table of it"):
            Places.read(in_geopackage(tmp_path / f"{number}.gpkg", table))
    path = in_geopackage(tmp_path / "computed.gpkg", COMPUTED, *[reef] * 30)
    with refused(path, "feature 1 has no name"):
        Places.read(path)
    path = in_geopackage(tmp_path / "repeated.gpkg", STORED, *[reef] * 100)
    with sqlite3.connect(path) as base:
        base.execute(f"alter table places add column note text default '{'a' * 100_000}'")
    base.close()
    with refused(path, "parts of it overlap"):
        Places.read(path)


def test_geometries_of_a_geopackage_are_its_own(tmp_path: Path) -> None:
    deep, short = struct.pack("<BII", 1, 6, 1) * 100_000, struct.pack("<BIII", 1, 3, 1, 2**31)
    curve, empty = struct.pack("<BII", 1, 10, 1), b""
    for number, blob in enumerate((deep, short, curve, empty)):
        with refused("cannot be read"):
            Places.read(in_geopackage(tmp_path / f"{number}.gpkg", STORED, blob))
    path = in_geopackage(tmp_path / "whole.gpkg", STORED, shapely.to_wkb(REEF))
    assert Places.read(path).names == ["a"]
    (tmp_path / "whole.gpkg-wal").write_bytes(b"x")
    with refused(path, "whole.gpkg-wal holds changes of it"):
        Places.read(path)


DATUM = 'DATUM["d",SPHEROID["s",6378137,298.25]{}]'
DEGREES = f'GEOGCS["x",{DATUM},PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433]]'
METRES = 'PROJCS["a",' + DEGREES.format("") + ',PROJECTION["custom_proj4"],UNIT["metre",1],{}]'


def test_a_coordinate_reference_system_names_no_files(tmp_path: Path) -> None:
    """PROJ would open these, and a pipe would never answer."""
    os.mkfifo(pipe := tmp_path / "grid")
    save(path := tmp_path / "a.shp", [REEF], name=["a"])
    for number, text in enumerate(
        (
            DEGREES.format(f',EXTENSION["PROJ4_GRIDS","{pipe}"]'),
            METRES.format(f'EXTENSION["PROJ4","+proj=merc +nadgrids={pipe}"]'),
            METRES.format(f'EXTENSION["PROJ4","+proj=merc +nadgrids=@null +geoidgrids={pipe}"]'),
            METRES.replace("custom_proj4", f"PROJ-based operation method: +proj=hgridshift +grids={pipe}"),
            METRES.format(f'PARAMETERFILE["Latitude and longitude difference file","{pipe}"]'),
        )
    ):
        path.with_suffix(".prj").write_text(text)
        file = in_geopackage(tmp_path / f"{number}.gpkg", STORED, shapely.to_wkb(REEF), definition=text)
        for each in (path, file):
            with refused(each, "its coordinate reference system names files; save it with one of EPSG's"):
                Places.read(each)
    web = pyproj.CRS.from_epsg(3857).to_wkt("WKT1_GDAL")  # which has +nadgrids=@null
    path.with_suffix(".prj").write_text(web)
    save(tmp_path / "web.shp", [REEF], "EPSG:3857", name=["a"])
    assert "nadgrids" in web
    assert Places.read(path).geojson == Places.read(tmp_path / "web.shp").geojson
