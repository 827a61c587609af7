"""Meshes, projections and rotated poles that are broken are refused in a line, which names what is wrong."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from refusals import refused

from sstcast.errors import SSTCastError
from sstcast.reading.layouts import identified
from sstcast.reading.source_grid import _without_padding, cells_of, of_polygons
from sstcast.reading.weights import polygon_areas

AXES = {"lat": "lat", "lon": "lon"}
QUADS = np.array([[1, 2, 5, 4], [2, 3, 6, 5], [4, 5, 8, 7], [5, 6, 9, 0]])  # the last is a triangle


def mesh(table: np.ndarray, faces: bool = False, **attributes: Any) -> xr.Dataset:
    """Return a field on nine nodes of a square, or on its faces, with a table of the corners of faces."""
    lat, lon = (axis.ravel() + 0.0 for axis in np.meshgrid(np.arange(3), np.arange(3), indexing="ij"))
    topology = {"cf_role": "mesh_topology", "node_coordinates": "lon lat", "face_node_connectivity": "corners"}
    dataset = xr.Dataset(
        {"topology": ((), 0, topology), "corners": (("face", "corner"), table, attributes)},
        {"lat": ("node", lat), "lon": ("node", lon)},
    )
    if faces:
        number = np.arange(len(table)) / 2
        dataset = dataset.assign_coords(flat=("face", number), flon=("face", number))
    dims = ("face",) if faces else ("node",)
    return dataset.assign(tos=(dims, np.zeros(len(table) if faces else 9)))


def cells(dataset: xr.Dataset, faces: bool = False) -> Any:
    return cells_of(dataset, dataset["tos"], {"lat": "flat", "lon": "flon"} if faces else AXES, Path("mesh.nc"))


@pytest.mark.parametrize("faces", [False, True])
@pytest.mark.parametrize("attributes", [{"start_index": 1}, {}])
def test_a_0_behind_three_nodes_is_no_corner_of_a_mesh_that_counts_from_1(
    faces: bool, attributes: dict[str, int]
) -> None:
    """The same mesh counted from 0 has -1 there, or NaN."""
    found = cells(mesh(QUADS, faces, **attributes), faces)
    for table in (QUADS - 1, np.where(QUADS == 0, np.nan, QUADS - 1)):
        expected = cells(mesh(table, faces, start_index=0), faces)
        assert found.digest == expected.digest


@pytest.mark.parametrize(
    ("table", "attributes", "told"),
    [
        (np.where(QUADS == 9, 8, QUADS), {"start_index": 1}, "has 0 in its face 4"),  # 8 nodes are used
        (np.where(QUADS == 1, 0, QUADS), {"start_index": 1}, "has 0 in its face 1"),
        (QUADS, {"start_index": 0}, "has 9 in its face 4, which is none of 9 nodes counted from 0"),
        (np.where(QUADS == 9, 12, QUADS), {"start_index": 1}, "has 12 in its face 4"),
        (np.where(QUADS == 3, -1, QUADS), {"start_index": 1}, "has -1 in its face 2"),
        (np.where(QUADS == 3, np.nan, QUADS), {"start_index": 1}, "has nan in its face 2"),
        (np.where(QUADS == 3, 3.5, QUADS), {"start_index": 1}, "has 3.5 in its face 2"),
    ],
)
@pytest.mark.parametrize("faces", [False, True])
def test_a_corner_that_is_no_node_is_refused(
    table: np.ndarray, attributes: dict[str, int], told: str, faces: bool
) -> None:
    with refused("mesh.nc: corners", told, "correct it, or its start_index"):
        cells(mesh(table, faces, **attributes), faces)


@pytest.mark.parametrize(
    ("table", "attributes"),
    [(QUADS, {"start_index": "one"}), (np.full((4, 4), np.nan), {}), (np.full((4, 4), "node"), {})],
)
def test_a_mesh_that_cannot_be_read_is_one_line(
    table: np.ndarray, attributes: dict[str, Any], recwarn: pytest.WarningsRecorder
) -> None:
    with pytest.raises(SSTCastError) as error:
        cells(mesh(table, **attributes))
    assert "mesh.nc" in str(error.value)
    assert "\n" not in str(error.value)
    assert not recwarn.list


def projected(units: str | None, **mapping: Any) -> xr.Dataset:
    """Return a field around the pole, whose axes are in `units`."""
    size = {"km": 1.0, "kilometers": 1.0, "Kilometre": 1.0}.get(str(units), 1000.0)
    mapping = {
        "grid_mapping_name": "polar_stereographic",
        "straight_vertical_longitude_from_pole": 0.0,
        "latitude_of_projection_origin": 90.0,
        "standard_parallel": 70.0,
    } | mapping
    attributes = {} if units is None else {"units": units}
    axes = {
        name: (
            name,
            size * np.arange(-100.0, 101, 50),
            attributes | {"standard_name": f"projection_{name}_coordinate"},
        )
        for name in "xy"
    }
    field = np.zeros((2, 5, 5)), {"units": "degC", "grid_mapping": "crs"}
    time = {"time": np.array(["2001-01-01", "2001-01-02"], "datetime64[ns]")}
    return xr.Dataset({"sst": (("time", "y", "x"), *field), "crs": ((), 0, mapping)}, axes | time)


@pytest.mark.parametrize("units", ["m", "metres", "meter", "km", "kilometers", "Kilometre"])
def test_the_lengths_of_a_projection_have_their_units(units: str) -> None:
    """100 km from the pole."""
    named = identified(projected(units), Path("ice.nc"), any_grid=True)
    assert float(named.dataset["latitude"][2, 0]) == pytest.approx(90 - 0.92, abs=0.02)


@pytest.mark.parametrize(
    ("dataset", "told"),
    [
        (projected("feet"), "'feet' is not a unit of length that sstcast knows, m or km; correct `units` of x"),
        (projected(None), "'' is not a unit of length"),
        (projected("m", grid_mapping_name="polar"), "correct its grid mapping"),
        (projected("m", standard_parallel="north"), "correct its grid mapping"),
        (projected("m", standard_parallel=np.nan), "correct its grid mapping"),
    ],
)
def test_a_broken_projection_is_one_line(dataset: xr.Dataset, told: str, recwarn: pytest.WarningsRecorder) -> None:
    with refused("ice.nc: ", told):
        identified(dataset, Path("ice.nc"), any_grid=True)
    assert not recwarn.list


def test_a_broken_rotated_pole_is_one_line() -> None:
    dataset = projected("degrees", grid_mapping_name="rotated_latitude_longitude", grid_north_pole_latitude="up")
    for name, axis in (("x", "longitude"), ("y", "latitude")):
        dataset[name].attrs["standard_name"] = f"grid_{axis}"
    with refused("ice.nc: cannot be read", "correct its grid mapping"):
        identified(dataset, Path("ice.nc"), any_grid=True)


@pytest.mark.parametrize("faces", [False, True])
def test_a_table_of_two_nodes_is_one_line(faces: bool) -> None:
    with refused("mesh.nc: corners has 2 nodes for each face, which needs three", "correct its positions"):
        cells(mesh(QUADS[:, :2], faces, start_index=1), faces)


@pytest.mark.parametrize("place", [(0.0, 0.0), (np.nan, np.nan), (np.inf, 0.0)])
@pytest.mark.parametrize("faces", [False, True])
def test_cells_without_an_area_are_one_line(
    faces: bool, place: tuple[float, float], recwarn: pytest.WarningsRecorder
) -> None:
    dataset = mesh(QUADS, faces, start_index=1)
    for axis, at in zip(("lat", "lon"), place, strict=True):
        dataset[axis] = dataset[axis] * 0 + at
    with refused("mesh.nc", "correct its positions or its mesh"):
        cells(dataset, faces).grid(Path("mesh.nc"))
    assert not recwarn.list


def hexagons() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Centres and corners of hexagons, of which every third is a pentagon whose last corner repeats."""
    lat, lon = (axis.ravel() for axis in np.meshgrid(np.arange(2, 12, 2.0), np.arange(2, 12, 2.0), indexing="ij"))
    angle = np.arange(6) * np.pi / 3 + np.zeros((lat.size, 1))
    angle[::3] = np.arange(6).clip(max=4) * 2 * np.pi / 5
    return lat, lon, lat[:, None] + np.sin(angle), lon[:, None] + np.cos(angle)


