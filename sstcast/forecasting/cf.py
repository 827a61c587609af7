"""A forecast as a CF dataset, and its file."""

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from sstcast.errors import SSTCastError
from sstcast.files import atomic, write_zarr
from sstcast.ocean.cube import describe_axes
from sstcast.ocean.days import day_ranges
from sstcast.stores import open_netcdf, open_zarr

CONVENTIONS = "CF-1.11"
SUFFIXES = (".nc", ".zarr")
EPOCH = "days since 1970-01-01"


def describe(dataset: xr.Dataset, members: int, climatology: str) -> xr.Dataset:
    """Give the variables of a forecast their CF attributes; `climatology` names the years it is of."""
    of = f", mean of {members} members" if members > 1 else ""
    dataset["sst"].attrs = {
        "standard_name": "sea_surface_temperature",
        "long_name": f"forecast sea surface temperature{of}",
        "units": "degree_Celsius",
        "units_metadata": "temperature: on_scale",
    }
    dataset["sst_anomaly"].attrs = {
        "standard_name": "sea_water_temperature_anomaly",
        "long_name": f"forecast departure from the climatology of {climatology}{of}",
        "units": "degree_Celsius",
        "units_metadata": "temperature: difference",
    }
    if "sst_spread" in dataset:
        dataset["sst_spread"].attrs = {
            "long_name": f"standard deviation of {members} members, with {members - 1} as divisor",
            "units": "degree_Celsius",
            "units_metadata": "temperature: difference",
        }
    describe_axes(dataset)
    no_leap = {"units_metadata": "leap_seconds: none"}
    dataset["init_time"].attrs = {
        "standard_name": "forecast_reference_time",
        "long_name": "last day of history",
    } | no_leap
    # Written "day", not "days": xarray would read the latter as time differences, and lead=28 would be no index.
    dataset["lead"].attrs = {"standard_name": "forecast_period", "long_name": "days ahead", "units": "day"}
    dataset["valid_time"].attrs = {"standard_name": "time", "long_name": "day forecast"} | no_leap
    return dataset


def describe_days(history: xr.DataArray) -> str:
    """Say in words which days `history` holds, and which of them are preliminary."""
    days = [day.item() for day in history["time"].values.astype("datetime64[D]")]
    text = f"{history.attrs.get('title', 'daily SST')}; history {days[0]}..{days[-1]} ({len(days)} days)"
    if "preliminary" not in history.coords:
        return f"{text}; not known which days are preliminary"
    marked = dict.fromkeys(
        (day for day, mark in zip(days, history["preliminary"].values, strict=True) if mark), ""
    )
    ranges = [f"{a}..{b}" if a != b else f"{a}" for a, b, _ in day_ranges(marked)]
    return f"{text}; preliminary days: {', '.join(ranges) or 'none'}"


def now() -> str:
    """Return the time of day as ISO 8601."""
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def check_out(path: Path) -> None:
    """Raise SSTCastError unless a forecast may be written to `path`: never over anything but a forecast."""
    if path.suffix not in SUFFIXES:
        raise SSTCastError(f"--out {path}: name a file that ends in {' or '.join(SUFFIXES)}")
    if path.exists() and recipe_of(path) is None:
        raise SSTCastError(f"--out {path}: exists and is no forecast; delete it or name another file")


def recipe_of(path: Path) -> str | None:
    """Return what the forecast at `path` was made of; None if there is none."""
    if not path.exists():
        return None
    try:
        with (open_zarr if path.suffix == ".zarr" else open_netcdf)(path, "name another --out") as dataset:
            recipe: str | None = dataset.attrs.get("forecast_recipe")
            return recipe
    except SSTCastError:
        return None


def write(dataset: xr.Dataset, path: Path) -> None:
    """Write NetCDF or Zarr, by the suffix of `path`."""
    with atomic(path) as temporary:
        if path.suffix == ".zarr":
            write_zarr(dataset, temporary, {})
            return
        packed = {"zlib": True, "complevel": 4, "shuffle": True, "_FillValue": np.float32(np.nan)}
        encoding: dict[Any, dict[str, Any]] = dict.fromkeys(dataset.data_vars, packed)
        encoding |= {name: {"_FillValue": None} for name in ("lat", "lon", "lead")}
        encoding |= {name: {"units": EPOCH, "dtype": "int32"} for name in ("init_time", "valid_time")}
        # Without limit, so that forecasts of many days join along init_time (ncrcat).
        dataset.to_netcdf(temporary, engine="netcdf4", encoding=encoding, unlimited_dims=["init_time"])
