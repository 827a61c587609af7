"""Counts of cases by their probability and outcome, and what follows from them: ROC area, SEDI and reliability.

Probabilities of all events and systems are counted on one lattice. Step k holds those from k/100 up to below
(k + 1)/100, so that cases in steps from k on are those with at least this probability, and the last step holds the
probability 1 alone. The sum of the probabilities of each step stands beside its cases.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit  # Student's t; scipy.stats would take a second to import

from sstcast.scores.comparisons import json_numbers
from sstcast.scores.significance import CONFIDENCE
from sstcast.types import Array

STEPS = 100  # from one probability to the next but the last
ROUNDING = 1e-4  # of a step, by which a probability that was computed may lie below its edge
RELIABILITY_BINS = 10
FEWEST_BLOCKS = 3  # of dates or years that hold cases, for an interval
SMALLEST_RATE = 1e-9  # smallest hit or false alarm rate, so that its logarithm is finite


def steps_of(chance: Array, members: int = 1) -> NDArray[np.intp]:
    """Return the step of each probability, a share of several `members` or any other.

    >>> steps_of(np.array([0, 0.3, 0.7, 1], np.float32), members=10).tolist()
    [0, 30, 70, 100]
    >>> steps_of(np.array([0.29, 0.9999999, 1])).tolist()
    [29, 99, 100]
    """
    if members > 1:
        return STEPS * np.rint(chance * members).astype(np.intp) // members
    scaled = chance.astype(float)
    scaled *= STEPS
    scaled += ROUNDING
    steps = scaled.astype(np.intp)
    if (last := steps == STEPS).any():
        steps[last & (chance < 1)] = STEPS - 1
    return steps


def count(
    group: NDArray[np.intp], groups: int, step: NDArray[np.intp], came: Any, chance: Any, weights: Any
) -> Array:
    """Return the sums of cases, `[group, step, 3]`: the weights without and with the event, and of probabilities.

    All arrays have the shape of `step`, or broadcast against it. `step` is overwritten, because new memory for a
    block takes as long as the arithmetic.
    """
    case = step
    case *= 2
    case += came
    case += 2 * (STEPS + 1) * group
    flat, size = case.ravel(), groups * 2 * (STEPS + 1)
    weights = np.broadcast_to(weights, case.shape)
    cases, chances = (
        np.bincount(flat, values.ravel(), size).reshape(groups, STEPS + 1, 2)
        for values in (weights, weights * chance)
    )
    return np.concatenate([cases, chances.sum(-1, keepdims=True)], -1)


class Cases(NamedTuple):
    """Cases by step of their probability, `[..., step]`, such as `[year, step]`.

    Attributes:
        calm: the cases without the event.
        came: those with the event.
        chance: the sum of the probabilities of both.
    """

    calm: Array
    came: Array
    chance: Array

    @classmethod
    def of(cls, sums: Array) -> "Cases":
        """Return the cases in sums `[..., 3]` of `count`."""
        return cls(*np.moveaxis(sums, -1, 0))

    @property
    def total(self) -> Array:
        """All cases, with and without the event."""
        return self.calm + self.came

    def sum(self, axis: int) -> "Cases":
        """Return the sums over an axis."""
        return Cases(*(of.sum(axis) for of in self))

    def at(self, *index: Any) -> "Cases":
        """Return the cases at a position of the first axes."""
        return Cases(*(of[index] for of in self))

    @property
    def in_bins(self) -> "Cases":
        """The cases in ten bins of the probability, `[..., bin]`. The last also holds the probability 1."""
        edges = np.arange(0, STEPS, STEPS // RELIABILITY_BINS)
        return Cases(*(np.add.reduceat(of, edges, axis=-1) for of in self))


def cases_by_year(cases: Cases, dates: NDArray[np.datetime64]) -> Cases:
    """Add cases `[..., date, step]` of the dates of each year, which are in order."""
    _, first = np.unique(dates.astype("datetime64[Y]"), return_index=True)
    return Cases(*(np.add.reduceat(of, first, axis=-2) for of in cases))


def scores_of(cases: Cases) -> dict[str, Array]:
    """Compute scores `[...]` from cases `[..., step]`.

    Returns:
        observed: the observed frequency of the event.
        probability: the mean forecast probability.
        roc_area: the probability that a random case with the event had a higher forecast probability than a random
            case without it. Cases of one step count half. 0.5 means no skill.
        sedi: the symmetric extremal dependence index of warnings that are as frequent as the event (Ferro and
            Stephenson 2011, Weather and Forecasting 26). 0 means no skill, 1 is perfect.
    """
    total = cases.total.sum(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            "observed": cases.came.sum(-1) / total,
            "probability": cases.chance.sum(-1) / total,
            "roc_area": roc_area(cases),
            "sedi": sedi(cases),
        }


def roc_area(cases: Cases) -> Array:
    """Compute the area under the ROC curve from cases `[..., step]`.

    It is the share of pairs of a case with and a case without the event in which the former had the higher
    probability; ties count half (Mason and Graham 2002, QJRMS 128).

    >>> float(roc_area(Cases(np.array([3.0, 1.0]), np.array([1.0, 3.0]), np.zeros(2))))
    0.75
    """
    pairs = cases.calm.sum(-1) * cases.came.sum(-1)
    ordered: Array = (cases.came * (cases.calm.cumsum(-1) - cases.calm / 2)).sum(-1)
    return ordered / np.where(pairs > 0, pairs, np.nan)


def sedi(cases: Cases) -> Array:
    """Compute SEDI from cases `[..., step]`.

    `(ln F - ln H - ln(1 - F) + ln(1 - H)) / (ln F + ln H + ln(1 - F) + ln(1 - H))` of hit rate H and false alarm
    rate F (Ferro and Stephenson 2011, Weather and Forecasting 26).

    >>> cases = Cases(np.array([9.0, 1.0]), np.array([1.0, 9.0]), np.zeros(2))  # H = 0.9 and F = 0.1
    >>> round(float(sedi(cases)), 3)  # -4 ln 9 / (2 ln 0.09)
    0.912

    Warnings are issued from the highest probability downwards until they are as frequent as the event. Within the
    last step of the probability, hits and false alarms are interpolated.
    """
    shape = cases.calm.shape[:-1]
    found = np.full(int(np.prod(shape)), np.nan)
    rows = (of[..., ::-1].reshape(len(found), -1).cumsum(1) for of in (cases.calm, cases.came))
    for row, (false_alarms, hits) in enumerate(zip(*rows, strict=True)):
        event_count, non_event_count = hits[-1], false_alarms[-1]
        if event_count > 0 and non_event_count > 0:
            warned = np.concatenate([[0], false_alarms + hits])
            hit = np.interp(event_count, warned, np.concatenate([[0], hits]))
            rates = np.clip(
                [(event_count - hit) / non_event_count, hit / event_count], SMALLEST_RATE, 1 - SMALLEST_RATE
            )
            (f, h), (not_f, not_h) = np.log(rates), np.log1p(-rates)
            found[row] = (f - h - not_f + not_h) / (f + h + not_f + not_h)
    return found.reshape(shape)


def diagram(cases: Cases) -> dict[str, Any]:
    """Return the reliability diagram of cases `[year, step]`, for JSON.

    Of a reliable forecast, mean probability and observed frequency of each bin are equal (Wilks 2019, ch. 9).

    Returns:
        probability, observed, share, interval: of each of ten bins of the probability, the mean probability, the
            observed frequency, the share of cases, and the interval of the frequency over years.
    """
    by_bin = cases.in_bins
    total, whole = by_bin.total.sum(0), by_bin.sum(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = {
            "probability": whole.chance / total,
            "observed": whole.came / total,
            "share": total / total.sum(),
        }
    ends = frequency_interval(by_bin.came, by_bin.total)
    return {name: json_numbers(of) for name, of in parts.items()} | {"interval": known_ends(ends)}


def frequency_interval(occurred: Array, cases: Array) -> Array:
    """Return the 95 % interval `[..., 2]` of the frequency with which an event came, from its sums by year.

    The variance of the ratio of both sums is that of independent years, to first order: `n / (n - 1)` times the
    sum of `(occurred - frequency cases)^2` over the n years that hold cases, divided by the square of all cases
    (Cochran 1977, Sampling Techniques, eq. 6.13). The interval is symmetric in the logarithm of the odds, with
    Student's quantile of n - 1. If the event came always or never, the interval ends where that had a chance of
    5 % in n years. Fewer than three years give NaN.

    >>> frequency_interval(np.array([0.2, 0.4, 0.3, 0.3]), np.ones(4)).round(3).tolist()
    [0.188, 0.443]
    """
    years, total = (cases > 0).sum(0), cases.sum(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        frequency = occurred.sum(0) / total
        error = np.square(occurred - frequency * cases).sum(0) * years / (years - 1)
        width = stdtrit(years - 1.0, (1 + CONFIDENCE) / 2) * np.sqrt(error) / total / (frequency * (1 - frequency))
        odds, rest = frequency / (1 - frequency), (1 - CONFIDENCE) ** (1 / years)
        low, high = (of / (1 + of) for of in (odds * np.exp(-width), odds * np.exp(width)))
    low = np.where(frequency <= 0, 0, np.where(frequency >= 1, rest, low))
    high = np.where(frequency >= 1, 1, np.where(frequency <= 0, 1 - rest, high))
    return np.where((years >= FEWEST_BLOCKS)[..., None], np.stack([low, high], -1), np.nan)


def known_ends(ends: Array) -> Any:
    """Return intervals `[..., 2]` for JSON, None where an end is unknown."""
    if ends.ndim > 1:
        return [known_ends(pair) for pair in ends]
    return json_numbers(ends) if np.isfinite(ends).all() else None
