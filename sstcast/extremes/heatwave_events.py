"""The events of marine heatwaves and cold spells in series, with the columns of Hobday et al. (2016, 2018).

The intensity of a day is its departure from the climatology. All columns but those named `_threshold` and
`_absolute` are of intensities. These two are of departures from the threshold and of temperatures. Intensities and
rates of cold spells are negative. A column named `_max` holds the most extreme day.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sstcast.extremes.above import exceeds
from sstcast.extremes.definition import HOBDAY, Definition
from sstcast.extremes.heatwaves import CATEGORIES, events, multiples
from sstcast.types import Array

QUANTITIES = ("", "_threshold", "_absolute")  # suffixes: of intensities, of departures from the threshold, of sst
MEASURES = tuple(
    f"intensity_{measure}{quantity}"
    for quantity in QUANTITIES
    for measure in ("mean", "max", "variability", "cumulative")
)
RATES = ("onset_rate", "decline_rate")
DATES = ("start", "peak", "end")
CATEGORY_DAYS = tuple(f"days_{category}" for category in CATEGORIES[1:])
EVENT_COLUMNS = (*DATES, "duration", *MEASURES, *RATES, "category", *CATEGORY_DAYS)
LIMIT_COLUMNS = tuple(  # of events beyond one temperature, which have no climatology
    name for name in EVENT_COLUMNS if name in (*DATES, "duration", *RATES) or name.endswith(QUANTITIES[1:])
)

Table = dict[str, NDArray[Any]]


class EventDays(NamedTuple):
    """The days of a block of series that lie in events, in order of series and day, `[day in an event]`.

    `day` is the position in the series, `intensity` in degC, without a climatology that of the departure from the
    threshold. `first` are the positions of the first days of
    events.
    """

    series: NDArray[np.intp]
    day: NDArray[np.intp]
    intensity: NDArray[np.float64]
    first: NDArray[np.intp]


def find_events(
    sst: Array, climatology: Array | None, threshold: Array, cold: bool = False, definition: Definition = HOBDAY
) -> tuple[EventDays, Table]:
    """Return the days in events, and the table of events, of the series `sst [day, series]` in degC.

    Args:
        sst: temperatures of successive days.
        climatology, threshold: climatology and threshold of each day, `[day, series]`. No event is defined where
            the threshold is NaN. Without a climatology, thresholds are a temperature that users name, which equal
            temperatures do not exceed (see `above.exceeds`), and the table has the `LIMIT_COLUMNS`.
        cold: whether to look for cold spells, below the threshold.
        definition: which days beyond the threshold are an event.

    Returns:
        The days, and the `EVENT_COLUMNS` by event in order of series and start, with the number of its `series`.
        `start`, `peak` and `end` are positions of days. The peak is the first of the most extreme days. Rates in
        degC a day are from half a day before the event to its peak, and to half a day after it. They are NaN for
        an event that begins on the first day or ends on the last. The category is that of the most severe day, and
        `days_moderate` to `days_extreme` count days in a category. Days below the threshold, which join two parts
        of an event, have none.
    """
    sign, length = -1 if cold else 1, len(sst)
    inside = np.zeros((sst.shape[1], length + 1), bool)  # a last day outside parts one series from the next
    if climatology is None:
        beyond = exceeds(threshold, sst) if cold else exceeds(sst, threshold)
        base, columns = threshold, LIMIT_COLUMNS
    else:
        beyond, base, columns = sign * sst > sign * threshold, climatology, EVENT_COLUMNS
    inside[:, :length] = events(beyond, definition).T
    position = np.flatnonzero(inside)
    series, day = np.divmod(position, length + 1)
    first = np.flatnonzero(np.diff(position, prepend=-2) != 1)
    value, normal, limit = (field[day, series].astype(np.float64) for field in (sst, base, threshold))
    days = EventDays(series, day, value - normal, first)
    if not len(first):
        return days, {name: np.zeros(0) for name in ("series", *columns)}
    duration = np.diff(first, append=len(day))
    last = first + duration - 1
    table: Table = {"series": series[first], "start": day[first], "end": day[last], "duration": duration}
    for quantity, values in zip(QUANTITIES, (days.intensity, value - limit, value), strict=True):
        table |= {
            f"intensity_{name}{quantity}": of for name, of in _measures(values, first, duration, sign).items()
        }
    largest = table["intensity_max"]  # without a climatology, also of the departure from the threshold
    is_peak = days.intensity == np.repeat(largest, duration)
    peak = np.minimum.reduceat(np.where(is_peak, np.arange(len(day)), len(day)), first)
    table["peak"] = day[peak]
    for name, end, outside, rise in (
        ("onset_rate", first, day[first] - 1, peak - first),
        ("decline_rate", last, day[last] + 1, last - peak),
    ):
        known = (outside >= 0) & (outside < length)
        index = np.where(known, outside, 0), series[end]
        beside = np.where(known, sst[index].astype(np.float64) - base[index], np.nan)
        table[name] = (largest - (days.intensity[end] + beside) / 2) / (rise + 0.5)
    above = sign * value > multiples(sign * normal, sign * limit)
    above[0] = sign * value > sign * limit
    category = above.sum(0)
    table["category"] = np.maximum.reduceat(category, first)
    for number, name in enumerate(CATEGORY_DAYS, 1):
        table[name] = np.add.reduceat((category == number).astype(np.intp), first)
    return days, {name: table[name] for name in ("series", *columns)}


def _measures(
    values: NDArray[np.float64], first: NDArray[np.intp], duration: NDArray[np.intp], sign: int
) -> dict[str, NDArray[np.float64]]:
    """Return mean, extreme, standard deviation and sum of the values of each event. NaN days do not count."""
    known = np.isfinite(values)
    count = np.add.reduceat(known.astype(np.float64), first)
    total = np.add.reduceat(np.where(known, values, 0), first)
    mean = total / count
    squares = np.add.reduceat(np.where(known, values - np.repeat(mean, duration), 0) ** 2, first)
    with np.errstate(invalid="ignore"):  # one day has no standard deviation
        variability = np.sqrt(squares / (count - 1))
    return {
        "mean": mean,
        "max": sign * np.fmax.reduceat(sign * values, first),
        "variability": variability,
        "cumulative": total,
    }
