"""Averages daily sea surface temperature over the source's cells to a coarser cube `sst(time, lat, lon)`."""

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.cf import rounded
from sstcast.config import Region


def ocean_cells(sst: xr.DataArray) -> xr.DataArray:
    """Return the `(lat, lon)` mask of cells that have a value on any day of the first year."""
    return sst.isel(time=slice(366)).notnull().any("time").compute()


def ocean_fraction(ocean: xr.DataArray, region: Region) -> xr.DataArray:
    """Return the fraction `(lat, lon)` of source cells in each coarse cell that are ocean."""
    blocks: Any = ocean.astype("float32").coarsen({"lat": region.coarsen, "lon": region.coarsen})
    return rounded(blocks.mean())


def coarsen(field: xr.DataArray, ocean: xr.DataArray, region: Region) -> xr.DataArray:
    """Average blocks of `coarsen` x `coarsen` cells of `field(..., lat, lon)` over the mask `ocean`.

    Land is left out of the mean, so coastal temperatures are not diluted. The result is NaN where the ocean
    fraction is below `min_ocean`, and where an ocean cell has no value.
    """
    fraction, n = ocean_fraction(ocean, region), region.coarsen
    wet, share = ocean.values, fraction.where(fraction >= region.min_ocean).values

    def pool(block: NDArray[Any]) -> NDArray[Any]:
        block = np.where(wet, block, np.float32(0))
        total = sum(block[..., i::n, j::n] for i in range(n) for j in range(n))
        return total / (n * n * share)

    cells = ["lat", "lon"]
    coarse = xr.apply_ufunc(
        pool,
        field,
        input_core_dims=[cells],
        output_core_dims=[cells],
        exclude_dims=set(cells),
        dask="parallelized",
        dask_gufunc_kwargs={"output_sizes": dict(fraction.sizes)},
        output_dtypes=[field.dtype],
    )
    return coarse.assign_coords(fraction.coords)
