"""What is known of a field on a day, against plain NumPy, and how it comes to the cells of a run."""

import datetime as dt
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from bucket_server import serving
from logged import logged
from refusals import refused
from scored_runs import configure
from small_ocean import make_sst

from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.predictors.grid import fit_harmonics
from sstcast.predictors.predictors import stored_predictors
from sstcast.predictors.static import STATIC, distance_to_coast
from sstcast.reading import remote_stores
from sstcast.reading.regrid import weights_of

DAYS = pd.date_range("2001-01-01", "2004-12-31")
LAT, LON = -10.125 - 0.25 * np.arange(8)[::-1], 170.125 + 0.25 * np.arange(12)


def wind(seed: int = 0, lat: np.ndarray = LAT, lon: np.ndarray = LON, days: pd.DatetimeIndex = DAYS) -> xr.Dataset:
    """Return a daily wind with seasons, in m/s."""
    random = np.random.default_rng(seed)
    season = 3 * np.cos(2 * np.pi * (days.day_of_year.values - 40) / 365.25)[:, None, None]
    values = (7 + season + random.standard_normal((len(days), len(lat), len(lon)))).astype(np.float32)
    data = xr.Dataset({"u10": (("time", "lat", "lon"), values)}, {"time": days, "lat": lat, "lon": lon})
    data["u10"].attrs["units"] = "m s-1"
    return data


def predictor(folder: Path, sst: Path, source: Path | str, **keys: Any) -> Any:
    """Prepare a run that reads a grid, and return it with the days of the run."""
    grid = {"kind": "grid", "source": str(source)} | keys
    data = configure(folder, sst, predictors={"wind": grid}).data
    prepare(data)
    prepared = Prepared.of(data)
    return stored_predictors(data, prepared.cube.parent)["wind"], prepared


@pytest.mark.parametrize("delay", [0, 5])
def test_a_field_is_its_standardised_anomaly_on_the_newest_known_day(
    tmp_path: Path, sst_file: Path, delay: int
) -> None:
    data = wind()
    data.to_netcdf(tmp_path / "wind.nc")
    stored, prepared = predictor(tmp_path, sst_file, tmp_path / "wind.nc", delay=delay)
    known = prepared.open_anomalies()["predictor_wind"]
    base = (pd.Timestamp("2002-12-31") - pd.Timedelta(days=delay) >= DAYS) & (DAYS.year >= 2001)
    phase = 2 * np.pi * np.outer(DAYS.day_of_year, [1, 2, 3]) / 365.2425
    design = np.hstack([np.ones((len(DAYS), 1)), np.cos(phase), np.sin(phase)])
    values = data["u10"].values.astype(float).reshape(len(DAYS), -1)
    anomalies = values - design @ np.linalg.lstsq(design[base], values[base], rcond=None)[0]
    ocean = prepared.open_cube()["ocean_mask"].values.ravel()
    anomalies /= np.sqrt((anomalies[base][:, ocean] ** 2).mean())
    expected = np.full_like(anomalies, np.nan)
    expected[delay:] = anomalies[: len(DAYS) - delay]
    expected[:, ~ocean] = np.nan
    np.testing.assert_allclose(known.values.reshape(len(DAYS), -1), expected, rtol=1e-4, atol=1e-4)
    assert stored.units == "m s-1"
    later = pd.date_range("2000-12-25", "2005-01-10").as_unit(
        "ns"
    )  # no day before the first value or after the last
    is_known = stored.known(later.values).notnull().any(("lat", "lon")).values
    shifted = later - pd.Timedelta(days=delay)
    np.testing.assert_array_equal(is_known, (shifted >= DAYS[0]) & (shifted <= DAYS[-1]))
    on_days = stored._read_on(stored.open(), dt.date(2001, 6, 10), dt.date(2001, 7, 10))
    assert on_days.tolist() == [*range(160 - delay, 191 - delay)]


