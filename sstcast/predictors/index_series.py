"""Reads an index, one number a day or a month: a text, NetCDF, or a box of daily SST."""

from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from sstcast.config import FieldSource, PredictorConfig
from sstcast.errors import SSTCastError, counted, reading
from sstcast.geo import Box, area_weights, spans_globe, step
from sstcast.log import LOG
from sstcast.names import DAY
from sstcast.predictors.index_texts import GIVE, read_text
from sstcast.predictors.values import without_marks
from sstcast.reading.daily_field import NETCDF_SUFFIXES, open_dataset, source_of
from sstcast.reading.fields import steps_a_day, zone
from sstcast.reading.flags import ValidRange, is_flag, rules_of, tell_invalid
from sstcast.reading.grid import around, check_places
from sstcast.reading.hours import NO_SST, days_of_series
from sstcast.reading.reading import open_sst
from sstcast.reading.sea import OUTSIDE, judged, sea_of, without_land
from sstcast.reading.valid_days import periods
from sstcast.storage.yaml_files import FIRST_YEAR, LAST_YEAR

SHORTEST_MONTH, MEDIAN_DAY = 27, 1  # days between the dates of a monthly and of a daily series
LONGEST_DAY, MONTH = 1.5, 365.25 / 12  # days in a mean of a day and of a month
MONTHS = "months"  # column of a table whose dates are the last days of means, by their bounds

LEAST_AREA = 0.75  # of the sea in a box that must have values on a day


def read_index(config: PredictorConfig, name: str) -> xr.DataArray:
    """Read an index as `value(time)`, in its own units, where `time` is the last day of the span of a value.

    Times ascend, and some may be missing. The attribute `units` holds the stated units, and `every` is `day` or
    `month`. Raises SSTCastError if the source cannot be read, or does not hold one number a day or a month.
    """
    if config.region:
        values, units = _box_mean(config, name)
    else:
        values, units = read_series(config.path, config.variable, config.span)
    return by_span(values, config, str(config.path)).assign_attrs(units=config.units or units)


def by_span(values: pd.Series | pd.DataFrame, config: PredictorConfig, where: str) -> xr.DataArray:
    """Return labelled values, or a table of `read_series`, as `value(time)` by the last day of their spans.

    The coordinate `line(time)` holds the lines of a text. Numbers that mark missing values are left out, with
    a line. Raises SSTCastError, naming `where`, if there is not one value a day or a month.
    """
    table = values if isinstance(values, pd.DataFrame) else values.to_frame("value")
    table = table[~table.index.isna()].sort_index()
    table = table[np.isfinite(without_marks(table["value"].to_numpy(float), where))]
    days, months = pd.DatetimeIndex(table.index), table.get(MONTHS)
    if not len(days):
        raise SSTCastError(f"{where}: holds no values; {GIVE}")
    if (wrong := days[(days.year < FIRST_YEAR) | (days.year > LAST_YEAR)]).size:
        raise SSTCastError(f"{where}: has a value of the year {wrong[0].year}; mend or leave out this line")
    steps = np.diff(days.unique().values) / np.timedelta64(1, "D")
    median_step = float(np.median(steps)) if len(steps) else 31.0
    every = "day" if median_step == MEDIAN_DAY else "month" if SHORTEST_MONTH <= median_step <= 31 else ""
    if not every:
        raise SSTCastError(
            f"{where}: has a value every {median_step:g} days; an index has one a day or a month; {GIVE}"
        )
    spans = days.to_period("M" if every == "month" else "D")
    if (twice := spans[spans.duplicated()]).size:
        raise SSTCastError(f"{where}: holds {twice[0]} twice; keep one value, or one table")
    if every == "day" and config.span != 1:
        raise SSTCastError(f"{where}: is daily, but data.predictors gives it a span of months; leave out span")
    span = config.span
    if months is not None:
        if every == "month" and "span" in config.model_fields_set and span != months.iloc[0]:
            length = counted(months.iloc[0], "month")
            raise SSTCastError(
                f"{where}: has means of {length} by its bounds, but data.predictors gives it a span of {span}; "
                "leave out span"
            )
        span = 1  # the labels are the last days
    ends = (spans + (span - 1)).end_time.normalize().as_unit("ns").values
    table = table.drop(columns=MONTHS, errors="ignore").set_axis(pd.DatetimeIndex(ends, name="time"))
    array = table.to_xarray().set_coords(set(table) - {"value"})["value"].astype(float)
    return array.assign_attrs(units="", every=every)


def read_series(path: Path, variable: str | None = None, span: int = 1) -> tuple[pd.DataFrame, str]:
    """Read a series as `read_text` does, and its units, or "" if it states none.

    A file that is no text has no lines. Raises SSTCastError if the series cannot be read.
    """
    if path.suffix.lower() in (*NETCDF_SUFFIXES, ".zarr"):
        with open_dataset(path) as dataset:
            return series_of(dataset, variable, path)
    with reading(path, GIVE):
        return read_text(path, variable, span), ""


