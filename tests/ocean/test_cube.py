import numpy as np
import xarray as xr

from sstcast.config import Region
from sstcast.ocean.grid import coarsen, ocean_cells, ocean_fraction


def test_coarsening_averages_ocean_cells_only() -> None:
    random = np.random.default_rng(0)
    values = random.normal(20, 3, (5, 6, 8))
    land = random.random((6, 8)) < 0.5
    values[:, land] = np.nan
    sst = xr.DataArray(values, dims=("time", "lat", "lon"), coords={"lat": np.arange(6.0), "lon": np.arange(8.0)})
    region = Region(lon=(0, 8), lat=(0, 6), coarsen=2, tile=(3, 4), min_ocean=0.5)
    fraction = ocean_fraction(ocean_cells(sst), region)
    coarse = coarsen(sst, ocean_cells(sst), region)
    assert 0 < int(coarse[0].isnull().sum()) < 12
    for row in range(3):
        for col in range(4):
            cells = values[:, 2 * row : 2 * row + 2, 2 * col : 2 * col + 2].reshape(5, 4)
            ocean = ~np.isnan(cells[0])
            assert fraction[row, col] == ocean.mean()
            expected = cells[:, ocean].mean(1) if ocean.mean() >= 0.5 else np.full(5, np.nan)
            np.testing.assert_allclose(coarse[:, row, col], expected)
