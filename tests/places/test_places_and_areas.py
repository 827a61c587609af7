"""Weights of places against shapely on a fine grid, and files that are refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
import xarray as xr
from logged import logged

from sstcast.errors import SSTCastError
from sstcast.geo import NORTH, SOUTH
from sstcast.places.place_files import united
from sstcast.places.places import Places

SQUARE = [[0, 0], [4, 0], [4, 3], [0, 3], [0, 0]]


def grid(
    west: float = -2.0, south: float = -1.0, rows: int = 12, columns: int = 16, step: float = 0.5
) -> xr.DataArray:
    """Return the ocean fraction of cells, with some coast."""
    lat, lon = south + step * (np.arange(rows) + 0.5), west + step * (np.arange(columns) + 0.5)
    fraction = np.ones((rows, columns), np.float32)
    fraction[3, 5], fraction[6:8, 9] = 0.75, 0.25
    return xr.DataArray(fraction, {"lat": lat, "lon": lon}, ("lat", "lon"))


def written(tmp_path: Path, *polygons: Any, name: str = "area") -> Places:
    kind = "Polygon" if len(polygons) == 1 else "MultiPolygon"
    coordinates = polygons[0] if len(polygons) == 1 else list(polygons)
    feature = {
        "type": "Feature",
        "properties": {"name": name},
        "geometry": {"type": kind, "coordinates": coordinates},
    }
    path = tmp_path / "areas.geojson"
    path.write_text(json.dumps(feature))
    return Places.read(path)


def weights_of(places: Places, fraction: xr.DataArray, ocean: np.ndarray) -> np.ndarray:
    """Return the weights `[place, lat, lon]`."""
    return places.weights(fraction, ocean).toarray().reshape(-1, *ocean.shape)


def expected(polygon: Any, fraction: xr.DataArray, ocean: np.ndarray, finer: int = 60) -> np.ndarray:
    """Sum the areas of fine cells whose centres shapely finds inside."""
    step = float(fraction["lat"][1] - fraction["lat"][0])
    fine = step * ((np.arange(finer) + 0.5) / finer - 0.5)
    lat = (fraction["lat"].values[:, None] + fine).ravel()
    lon = (fraction["lon"].values[:, None] + fine).ravel()
    inside = sum(shapely.contains_xy(polygon, *np.meshgrid(lon + shift, lat)) for shift in (-360, 0, 360))
    area = inside * np.cos(np.radians(lat))[:, None]
    cells = area.reshape(fraction.shape[0], finer, fraction.shape[1], finer).sum((1, 3))
    weights = cells * fraction.values * ocean
    return weights / weights.sum()


HOLE = [[1, 1], [1, 2.2], [2.3, 2.2], [2.3, 1], [1, 1]]
SHAPES = {
    "square": ([SQUARE],),
    "slanted": ([[[0.3, -0.4], [4.7, 0.9], [2.1, 3.8], [0.3, -0.4]]],),
    "with a hole": ([SQUARE, HOLE],),
    "of two parts": ([SQUARE], [[[4.5, 3.1], [5.6, 3.1], [5.6, 4.4], [4.5, 3.1]]]),
    "another convention": ([[[x + 360, y] for x, y in SQUARE], [[x + 360, y] for x, y in HOLE]],),
}


@pytest.mark.parametrize("name", SHAPES)
def test_weights_are_areas_times_ocean(tmp_path: Path, name: str) -> None:
    fraction, parts = grid(), SHAPES[name]
    ocean = fraction.values >= 0.5
    ocean[4, 4] = False
    shapes = [shapely.Polygon(part[0], part[1:]) for part in parts]
    with logged() as lines:
        (found,) = weights_of(written(tmp_path, *parts), fraction, ocean)
    np.testing.assert_allclose(found, expected(shapely.MultiPolygon(shapes), fraction, ocean), atol=2e-4)
    assert lines[0].startswith("area: 9")
    assert f"of its area are in {(found > 0).sum()} ocean cells, from " in lines[0]


@pytest.mark.parametrize("south", [-1.0, 60.0, -66.0])
def test_areas_shrink_towards_the_poles(tmp_path: Path, south: float) -> None:
    fraction = grid(south=south)
    corners = [[[x, y + south + 1] for x, y in SQUARE]]
    found = weights_of(written(tmp_path, corners), fraction, np.ones(fraction.shape, bool))[0]
    wanted = expected(shapely.Polygon(corners[0]), fraction, np.ones(fraction.shape, bool))
    np.testing.assert_allclose(found, wanted, atol=2e-4)


NOTCH = [[179, 1], [180.5, 1], [180.5, 2], [179, 1]]
ACROSS: dict[str, list[Any]] = {
    "jumps": [
        [[[178, 0], [-178, 0], [-178, 3], [178, 3], [178, 0]], [[x - 360 * (x > 180), y] for x, y in NOTCH]]
    ],
    "beyond 180": [[[[178, 0], [182, 0], [182, 3], [178, 3], [178, 0]], NOTCH]],
    "cut": [
        [[[178, 0], [180, 0], [180, 1], [179, 1], [180, 5 / 3], [180, 3], [178, 3], [178, 0]]],
        [
            [
                [-180, 0],
                [-178, 0],
                [-178, 3],
                [-180, 3],
                [-180, 5 / 3],
                [-179.5, 2],
                [-179.5, 1],
                [-180, 1],
                [-180, 0],
            ]
        ],
    ],
}


@pytest.mark.parametrize("west", [176.0, -184.0])
@pytest.mark.parametrize("case", ACROSS)
def test_areas_cross_the_date_line(tmp_path: Path, west: float, case: str) -> None:
    fraction = grid(west=west)
    ocean = np.ones(fraction.shape, bool)
    shape = shapely.Polygon([[178, 0], [182, 0], [182, 3], [178, 3]], [NOTCH])
    (found,) = weights_of(written(tmp_path, *ACROSS[case]), fraction, ocean)
    np.testing.assert_allclose(found, expected(shape, fraction, ocean), atol=2e-4)


ENDS = np.array([-12.0, -11.9, -11.6, -11.5, -11.2, -11.1, -10.8, -10.7, -10.4])  # of rows, not halfway


def test_rows_with_bounds_of_their_own_hold_points_and_areas(tmp_path: Path) -> None:
    fraction = grid(west=170, south=-12, rows=8, columns=12, step=0.25)
    fraction = fraction.copy(data=np.ones_like(fraction)).assign_coords(lat=-11.96 + 0.2 * np.arange(8))
    fraction = fraction.assign_coords({SOUTH: ("lat", ENDS[:-1]), NORTH: ("lat", ENDS[1:])})
    ocean = np.ones(fraction.shape, bool)
    lats = np.linspace(-11.99, -10.43, 24).round(3)
    path = tmp_path / "sites.csv"
    path.write_text("name,lat,lon\n" + "".join(f"{i},{lat},171.1\n" for i, lat in enumerate(lats)))
    found = weights_of(Places.read(path), fraction, ocean)
    assert np.nonzero(found)[1].tolist() == (np.digitize(lats, ENDS) - 1).tolist()
    halfway = np.append(fraction["lat"][:-1] + 0.1, -10)
    assert (np.digitize(lats, ENDS) - 1 != np.digitize(lats, halfway)).sum() > 2  # the rows of others
    south, north = -11.85, -10.75
    ring = [[170.5, south], [171.5, south], [171.5, north], [170.5, north], [170.5, south]]
    (found,) = weights_of(written(tmp_path, [ring]), fraction, ocean)
    expected = np.diff(np.sin(np.radians(ENDS.clip(south, north))))
    np.testing.assert_allclose(found.sum(1), expected / expected.sum(), atol=1e-6)


def box(west: float, east: float, south: float = -30, north: float = -10, step: float | None = None) -> Any:
    """Return a ring, with a corner every `step` degrees of longitude."""
    lon = [west, east] if step is None else np.append(np.arange(west, east, step), east).tolist()
    return [*([x, south] for x in lon), *([x, north] for x in lon[::-1]), [west, south]]


AROUND = xr.DataArray(
    np.ones((4, 72), np.float32), {"lat": np.arange(-35, 5, 10.0), "lon": np.arange(2.5, 360, 5)}, ("lat", "lon")
)


@pytest.mark.parametrize(
    ("rings", "west", "east", "told"),
    [
        ([box(40, 290, step=10)], 40, 290, "40 to -70"),
        ([box(40, 290, step=110)], 40, 290, "40 to -70"),
        ([box(-70, 40)], -70, 40, "-70 to 40"),
        ([box(-100, 120)], 120, 260, "120 to -100"),  # across the date line
        ([box(350, 10)], -10, 10, "-10 to 10"),
        ([box(10, 350)], -10, 10, "-10 to 10"),
        ([box(340, 359.5, step=5), box(0, 20, step=5)], -20, 20, "-20 to 20"),
        ([box(0, 180)], 0, 180, "0 to 180"),
        ([box(-180, 180)], 0, 360, "-180 to 180"),
        ([box(0, 360, step=45)], 0, 360, "-180 to 180"),
        ([box(-180, 180)[:2] + box(-180, 180, step=90)[5:]], 0, 360, "-180 to 180"),
        ([[[170, -30], [180, -30], [-180, -30], [-170, -30], *box(170, -170)[2:]]], 170, 190, "170 to -170"),
        ([box(174, 180), box(180, 186)], 174, 186, "174 to -174"),  # parts that share an edge
        ([box(174, 180), box(178, 186)], 174, 186, "174 to -174"),  # or overlap, also in other conventions
        ([box(174, 182), box(-182, -174)], 174, 186, "174 to -174"),
        ([box(-180, -174), box(174, 180)], 174, 186, "174 to -174"),
    ],
)  # fmt: skip
def test_wide_polygons_bands_and_parts(
    tmp_path: Path, rings: list[Any], west: float, east: float, told: str
) -> None:
    with logged() as lines:
        (found,) = weights_of(written(tmp_path, *([ring] for ring in rings)), AROUND, np.ones(AROUND.shape, bool))
    ends = np.arange(0, 365, 5.0)
    share = sum(np.diff(ends.clip(west + turn, east + turn)) for turn in (-360, 0, 360))
    if rings[0][1][0] == 345:  # between two parts
        share[-1] = 4.5
    expected = np.array([0, 1, np.nan, 0])[:, None] * share
    expected[2] = share * np.ptp(np.sin(np.radians([-20, -10]))) / np.ptp(np.sin(np.radians([-30, -20])))
    np.testing.assert_allclose(found, expected / expected.sum(), atol=1e-6)
    assert lines[0].endswith(f", from {told} degrees east")


@pytest.mark.parametrize(("west", "east", "other"), [(40, 290, 110), (20, 250, 130), (-170, 90, 100)])
def test_an_edge_that_may_go_either_way_is_refused(tmp_path: Path, west: int, east: int, other: int) -> None:
    if west < 0:
        west, east = west + 360, east + 360
    with pytest.raises(SSTCastError) as error:
        written(tmp_path, [box(west, east)])
    assert str(error.value).endswith(
        f"area: has an edge that is {east - west} degrees wide from {west} to {east}, or {other} from {east} to "
        f"{west}; add a corner between them"
    )


def test_a_hole_of_a_wide_polygon_stays_in_it(tmp_path: Path) -> None:
    """Also far from the middle, and in another convention."""
    for hole in (box(165, 175, -20, -10 - 1), box(165 - 360, 175 - 360, -20, -11)):
        (found,) = weights_of(written(tmp_path, [box(-180, 180), hole]), AROUND, np.ones(AROUND.shape, bool))
        assert found[2, 33:35].max() < 0.2 * found[2, 0]
        assert found[2, [32, 35]] == pytest.approx(found[2, 0])


def test_ids_of_0_are_names(tmp_path: Path) -> None:
    features = [
        {"type": "Feature", "id": number, "properties": {}, "geometry": {"type": "Point", "coordinates": [0, 0]}}
        for number in range(3)
    ]
    path = tmp_path / "ids.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    assert Places.read(path).names == ["0", "1", "2"]


def test_points_use_their_cell_or_the_one_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "sites.csv"
    path.write_text('Name, Lat, Lon\n"a, b", 0.1, 359.9\nshore,2.4,3.1\ninland,3.9,5.2\naway,40,3\n')
    fraction = grid()
    ocean = np.ones(fraction.shape, bool)
    ocean[6, 10] = False  # the cell of the shore
    ocean[5:, 12:] = False
    places = Places.read(path)
    with logged() as lines:
        found = weights_of(places, fraction, ocean)
    assert places.names == ["a, b", "shore", "inland", "away"]
    assert found[0, 2, 3] == 1
    assert found.sum((1, 2)).tolist() == [1, 1, 0, 0]
    rows, columns = np.nonzero(ocean)
    apart = shapely.distance(
        shapely.Point(3.1, 2.4), shapely.points(fraction["lon"].values[columns], fraction["lat"].values[rows])
    )
    assert found[1, rows[apart.argmin()], columns[apart.argmin()]] == 1
    assert "shore: is on land; the nearest ocean cell is at" in lines[0]
    assert lines[0].endswith(f"{apart.min() * 111.2:.0f} km away; that cell is used")
    assert "inland: is on land" in lines[1]
    assert lines[1].endswith("that is too far away")
    assert lines[2] == "away: lies outside the region, -2,6,-1,5, so it is left out"


@pytest.mark.parametrize("west", [0.0, -180.0])
def test_the_cell_beside_a_point_may_be_across_the_seam(tmp_path: Path, west: float) -> None:
    fraction = grid(west, -2, 4, 360, 1.0)
    ocean = np.zeros(fraction.shape, bool)
    ocean[1, int((359.5 - west) % 360)] = True
    (tmp_path / "a.csv").write_text("name,lat,lon\nnear,-0.4,0.4\nfar,-0.4,1.4\n")
    weights = weights_of(Places.read(tmp_path / "a.csv"), fraction, ocean)
    np.testing.assert_array_equal(weights[0], ocean)
    assert not weights[1].any()


TOUCHING = {  # outlines that touch themselves, and the area inside, of which the last crosses itself a little
    "at a point": ([[0, 0], [4, 0], [4, 4], [2, 0], [0, 4], [0, 0]], 8.0),
    "a hole in the outline": ([[0, 0], [4, 0], [4, 4], [0, 4], [0, 0], [1, 2], [2, 1], [0, 0]], 14.5),
    "a spike": ([[0, 0], [4, 0], [4, 4], [4, 5], [4, 4], [0, 4], [0, 0]], 16.0),
    "crossed by 1e-4": ([[0, 0], [4, 0], [4, 4], [2, -1e-4], [0, 4], [0, 0]], 8.0),
}


@pytest.mark.parametrize("case", TOUCHING)
def test_outlines_that_touch_themselves_are_made_valid(tmp_path: Path, case: str) -> None:
    outline, area = TOUCHING[case]
    with logged() as lines:
        (place,) = written(tmp_path, [outline]).places
    assert place.geometry.is_valid
    assert any("areas.geojson: area: its outline touches itself" in line for line in lines)
    assert place.geometry.area == pytest.approx(area, rel=1e-3)


def test_an_area_with_too_little_sea_is_refused_and_one_outside_is_not(tmp_path: Path) -> None:
    fraction = grid()
    ocean = np.ones(fraction.shape, bool)
    ocean[:, :10] = False
    with pytest.raises(SSTCastError, match=r"areas.geojson: area: only 25% of its area are ocean cells"):
        written(tmp_path, [SQUARE]).weights(fraction, ocean)
    kept = Places.from_geojson(written(tmp_path, [SQUARE]).geojson)
    with logged() as lines:
        assert kept.weights(fraction, ocean).nnz == 0
    assert lines == ["area: only 25% of its area are ocean cells of the region, -2,6,-1,5, so it is left out"]
    beyond = [[[x + 50, y] for x, y in SQUARE]]
    with logged() as lines:
        assert written(tmp_path, beyond).weights(fraction, ocean).nnz == 0
    assert lines == ["area: lies outside the region, -2,6,-1,5, so it is left out"]


def test_polygons_of_one_name_are_united_wherever_their_longitudes_begin(tmp_path: Path) -> None:
    """An overlap counts once, in any order and across the date line."""
    parts = [shapely.box(west, 0, east, 2) for west, east in ((171, 173), (-190, -188), (531.5, 532))]
    of = [shapely.geometry.mapping(part) for part in parts]
    fraction = xr.ones_like(grid(west=168))
    for order in (of, of[::-1]):
        features = [{"type": "Feature", "properties": {"name": "reef"}, "geometry": part} for part in order]
        path = tmp_path / "reef.geojson"
        path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
        with logged() as lines:
            places = Places.read(path)
        assert lines == [f"{path}: reef: 3 features of this name are united"]
        assert places.places[0].geometry.area == pytest.approx(3 * 2)
        found = weights_of(places, fraction, np.ones(fraction.shape, bool))[0]
        columns = fraction["lon"].values[np.flatnonzero(found.sum(0))]
        assert (columns.min(), columns.max()) == (170.25, 172.75)
        np.testing.assert_allclose(found.sum(0)[found.sum(0) > 0], 1 / 6, atol=1e-6)
    band = [shapely.box(0, -10, 360, 10), shapely.box(-180, 5, 180, 12)]
    assert united(band, "band").area == pytest.approx(360 * 22)


def test_a_column_of_sites_or_stations_has_their_names(tmp_path: Path) -> None:
    file = tmp_path / "sites.csv"
    for header, name in (("site,lat,lon", "a"), ("Station,lat,lon", "a"), ("site,name,lat,lon", "b")):
        file.write_text(f"{header}\na,{'b,' if 'name' in header else ''}-10.3,171.3\n")
        assert Places.read(file).names == [name]
    file.write_text("label,lat,lon\na,-10.3,171.3\n")
    with pytest.raises(SSTCastError, match=r"sites.csv: has no column name; give name, lat, lon"):
        Places.read(file)


def test_files_are_one_list_of_places(tmp_path: Path) -> None:
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    first.write_text("name,lat,lon\na,1,2\nb,3,4\n")
    second.write_text("name,lat,lon\nb,3,4\nc,5,6\n")
    places = Places.read(first, second)
    assert (places.names, places.where, places.kept) == (["a", "b", "c"], f"{first}, {second}", False)
    second.write_text("name,lat,lon\nb,3,4.5\n")
    with pytest.raises(SSTCastError, match=r"b.csv: b is another place than in .*a.csv; give each a name"):
        Places.read(first, second)
    mixed = [shapely.geometry.mapping(of) for of in (shapely.Point(1, 1), shapely.box(0, 0, 1, 1))]
    features = [{"type": "Feature", "properties": {"name": "a"}, "geometry": of} for of in mixed]
    (tmp_path / "c.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    with pytest.raises(SSTCastError, match=r"c.geojson: two places are called a"):
        Places.read(tmp_path / "c.geojson")


REFUSED: dict[str, tuple[str, str, str]] = {
    "no column": ("a.csv", "name,north,lon\na,1,2\n", "has no column lat; give name, lat, lon"),
    "words": ("a.csv", "name,lat,lon\na,north,2\n", "line 2: lat 'north' is no number"),
    "short row": ("a.csv", "name,lat,lon\na,1\n", "line 2: lon '' is no number"),
    "no name": ("a.csv", "name,lat,lon\n ,1,2\n", "line 2: the place has no name"),
    "swapped": ("a.csv", "name,lat,lon\na,148,-42\n", "line 2: coordinates must be degrees"),
    "twice": ("a.csv", "name,lat,lon\na,1,2\na,3,4\n", "two places are called a"),
    "nothing": ("a.csv", "name,lat,lon\n", "holds no place"),
    "empty": ("a.csv", "", "has no column name"),
    "no JSON": ("a.geojson", "{", "cannot be read"),
    "other JSON": ("a.json", "{\"type\": \"FeatureCollection\"}", "cannot be read"),
    "a line": (
        "a.geojson",
        json.dumps({"type": "LineString", "coordinates": [[0, 0], [1, 1]]}),
        "a: is a LineString, not a point or a polygon",
    ),
    "a bow tie": (
        "a.geojson",
        json.dumps({"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [1, 0], [0, 1], [0, 0]]]}),
        "a: is not a valid polygon",
    ),
    "a NUL": ("a.csv", "name,lat,lon\na\0b,1,2\n", "holds a NUL, which no column of names can; remove it"),
    "a pole": (
        "a.geojson",
        json.dumps({"type": "Polygon", "coordinates": [[[0, 70], [120, 70], [-120, 70], [0, 70]]]}),
        "a: encircles a pole",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_unusable_files_are_refused(tmp_path: Path, case: str) -> None:
    name, text, words = REFUSED[case]
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(SSTCastError) as error:
        Places.read(path)
    assert str(error.value).startswith(str(path))
    assert words in str(error.value)
    with pytest.raises(SSTCastError, match=r"absent.csv: cannot be read"):
        Places.read(tmp_path / "absent.csv")


def test_places_are_read_again_from_their_text(tmp_path: Path) -> None:
    places = written(tmp_path, *SHAPES["of two parts"], name="Ünder the “sea”")
    again = Places.from_geojson(places.geojson)
    assert again.names == places.names
    assert shapely.equals_exact(again.places[0].geometry, places.places[0].geometry)
    assert again.geojson == places.geojson
