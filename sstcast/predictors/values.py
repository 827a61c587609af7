"""The values of predictors: which mark missing ones or are too far off, and what a store keeps of them."""

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from sstcast.errors import SSTCastError
from sstcast.log import LOG
from sstcast.reading.digests import digests

# Times the 5-95 % range, beyond which nothing is plausible. Rain and cyclones stay well within the first, indices
# within the second: with base periods of decades, no month of the SOI or of Nino 3.4 lies half as far beyond.
FIELD_FACTOR, INDEX_FACTOR = 100, 2
BEYOND = 1e15  # as the fill values of netCDF and GRIB, 9.97e36 and 1e20
NINES = [(10**digits - 1) / 10**decimals for digits in range(3, 7) for decimals in range(digits)]  # 9.99, 999
MARKS_MISSING = "marks a missing value, which the file does not declare; declare it as its _FillValue"
MARKS = np.unique([*NINES, 32767, 32768, 2**31])  # missing values, of either sign
ROUNDING = 1e-6  # a deviation of this share of the values is that of a constant in single precision
PRECISION = 2e-7  # of a number in single precision, perhaps a product with a scale factor

Limits = tuple[float, float]
Extremes = NDArray[np.float64]


def may_be_missing(values: ArrayLike) -> NDArray[np.bool_]:
    """Return which `values` are numbers that mark missing ones in many files, among others that may be none."""
    size = np.abs(np.asarray(values, float))
    nearest = MARKS[np.searchsorted(MARKS, size * (1 - PRECISION)).clip(max=len(MARKS) - 1)]
    return (np.abs(nearest - size) <= PRECISION * size) | (size > BEYOND)


def marks_missing(values: NDArray[np.floating], usual: Limits | None = None) -> NDArray[np.bool_]:
    """Return which `values` mark missing ones: they may, and lie farther from all others than these differ.

    So 999.9 hPa among 990..1030 is a value. `usual` are the least and the largest of the others, by default those
    of `values`. Without others, all that may be missing are.
    """
    candidates = may_be_missing(values)
    if not candidates.any():
        return candidates
    low, high = usual or extremes(values[None])[0, 2:]
    width = high - low
    with np.errstate(invalid="ignore"):  # NaN without others
        return candidates & ~((values >= low - width) & (values <= high + width))


def without_marks(values: NDArray[np.float64], where: str) -> NDArray[np.float64]:
    """Return values with NaN for numbers that mark missing ones, with a line."""
    is_mark = marks_missing(values)
    if (marks := np.unique(values[is_mark])).size:
        LOG.warning(f"{where}: takes {', '.join(f'{mark:g}' for mark in marks)} as missing")
    return np.where(is_mark, np.nan, values)


