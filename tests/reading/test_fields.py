"""Files as their makers write them: what `prepare`, `init`, `forecast` and `score` open, and what they refuse."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from other_conventions import cf, cfgrib, climpred, hourly, oceanbench
from refusals import refused
from small_files import BOX, SPLITS, Write, data_of, folder_of, netcdf, zarr
from small_ocean import make_sst
from untrained import make_run

from sstcast.config import DataConfig, FieldSource, Region, RunConfig, load_config
from sstcast.errors import SSTCastError
from sstcast.forecasting.forecast import forecast
from sstcast.ocean.init_config import start
from sstcast.ocean.prepare import prepare
from sstcast.reading.forecast_files import read_forecasts
from sstcast.reading.grid import coarsen, crop
from sstcast.reading.plausible import checked
from sstcast.reading.reading import open_region, open_sst
from sstcast.reading.regrid import on_cells
from sstcast.runs import Run
from sstcast.scores.score import score

OCEAN = make_sst(2)
SST = OCEAN["sst"]
HALVES = [OCEAN.sel(time=year) for year in ("2001", "2002")]
PACKED = {"dtype": "i2", "scale_factor": 0.01, "_FillValue": -999, "zlib": True}
Change = Callable[[xr.Dataset], xr.Dataset]


def named(variable: str, standard_name: str = "", units: str = "Celsius", **names: str) -> xr.Dataset:
    """The small ocean under other names, with neighbours that are not its temperature."""
    field = (SST + 273.15 if units.lower().startswith("k") else SST).assign_attrs(units=units)
    data = xr.Dataset({variable: field, "error": SST.assign_attrs(units="1")}).rename(names)
    if standard_name:
        data[variable].attrs["standard_name"] = standard_name
    return data


def of_attributes() -> xr.Dataset:
    data = OCEAN.rename(lat="y", lon="x", time="when", sst="t2001")
    data["y"].attrs["units"], data["x"].attrs["units"] = "degrees_north", "degrees_east"
    return data


def levels(depths: int) -> xr.Dataset:
    data = OCEAN.expand_dims(depth=np.arange(depths, dtype=float), axis=1).rename(sst="thetao").copy(deep=True)
    data["thetao"] = data["thetao"] - 5 * data["depth"]
    data["thetao"].attrs["standard_name"] = "sea_water_potential_temperature"
    return data


def kelvin(**attributes: str) -> xr.Dataset:
    return xr.Dataset({"sst": (SST + 273.15).drop_attrs().assign_attrs(**attributes)})


def days(folder: Path) -> Path:
    """A folder of links to files of a day each, in no order of their names."""
    for n in range(12):
        netcdf(OCEAN.isel(time=[n]), f"{n % 7}-{n}.nc")(folder / "far")
    netcdf(OCEAN.isel(time=slice(12, None)), "rest.nc4")(folder / "far")
    (folder / "far/notes.txt").touch()
    (folder / "days").mkdir()
    (folder / "days/linked").symlink_to(folder / "far")
    return folder / "days"


def early(folder: Path) -> Path:
    """A final file beside a preliminary one that holds some of its days."""
    first = (OCEAN.isel(time=slice(0, 300)) + 0.3).assign_attrs(id="oisst-avhrr-v02r01.x_preliminary.nc")
    first["sst"].attrs["units"] = "Celsius"
    return folder_of(netcdf(first, "a.nc"), netcdf(OCEAN.assign_attrs(id="final.nc"), "b.nc"))(folder)


OPEN: dict[str, Write] = {
    "NetCDF-4": netcdf(OCEAN),
    "NetCDF-3": netcdf(OCEAN, "A.NC", format="NETCDF3_CLASSIC"),
    "packed": netcdf(OCEAN, "a.nc4", encoding={"sst": PACKED}),
    "Zarr 2": zarr(OCEAN, 2),
    "Zarr 3": zarr(OCEAN, 3),
    "analysed_sst in K": netcdf(named("analysed_sst", "sea_surface_foundation_temperature", "kelvin")),
    "a standard name": netcdf(named("x1", "sea_surface_foundation_temperature")),
    "TIME, LAT, LON": netcdf(named("SST", time="TIME", lat="LAT", lon="LON")),
    "attributes only": netcdf(of_attributes()),
    "one depth": netcdf(levels(1)),
    "three depths": netcdf(levels(3)),
    "north first, latest first": netcdf(OCEAN.isel(lat=slice(None, None, -1), time=slice(None, None, -1))),
    "lon before time, west of Greenwich": netcdf(OCEAN.assign_coords(lon=OCEAN.lon - 360).transpose("lon", ...)),
    "degF": netcdf(OCEAN.assign(sst=(SST * 1.8 + 32).assign_attrs(units="degF"))),
    "no units": netcdf(xr.Dataset({"sst": SST.drop_attrs()})),
    "kelvin without units": netcdf(kelvin()),
    "before midnight": netcdf(OCEAN.assign_coords(time=OCEAN.time - np.timedelta64(400, "ms"))),
    "days, by links": days,
    "years": folder_of(
        netcdf(HALVES[0], "0.nc"),
        netcdf(HALVES[1].isel(lat=slice(None, None, -1)).assign_coords(lon=OCEAN.lon - 360 + 1e-5), "sub/1.nc"),
    ),
    "NetCDF in degC, Zarr in K": folder_of(netcdf(HALVES[0]), zarr(kelvin(units="K").sel(time="2002"), 2)),
    "final and preliminary": early,
    "land is -999": netcdf(OCEAN.fillna(-999), encoding={"sst": {"_FillValue": None}}),
    "land is 0 K": netcdf(kelvin().fillna(0)),
}


@pytest.mark.parametrize("case", OPEN)
def test_observations_open_with_the_values_written(tmp_path: Path, case: str) -> None:
    path = OPEN[case](tmp_path)
    opened = open_region(data_of(path))
    np.testing.assert_allclose(opened.values, SST.values, atol=2e-4)
    assert opened.indexes["time"].equals(SST.indexes["time"])
    for axis in ("lat", "lon"):
        np.testing.assert_allclose(opened[axis], SST[axis])
    values, ocean = checked(opened, tmp_path)
    np.testing.assert_array_equal(ocean, SST.notnull().all("time"))
    values.compute()
    start(FieldSource(source=path), tmp_path / "a.yaml")
    config = load_config(tmp_path / "a.yaml").data
    assert crop(SST, config.box, path).shape == SST.shape
    np.testing.assert_allclose(open_region(config), SST, atol=2e-4)


def across_the_date_line(west: float) -> xr.Dataset:
    lon = west + (176.125 + 0.25 * np.arange(32) - west) % 360
    return make_sst(1, cols=32).assign_coords(lon=lon).sortby("lon")


@pytest.mark.parametrize("west", [0, -180])
def test_the_date_line(tmp_path: Path, west: float) -> None:
    path = netcdf(across_the_date_line(west))(tmp_path)
    region = Region(lon=(177, -177), lat=(-12, -10), coarsen=2, tile=(4, 12))
    cells, expected = (
        crop(open_sst(FieldSource(source=path)), region, path),
        make_sst(1, cols=32)["sst"][:, :, 4:28],
    )
    np.testing.assert_allclose(cells, expected, atol=1e-4)
    np.testing.assert_allclose(cells["lon"], 177.125 + 0.25 * np.arange(24))
    means = coarsen(*checked(cells, path), region)
    np.testing.assert_allclose(means, expected.coarsen(lat=2, lon=2).mean(), atol=1e-4)


DIFFERENT = ["degrees", "degree", "degC^2", "degC2", "degC/day", "degC anomaly", "degR", "cdeg", "1"]
DIFFERENT += ["degC (1 sigma)"]


@pytest.mark.parametrize("units", DIFFERENT)
def test_other_units_are_refused_with_the_attribute_to_edit(tmp_path: Path, units: str) -> None:
    path = netcdf(OCEAN.isel(time=slice(9)).assign(sst=SST[:9].assign_attrs(units=units)))(tmp_path)
    with refused(path, repr(units), "set data.units to degC or K, or ", "the attribute `units` of sst,"):
        open_sst(FieldSource(source=path))
    np.testing.assert_allclose(open_sst(FieldSource(source=path, units="degC")), SST[:9], atol=1e-4)
    spread = forecasts()["sst"].copy(data=np.full(forecasts()["sst"].shape, 0.4)).assign_attrs(units=units)
    path = netcdf(forecasts().assign(sst_spread=spread), "forecasts.nc")(tmp_path)
    with refused(path, repr(units), "; correct the attribute `units` of sst_spread"):
        read_forecasts(path)


@pytest.mark.parametrize(("units", "factor"), [("Degrees Celsius", 1), ("K", 1), ("℃", 1), ("deg F", 5 / 9)])
def test_a_spread_is_a_difference_of_temperatures(tmp_path: Path, units: str, factor: float) -> None:
    spread = forecasts()["sst"].copy(data=np.full(forecasts()["sst"].shape, 0.4)).assign_attrs(units=units)
    found = read_forecasts(netcdf(forecasts().assign(sst_spread=spread))(tmp_path)).spread
    np.testing.assert_allclose(found, 0.4 * factor, rtol=1e-6)


@pytest.mark.parametrize(
    ("attributes", "title"),
    [
        ({"title": "A cruise", "institution": "us"}, "A cruise"),
        ({"institution": "our institute"}, "sea surface temperature of our institute (a.nc)"),
        ({}, "a.nc"),
    ],
)
def test_the_data_have_a_title(tmp_path: Path, attributes: dict[str, str], title: str) -> None:
    path = netcdf(OCEAN.isel(time=slice(9)).assign_attrs(attributes))(tmp_path)
    assert open_sst(FieldSource(source=path)).attrs["title"] == title


def test_what_was_chosen_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = [netcdf(kelvin().isel(time=slice(n, n + 3)), f"{n}.nc") for n in (0, 3)]
    path = folder_of(*odd)(tmp_path)
    (path / "year.grib").touch()
    for _ in range(2):
        open_sst(FieldSource(source=path))
    expected = [
        "skipped, because the names are not of NetCDF or Zarr: year.grib",
        "sst is read in K, because the file states no units and its values fit K",
    ]
    assert capsys.readouterr().err.splitlines() == [f"{path}: {line}" for line in expected]


def test_a_calendar_without_leap_days(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = make_sst(4)
    path = netcdf(data.convert_calendar("noleap", align_on="date"))(tmp_path)
    opened = open_sst(FieldSource(source=path))
    standard = data.sel(time=~((data.time.dt.month == 2) & (data.time.dt.day == 29)))
    assert opened.indexes["time"].equals(standard.indexes["time"])
    np.testing.assert_allclose(opened, standard["sst"], atol=1e-4)
    assert "no leap days" in capsys.readouterr().err
    filled = open_region(data_of(path, gaps=1)).sel(time="2004-02-29")
    around = data["sst"].sel(time=["2004-02-28", "2004-03-01"]).mean("time")
    np.testing.assert_allclose(filled, around, atol=1e-4)
    assert any(
        "gaps: up to 1 day in a row" in line for line in start(FieldSource(source=path), tmp_path / "a.yaml")
    )
    assert load_config(tmp_path / "a.yaml").data.gaps == 1


def test_scattered_missing_cells_are_too_many(tmp_path: Path) -> None:
    data, random = make_sst(4), np.random.default_rng(0)
    data["sst"] = data["sst"].where(random.random(data["sst"].shape) < 0.7)
    lines = start(FieldSource(source=netcdf(data)(tmp_path)), tmp_path / "a.yaml")
    assert any("ocean cells lack values on 8 of 8 days examined" in line for line in lines)
    config = load_config(tmp_path / "a.yaml", [f"data.directory={tmp_path}/p"])
    assert config.data.gaps == 3
    with pytest.raises(SSTCastError, match=r"ocean cells lack values on .* data.gaps: 3; raise .*level 4"):
        prepare(config.data)


@pytest.mark.parametrize("version", [2, 3])
def test_integers_without_fill_value_need_all_their_chunks(tmp_path: Path, version: int) -> None:
    whole = OCEAN["sst"].fillna(0)
    packed = np.rint((whole - 15) * 100).astype("i2")
    packed.attrs = {"units": "degC", "scale_factor": 0.01, "add_offset": 15.0}
    path = zarr(packed.chunk(time=73).to_dataset(name="sst"), version)(tmp_path)
    np.testing.assert_allclose(open_sst(FieldSource(source=path)), whole, atol=0.01)
    next((path / "sst").glob("**/2*0" if version == 2 else "**/2/0/0")).unlink()
    with pytest.raises(SSTCastError, match=r"a.zarr: sst lacks 1 of 10 chunks"):
        open_sst(FieldSource(source=path))


def curvilinear() -> xr.Dataset:
    lat, lon = np.meshgrid(OCEAN.lat, OCEAN.lon, indexing="ij")
    places = {"nav_lat": (("y", "x"), lat), "nav_lon": (("y", "x"), lon)}
    return xr.Dataset({"sst": (("time", "y", "x"), SST.values)}, {"time": OCEAN.time, **places})


def with_axis(name: str, **attributes: str) -> xr.Dataset:
    data = OCEAN.copy()
    data[name] = data[name].assign_attrs(attributes)
    return data


def forecasts(dates: int = 4, leads: int = 3) -> xr.Dataset:
    """Forecasts, as plain xarray, that say what came to be."""
    init = pd.date_range("2002-11-01", periods=dates, freq="5D")
    ahead = xr.DataArray(np.arange(1, leads + 1), dims="lead")
    valid = xr.DataArray(init, dims="init_time") + ahead * np.timedelta64(1, "D")
    sst = (
        SST.sel(time=valid).drop_vars("time").assign_coords(init_time=init, lead=ahead.assign_attrs(units="days"))
    )
    return sst.transpose("init_time", "lead", ...).to_dataset(name="sst")


def on_points(data: xr.Dataset) -> xr.Dataset:
    """A grid's cells on one dimension, as unstructured meshes and stations are written."""
    points = data.stack(cell=("lat", "lon")).reset_index("cell")
    points["lat"].attrs, points["lon"].attrs = {"units": "degrees_north"}, {"units": "degrees_east"}
    return points