def test_a_climatology_needs_a_year_of_days_in_all_seasons() -> None:
    days = pd.date_range("2001-01-01", "2004-12-31").as_unit("ns")
    values = np.random.default_rng(0).normal(5, 1, (len(days), 1, 5))
    values[364:, 0, 1] = np.nan
    values[365:, 0, 2] = np.nan
    values[days.month > 4, 0, 3] = np.nan  # 481 days, but no summer
    values[:, 0, 4] = np.nan
    field = xr.DataArray(values, {"time": days, "lat": [0.0], "lon": np.arange(5.0)}, ("time", "lat", "lon"))
    found = fit_harmonics(field, days.values)
    phase = 2 * np.pi * np.outer(days.day_of_year, [1, 2, 3]) / 365.2425
    design = np.hstack([np.ones((len(days), 1)), np.cos(phase), np.sin(phase)])
    squares = []
    for cell in range(5):
        known = np.isfinite(values[:, 0, cell])
        if cell in (1, 3, 4):
            assert found["terms"][:, 0, cell].isnull().all()
            continue
        terms = np.linalg.lstsq(design[known], values[known, 0, cell], rcond=None)[0]
        np.testing.assert_allclose(found["terms"][:, 0, cell], terms, rtol=1e-6)
        squares += ((values[known, 0, cell] - design[known] @ terms) ** 2).tolist()
    assert float(found["deviation"]) == pytest.approx(np.sqrt(np.mean(squares)))
    for constant in (0, 0.1):  # as of ice where there is none; the mean of many 0.1 is not 0.1
        assert float(fit_harmonics(0 * field + constant, days.values)["deviation"]) == 1


@pytest.mark.parametrize(("delay", "number"), [(0, 1200), (5, 731)])
def test_what_is_not_yet_known_changes_no_bit(tmp_path: Path, sst_file: Path, delay: int, number: int) -> None:
    data = wind()
    data.to_netcdf(tmp_path / "wind.nc")
    stored, prepared = predictor(tmp_path, sst_file, tmp_path / "wind.nc", delay=delay)
    known = prepared.open_anomalies()["predictor_wind"]
    day, other = DAYS[number], data.copy(deep=True)
    unknown = DAYS + pd.Timedelta(days=delay) > day
    other["u10"][unknown] = 99
    folder = tmp_path / "other"
    folder.mkdir()
    other.to_netcdf(folder / "wind.nc")
    changed, prepared_again = predictor(folder, sst_file, folder / "wind.nc", delay=delay)
    again = prepared_again.open_anomalies()["predictor_wind"]
    assert again.values[: number + 1].tobytes() == known.values[: number + 1].tobytes()
    assert not np.array_equal(again.values, known.values, equal_nan=True)
    first = dt.date(2001, 1, 1)
    assert changed.digest(first, day.date()) == stored.digest(first, day.date())


def test_missing_days_and_cells_are_unknown_and_counted(tmp_path: Path, sst_file: Path) -> None:
    data = wind()
    data["u10"][:, 3, 4] = data["u10"][:, 3, 4].where(DAYS.month != 7)
    data = data.sel(time=DAYS[(DAYS < "2003-05-04") | (DAYS > "2003-05-06")])
    data.to_netcdf(tmp_path / "wind.nc")
    with logged() as lines:
        _, prepared = predictor(tmp_path, sst_file, tmp_path / "wind.nc", delay=1)
    line = next(line for line in lines if "is not known" in line)
    assert "wind is not known on 4 of 1461 days, and on the others in 0." in line
    assert "its climatology is read there" in line
    known = prepared.open_anomalies()["predictor_wind"].sel(time=slice("2001-01-02", None))
    lacking = known.isnull().all(("lat", "lon"))
    assert known["time"][lacking.values].dt.strftime("%m-%d").values.tolist() == ["05-05", "05-06", "05-07"]
    assert known.sel(time="2001-07-02")[3, 4].isnull()
    assert known.sel(time="2001-08-02")[3, 4].notnull()


