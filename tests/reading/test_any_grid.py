"""Grids of ocean models brought to regular ones, against fields known everywhere."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from any_grids import (
    AMPLITUDE,
    DAYS,
    GRIDS,
    MESH,
    SOURCES,
    as_curvilinear,
    as_mesh,
    at_centres,
    check,
    configured,
    dataset_on,
    grid_of_box,
    opened,
    rotated,
    temperature,
    tripolar_cells,
    values_of,
    with_vertices,
)
from refusals import refused

from sstcast.config import FieldSource, Region, load_config
from sstcast.errors import SSTCastError
from sstcast.geo import Box
from sstcast.ocean.init_config import start
from sstcast.ocean.prepare import prepare
from sstcast.reading import reading
from sstcast.reading.forecast_files import read_forecasts
from sstcast.reading.grid import coarsen, ocean_cells
from sstcast.reading.positions import degrees_of
from sstcast.reading.reading import open_daily
from sstcast.reading.regrid import on_cells, weights_of
from sstcast.reading.source_grid import cells_of, of_polygons, structured
from sstcast.reading.weights import TargetGrid, apply, interpolation, means, polygon_areas
from sstcast.storage.dataset_files import write


@pytest.mark.parametrize("name", GRIDS)
def test_interpolation_is_of_second_order(name: str) -> None:
    make, sizes, box = GRIDS[name]
    target, errors = grid_of_box(box, 1.0), []
    for size in sizes:
        source = make(size)
        weights = interpolation(source, target, np.ones(len(source.index), bool))
        np.testing.assert_allclose(weights.sum(1), 1, atol=1e-6)
        errors.append(abs(apply(weights, values_of(source), 0.5) - at_centres(target)).max())
    assert errors[1] < 0.35 * errors[0] < 0.35 * 0.05 * AMPLITUDE, errors


@pytest.mark.parametrize("name", GRIDS)
def test_means_of_three_cells_across_are_area_means(name: str) -> None:
    make, sizes, box = GRIDS[name]
    source = make(sizes[1])
    target = grid_of_box(box, (box.north - box.south) / round((box.north - box.south) / (3 * source.spacing)))
    found = apply(means(source, target), values_of(source), 0.5).reshape(target.rows, target.cols)
    fine = TargetGrid(box, 8 * target.rows, 8 * target.cols)
    weights = fine.areas.reshape(target.rows, 8, target.cols, 8)
    expected = (at_centres(fine).reshape(weights.shape) * weights).sum((1, 3)) / weights.sum((1, 3))
    assert abs(found - expected).max() < 0.02 * AMPLITUDE


@pytest.mark.parametrize("name", ["rotated", "date-line", "mesh", "tripolar"])
def test_the_integral_is_conserved(name: str) -> None:
    source, target = GRIDS[name][0](GRIDS[name][1][0]), TargetGrid(Box(-180, 180, -90, 90), 45, 90)
    values, areas = values_of(source), polygon_areas(source.polygons)
    own = values[source.owner].mean(1) if source.owner.ndim > 1 else values[source.owner]
    total = target.areas @ (means(source, target) @ values)
    if source.owner.ndim > 1:  # a triangle's thirds belong to its corners
        assert total == pytest.approx(areas @ own, rel=1e-3)
        assert target.areas @ means(source, target).sum(1) == pytest.approx(areas.sum(), rel=1e-6)
    else:
        assert total == pytest.approx(areas @ own, rel=1e-6)


def test_the_cells_of_a_tripolar_grid_cover_the_ocean_once() -> None:
    source, target = tripolar_cells(360), TargetGrid(Box(-180, 180, -50, 80), 13, 36)
    covered = means(source, target).sum(1)
    np.testing.assert_allclose(covered, 1, atol=0.03)


def test_polygons_of_a_file_are_its_cells() -> None:
    lat, lon = np.meshgrid(np.arange(0.5, 10), np.arange(0.5, 10), indexing="ij")
    steps = np.array([-0.5, -0.5, 0.5, 0.5]), np.array([-0.5, 0.5, 0.5, -0.5])
    vertices = tuple(centres.ravel()[:, None] + step for centres, step in zip((lat, lon), steps, strict=True))
    source = of_polygons(lat.ravel(), lon.ravel(), vertices)  # type: ignore[arg-type]
    target = TargetGrid(Box(0, 10, 0, 10), 5, 5)
    weights = means(source, target).toarray().reshape(5, 5, 10, 10)
    for row, col in np.ndindex(5, 5):
        own = weights[row, col, 2 * row : 2 * row + 2, 2 * col : 2 * col + 2]
        np.testing.assert_allclose(own, 0.25, rtol=0.02)
        assert own.sum() == pytest.approx(weights[row, col].sum(), rel=1e-6)


@pytest.mark.parametrize("spacing", [1.0, 3.0])
def test_basins_beside_an_isthmus_do_not_mix(spacing: float) -> None:
    """Basins of 5 and 25 degC on both sides of a column of land."""
    lat, lon = rotated(51)
    source, column = structured(lat, lon), np.arange(51 * 51) % 51
    ocean, values = column != 25, np.where(column < 25, 5.0, 25.0)
    target = grid_of_box(Box(-9, 9, 21, 39), spacing)
    if spacing == 1:
        weights = interpolation(source, target, ocean)
        found = apply(weights, np.where(ocean, values, np.nan), 0.5)
        known = found[np.isfinite(found)]
        assert np.isin(known.round(4), (5, 25)).all()
        assert {5.0, 25.0} <= {*known.round(4).tolist()}
    else:  # a mean of cells on both sides is a mean of both basins, as with coarsen, but never of land
        found = apply(means(source, target), np.where(ocean, values, np.nan), 0.1)
        assert np.nanmin(found) >= 5
        assert np.nanmax(found) <= 25


def test_a_day_with_missing_cells_is_the_mean_of_the_others() -> None:
    source, target = structured(*rotated(101)), TargetGrid(Box(-9, 9, 21, 39), 9, 9)
    weights = means(source, target)
    values = np.stack([values_of(source), values_of(source)])
    values[1, ::3] = np.nan
    found = apply(weights, values, 0.5)
    dense, known = weights.toarray(), np.isfinite(values[1])
    expected = (dense[:, known] @ values[1, known]) / dense[:, known].sum(1)
    np.testing.assert_allclose(found[1], np.where(dense[:, known].sum(1) >= 0.5, expected, np.nan), rtol=1e-5)


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_on_any_grid_is_read_on_a_regular_one(name: str, tmp_path: Path) -> None:
    path = tmp_path / "source.nc"
    SOURCES[name]().to_netcdf(path)
    box = Box(-8, 8, 24, 36)
    with pytest.raises(SSTCastError, match=r"data\.grid"):
        opened(configured(path, box, None))
    for grid, tolerance in ((0.5, 0.02), (2.0, 0.02 * AMPLITUDE)):
        found = opened(configured(path, box, grid))
        assert found.shape == (len(DAYS), 12 / grid, 16 / grid)
        check(found, tolerance)
    assert len([*(tmp_path / "prepared/weights").glob("*.nc")]) == 2
    with pytest.raises(SSTCastError, match=r"more than twice the run's 0\.1; set data\.grid"):
        opened(configured(path, box, 0.1))
    with pytest.raises(SSTCastError, match=r"do not fill data\.region"):
        opened(configured(path, box, 0.7))


def test_a_file_a_day_is_regridded_with_the_weights_of_the_first(tmp_path: Path) -> None:
    folder = tmp_path / "days"
    folder.mkdir()
    dataset = as_curvilinear()
    for number in range(3):
        day = dataset.isel(time=[number]).copy(deep=True)
        day["tos"][0, number * 20, :] = np.nan  # clouds of the day
        day.to_netcdf(folder / f"{number}.nc")
    found = opened(configured(folder, Box(-8, 8, 24, 36), 2.0))
    assert len(found) == 3
    assert len([*(tmp_path / "prepared/weights").glob("*.nc")]) == 1
    assert found.notnull().all()


def test_land_filled_with_a_number_does_not_enter(tmp_path: Path) -> None:
    dataset = as_curvilinear()
    dataset["tos"][:, :, :50] = 0
    path = tmp_path / "zero.nc"
    dataset.to_netcdf(path)
    for grid in (0.5, 2.0):
        found = opened(configured(path, Box(-8, 8, 24, 36), grid))[0]
        lat, lon = np.meshgrid(found["lat"], found["lon"], indexing="ij")
        known = found.notnull().values
        assert 0.3 < known.mean() < 0.7
        assert abs(found.values - temperature(lat, lon))[known].max() < (0.3 if grid == 0.5 else 1.0)


def test_a_regular_source_is_coarsened(tmp_path: Path) -> None:
    lat, lon = np.arange(20.25, 40, 0.5), np.arange(-9.75, 10, 0.5)
    dataset = dataset_on(*np.meshgrid(lat, lon, indexing="ij"), ("lat", "lon")).drop_vars(["nav_lat", "nav_lon"])
    dataset = dataset.assign_coords(lat=lat, lon=lon)
    dataset["tos"][:, 5:9, 4:12] = np.nan
    path = tmp_path / "regular.nc"
    dataset.to_netcdf(path)
    box = Box(-8, 8, 22, 38)
    blocks = configured(path, box, None, coarsen=2)
    native = opened(blocks)
    expected = coarsen(native, ocean_cells(native), blocks.box)
    found = opened(configured(path, box, 1.0))
    xr.testing.assert_allclose(found.drop_attrs(), expected.drop_attrs(), rtol=0, atol=1e-6)
    with pytest.raises(SSTCastError, match="not a whole number of the source's cells"):
        opened(configured(path, box, 0.8))


@pytest.mark.parametrize("layout", ["roms", "time", "transposed", "masked"])
def test_positions_that_vary_along_one_axis_are_axes(layout: str, tmp_path: Path) -> None:
    lat, lon = np.arange(20.25, 40, 0.5), np.arange(170.25, 190, 0.5)
    plain = dataset_on(*np.meshgrid(lat, lon, indexing="ij"), ("eta", "xi"), ("lat_rho", "lon_rho"))
    dataset = plain.copy(deep=True)
    dataset["lon_rho"] = (dataset["lon_rho"] + 180) % 360 - 180  # crosses the date line
    if layout == "time":
        dataset = dataset.rename(lat_rho="XLAT", lon_rho="XLONG")
        for name in ("XLAT", "XLONG"):
            dataset[name] = dataset[name].expand_dims(time=dataset["time"]).assign_attrs(dataset[name].attrs)
        dataset = dataset.reset_coords(["XLAT", "XLONG"])
    elif layout == "transposed":
        dataset = dataset.transpose("time", "xi", "eta")
    elif layout == "masked":
        land = (("eta", "xi"), np.arange(1600).reshape(40, 40) % 7 == 0)
        for name in ("lat_rho", "lon_rho"):
            dataset[name] = dataset[name].where(~xr.DataArray(land[1], dims=land[0]))
    path = tmp_path / "two.nc"
    dataset.to_netcdf(path)
    found = opened(configured(path, Box(172, -172, 22, 38), None))
    np.testing.assert_array_equal(found.values, plain["tos"][:, 4:36, 4:36].values)
    np.testing.assert_allclose(found["lon"], lon[4:36])


def test_forecasts_and_predictors_on_any_grid_come_to_the_cells_of_the_run(tmp_path: Path) -> None:
    cells = xr.Dataset(coords={"lat": np.arange(24.25, 36, 0.5), "lon": np.arange(-7.75, 8, 0.5)})
    region = configured(tmp_path, Box(-8, 8, 24, 36), None).box
    as_curvilinear().to_netcdf(tmp_path / "wind.nc")
    with contextlib.closing(open_daily(FieldSource(source=tmp_path / "wind.nc"))) as field:
        weights = weights_of(field, cells, tmp_path, "remedy")
        check(weights(weights.read(field)).load(), 0.02)
    lead = {"lead": ("lead", [1, 2, 3], {"units": "days"})}
    days = as_curvilinear().isel(time=slice(4)).rename(time="init_time")
    days.expand_dims(lead=3, axis=1).assign_coords(lead).to_netcdf(tmp_path / "forecast.nc")
    found, _ = on_cells(read_forecasts(tmp_path / "forecast.nc").sst, cells, region, tmp_path)
    for number in range(4):
        values = found.isel(member=0, init_time=number).load()
        lat, lon = np.meshgrid(values["lat"], values["lon"], indexing="ij")
        assert abs(values - temperature(lat, lon) - 0.01 * number).max() < 0.02


@pytest.mark.parametrize(
    ("mark", "grid", "dims"),
    [
        (0.0, 0.5, ("j", "i")),
        (0.0, 2.0, ("node",)),
        (-1.0, 0.5, ("node",)),
        (-1.0, 2.0, ("j", "i")),
        (np.nan, 0.5, ("node",)),
        (np.nan, 2.0, ("j", "i")),
    ],
)
def test_positions_that_land_shares_are_none(
    mark: float, grid: float, dims: tuple[str, ...], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Land in columns 0..54, but for a strait one cell wide, and an island have no positions."""
    lat, lon = rotated(101)
    rows, cols = np.indices(lat.shape)
    land = ((cols < 55) & (rows > 20) & (cols != 52)) | ((abs(rows - 50) < 6) & (abs(cols - 70) < 6))
    dataset = dataset_on(lat, lon, ("j", "i")).isel(time=slice(2))
    dataset["tos"] = dataset["tos"].where(~xr.DataArray(land, dims=("j", "i")))
    found = {}
    for name, values in (("true", lat), ("marked", np.where(land, mark, lat))):
        of_lon = lon if name == "true" else np.where(land, mark, lon)
        of_lat = (("j", "i"), values, dataset["nav_lat"].attrs)
        source = dataset.assign_coords(nav_lat=of_lat, nav_lon=(("j", "i"), of_lon, dataset["nav_lon"].attrs))
        source["nav_lon"].attrs = dataset["nav_lon"].attrs
        if len(dims) == 1:
            source = source.stack(node=("j", "i"), create_index=False)
        source.to_netcdf(tmp_path / f"{name}.nc")
        found[name] = opened(configured(tmp_path / f"{name}.nc", Box(-8, 8, 24, 36), grid))[0]
    both = found["true"].notnull() & found["marked"].notnull()
    assert both.sum() > 0.9 * max(field.notnull().sum() for field in found.values())
    # a coast may move by a part of a cell
    assert abs(found["true"] - found["marked"]).where(both).max() < 0.25
    assert abs(found["true"] - found["marked"]).where(both).mean() < 0.02
    assert "without a position" not in caplog.text