def tripolar(data: xr.Dataset, **names: str) -> xr.Dataset:
    """Nominal axes beside true positions: the three northern rows bend, and land has no position."""
    lat, lon = np.meshgrid(data["lat"], data["lon"], indexing="ij")
    lat[5:] -= 0.03 * np.arange(1, 4)[:, None] * (1 + np.arange(12))
    lat[0, 0], lon[:2, 0] = np.nan, 1e20
    true = {
        "true_lat": (("lat", "lon"), lat, {"standard_name": "latitude", "units": "degrees_north"}),
        "true_lon": (("lat", "lon"), lon, {"standard_name": "longitude", "units": "degrees_east"}),
    }
    return data.assign_coords(true).rename(names)


ONE_DAY = OCEAN.sel(time="2001-12-31")
REFUSED: dict[str, tuple[Write, list[str]]] = {
    "monthly": (netcdf(OCEAN.resample(time="MS").mean()), ["a value every 31 days", "give daily data"]),
    "a date twice": (netcdf(OCEAN.isel(time=[0, *range(730)])), ["2001-01-01 twice", "remove one"]),
    "curvilinear": (netcdf(curvilinear()), ["curvilinear grid (nav_lat has two dimensions)", "set data.grid"]),
    "rotated": (netcdf(with_axis("lat", standard_name="grid_latitude")), ["(grid_latitude)", "set data.grid"]),
    "kilometres": (netcdf(with_axis("lon", units="km", axis="X")), ["not a lon in degrees (km)", "set data.grid"]),
    "metres": (netcdf(OCEAN.assign_coords(lat=OCEAN.lat * 1e4)), ["is not in degrees", "set data.grid"]),
    "points": (netcdf(on_points(OCEAN)), ["points, as lat and lon share the dimension cell", "set data.grid"]),
    "one site": (netcdf(OCEAN.isel(lat=[4], lon=[4])), ["lat has one value", "at least 2 rows and 2 columns"]),
    "a scalar site": (netcdf(OCEAN.isel(lat=4, lon=4)), ["lat has one value", "at least 2 rows and 2 columns"]),
    "a section": (netcdf(OCEAN.isel(lon=[4])), ["lon has one value", "at least 2 rows and 2 columns"]),
    "a row is missing": (netcdf(OCEAN.isel(lat=[0, 1, 2, 4, 5, 6, 7])), ["its lat lacks values after -11.375"]),
    "forecasts": (netcdf(forecasts()), ["sst looks like forecasts; score them with `sstcast score`"]),
    "climpred's forecasts": (netcdf(climpred(forecasts())), ["looks like forecasts"]),
    "several": (netcdf(named("warm")), ["The file has warm(time, lat, lon), error(time, lat, lon); set "]),
    "an error alone": (
        netcdf(xr.Dataset({"sst": SST.assign_attrs(long_name="Estimated error of SST")})),
        ["is something else: its long_name is 'Estimated error of SST'"],
    ),
    "no time": (netcdf(OCEAN.isel(time=0, drop=True)), ["has dimensions lat, lon; none is", "as time"]),
    "members": (netcdf(xr.concat([OCEAN, OCEAN], "member")), ["has an extra dimension member of 2"]),
    "furlong": (netcdf(xr.Dataset({"sst": SST.assign_attrs(units="furlong")})), ["'furlong'", "degC or K"]),
    "two units": (
        netcdf(xr.Dataset({"sst": SST.drop_attrs() + 273.15 * (SST.lon > 172)})),
        ["values fit degC and kelvin"],
    ),
    "360 days": (
        netcdf(HALVES[0].isel(time=slice(50)).convert_calendar("360_day", align_on="date")),
        ["360_day", "convert_calendar"],
    ),
    "years of a model": (
        netcdf(OCEAN.assign_coords(time=xr.date_range("0001", periods=730, calendar="noleap", use_cftime=True))),
        [
            "calendar 'noleap' from 0001-01-01 00:00:00 to 0002-12-31",
            "needs the standard calendar from 1678 to 2261",
        ],
    ),
    "a day twice": (folder_of(netcdf(OCEAN, "0.nc"), netcdf(ONE_DAY, "1.nc")), ["0.nc and ", "hold 2001-12-31"]),
    "another grid": (
        folder_of(netcdf(HALVES[0], "0.nc"), netcdf(HALVES[1].assign_coords(lon=OCEAN.lon + 0.1), "1.nc")),
        ["1.nc: its 8 x 12 cells", "0.nc; keep one grid"],
    ),
    "nothing to read": (folder_of(lambda folder: folder.mkdir(parents=True)), ["neither NetCDF files nor Zarr"]),
    "nothing there": (lambda folder: folder / "none.nc", ["no such file or folder"]),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, sst_file: Path) -> Run:
    folder = tmp_path_factory.mktemp("runs")
    raw = {"source": str(sst_file), "region": BOX, "directory": folder / "p", "history": 10, "horizon": 5}
    data = DataConfig.model_validate(raw | {"splits": SPLITS})
    model = {"name": "mpnn", "width": 4, "layers": 1}
    return make_run(RunConfig.model_validate({"name": "small", "runs": folder, "data": data, "model": model}))