@pytest.mark.parametrize("padding", [np.nan, 1e20, 0.0])
@pytest.mark.parametrize("at_end", [True, False])
def test_a_corner_that_a_cell_lacks_is_none(padding: float, at_end: bool) -> None:
    """In bounds, as in tables of faces."""
    lat, lon, lats, lons = hexagons()
    areas = polygon_areas(of_polygons(lat, lon, (lats, lons)).polygons)
    for vertices in (lats, lons):
        vertices[::3, 5] = padding
        if not at_end:
            vertices[::3] = np.roll(vertices[::3], 1, axis=1)
    dataset = xr.Dataset(
        {
            "tos": ("cell", np.zeros(lat.size)),
            "lat_b": (("cell", "corner"), lats),
            "lon_b": (("cell", "corner"), lons),
        },
        {"lat": ("cell", lat, {"bounds": "lat_b"}), "lon": ("cell", lon, {"bounds": "lon_b"})},
    )
    found = cells(dataset).grid(Path("mesh.nc"))
    assert found.index.size == lat.size
    np.testing.assert_allclose(polygon_areas(found.polygons), areas, rtol=1e-9)


def test_a_corner_at_0_of_a_cell_that_is_there_stays() -> None:
    lat, lon, lats, lons = hexagons()
    lats, lons, lat, lon = lats - lats[0, 1], lons - lons[0, 1], lat - lats[0, 1], lon - lons[0, 1]
    kept = _without_padding((lats, lons), lat, lon)
    np.testing.assert_array_equal(kept, (lats, lons))
    few = np.where(np.arange(6) < 2, lats, np.nan)
    assert np.isnan(_without_padding((few, lons), lat, lon)).all()


def test_points_that_make_no_mesh_are_one_line(recwarn: pytest.WarningsRecorder) -> None:
    dataset = xr.Dataset({"tos": ("node", np.zeros(2)), "lat": ("node", [0.0, 1.0]), "lon": ("node", [0.0, 1.0])})
    with refused(
        "mesh.nc: its 2 points make no mesh", "evaluate --observations", "correct its positions or its mesh"
    ):
        cells(dataset).grid(Path("mesh.nc"))
    assert not recwarn.list
