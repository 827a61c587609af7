"""Significance of differences in forecast error.

Forecasts from neighbouring days are verified on mostly the same days, so their errors are strongly correlated.
All functions take errors by initial date, `[dates, ...]`, in order and evenly spaced. Block lengths and lags are
numbers of dates, which equal days if forecasts begin every day. `parts` gives the number of dates in each
contiguous period. Neither blocks nor lags cross from one period into the next.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit  # Student's t; scipy.stats would take a second to import

from sstcast.names import DAY, INIT_TIME
from sstcast.progress import tracked
from sstcast.storage.scratch import in_scratch, release
from sstcast.types import Array

CONFIDENCE = 0.95
FDR = 0.10  # keeps the global level near 0.05 if neighbouring cells are correlated (Wilks 2016, BAMS 97)
REPLICATES = 1000
BETTER, WORSE, EQUAL, TOO_FEW = ("better", "worse", "not distinguishable", "too few dates")  # verdicts
DATES_AT_ONCE = 64  # dates of errors on the map that are read at a time


def correlated_days(horizon: int) -> int:
    """Return the number of days over which errors count as correlated: the horizon, or 14 days if that is longer.

    All leads use the same number, because the errors of suboptimal forecasts stay correlated beyond their lead.
    """
    return max(horizon, 14)


def spacing(dates: NDArray[np.datetime64]) -> int:
    """Return the median number of days between initial dates, or 1 if there is only one date."""
    gaps = np.diff(dates) / np.timedelta64(1, "D")
    return max(1, round(float(np.median(gaps)))) if len(gaps) else 1


class DateBlocks(NamedTuple):
    """How initial dates form the blocks of a bootstrap.

    Attributes:
        block: the number of dates in a block.
        lags: the number of dates over which errors count as correlated.
        segments: the number of dates in each segment, over whose ends no block or lag reaches. Without any, all
            dates are one segment.
    """

    block: int
    lags: int
    segments: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        horizon: int,
        every: int,
        dates: NDArray[np.datetime64] | None = None,
        folds: NDArray[Any] | None = None,
        days: int | None = None,
    ) -> "DateBlocks":
        """Return the blocks of initial dates.

        A block is three times as long as errors are correlated, so most of the correlation lies within blocks. A
        fold is a segment, and has several if dates are further apart than a block is long, as in files of one
        season a year.

        Args:
            horizon: the number of days ahead.
            every: days from one initial date to the next.
            dates: the initial dates, by default so many days apart throughout.
            folds: the fold of each.
            days: the number of days in a block of errors that are not correlated, instead.
        """
        block, lags = -(-3 * correlated_days(horizon) // every), -(-correlated_days(horizon) // every)
        if days is not None:
            block, lags = -(-days // every), 1
        if dates is None or folds is None:
            return cls(block, lags)
        ends = np.flatnonzero((folds[1:] != folds[:-1]) | (np.diff(dates) > block * every * DAY))
        return cls(block, lags, tuple(np.diff([-1, *ends, len(dates) - 1]).tolist()))


@cache
def block_counts(
    dates: int, block: int, replicates: int = REPLICATES, seed: int = 0, parts: tuple[int, ...] = ()
) -> Array:
    """Return how often each replicate of a moving-block bootstrap draws each date, `[replicates, dates]`.

    Each replicate draws overlapping blocks with replacement until it has `dates` dates, and truncates the last
    block (Kunsch 1989, Ann. Statist. 17). With counts, one matrix product gives the sums of all replicates.
    `parts` are the dates in each segment, which no block leaves. One shorter than a block is a block of its own.
    """
    random, segments = np.random.default_rng(seed), _segments(parts or (dates,))
    block_starts = np.concatenate([start + np.arange(max(1, n - block + 1)) for start, n in segments])
    lengths = np.concatenate([np.full(max(1, n - block + 1), min(n, block)) for _, n in segments])
    drawn = random.integers(0, len(block_starts), (replicates, -(-dates // int(lengths.min()))))
    starts, drawn_lengths = block_starts[drawn], lengths[drawn]
    kept = np.clip(dates - drawn_lengths.cumsum(1) + drawn_lengths, 0, drawn_lengths)  # of each block
    changes, rows = np.zeros((replicates, dates + 1)), np.arange(replicates)[:, None]
    np.add.at(changes, (rows, starts), kept > 0)
    np.subtract.at(changes, (rows, starts + kept), kept > 0)
    return changes.cumsum(1)[:, :dates]


class Bootstrap(NamedTuple):
    """Sums of a loss `[dates, ...]` over all dates, and over the dates that each replicate draws."""

    blocks: float  # the number of dates, in block lengths
    total: Array  # the sum over all dates, `[...]`
    shares: Array  # the sums of replicates as shares of the total, `[replicates, ...]`, NaN below two blocks

    @classmethod
    def of(cls, loss: Array, block: int, parts: tuple[int, ...] = ()) -> "Bootstrap":
        """Draw blocks of `block` dates. This takes most of the time of `ratio`, but only once for each loss."""
        dates, total = len(loss), loss.sum(0)
        if dates < 2 * block:
            return cls(dates / block, total, np.full((1, *np.shape(total)), np.nan))
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.tensordot(block_counts(dates, block, parts=parts), loss / total, 1)
        return cls(dates / block, total, shares)

    def ratio(self, reference: "Bootstrap") -> tuple[Array, Array]:
        """Return the ratio of the sums of this loss and a reference's, and its interval (see `ratio`)."""
        base, k = reference.total, self.blocks
        ratios: Array = self.total / np.where(base > 0, base, np.nan)
        deviation = (self.shares - reference.shares).std(0)
        width = stdtrit(k - 1, (1 + CONFIDENCE) / 2) * deviation * np.sqrt(k / (k - 1)) if k >= 2 else deviation
        return ratios, np.stack([ratios * np.exp(-width), ratios * np.exp(width)], axis=-1)