@pytest.mark.parametrize("case", REFUSED)
def test_observations_are_refused_in_one_line_by_every_command(tmp_path: Path, run: Run, case: str) -> None:
    write, words = REFUSED[case]
    path, scored = write(tmp_path), netcdf(forecasts(), "forecasts.nc")(tmp_path / "f")
    keys = {"directory": tmp_path / "p"}
    always = (lambda: prepare(data_of(path, **keys)), lambda: score(scored, FieldSource(source=path)))
    unless_regridded = (  # which these do by themselves
        lambda: start(FieldSource(source=path), tmp_path / "a.yaml"),
        lambda: forecast(run.folder, where=FieldSource(source=path)),
    )
    for use in (*always, *(() if case in ("curvilinear", "points") else unless_regridded)):
        with refused(path.name, *(words if path.exists() else ["no such"])):
            use()
    assert not (tmp_path / "a.yaml").exists()


def in_place_of_leads(data: xr.Dataset) -> xr.Dataset:
    """A single forecast with the days forecast."""
    first = data.isel(init_time=0)
    valid = first["init_time"].values + first["lead"].values * np.timedelta64(1, "D")
    return first.drop_vars("lead").rename(lead="time").assign_coords(time=valid)


def by_date(folder: Path) -> Path:
    """A file a date, in the order of no dates."""
    writes = [netcdf(climpred(forecasts().isel(init_time=[n])), f"{9 - n}.nc") for n in range(4)]
    return folder_of(*writes)(folder)


