"""Opens, checks and crops NOAA files before any of their values are stored.

Daily, yearly and ERDDAP files differ in dimensions, packing and time stamps; a `Granule` has one form for all.
"""

import datetime as dt
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cftime
import numpy as np
from numpy.typing import NDArray

from sstcast.errors import in_short
from sstcast.geo import Box
from sstcast.ocean.days import COLDEST, FILL, WARMEST, Packed, pack
from sstcast.stores import Refused, check_hdf5

VALID = (100 * COLDEST, 100 * WARMEST)  # hundredths of a degree
NEAR = 0.0025  # tolerance in degrees for the centre of a cell
OISST = "oisst-avhrr-v02r01."  # start of `id` in NOAA's daily files; a date follows
NOT_SST = re.compile(r"anomal|\bice\b|\berror\b|deviation", re.IGNORECASE)


class BadFile(Exception):
    """A file that is damaged or not OISST; the text says why."""


@dataclass(frozen=True)
class Granule:
    """Days of one file in a box: `fields[day]` is `[lat, lon]` in hundredths of degC, `FILL` on land.

    `notice` says that the file is simulated; it is empty for observations. `days` are all days in the file.
    """

    fields: dict[dt.date, Packed]
    preliminary: bool
    notice: str
    days: tuple[dt.date, ...]

    @property
    def span(self) -> str:
        """The first and the last day of the file, as text."""
        return " to ".join(sorted({str(min(self.days)), str(max(self.days))}))


def read_granule(data: bytes | Path, days: Sequence[dt.date], box: Box) -> Granule:
    """Read those of `days` that are in a file (a path, or its bytes).

    Raises BadFile if the file is not NetCDF, is damaged, has no sst, lacks a cell of `box`, or holds values
    outside the range of SST; also if its attributes show that it is not OISST.
    """
    try:
        with _open(data) as (variables, attributes):
            return _read(variables, attributes, days, box)
    except (BadFile, Refused) as error:
        raise BadFile(str(error)) from error
    except MemoryError as error:
        raise BadFile("damaged (takes too much memory to read)") from error
    except Exception as error:  # on damaged files HDF5 and NumPy raise errors of any type
        raise BadFile(f"damaged ({in_short(error)})") from error


def _read(variables: Any, attributes: Mapping[str, Any], days: Sequence[dt.date], box: Box) -> Granule:
    if "sst" not in variables:
        raise BadFile("has no variable 'sst'")
    sst = variables["sst"]
    lat, lon = (
        np.asarray(variables[name if name in variables else long][:], float)
        for name, long in (("lat", "latitude"), ("lon", "longitude"))
    )
    rows, columns = _positions(lat, box.lat, "lat"), _positions(lon, box.lon, "lon")
    if sst.shape[-2:] != (lat.size, lon.size):
        raise BadFile(f"wrong grid: sst is {sst.shape}, its axes {lat.size} x {lon.size}")
    held = dates(variables["time"])
    if not held:
        raise BadFile("holds no day")
    title, name = (str(_attribute(attributes, key, "")) for key in ("title", "id"))
    simulated = "simulated" in title.lower()
    _check_attributes(sst, name, held)
    fields = {}
    for day in days:
        if day in held:
            depth = (0,) if len(sst.shape) == 4 else ()
            field = _pack(
                np.asarray(sst[(held[day], *depth)]), sst.attrs
            )  # the whole field: it is one chunk in NOAA's files
            fields[day] = _check(field[rows][:, columns])
    return Granule(
        fields=fields,
        preliminary="preliminary" in name.lower(),
        notice=title if simulated else "",
        days=tuple(held),
    )


def _check_attributes(sst: Any, name: str, held: Mapping[dt.date, int]) -> None:
    """Refuse a variable whose attributes say it is not SST, and a daily file of another day than its `id` says."""
    for key in ("long_name", "standard_name"):
        if NOT_SST.search(text := str(_attribute(sst.attrs, key, ""))):
            raise BadFile(f"the {key} of sst is {text!r}")
    day = name.removeprefix(OISST)[:8]
    if name.startswith(OISST) and len(held) == 1 and day != f"{min(held):%Y%m%d}":
        raise BadFile(f"its id says {day[:8]!r}, but its time {min(held)}")


@contextmanager
def _open(data: bytes | Path) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """Yield the variables and global attributes of an HDF5 file or a classic NetCDF file (ERDDAP's format)."""
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


def _positions(axis: NDArray[np.float64], wanted: NDArray[np.float64], name: str) -> NDArray[np.intp]:
    """Return the positions of the `wanted` cell centres in a file's axis, of any order and convention."""
    order = np.argsort(axis % 360)
    found = order[np.searchsorted(axis[order] % 360, wanted % 360 - NEAR) % axis.size]
    same = np.abs((axis[found] - wanted + 180) % 360 - 180) <= NEAR
    if not same.all():
        raise BadFile(f"wrong grid: no cell at {name} {wanted[~same][0]:g}")
    return found


def dates(time: Any) -> dict[dt.date, int]:
    """Return the position of each date; the hour (noon at NCEI, midnight at PSL) is dropped."""
    units = str(_attribute(time.attrs, "units", ""))
    try:
        moments = cftime.num2pydate(np.asarray(time[:], float).ravel(), units)
    except ValueError as error:
        raise BadFile(f"cannot read time in {units!r}") from error
    return {moment.date(): index for index, moment in enumerate(moments)}


def _pack(values: NDArray[Any], attributes: Mapping[str, Any]) -> Packed:
    """Convert stored `values` to hundredths of degC; values in OISST's own packing are returned unchanged."""
    scale, offset = (float(_attribute(attributes, key, default)) for key, default in _LINEAR)
    fills = [_attribute(attributes, key, np.nan) for key in ("_FillValue", "missing_value")]
    hundredths = values.dtype == np.int16 and abs(scale - 0.01) < 1e-8 and offset == 0
    if hundredths and fills[0] == FILL and np.isnan(fills[1]):
        return values
    missing = (values == fills[0]) | (values == fills[1])
    if hundredths:
        return np.where(missing, FILL, values).astype(np.int16)
    return pack(np.where(missing, np.nan, values.astype(float) * scale + offset))


_LINEAR = (("scale_factor", 1.0), ("add_offset", 0.0))


def _check(field: Packed) -> Packed:
    ocean = field[field != FILL]
    if not ocean.size:
        raise BadFile("sst holds no value in the region")
    if ocean.min() < VALID[0] or ocean.max() > VALID[1]:
        raise BadFile(f"sst of {ocean.min() / 100:g}..{ocean.max() / 100:g} degC")
    return field


def _attribute(attributes: Mapping[str, Any], key: str, default: Any) -> Any:
    value = attributes.get(key, default)
    if isinstance(value, np.ndarray):
        value = value.reshape(-1)[0]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