def test_sea_without_a_position_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    dataset = as_curvilinear()
    dataset["nav_lat"][50, 40:47] = dataset["nav_lon"][50, 40:47] = 0
    dataset.to_netcdf(tmp_path / "lost.nc")
    check(opened(configured(tmp_path / "lost.nc", Box(-8, 8, 24, 36), 2.0)), 0.02 * AMPLITUDE)
    assert "lost.nc: left out: 7 cells of the sea without a position" in caplog.text


def test_a_row_at_a_pole_and_a_halo_are_positions() -> None:
    """Cells at 90 N differ in longitude, and a seam and a fold give a position four times."""
    lat, lon = np.meshgrid(np.linspace(80, 90, 11), np.arange(0, 360, 10.0), indexing="ij")
    lat, lon = np.hstack([lat, lat[:, :2]]), np.hstack([lon, lon[:, :2] + 360])
    for columns in (slice(None), slice(0, 36)):
        given = [xr.DataArray(part[:, columns], dims=("j", "i")) for part in (lat, lon)]
        for before, after in zip(given, degrees_of(*given, Path("a.nc")), strict=True):
            np.testing.assert_array_equal(before, after)


def other_bounds(dataset: xr.Dataset) -> None:
    dataset["lon_vertices"] += 0.3


def other_land(dataset: xr.Dataset) -> None:
    dataset["tos"][:, 40:50, 40:60] = np.nan


