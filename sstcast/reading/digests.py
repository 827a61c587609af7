"""Digests of days and statistics, by which runs recognise their data."""

import datetime as dt
import hashlib
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray


def digests(sst: xr.DataArray) -> xr.DataArray:
    """Hash the values of each day of `sst(..., lat, lon)`, lazily if `sst` is lazy."""

    def block(values: NDArray[Any]) -> NDArray[np.int64]:
        floats = np.ascontiguousarray(values, np.float32)
        floats = np.where(np.isnan(floats), np.float32(np.nan), floats)  # one bit pattern for every NaN
        days = (hashlib.blake2b(day.tobytes(), digest_size=8) for day in floats.reshape(-1, *floats.shape[-2:]))
        numbers = [int.from_bytes(day.digest(), "little", signed=True) for day in days]
        return np.array(numbers, np.int64).reshape(floats.shape[:-2])

    return xr.apply_ufunc(
        block,
        sst,
        input_core_dims=[["lat", "lon"]],
        dask="parallelized",
        output_dtypes=[np.int64],
        dask_gufunc_kwargs={"allow_rechunk": True},
    )


def digest_of(dataset: xr.Dataset) -> str:
    """Hash the values and coordinates of a dataset, without cell bounds, which follow from the coordinates."""
    names = sorted(name for name in map(str, dataset.variables) if not name.endswith("_bnds"))
    return hashlib.sha256(b"".join(name.encode() + dataset[name].values.tobytes() for name in names)).hexdigest()


def digest_of_days(cube: xr.Dataset, first: dt.date | None = None, last: dt.date | None = None) -> str:
    """Hash the dates and values of a cube from `first` to `last`, by default all days."""
    days = cube["digest"].sel(time=slice(first and str(first), last and str(last)))
    return hashlib.sha256(
        days["time"].values.astype("datetime64[D]").tobytes() + days.values.tobytes()
    ).hexdigest()
