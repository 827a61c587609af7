"""The history of a forecast: fetches, checks and standardises the last days of a source."""

import datetime as dt
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from sstcast.config import DataConfig, Region
from sstcast.errors import SSTCastError, counted
from sstcast.log import LOG
from sstcast.models import days_before
from sstcast.names import ONE_DAY
from sstcast.ocean.anomalies import standardise
from sstcast.ocean.filled_days import may_begin
from sstcast.ocean.prepared import Prepared
from sstcast.reading.bounds import bounds_name
from sstcast.reading.daily_field import source_of
from sstcast.reading.fields import PLAUSIBLE, dates, find_field, steps_a_day, zone
from sstcast.reading.gaps import CUT, GAP_COUNTS, GapRule, dates_in_words, filled_shares
from sstcast.reading.grid import at_cells, check_places, coarsen, finer_cells, ocean_fraction
from sstcast.reading.hours import NO_SST, days_of_field
from sstcast.reading.plausible import check_changes, check_days
from sstcast.reading.raw import day_ranges, is_final
from sstcast.reading.reading import ALL_DAYS, open_region
from sstcast.reading.valid_days import days_of, floored, joined, periods
from sstcast.reading.xarray_objects import USE_PYTHON
from sstcast.runs import Run
from sstcast.sources import SOURCES, find_source
from sstcast.sources.fetch import FetchReport, fetch
from sstcast.sources.source import FetchRequest

RECHECKED = dt.timedelta(days=60)  # preliminary days of this period are fetched again, until NOAA replaces them
HISTORY = Path("history")  # names an array that a caller gave, in messages
FILLED_SHARE = "filled_share"  # coordinate of a history
SHARE_TOLERANCE = 1e-4  # largest difference between ocean fractions of a cell that count as equal


def last_days(
    data: DataConfig,
    date: dt.date | None,
    today: dt.date,
    count: int | None = None,
    most: int = 0,
    rule: GapRule = ALL_DAYS,
) -> xr.DataArray:
    """Return the last days of the region, and fetch those that a fetched store lacks.

    The history has `count` days, by default `data.history`, and up to `most` days if the source has them. It ends
    on `date`, by default on the latest available day before `today`, or before the gap that ends the record by the
    `rule`, of which a line tells. Only gaps in the history itself stand in the way of a `date`. See
    `bring_up_to_date`.

    Returns `sst(time, lat, lon)` in degC on the source's own cells. If gaps may be filled, the coordinate
    `filled_share(time)` is the share of the sea that was. For a fetched store, the coordinate `preliminary(time)`
    marks the days that NOAA will still replace. Raises SSTCastError if the source does not exist, lacks days that
    cannot be fetched, or does not cover the region, or the date was filled.
    """
    path, source, count = data.path, source_of(data.source), count or data.history
    bring_up_to_date(data, date, today, count)
    from_stores = source.needs_python and not source.exists() and data.protocol == "physical"
    rule = rule._replace(date=date)
    with sst_of_stores(Prepared.of(data)) if from_stores else open_region(data, rule=rule) as sst:
        record = [day.astype("datetime64[D]").item() for day in sst["time"].values[[0, -1]]]
        date = date or record[1]
        if cut := sst.attrs.get(CUT):
            LOG.warning(f"{path}: {told_of_cut(date, cut)}")
        first = date - (count - 1) * ONE_DAY
        if first < record[0] or date > record[1]:
            raise SSTCastError(
                f"{path}: a forecast from {date} needs {first}..{date}, but it holds {record[0]}..{record[1]} "
                f"without a gap; choose another --date or {USE_PYTHON if from_stores else 'fetch them'}"
            )
        first = max(record[0], min(first, date - (most - 1) * ONE_DAY))
        days = sst.sel(time=slice(np.datetime64(first), np.datetime64(date))).load()
    if "filled" in days.coords:  # the share, or of cells that were counted
        share = days["filled"] / days["sea"] if "sea" in days.coords else days["filled"]
        days = days.drop_vars(GAP_COUNTS, errors="ignore").assign_coords({FILLED_SHARE: share})
        _check_known(share, date, path)
    check_days(days, path)
    if (contents := source.contents()) is not None:
        # 0 marks a day that was filled in
        statuses = contents.dataset["status"].reindex(time=days["time"], fill_value=0)
        preliminary = [not is_final(status) for status in statuses.values.tolist()]
        days = days.assign_coords(preliminary=("time", preliminary))
    return days