MOM6 = {"lat": "yh", "lon": "xh", "true_lat": "geolat", "true_lon": "geolon"}


@pytest.mark.parametrize("names", [{}, MOM6])
def test_nominal_axes_are_used_where_they_are_true(tmp_path: Path, names: dict[str, str]) -> None:
    data = tripolar(OCEAN, **names)
    for axis, letter, units in (("lat", "Y", "degrees_north"), ("lon", "X", "degrees_east")):
        data[names.get(axis, axis)].attrs = {"units": units, "axis": letter}
    path = netcdf(data)(tmp_path)
    start(FieldSource(source=path), tmp_path / "a.yaml")
    assert load_config(tmp_path / "a.yaml").data.grid == 0.25  # to which the true positions are brought
    south = Region(lon=BOX.lon, lat=(-12, -10.75), tile=(5, 12))  # the rows that do not bend
    np.testing.assert_allclose(open_region(data_of(path, region=south)), SST[:, :5], atol=1e-4)
    with refused(
        path.name, "lies on a curvilinear grid", "choose a region within lat -12..-10.75, or set data.grid"
    ):
        open_region(data_of(path))
    scored = netcdf(tripolar(forecasts()), "forecasts.nc")(tmp_path)
    found = read_forecasts(scored).sst
    with refused(scored.name, "lies on a curvilinear grid", "leave out its nominal axes"):
        on_cells(found, OCEAN, BOX, scored)
    south, _ = on_cells(found, OCEAN.isel(lat=slice(5)), BOX, scored)
    np.testing.assert_allclose(south[0], forecasts()["sst"][:, :, :5], atol=1e-4)


