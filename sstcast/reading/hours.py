"""Days from hours: the mean of each day of UTC from several values a day, weighted by how long each one stands.

A value stands from its label to the next one, at most one usual step, unless bounds or attributes tell its period.
"""

import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sstcast.errors import SSTCastError, counted
from sstcast.names import DAY
from sstcast.reading.fields import VALUES_AT_ONCE
from sstcast.reading.sea import COLDEST, OUTSIDE, WARMEST, place_of
from sstcast.reading.valid_days import MEAN, ROUNDING_TIME, Periods, Times, floored, joined

SECOND, HOUR = np.timedelta64(1, "s"), np.timedelta64(3600, "s")
LONGEST = 12 * HOUR  # usual step
ENOUGH = 18 * HOUR  # of a day, and some time in each quarter
QUARTER = 6 * HOUR
ENDING = ("avg", "max", "min")  # values of GRIB_stepType of the step that ends at the label
SUM = re.compile(r"\b(time|step|lead\w*|forecast_period): (\w+: )*sum\b")  # of cell_methods
ENERGY = re.compile(r"^\s*[kM]?J\s*(m\*{0,2}-2|/\s*m)")  # units
DEPTHS, WATER = ("m", "mm", "cm", "kg m-2", "kg m**-2"), re.compile("precip|rain|snow|evapor|runoff", re.I)
ZONE = re.compile(r"(?<=:\d\d)(?:\.\d+)?\s*(?:Z|[+-]\d\d:?\d\d)$")  # after a time of day, so that dates stay
OFFSET = re.compile(r"(?i:UTC|GMT)?\s*([+-])(0?\d|1[0-4])(?::?([0-5]\d))?")  # from UTC
UTC = re.compile(r"(?i)(?:Etc/)?(?:UTC?|GMT|Z|Zulu|(?:coordinated )?universal time)(?: time)?(?: \(UTC\))?")
PART = r"(?:Y{2,4}|M{1,4}|D{1,3}|H{1,2}|S{1,6})"  # of the form of a date
# Texts in the place of a zone that are none: YYYY-MM-DD hh:mm, %Y-%m-%d, ISO 8601, or units that were decoded.
NO_ZONE = re.compile(
    rf"(?i){PART}(?:(?:[-/:., ']+|'?T'?){PART})*(?:'?Z'?| ?AM/PM)?|Y{{4}}MM(?:DD(?:HH(?:MM(?:SS)?)?)?)?"
    r"|(?:%-?[a-z][-/:., ]*T?)+|ISO[ _-]?8601(?:[:-]\d{4})?|date|time|datetime(?:64\[\w+\])?"
    r"|\w+ since \d+-\d+-\d+(?:[T ][\d:.]+)?Z?"
)
LOCAL = re.compile(r"(?i:\blocal)|\b(?:A[CEW][SD]T|[CEMP][SD]T|[CE]ES?T|WET)\b")  # in prose
DAYS_AT_ONCE = 32  # whose values are weighted together: weights grow with the square of days
AS_OFFSET = "give UTC, or an offset, as in 2004-01-31T12:00+10:00"
RATE = "give the mean rate instead, such as W m-2 or kg m-2 s-1"


class RefusedHours(NamedTuple):
    """Values that must not be averaged.

    Attributes:
        which: returns which of an array of values they are.
        fault: what is wrong with one, as the end of a line that names the value and its place.
        units: those of the values, after a space.
    """

    which: Callable[[NDArray[Any]], NDArray[np.bool_]]
    fault: str
    units: str = ""


NO_SST = RefusedHours(lambda values: (values < COLDEST) | (values > WARMEST), OUTSIDE, " degC")