def test_finer_cells_are_averaged_by_area_and_coarser_ones_interpolated() -> None:
    ocean = np.ones((8, 12), bool)
    cells = xr.Dataset({"ocean_mask": (("lat", "lon"), ocean)}, {"lat": LAT, "lon": LON})
    fine_lat, fine_lon = -12.2 + 0.1 * (np.arange(24) + 0.5), (169.8 + 0.1 * (np.arange(36) + 0.5)) % 360 - 360
    fine = wind(1, fine_lat, fine_lon, DAYS[:2])["u10"]
    weights = weights_of(fine, cells, Path("wind.nc"), "remedy")
    assert "means of its cells of 0.1 x 0.1" in weights.method
    mean = weights(weights.read(fine))
    values = fine.values[1]
    for row, col in ((0, 0), (3, 5), (7, 11)):
        total = area = 0.0
        for i, lat in enumerate(fine_lat):
            south, north = max(lat - 0.05, LAT[row] - 0.125), min(lat + 0.05, LAT[row] + 0.125)
            for j, lon in enumerate(fine_lon + 360):
                width = min(lon + 0.05, LON[col] + 0.125) - max(lon - 0.05, LON[col] - 0.125)
                if north > south and width > 0:
                    share = (np.sin(np.radians(north)) - np.sin(np.radians(south))) * width
                    total, area = total + share * values[i, j], area + share
        assert float(mean[1, row, col]) == pytest.approx(total / area, rel=1e-5)
    coarse_lat, coarse_lon = np.arange(-14, -7.0), np.arange(167, 177.0)
    plane = xr.DataArray(
        2 * coarse_lat[:, None] - coarse_lon, {"lat": coarse_lat, "lon": coarse_lon}, ("lat", "lon")
    ).expand_dims(time=DAYS[:1])
    weights = weights_of(plane, cells, Path("wind.nc"), "remedy")
    interpolated = weights(weights.read(plane))
    np.testing.assert_allclose(interpolated.values[0], 2 * LAT[:, None] - LON, rtol=1e-5)
    assert "interpolated linearly" in weights.method
    weights = weights_of(wind()["u10"], cells, Path("wind.nc"), "remedy")
    np.testing.assert_array_equal(weights(weights.read(wind()["u10"])).values, wind()["u10"].values)
    with refused("wind.nc", "do not contain the region's", "remedy"):
        weights_of(fine.isel(lat=slice(5, None)), cells, Path("wind.nc"), "remedy")


def test_what_is_no_daily_field_is_refused_in_a_line(tmp_path: Path, sst_file: Path) -> None:
    hours = wind(days=pd.date_range("2001-01-01", periods=1500, freq="6h"))
    hours["u10"].attrs["GRIB_stepType"] = "accum"
    hours.to_netcdf(tmp_path / "hours.nc")
    with refused("hours.nc: u10 is accumulated", "give the mean rate instead"):
        predictor(tmp_path, sst_file, tmp_path / "hours.nc")
    xr.merge([wind(), wind(1).rename(u10="v10")]).to_netcdf(tmp_path / "two.nc")
    with refused("two.nc", "which variable", "u10", "v10", "data.predictors.wind.variable"):
        predictor(tmp_path, sst_file, tmp_path / "two.nc")
    wind(lat=LAT - 5).to_netcdf(tmp_path / "south.nc")
    with refused("south.nc", "kind: index and region"):
        predictor(tmp_path, sst_file, tmp_path / "south.nc")
    wind(days=DAYS[:200]).to_netcdf(tmp_path / "short.nc")
    with refused("data.predictors.wind", "200 days", "give more"):
        predictor(tmp_path, sst_file, tmp_path / "short.nc")
    with refused("region", "kind: index alone"):
        predictor(tmp_path, sst_file, tmp_path / "short.nc", region="nino34")


def test_a_store_follows_its_source_and_tells_whether_days_have_changed(tmp_path: Path, sst_file: Path) -> None:
    path = tmp_path / "wind.nc"
    wind(days=DAYS[:1400]).to_netcdf(path)
    stored, _ = predictor(tmp_path, sst_file, path, delay=2)
    first = stored.digest(dt.date(2001, 1, 1), DAYS[1300].date())
    data = wind()
    data["u10"][:1400] = wind(days=DAYS[:1400])["u10"].values
    data.to_netcdf(path)
    stored, _ = predictor(tmp_path, sst_file, path, delay=2)
    assert stored.open().sizes["time"] == 1461
    assert stored.digest(dt.date(2001, 1, 1), DAYS[1300].date()) == first
    assert not stored.changed()
    data["u10"][700] += 1
    data.to_netcdf(path)
    assert "other values of the predictor wind" in stored.changed()
    data["u10"][700] -= 1
    data.assign_coords(time=data["time"] + np.timedelta64(1, "D")).to_netcdf(path)
    assert "other values of the predictor wind" in stored.changed()
    data["u10"].attrs["units"] = "knots"
    data.to_netcdf(path)
    assert "wind is in 'knots' now, but its store in 'm s-1'" in stored.changed()
    days, known = DAYS[300:310].values, stored.known(DAYS[300:310].values).load()
    data.assign(u10=(2 * data["u10"]).assign_attrs(units="m s-1")).to_netcdf(path)
    doubled, _ = predictor(tmp_path, sst_file, path, delay=2)
    np.testing.assert_allclose(doubled.known(days), known, atol=2e-2)  # by climatology and scale of its own


