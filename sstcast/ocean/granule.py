"""What a NOAA file holds: opened, checked and cropped before any of it lands.

Daily, yearly and ERDDAP files differ in dimensions, packing and time stamps; a `Granule` does not.
"""

import datetime as dt
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from sstcast.ocean.grid import CELLS_PER_DEGREE, Grid

FILL = -999
VALID = (-300, 4500)  # hundredths of a degree, as the files of NOAA declare
Packed = NDArray[np.int16]


class BadFile(Exception):
    """A file that is not what it should be; the text says why."""


@dataclass(frozen=True)
class Granule:
    """Days of one file on a grid: `fields[day]` is `[lat, lon]` in hundredths of degC, `FILL` on land.

    `notice` says in words that the file is simulated, and is empty for observations. `span` names the days
    the file itself holds.
    """

    fields: dict[dt.date, Packed]
    preliminary: bool
    notice: str
    span: str


def read_granule(data: bytes | Path, days: Sequence[dt.date], grid: Grid) -> Granule:
    """Read those of `days` that a file (or its bytes) holds.

    Raises BadFile if it is not NetCDF, is damaged, has no sst, lacks a cell of `grid`, or holds values that
    no sea has.
    """
    try:
        with _open(data) as (variables, attributes):
            return _read(variables, attributes, days, grid)
    except (OSError, ValueError, KeyError, TypeError, IndexError, RuntimeError) as error:
        raise BadFile(f"damaged ({_first_line(error)})") from error


def pack(celsius: NDArray[Any]) -> Packed:
    """Round degC to hundredths; NaN becomes `FILL`."""
    return np.where(np.isnan(celsius), FILL, np.rint(celsius * 100.0)).astype(np.int16)


def _read(variables: Any, attributes: Mapping[str, Any], days: Sequence[dt.date], grid: Grid) -> Granule:
    sst = variables["sst"]
    lat, lon = (
        np.asarray(_either(variables, names)[:], float) for names in (("lat", "latitude"), ("lon", "longitude"))
    )
    rows, columns = _locate(lat.tobytes(), lon.tobytes(), grid)
    if sst.shape[-2:] != (lat.size, lon.size):
        raise BadFile(f"wrong grid: sst is {sst.shape}, its axes {lat.size} x {lon.size}")
    held = _dates(variables["time"])
    south, north = rows.min(), rows.max() + 1  # one slab: HDF5 is slow at scattered rows
    fields = {}
    for day in days:
        if day in held:
            depth = (0,) if len(sst.shape) == 4 else ()
            slab = np.asarray(sst[(held[day], *depth, slice(south, north))])
            fields[day] = _check(_pack(slab[rows - south][:, columns], sst.attrs))
    title = str(_attribute(attributes, "title", ""))
    return Granule(
        fields=fields,
        preliminary="preliminary" in str(_attribute(attributes, "id", "")).lower(),
        notice=title if "simulated" in title.lower() else "",
        span=" to ".join(sorted({str(min(held)), str(max(held))})),
    )


@contextmanager
def _open(data: bytes | Path) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """Yield the variables and the global attributes of HDF5 or (as ERDDAP sends) classic NetCDF."""
    with data.open("rb") if isinstance(data, Path) else io.BytesIO(data) as stream:
        magic = stream.read(8)
        stream.seek(0)
        if magic == b"\x89HDF\r\n\x1a\n":
            with h5py.File(stream, "r") as file:
                yield file, file.attrs
        elif magic[:3] == b"CDF":
            import xarray as xr

            with xr.open_dataset(stream, engine="scipy", decode_cf=False) as dataset:
                yield dataset.variables, dataset.attrs
        else:
            raise BadFile(f"not a NetCDF file (it begins with {magic!r})" if magic else "empty")


@lru_cache(maxsize=8)
def _locate(lat: bytes, lon: bytes, grid: Grid) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where in the file's axes (float64 as bytes, to be cached) the rows and columns of `grid` lie."""
    return _positions(np.frombuffer(lat), grid.lat, "lat"), _positions(np.frombuffer(lon), grid.lon, "lon")


def _positions(axis: NDArray[np.float64], wanted: NDArray[np.float64], name: str) -> NDArray[np.int64]:
    def cells(degrees: NDArray[np.float64]) -> NDArray[np.int64]:
        half_cells = degrees % 360 * CELLS_PER_DEGREE * 2
        whole = np.rint(half_cells).astype(np.int64)
        return np.where(np.abs(half_cells - whole) < 0.02, whole, -1)

    position = {int(cell): index for index, cell in enumerate(cells(axis))}
    position.pop(-1, None)
    try:
        return np.array([position[int(cell)] for cell in cells(wanted)])
    except KeyError:
        missing = next(w for w, cell in zip(wanted, cells(wanted), strict=True) if int(cell) not in position)
        raise BadFile(f"wrong grid: no cell at {name} {missing:g}") from None


def _dates(time: Any) -> dict[dt.date, int]:
    """Return the position of each date; the hour (noon at NCEI, midnight at PSL) is dropped."""
    units = str(_attribute(time.attrs, "units", ""))
    match = re.match(r"(days|hours|seconds) since (\d+)-(\d+)-(\d+)(?:[T ](\d+):(\d+))?", units)
    if not match:
        raise BadFile(f"time in {units!r}")
    year, month, day, hour, minute = (int(part or 0) for part in match.groups()[1:])
    origin = np.datetime64(dt.datetime(year, month, day, hour, minute))
    seconds = np.asarray(time[:], float) * {"days": 86400, "hours": 3600, "seconds": 1}[match[1]]
    dates = (origin + np.rint(seconds).astype("timedelta64[s]")).astype("datetime64[D]")
    return {date: index for index, date in enumerate(dates.tolist())}


def _pack(values: NDArray[Any], attributes: Mapping[str, Any]) -> Packed:
    """Bring `values` as stored to hundredths of degC; OISST's own packing passes untouched."""
    scale, offset = (float(_attribute(attributes, key, default)) for key, default in _LINEAR)
    fills = [_attribute(attributes, key, np.nan) for key in ("_FillValue", "missing_value")]
    missing = (values == fills[0]) | (values == fills[1])
    if values.dtype == np.int16 and abs(scale - 0.01) < 1e-8 and offset == 0:
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


def _either(variables: Any, names: tuple[str, str]) -> Any:
    return variables[names[0] if names[0] in variables else names[1]]


def _attribute(attributes: Mapping[str, Any], key: str, default: Any) -> Any:
    value = attributes.get(key, default)
    if isinstance(value, np.ndarray):
        value = value.reshape(-1)[0]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