MOMENT = np.timedelta64(100, "ms")  # the rounding of a time stored as a float
CONVENTIONS: dict[str, Write] = {
    "sstcast": netcdf(forecasts()),
    "Zarr": zarr(forecasts(), 2),
    "CF": netcdf(cf(forecasts())),
    "climpred": netcdf(climpred(forecasts())),
    "cfgrib": netcdf(cfgrib(forecasts())),
    "leads in hours": netcdf(hourly(forecasts())),
    "OceanBench": netcdf(oceanbench(forecasts())),
    "a folder": by_date,
    "a single one": netcdf(in_place_of_leads(forecasts())),
    "kelvin without units": netcdf((forecasts() + 273.15).drop_attrs()),
    "leads from the last": netcdf(forecasts().isel(lead=slice(None, None, -1))),
    "weeks": netcdf(forecasts(leads=28).isel(lead=slice(6, None, 7))),
    "noleap": netcdf(forecasts().convert_calendar("noleap", dim="init_time", align_on="date")),
    "a moment early": netcdf(forecasts().assign_coords(init_time=forecasts()["init_time"] - MOMENT)),
}


@pytest.mark.parametrize("case", CONVENTIONS)
def test_forecasts_open_with_the_values_written(tmp_path: Path, case: str) -> None:
    found = read_forecasts(CONVENTIONS[case](tmp_path))
    wanted = forecasts(leads=28)["sst"].sel(init_time=found.sst["init_time"], lead=found.sst["lead"])
    assert found.sst.dims == ("member", "init_time", "lead", "lat", "lon")
    assert found.sst["lead"].values.tolist() == ([7, 14, 21, 28] if case == "weeks" else [1, 2, 3])
    assert found.daily == (case != "weeks")
    assert found.sst.sizes["init_time"] == (1 if case == "a single one" else 4)
    np.testing.assert_allclose(found.sst.mean("member").values, wanted.values, atol=1e-3)


