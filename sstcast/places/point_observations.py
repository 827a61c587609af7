"""Reads observations of sea surface temperature at points: of drifters, moorings, floats and ships.

A file has a time, a latitude, a longitude and a temperature for each observation, and perhaps platform, type of
platform, depth and quality flag. `point_files.COLUMN_NAMES` lists the names known, of iQuam (Xu and Ignatov 2014,
J. Atmos. Oceanic Technol. 31), of the Global Drifter Program, Argo, Copernicus and common tables.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sstcast.errors import SSTCastError, counted
from sstcast.log import LOG
from sstcast.places.point_files import NEEDED, read_columns
from sstcast.reading.fields import PLAUSIBLE
from sstcast.reading.units import celsius
from sstcast.storage.artefacts import digest

ENTRY = ("file", "error", "left_out")  # what scores tell of observations beside their tables
IQUAM_TYPES = (
    *("unknown", "ship", "drifter", "tropical mooring", "coastal mooring"),
    *("argo", "high-resolution drifter", "imos", "crw buoy"),
)
DRIFTER_ERROR = 0.3  # degC, of a drifter and of its place in the cell and the day
MAX_DEPTH_METRES = 10.0  # metres, below which a temperature is not of the surface
PROFILE_RANGE = 0.5  # degC, by which values of one platform, place and time differ if they are of several depths
PROFILES = 0.02  # share of such places and times, from which on a file without depths is refused


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

        Raises SSTCastError if the file cannot be read, lacks a column, holds skin temperatures or profiles
        without depths, or no observation is left.
        """
        columns = read_columns(path)
        table, names, attributes = columns.table, columns.names, columns.attributes["sst"]
        if "skin" in str(attributes.get("standard_name", "")) or "skin" in names["sst"].lower():
            raise SSTCastError(
                f"{path}: {names['sst']} is a skin temperature, which differs from that of the water by some "
                "tenths of a degree; give temperatures measured in the water"
            )
        factor, zero = _conversion(table["sst"], units or str(attributes.get("units", "")), path, names["sst"])
        table["sst"] = table["sst"] * factor + zero
        checks: dict[str, Any] = {
            "without a time, place or value": table[list(NEEDED)].notna().all(axis=1),
            f"outside {PLAUSIBLE[0]:g} to {PLAUSIBLE[1]:g} °C": table["sst"].between(*PLAUSIBLE),
        }
        if "quality" in table:
            good = " or ".join(f"{flag:g}" for flag in columns.good)
            checks[f"with a quality flag other than {good}"] = table["quality"].isin(columns.good)
        if "depth" in table:
            checks[f"deeper than {MAX_DEPTH_METRES:g} m"] = ~(table["depth"].abs() > MAX_DEPTH_METRES)
        if hours is not None:
            local = (table["time"].dt.hour + table["time"].dt.minute / 60 + table["lon"] / 15) % 24
            length = (hours[1] - hours[0]) % 24 or 24  # from 0 to 24, all hours
            checks[f"outside {hours[0]:g} to {hours[1]:g} h local time"] = (local - hours[0]) % 24 < length
        if platforms:
            kinds = _kinds(table)
            words = [name.strip() for name in platforms]
            chosen = np.logical_or.reduce([kinds.str.contains(word, case=False, regex=False) for word in words])
            checks[f"of other platforms than {', '.join(platforms)}"] = chosen
        table, notes = _kept(table, checks)
        notes += columns.notes
        if "platform" not in table:
            table["platform"] = "unknown"
            notes.append("no column names the platform, so there is no interval; call it `platform`")
        table["platform"] = table["platform"].astype(str)
        _check_depths(table, path)
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

    def entry(self, left_out: dict[str, int]) -> dict[str, Any]:
        """Return the file, the error of an observation and what was left out, for the scores.

        `left_out` counts those on the days of the forecasts, and of these by reason those that were left out.
        """
        on_days, *reasons = left_out.items() or [("", len(self.table))]
        counts = {"on other days": len(self.table) - on_days[1], **dict(reasons)}
        told = [f"{count:,} observations left out: {words}" for words, count in counts.items() if count]
        return {"file": str(self.path), "error": self.error, "left_out": [*self.notes, *told]}

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
        if dots and 0 <= hours[0] < 24 and 0 <= hours[1] <= 24 and hours[0] != hours[1]:
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


def _check_depths(table: pd.DataFrame, path: Path) -> None:
    """Raise SSTCastError if values without a depth look like profiles, of which only the top is of the surface."""
    unknown = table[table["depth"].isna()] if "depth" in table else table
    values = unknown.groupby(["platform", "lat", "lon", "time"])["sst"]
    share = float((values.max() - values.min() > PROFILE_RANGE).mean()) if len(unknown) else 0.0
    if share > PROFILES:
        raise SSTCastError(
            f"{path}: at {share:.0%} of its places and times, values of one platform differ by more than "
            f"{PROFILE_RANGE:g} °C, as those of several depths do; give their depths as a column `depth` in metres"
        )


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