def sst_of_stores(prepared: Prepared) -> xr.DataArray:
    """Open the temperatures of the cube, with `filled(time)`, the share of the sea that was filled."""
    cube = prepared.open_cube()
    return cube["sst"].assign_coords(filled=filled_shares(cube))


def _check_known(filled: xr.DataArray, date: dt.date, path: Path) -> None:
    """Raise SSTCastError if no forecast may begin on the day `date`, the last in `filled(time)`, the share filled.

    Filled values are between the days before and after them, so a forecast from them would read its future.
    """
    if may_begin(filled.values)[-1]:
        return
    known = filled["time"].values[may_begin(filled.values)]
    earlier = f"choose an earlier --date, such as {known[-1].astype('M8[D]')}" if known.size else "add them"
    raise SSTCastError(f"{path}: has missing values on {date}, which data.gaps fills from later days; {earlier}")


def bring_up_to_date(
    data: DataConfig, date: dt.date | None, today: dt.date, history: int = 0
) -> FetchReport | None:
    """Fetch the days up to `date`, or up to the day before `today`, and the final versions of preliminary days.

    Without a date, these are also the days after the validation that are missing between others. With `history`,
    nothing is fetched if the store has that many days up to the last one. Returns a report, or None if nothing was
    fetched, for instance because the source gets no new days. Raises SSTCastError if the store is unusable.
    """
    path = data.path
    contents = source_of(data.source).contents()
    if contents is None:
        return None
    if not contents.origin:
        raise SSTCastError(f"{path}: holds no days; run `sstcast fetch` first")
    last = max(contents.origin)
    origin = contents.origin[last].removesuffix("_preliminary")
    if origin not in SOURCES or not find_source(origin).grows:
        return None
    end = date or max(last, today - ONE_DAY)
    missing_days = [day for n in range(history) if (day := end - n * ONE_DAY) not in contents.origin]
    validated = data.splits.validation[1]
    between = [max(begin, validated + ONE_DAY) for begin, stop in contents.gaps if not date and stop > validated]
    if history and not between and (not missing_days or missing_days[-1] < min(contents.origin)):
        return None
    preliminary = [day for day in contents.preliminary if last - day < RECHECKED]
    start = min([last + ONE_DAY, end, *missing_days, *preliminary, *between])
    return fetch(FetchRequest(start, end, origin, str(contents.box), out=path))