def series_of(dataset: xr.Dataset, variable: str | None, path: Path) -> tuple[pd.DataFrame, str]:
    """Return the field of a dataset that has one dimension, of dates, as `read_series` does.

    If the dates have bounds, the date of a value is the last day of its mean, and the column `months` has the
    length of the means, rounded. Values that the file calls no data are missing. Raises SSTCastError if there are
    several such fields and none is the `variable`, the dates cannot be read, or their bounds leave out a day
    between two means.
    """
    series = [str(key) for key, field in dataset.data_vars.items() if field.ndim == 1 and not is_flag(field)]
    if variable not in series and (variable is not None or len(series) != 1):
        listed = ", ".join(series) or "none"
        raise SSTCastError(f"{path}: its series are {listed}; set variable to one of them in data.predictors")
    name, notes = variable or series[0], list[str]()
    rules = rules_of(dataset, name, set(), notes)
    field = dataset[name].load().chunk()
    for rule in rules:
        field = rule(field, dataset)
    values = field.values
    tell_invalid(path, [rule.keeps for rule in rules if isinstance(rule.keeps, ValidRange)])
    time = dataset[field.dims[0]]
    found = periods(time, dataset, path)
    if steps_a_day(found.labels) > 1:
        where = f"{path}: {name}"
        known = without_marks(np.asarray(values, float), where)
        means, note = days_of_series(known, found.shifted(-zone(time)), dataset[name].attrs, where)
        for each in (*notes, note):
            LOG.warning(f"{where} is read {each}")
        return means.to_frame("value"), str(dataset[name].attrs.get("units", ""))
    notes = [f"{name} is read {note}" for note in notes] + [f"its {time.name} {note}" for note in found.notes]
    for note in notes:
        LOG.warning(f"{path}: {note}")
    table = pd.DataFrame({"value": values}, pd.DatetimeIndex(found.labels).as_unit("ns"))
    if found.known.any():
        length = np.median(found.lengths[found.known] / DAY)
        if length > LONGEST_DAY and found.leave_a_day:
            raise SSTCastError(
                f"{path}: the bounds of its {time.name} leave out a day between means; if they name the first "
                "and last day, add one day to each end"
            )
        table = table.set_axis(found.last_days()).assign(**{MONTHS: round(length / MONTH)})
    return table, str(dataset[name].attrs.get("units", ""))


def _box_mean(config: PredictorConfig, name: str) -> tuple[pd.Series, str]:
    """Return the daily mean of SST over the ocean of a box, weighted by area."""
    key, box = f"data.predictors.{name}.region", config.mean_over
    assert box is not None
    days = FieldSource(source=str(config.path), variable=config.variable, units=config.units)
    fault = f"{OUTSIDE}, or keep such values with data.predictors.{name}.implausible: keep"
    refused = NO_SST._replace(fault=fault) if config.implausible == "error" else None
    with open_sst(days, refused=refused) as sst:
        inside = box.contains(sst["lat"], sst["lon"])
        if not inside.any():
            raise SSTCastError(f"{key}: {config.path} has no cell in {config.region}; choose another")
        if not _reaches(sst, box):
            covered = Box.of({"lat": sst["lat"], "lon": around(sst["lon"].values)})
            raise SSTCastError(
                f"{key}: {config.path} covers {covered.yaml}, not all of {config.region}; choose another"
            )
        cells = sst.isel(lat=inside.any("lon").values, lon=inside.any("lat").values)
        cells = check_places(cells, f"{key}: {config.path}")
        cells = without_land(cells, config.path, source_of(config.path).checked)
        ocean = sea_of(cells)
        if config.implausible == "error":
            cells = judged(cells, np.ones(cells.shape[1:], bool), config.path, fault)
        area = area_weights(cells["lat"])
        means, known = (
            values.weighted(area).mean(("lat", "lon")) for values in (cells, cells.notnull().where(ocean))
        )
        means = means.where(known >= LEAST_AREA).compute()
        return pd.Series(means.values, means.indexes["time"]), "degC"


def _reaches(sst: xr.DataArray, box: Box) -> bool:
    """Return whether the outer edges of the cells of a source lie outside `box`, or at most half a cell inside."""
    lon = around(sst["lon"].values)
    source, (high, wide) = Box.of({"lat": sst["lat"], "lon": lon}), (step(sst["lat"].values) / 2, step(lon) / 2)
    in_lat = source.south <= max(box.south, -90) + high and source.north >= min(box.north, 90) - high
    return in_lat and (spans_globe(lon) or source.eastward(box.west, wide) + box.width <= source.east + wide)