@dataclass(frozen=True)
class DailySteps:
    """How days are made of the values on an axis.

    Attributes:
        days: the days with enough hours, ascending; of leads, whole days after the day of the initial time.
        starts, ends: the period of each value, ascending.
        note: how the values are read, as the end of a sentence, and which days lack hours.
    """

    days: Times
    starts: Times
    ends: Times
    note: str

    def steps_of(self, days: Times) -> slice:
        """Return the values of which consecutive `days` have a part."""
        first = np.searchsorted(self.ends, days[0], side="right")
        return slice(int(first), int(np.searchsorted(self.starts, days[-1] + DAY, side="left")))

    def weights(self) -> NDArray[np.float64]:
        """Return the seconds that each value stands in each quarter of the days, `[day, quarter, value]`."""
        begin = self.days[:, None, None] + np.arange(4)[:, None] * QUARTER
        shared = np.minimum(self.ends, begin + QUARTER) - np.maximum(self.starts, begin)
        return (shared / SECOND).clip(0)


def daily_steps(found: Periods, attributes: Mapping[str, Any], where: str, after: Any = 0 * SECOND) -> DailySteps:
    """Return how days are made of several values a day.

    Args:
        found: the periods of the values in order, in UTC or after an initial time.
        attributes: those of the field.
        where: file and field, for messages.
        after: the time from 00:00 to the initial time.

    Raises SSTCastError if the values are accumulated, their periods overlap or are not known, or no day is whole.
    """
    _check_not_accumulated(attributes, where)
    labels = found.labels + after
    starts, ends, told = _periods(labels, found, attributes, where, after)
    if (overlap := starts[1:] < ends[:-1] - ROUNDING_TIME).any():
        at = int(overlap.argmax())
        first, second = (f"{_told(starts[i])} to {_told(ends[i])}" for i in (at, at + 1))
        raise SSTCastError(
            f"{where} has averages over periods that overlap, {first} and {second}; keep those that do not, such "
            "as the longer ones alone"
        )
    first_day, last_day = floored(starts[:1])[0], floored(ends[-1:] - SECOND)[0]
    days = np.arange(first_day, last_day + DAY, DAY.astype("timedelta64[s]"))
    hours = np.zeros((len(days), 4))
    quarter = ((starts - first_day) // QUARTER).astype(int)
    for ahead in range(6):
        begin = first_day + (quarter + ahead) * QUARTER
        shared = ((np.minimum(ends, begin + QUARTER) - np.maximum(starts, begin)) / SECOND).clip(0)
        inside = quarter + ahead < hours.size
        np.add.at(hours.reshape(-1), (quarter + ahead)[inside], shared[inside])
    enough = (hours.sum(1) >= ENOUGH / SECOND) & (hours > 0).all(1)
    enough[[0, -1]] &= hours[[0, -1]].sum(1) >= (DAY - ROUNDING_TIME) / SECOND
    if not enough.any():
        raise SSTCastError(f"{where} has no whole day of UTC; give more hours, or daily means")
    note = f"as means of days of UTC from {told}"
    if lacking := int((~enough).sum()):
        first = _told(days[~enough][0]).removesuffix(" 00:00")
        note += f"; {counted(lacking, 'day')} without enough hours left out, the first {first}"
    return DailySteps(days[enough], starts, ends, note)


def daily_means(
    field: xr.DataArray, steps: DailySteps, along: str, path: Path, refused: RefusedHours | None
) -> xr.DataArray:
    """Return the means of days of a field lazily, on `steps.days`, which take the place of the axis `along`.

    A cell without enough hours of a day is NaN. Computing a block raises SSTCastError for a value that is
    `refused`, unless all values of its cell in the block are the same, as on land, and so is their mean.
    """
    axis = field.get_axis_num(along)
    data = field.data if field.chunks else da.from_array(field.values, chunks=-1)
    starts_anew = np.flatnonzero(np.diff(steps.days) != DAY) + 1
    blocks = []
    for run in np.split(steps.days, starts_anew):
        in_run = steps.steps_of(run)
        size = (in_run.stop - in_run.start) * (field.size // field.sizes[along])
        count = min(max(1, VALUES_AT_ONCE * len(run) // size), DAYS_AT_ONCE)
        for days in (run[begin : begin + count] for begin in range(0, len(run), count)):
            part = steps.steps_of(days)
            taken = data[(*(slice(None),) * axis, part)].rechunk({axis: -1})
            chunks = (*taken.chunks[:axis], (len(days),), *taken.chunks[axis + 1 :])
            of_part = replace(steps, days=days, starts=steps.starts[part], ends=steps.ends[part])
            block = _Block(of_part, axis, field.isel({along: part}), path, refused)
            meta, name = np.empty((0,) * field.ndim, field.dtype), f"days-{uuid.uuid4().hex}"
            blocks.append(taken.map_blocks(block, dtype=field.dtype, chunks=chunks, meta=meta, name=name))
    coordinates = {name: values for name, values in field.coords.items() if along not in values.dims}
    coordinates |= {along: steps.days.astype("datetime64[ns]")} if steps.days.dtype.kind == "M" else {}
    return xr.DataArray(da.concatenate(blocks, axis), coordinates, field.dims, field.name, field.attrs)


def days_of_field(
    field: xr.DataArray,
    found: Periods,
    attributes: Mapping[str, Any],
    where: str,
    path: Path,
    refused: RefusedHours | None,
) -> tuple[xr.DataArray, str]:
    """Return the means of days of a field with several values a day, and how they are read.

    Args:
        field: the values, with their instants in UTC as ascending `time`.
        found: their periods, in order, each once.
        attributes: those of the field in its file.
        where, path: file and field, and the file alone, for messages.
        refused: values that are not averaged.

    Raises SSTCastError if an instant is there twice, or as `daily_steps` does.
    """
    times = field.indexes["time"]
    if times.has_duplicates:
        raise SSTCastError(f"{path}: has {times[times.duplicated()][0]:%Y-%m-%d %H:%M} twice; keep one value")
    steps = daily_steps(found, attributes, where)
    return daily_means(field, steps, "time", path, refused), steps.note


def days_of_series(
    values: NDArray[Any], found: Periods, attributes: Mapping[str, Any], where: str
) -> tuple["pd.Series[float]", str]:
    """Return the means of days of UTC of a series by day, and how its `values` at one place are read.

    Of values at instants that are not on the hour, the means of each hour are taken first, unless their labels are
    the middles of longer steps. Equal values of one instant count once. `found` are the periods of the values, in
    UTC, and `attributes` those of the series.

    Raises SSTCastError, which begins with `where`, if an instant has different values, or as `daily_steps` does.
    """
    series = pd.Series(np.asarray(values, float), pd.DatetimeIndex(found.labels))
    if (twice := series.groupby(level=0).nunique(dropna=False) > 1).any():
        raise SSTCastError(
            f"{where} has different values at {twice.idxmax():%Y-%m-%d %H:%M}; keep one (local time? give an "
            "offset)"
        )
    series = series[~series.index.duplicated()].sort_index()
    found = joined([found])
    by_hour = ""
    if not found.known.any() and not _are_on_hours(found.labels):
        series = series.groupby(series.index.floor("h")).mean()
        found = Periods.at(series.index.as_unit("s").values)
        by_hour = "by the mean of each hour, "
    steps = daily_steps(found, attributes, where)
    field = xr.DataArray(series.to_numpy(), dims="time", coords={"time": series.index.values})
    means = daily_means(field, steps, "time", Path(where), None).compute()
    return pd.Series(means.values, means.indexes["time"]), f"{by_hour}{steps.note}"


def ahead_of_utc(
    times: "pd.Series[Any] | None", zones: Iterable[Any], prose: Iterable[Any] = ()
) -> pd.Timedelta | str:
    """Return how far times are ahead of UTC, besides the zones that they state, or why that is not known.

    Those without a zone are as far ahead as the texts in `zones` and `prose` say, or in UTC. A text in `zones` is
    UTC, an offset from it, or the form of dates. Else it names another zone, whose offset may change. In `prose`,
    such as a `long_name`, only an offset in brackets and the words for local times count.
    """
    if times is not None:
        is_zoned = times[times.notna()].astype(str).str.contains(ZONE)
        if isinstance(times.dtype, pd.DatetimeTZDtype) or is_zoned.all():
            return pd.Timedelta(0)
        if is_zoned.any():
            return "some of its times have an offset from UTC and others none; give all"
    named, told = ([text for each in texts if (text := str(each).strip())] for texts in (zones, prose))
    in_prose = [
        text for each in told for text in (each, *re.findall(r"\(([^()]*)\)", each)) if OFFSET.fullmatch(text)
    ]
    stated: dict[pd.Timedelta, str] = {}
    for text in (*named, *in_prose):
        if (offset := OFFSET.fullmatch(text)) is not None:
            sign, hours, minutes = offset.groups()
            stated[pd.Timedelta(f"{sign}{int(hours):02}:{minutes or '00'}:00")] = text
        elif UTC.fullmatch(text):
            stated[pd.Timedelta(0)] = text
        elif not NO_ZONE.fullmatch(text):
            return f"its times are in {text!r}; {AS_OFFSET}"
    if len(stated) > 1:
        return f"its times are in {' as well as '.join(map(repr, stated.values()))}; keep one"
    if local := next((text for text in told if LOCAL.search(text)), ""):
        return f"its times are in {local!r}; {AS_OFFSET}"
    return next(iter(stated), pd.Timedelta(0))


def _are_on_hours(labels: Times) -> bool:
    """Return whether labels are all on the hour, or all in the middle of steps of more than an hour."""
    usual = np.median(np.diff(labels) / SECOND) if labels.size > 1 else 0.0
    since = (labels - floored(labels)) / SECOND
    is_middle = usual > HOUR / SECOND and (since % usual == usual / 2).all()
    return bool(is_middle or (since % (HOUR / SECOND) == 0).all())


class _Block:
    """The means of consecutive days from the values that they share."""

    def __init__(
        self,
        steps: DailySteps,
        axis: int,
        field: xr.DataArray,
        path: Path,
        refused: RefusedHours | None,
    ) -> None:
        """Take how the days are made, the axis in time, the lazy values, and which are refused."""
        self.steps, self.axis, self.field, self.path, self.refused = steps, axis, field, path, refused

    def __call__(self, values: NDArray[Any], block_info: Any = None) -> NDArray[Any]:
        if self.refused is not None:
            self._check(values, self.refused, tuple(start for start, _ in block_info[0]["array-location"]))
        steps = np.moveaxis(values, self.axis, 0)
        shape, steps = steps.shape[1:], steps.reshape(len(steps), -1)
        weights = self.steps.weights()
        finite, seconds = np.isfinite(steps), weights.sum(1)
        sums = seconds @ np.where(finite, steps, 0)
        means = sums / seconds.sum(1, keepdims=True)
        means[:, ~finite.any(0)] = np.nan
        if (gappy := finite.any(0) & ~finite.all(0)).any():
            known = np.stack([quarter @ finite[:, gappy] for quarter in weights.transpose(1, 0, 2)], 1)
            total = known.sum(1)
            enough = (total >= ENOUGH / SECOND) & (known > 0).all(1)
            means[:, gappy] = np.where(enough, sums[:, gappy] / np.where(enough, total, 1), np.nan)
        return np.moveaxis(means.astype(values.dtype).reshape(-1, *shape), 0, self.axis)

    def _check(self, values: NDArray[Any], refused: RefusedHours, first: tuple[int, ...]) -> None:
        """Raise SSTCastError for a value that is refused in a cell whose values vary."""
        wrong = refused.which(values)
        if wrong.any():
            ends = (function.reduce(values, self.axis, keepdims=True) for function in (np.fmin, np.fmax))
            wrong = wrong & np.less(*ends)
        if wrong.any():
            at = tuple(int(index[0]) for index in np.nonzero(wrong))
            place = place_of(self.field[tuple(start + index for start, index in zip(first, at, strict=True))])
            raise SSTCastError(f"{self.path}: {values[at]:g}{refused.units} {place}; {refused.fault}")


def _periods(
    labels: Times, found: Periods, attributes: Mapping[str, Any], where: str, after: Any
) -> tuple[Times, Times, str]:
    """Return start and end of the period of each value, and what told them, as the end of a sentence."""
    usual = np.median(np.diff(labels) / SECOND) * SECOND
    values = f"values every {usual / HOUR:g} h"
    if found.known.any():
        usual = np.median(found.lengths[found.known] / SECOND) * SECOND
        lengths = np.where(found.known, found.lengths, usual)
        starts = found.middles + after - lengths // 2
        return starts, starts + lengths, f"{values} over the periods of their bounds"
    kind = str(attributes.get("GRIB_stepType", attributes.get("step_type", "")))
    if kind in ENDING:
        lengths = _steps((labels[-1] - labels)[::-1])[::-1]
        return labels - lengths, labels, f"{values} over the steps that end at their labels ({kind})"
    since = (labels - floored(labels)) / SECOND
    if usual <= LONGEST and (since % (usual / SECOND) == usual / SECOND / 2).all():
        return labels - usual // 2, labels + usual // 2, f"{values} over the steps whose middle is their label"
    if MEAN.search(method := str(attributes.get("cell_methods", ""))):
        raise SSTCastError(
            f"{where} has means over time (cell_methods {method!r}), and nothing tells over which period; write "
            'its bounds, ds["time_bnds"] = (("time", "bnds"), STARTS_AND_ENDS), ds["time"].attrs["bounds"] = '
            '"time_bnds"'
        )
    return labels, labels + _steps(labels), f"{values}, each of which stands until the next"


def _steps(labels: Times) -> Times:
    """Return the time from each label to the next, at most the usual step.

    A step is usual if the next one is as long, at most half a day. Else the one before is.
    """
    steps = np.diff(labels) / SECOND
    before, following = np.append(steps[1:2], steps[:-1]), np.append(steps[1:], np.nan)
    if len(steps) > 1:
        is_usual = (abs(steps - following) <= ROUNDING_TIME / SECOND) & (steps <= LONGEST / SECOND)
        steps = np.where(is_usual, steps, np.minimum(steps, before))
    seconds: Times = np.minimum(np.append(steps, steps[-1]), LONGEST / SECOND).astype("timedelta64[s]")
    return seconds


def _check_not_accumulated(attributes: Mapping[str, Any], where: str) -> None:
    """Raise SSTCastError if values are accumulated over periods."""
    texts = {key: str(attributes.get(key, "")) for key in ("GRIB_stepType", "step_type", "cell_methods", "units")}
    names = " ".join(str(attributes.get(key, "")) for key in ("standard_name", "long_name"))
    is_told = {
        "GRIB_stepType": texts["GRIB_stepType"] == "accum",
        "step_type": texts["step_type"] == "accum",
        "cell_methods": bool(SUM.search(texts["cell_methods"])),
        "units": bool(ENERGY.search(texts["units"]))
        or (texts["units"].strip() in DEPTHS and bool(WATER.search(names))),
    }
    if told := next((key for key, is_so in is_told.items() if is_so), ""):
        raise SSTCastError(f"{where} is accumulated ({told} {texts[told]!r}), and sums are not averaged; {RATE}")


def _told(time: Any) -> str:
    """Return a date and hour, or the hours after an initial time, as text."""
    return str(time)[:16].replace("T", " ") if time.dtype.kind == "M" else f"{time / HOUR:g} h"
