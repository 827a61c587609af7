"""Which variable is SST, what is a coordinate, and which degrees a file means, by all that it says of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from any_grids import as_triangles, dataset_on, rotated
from refusals import refused
from small_files import folder_of, netcdf
from small_ocean import make_sst

from sstcast.config import FieldSource
from sstcast.ocean.init_config import start
from sstcast.reading.fields import find_field
from sstcast.reading.forecast_files import read_forecasts
from sstcast.reading.layouts import FORECAST
from sstcast.reading.reading import open_daily, source_grid

OCEAN = make_sst(1)
SST = OCEAN["sst"]
PATH = Path("a.nc")


def beside(name: str, dim: str = "s_rho", **attributes: str) -> xr.Dataset:
    """SST called `temp` on levels of which nothing tells the surface, and another variable, 6 degC colder."""
    deep = xr.concat([SST, SST - 1], dim).transpose("time", dim, ...)
    return xr.Dataset({"temp": deep, name: (SST - 6).drop_attrs().assign_attrs({"units": "degC"} | attributes)})


@pytest.mark.parametrize("dim", ["s_rho", "siglay"])
@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("tob", {"long_name": "bottom temperature"}),
        ("tob", {"long_name": "bottom temperature", "standard_name": "sea_surface_temperature"}),
        ("temp_bot", {"standard_name": "sea_water_temperature"}),
        ("t2", {"long_name": "surface air temperature"}),
        ("zeta", {"units": "m"}),
    ],
)
def test_what_does_not_say_sst_is_not_read_in_place_of_sst(
    name: str, attributes: dict[str, str], dim: str
) -> None:
    with refused("a.nc: temp has ", f"{dim}"):
        find_field(beside(name, dim, **attributes), PATH)
    if "standard_name" not in attributes and "units" not in attributes:
        read = find_field(beside(name, dim, **attributes), PATH, variable=name).field
        np.testing.assert_allclose(read, SST - 6, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("tsurf", {}),
        ("WTMP", {"long_name": "Water Temperature"}),
        ("SSTK", {}),
        ("sea_surface_temperature_mean", {}),
        ("t1", {"long_name": "temperature at the surface"}),
        ("t1", {"standard_name": "sea_surface_skin_temperature"}),
    ],
)
def test_what_says_sst_is_read(name: str, attributes: dict[str, str]) -> None:
    np.testing.assert_allclose(find_field(beside(name, **attributes), PATH).field, SST - 6, rtol=1e-6)


@pytest.mark.parametrize("name", ["sea_water_temperature_at_sea_floor", "air_temperature", "sea_ice_temperature"])
def test_standard_names_of_other_temperatures_are_refused(name: str) -> None:
    other = xr.Dataset({"t": SST.assign_attrs(standard_name=name)})
    with refused("a.nc: t is something else: its standard_name is", name, "data.variable: t"):
        find_field(other, PATH)
    np.testing.assert_allclose(find_field(other, PATH, variable="t").field, SST, rtol=1e-6)


def test_a_flux_is_no_longitude() -> None:
    flux = {"units": "W m-2"}
    fluxes = xr.Dataset({name: SST.assign_attrs(flux) for name in ("shortwave", "longwave", "latent_heat")})
    with refused("which variable is meant?", "longwave", "latent_heat"):
        find_field(fluxes, PATH, is_sst=False)
    assert find_field(fluxes[["longwave"]], PATH, is_sst=False).units == "W m-2"


@pytest.mark.parametrize("units", ["degree_east", "", "rad", "decimal degrees", "decimal_degrees", "arc_degree"])
def test_a_position_is_no_field(units: str) -> None:
    position = xr.DataArray(np.zeros(SST.shape[1:]), dims=("lat", "lon"), attrs={"units": units}).expand_dims(
        time=SST["time"]
    )
    field = find_field(xr.Dataset({"speed": SST, "XLONG_U": position}), PATH, is_sst=False).field
    assert field.name == "speed"


@pytest.mark.parametrize("dims", [("siglev", "k"), ("time", "siglev", "lat", "lon")])
def test_a_variable_called_like_one_of_its_dimensions(dims: tuple[str, ...]) -> None:
    shape = [OCEAN.sizes.get(dim, 3) for dim in dims]
    np.testing.assert_allclose(find_field(OCEAN.assign(siglev=(dims, np.ones(shape))), PATH).field, SST, rtol=1e-6)


def winds(standard_names: tuple[str, str], names: tuple[str, str]) -> Any:
    parts = [
        netcdf(SST[at].assign_attrs(units="m s-1", standard_name=about).to_dataset(name=name), f"{name}.nc")
        for at, about, name in zip((slice(200), slice(200, None)), standard_names, names, strict=True)
    ]
    return folder_of(*parts)


@pytest.mark.parametrize(
    ("standard_names", "names"),
    [(("", ""), ("u10", "v10")), (("eastward_wind", "northward_wind"), ("a", "b")), (("x_wind", ""), ("a", "b"))],
)
def test_a_folder_holds_one_predictor(
    tmp_path: Path, standard_names: tuple[str, str], names: tuple[str, str]
) -> None:
    path = winds(standard_names, names)(tmp_path)
    with refused(f"{names[1]}.nc: holds {names[1]}, not the {names[0]} of"):
        open_daily(FieldSource(source=str(path)))


@pytest.mark.parametrize(
    ("standard_names", "names"), [(("", ""), ("u10", "U10")), (("x_wind", "x_wind"), ("a", "b"))]
)
def test_a_folder_may_call_it_otherwise(
    tmp_path: Path, standard_names: tuple[str, str], names: tuple[str, str]
) -> None:
    with open_daily(FieldSource(source=str(winds(standard_names, names)(tmp_path)))) as field:
        np.testing.assert_allclose(field, SST, rtol=1e-6)


def test_degrees_that_say_radian_are_refused(tmp_path: Path) -> None:
    """Of centres and of corners, each alone; a file in radians is read (test_any_grid.py)."""
    triangles = as_triangles()
    for name in ("clat", "clat_vertices"):
        wrong = triangles.copy()
        wrong[name] = np.degrees(triangles[name])  # keeps its attributes
        wrong["clat_vertices"].attrs["units"] = "radian"
        with refused("a.nc: ", "degrees; if they say radian and hold degrees, set their units to degrees"):
            find_field(wrong, PATH, any_grid=True)


@pytest.mark.parametrize(
    ("axis", "units"), [("lat", "degrees_south"), ("lon", "degree_west"), ("lon", "degreesW")]
)
def test_degrees_of_the_other_half_must_be_negative(axis: str, units: str) -> None:
    values = abs(OCEAN[axis].values)
    positive = OCEAN.assign_coords({axis: (axis, values, {"units": units})})
    with refused(f"a.nc: its {axis} is positive in {units}; make it negative"):
        find_field(positive, PATH)
    negative = OCEAN.assign_coords({axis: (axis, -values, {"units": units})}).sortby(axis)
    assert find_field(negative, PATH).field[axis][0] == -values.max()
    bent = dataset_on(*rotated(9), ("j", "i"))
    bent["nav_lat"].attrs["units"] = "degrees_south"
    with refused("a.nc: its nav_lat is positive in degrees_south"):
        find_field(bent, PATH, any_grid=True)


def test_nominal_axes_need_true_positions() -> None:
    model = OCEAN.copy()
    model["lon"].attrs = {"long_name": "h point nominal longitude", "units": "degrees_east"}
    with refused("a.nc: its lon is the 'h point nominal longitude'", "geolon", "ocean_static.nc", "long_name"):
        find_field(model, PATH)
    lat, lon = np.meshgrid(model["lat"], model["lon"], indexing="ij")
    positions = {
        name: (("lat", "lon"), values, {"units": units})
        for name, values, units in (("geolat", lat, "degrees_north"), ("geolon", lon, "degrees_east"))
    }
    found = find_field(model.assign(positions), PATH)
    np.testing.assert_allclose(found.field, SST, rtol=1e-6)


@pytest.mark.parametrize("first", [0.0, -1.0, 30.0])
@pytest.mark.parametrize("repeats", [0, 1, 2, 3])
@pytest.mark.parametrize("is_wrapped", [False, True])
def test_columns_are_read_once(first: float, repeats: int, is_wrapped: bool) -> None:
    columns = first + 10 * np.arange(36 + repeats)
    values = np.cos(np.radians(columns)) + 20 + np.arange(4.0)[:, None]
    lon = columns % 360 if is_wrapped else columns
    sphere = xr.Dataset(
        {"sst": (("time", "lat", "lon"), values[None], {"units": "degC"})},
        {"time": OCEAN["time"][:1], "lat": np.arange(4.0), "lon": lon},
    )
    found = find_field(sphere, PATH)
    np.testing.assert_allclose(found.field[0], values[:, :36], rtol=1e-6)
    assert bool(found.notes) == (repeats > 0)


def test_columns_that_repeat_others_in_the_middle_are_refused() -> None:
    lon = np.array([0.0, 1, 2, 1, 3, 4])
    with refused("a.nc: its lon is not an axis"):
        find_field(OCEAN.isel(lon=slice(6)).assign_coords(lon=lon), PATH)


@pytest.mark.parametrize(
    ("width", "grid"), [(0.0014, None), (0.0095, None), (0.02, 0.02), (0.25, 0.25), (1.0, 1), (2.9, 2), (6.0, 5)]
)
def test_init_proposes_a_grid_near_the_cells_or_none(width: float, grid: float | None, tmp_path: Path) -> None:
    lat, lon = np.meshgrid(width * np.arange(12), width * np.arange(12))
    turned = lat * 0.8 - lon * 0.6, lat * 0.6 + lon * 0.8
    ocean = make_sst(2).isel(lat=[7] * 12).drop_vars(["lat", "lon"]).rename(lat="j", lon="i")
    ocean = ocean.assign_coords(lat=(("j", "i"), turned[0]), lon=(("j", "i"), turned[1]))
    path = netcdf(ocean)(tmp_path)
    if grid is None:
        assert source_grid(FieldSource(source=str(path))) is not None
        with refused("degrees wide", "data.grid and data.region by hand"):
            start(FieldSource(source=str(path)), tmp_path / "a.yaml")
        return
    lines = start(FieldSource(source=str(path)), tmp_path / "a.yaml")
    assert lines[0].startswith(f"{path}: 730 days of sst, 2001-01-01..")
    assert any(line.endswith(f"data.grid brings them to {grid:g} degrees") for line in lines)


@pytest.mark.parametrize("name", ["leadtime", "elapsed_forecast_duration", "time"])
def test_names_of_leads(name: str) -> None:
    """As of GraphCast, `time` holds differences, and there is a batch."""
    ahead = np.array([1, 2], "timedelta64[D]").astype("timedelta64[ns]")
    values = np.stack([SST[:2], SST[2:4]])
    data = xr.Dataset(
        {"sst": (("batch", "init_time", name, "lat", "lon"), values[None], {"units": "degC"})},
        {"init_time": OCEAN["time"].values[:2], name: ahead, "lat": OCEAN["lat"], "lon": OCEAN["lon"]},
    )
    found = find_field(data, PATH, FORECAST)
    np.testing.assert_allclose(found.field[0], values, rtol=1e-6)
    np.testing.assert_array_equal(found.field["lead"], ahead)


@pytest.mark.parametrize("leads", [["1", "2"], ["day 1", "day 2"], ["P1D", "P2D"]])
def test_leads_that_are_texts_are_refused(leads: list[str], tmp_path: Path) -> None:
    data = xr.Dataset(
        {"sst": (("init_time", "lead", "lat", "lon"), np.stack([SST[:2], SST[2:4]]), {"units": "degC"})},
        {"init_time": OCEAN["time"].values[:2], "lead": leads, "lat": OCEAN["lat"], "lon": OCEAN["lon"]},
    )
    with refused(f"a.nc: lead holds {leads[0]!r}; give numbers of days, or time differences"):
        read_forecasts(netcdf(data)(tmp_path))


@pytest.mark.parametrize("any_grid", [True, False])
@pytest.mark.parametrize("told_by", ["dimension", "cf_role"])
def test_stations_are_no_field(told_by: str, any_grid: bool) -> None:
    dim = {"dimension": "station", "cf_role": "x"}[told_by]
    moorings = xr.Dataset(
        {"sst": (("time", dim), SST.values.reshape(len(SST), -1)[:, :5], {"units": "degC"})},
        {"time": OCEAN["time"], "lat": (dim, np.arange(5.0)), "lon": (dim, np.arange(5.0))},
    )
    if told_by == "cf_role":
        moorings["names"] = (dim, [f"m{n}" for n in range(5)], {"cf_role": "timeseries_id"})
    with refused("a.nc: sst holds stations, no field: give them to `sstcast evaluate --observations`"):
        find_field(moorings, PATH, any_grid=any_grid)


@pytest.mark.parametrize("kind", ["NetCDF", "Zarr"])
def test_groups_without_variables_beside_them_are_named(kind: str, tmp_path: Path) -> None:
    path = tmp_path / ("a.nc" if kind == "NetCDF" else "a.zarr")
    for number, name in enumerate(("daily", "hourly")):
        if kind == "NetCDF":
            OCEAN.to_netcdf(path, mode="wa"[number], group=name, engine="netcdf4")
        else:
            OCEAN.to_zarr(path, mode="wa"[number], group=name, zarr_format=3, consolidated=False)
    with refused(path.name, "has no variables, but the groups daily, hourly; save one", "group='daily'"):
        open_daily(FieldSource(source=str(path)))
