"""Files of daily sea surface temperature -> one cube `sst(time, lat, lon)` in degC over a region."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sstcast.config import Region
from sstcast.errors import SSTCastError
from sstcast.files import packaged
from sstcast.ocean.sources import SAMPLE
from sstcast.ocean.store import is_raw_store, open_days


def source_path(source: str) -> Path:
    """Return the path a `data.source` stands for: `sample` is the ocean that ships with sstcast."""
    return packaged(SAMPLE) if source == "sample" else Path(source)


def open_sst(path: Path) -> xr.DataArray:
    """Open daily temperatures lazily (dask).

    `path` is a NetCDF file, a folder of NetCDF files (one a day or one a year) or a Zarr store. Returns
    `sst(time, lat, lon)` in degC, NaN on land, latitude ascending, one value a day stamped 00:00; its
    attribute `title` says what they are.

    Raises SSTCastError if the path is absent, cannot be read, has no `sst`, or if days are missing or
    appear twice.
    """
    dataset = _open(path)
    if "sst" not in dataset:
        found = ", ".join(map(str, dataset.data_vars)) or "none"
        raise SSTCastError(f"{path}: no variable 'sst' (found: {found}); name a file of daily SST")
    sst = dataset["sst"].rename({long: short for long, short in _SHORT.items() if long in dataset["sst"].dims})
    if extra := {str(d) for d in sst.dims if sst.sizes[d] == 1} - {"time", "lat", "lon"}:
        sst = sst.squeeze(sorted(extra), drop=True)
    if set(sst.dims) != {"time", "lat", "lon"}:
        raise SSTCastError(f"{path}: sst has dimensions {tuple(sst.dims)}; expected time, lat and lon")
    sst = _celsius(sst.transpose("time", "lat", "lon"), path)
    days = pd.DatetimeIndex(sst.indexes["time"]).normalize()
    _check_days(days, path)
    sst = _ascending(_ascending(sst.assign_coords(time=days), "time"), "lat").chunk({"lat": -1, "lon": -1})
    observed = "NOAA Daily OISST" if path == packaged(SAMPLE) else path.name
    return sst.assign_attrs(title=dataset.attrs.get("title", observed))


def states_of_days(path: Path, sst: xr.DataArray) -> NDArray[np.int64]:
    """Return a number a day of `sst`, opened from `path`, that changes when the day's values do.

    A store of fetched days knows where each came from and whether it is final; of other sources only the
    time of their last change is known.
    """
    if is_raw_store(path):
        return open_days(path)["status"].values.astype(np.int64)
    return np.full(sst.sizes["time"], path.stat().st_mtime_ns)


def crop(sst: xr.DataArray, region: Region, path: Path) -> xr.DataArray:
    """Cut the region's box out of `sst`.

    Longitudes of either convention are taken; the result's run eastward from the region's west edge.
    Raises SSTCastError if the box reaches outside the data.
    """
    west, east = region.lon
    width = (east - west) % 360 or 360.0
    sst = _ascending(sst.assign_coords(lon=west + (sst["lon"] - west) % 360), "lon")
    box = sst.sel(lat=slice(*region.lat), lon=slice(west, west + width))
    rows, cols = region.tile[0] * region.coarsen, region.tile[1] * region.coarsen
    if not box.sizes["lat"] or not box.sizes["lon"] or box.sizes["lat"] % rows or box.sizes["lon"] % cols:
        have = f"{box.sizes['lat']} x {box.sizes['lon']} cells"
        extent = (
            f"lat {float(sst.lat[0]):g}..{float(sst.lat[-1]):g}, lon {float(sst.lon[0]):g}..{float(sst.lon[-1]):g}"
        )
        raise SSTCastError(
            f"{path}: the region's box holds {have}, not whole tiles of {rows} x {cols}; "
            f"the data cover {extent}: change data.region"
        )
    return box


def ocean_cells(sst: xr.DataArray) -> xr.DataArray:
    """Return the `(lat, lon)` mask of cells that hold a value on any day of the first year."""
    return sst.isel(time=slice(366)).notnull().any("time").compute()


def ocean_fraction(ocean: xr.DataArray, region: Region) -> xr.DataArray:
    """Return the share `(lat, lon)` of each coarse cell's source cells that are ocean."""
    blocks: Any = ocean.astype("float32").coarsen({"lat": region.coarsen, "lon": region.coarsen})
    return blocks.mean()


