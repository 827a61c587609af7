"""Files of polygons as geographic information systems write them, by pyogrio where the format needs it."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyproj
import pytest
import shapely

from sstcast.errors import SSTCastError
from sstcast.ocean.places import Places

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


def test_unusable_files_of_polygons_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layers = tmp_path / "two.gpkg"
    save(layers, [REEF], layer="north", site=["a"])
    save(layers, [BAY], layer="south", site=["b"])
    other = tmp_path / "vrt.kml"
    other.write_text(f"<OGRVRTDataSource><OGRVRTLayer name='x'><SrcDataSource>{layers}</SrcDataSource>")
    save(tmp_path / "line.gpkg", [shapely.LineString([[0, 0], [1, 1]])], site=["a"])
    for path, words in (
        (layers, "has the layers north, south; save one in a file of its own"),
        (other, "does not hold what its name says"),
        (tmp_path / "line.gpkg", "a: is a LineString, not a point or a polygon"),
    ):
        with pytest.raises(SSTCastError) as error:
            Places.read(path)
        assert str(error.value).startswith(f"{path}: ")
        assert words in str(error.value)
    monkeypatch.setitem(sys.modules, "pyogrio", None)
    with pytest.raises(SSTCastError, match=r"two.gpkg: reading it needs pyogrio; run: pip install 'sstcast\[poly"):
        Places.read(layers)
