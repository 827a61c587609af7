"""Forecasts and predictors on other cells than the run's, against NumPy: means of finer cells, the seam."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from refusals import refused

from sstcast.config import Region
from sstcast.reading.grid import at_cells
from sstcast.reading.regrid import on_cells, weights_of

CELLS = xr.Dataset(coords={"lat": -11.875 + 0.25 * np.arange(6), "lon": 170.125 + 0.25 * np.arange(8)})
REGION = Region(lon=(170, 172), lat=(-12, -10.5))
PATH, DIMS = Path("f.nc"), ("member", "init_time", "lead", "lat", "lon")
DATES = np.array(["2004-01-01", "2004-01-08"], "datetime64[ns]")


def forecasts(rows: int, columns: int, seed: int = 0, offset: float = 0.0) -> xr.DataArray:
    """Return random forecasts with so many rows and columns in each of the `CELLS`, and land in a corner."""
    lat = -12 + 0.25 / rows * (np.arange(6 * rows) + 0.5)
    lon = 170 + offset + 0.25 / columns * (np.arange(8 * columns) + 0.5)
    values = np.random.default_rng(seed).normal(20, 1, (1, 2, 3, lat.size, lon.size)).astype(np.float32)
    values[..., : 2 * rows + rows // 2, : 2 * columns] = np.nan
    coordinates = {"member": [0], "init_time": DATES, "lead": [1, 2, 3], "lat": lat, "lon": lon}
    return xr.DataArray(values, coordinates, DIMS)


def block_means(fine: xr.DataArray, rows: int, columns: int, weights: np.ndarray | float = 1.0) -> np.ndarray:
    """Return the means of the values that are not land in each of the `CELLS`, by a plain loop."""
    means = np.full((*fine.shape[:3], 6, 8), np.nan)
    weight = np.broadcast_to(np.reshape(weights, (-1, 1)), fine.shape[-2:])
    for i, j in np.ndindex(6, 8):
        at = slice(i * rows, (i + 1) * rows), slice(j * columns, (j + 1) * columns)
        block, share = fine.values[..., *at], weight[at]
        known = np.isfinite(block[0, 0, 0])
        if share[known].sum() >= share.sum() / 2:
            means[..., i, j] = (block[..., known] * share[known]).sum(-1) / share[known].sum()
    return means


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_cells_of_any_ratio_are_averaged_for_forecasts_and_for_predictors(n: int) -> None:
    """Of an odd ratio, one cell in each block has the centre of the run's: it alone is not the mean."""
    fine = forecasts(n, n)
    found, how = on_cells(fine, CELLS, REGION, PATH)
    assert f"means of {n} x {n} cells" in how
    np.testing.assert_allclose(found, block_means(fine, n, n), rtol=1e-6)
    area = np.diff(np.sin(np.radians(np.linspace(-12, -10.5, 6 * n + 1))))
    weights = weights_of(fine[0, :, 0], CELLS, PATH, "remedy")
    assert "weighted by area" in weights.method
    field = weights(weights.read(fine[0, :, 0]))
    np.testing.assert_allclose(field, block_means(fine, n, n, area)[0, :, 0], rtol=1e-6)
    assert at_cells(fine, CELLS) is None
    fine[:, 0] = np.nan  # a forecast that is missing is not all land
    found, _ = on_cells(fine, CELLS, REGION, PATH)
    np.testing.assert_allclose(found[:, 1:], block_means(fine[:, 1:], n, n), rtol=1e-6)


@pytest.mark.parametrize(("rows", "columns"), [(3, 1), (1, 3), (3, 2)])
def test_cells_that_are_finer_along_one_axis_are_averaged(rows: int, columns: int) -> None:
    fine = forecasts(rows, columns)
    area = np.diff(np.sin(np.radians(np.linspace(-12, -10.5, 6 * rows + 1))))
    np.testing.assert_allclose(
        on_cells(fine, CELLS, REGION, PATH)[0], block_means(fine, rows, columns, area), rtol=1e-6
    )


def test_finer_cells_across_the_edges_of_the_run_are_averaged_by_their_shares() -> None:
    """Columns a third as wide, shifted by half of one: four have a share in each cell; the first lacks some."""
    fine = forecasts(3, 3, offset=0.25 / 6).fillna(15)
    found, _ = on_cells(fine, CELLS, REGION, PATH)
    shares = np.array([0.5, 1, 1, 0.5]) / 3
    rows = np.diff(np.sin(np.radians(np.linspace(-12, -11.75, 4))))
    expected = (rows / rows.sum()) @ fine.values[0, 0, 0, :3, 2:6] @ shares
    assert float(found[0, 0, 0, 0, 1]) == pytest.approx(expected, rel=1e-6)
    assert found[..., 0].isnull().all()  # of the first, a sixth of its width is missing
    assert found[..., 1:].notnull().all()
    with refused("f.nc: its cells, lat", "do not contain the region's", "choose another --region"):
        on_cells(fine.isel(lon=slice(2, None)), CELLS, REGION, PATH)


@pytest.mark.parametrize("west", [0.0, -180.0, 5.0])
def test_a_file_around_the_globe_is_interpolated_across_its_ends(west: float) -> None:
    lat, lon = np.arange(-20.0, 21, 5), west + np.arange(0, 360, 5.0)
    wave = np.cos(np.radians(lon)) + 0.01 * lat[:, None]
    coordinates = {"member": [0], "init_time": DATES[:1], "lead": [1], "lat": lat, "lon": lon}
    file = xr.DataArray(wave[None, None, None], coordinates, DIMS)
    grid = xr.Dataset(coords={"lat": np.arange(-12.5, 13, 5), "lon": np.arange(2.5, 360, 5)})
    found, how = on_cells(file, grid, Region(lon=(0, 360), lat=(-15, 15)), PATH)
    assert "interpolated" in how
    edges = np.cos(np.radians(grid["lon"].values[:, None] + (-2.5, 2.5))).mean(1)
    np.testing.assert_allclose(found[0, 0, 0], edges + 0.01 * grid["lat"].values[:, None], atol=1e-6)
