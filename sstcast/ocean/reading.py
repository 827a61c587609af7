"""Reads daily sea surface temperature in degC from a user's source, each file by its own names, units and axes."""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import xarray as xr
import zarr

from sstcast.artefacts import packaged, walk
from sstcast.config import DataConfig
from sstcast.errors import SSTCastError, warn
from sstcast.geo import step
from sstcast.ocean.cropping import crop
from sstcast.ocean.decoding import Layout, decode
from sstcast.ocean.gaps import fill_gaps
from sstcast.ocean.plausible import without_land_numbers
from sstcast.ocean.raw import is_raw_store, open_days
from sstcast.stores import open_netcdf, open_zarr

SAMPLE = "data/sample/tasman_oisst_daily_1982_2016.nc"
NETCDF = (".nc", ".nc3", ".nc4", ".netcdf", ".cdf")
ZARR = (".zgroup", ".zmetadata", "zarr.json")
SAME_PLACE = 1e-3  # tolerance, as a fraction of a cell
REMEDY = "download it again, or check data.source"
NAMED = 5  # skipped files that a message names; it counts the others


def source_path(source: str) -> Path:
    """Return the path that `data.source` stands for: `sample` is the data set that ships with sstcast."""
    return packaged(SAMPLE) if source == "sample" else Path(source)


def open_region(data: DataConfig) -> xr.DataArray:
    """Open the region's days lazily: `sst(time, lat, lon)` in degC on the source's own cells, without gaps.

    Land is NaN, and each day has one value, at 00:00. If gaps were filled, the coordinate `filled(time)` counts
    their cells. The attribute `title` names the data. `plausible.checked` checks the values, not this function.
    Use it in a `with` statement, which closes the files: HDF5 does not let a process write a file it has open.

    Raises SSTCastError if the source cannot be read, does not cover the region, or lacks more than `data.gaps`
    consecutive days.
    """
    path = source_path(data.source)
    opened = open_sst(path, data.variable, data.units)
    sst = crop(opened, data.box, path)
    if not is_raw_store(path):
        sst = without_land_numbers(sst, path)
    sst = fill_gaps(sst, data.gaps, path)
    sst.set_close(opened.close)
    return sst


def open_sst(path: Path, variable: str | None = None, units: str | None = None) -> xr.DataArray:
    """Open daily temperatures lazily (dask).

    `path` is a NetCDF file, a Zarr store, or a folder of either (for instance one file per day or per year);
    `variable` and `units` are as in `DataConfig`. Returns `sst(time, lat, lon)` in degC, NaN on land, latitude and
    time ascending, one value per day at 00:00. Its attribute `title` names the data. For a folder of files, its
    coordinate `file(time)` names the file of each day. Days may be missing. Close it, as `open_region` says.

    Raises SSTCastError if the path is absent or cannot be read, the temperatures, their unit or axes are not
    found, or a day appears twice.
    """
    if not path.exists():
        raise SSTCastError(f"{path}: no such file or folder; set data.source to 'sample' or to a path that exists")
    if path.is_dir() and not _is_zarr(path):
        known: dict[Any, Layout] = {}
        found, others = _readable(path)
        parts = [_part(file, variable, units, known) for file in found]
    else:
        parts, others = [_part(path, variable, units, {})], []
    sst = _merge(parts, path)
    if not is_raw_store(path):
        _check_daily(sst.indexes["time"], path)
    if any("no_leap_days" in part.field.attrs for part in parts):
        print(
            f"{path}: has no leap days; its dates are taken as they are, and each 29 February as missing",
            file=sys.stderr,
            flush=True,
        )
    _name_others(path, others)
    sst = sst.assign_attrs(title="NOAA Daily OISST" if path == packaged(SAMPLE) else parts[0].title)
    open_files = ExitStack()
    for part in parts:
        open_files.callback(part.close)
    sst.set_close(open_files.close)
    return sst


@dataclass(frozen=True)
class Part:
    """The days of one file or store."""

    path: Path
    field: xr.DataArray
    title: str
    preliminary: bool
    close: Callable[[], None]


def _part(path: Path, variable: str | None, units: str | None, known: dict[Any, Layout]) -> Part:
    if is_raw_store(path):
        dataset = open_days(path)
        if not dataset.sizes["time"]:
            raise SSTCastError(f"{path}: holds no days; run `sstcast fetch` first")
    elif path.is_dir():
        dataset = open_zarr(path, REMEDY)
    else:
        dataset = open_netcdf(path, REMEDY)
    field = decode(dataset, path, variable, units, known)
    if path.is_dir() and not is_raw_store(path):
        _check_chunks(path, dataset[field.name])
    days = field.indexes["time"]
    if days.has_duplicates:
        raise SSTCastError(
            f"{path}: time holds {days[days.duplicated()][0]:%Y-%m-%d} twice; sstcast takes one value per day: "
            'save the daily means, with xarray ds.resample(time="1D").mean()'
        )
    preliminary = "preliminary" in str(dataset.attrs.get("id", "")).lower()
    return Part(path, field, _title(dataset, path), preliminary, dataset.close)


def _title(dataset: xr.Dataset, path: Path) -> str:
    """Return the title of the data or, if they have none, who made them or their file."""
    about = (str(dataset.attrs.get(name, "")).strip() for name in ("title", "institution"))
    title, institution = about
    return title or f"sea surface temperature of {institution or 'unknown origin'} ({path.name})"


