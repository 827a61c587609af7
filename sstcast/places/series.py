"""Reads daily temperatures at places, such as a logger's, from a table, a NetCDF file or an xarray object.

A table has a column of dates and one or more of temperatures. A NetCDF file, a Zarr store or an object holds a
series if its temperatures depend on time alone, or if its `featureType` is `timeSeries`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from sstcast.config import FieldSource
from sstcast.errors import SSTCastError, counted
from sstcast.log import LOG
from sstcast.places.hobo_files import hobo_columns, is_hobo
from sstcast.places.point_files import COLUMN_NAMES, columns_of, first_known, raw_columns, rows_of
from sstcast.reading.daily_field import ZARR, open_dataset
from sstcast.reading.fields import PLAUSIBLE, ZONED, steps_a_day
from sstcast.reading.hours import ZONE, ahead_of_utc, days_of_series
from sstcast.reading.levels import is_vertical
from sstcast.reading.raw import is_raw_store
from sstcast.reading.units import celsius, is_temperature
from sstcast.reading.valid_days import Periods, days_of, periods
from sstcast.reading.xarray_objects import is_object, open_object
from sstcast.storage.csv_files import check_not_repeated, uncompressed
from sstcast.storage.paths import is_url

TABLES = (".csv", ".txt", ".tsv", ".parquet", ".pq")
GIVE = "give a table with the columns `time` (2004-01-31) and `temp` (docs/heatwaves.md)"
LEAST_KELVIN = 200.0
LEAST_FAHRENHEIT = (
    28.0  # degF, about the freezing point of sea water; a sea that is always as warm in degC is rare
)
OF_ZONES = ("units", "time_zone", "timezone")  # attributes that tell the zone of times
SAME_PLACE = 0.1  # degrees, by which the positions of a mooring may differ


def series_of(source: FieldSource) -> xr.DataArray | None:
    """Return the daily temperatures at places, `sst(time, place)` in degC, or None if the source is a grid.

    Every day from the first to the last has a row, NaN where there is no value or its flag is not good. The
    attribute `title` names the file. If it states positions, `lat(place)` and `lon(place)` are those of the places
    in degrees, NaN where it states none or several more than `SAME_PLACE` apart.

    Dates are those that are written, whatever their zone. Several values a day are averaged to days of UTC (see
    `hours.days_of_series`), to which an offset that the file states brings them.

    Raises SSTCastError if the file cannot be read, a date is given twice or not read, hours are in local time, the
    unit is not known, or a temperature is none of the sea.
    """
    path = source.path
    if (read := _read(source)) is None:
        return None
    if given := [key for key in ("region", "gaps") if key in source.given]:
        raise SSTCastError(f"--{given[0]}: {path} is a series, whose days are all read as they are; leave it out")
    temperatures = _temperatures(source, read.raw, read.attributes)
    several = len(temperatures) > 1
    parts = []
    for name in temperatures:
        rows = _of_column(source, read, name)
        if "platform" in rows and (unnamed := rows["platform"].isna() & rows["sst"].notna()).any():
            raise SSTCastError(
                f"{path}: no name of a place for {counted(int(unnamed.sum()), 'value')} of {name}, the first of "
                f"{rows['time'][unnamed].iloc[0]:%Y-%m-%d}; name it, or leave the rows out"
            )
        place = rows["platform"].astype(str) if "platform" in rows else pd.Series("", rows.index)
        place = (place + f" {name}" * several).str.strip()
        parts.append(rows.assign(place=place.where(place != "", read.place), name=name))
    rows = pd.concat(parts)
    by_place = dict(tuple(rows.groupby("place", sort=False)))
    sst = pd.DataFrame({place: _by_day(of, read, str(place), path) for place, of in by_place.items()})
    known = sst.dropna(how="all").index
    if known.empty:
        raise SSTCastError(f"{path}: holds no temperature; {GIVE}")
    whole = sst.reindex(pd.date_range(known.min(), known.max(), unit="ns"))
    jumps = whole.diff().abs().stack().dropna()
    if len(jumps):
        day, place = jumps.idxmax()
        LOG.info(f"{path}: the largest change in a day is {jumps.max():.1f} degC, to {day:%Y-%m-%d} at {place}")
    if missing := int(whole.isna().sum().sum()):
        LOG.info(f"{path}: {counted(missing, 'day')} without a value stay missing")
    positions = {}
    if {"lat", "lon"} <= {*rows}:
        stated = [of[["lat", "lon"]].dropna() for of in by_place.values()]
        positions = {axis: ("place", [_position(of, axis) for of in stated]) for axis in ("lat", "lon")}
    return xr.DataArray(
        whole.to_numpy(np.float32),
        {"time": whole.index.values, "place": whole.columns.to_numpy().astype(str), **positions},
        ("time", "place"),
        "sst",
        {"title": read.title},
    )


class _Series(NamedTuple):
    """A file or object with series.

    Attributes:
        raw: its columns.
        attributes: what it states of each.
        title: the title of its data.
        place: the name of the place, if no column names it.
        found: of a dataset with several values a day, the periods of its values, as they are written.
    """

    raw: pd.DataFrame
    attributes: dict[Any, Mapping[str, Any]]
    title: str
    place: str
    found: Periods | None = None


def _read(source: FieldSource) -> _Series | None:
    """Read a source, or return None if it is a grid."""
    path = source.path
    if uncompressed(path).suffix.lower() in TABLES and not is_object(str(path)):
        raw, attributes = hobo_columns(path) if is_hobo(path) else raw_columns(path, GIVE)
        if not first_known("time", {str(name).lower(): name for name in raw}):
            check_not_repeated(path, raw.columns, "t")
            short = next((name for name in raw if str(name).strip().lower() == "t"), "time")
            raw, attributes["time"] = raw.rename(columns={short: "time"}), attributes.get(short, {})
        return _Series(raw, attributes, path.name, uncompressed(path).stem)
    if (opened := _dataset_of_series(source)) is None:
        return None
    dataset, found = opened
    with dataset:
        raw = rows_of(dataset, path, str(dataset.attrs["temperature"]))
        attributes = {str(name): of.attrs for name, of in dataset.variables.items()}
    place = "series" if is_object(str(path)) else path.stem
    return _Series(raw, attributes, str(dataset.attrs.get("title", "")) or path.name, place, found)


def _by_day(rows: pd.DataFrame, read: _Series, place: str, path: Path) -> "pd.Series[float]":
    """Return the temperatures of a place by day, of several values a day the means of days of UTC.

    Raises SSTCastError if a day is given twice, or the hours are not those of UTC or of a stated offset.
    """
    written = rows["time"].to_numpy("M8[s]")
    if steps_a_day(written) == 1:
        days = rows["time"].dt.floor("D")
        if days.duplicated().any():
            twice = f"{days[days.duplicated()].iloc[0]:%Y-%m-%d}"
            raise SSTCastError(f"{path}: {twice} is given twice; give one value a day, or several of each day")
        return pd.Series(rows["sst"].to_numpy(), pd.DatetimeIndex(days))
    rows = rows[rows["sst"].notna()]
    if rows.empty:
        return pd.Series(dtype=float, index=pd.DatetimeIndex([]))
    if rows["utc"].isna().any():
        raise SSTCastError(f"{path}: {rows['zone'].iloc[0]}")
    labels = rows["utc"].to_numpy("M8[s]")
    written = rows["time"].to_numpy("M8[s]")
    found = Periods.at(labels)
    if read.found is not None:
        found = read.found.at_labels(written).shifted(labels[0] - written[0])
    name = str(rows["name"].iloc[0])
    means, note = days_of_series(rows["sst"].to_numpy(), found, read.attributes.get(name, {}), f"{path}: {place}")
    LOG.info(f"{path}: {place} is read {note}")
    return means


def _position(known: pd.DataFrame, axis: str) -> float:
    """Return the mean `lat` or `lon` of rows, NaN of none or if they lie more than `SAME_PLACE` apart."""
    if not len(known):
        return np.nan
    first = known.iloc[0]
    apart = known - first
    apart["lon"] = (apart["lon"] + 180) % 360 - 180
    is_one = (apart.max() - apart.min() <= SAME_PLACE).all()
    return float(first[axis] + apart[axis].mean()) if is_one else np.nan


def _dataset_of_series(source: FieldSource) -> tuple[xr.Dataset, Periods | None] | None:
    """Return a dataset whose temperatures depend on time and perhaps a station alone, with its days, or None.

    With several values a day, it has their instants as they are written, and their periods are returned too.

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
            found: Periods | None = periods(dataset[time], dataset, path)
            assert found is not None
            days = pd.DatetimeIndex(found.labels)
            if steps_a_day(found.labels) == 1:
                found = None
                days, notes = days_of(dataset[time], dataset, path)
                for note in notes:
                    LOG.info(f"{path}: {note}")
            stated = dataset[time].attrs
            if zoned := ZONED.fullmatch(units := str(dataset[time].encoding.get("units", ""))):
                stated = stated | {"units": units[len(zoned[1]) :].strip()}
            dataset = dataset.assign_coords({time: (along, days, stated)}).assign_attrs(temperature=name)
            names = _names_of_stations(dataset, others, lower.get(first_known("platform", lower), ""))
            return (dataset if names is None else dataset.assign_coords(platform=names)), found
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