class RegionStatistics:
    """The prepared grid, land mask, climatology and scale of a region."""

    def __init__(self, prepared: Prepared) -> None:
        """Take the prepared stores. Raises SSTCastError if they do not exist or are damaged."""
        cube, self.statistics = prepared.open_cube(), prepared.open_statistics()
        self.data = prepared.data
        self.source = source_of(self.data.source).called(str(cube.attrs["source"]))
        self.fraction, self.ocean = cube["ocean_fraction"].load(), cube["ocean_mask"].load()

    def anomalies_of(self, history: xr.DataArray) -> xr.Dataset:
        """Standardise a history. Returns `anomaly(time, lat, lon)`, `climatology`, `scale` and `ocean_mask`.

        `history(time, lat, lon)` in degC has the run's grid, or the finer cells that are averaged to it. The
        `paper` protocol needs the finer cells, because it standardises before averaging. Raises SSTCastError if
        the history has another grid, or lacks values over the ocean.
        """
        native, coarse, ocean, region = self._averaged(history)
        incomplete_days = coarse["time"][(coarse.isnull() & self.ocean).any(("lat", "lon")).values].values
        if incomplete_days.size:
            first = np.datetime_as_string(incomplete_days[0], unit="D")
            raise SSTCastError(
                f"history: {counted(incomplete_days.size, 'day')} without values at ocean cells, the first "
                f"{first}; fill them"
            )
        data = self.data.model_copy(update={"region": region})
        return standardise(native, coarse, ocean, self.statistics, data)

    def on_grid(self, sst: xr.DataArray) -> xr.DataArray:
        """Average `sst(time, lat, lon)` to the run's grid, NaN on land. See `anomalies_of` for its own grid."""
        return self._averaged(sst)[1].where(self.ocean)

    def _averaged(self, sst: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray, xr.DataArray, Region]:
        """Return `sst` on its own cells and on the run's grid, and the ocean mask and region of its own cells."""
        region, is_paper = self.data.box, self.data.protocol == "paper"
        # The statistics of the paper protocol are on the source's cells.
        native = at_cells(sst, self.statistics if is_paper else finer_cells(self.ocean, region.coarsen))
        if native is None and not is_paper:
            region, native = region.model_copy(update={"coarsen": 1}), at_cells(sst, self.ocean)
        if native is None:
            axes = (self.ocean[axis].values for axis in ("lat", "lon"))
            lat, lon = (f"{axis[0]:g}..{axis[-1]:g} ({axis.size})" for axis in axes)
            remedy = (
                "give the cells of the source, which the paper protocol needs"
                if is_paper
                else "interpolate it to them"
            )
            raise SSTCastError(f"history: does not hold the run's cells, lat {lat}, lon {lon}; {remedy}")
        native = check_places(native, "history: its grid")
        ocean = native.notnull().any("time")
        fraction = ocean_fraction(ocean, region)
        if region.coarsen > 1 and self.data.grid is None:
            differs = abs(fraction - self.fraction) > SHARE_TOLERANCE
        else:  # of cells that are not averaged here, the masks tell
            differs = (fraction >= region.min_ocean) != self.ocean
        if mismatch_count := int(differs.sum()):
            raise SSTCastError(
                f"history: {mismatch_count} cells hold values where the run has land, or none where it has "
                "ocean; fill the ocean, and set land to NaN"
            )
        return native, coarsen(native, ocean, region), ocean, region


def recognised(history: xr.DataArray) -> xr.DataArray:
    """Return a field that a caller gave as `sst(time, lat, lon)` in degC, with ascending times at 00:00.

    Axes and units are recognised in the same way as in a file, and several values a day are averaged to days. A
    day is preliminary, and filled, as much as any of them. Raises SSTCastError if they are not recognised, or a
    time is there twice.
    """
    if not isinstance(history, xr.DataArray):
        raise SSTCastError(f"history: is a {type(history).__name__}; give one variable, sst(time, lat, lon)")
    found = find_field(history.to_dataset(name="sst"), HISTORY)
    field, time = found.field, found.axis("time")
    told = {name: history[name].values for name in (FILLED_SHARE, "preliminary") if name in history.coords}
    known = periods(time, found.dataset, HISTORY)
    if steps_a_day(known.labels) > 1:
        in_utc = known.shifted(-zone(time))
        field = field.assign_coords(time=in_utc.labels.astype("M8[ns]")).sortby("time")
        attributes, where = found.stored.attrs, str(HISTORY)
        field, note = days_of_field(field, joined([in_utc]), attributes, where, HISTORY, NO_SST)
        LOG.warning(f"{HISTORY}: is read {note}")
        days = field.indexes["time"]
        of_hour = pd.DataFrame(told, pd.DatetimeIndex(floored(in_utc.labels)))
        told = {name: values.to_numpy() for name, values in of_hour.groupby(level=0).max().loc[days].items()}
    else:
        days, _ = days_of(time, found.dataset, HISTORY)
        if bounds_name(time) and days.equals(dates(time, HISTORY)):
            LOG.warning(
                "history: an array does not hold the bounds of its time, so its days are those of the labels; if "
                "these are the ends of the days, subtract a day from them"
            )
    if days.has_duplicates:
        twice = days[days.duplicated()][0]
        raise SSTCastError(f"history: holds {twice:%Y-%m-%d} twice; keep one of the two")
    field = field.drop_attrs().assign_coords(time=days).assign_attrs(history.attrs)
    return field.assign_coords({name: ("time", values) for name, values in told.items()}).sortby("time")


