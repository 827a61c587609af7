"""Forecasts that come in many files: a folder of NetCDF files, each with the forecasts of one or more dates."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xarray as xr

from sstcast.errors import SSTCastError
from sstcast.forecasting.conventions import Forecasts, read_forecasts
from sstcast.ocean.reading import NETCDF, ZARR

NAMES = {"lead": "leads", "member": "members", "lat": "latitudes", "lon": "longitudes"}


def read_collection(path: Path, variable: str | None = None, units: str | None = None) -> Forecasts:
    """Open forecasts in a file or a store as `read_forecasts` does, or those of all NetCDF files of a folder.

    Files of a folder are joined by initial date, whatever their names.

    Raises SSTCastError as `read_forecasts` does, and, naming the file, if two of a folder begin a forecast on the
    same date, or are not laid out alike: another variable, unit or level, other leads, members or cells.
    """
    found = sorted(path.glob("*.*")) if path.is_dir() else []
    files = [file for file in found if file.suffix.lower() in NETCDF and file.name[0] != "." and file.is_file()]
    if not files:
        if path.is_dir() and not any((path / name).exists() for name in ZARR):
            raise SSTCastError(
                f"{path}: holds no NetCDF files and is no Zarr store; name the folder that holds them"
            )
        return read_forecasts(path, variable, units)
    first, *others = parts = [read_forecasts(file, variable, units) for file in files]
    for part in others:
        if (words := _difference(part, first)) is not None:
            raise SSTCastError(f"{part.path}: {words} of {first.path.name}; give files that are alike")
    _check_dates(parts)
    spread = None if first.spread is None else _join([part.spread for part in parts if part.spread is not None])
    return Forecasts(path, _join([part.sst for part in parts]), spread, f"{len(files)} files of {first.note}")


def _join(fields: Sequence[xr.DataArray]) -> xr.DataArray:
    return xr.concat(fields, "init_time", join="exact").sortby("init_time")


def _difference(part: Forecasts, first: Forecasts) -> str | None:
    """Return how a file differs in layout from another, in words."""
    ours, theirs = part.sst, first.sst
    if part.note != first.note:
        return f"holds {part.note}, not the {first.note}"
    for axis in ("lead", "member", "lat", "lon"):
        if ours.sizes[axis] != theirs.sizes[axis]:
            return f"has {ours.sizes[axis]} {NAMES[axis]}, not the {theirs.sizes[axis]}"
        if axis in ("lat", "lon") and not np.array_equal(ours[axis], theirs[axis]):
            return f"has other {NAMES[axis]} than those"
    if (part.spread is None) == (first.spread is None):
        return None
    return "lacks the spread" if part.spread is None else "has a spread, unlike that"


def _check_dates(parts: Sequence[Forecasts]) -> None:
    """Raise SSTCastError if two files begin a forecast on the same date."""
    begun: dict[np.datetime64, Path] = {}
    for part in parts:
        for date in part.sst["init_time"].values:
            if date in begun:
                raise SSTCastError(
                    f"{part.path}: begins a forecast on {date.astype('M8[D]')}, as {begun[date].name} does; "
                    "take one of them out of the folder"
                )
            begun[date] = part.path
