"""Reads, checks and crops NOAA's files.

Daily, yearly and ERDDAP files differ in dimensions, packing and time stamps. A `Granule` has one form for all of
them. It follows the rules of `sstcast.reading.layouts`, but reads with h5py, which many threads can use at once.
"""

import datetime as dt
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cftime
import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.errors import SSTCastError, in_short
from sstcast.geo import Box
from sstcast.reading.fields import PLAUSIBLE, STANDARD_CALENDARS
from sstcast.reading.layouts import reason_not_sst
from sstcast.reading.raw import FILL, Packed, pack
from sstcast.reading.units import celsius
from sstcast.reading.valid_days import MOVED, days_of
from sstcast.storage.stores import check_hdf5

CENTRE_TOLERANCE_DEGREES = 0.0025  # tolerance for cell centres in degrees
OPTIONAL_RANGES = {"ice": (0.0, 1.0), "err": (0.0, 50.0)}  # a share of 1, and degC
READ_BY_RULES = "set data.source to this folder, whose days are then dated and checked"
FILE_PREFIX = "oisst-avhrr-v02r01."  # prefix of the attribute `id` in NOAA's daily files, before the date


class BadFile(Exception):
    """A file is damaged or not OISST. The message gives the reason."""


@dataclass(frozen=True)
class Granule:
    """Days from one file, cropped to a box: `fields[day]` is `[lat, lon]` in hundredths of degC, `FILL` on land.

    `days` lists all days in the file. `optional[day]` holds the fields of the optional variables by name.
    """

    fields: dict[dt.date, Packed]
    preliminary: bool
    days: tuple[dt.date, ...]
    optional: dict[dt.date, dict[str, Packed]] = field(default_factory=dict)

    @property
    def span(self) -> str:
        """The first and last day of the file as text."""
        return " to ".join(sorted({str(min(self.days)), str(max(self.days))}))


def read_granule(data: bytes | Path, days: Sequence[dt.date], box: Box, optional: Sequence[str] = ()) -> Granule:
    """Read the given days, if present, from a file (a path or its bytes) and crop them to a box.

    The variables `optional`, such as `ice`, are read too if the file has them. Ice is 0 where `sst` has a value
    and ice has none, because OISST's ice is missing where there is no ice.

    Raises BadFile if the file is not NetCDF, is damaged, has no variable `sst`, lacks a cell of `box`, has values
    outside the range of SST, or has attributes that are inconsistent with OISST.
    """
    try:
        with _open(data) as (variables, attributes):
            return _read(variables, _plain(attributes), days, box, optional)
    except BadFile:
        raise
    except Exception as error:  # HDF5 and NumPy raise errors of any type for damaged files
        raise BadFile(f"damaged ({in_short(error)})") from error


def _read(
    variables: Any, about: Mapping[str, Any], days: Sequence[dt.date], box: Box, optional: Sequence[str]
) -> Granule:
    if "sst" not in variables:
        raise BadFile("has no variable 'sst'")
    attributes = _plain(variables["sst"].attrs)
    lat, lon = (
        np.asarray(variables[name if name in variables else long][:], float)
        for name, long in (("lat", "latitude"), ("lon", "longitude"))
    )
    rows, columns = _positions(lat, box.lat, "lat"), _positions(lon, box.lon, "lon")
    optional = [name for name in optional if name in variables]
    for name in ("sst", *optional):
        shape = variables[name].shape
        if shape[-2:] != (lat.size, lon.size):
            raise BadFile(f"wrong grid: {name} is {shape}, its axes {lat.size} x {lon.size}")
        if len(shape) == 4 and shape[1] > 1:
            raise BadFile(f"{name} has {shape[1]} levels; {READ_BY_RULES}")
    time_indices, name = _dates(variables), str(about.get("id", ""))
    if not time_indices:
        raise BadFile("has no days")
    if other_quantity := reason_not_sst(attributes):
        raise BadFile(f"sst is something else: its {other_quantity}")
    stated_date = name.removeprefix(FILE_PREFIX)[:8]
    if name.startswith(FILE_PREFIX) and len(time_indices) == 1 and stated_date != f"{min(time_indices):%Y%m%d}":
        raise BadFile(f"its id says {stated_date!r}, but its time {min(time_indices)}")
    fields: dict[dt.date, Packed] = {}
    optional_fields: dict[dt.date, dict[str, Packed]] = {}
    for day in [day for day in days if day in time_indices]:
        packed = {}
        for variable in ("sst", *optional):
            stored = variables[variable]
            depth = (0,) if len(stored.shape) == 4 else ()
            values = np.asarray(stored[(time_indices[day], *depth)])  # in NOAA's files the field is one chunk
            packed[variable] = _pack(values[rows][:, columns], _plain(stored.attrs), variable)
        fields[day] = _in_range(packed.pop("sst"), "sst", PLAUSIBLE)
        is_land = fields[day] == FILL
        if "ice" in packed:
            packed["ice"] = np.where(packed["ice"] == FILL, np.int16(0), packed["ice"])
        optional_fields[day] = {
            variable: _in_range(np.where(is_land, np.int16(FILL), values), variable, OPTIONAL_RANGES[variable])
            for variable, values in packed.items()
        }
    return Granule(fields, "preliminary" in name.lower(), tuple(time_indices), optional_fields)