def coarsen(field: xr.DataArray, ocean: xr.DataArray, region: Region) -> xr.DataArray:
    """Average `coarsen` x `coarsen` cells of `field(..., lat, lon)`, those of the mask `ocean` only.

    Land never enters a mean, so a coast keeps its temperature. The result is NaN where less than
    `min_ocean` of the cells are ocean, and where an ocean cell holds no value.
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


def cube_dataset(sst: xr.DataArray, fraction: xr.DataArray, ocean: xr.DataArray) -> xr.Dataset:
    """Dress the coarse field as a CF dataset: `sst(time, lat, lon)` in degC, `ocean_fraction`, `ocean_mask`."""
    cube = xr.Dataset({"sst": sst.astype("float32"), "ocean_fraction": fraction, "ocean_mask": ocean})
    cube["sst"].attrs = {
        "standard_name": "sea_surface_temperature",
        "long_name": "sea surface temperature",
        "units": "degree_Celsius",
    }
    cube["ocean_fraction"].attrs = {
        "standard_name": "sea_area_fraction",
        "long_name": "ocean share of the cell",
        "units": "1",
    }
    describe_axes(cube)
    cube.attrs = {"Conventions": "CF-1.11", "title": "Daily sea surface temperature"}
    return cube


def describe_axes(dataset: xr.Dataset) -> None:
    """Give `lat`, `lon` and `time`, where present, their CF attributes."""
    axes = {"lat": ("latitude", "degrees_north", "Y"), "lon": ("longitude", "degrees_east", "X")}
    for axis, (name, units, letter) in axes.items():
        dataset[axis].attrs = {"standard_name": name, "long_name": name, "units": units, "axis": letter}
    if "time" in dataset.coords:
        dataset["time"].attrs = {"standard_name": "time", "long_name": "day", "axis": "T"}


_SHORT = {"latitude": "lat", "longitude": "lon"}
_UNITS = {"celsius": 0.0, "degc": 0.0, "c": 0.0, "kelvin": 273.15, "k": 273.15}


def _open(path: Path) -> xr.Dataset:
    if not path.exists():
        raise SSTCastError(f"{path}: no such file or folder; set data.source to 'sample' or to a path that exists")
    try:
        if is_raw_store(path):
            return open_days(path)
        if path.is_dir() and ((path / "zarr.json").exists() or (path / ".zgroup").exists()):
            return xr.open_zarr(path)
        if path.is_dir():
            files = sorted(path.glob("**/*.nc"))
            if not files:
                raise SSTCastError(f"{path}: holds neither NetCDF files nor a Zarr store; check data.source")
            return xr.open_mfdataset(
                files,
                engine="netcdf4",
                combine="by_coords",
                data_vars="minimal",
                coords="minimal",
                compat="override",
                join="outer",
            )
        return xr.open_dataset(path, engine="netcdf4", chunks="auto")
    except (OSError, ValueError, KeyError) as error:
        detail = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SSTCastError(f"{path}: cannot be read as NetCDF or Zarr ({detail}); get the file again") from error


def _ascending(sst: xr.DataArray, axis: str) -> xr.DataArray:
    """Sort along `axis` if need be: sorting what is sorted would copy every chunk."""
    return sst if sst.indexes[axis].is_monotonic_increasing else sst.sortby(axis)


def _celsius(sst: xr.DataArray, path: Path) -> xr.DataArray:
    units = str(sst.attrs.get("units", "degC"))
    zero = _UNITS.get(units.lower().removeprefix("degrees_").removeprefix("degree_").replace("deg_", ""))
    if zero is None:
        raise SSTCastError(f"{path}: sst is in {units!r}; convert it to degC or K")
    return sst.astype("float32") - np.float32(zero) if zero else sst.astype("float32")


def _check_days(days: pd.DatetimeIndex, path: Path) -> None:
    if days.has_duplicates:
        twice = days[days.duplicated()][0]
        raise SSTCastError(f"{path}: time holds {twice:%Y-%m-%d} twice; remove the duplicate")
    missing = pd.date_range(days.min(), days.max()).difference(days)
    if len(missing):
        raise SSTCastError(
            f"{path}: {len(missing)} missing day(s) in time, the first {missing[0]:%Y-%m-%d}; fetch or fill them"
        )