def other_units(dataset: xr.Dataset) -> None:
    for name in ("nav_lat", "nav_lon", "lat_vertices", "lon_vertices"):
        dataset[name] = np.radians(dataset[name]).assign_attrs(dataset[name].attrs | {"units": "radian"})
    dataset["nav_lat"][0, 0] += 1e-5


@pytest.mark.parametrize(
    ("grid", "change"), [(2.0, other_bounds), (0.5, other_land), (2.0, other_land), (0.5, other_units)]
)
def test_kept_weights_are_of_these_cells_alone(
    grid: float, change: Callable[[xr.Dataset], None], tmp_path: Path
) -> None:
    """A second source of the project, on the same positions, is read as in a folder of its own."""
    dataset = with_vertices().isel(time=slice(2))
    dataset.to_netcdf(tmp_path / "first.nc")
    change(dataset)
    dataset.to_netcdf(tmp_path / "second.nc")
    box = Box(-8, 8, 24, 36)
    opened(configured(tmp_path / "first.nc", box, grid))
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone/second.nc").symlink_to(tmp_path / "second.nc")
    alone = opened(configured(tmp_path / "alone/second.nc", box, grid))
    xr.testing.assert_identical(
        opened(configured(tmp_path / "second.nc", box, grid)).drop_attrs(), alone.drop_attrs()
    )


