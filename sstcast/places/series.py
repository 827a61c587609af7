"""Reads daily temperatures at places, such as a logger's, from a table, a NetCDF file or an xarray object.

A table has a column of dates and one or more of temperatures. A NetCDF file, a Zarr store or an object holds a
series if its temperatures depend on time alone, or if its `featureType` is `timeSeries`.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from sstcast.config import FieldSource
from sstcast.errors import SSTCastError, counted
from sstcast.log import LOG
from sstcast.places.point_files import COLUMN_NAMES, columns_of, first_known, raw_columns, rows_of
from sstcast.reading.daily_field import ZARR, open_dataset
from sstcast.reading.fields import PLAUSIBLE
from sstcast.reading.levels import is_vertical
from sstcast.reading.raw import is_raw_store
from sstcast.reading.units import celsius, is_temperature
from sstcast.reading.valid_days import days_of
from sstcast.reading.xarray_objects import is_object, open_object
from sstcast.storage.csv_files import MAX_HEADER
from sstcast.storage.paths import is_url

TABLES = (".csv", ".txt", ".tsv", ".parquet", ".pq")
GIVE = "give a table with the columns `time` (2004-01-31) and `temp`, one value a day (docs/heatwaves.md)"
ZONE = re.compile(r"(?<=:\d\d)(\.\d+)?\s*(Z|[+-]\d\d:?\d\d)$")  # after a time, so that dates stay
LEAST_KELVIN = 200.0
LEAST_FAHRENHEIT = (
    28.0  # degF, about the freezing point of sea water; a sea that is always as warm in degC is rare
)
SAME_PLACE = 0.1  # degrees, by which the positions of a mooring may differ
HOBO = "Plot Title"  # begins the exports of HOBOware


def series_of(source: FieldSource) -> xr.DataArray | None:
    """Return the daily temperatures at places, `sst(time, place)` in degC, or None if the source is a grid.

    Every day from the first to the last has a row, NaN where there is no value or its flag is not good. The
    attribute `title` names the file. If it states positions, `lat(place)` and `lon(place)` are those of the places
    in degrees, NaN where it states none or several more than `SAME_PLACE` apart.

    Dates are those that are written, whatever their zone.

    Raises SSTCastError if the file cannot be read, a date is given twice or not read, the unit is not known, or a
    temperature is none of the sea.
    """
    path = source.path
    if path.suffix.lower() in TABLES and not is_object(str(path)):
        if path.is_file() and HOBO in _first_line(path):
            raise SSTCastError(
                f"{path}: is an export of HOBOware, with a title and dates whose order is not known; {GIVE}"
            )
        raw, attributes = raw_columns(path, GIVE)
        if not first_known("time", {str(name).lower(): name for name in raw}):
            raw = raw.rename(columns={name: "time" for name in raw if str(name).strip().lower() == "t"})
        title = path.name
    elif (dataset := _dataset_of_series(source)) is not None:
        with dataset:
            raw = rows_of(dataset, str(dataset.attrs["temperature"]))
            attributes = {str(name): of.attrs for name, of in dataset.variables.items()}
        title = str(dataset.attrs.get("title", "")) or path.name
    else:
        return None
    if given := [key for key in ("region", "gaps") if key in source.given]:
        raise SSTCastError(f"--{given[0]}: {path} is a series, whose days are all read as they are; leave it out")
    lower = {str(name).strip().lower(): name for name in raw}
    if time := first_known("time", lower):
        raw[lower[time]] = _without_zone(raw[lower[time]])
    columns = {name: _of_column(source, raw, attributes, name) for name in _temperatures(source, raw, attributes)}
    several = len(columns) > 1
    parts = []
    for name, table in columns.items():
        place = table["platform"].astype(str) if "platform" in table else pd.Series("", table.index)
        place = (place + f" {name}" * several).str.strip()
        parts.append(table.assign(place=place.where(place != "", "series" if is_object(str(path)) else path.stem)))
    table = pd.concat(parts)
    repeated = table[table.duplicated(["place", "day"])]
    if len(repeated):
        raise SSTCastError(
            f"{path}: {repeated['day'].iloc[0]:%Y-%m-%d} is given twice; give one value a day, of hours their mean"
        )
    sst = table.pivot(index="day", columns="place", values="sst")[table["place"].unique()]
    known = sst.dropna(how="all").index
    if known.empty:
        raise SSTCastError(f"{path}: holds no temperature; {GIVE}")
    whole = sst.reindex(pd.date_range(known[0], known[-1], unit="ns"))
    jumps = whole.diff().abs().stack()
    if len(jumps):
        day, place = jumps.idxmax()
        LOG.info(f"{path}: the largest change in a day is {jumps.max():.1f} degC, to {day:%Y-%m-%d} at {place}")
    if missing := int(whole.isna().sum().sum()):
        LOG.info(f"{path}: {counted(missing, 'day')} without a value stay missing")
    positions = {}
    if {"lat", "lon"} <= {*table}:
        by_place = [of[["lat", "lon"]].dropna() for _, of in table.groupby("place", sort=False)]
        positions = {axis: ("place", [_position(of, axis) for of in by_place]) for axis in ("lat", "lon")}
    return xr.DataArray(
        whole.to_numpy(np.float32),
        {"time": whole.index.values, "place": whole.columns.to_numpy().astype(str), **positions},
        ("time", "place"),
        "sst",
        {"title": title},
    )


def _position(known: pd.DataFrame, axis: str) -> float:
    """Return the mean `lat` or `lon` of rows, NaN of none or if they lie more than `SAME_PLACE` apart."""
    if not len(known):
        return np.nan
    first = known.iloc[0]
    apart = known - first
    apart["lon"] = (apart["lon"] + 180) % 360 - 180
    is_one = (apart.max() - apart.min() <= SAME_PLACE).all()
    return float(first[axis] + apart[axis].mean()) if is_one else np.nan


def _dataset_of_series(source: FieldSource) -> xr.Dataset | None:
    """Return a dataset whose temperatures depend on time and perhaps a station alone, with its days, or None.

    The attribute `temperature` names them, and the coordinate `platform` the stations: by the variable with their
    names (CF, section 9.5), a known column, or the numbers of their dimension. A file that cannot be read is left
    to the reader of grids.
    """
    path = source.path
    if is_object(str(path)):
        dataset = open_object(path)
    elif (
        is_url(source.source)
        or not path.exists()
        or is_raw_store(path)
        or (path.is_dir() and not any((path / name).exists() for name in ZARR))
    ):
        return None
    else:
        try:
            dataset = open_dataset(path)
        except SSTCastError:
            return None
    lower = {str(name).lower(): str(name) for name in dataset.variables}
    by_unit = (str(n) for n, of in dataset.data_vars.items() if is_temperature(str(of.attrs.get("units", ""))))
    name = source.variable or lower.get(first_known("sst", lower)) or next(by_unit, "")
    time = lower.get(first_known("time", lower), "")
    if name in dataset.variables and time in dataset[name].coords and dataset[time].ndim == 1:
        along = dataset[time].dims[0]
        others = [dim for dim, size in dataset[name].sizes.items() if size > 1 and dim != along]
        stations = str(dataset.attrs.get("featureType", "")).lower() == "timeseries"
        if along in dataset[name].dims and len(others) <= stations:
            days, notes = days_of(dataset[time], dataset, path)
            for note in notes:
                LOG.info(f"{path}: {note}")
            dataset = dataset.assign_coords({time: (along, days)}).assign_attrs(temperature=name)
            names = _names_of_stations(dataset, others, lower.get(first_known("platform", lower), ""))
            return dataset if names is None else dataset.assign_coords(platform=names)
    dataset.close()
    return None


def _names_of_stations(dataset: xr.Dataset, others: list[Any], known: str) -> xr.Variable | None:
    """Return the names of stations along the dimension, if any, in `others`; None if those that are `known` do."""
    named = [of for of in dataset.variables.values() if of.attrs.get("cf_role") == "timeseries_id"]
    if named:
        return named[0].to_base_variable()
    if not others or (known and others[0] in dataset[known].dims) or is_vertical(others[0], dataset[others[0]]):
        return None
    return dataset[others[0]].variable.to_base_variable()


def _first_line(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as lines:
        return lines.readline(MAX_HEADER)


def _without_zone(times: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return times as they are written, without the zone that follows."""
    if isinstance(times.dtype, pd.DatetimeTZDtype):
        return times.dt.tz_localize(None)
    if pd.api.types.is_numeric_dtype(times) or pd.api.types.is_datetime64_dtype(times):
        return times
    return times.where(times.isna(), times.astype(str).str.strip().str.replace(ZONE, "", regex=True))