def _of_column(source: FieldSource, read: _Series, name: str) -> pd.DataFrame:
    """Return `sst` in degC, `time` as written, its `utc` and perhaps more of a column of temperatures.

    Where the time in UTC is not known, `zone` tells why.
    """
    path, raw = source.path, read.raw
    lower = {str(key).strip().lower(): key for key in raw}
    time = lower.get(first_known("time", lower))
    as_written = raw if time is None else raw.assign(**{time: _without_zone(raw[time])})
    columns = columns_of(path, as_written.copy(), read.attributes, ("time", "sst"), name, GIVE)
    table = columns.table
    stated = read.attributes.get(time, {})
    zones = [stated.get(key, "") for key in OF_ZONES]
    ahead = ahead_of_utc(None if time is None else raw[time], zones, [stated.get("long_name", "")])
    if isinstance(ahead, str):
        table = table.assign(utc=pd.NaT, zone=ahead)
    else:
        table["utc"] = (
            columns_of(path, raw.copy(), read.attributes, ("time", "sst"), name, GIVE).table["time"] - ahead
        )
    if (undated := table["time"].isna() & table["sst"].notna()).any():
        notes = [note for note in columns.notes if note.startswith("the time")] or ["a row has no date"]
        raise SSTCastError(f"{path}: {notes[0]} ({counted(int(undated.sum()), 'row')})")
    for note in columns.notes:
        LOG.info(f"{path}: {note}")
    if "quality" in table:
        flagged = ~table["quality"].isin(columns.good) & table["sst"].notna()
        table["sst"] = table["sst"].where(~flagged)
        if flagged.any():
            LOG.info(f"{path}: left out: {counted(int(flagged.sum()), 'value')} of {name} flagged as not good")
    units = source.units or str(columns.attributes["sst"].get("units", ""))
    factor, zero = celsius(units or _unit_of(table["sst"], path, name), path, name, "--units")
    table = table.assign(sst=table["sst"] * factor + zero)
    if (outside := table["sst"].notna() & ~table["sst"].between(*PLAUSIBLE)).any():
        first = table[outside].iloc[0]
        raise SSTCastError(
            f"{path}: {name} is {first['sst']:g} degC on {first['time']:%Y-%m-%d}; "
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