def hours_that_mark(values: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Return which of many `values` mark missing ones (see `marks_missing`), soon if the outermost do not."""
    low, high, *usual = extremes(values[None])[0]
    if not marks_missing(np.array([low, high]), (usual[0], usual[1])).any():
        return np.zeros(values.shape, bool)
    return marks_missing(values, (usual[0], usual[1]))


def limits(base: NDArray[np.floating], factor: float = FIELD_FACTOR) -> Limits:
    """Return the least and the largest plausible value, given those of the base period.

    They are `factor` times the 5-95 % range beyond it, or `factor` times the whole range if that is 0. A value on
    at least half of the days, as the 0 of rain, does not count. If all are equal, any value is plausible.
    """
    known = base[np.isfinite(base)].astype(float)
    known = known[~marks_missing(known)]
    if not known.size or (low := known.min()) == (high := known.max()):
        return -np.inf, np.inf
    varied = known[known != np.median(known)]
    fifth, last = np.percentile(varied, [5, 95])
    margin = factor * ((last - fifth) or (high - low))
    return float(fifth - margin), float(last + margin)


def extremes(values: NDArray[np.floating]) -> Extremes:
    """Return the least and largest value of each part of `values [n, ...]`, and those without what may be missing.

    The result is `[n, 4]`, NaN for a part without values.
    """
    flat = values.reshape(len(values), -1)
    ends = np.stack([np.fmin.reduce(flat, 1), np.fmax.reduce(flat, 1)], 1).astype(float)
    usual = ends.copy()
    for number in np.flatnonzero(may_be_missing(ends).any(1)):
        others = np.where(may_be_missing(flat[number]), np.nan, flat[number])
        usual[number] = np.fmin.reduce(others), np.fmax.reduce(others)
    return np.hstack([ends, usual])


def implausible(values: NDArray[np.floating], usual: Limits, plausible: Limits) -> NDArray[np.bool_]:
    """Return which `values` mark missing ones (see `marks_missing`) or are outside `plausible` (see `limits`)."""
    with np.errstate(invalid="ignore"):
        return marks_missing(values, usual) | (values < plausible[0]) | (values > plausible[1])


def check_values(
    source: xr.DataArray, found: Extremes, plausible: Limits, where: str, key: str, more: Any = ()
) -> None:
    """Raise SSTCastError for the first value of a field that marks a missing one or is not plausible.

    Args:
        source: the values `(n, ..., lat, lon)`.
        found: their `extremes`.
        plausible: the limits of the base period (see `limits`).
        where: the file, for messages.
        key: the key of the predictor, whose `implausible` allows such values.
        more: extremes of more values of the same field.
    """
    ends = np.array([*found, *more])
    usual = float(np.fmin.reduce(ends[:, 2])), float(np.fmax.reduce(ends[:, 3]))
    suspects = np.flatnonzero(implausible(found[:, :2], usual, plausible).any(1))
    if not suspects.size:
        return
    part = source[suspects[:1]].load()
    value = part[np.unravel_index(np.argmax(implausible(part.values, usual, plausible)), part.shape)]
    axes = {axis: value[axis].values for axis in (*source.dims, "lat", "lon", "line") if axis in value.coords}
    place = " ".join(f"{axis} {str(at)[:10] if at.dtype.kind == 'M' else f'{at:g}'}" for axis, at in axes.items())
    fault = f"is far from the base period ({plausible[0]:.3g}..{plausible[1]:.3g} is plausible); correct it"
    if marks_missing(value.values[None], usual):
        fault = MARKS_MISSING
    raise SSTCastError(f"{where}: {value:g} at {place} {fault}, or keep it with {key}.implausible: keep")


def scale_of(deviation: float, size: float) -> float:
    """Return what divides a predictor: its deviation, or 1 if it is constant but for rounding.

    Args:
        deviation: the standard deviation of the predictor, or of its departures from a climatology.
        size: the largest absolute value.
    """
    return deviation if deviation > ROUNDING * size else 1.0


def stored_values(values: xr.DataArray) -> xr.Dataset:
    """Return values with the number of known cells and a digest of each, lazily if they are.

    They end with the last one that is known, as a source may have axes for issues to come.
    """
    cells = counted_cells(values)
    for last in reversed(range(len(cells))):
        if cells[last].values.any():
            values, cells = values[: last + 1], cells[: last + 1]
            break
    digest = digests(values) if "lat" in values.dims else values.copy(data=values.values.view(np.int64))
    return xr.Dataset({"value": values, "digest": digest, "cells": cells}, attrs=values.attrs)


def counted_cells(values: xr.DataArray) -> xr.DataArray:
    """Return how many cells have each value."""
    return values.notnull().sum([axis for axis in ("lat", "lon") if axis in values.dims], dtype="int32")


def extremes_of(source: xr.DataArray) -> xr.DataArray:
    """Return the `extremes` of each value on the first axis of a field lazily, `(axis, extreme)`."""
    return xr.apply_ufunc(
        extremes,
        source,
        input_core_dims=[source.dims[1:]],
        output_core_dims=[["extreme"]],
        dask="parallelized",
        output_dtypes=[float],
        dask_gufunc_kwargs={"output_sizes": {"extreme": 4}, "allow_rechunk": True},
    )