def _temperatures(
    source: FieldSource, raw: pd.DataFrame, attributes: Mapping[Any, Mapping[str, Any]]
) -> list[str]:
    """Return the names of the columns of temperatures: the chosen one, or known ones, or by units."""
    lower = {str(name).strip().lower(): str(name) for name in raw}
    columns = ", ".join(map(str, raw.columns))[:200]
    if source.variable is not None:
        if source.variable.lower() not in lower:
            raise SSTCastError(f"{source.path}: has no column {source.variable} among {columns}")
        return [lower[source.variable.lower()]]
    known = [lower[name] for name in COLUMN_NAMES["sst"] if name in lower]
    known = known or [
        name for name in lower.values() if is_temperature(str(attributes.get(name, {}).get("units", "")))
    ]
    if not known:
        raise SSTCastError(
            f"{source.path}: no column of temperatures is known among {columns}; name it with --variable"
        )
    return known


def _of_column(
    source: FieldSource, raw: pd.DataFrame, attributes: Mapping[Any, Mapping[str, Any]], name: str
) -> pd.DataFrame:
    """Return `sst` in degC, `day` and perhaps `platform` of a column of temperatures."""
    path = source.path
    columns = columns_of(path, raw, attributes, ("time", "sst"), name, GIVE)
    table = columns.table
    if (undated := table["time"].isna() & table["sst"].notna()).any():
        notes = [note for note in columns.notes if note.startswith("the time")] or ["a row has no date"]
        raise SSTCastError(f"{path}: {notes[0]} ({counted(int(undated.sum()), 'row')})")
    for note in columns.notes:
        LOG.info(f"{path}: {note}")
    if "quality" in table:
        flagged = ~table["quality"].isin(columns.good) & table["sst"].notna()
        table["sst"] = table["sst"].where(~flagged)
        if flagged.any():
            LOG.info(f"{path}: {counted(int(flagged.sum()), 'value')} of {name} flagged as not good are left out")
    units = source.units or str(columns.attributes["sst"].get("units", ""))
    factor, zero = celsius(units or _unit_of(table["sst"], path, name), path, name, "--units")
    table = table.assign(sst=table["sst"] * factor + zero, day=table["time"].dt.floor("D"))
    if (outside := table["sst"].notna() & ~table["sst"].between(*PLAUSIBLE)).any():
        first = table[outside].iloc[0]
        raise SSTCastError(
            f"{path}: {name} is {first['sst']:g} degC on {first['day']:%Y-%m-%d}; "
            "leave cells without a value empty, or give --units if the unit is another"
        )
    return table[table["time"].notna()]


def _unit_of(values: "pd.Series[float]", path: Path, name: str) -> str:
    """Return the unit of temperatures that state none: K or degC. Raises SSTCastError if they could be in degF."""
    lowest = float(values.min())
    if lowest > LEAST_KELVIN:
        return "K"
    if lowest >= LEAST_FAHRENHEIT:
        raise SSTCastError(f"{path}: {name} states no unit and could be in degF; give --units degC or degF")
    return "degC"
