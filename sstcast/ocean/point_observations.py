"""Reads observations of sea surface temperature at points: of drifters, moorings, floats and ships.

A CSV or NetCDF file has a time, a latitude, a longitude and a temperature for each observation, and perhaps
platform, type of platform, depth and quality flag. `COLUMN_NAMES` lists the names known, of iQuam (Xu and Ignatov
2014, J. Atmos. Oceanic Technol. 31), of the Global Drifter Program and of common tables. Parquet needs the extra
of this name.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sstcast.errors import SSTCastError, counted, reading
from sstcast.log import LOG
from sstcast.ocean.fields import PLAUSIBLE
from sstcast.ocean.reading import NETCDF_SUFFIXES, open_dataset
from sstcast.ocean.units import celsius
from sstcast.storage.artefacts import digest

COLUMN_NAMES = {  # what a column holds, and its names in files, in lower case
    "time": ("time", "datetime", "date_time", "date", "timestamp", "obs_time"),
    "lat": ("lat", "latitude"),
    "lon": ("lon", "longitude", "long"),
    "sst": (
        "sst",
        "sea_surface_temperature",
        "sea_water_temperature",
        "water_temp",
        "temperature",
        "temp",
        "wtmp",
    ),
    "platform": ("platform", "platform_id", "platform_code", "id", "buoy_id", "wmo", "wmo_id", "callsign"),
    "type": ("platform_type", "type"),
    "depth": ("depth", "sst_depth", "z"),
    "quality": ("quality", "quality_level", "quality_flag", "qc", "sst_qc", "flag"),
}
NEEDED = ("time", "lat", "lon", "sst")
DATE_PARTS = ("year", "month", "day", "hour", "minute", "second")  # of iQuam, in place of `time`
IQUAM_TYPES = (
    *("unknown", "ship", "drifter", "tropical mooring", "coastal mooring"),
    *("argo", "high-resolution drifter", "imos", "crw buoy"),
)
# The flags of good values: iQuam's and GHRSST's best level, and IOC's good and probably good.
GOOD = {"quality_level": (5,), **dict.fromkeys(("quality", "quality_flag", "qc", "sst_qc", "flag"), (1, 2))}
DRIFTER_ERROR = 0.3  # degC, of a drifter and of its place in the cell and the day
MAX_DEPTH_METRES = 10.0  # metres, below which a temperature is not of the surface
GIVE = "give a CSV or NetCDF file with time, lat, lon and sst (docs/evaluation.md)"
DAY = np.timedelta64(1, "D")


@dataclass(frozen=True)
class PointObservations:
    """Observations at points that passed the checks of `read`.

    Attributes:
        path: the file.
        table: columns `time`, `lat`, `lon`, `sst` in degC and `platform`, a row for each observation.
        notes: how many observations were left out, and why.
        error: standard deviation of an observation about the mean of its cell and day, in degC.
        recipe: the file and the choices that `read` was given.
    """

    path: Path
    table: pd.DataFrame
    notes: tuple[str, ...]
    error: float
    recipe: dict[str, Any]

    @classmethod
    def read(
        cls,
        path: Path,
        platforms: Sequence[str] = (),
        hours: tuple[float, float] | None = None,
        units: str | None = None,
        error: float = DRIFTER_ERROR,
    ) -> "PointObservations":
        """Read a file, and leave out what is missing, flagged, repeated, deep, implausible or not chosen.

        Args:
            path: a CSV, NetCDF or Parquet file.
            platforms: names, types or parts of them, such as `drifter`, by default all.
            hours: local solar time, from the first hour up to the second, which may be after midnight.
            units: the unit of the temperatures, in place of what the file states.
            error: standard deviation of an observation about the mean of its cell and day, in degC.

        Raises SSTCastError if the file cannot be read, lacks a column, holds skin temperatures, or no observation
        is left.
        """
        table, names, stated = _read(path)
        if "skin" in stated["standard_name"] or "skin" in names["sst"]:
            raise SSTCastError(
                f"{path}: {names['sst']} is a skin temperature, which differs from that of the water by some "
                "tenths of a degree; give temperatures measured in the water"
            )
        factor, zero = _conversion(table["sst"], units or stated["units"], path, names["sst"])
        table["sst"] = table["sst"] * factor + zero
        checks: dict[str, Any] = {
            "without a time, place or value": table[list(NEEDED)].notna().all(axis=1),
            f"outside {PLAUSIBLE[0]:g} to {PLAUSIBLE[1]:g} °C": table["sst"].between(*PLAUSIBLE),
        }
        if "quality" in table:
            good = GOOD[names["quality"].lower()]
            checks[f"with a quality flag other than {' or '.join(map(str, good))}"] = table["quality"].isin(good)
        if "depth" in table:
            checks[f"deeper than {MAX_DEPTH_METRES:g} m"] = ~(table["depth"].abs() > MAX_DEPTH_METRES)
        if hours is not None:
            local = (table["time"].dt.hour + table["time"].dt.minute / 60 + table["lon"] / 15) % 24
            checks[f"outside {hours[0]:g} to {hours[1]:g} h local time"] = (local - hours[0]) % 24 < (
                hours[1] - hours[0]
            ) % 24
        if platforms:
            kinds = _kinds(table)
            words = [name.strip() for name in platforms]
            chosen = np.logical_or.reduce([kinds.str.contains(word, case=False, regex=False) for word in words])
            checks[f"of other platforms than {', '.join(platforms)}"] = chosen
        table, notes = _kept(table, checks)
        if "platform" not in table:
            table["platform"] = "unknown"
        table["platform"] = table["platform"].astype(str)
        whole = table[[*NEEDED, "platform"]]
        repeated = whole.duplicated()
        table, repeats = _kept(whole, {"repeated": ~repeated})
        notes += repeats
        if table.empty:
            raise SSTCastError(f"{path}: no observation is left: {'; '.join(notes)}; choose others")
        options = {"platforms": list(platforms), "hours": list(hours or ()), "units": units, "error": error}
        recipe = {"file": str(path.absolute()), "digest": digest(path), **options}
        return cls(path, table.reset_index(drop=True), tuple(notes), error, recipe)

    @classmethod
    def again(cls, recipe: dict[str, Any]) -> "PointObservations":
        """Read the observations of a recipe again. Raises SSTCastError if that is no longer possible."""
        first, *last = recipe["hours"] or [None]
        hours = None if first is None else (first, last[0])
        return cls.read(Path(recipe["file"]), recipe["platforms"], hours, recipe["units"], recipe["error"])

    @property
    def described(self) -> dict[str, Any]:
        """The file, the error of an observation and what was left out, for the scores."""
        return {"file": str(self.path), "error": self.error, "left_out": list(self.notes)}

    def tell(self) -> None:
        """Log how many observations there are, and how many were left out."""
        count = counted(self.table["platform"].nunique(), "platform")
        LOG.info(f"{self.path}: {len(self.table):,} observations of {count}")
        for note in self.notes:
            LOG.info(f"{self.path}: {note}")


def parse_hours(text: str) -> tuple[float, float]:
    """Parse hours of the day such as `20..6`. Raises SSTCastError for any other form."""
    first, dots, last = text.partition("..")
    try:
        hours = float(first), float(last)
        if dots and all(0 <= hour <= 24 for hour in hours) and hours[0] != hours[1]:
            return hours
    except ValueError:
        pass
    raise SSTCastError(f"--hours {text}: write the first and the last hour of local time, for instance 20..6")


def _kept(table: pd.DataFrame, checks: dict[str, Any]) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows that pass all checks, and how many each check leaves out of those that the others kept."""
    notes, kept = [], np.ones(len(table), bool)
    for words, passed in checks.items():
        left_out = int((kept & ~np.asarray(passed)).sum())
        kept &= np.asarray(passed)
        if left_out:
            notes.append(f"{left_out:,} observations left out: {words}")
    return table[kept].copy(), notes


