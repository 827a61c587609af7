"""Reads the columns of files of observations at points, as their centres write them.

A NetCDF file has a row for each value of the temperature: of a list, of a mooring with depths, of profiles, or of
ragged trajectories with the number of values of each. A text file is CSV, with units in the names or below them,
or in the columns of NDBC.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sstcast.errors import SSTCastError, reading
from sstcast.reading.daily_field import NETCDF_SUFFIXES, open_dataset
from sstcast.reading.flags import tell_invalid, valid_range
from sstcast.storage.csv_files import MAX_HEADER, check_not_repeated, opened, read_table

COLUMN_NAMES = {  # what a column holds, and its names in files, in lower case
    "time": ("time", "datetime", "date_time", "date", "timestamp", "obs_time", "juld"),
    "lat": ("lat", "latitude"),
    "lon": ("lon", "longitude", "long", "lng"),
    "sst": (
        "sst",
        "sea_surface_temperature",
        "sea_water_temperature",
        "water_temp",
        "temperature",
        "temp",
        "wtmp",
    ),
    "platform": (
        *("platform", "platform_id", "platform_code", "id", "buoy_id", "wmo", "wmo_id", "callsign"),
        *(
            "platform_number",
            "wmo_platform_code",
            "station",
            "station_id",
            "drifter_id",
            "trajectory_id",
            "trajectory",
        ),
    ),
    "type": ("platform_type", "type"),
    "depth": ("depth", "sst_depth", "z", "deph", "pres", "pressure"),
    "quality": ("quality", "quality_level", "quality_flag", "qc", "sst_qc", "flag"),
}
NEEDED = ("time", "lat", "lon", "sst")
DATE_PARTS = ("year", "month", "day", "hour", "minute", "second")  # of iQuam, in place of `time`
MOST = {"hour": 24, "minute": 60, "second": 61}  # which a part of a time is below; pandas would add a day and more
CLOCK = re.compile(r"[T ][0:.]*[1-9]")  # a time of day after a date, other than midnight
NDBC_DATE_PARTS = {"YY": "year", "YYYY": "year", "MM": "month", "DD": "day", "hh": "hour", "mm": "minute"}
OWN_FLAGS = ("{}_qc", "{}_qc_agg", "qartod_{}", "flg_{}", "{}_flag", "{}_quality")  # of a column of this name
FLAG = re.compile(r"(^|_)(qc|qf|flg|flags?|quality|qartod)(_|$)")
# Meanings of good values: of Copernicus and IOC, of QARTOD, of GHRSST, and of hourly drifters.
GOOD_MEANINGS = {
    *("good", "good_data", "good_value", "probably_good", "probably_good_data", "probably_good_value"),
    *("pass", "passed", "best_quality", "estimate_in_range_uncertainty_in_range"),
}
UNITS_IN_NAME = re.compile(r"(.+?) \((.+)\)")  # as erddapy writes them
ROW_SIZES = ("rowsize", "row_size")  # the number of values of each trajectory
DECIBARS = ("dbar", "dbars", "decibar", "decibars", "db")
LEAST_AIR_PRESSURE = 800.0  # hPa, in columns that state no unit
NO_NUMBERS = ("", "nan", "null", "none", "na", "n/a", "missing", "mm", "-")  # texts that mean no value
GIVE = "give a CSV or NetCDF file with time, lat, lon and sst (docs/evaluation.md)"


@dataclass(frozen=True)
class PointColumns:
    """The columns of a file that are known.

    Attributes:
        table: columns by what they hold, the keys of `COLUMN_NAMES`. Pressures in dbar are depths in metres.
        names: the name of each in the file.
        attributes: `units`, `standard_name` and others of each.
        good: the values of the flag of good temperatures. Without a flag, there are none.
        notes: what was not read: dates, and flags of other columns or of unknown meaning.
    """

    table: pd.DataFrame
    names: dict[str, str]
    attributes: dict[str, Mapping[str, Any]]
    good: tuple[float, ...]
    notes: list[str]


def read_columns(path: Path) -> PointColumns:
    """Read a CSV, NetCDF or Parquet file. Raises SSTCastError if it cannot be read, or lacks a column."""
    return columns_of(path, *raw_columns(path))


def columns_of(
    path: Path,
    raw: pd.DataFrame,
    attributes: Mapping[Any, Mapping[str, Any]],
    needed: Sequence[str] = NEEDED,
    temperature: str = "",
    give: str = GIVE,
) -> PointColumns:
    """Return the known columns of those of a file, in which `temperature` is the one of the temperatures.

    Without that, it is the first with a known name. Raises SSTCastError, which says what to `give`, if one that is
    `needed` is absent, or if one is there several times.
    """
    lower = {str(name).strip().lower(): name for name in raw.columns}
    dates: pd.Series[Any] | None = None  # to which the parts in other columns are added
    added: tuple[str, ...] = ()  # the parts of times in columns of their own
    if set(DATE_PARTS[:3]) <= lower.keys() and not set(COLUMN_NAMES["time"]) & lower.keys():
        parts = {part: pd.to_numeric(raw[lower[part]], errors="coerce") for part in DATE_PARTS if part in lower}
        parts = {
            part: values.where((values >= 0) & (values < MOST.get(part, np.inf))) for part, values in parts.items()
        }
        raw["time"] = pd.to_datetime(pd.DataFrame(parts), errors="coerce")
        lower["time"] = "time"
        added = DATE_PARTS
    names = {key: str(lower[name]) for key in COLUMN_NAMES if (name := first_known(key, lower))}
    names |= {"sst": temperature} if temperature else {}
    if names.get("time", "").lower() == "date" and "hour" in lower:
        dates = raw[names["time"]]
        raw["date"] = _at_hours(dates, raw, lower)
        names["time"], added = "date", DATE_PARTS[3:]
    if absent := [key for key in needed if key not in names]:
        columns = ", ".join(map(str, raw.columns))[:200]
        raise SSTCastError(f"{path}: no column for {', '.join(absent)} among {columns}; {give}")
    check_not_repeated(path, raw.columns, *map(str, names.values()))
    depths = [lower[name] for name in COLUMN_NAMES["depth"] if name in lower]
    names.pop("depth", None)
    for name in depths:
        values = pd.to_numeric(raw[name], errors="coerce")
        if values.notna().any() and _is_depth(str(name), values, attributes.get(name, {})):
            names["depth"] = name
            break
    own = [form.format(names["sst"].lower()) for form in OWN_FLAGS]
    flag = next((lower[name] for name in (*own, *COLUMN_NAMES["quality"]) if name in lower), "")
    names.pop("quality", None)
    good = _good_values(str(flag).lower(), attributes.get(flag, {})) if flag else ()
    if good:
        names["quality"] = flag
    table = pd.DataFrame({key: raw[name] for key, name in names.items()})
    with reading(path, give):
        times = _instants(table["time"]).dt.tz_localize(None)
    is_read = times.notna() if dates is None else _instants(dates).notna()
    written = table["time"] if dates is None else dates
    unread = written[~is_read & written.notna() & (written.astype(str).str.strip() != "")]
    notes = [f"the time {unread.iloc[0]!r} is not read; write it as 2004-01-31T12:00:00"] if len(unread) else []
    for name in (lower[part] for part in added if part in lower):
        cells = raw[name][times.isna() & raw[name].notna() & pd.to_numeric(raw[name], errors="coerce").isna()]
        cells = cells.astype(str).str.strip()
        if (cells := cells[~cells.str.lower().isin(NO_NUMBERS)]).size:
            notes.append(f"the time is not read where {name} is {cells.iloc[0]!r}; write a number")
    if others := [str(name) for key, name in lower.items() if FLAG.search(key) and name != names.get("quality")]:
        notes.append(f"flags that are not read: {', '.join(others)}")
    table["time"] = times
    for key in ("lat", "lon", "sst", "depth", "quality"):
        if key in table:
            numbers = pd.to_numeric(table[key], errors="coerce")
            texts = table[key][numbers.isna() & table[key].notna()].astype(str).str.strip()
            if key in needed and (texts := texts[~texts.str.lower().isin(NO_NUMBERS)]).size:
                notes.append(f"{names[key]} {texts.iloc[0]!r} is no number; write degrees, such as -42.35")
            table[key] = numbers
    return PointColumns(table, names, {key: attributes.get(name, {}) for key, name in names.items()}, good, notes)


def _at_hours(dates: "pd.Series[Any]", raw: pd.DataFrame, lower: Mapping[str, Any]) -> "pd.Series[Any]":
    """Return instants in UTC: dates alone with the hours, minutes and seconds of columns beside them.

    A date with a time of day stays, because such columns repeat its parts.
    """
    instants = _instants(dates)
    is_alone = ~dates.astype(str).str.strip().str.contains(CLOCK)
    for part in DATE_PARTS[3:]:
        if part in lower:
            values = pd.to_numeric(raw[lower[part]], errors="coerce")
            values = values.where((values >= 0) & (values < MOST[part])).where(is_alone, 0)
            instants += pd.to_timedelta(values, unit=part[0])
    return instants


def _instants(times: "pd.Series[Any]") -> "pd.Series[Any]":
    text = times.astype(str) if pd.api.types.is_integer_dtype(times) else times
    return pd.to_datetime(text, errors="coerce", utc=True, format="ISO8601")


def first_known(key: str, lower: Mapping[str, Any]) -> str:
    """Return the first of the names of a column that a file has, in lower case, or "" if it has none."""
    skin = [name for name in lower if "skin" in name] if key == "sst" else []
    return next((name for name in (*COLUMN_NAMES[key], *skin) if name in lower), "")


def raw_columns(path: Path, give: str = GIVE) -> tuple[pd.DataFrame, dict[Any, Mapping[str, Any]]]:
    """Return the columns of a CSV, NetCDF or Parquet file, and the attributes that it states of each.

    Raises SSTCastError, which says what to `give`, if it cannot be read.
    """
    with reading(path, give):
        return with_units(*_stored_columns(path))


def _stored_columns(path: Path) -> tuple[pd.DataFrame, dict[Any, Mapping[str, Any]]]:
    suffix = path.suffix.lower()
    if suffix in NETCDF_SUFFIXES:
        with open_dataset(path) as dataset:
            return rows_of(dataset, path), {str(name): field.attrs for name, field in dataset.variables.items()}
    if suffix in (".parquet", ".pq"):
        if find_spec("pyarrow") is None:
            raise SSTCastError(f"{path}: reading it needs pyarrow; run: pip install 'sstcast[parquet]'")
        return pd.read_parquet(path, engine="pyarrow"), {}
    with opened(path) as lines:
        header, second = (lines.readline(MAX_HEADER).lstrip("#").split() for _ in range(2))
    if "WTMP" in header:  # of NDBC, whose header is a comment, as the units below it are
        raw = pd.read_csv(
            path, comment="#", sep=r"\s+", names=header, skiprows=1, low_memory=False, dtype={"hhmm": str}
        )
        if "hhmm" in raw:  # of drifters
            raw[["hh", "mm"]] = raw.pop("hhmm").str.extract(r"^(\d\d)(\d\d)$").to_numpy()
        units = dict(zip(header, second, strict=False))
        return raw.rename(columns=NDBC_DATE_PARTS), {name: {"units": unit} for name, unit in units.items()}
    return read_table(path).reset_index(drop=True), {}


def rows_of(dataset: xr.Dataset, path: Path, temperature: str = "") -> pd.DataFrame:
    """Return a row for each value of the temperature, with all that its dimensions or its ragged row give it.

    It is called `temperature`, or by the first known name. A line counts values outside the range that it states,
    which are missing. `path` is for that line.
    """
    fields = {str(name): field for name, field in dataset.variables.items()}
    sst = temperature.lower() or first_known("sst", {name.lower(): name for name in fields})
    lower = {name.lower(): name for name in fields}
    if sst and (valid := valid_range(dataset[lower[sst]])) is not None:
        fields[lower[sst]] = valid(dataset[lower[sst]].load().chunk()).variable.compute()
        tell_invalid(path, [valid])
    main = fields[lower[sst]] if sst else max(fields.values(), key=lambda field: field.size)
    sizes = dict(zip(main.dims, main.shape, strict=True))
    is_count = {name: name.lower() in ROW_SIZES or "sample_dimension" in fields[name].attrs for name in fields}
    counts = next((fields[name] for name, found in is_count.items() if found), None)
    columns = {}
    for name, field in fields.items():
        if counts is not None and field.dims == counts.dims and field.dims != main.dims:
            field = xr.Variable(main.dims, np.repeat(field.values, counts.values.astype(int)))
        elif field.size == 1:
            field = xr.Variable((), field.values.reshape(()))
        elif field.ndim == 1 and field.dims[0] not in sizes:  # Copernicus gives each axis a dimension of its own
            same = [dim for dim, size in sizes.items() if size == field.size]
            field = xr.Variable(same[:1], field.values) if same else field
        if {*field.dims} <= sizes.keys():
            columns[name] = _text(field.set_dims(sizes).transpose(*sizes).values.ravel())
    return pd.DataFrame(columns)


def with_units(
    raw: pd.DataFrame, attributes: dict[Any, Mapping[str, Any]]
) -> tuple[pd.DataFrame, dict[Any, Mapping[str, Any]]]:
    """Take units out of the names of columns, or out of the first row, which is the second line of ERDDAP."""
    found = {name: match for name in raw.columns if (match := UNITS_IN_NAME.fullmatch(str(name)))}
    raw = raw.rename(columns={name: match[1] for name, match in found.items()})
    units = {match[1]: match[2] for match in found.values()}
    times = [name for name in raw.columns if str(name).strip().lower() in COLUMN_NAMES["time"]]
    if len(raw) and any(str(raw[name].iloc[0]).strip().upper() == "UTC" for name in times):
        units |= {name: str(value) for name, value in raw.iloc[0].items() if pd.notna(value)}
        raw = raw.iloc[1:].reset_index(drop=True)
    return raw, attributes | {name: {"units": unit} for name, unit in units.items()}


def _is_depth(name: str, values: "pd.Series[float]", attributes: Mapping[str, Any]) -> bool:
    """Return whether a column is a depth, or a pressure of the water, of which 1 dbar is 1 m."""
    units = str(attributes.get("units", "")).lower()
    if not name.lower().startswith("pres"):
        return True
    return units in DECIBARS if units else float(values.min()) < LEAST_AIR_PRESSURE


def _good_values(name: str, attributes: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the values of a flag that mean a good temperature, by what it states or by the use of its name.

    Return none if it states meanings of which none is known.
    """
    if "flag_meanings" in attributes:
        meanings = re.split(r"[\s,]+", str(attributes["flag_meanings"]).lower().replace("-", "_").strip())
        stated = attributes.get("flag_values", ())
        values = re.split(r"[\s,]+", stated.strip()) if isinstance(stated, str) else np.atleast_1d(stated)
        if len(meanings) != len(values):
            return ()
        numbers = pd.to_numeric(pd.Series(values), errors="coerce")
        return tuple(float(n) for n, meaning in zip(numbers, meanings, strict=True) if meaning in GOOD_MEANINGS)
    if "qartod" in name or name.endswith("_agg"):
        return (1,)
    return (5,) if name == "quality_level" or name.startswith("flg_") else (1, 2)


def _text(values: NDArray[Any]) -> NDArray[Any]:
    """Return bytes as text, and other values unchanged."""
    return np.char.decode(values, "utf-8", "replace") if values.dtype.kind == "S" else values