def last_consecutive(field: xr.DataArray, count: int, most: int = 0) -> xr.DataArray:
    """Return the last `count` days of `sst(time, lat, lon)` in degC with ascending times, in memory.

    Up to `most` days are returned if those before are consecutive and have the same land. Raises SSTCastError if a
    day is missing, values are not temperatures of the sea, or two consecutive days differ implausibly.
    """
    days = field.indexes["time"]
    if len(days) < count:
        raise SSTCastError(f"history: holds {len(days)} days; the run needs the last {count}; give more")
    field, days = field[-max(count, most) :].load(), days[-max(count, most) :]
    missing_days = pd.date_range(end=days[-1], periods=count).difference(days)
    if len(missing_days):
        raise SSTCastError(
            f"history: its last {count} days must be consecutive, but {missing_days[-1]:%Y-%m-%d} is missing"
        )
    land, size = field.isnull().values, count
    while size < len(days) and days[-size - 1] == days[-size] - ONE_DAY and (land[-size - 1] == land[-1]).all():
        size += 1
    field = field[-size:]
    low, high = float(field.min()), float(field.max())
    if not PLAUSIBLE[0] <= low <= high <= PLAUSIBLE[1]:  # also false if all values are NaN
        raise SSTCastError(f"history: values from {low:g} to {high:g} are not sea surface temperatures in degC")
    check_changes(field.values, field["time"].values, HISTORY)
    return field


def told_of_cut(last: dt.date, cut: str) -> str:
    """Return the line that says why there is no forecast after a day, the last before a gap (see `gaps.CUT`)."""
    return f"no forecast after {last}: {cut}; add them"


def filled_days(history: xr.DataArray) -> str:
    """Return the days of a history that were filled, as ranges, or "" if none were."""
    if FILLED_SHARE not in history.coords:
        return ""
    days = history["time"].values[~may_begin(history[FILLED_SHARE].values)].astype("datetime64[D]").tolist()
    return dates_in_words([(first, last) for first, last, _ in day_ranges(dict.fromkeys(days, ""))])


def describe_history(history: xr.DataArray) -> str:
    """Describe which days `history` holds, and which of them were filled and are preliminary."""
    days = [day.item() for day in history["time"].values.astype("datetime64[D]")]
    text = f"{history.attrs.get('title', 'daily SST')}; history {days[0]}..{days[-1]} ({len(days)} days)"
    if filled := filled_days(history):
        text += f"; filled days: {filled}"
    if "preliminary" not in history.coords:
        return f"{text}; not known which days are preliminary"
    preliminary_days = dict.fromkeys(
        (day for day, mark in zip(days, history["preliminary"].values, strict=True) if mark), ""
    )
    ranges = [f"{a}..{b}" if a != b else f"{a}" for a, b, _ in day_ranges(preliminary_days)]
    return f"{text}; preliminary days: {', '.join(ranges) or 'none'}"


def most_days_read(run: Run) -> int:
    """Return the largest number of days up to the initial date that a run may read.

    A system with a memory reads fewer if it was fitted to too short a record (see `cut_windows`), which only its
    weights tell.
    """
    history = run.config.data.history
    models = [system.config.model for system in run.systems]
    return history + max(days_before(model.name, model.options, history) for model in models)