@pytest.mark.parametrize("name", ["column", "start", "cell"])
def test_kept_weights_of_cells_that_are_none_are_refused(name: str, tmp_path: Path) -> None:
    """A column out of range would end the process."""
    as_curvilinear().to_netcdf(tmp_path / "days.nc")
    data = configured(tmp_path / "days.nc", Box(-8, 8, 24, 36), 2.0)
    opened(data)
    (kept,) = (tmp_path / "prepared/weights").glob("*.nc")
    weights = xr.load_dataset(kept, engine="netcdf4")
    weights[name][-1] = 2**30
    write(weights, kept)
    with refused(kept.parent, "delete this folder"):
        opened(data)


def test_the_table_of_a_mesh_is_part_of_its_cells(tmp_path: Path) -> None:
    digests = set()
    for kind, first in (("", 0), ("ugrid", 0), ("ugrid", 1), ("nv", 0)):
        dataset = as_mesh(kind)
        if first:
            dataset["triangles"] = (
                (dataset["triangles"] + 1).clip(1, (MESH - 1) * MESH).assign_attrs(start_index=1)
            )
        axes = {"lat": "lat", "lon": "lon"}
        digests.add(cells_of(dataset, dataset["tos"], axes, tmp_path).digest)
    assert len(digests) == 3  # one mesh counts from 0 in UGRID and from 1 in FVCOM