def test_a_spread_is_read_from_every_file(tmp_path: Path) -> None:
    data = forecasts().assign(sst_spread=0.1 * forecasts()["sst"])
    parts = [netcdf(data.isel(init_time=[n]), f"{n}.nc") for n in range(4)]
    found = read_forecasts(folder_of(*parts)(tmp_path))
    np.testing.assert_allclose(found.spread, data["sst_spread"], rtol=1e-5)
    hot = (1.8 * data).assign(sst=32 + 1.8 * data["sst"])
    hot["sst"].attrs["units"] = hot["sst_spread"].attrs["units"] = "degF"
    found = read_forecasts(netcdf(hot)(tmp_path / "fahrenheit"))
    np.testing.assert_allclose(found.spread, data["sst_spread"], rtol=1e-5)
    parts[2] = netcdf(forecasts().isel(init_time=[2]), "2.nc")
    with pytest.raises(SSTCastError, match=r"2\.nc: has no spread, but 0\.nc has one"):
        read_forecasts(folder_of(*parts)(tmp_path / "b"))


def other_leads(**attributes: str) -> Change:
    return lambda data: data.assign_coords(lead=("lead", data["lead"].values * 6.0, attributes))


BAD: dict[str, Change] = {
    r"has no initial time among lat, lon, lead; .*or rename it to init_time": lambda f: f.drop_vars("init_time"),
    r"has no lead among .*init_time.*; .*or rename it to lead": lambda f: f.rename(lead="ahead"),
    r"which variable is sea surface temperature\? .*; set --variable": lambda f: f.rename(sst="a").assign(
        b=f["sst"]
    ),
    r"'furlong' is not a unit of temperature; set --units": lambda f: f.assign(
        sst=f["sst"].assign_attrs(units="furlong")
    ),
    r"lead is .* with units 'furlongs'; give days or hours": other_leads(units="furlongs"),
    r"has no whole day of UTC; give more hours, or daily means": other_leads(units="hours"),
    r"two forecasts begin on 2002-11-01": lambda f: xr.concat([f, f.isel(init_time=[0])], "init_time"),
    r"init_time does not hold dates": lambda f: f.assign_coords(init_time=np.arange(4)),
    r"lat has one value; .* at least 2 rows and 2 columns": lambda f: f.isel(lat=[3]),
    r"has an extra dimension level_ of 2; select one index": lambda f: xr.concat([f, f], "level_"),
    "looks like observations, because it has no initial time and lead": lambda f: OCEAN,
}


