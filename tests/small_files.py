"""The small ocean in files as their makers write them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import xarray as xr
from small_ocean import make_sst

from sstcast.config import DataConfig, Region

OCEAN = make_sst(1)
SST = OCEAN["sst"]
BOX = Region(lon=(170, 173), lat=(-12, -10), tile=(8, 6))
SPLITS = {"train": [2001, 2001], "validation": [2002, 2002], "test": [2003, 2003]}
Write = Callable[[Path], Path]


def netcdf(dataset: xr.Dataset, name: str = "a.nc", **options: object) -> Write:
    def write(folder: Path) -> Path:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        dataset.to_netcdf(folder / name, engine="netcdf4", **options)
        return folder / name

    return write


def zarr(dataset: xr.Dataset, version: int) -> Write:
    def write(folder: Path) -> Path:
        dataset.to_zarr(folder / "a.zarr", zarr_format=version, consolidated=version == 2)
        return folder / "a.zarr"

    return write


def folder_of(*writes: Write) -> Write:
    def write(folder: Path) -> Path:
        for each in writes:
            each(folder / "days")
        return folder / "days"

    return write


def named(variable: str, standard_name: str = "", units: str = "Celsius", **names: str) -> xr.Dataset:
    """The small ocean under other names, with neighbours that are not its temperature."""
    field = (SST + 273.15 if units.lower().startswith("k") else SST).assign_attrs(units=units)
    other = SST.assign_attrs(units="1")
    data = xr.Dataset({variable: field, "error": other}).rename(names)
    if standard_name:
        data[variable].attrs["standard_name"] = standard_name
    return data


def level(depths: int) -> xr.Dataset:
    data = OCEAN.expand_dims(depth=np.arange(depths, dtype=float), axis=1).rename(sst="thetao")
    data["thetao"].attrs["standard_name"] = "sea_water_potential_temperature"
    return data


HALVES = [OCEAN.isel(time=slice(0, 200)), OCEAN.isel(time=slice(200, None))]
KELVIN_UNSTATED = xr.Dataset({"sst": (SST + 273.15).assign_attrs(units="")})


def data_of(path: Path, **keys: object) -> DataConfig:
    return DataConfig.model_validate({"source": str(path), "region": BOX, "splits": SPLITS, **keys})