def ratio(error: Array, reference: Array, block: int, parts: tuple[int, ...] = ()) -> tuple[Array, Array]:
    """Return the ratio `[...]` of the sums of two losses `[dates, ...]`, and its 95 % interval `[..., 2]`.

    The bootstrap estimates the standard error of the logarithm of the ratio, to first order, because its
    distribution is closer to normal than the ratio's. Percentiles of replicates would be too narrow, because
    `k = dates / block` is small. So the variance is multiplied by `k / (k - 1)`, as for a sample, and the quantile
    is Student's with `k - 1` degrees of freedom. The ratio is NaN if the reference's sum is 0. The interval is
    NaN if either sum is 0, or if there are fewer dates than two blocks.
    """
    return Bootstrap.of(error, block, parts).ratio(Bootstrap.of(reference, block, parts))


def diebold_mariano(difference: Array, lags: int, parts: tuple[int, ...] = ()) -> Array:
    """Return the two-sided p-value `[...]` of the hypothesis that `difference [dates, ...]` has mean 0.

    `difference` is the loss of one forecast minus the loss of another. The test is that of Diebold and Mariano
    (1995), with the correction and the Student distribution of Harvey, Leybourne and Newbold (1997, Int. J.
    Forecasting 13), for losses that are correlated over fewer than `lags` dates. If the sum of autocovariances is
    not positive, Bartlett weights make it so. The p-value is NaN if the difference does not vary.
    """
    dates = len(difference)
    mean = difference.mean(0)
    deviation = difference - mean
    plain = np.mean(deviation**2, axis=0)
    bartlett = plain.copy()
    for lag in range(1, lags):
        covariance = np.zeros_like(plain)
        for start, n in _segments(parts or (dates,)):
            part = deviation[start : start + n]
            covariance += np.einsum("d...,d...->...", part[lag:], part[:-lag]) / dates
        plain += 2 * covariance
        bartlett += 2 * (1 - lag / lags) * covariance
    variance = np.where(plain > 0, plain, bartlett)
    correction = (dates + 1 - 2 * lags + lags * (lags - 1) / dates) / dates
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = mean / np.sqrt(np.where(variance > 0, variance, np.nan) / dates) * np.sqrt(correction)
    p_value: Array = 2 * stdtr(dates - 1, -np.abs(statistic))
    return p_value