@pytest.mark.parametrize("kind", ["grid", "index", "static"])
def test_values_in_a_file_of_the_same_size_and_time_are_compared_once(
    tmp_path: Path, sst_file: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Also those after the days of the splits, which forecasts read."""
    path, data = tmp_path / "wind.nc", wind(days=pd.date_range("2001-01-01", "2005-01-31"))
    if kind == "index":
        data = data.mean(("lat", "lon"), keep_attrs=True)
    if kind == "static":
        data = data.isel(time=0, drop=True)
    data.to_netcdf(path)
    stored, prepared = predictor(tmp_path, sst_file, path, kind=kind)
    state, cube = path.stat(), prepared.open_cube()
    before = stored.open().load()
    read: list[bool] = []
    compare = type(stored).compare
    monkeypatch.setattr(
        type(stored), "compare", lambda self, whole=False: read.append(whole) or compare(self, whole)
    )

    def replace(values: xr.Dataset) -> None:
        values.to_netcdf(path)
        assert path.stat().st_size == state.st_size
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))

    replace(data)
    assert not stored.changed()
    assert not stored.prepare(cube)
    assert read == [True]
    data["u10"][-1] += 1
    replace(data)
    assert bool(stored.changed()) == (kind == "static")
    assert stored.prepare(cube)
    assert not stored.open().equals(before)
    assert not stored.prepare(cube)


def test_sst_of_a_store_is_a_grid_too(tmp_path: Path, sst_file: Path) -> None:
    stored, prepared = predictor(tmp_path, sst_file, sst_file, delay=1)
    anomalies = prepared.open_anomalies()
    own, shifted = anomalies["anomaly"].values[:-1], anomalies["predictor_wind"].values[1:]
    np.testing.assert_allclose(shifted[400:], own[400:], atol=0.02)
    assert make_sst()["sst"].attrs["units"] == stored.units


def test_a_field_that_does_not_change_is_standardised_over_the_sea(tmp_path: Path, sst_file: Path) -> None:
    depth = xr.Dataset({"depth": (("lat", "lon"), 100.0 + np.arange(96).reshape(8, 12))}, {"lat": LAT, "lon": LON})
    depth["depth"].attrs["units"] = "m"
    depth.to_netcdf(tmp_path / "depth.nc")
    stored, prepared = predictor(tmp_path, sst_file, tmp_path / "depth.nc", kind="static")
    known = prepared.open_anomalies()["predictor_wind"]
    ocean = prepared.open_cube()["ocean_mask"].values
    values = depth["depth"].values[ocean]
    assert known.shape == (1461, 8, 12)
    for day in (0, 1000):
        np.testing.assert_allclose(known.values[day][ocean], (values - values.mean()) / values.std(), rtol=1e-4)
        assert np.isnan(known.values[day][~ocean]).all()
    assert stored.units == "m"
    assert not stored.changed()
    flat = STATIC.fit(stored, 0.1 + 0 * stored.open()["value"].load())  # the mean of many 0.1 is not 0.1
    assert float(flat["deviation"]) == 1
    np.testing.assert_allclose(flat["terms"], 0.1, rtol=1e-6)
    (depth + 1).to_netcdf(tmp_path / "depth.nc")
    assert stored.changed()
    with refused("does not change", "leave it out"):
        stored.given(depth)
    with refused("delay", "always known"):
        predictor(tmp_path, sst_file, tmp_path / "depth.nc", kind="static", delay=1)
    wind().to_netcdf(tmp_path / "days.nc")
    with refused("days.nc", "several days", "kind: grid"):
        predictor(tmp_path, sst_file, tmp_path / "days.nc", kind="static")


@pytest.mark.parametrize(
    ("name", "attributes", "sign"),
    [
        ("elevation", {"standard_name": "height_above_mean_sea_level"}, 1),
        ("z", {"standard_name": "height"}, 1),
        ("deptho", {"standard_name": "sea_floor_depth_below_geoid"}, -1),
        ("depth", {}, -1),
        ("depth", {"positive": "up"}, 1),
        ("Bathymetry", {}, 1),  # as most values
        ("z", {}, 1),  # with values of both signs
        ("Band1", {}, 1),
        ("bed", {}, 1),
        ("Bathymetry", {"positive": "down"}, -1),
    ],
)
def test_land_does_not_enter_the_mean_of_a_finer_height_or_depth(
    tmp_path: Path, sst_file: Path, name: str, attributes: dict[str, str], sign: int
) -> None:
    fine = {"lat": LAT[0] + (np.arange(32) - 1.5) / 16, "lon": LON[0] + (np.arange(48) - 1.5) / 16}
    height = np.full((32, 48), -1000.0)
    height[:, 5::4] = 1500  # a quarter of each cell, except those of the westernmost column
    height[:, 6:8] = 300, 0
    data = xr.Dataset({name: (("lat", "lon"), sign * height, attributes)}, fine)
    data.to_netcdf(tmp_path / "fine.nc")
    data_config = configure(
        tmp_path, sst_file, predictors={"wind": {"kind": "static", "source": str(tmp_path / "fine.nc")}}
    ).data
    stored = stored_predictors(data_config, tmp_path)["wind"]
    cells = xr.Dataset({"ocean_mask": (("lat", "lon"), np.ones((8, 12), bool))}, {"lat": LAT, "lon": LON})
    cells["ocean_mask"][0, 11] = False

    def read() -> xr.DataArray:
        with stored.reading(cells) as (values, _):
            return values[0]

    found = read()
    assert found.attrs["method"].endswith(f"without {13 * 32 - 4} cells of the source on the land side of 0")
    expected = np.full((8, 12), -1000.0 * sign)
    expected[:, 1] = np.nan  # less than half
    expected[0, 11] = np.nan
    np.testing.assert_allclose(found.values, expected)
    data.rename({name: "swh"}).assign(
        swh=lambda d: d["swh"].assign_attrs(standard_name="sea_surface_height")
    ).to_netcdf(tmp_path / "fine.nc")
    assert float(read()[5, 5]) == pytest.approx(-375 * sign)  # no height of the ground
    xr.Dataset({"z": (("lat", "lon"), height + 1001)}, fine).to_netcdf(tmp_path / "fine.nc")
    assert float(read()[5, 5]) == pytest.approx(626)  # nor are numbers of one sign


def test_land_does_not_enter_what_is_interpolated_between_coarser_depths(tmp_path: Path, sst_file: Path) -> None:
    """As bilinear weights in plain NumPy have it, of which the sea must hold half."""
    lat, lon = np.arange(-12.5, -9.0), np.arange(169.5, 174.0)
    depth = 1000 + 100 * np.arange(20.0).reshape(4, 5)
    depth[1, :2], depth[3, 4] = -2000, 0  # mountains, and a shore
    coarse = xr.Dataset({"depth": (("lat", "lon"), depth, {"units": "m"})}, {"lat": lat, "lon": lon})
    coarse.to_netcdf(tmp_path / "coarse.nc")
    static = {"wind": {"kind": "static", "source": str(tmp_path / "coarse.nc")}}
    stored = stored_predictors(configure(tmp_path, sst_file, predictors=static).data, tmp_path)["wind"]
    cells = xr.Dataset({"ocean_mask": (("lat", "lon"), np.ones((8, 12), bool))}, {"lat": LAT, "lon": LON})
    with stored.reading(cells) as (values, _):
        found = values[0].values
        assert values.attrs["method"].endswith("without 3 cells of the source on the land side of 0")
    by_row, by_column = (
        np.maximum(1 - abs(targets[:, None] - centres), 0) for targets, centres in ((LAT, lat), (LON, lon))
    )
    share = by_row @ (depth > 0) @ by_column.T
    expected = by_row @ np.where(depth > 0, depth, 0) @ by_column.T / np.where(share, share, 1)
    np.testing.assert_allclose(found, np.where(share >= 0.5, expected, np.nan), rtol=1e-5)
    assert ((share > 0) & (share < 0.5)).any()
    assert ((share >= 0.5) & (share < 1)).any()


def test_the_distance_to_the_coast_is_computed_on_the_sphere(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lat, lon = np.arange(-88.75, 90, 2.5), np.arange(-178.75, 180, 2.5)
    ocean = xr.DataArray(rng.random((72, 144)) > 0.003, {"lat": lat, "lon": lon}, ("lat", "lon"))
    distance = distance_to_coast(ocean)
    phi, theta = (np.deg2rad(values) for values in np.meshgrid(lat, lon, indexing="ij"))
    land = np.flatnonzero(~ocean.values.ravel())
    nearest = np.full(ocean.size, np.inf)
    for cell in land:  # across the date line and the poles too
        half = np.sin((phi - phi.ravel()[cell]) / 2) ** 2
        half += np.cos(phi) * np.cos(phi.ravel()[cell]) * np.sin((theta - theta.ravel()[cell]) / 2) ** 2
        nearest = np.minimum(nearest, 2 * 6371.0 * np.arcsin(np.sqrt(np.minimum(half, 1))).ravel())
    nearest[land] = np.nan
    np.testing.assert_allclose(distance.values.ravel(), nearest, rtol=1e-9)
    assert float(distance.max()) > 1000
    with refused("no land"):
        distance_to_coast(ocean | True)


def test_a_run_reads_the_distance_to_the_coast_of_its_region(tmp_path: Path, sst_file: Path) -> None:
    stored, prepared = predictor(tmp_path, sst_file, "distance-to-coast", kind="static")
    cube = prepared.open_cube()
    expected = distance_to_coast(cube["ocean_mask"]).values
    known = prepared.open_anomalies()["predictor_wind"].values[5]
    np.testing.assert_allclose(known, (expected - np.nanmean(expected)) / np.nanstd(expected), atol=1e-5)
    assert (stored.units, stored.missing(DAYS[5].to_datetime64()), stored.changed()) == ("km", "", "")
    assert not stored.prepare(cube)
    shore = cube.assign(ocean_mask=cube["ocean_mask"].copy())
    shore["ocean_mask"][7, 11] = False
    assert stored.prepare(shore)
    np.testing.assert_allclose(stored.open()["value"][0], distance_to_coast(shore["ocean_mask"]), rtol=1e-6)
    west = configure(
        tmp_path,
        sst_file,
        region={"lon": [170, 171.5], "lat": [-12, -10], "tile": [8, 6], "land_tiles": "keep"},
        predictors={"wind": {"kind": "static", "source": "distance-to-coast"}},
    ).data
    ocean = Prepared.of(west)
    prepare(west)
    part = stored_predictors(west, ocean.cube.parent)["wind"].open()["value"][0]
    assert part.shape == (8, 6)
    np.testing.assert_allclose(part, distance_to_coast(ocean.open_cube()["ocean_mask"]), rtol=1e-6)
    for keys, name in (({"kind": "grid"}, "source"), ({"units": "m"}, "units"), ({"variable": "d"}, "variable")):
        with refused("data.predictors.wind", name, "distance-to-coast"):
            predictor(tmp_path, sst_file, "distance-to-coast", **({"kind": "static"} | keys))


def test_a_url_is_read_again_when_its_store_has_grown(
    tmp_path: Path, sst_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_stores, "RETRIES", 0)
    served = tmp_path / "served"
    with serving(served) as (url, server):
        source = f"{url}/wind.zarr"
        wind(days=DAYS[:1400]).to_zarr(served / "wind.zarr", mode="w", zarr_format=2)
        stored, _ = predictor(tmp_path, sst_file, source, delay=2)
        assert stored.open().sizes["time"] == 1400
        server.seen.clear()
        predictor(tmp_path, sst_file, source, delay=2)
        assert not server.asked("u10/")
        data = wind()
        data["u10"][:1400] = wind(days=DAYS[:1400])["u10"].values
        data.to_zarr(served / "wind.zarr", mode="w", zarr_format=2)
        stored, prepared = predictor(tmp_path, sst_file, source, delay=2)
        assert stored.open().sizes["time"] == 1461
        assert prepared.open_anomalies()["predictor_wind"][-1].notnull().any()
        server.seen.clear()
        assert not stored.changed()
        assert not server.asked("u10/")
        data["u10"][700] += 1  # in place, so that no metadata change
        data[["u10"]].drop_vars(["lat", "lon"]).to_zarr(served / "wind.zarr", region="auto", mode="r+")
        assert "other values of the predictor wind" in stored.changed()
    assert not stored.changed()
