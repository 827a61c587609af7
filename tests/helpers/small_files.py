"""Data sets in files, and the configuration that reads them."""

from collections.abc import Callable
from pathlib import Path

import xarray as xr

from sstcast.config import DataConfig, Region

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


def data_of(path: Path, **keys: object) -> DataConfig:
    return DataConfig.model_validate({"source": str(path), "region": BOX, "splits": SPLITS, **keys})