def _segments(parts: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the position of the first date of each part, and its length."""
    return list(zip(np.cumsum((0, *parts[:-1])).tolist(), parts, strict=True))


def compare_cells(
    errors: Sequence[xr.DataArray], pairs: Sequence[tuple[int, int]], lags: int, parts: tuple[int, ...]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Test for each cell and lead week whether the squared errors of two systems differ.

    Args:
        errors: squared errors `(init_time, week, lat, lon)` of each system. If lazy, they are read once, one lead
            week at a time.
        pairs: the positions in `errors` of both systems of each comparison.
        lags: number of dates over which errors are correlated.
        parts: number of dates in each fold.

    Returns:
        p-values `[pair, week, lat, lon]`, and p-values adjusted for the number of cells in each week.
    """
    p_values, adjusted = (np.full((len(pairs), *errors[0].shape[1:]), np.nan, np.float32) for _ in range(2))
    for week in tracked(range(errors[0].sizes["week"]), "differences by cell"):
        fields = (error[:, week] for error in errors)
        of_week = [in_scratch(f.chunk({INIT_TIME: DATES_AT_ONCE}) if f.chunks else f).values for f in fields]
        for pair, (first, second) in enumerate(pairs):
            for row, cells in enumerate(np.isfinite(of_week[first][0])):
                if cells.any():
                    difference = (of_week[first][:, row] - of_week[second][:, row])[:, cells].astype(float)
                    p_values[pair, week, row, cells] = diebold_mariano(difference, lags, parts)
                    release()
            adjusted[pair, week] = adjust(p_values[pair, week])
    return p_values, adjusted


def adjust(p_values: Array) -> Array:
    """Adjust p-values for multiple testing (Benjamini and Hochberg 1995). NaN stays NaN and is not counted."""
    adjusted, valid = np.full(p_values.shape, np.nan), ~np.isnan(p_values)
    if valid.any():
        values = p_values[valid]
        order = np.argsort(values)
        minima = np.minimum.accumulate((values[order] * values.size / np.arange(1, values.size + 1))[::-1])[::-1]
        adjusted[valid] = np.clip(minima[np.argsort(order)], 0, 1)
    return adjusted


def p_text(value: float | None) -> str:
    """Format a p-value."""
    return "-" if value is None else "<0.001" if value < 0.001 else f"{value:.3f}"


def decimals(ratio: float) -> int:
    """Return how many decimals tell a ratio from 1, of 3 to 6."""
    return next((count for count in range(3, 6) if round(ratio, count) != 1), 6)


def verdict(compared: Mapping[str, Any]) -> str:
    """Return how a system compares with a reference: one of `BETTER`, `WORSE`, `EQUAL` and `TOO_FEW`.

    `compared` is a comparison of `LossComparison.compare`, or a part of one (see `score_files.part_of`). A system
    is better or worse only if the interval over dates excludes 1 and, with several folds, the one over folds too.
    """
    if None in compared["interval"]:
        return TOO_FEW
    ends = _intervals(compared)
    return BETTER if all(high < 1 for _, high in ends) else WORSE if all(low > 1 for low, _ in ends) else EQUAL


def _intervals(compared: Mapping[str, Any]) -> list[Sequence[float]]:
    """Return the intervals that decide a comparison: over dates and, if there is one, over folds."""
    folds = compared.get("over_folds")
    return [compared["interval"], *([folds["interval"]] if folds and None not in folds["interval"] else [])]


def sentence(compared: Mapping[str, Any], name: str, reference: str, loss: str, reason: str = "") -> str:
    """Describe a comparison and its `verdict` in a sentence, or why there is none, for a known `reason`.

    Numbers have as many digits as tell them from 1.
    """
    if compared["ratio"] is None:
        return f"{name} and {reference} cannot be compared by {loss}{reason and f', because {reason}'}."
    found = verdict(compared)
    if found == TOO_FEW:
        return (
            f"{name} has {compared['ratio']:.3f} times the {loss} of {reference}; there are too few dates for an "
            "interval."
        )
    ends = _intervals(compared)
    digits = 3 if found == EQUAL else max(decimals(end[found == BETTER]) for end in ends)
    ranges = [f"{first:.{digits}f} to {last:.{digits}f} over" for first, last in ends]
    text = f"{compared['ratio']:.{digits}f} times the {loss} (95 % interval {ranges[0]} dates"
    if len(ranges) > 1:
        text += f", {ranges[1]} folds, p = {p_text(compared['over_folds']['p_value'])}"
    return f"{name} is {found} {'from' if found == EQUAL else 'than'} {reference}: {text})."