def _check_daily(days: pd.DatetimeIndex, path: Path) -> None:
    """Raise SSTCastError if the usual step of ascending `days` is not a day."""
    step = np.median(np.diff(days.values)) / np.timedelta64(1, "D") if len(days) > 2 else 1
    if step != 1:
        raise SSTCastError(
            f"{path}: has a value every {step:g} days, from {days[0]:%Y-%m-%d} to {days[-1]:%Y-%m-%d}; sstcast "
            "takes daily means, and monthly or weekly ones cannot be used: give daily data"
        )


def _check_chunks(path: Path, stored: xr.DataArray) -> None:
    """Raise SSTCastError if integers in a Zarr store lack chunks, which would be read as numbers."""
    kind = np.dtype(stored.encoding.get("dtype", float)).kind
    if kind in "iu" and not {"_FillValue", "missing_value"} & stored.encoding.keys():
        array: Any = zarr.open_group(path, mode="r")[str(stored.name)]
        if absent := array.nchunks - array.nchunks_initialized:
            raise SSTCastError(f"{path}: {stored.name} lacks {absent} of {array.nchunks} chunks; {REMEDY}")


def _is_zarr(path: Path) -> bool:
    return any((path / name).exists() for name in ZARR)


def _readable(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the files and stores below a folder that sstcast can read, and the other files."""
    found: list[Path] = []
    others: list[Path] = []
    for place, folders, files in walk(folder):
        here = [place / name for name in (*folders, *files) if not name.startswith(".")]  # no locks, no halves
        folders[:] = [path.name for path in here if path.is_dir() and not _is_zarr(path)]
        for path in here:
            if path.is_file() or _is_zarr(path):
                (found if path.is_dir() or path.suffix.lower() in NETCDF else others).append(path)
    if not found:
        raise SSTCastError(f"{folder}: holds neither NetCDF files nor a Zarr store; check data.source")
    return sorted(found), sorted(others)


def _name_others(folder: Path, others: list[Path]) -> None:
    if others:
        names = ", ".join(str(path.relative_to(folder)) for path in others[:NAMED])
        more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
        warn(f"{folder}: not read, not NetCDF or Zarr by name: {names}{more}")


def _merge(parts: list[Part], path: Path) -> xr.DataArray:
    """Merge the days of all parts in order, on the cells of the first; a final day replaces a preliminary one."""
    days = np.concatenate([part.field["time"].values for part in parts])
    owner = np.repeat(np.arange(len(parts)), [part.field.sizes["time"] for part in parts])
    early = np.array([part.preliminary for part in parts])[owner]
    order = np.lexsort((owner, early, days))
    again = np.flatnonzero(days[order][1:] == days[order][:-1])
    if (same := again[early[order][again] == early[order][again + 1]]).size:
        one, other = (parts[owner[order[same[0] + n]]].path for n in (0, 1))
        day = np.datetime_as_string(days[order[same[0]]], unit="D")
        raise SSTCastError(f"{one} and {other}: both hold {day}; remove one of them")
    wanted = np.ones(days.size, bool)
    wanted[order[again + 1]] = False
    first = parts[0]
    fields = []
    for number, part in enumerate(parts):
        keep = wanted[owner == number]
        if keep.any():
            field = _aligned(part, first)
            fields.append(field if keep.all() else field.isel(time=np.flatnonzero(keep)))
    sst = xr.DataArray(
        da.concatenate([field.data for field in fields]) if len(fields) > 1 else fields[0].data,
        dims=("time", "lat", "lon"),
        coords={"time": days[wanted], "lat": first.field["lat"].values, "lon": first.field["lon"].values},
        name="sst",
    )
    if len(parts) > 1 and not any(part.path.is_dir() for part in parts):
        names = np.array([str(part.path.relative_to(path)) for part in parts])
        sst = sst.assign_coords(file=("time", names[owner[wanted]]))
    return sst if sst.indexes["time"].is_monotonic_increasing else sst.sortby("time")


def _aligned(part: Part, first: Part) -> xr.DataArray:
    """Reorder a part's cells as in the first part; raise SSTCastError if their positions differ."""
    field = part.field
    (lat, lon), (to_lat, to_lon) = ((f["lat"].values, f["lon"].values) for f in (field, first.field))
    if field.shape[1:] == first.field.shape[1:]:
        if not np.array_equal(lon, to_lon):  # the other convention, or another first longitude
            order, to_order = (np.argsort((x - to_lon.min() + step(to_lon) / 2) % 360) for x in (lon, to_lon))
            index = np.empty_like(order)
            index[to_order] = order
            if (index != np.arange(index.size)).any():
                field, lon = field.isel(lon=index), lon[index]
        apart = abs(lat - to_lat).max() / step(to_lat), abs((lon - to_lon + 180) % 360 - 180).max() / step(to_lon)
        if max(apart) <= SAME_PLACE:
            return field
    raise SSTCastError(
        f"{part.path}: its {lat.size} x {lon.size} cells, lat {lat[0]:g}..{lat[-1]:g}, "
        f"lon {lon[0]:g}..{lon[-1]:g}, are not those of {first.path}; keep one grid per folder"
    )