@contextmanager
def _open(data: bytes | Path) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """Yield the variables and global attributes of an HDF5 file or, from ERDDAP, a classic NetCDF file."""
    with data.open("rb") if isinstance(data, Path) else io.BytesIO(data) as stream:
        magic = stream.read(8)
        stream.seek(0)
        if magic == b"\x89HDF\r\n\x1a\n":
            import h5py

            with h5py.File(stream, "r") as file:
                check_hdf5(file)
                yield file, file.attrs
        elif magic[:3] == b"CDF":
            import xarray as xr

            with xr.open_dataset(stream, engine="scipy", decode_cf=False) as dataset:
                yield dataset.variables, dataset.attrs
        else:
            raise BadFile(f"not a NetCDF file (it begins with {magic!r})" if magic else "empty")


def _positions(axis: NDArray[np.float64], centres: NDArray[np.float64], name: str) -> NDArray[np.intp]:
    """Return the indices of the cell `centres` on an axis in any order and longitude convention."""
    order = np.argsort(axis % 360)
    indices = order[np.searchsorted(axis[order] % 360, centres % 360 - CENTRE_TOLERANCE_DEGREES) % axis.size]
    matches = np.abs((axis[indices] - centres + 180) % 360 - 180) <= CENTRE_TOLERANCE_DEGREES
    if not matches.all():
        raise BadFile(f"wrong grid: no cell at {name} {centres[~matches][0]:g}")
    return indices


def _dates(variables: Any) -> dict[dt.date, int]:
    """Map each date to its index, as `days_of` tells it: NCEI's files are labelled at noon, PSL's at midnight.

    Raises BadFile if times cannot be read, or dates are not those of the labels, one value each.
    """
    time = variables["time"]
    attributes = _plain(time.attrs)
    units, calendar = str(attributes.get("units", "")), str(attributes.get("calendar", "")).lower()
    if calendar not in STANDARD_CALENDARS:
        raise BadFile(f"its time has the calendar {calendar!r}; {READ_BY_RULES}")
    try:
        labels = xr.DataArray(_moments(time, units).ravel(), dims="time", name="time", attrs=attributes)
        labels.encoding["units"] = units
        dataset = xr.Dataset()
        if (bounds := variables.get(str(attributes.get("bounds")))) is not None:
            is_turned = bounds.shape[0] == 2 != labels.size
            dims = ("bound", "time") if is_turned else ("time", "bound")
            dataset[attributes["bounds"]] = dims, _moments(bounds, units)
        days, notes = days_of(labels, dataset, Path("time"))
    except (ValueError, SSTCastError) as error:
        raise BadFile(f"cannot read time in {units!r}") from error
    if days.has_duplicates:
        raise BadFile(f"has {days[days.duplicated()][0]:%Y-%m-%d} twice; {READ_BY_RULES}")
    if any(MOVED in note for note in notes):
        raise BadFile(f"its time bounds give other days than its labels; {READ_BY_RULES}")
    return {day.date(): index for index, day in enumerate(days)}


def _moments(stored: Any, units: str) -> NDArray[np.datetime64]:
    """Return stored times in their shape, NaT where they are missing. Raises ValueError if units tell no date."""
    read = np.ma.asarray(cftime.num2pydate(np.asarray(stored[:], float), units))
    return np.where(np.ma.getmaskarray(read), np.datetime64("NaT"), read.data).astype("datetime64[ns]")


def _pack(values: NDArray[Any], attributes: Mapping[str, Any], variable: str) -> Packed:
    """Convert stored values to hundredths of degC; OISST's own packing needs no conversion.

    An error is a difference. Ice has no units here: OISST's is called `%`, but is a share of 1 once unpacked.
    """
    scale, offset = float(attributes.get("scale_factor", 1)), float(attributes.get("add_offset", 0))
    if variable != "ice":
        factor, zero = celsius(str(attributes.get("units", "degC")), variable, variable, "")
        scale, offset = scale * factor, offset * factor + (zero if variable == "sst" else 0)
    fills = [attributes[key] for key in ("_FillValue", "missing_value") if key in attributes]
    is_missing = np.isin(values, fills)
    if values.dtype == np.int16 and abs(scale - 0.01) < 1e-8 and offset == 0:
        return np.where(is_missing, np.int16(FILL), values)
    degrees = np.where(is_missing, np.nan, values.astype(float) * scale + offset)
    return pack(degrees.clip(-300, 300))  # values too large for int16 stay out of range


def _in_range(values: Packed, variable: str, limits: tuple[float, float]) -> Packed:
    ocean = values[values != FILL] / 100
    if not ocean.size:
        raise BadFile(f"{variable} has no values in the region")
    if ocean.min() < limits[0] or ocean.max() > limits[1]:
        units = " of 1" if variable == "ice" else " degC"
        raise BadFile(f"{variable} of {ocean.min():g}..{ocean.max():g}{units}")
    return values


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Convert attributes, which HDF5 stores as arrays and bytes, to numbers and text."""
    first_values = {key: np.ravel(value)[0] for key, value in attributes.items() if np.size(value)}
    return {
        key: value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        for key, value in first_values.items()
    }