def _kinds(table: pd.DataFrame) -> "pd.Series[str]":
    """Return name and type of the platform of each row, as text."""
    text = table["platform"].astype(str) if "platform" in table else pd.Series("", table.index)
    if "type" not in table:
        return text
    if pd.api.types.is_numeric_dtype(table["type"]):
        numbers = table["type"].fillna(0).astype(int).clip(0, len(IQUAM_TYPES) - 1)
        return text + " " + pd.Series(np.array(IQUAM_TYPES)[numbers], table.index)
    return text + " " + table["type"].astype(str)


def _conversion(values: Any, units: str, path: Path, name: str) -> tuple[float, float]:
    """Return the factor and zero of the stated unit, or, without one, of degC or kelvin by the median."""
    if not units:
        units = "K" if float(np.nanmedian(values)) > 2 * PLAUSIBLE[1] else "degC"
        LOG.info(f"{path}: {name} states no unit; by its values it is in {units}")
    return celsius(units, path, name, "--observation-units")


def _read(path: Path) -> tuple[pd.DataFrame, dict[str, str], dict[str, str]]:
    """Return the known columns, the name of each in the file, and attributes of the temperatures."""
    suffix = path.suffix.lower()
    attributes: dict[str, Any] = {}
    with reading(path, GIVE):
        if suffix in NETCDF_SUFFIXES:
            with open_dataset(path) as dataset:
                fields = {str(name): field for name, field in dataset.variables.items() if field.ndim == 1}
                length = max((field.size for field in fields.values()), default=0)
                fields = {name: field for name, field in fields.items() if field.size == length}
                attributes = {name: field.attrs for name, field in fields.items()}
                raw = pd.DataFrame({name: _text(np.asarray(field.values)) for name, field in fields.items()})
        elif suffix in (".parquet", ".pq"):
            if find_spec("pyarrow") is None:
                raise SSTCastError(f"{path}: reading it needs pyarrow; run: pip install 'sstcast[parquet]'")
            raw = pd.read_parquet(path, engine="pyarrow")
        else:
            raw = pd.read_csv(path, comment="#", skipinitialspace=True, low_memory=False)
    lower = {str(name).strip().lower(): name for name in raw.columns}
    second = {}
    time_name = next((lower[name] for name in COLUMN_NAMES["time"] if name in lower), None)
    if len(raw) and time_name is not None and str(raw[time_name].iloc[0]).strip().upper() == "UTC":  # of ERDDAP
        second = {name: str(raw[name].iloc[0]) for name in raw.columns}
        raw = raw.iloc[1:].reset_index(drop=True)
    names = {
        key: str(lower[name])
        for key, known in COLUMN_NAMES.items()
        for name in [next((name for name in known if name in lower), "")]
        if name
    }
    if "time" not in names and set(DATE_PARTS[:3]) <= lower.keys():
        parts = {part: raw[lower[part]] for part in DATE_PARTS if part in lower}
        raw["time"] = pd.to_datetime(pd.DataFrame(parts), errors="coerce")
        names["time"] = "time"
    skin = next((name for name in lower if "skin" in name), None)
    if "sst" not in names and skin is not None:
        names["sst"] = str(lower[skin])
    if absent := [key for key in NEEDED if key not in names]:
        columns = ", ".join(map(str, raw.columns))[:200]
        raise SSTCastError(f"{path}: no column for {', '.join(absent)} among {columns}; {GIVE}")
    table = pd.DataFrame({key: raw[name] for key, name in names.items()})
    with reading(path, GIVE):
        times = pd.to_datetime(table["time"], errors="coerce", utc=True, format="ISO8601")
        table["time"] = times.dt.tz_localize(None)
    for key in ("lat", "lon", "sst", "depth", "quality"):
        if key in table:
            table[key] = pd.to_numeric(table[key], errors="coerce")
    of_sst = attributes.get(names["sst"], {})
    stated = {
        "units": str(of_sst.get("units", "") or second.get(names["sst"], "")),
        "standard_name": str(of_sst.get("standard_name", "")),
    }
    return table, names, stated


def _text(values: NDArray[Any]) -> NDArray[Any]:
    """Return bytes as text, and other values unchanged."""
    return np.char.decode(values, "utf-8", "replace") if values.dtype.kind == "S" else values