@pytest.mark.parametrize("message", BAD)
def test_forecasts_are_refused_in_one_line(message: str, tmp_path: Path) -> None:
    path = netcdf(BAD[message](forecasts()))(tmp_path)
    with pytest.raises(SSTCastError, match=rf"^{path}: .*{message}") as error:
        score(path, FieldSource(source=path))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f.assign_coords(init_time=forecasts()["init_time"][[0]]), "both hold 2002-11-01"),
        (lambda f: f.isel(lead=slice(2)), "has 2 leads, not the 3 of"),
        (lambda f: f.assign_coords(lead=f["lead"] - 1), "lead 0 is the day of init_time.*, not the sst"),
        (lambda f: f.isel(lat=slice(2)), "its 2 x 12 cells"),
        (lambda f: xr.concat([f, f], "member"), "not the sst"),
    ],
)
def test_a_file_that_differs_from_the_others_is_named(tmp_path: Path, change: Change, words: str) -> None:
    parts = [
        netcdf(forecasts().isel(init_time=[0]), "0.nc"),
        netcdf(change(forecasts().isel(init_time=[1])), "1.nc"),
    ]
    path = folder_of(*parts)(tmp_path)
    with pytest.raises(SSTCastError, match=rf"1\.nc.*{words}") as error:
        read_forecasts(path)
    assert "\n" not in str(error.value)
    with pytest.raises(SSTCastError, match=r"--out .*: is a file, .*, or inside .*; name another folder"):
        score(path, out=path / "scores")
