"""Whatever a file calls its axes, a field gets the names of sstcast, and messages have the file's."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from any_grids import SOURCES
from refusals import refused

from sstcast.reading.fields import find_field
from sstcast.reading.layouts import FORECAST, OBSERVED, guessed
from sstcast.reading.positions import SPACE

DAYS = np.array(["2001-01-01", "2001-01-02", "2001-01-03"], "datetime64[ns]")
TIME = ("t", DAYS, {"standard_name": "time"})
LAT, LON = np.arange(-2.0, 2), np.arange(10.0, 15)
NORTH = {"standard_name": "latitude", "units": "degrees_north"}
EAST = {"standard_name": "longitude", "units": "degrees_east"}
SST = {"standard_name": "sea_surface_temperature", "units": "degC"}
VALUES = np.random.default_rng(0).normal(20, 1, (3, 4, 5)).astype(np.float32)
BENT = LAT[:, None] + np.linspace(0, 1, 5), LON + np.linspace(0, 1, 4)[:, None]
AXES = {"y": ("y", LAT, NORTH), "x": ("x", LON, EAST), "t": TIME}
STARTS = {"reference_time": ("t", DAYS), "lead_day_index": ("ahead", [1, 2], {"units": "days"})}


def a_file(
    coordinates: dict[str, Any], dims: tuple[str, ...] = ("t", "y", "x"), values: object = VALUES
) -> xr.Dataset:
    return xr.Dataset({"sst": (dims, values, SST)}, coordinates)


@pytest.mark.parametrize(
    "dataset",
    [
        a_file(AXES),
        a_file({"latitude": ("y", LAT, NORTH), "longitude": ("x", LON, EAST), "ocean_time": TIME}),
        a_file(AXES | {"time": DAYS[0], "lat": ("lat", [1.0, 2]), "lon": ("lat", [0.0, 1]), "lat_1": 0.0}),
        a_file(AXES | {"lat": (("y", "x"), LAT[:, None] + np.zeros(5), NORTH), "lon": ("x", LON)}),
        a_file({"lon": ("lon", LAT, NORTH), "lat": ("lat", LON, EAST), "t": TIME}, ("t", "lon", "lat")),
        a_file(AXES, ("x", "t", "y"), VALUES.transpose(2, 0, 1)),
    ],
    ids=["dimensions", "other dimensions", "taken by others", "taken by true positions", "each other's", "order"],
)
def test_observations_have_our_names(dataset: xr.Dataset) -> None:
    found = find_field(dataset, Path("a.nc"))
    assert found.field.dims == OBSERVED
    np.testing.assert_array_equal(found.field, VALUES)
    for axis, values in zip(OBSERVED, (DAYS, LAT, LON), strict=True):
        np.testing.assert_array_equal(found.field[axis], values)
    assert set(found.field.coords) == {*OBSERVED}


@pytest.mark.parametrize("dims", [("row", "column"), ("column", "row"), ("lat", "lon"), ("y", "x")])
def test_cells_on_no_axes_are_by_row_and_column(dims: tuple[str, str]) -> None:
    places = {"nav_lat": (dims, BENT[0], NORTH), "nav_lon": (dims, BENT[1], EAST)}
    mask = {"wet": (dims, np.arange(20).reshape(4, 5) % 3)}
    dataset = a_file(places | {"t": TIME}, ("t", *dims)).assign(mask)
    found = find_field(dataset, Path("a.nc"), any_grid=True)
    assert (found.field.dims, found.flags) == (("time", *SPACE), ["wet"])
    np.testing.assert_array_equal(found.field, np.where(mask["wet"][1] > 0, VALUES, np.nan))
    np.testing.assert_array_equal(found.field.attrs["cells"].lat, BENT[0])


@pytest.mark.parametrize("dim", ["column", "row", "cell"])
def test_a_mesh_is_one_column(dim: str) -> None:
    places = {"lat": (dim, BENT[0].ravel(), NORTH), "lon": (dim, BENT[1].ravel(), EAST), "t": TIME}
    found = find_field(a_file(places, ("t", dim), VALUES.reshape(3, 20)), Path("a.nc"), any_grid=True)
    np.testing.assert_array_equal(found.field, VALUES.reshape(3, 20, 1))


def test_forecasts_have_our_names() -> None:
    """Also where a table of leads by date has the name of their axis."""
    values = np.stack([VALUES, VALUES + 1], 1)
    named = AXES | STARTS | {"lead": (("t", "ahead"), np.ones((3, 2))), "member": ((), 7)}
    dataset = a_file(named, ("t", "ahead", "y", "x"), values).drop_vars("t")
    found = find_field(dataset, Path("a.nc"), FORECAST)
    assert found.field.dims == FORECAST
    np.testing.assert_array_equal(found.field[0], values)
    np.testing.assert_array_equal(found.field["lead"], [1, 2])
    assert (found.axis("lead").name, found.axis("init_time").name) == ("lead_day_index", "reference_time")


def test_a_forecast_by_valid_days_on_another_dimension() -> None:
    start = {"forecast_reference_time": ((), DAYS[0] - np.timedelta64(1, "D"))}
    dataset = a_file({"y": AXES["y"], "x": AXES["x"], "valid": TIME} | start)
    found = find_field(dataset, Path("a.nc"), FORECAST)
    np.testing.assert_array_equal(found.field[0, 0], VALUES)
    np.testing.assert_array_equal(found.field["lead"] / np.timedelta64(1, "D"), [1, 2, 3])


@pytest.mark.parametrize(
    ("dataset", "told"),
    [
        (a_file({**AXES, "y": ("y", [0.0, 1, 3, 4], NORTH)}), "its y lacks values after 1"),
        (
            a_file({**AXES, "t": ("y", DAYS[[0, 1, 2, 2]])}, ("y", "x"), VALUES[0]),
            "sst has t and y on one dimension, y",
        ),
        (
            a_file(AXES | {"y": (("y2", "x"), BENT[0], NORTH)}, ("t", "y2", "x")),
            "sst has y and x on one dimension, x",
        ),
    ],
)
def test_messages_have_the_names_of_the_file(dataset: xr.Dataset, told: str) -> None:
    with refused("a.nc: ", told):
        find_field(dataset, Path("a.nc"), any_grid=True)


BY_UNITS: dict[str, Any] = {
    **{"t": ("t", DAYS, {"axis": "T"}), "y": ("y", LAT, {"units": "degrees_north"}), "depth": 0.5},
    **{name: (("y", "x"), BENT[0], {"units": "degrees_north"}) for name in ("lat", "latitude")},
}
SGRID = {"cf_role": "grid_topology", "topology_dimension": 2, "node_dimensions": "x y", "node_coordinates": "x y"}


@pytest.mark.parametrize(
    "make",
    [
        *SOURCES.values(),
        lambda: a_file(AXES | STARTS | {"lat": ("lat", [1.0, 2]), "depth": 0.5, "valid_time": ("t", DAYS)}),
        lambda: a_file({"y": ("y", LAT), "x": ("x", LON)}).assign(grid=((), 0, SGRID)),
        lambda: a_file(BY_UNITS).assign_attrs(coordinates="depth lat"),
    ],
)
def test_axes_are_those_that_cf_xarray_guesses(make: Callable[[], xr.Dataset]) -> None:
    """Although each coordinate is looked at alone."""
    dataset = make()
    xr.testing.assert_identical(guessed(dataset), dataset.cf.guess_coord_axis())
