"""Reads an index, one number a day or a month: a CSV, a table of CPC or PSL, NetCDF, or a box of daily SST."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from sstcast.config import FieldSource, PredictorConfig, parse_box
from sstcast.errors import SSTCastError, reading
from sstcast.geo import NINO, area_weights
from sstcast.ocean.fields import dates
from sstcast.ocean.reading import NETCDF_SUFFIXES, open_dataset, open_sst
from sstcast.storage.csv_files import check_csv
from sstcast.storage.yaml_files import FIRST_YEAR, LAST_YEAR

MISSING_VALUES = (-99.9, -99.99, -999.0, -999.9, -9999.0)  # missing values in common files of indices
GIVE = "give a CSV of dates and values, a table with months in columns, or NetCDF (docs/predictors.md)"
SHORTEST_MONTH, MEDIAN_DAY = 27, 1  # days between the dates of a monthly and of a daily series
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")  # CPC writes -999.9-999.9 without a blank
YEAR_AND_MONTHS = re.compile(r"\s*([12]\d{3})((?:\s*-?\d+\.\d+){12})\s*$")
MONTH_NAMES = ("MON", "MONTH", "MTH", "MN")
YEAR_NAMES = ("YR", "YEAR")


def read_index(config: PredictorConfig, name: str) -> xr.DataArray:
    """Read an index as `value(time)`, in its own units, where `time` is the last day of the span of a value.

    Times ascend, and some may be missing. The attribute `units` holds the stated units, and `every` is `day` or
    `month`. Raises SSTCastError if the source cannot be read, or does not hold one number a day or a month.
    """
    if config.region:
        values, units = _box_mean(config, name)
    else:
        values, units = read_series(config.path, config.variable)
    return by_span(values, config, str(config.path)).assign_attrs(units=config.units or units)


def by_span(values: pd.Series, config: PredictorConfig, where: str) -> xr.DataArray:
    """Return labelled values as `value(time)` by the last day of their spans (see `read_index`).

    Raises SSTCastError, naming `where`, if there is not one value a day or a month.
    """
    values = values[~values.index.isna()].sort_index().astype(float)
    values = values.where(np.isfinite(values) & ~values.isin(MISSING_VALUES)).dropna()
    days = pd.DatetimeIndex(values.index)
    if not len(days):
        raise SSTCastError(f"{where}: holds no values; {GIVE}")
    if (wrong := days[(days.year < FIRST_YEAR) | (days.year > LAST_YEAR)]).size:
        raise SSTCastError(f"{where}: has a value of the year {wrong[0].year}; mend or leave out this line")
    median_step = float(np.median(np.diff(days.values)) / np.timedelta64(1, "D")) if len(days) > 1 else 31.0
    every = "day" if median_step == MEDIAN_DAY else "month" if SHORTEST_MONTH <= median_step <= 31 else ""
    months = days.to_period("M")
    if not every:
        raise SSTCastError(
            f"{where}: has a value every {median_step:g} days; an index has one a day or a month; {GIVE}"
        )
    spans = months if every == "month" else days.to_period("D")
    if (twice := spans[spans.duplicated()]).size:
        raise SSTCastError(f"{where}: holds {twice[0]} twice; keep one value, or one table")
    if every == "day" and config.span != 1:
        raise SSTCastError(f"{where}: is daily, but data.predictors gives it a span of months; leave out span")
    ends = (spans + (config.span - 1)).end_time.normalize().as_unit("ns").values
    return xr.DataArray(values.to_numpy(), {"time": ends}, ("time",), "value", {"units": "", "every": every})


def read_series(path: Path, variable: str | None = None) -> tuple[pd.Series, str]:
    """Read a series by date, and its units, or "" if it states none. Raises SSTCastError if it cannot be read."""
    if path.suffix.lower() in (*NETCDF_SUFFIXES, ".zarr"):
        with open_dataset(path) as dataset:
            series = {str(key): field for key, field in dataset.data_vars.items() if field.ndim == 1}
            if variable not in series and (variable is not None or len(series) != 1):
                listed = ", ".join(series) or "none"
                raise SSTCastError(
                    f"{path}: its series are {listed}; set variable to one of them in data.predictors"
                )
            field = series[variable or next(iter(series))].load()
            times = dates(field[field.dims[0]], path)
            return pd.Series(field.values, times), str(field.attrs.get("units", ""))
    with reading(path, GIVE):
        lines = path.read_text(errors="replace").splitlines()
        for parse in (_months_in_columns, partial(_year_and_month, variable=variable)):
            if (found := parse(lines)) is not None:
                return found, ""
        check_csv(path)
        table = pd.read_csv(path, comment="#", skipinitialspace=True)
        column = table.columns[1] if variable is None else variable
        if column not in table:
            raise SSTCastError(f"{path}: no column {column!r} among {', '.join(map(str, table.columns))}")
        return pd.Series(table[column].to_numpy(float), pd.DatetimeIndex(pd.to_datetime(table.iloc[:, 0]))), ""


def _months_in_columns(lines: list[str]) -> pd.Series | None:
    """Read rows of a year and twelve numbers, as of PSL and CPC, or return None. A negative number alone on a
    line, which PSL writes below the table, marks missing values.
    """
    rows = [(int(row[1]), NUMBER.findall(row[2])) for row in map(YEAR_AND_MONTHS.match, lines) if row]
    if not rows:
        return None
    labels = [pd.Timestamp(year, month, 1) for year, _ in rows for month in range(1, 13)]
    values = pd.Series([float(text) for _, texts in rows for text in texts], pd.DatetimeIndex(labels))
    after = [line.strip() for line in lines if line.strip() and not YEAR_AND_MONTHS.match(line)]
    missing = [float(line) for line in after if re.fullmatch(r"-\d+(\.\d+)?", line)]  # PSL states it below
    return values[~values.isin(missing)]


def _year_and_month(lines: list[str], variable: str | None) -> pd.Series | None:
    """Read CPC's tables with a column for the year, one for the month and more, or return None."""
    table = [line.split() for line in lines if line.strip()]
    heads = [word.upper() for word in table[0]] if table else []
    year, month = ([name for name in names if name in heads] for names in (YEAR_NAMES, MONTH_NAMES))
    if not (year and month):
        return None
    column = variable.upper() if variable else heads[-1]
    if heads.count(column) != 1:
        raise SSTCastError(f"variable: no single column {column} among {', '.join(heads)}")
    columns = [heads.index(name) for name in (year[0], month[0], column)]
    rows: list[Any] = [[row[position] for position in columns] for row in table[1:] if len(row) == len(heads)]
    labels = [pd.Timestamp(int(y), int(m), 1) for y, m, _ in rows]
    return pd.Series([float(value) for *_, value in rows], pd.DatetimeIndex(labels))


def _box_mean(config: PredictorConfig, name: str) -> tuple[pd.Series, str]:
    """Return the daily mean of SST over the ocean of a box, weighted by area."""
    key = f"data.predictors.{name}.region"
    try:
        box = NINO[config.region] if config.region in NINO else parse_box(config.region)
    except SSTCastError as error:
        raise SSTCastError(f"{key}: {error}") from None
    days = FieldSource(source=config.source, variable=config.variable, units=config.units)
    with open_sst(days) as sst:
        inside = box.contains(sst["lat"], sst["lon"])
        if not inside.any():
            raise SSTCastError(f"{key}: {config.path} has no cell in {config.region}; choose another")
        cells = sst.isel(lat=inside.any("lon").values, lon=inside.any("lat").values)
        means = cells.weighted(area_weights(cells["lat"])).mean(("lat", "lon")).compute()
        return pd.Series(means.values, means.indexes["time"]), "degC"
