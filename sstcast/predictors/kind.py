"""The kinds of predictors: what differs between an index, a grid, a forecast and a static field.

Each question about a predictor is one about *places*: which values of its store a day reads. A `Kind` answers it.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import dask.array as da
import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sstcast.names import DAY
from sstcast.predictors.values import FIELD_FACTOR

if TYPE_CHECKING:
    from sstcast.predictors.predictor import Predictor

ROUNDING = 1e-6  # a deviation of this share of the values is that of a constant in single precision
AHEAD = "ahead"  # dimension of what is known of a forecast: the days after the initial date
VALUES_AT_ONCE = 2**21  # read in a block

Days = NDArray[np.datetime64]
Places = tuple[NDArray[np.intp], ...]
Opened = AbstractContextManager[tuple[xr.DataArray, xr.DataArray]]


@dataclass(frozen=True)
class Kind:
    """What is particular to a kind of predictors.

    Attributes:
        entry: what a store has one of on the first axis of its values, in words.
        dims: the dimensions of what is known.
        read: opens the source of a predictor, or given values, for the `cells` of a run. It yields the values as
            they are stored, on those cells, NaN on land, with the attribute `units`, and those of the source that
            are read, on its own cells.
        places: returns the places of the values that each of `days` reads, `[day, value]` on each axis of the
            values but latitude and longitude, -1 for a value that is not there.
        basis: the functions of the climatology on each day, `[day, term]`.
        fit: returns the `terms` of the climatology and the `deviation` of the values of the base period. Raises
            SSTCastError if there are too few.
        of_day: turns standardised values `[day, value, ...]` into what is known, `[day, ...]`.
        reads: whether the days that are read are past ones or those ahead, "" if values are not of days.
        factor: that of the `limits` of plausible values.
        chunk: entries in a chunk of the store.
    """

    entry: str
    dims: tuple[str, ...]
    read: Callable[["Predictor", xr.Dataset, Any], Opened]
    places: Callable[["Predictor", xr.DataArray, Days], Places]
    basis: Callable[[Days], NDArray[np.float64]]
    fit: Callable[["Predictor", xr.DataArray], xr.Dataset]
    of_day: Callable[[NDArray[np.float32]], NDArray[np.float32]]
    reads: Literal["past", "ahead", ""] = ""
    factor: float = FIELD_FACTOR
    chunk: int = 128


def scale_of(deviation: float, size: float) -> float:
    """Return what divides a predictor: its deviation, or 1 if it is constant but for rounding.

    Args:
        deviation: the standard deviation of the predictor, or of its departures from a climatology.
        size: the largest absolute value.
    """
    return deviation if deviation > ROUNDING * size else 1.0


def newest_known(ends: Days, days: Days, delay: int) -> NDArray[np.intp]:
    """Return the position of the newest value known on each of `days`, -1 if none is known yet.

    A value is known `delay` days after `ends`, the last day of its span, on which it then counts as known all day.
    Both arrays ascend.
    """
    return np.searchsorted(ends + delay * DAY, days, side="right") - 1


def newest_places(ends: Days, days: Days, delay: int, every: str = "day", count: int = 1) -> Places:
    """Return the places in `ends` of the `count` newest spans known on each day, the newest first, `[day, count]`.

    A value is one of each day, or of `every` month. It is -1 if the value of a span is not there.
    """
    periods = pd.period_range(
        min(ends[0], days[0]), max(ends[-1], days[-1]), freq="M" if every == "month" else "D"
    )
    spans = periods.end_time.normalize().as_unit("ns")
    span = newest_known(spans.values, days, delay)[:, None] - np.arange(count)
    places = pd.DatetimeIndex(ends).get_indexer(spans)
    return (np.where(span >= 0, places[span.clip(0)], -1),)


def valid_days(values: xr.DataArray) -> Days:
    """Return the day that each value describes, with all axes of `values` but latitude and longitude."""
    days: Days = values[values.dims[0]].values
    if "lead" in values.dims:
        days = np.add.outer(days, values["lead"].values.astype("timedelta64[D]"))
    return days


def known(kind: Kind, values: xr.DataArray, places: Places, statistics: xr.Dataset, days: Days) -> xr.DataArray:
    """Return what is known on each of `days`, `(time, ...)`, lazily, from the values at its `places`.

    Args:
        kind: the kind of the predictor.
        values: those of its store.
        places: see `Kind.places`.
        statistics: the `terms` of the climatology, and the `deviation` that divides departures from it.
        days: the days.
    """
    terms, deviation = statistics["terms"].values, float(statistics["deviation"])
    space, valid = values.shape[len(places) :], valid_days(values)

    def gather(numbers: NDArray[np.intp]) -> NDArray[np.float32]:
        at = tuple(place[numbers] for place in places)
        is_known = at[0] >= 0
        result = np.full((*is_known.shape, *space), np.nan, np.float32)
        if is_known.any():
            first, *others = (place[is_known] for place in at)
            begin = first.min()
            block = values[begin : first.max() + 1].values[(first - begin, *others)]
            climatology = np.tensordot(kind.basis(valid[(first, *others)]), terms, 1)
            result[is_known] = (block - climatology) / deviation
        return kind.of_day(result)

    count = places[0].shape[1]
    shape = kind.of_day(np.zeros((1, count, *space), np.float32)).shape[1:]
    numbers = da.arange(len(days), chunks=max(1, VALUES_AT_ONCE // (count * int(np.prod(space)))))
    data = numbers.map_blocks(
        gather,
        new_axis=[*range(1, len(kind.dims))],
        chunks=(numbers.chunks[0], *shape),
        dtype=np.float32,
        meta=np.empty((0,) * len(kind.dims), np.float32),
        name=f"known-{uuid4()}",  # without a name, dask would hash all that the function refers to
    )
    coordinates = {"time": days} | {axis: values[axis] for axis in ("lat", "lon") if axis in kind.dims}
    if AHEAD in kind.dims:
        coordinates[AHEAD] = np.arange(1, count + 1)
    return xr.DataArray(data, coordinates, kind.dims)