def test_flags_are_used_before_cells_are_averaged(tmp_path: Path) -> None:
    dataset = as_curvilinear()
    quality = np.full(dataset["tos"].shape, 5, np.int8)
    quality[:, ::4, ::4] = 2
    dataset["tos"] = dataset["tos"] - 30 * (xr.DataArray(quality, dims=dataset["tos"].dims) < 5)
    dataset["tos"].attrs = as_curvilinear()["tos"].attrs
    dataset["quality_level"] = dataset["tos"].dims, quality
    path = tmp_path / "flags.nc"
    dataset.to_netcdf(path)
    check(opened(configured(path, Box(-8, 8, 24, 36), 2.0)), 0.03 * AMPLITUDE)


@pytest.mark.parametrize("kind", ["a curvilinear grid", "a mesh"])
def test_init_proposes_a_grid_and_its_file_is_prepared(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lat, lon = rotated(51)
    dims: tuple[str, ...] = ("j", "i")
    if kind == "a mesh":
        lat, lon, dims = lat.ravel(), lon.ravel(), ("node",)
    days = pd.date_range("2001-01-01", "2002-03-31")
    noise = np.random.default_rng(0).normal(0, 0.5, (len(days), *lat.shape))
    field = (temperature(lat, lon) + noise).astype(np.float32)
    dataset = dataset_on(lat, lon, dims).drop_vars("tos").drop_vars("time")
    dataset["tos"] = ("time", *dims), field, {"units": "degC", "standard_name": "sea_surface_temperature"}
    dataset.assign_coords(time=days).to_netcdf("model.nc")
    lines = start(FieldSource(source="model.nc"))
    width = {"a curvilinear grid": 0.987, "a mesh": 0.969}[kind]
    assert f"  source: {kind} of 2601 cells, {width} degrees wide; data.grid brings them to 1 degrees" in lines
    config = load_config(Path("model.yaml"))
    assert config.data.grid == 1
    cube = prepare(config.data).open_cube()
    lat, lon = np.meshgrid(cube["lat"], cube["lon"], indexing="ij")
    away = cube["sst"].mean("time") - temperature(lat, lon)
    assert abs(away.where(cube["ocean_mask"])).max() < 0.2
    assert not prepare(config.data).written
    monkeypatch.setattr(reading, "sea_of", None)  # what prepare has found is kept
    again = opened(config.data)
    np.testing.assert_allclose(again[:9].where(cube["ocean_mask"].values), cube["sst"][:9], atol=1e-4)
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert prepare(config.data.model_copy(update={"grid": 2.0, "region": wider(config.data.box)})).written


@pytest.mark.parametrize("grid", [0.5, 2.0])
@pytest.mark.parametrize("value", [99.9, -99.9])
def test_cells_are_judged_before_they_are_averaged(grid: float, value: float, tmp_path: Path) -> None:
    dataset, box = as_curvilinear(), Box(-8, 8, 24, 36)
    dataset.to_netcdf(tmp_path / "good.nc")
    dataset["tos"][7, 0, 0] = value  # far from the region
    dataset.to_netcdf(tmp_path / "outside.nc")
    good, outside = (opened(configured(tmp_path / f"{name}.nc", box, grid)) for name in ("good", "outside"))
    xr.testing.assert_equal(good, outside)
    dataset["tos"][7, 50, 51] = value
    dataset.to_netcdf(tmp_path / "bad.nc")
    lat, lon = (float(dataset[name][50, 51]) for name in ("nav_lat", "nav_lon"))
    with refused("bad.nc", f"{value:g} degC on 2001-01-08 at lat {lat:g}, lon {lon:g}", "_FillValue"):
        opened(configured(tmp_path / "bad.nc", box, grid))


def test_blocks_of_a_regular_source_are_judged_before_they_are_averaged(tmp_path: Path) -> None:
    axes = np.arange(20.25, 40, 0.5), np.arange(-9.75, 10, 0.5)
    dataset = dataset_on(*np.meshgrid(*axes, indexing="ij"), ("lat", "lon")).drop_vars(["nav_lat", "nav_lon"])
    dataset = dataset.assign_coords(lat=axes[0], lon=axes[1])
    dataset["tos"][7, 12, 20] = 55
    dataset.to_netcdf(tmp_path / "regular.nc")
    with refused("regular.nc", "55 degC on 2001-01-08 at lat 26.25, lon 0.25"):
        opened(configured(tmp_path / "regular.nc", Box(-8, 8, 22, 38), 1.0))


def test_all_days_tell_where_the_sea_is(tmp_path: Path) -> None:
    """A file a day with a third of the cells, as of a satellite: as if all were in one file, and by hand."""
    dataset, random = as_curvilinear().isel(time=slice(12)), np.random.default_rng(3)
    seen = random.random(dataset["tos"].shape) < 0.3
    seen[:, :, :40] = False
    dataset["tos"] = dataset["tos"].where(xr.DataArray(seen, dims=dataset["tos"].dims))
    (tmp_path / "days").mkdir()
    for number in range(12):
        dataset.isel(time=[number]).to_netcdf(tmp_path / f"days/{number}.nc")
    dataset.to_netcdf(tmp_path / "whole.nc")
    box = Box(-8, 8, 24, 36)
    found = opened(configured(tmp_path / "days", box, 2.0))
    np.testing.assert_array_equal(found, opened(configured(tmp_path / "whole.nc", box, 2.0)))
    source, target = structured(*rotated(101)), TargetGrid(box, 6, 8)
    weights, cells = means(source, target).toarray(), dataset["tos"].values.reshape(12, -1)[:, source.index]
    share = weights @ np.isfinite(cells).any(0)
    for day in (0, 11):
        known = weights @ np.isfinite(cells[day])
        mean = weights @ np.nan_to_num(cells[day]) / np.maximum(known, 0.1)
        expected = np.where((share >= 0.5) & (known >= share / 2), mean, np.nan)
        np.testing.assert_allclose(found[day].values.ravel(), expected, rtol=1e-5)


def test_zeros_of_a_predictor_are_values(tmp_path: Path) -> None:
    """Of ice, rain or a flat bottom: half of the cells are .8 on all days, half 0."""
    dataset = as_curvilinear()
    ice = np.where(np.indices((101, 101)).sum(0) % 2, 0.8, 0).astype(np.float32)
    dataset["siconc"] = ("time", "j", "i"), np.broadcast_to(ice, dataset["tos"].shape), {"units": "1"}
    dataset.drop_vars("tos").to_netcdf(tmp_path / "ice.nc")
    cells = xr.Dataset(coords={"lat": np.arange(25.0, 36, 2), "lon": np.arange(-7.0, 8, 2)})
    with contextlib.closing(open_daily(FieldSource(source=str(tmp_path / "ice.nc")))) as field:
        weights = weights_of(field, cells, tmp_path, "remedy")
        np.testing.assert_allclose(weights(weights.read(field)), 0.4, atol=0.02)


def test_scored_forecasts_are_judged_before_they_are_averaged(tmp_path: Path) -> None:
    ocean = np.ones((6, 8), bool)
    ocean[0] = False
    cells = xr.Dataset(
        {"ocean_mask": (("lat", "lon"), ocean)}, {"lat": np.arange(25.0, 36, 2), "lon": np.arange(-7.0, 8, 2)}
    )
    region = configured(tmp_path, Box(-8, 8, 24, 36), None).box
    lead = {"lead": ("lead", [1, 2, 3], {"units": "days"})}
    dataset = as_curvilinear().isel(time=slice(2)).rename(time="init_time").expand_dims(lead=3, axis=1)
    dataset = dataset.assign_coords(lead).copy(deep=True)
    row, column = np.unravel_index(
        np.argmin(abs(dataset["nav_lat"] - 24.5).values + abs(dataset["nav_lon"]).values), (101, 101)
    )
    for name, at in (("land", (row, column)), ("sea", (50, 50))):
        dataset["tos"][1, 2, *at] = 70
        dataset.to_netcdf(tmp_path / f"{name}.nc")
        sst, how = on_cells(read_forecasts(tmp_path / f"{name}.nc").sst, cells, region, tmp_path / name)
        assert "means of its cells" in how
        if name == "land":
            assert sst.load()[0, :, :, 1:].notnull().all()
        else:
            with refused("sea", "70 degC on init_time 2001-01-02, lead 3 at lat 30, lon 0"):
                sst.load()


def wider(region: Region) -> Region:
    """A region of half as many rows and columns of tiles, in the same corner."""
    box = region.bounds
    rows, cols = (2 * (int(size) // 4) for size in (box.north - box.south, box.width))
    edges = {"lon": (box.west, box.west + cols), "lat": (box.south, box.south + rows)}
    return region.model_copy(update=edges | {"tile": (rows // 2, cols // 2), "skip": ()})
