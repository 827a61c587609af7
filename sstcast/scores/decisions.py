"""From counts of cases by probability and outcome: how reliable probabilities are, and what warnings are worth.

Counts are weights of cases such as `[year, level, occurred]`: by year or initial date, by steps of the probability
from 0 to 1, and by whether the event came. A system warns where its probability is at least some level.
Neighbouring cells and days see the same events, so intervals treat only years or blocks of dates as independent.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit  # Student's t; scipy.stats would take a second to import

from sstcast.scores.comparisons import json_numbers
from sstcast.scores.parts import Scores
from sstcast.scores.significance import CONFIDENCE, Bootstrap
from sstcast.types import Array

FEWEST_BLOCKS = 3  # that hold cases, for an interval
RELIABILITY_BINS = 10
PROBABILITIES = (
    np.arange(1, 20) / 20
)  # 0.05, 0.1, ..., from which a system warns, and the cost-loss ratios of its users


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


def in_bins(values: Array) -> Array:
    """Add values by step of the probability, `[..., level]`, in ten bins. The last also holds the probability 1.

    >>> in_bins(np.arange(21)).tolist()
    [1, 5, 9, 13, 17, 21, 25, 29, 33, 57]
    """
    steps = values.shape[-1] - 1
    return np.add.reduceat(values, -(-steps * np.arange(RELIABILITY_BINS) // RELIABILITY_BINS), axis=-1)


def by_year(values: Array, dates: NDArray[np.datetime64]) -> Array:
    """Add values `[date, ...]` of the dates of each year, which are in order."""
    _, first = np.unique(dates.astype("datetime64[Y]"), return_index=True)
    return np.add.reduceat(values, first)


def interval_of_bins(cases: Array) -> Any:
    """Return the intervals over years of the frequency in each bin of `cases [year, bin, occurred]`, for JSON."""
    return _interval(frequency_interval(cases[..., 1], cases.sum(-1)))


def diagram(cases: Array) -> Scores:
    """Return the reliability diagram of `cases [year, level, occurred]`, for JSON.

    Returns:
        probability, observed, share, interval: of each of ten bins of the probability, the mean probability, the
            observed frequency, the share of cases, and the interval of the frequency over years.
    """
    count, levels = cases.sum((0, 2)), np.arange(cases.shape[1]) / (cases.shape[1] - 1)
    total, sums, occurred = (in_bins(of) for of in (count, count * levels, cases[..., 1].sum(0)))
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = {"probability": sums / total, "observed": occurred / total, "share": total / total.sum()}
    by_bin = np.moveaxis(in_bins(np.moveaxis(cases, 1, -1)), -1, 1)
    return {name: json_numbers(of) for name, of in parts.items()} | {"interval": interval_of_bins(by_bin)}


class Outcomes(NamedTuple):
    """The outcomes of warnings from some probabilities on, `[date, probability]`, or of a single one, `[date]`.

    `came` and `calm` are the cases with and without the event, `[date]`.
    """

    hits: Array
    false_alarms: Array
    came: Array
    calm: Array

    @classmethod
    def of(cls, cases: Array, probabilities: Array) -> "Outcomes":
        """Return the outcomes of warnings from each of the `probabilities` on."""
        levels = np.ceil(probabilities * (cases.shape[1] - 1) - 1e-9).astype(int)
        calm, came = np.moveaxis(cases.sum(1), -1, 0)
        false_alarms, hits = np.moveaxis(_warned(cases)[:, levels], -1, 0)
        return cls(hits, false_alarms, came, calm)

    @classmethod
    def as_frequent(cls, cases: Array) -> "tuple[float, Outcomes] | None":
        """Return the probability from which warnings are as frequent as the event, and their outcomes.

        Of cases with this very probability, only the share that is needed is warned of, as for SEDI. Returns None
        if this would take warnings where the probability is 0, or if there is no event.
        """
        warned, came = _warned(cases), cases[..., 1].sum()
        level = int(np.searchsorted(-warned.sum((0, 2)), -came, side="right")) - 1
        if level < 1 or came <= 0:
            return None
        above, at = warned[:, level + 1], cases[:, level]
        false_alarms, hits = (above + at * ((came - above.sum()) / at.sum())).T
        return level / (cases.shape[1] - 1), cls(hits, false_alarms, *cases.sum(1).T[::-1])


def _warned(cases: Array) -> Array:
    """Return the cases with at least each level, `[block, level, occurred]`, and none beyond the last."""
    padded = np.pad(cases, ((0, 0), (0, 1), (0, 0)))
    return np.flip(np.flip(padded, 1).cumsum(1), 1)


class Blocks(NamedTuple):
    """How dates form the blocks of a bootstrap.

    Attributes:
        length: the number of dates in a block.
        parts: the number of dates in each fold, or none if there is only one.
        held: the number of blocks with cases, such as events, which limits the degrees of freedom of intervals.
    """

    length: int
    parts: tuple[int, ...]
    held: float

    @classmethod
    def of(cls, cases: Array, length: int = 1, parts: tuple[int, ...] = ()) -> "Blocks":
        """Return the blocks of `length` dates, given the cases by date of which any is enough."""
        return cls(length, parts, len(np.unique(np.flatnonzero(cases) // length)))

    def quotient(self, part: Array, whole: Array) -> Bootstrap:
        """Return the ratio of two sums over dates, and how it varies among replicates, to first order."""
        of_part, of_whole = (Bootstrap.of(of, self.length, self.parts) for of in (part, whole))
        blocks = min(self.held, of_part.blocks)
        varies = of_part.shares - of_whole.shares
        if blocks < FEWEST_BLOCKS:
            varies = varies * np.nan
        total = of_part.total / np.where(of_whole.total > 0, of_whole.total, np.nan)
        return Bootstrap(blocks, total, varies)


def estimate(quotient: Bootstrap, other: Bootstrap | None = None, largest: float | None = 1) -> Scores:
    """Return `value` and `interval` of a quotient, or of its ratio to another, for JSON.

    That of a share ends at 1, the `largest`. If all or none came in each of n blocks, it ends at the share that
    would have left this a chance of 5 %, .05^(1/n) from the other end.
    """
    one = Bootstrap(quotient.blocks, np.ones_like(quotient.total), np.zeros(1))
    value, ends = quotient.ratio(other or one)
    if largest is not None:
        ends = np.minimum(ends, largest)
    if largest == 1 and quotient.blocks >= FEWEST_BLOCKS:
        rest = (1 - CONFIDENCE) ** (1 / quotient.blocks)
        ends = np.where((value == 0)[..., None], [0, 1 - rest], ends)
        ends = np.where((value == 1)[..., None], [rest, 1], ends)
    return {"value": json_numbers(value), "interval": _interval(ends)}


def _interval(ends: Array) -> Any:
    """Return intervals for JSON, None where an end is unknown."""
    if ends.ndim > 1:
        return [_interval(pair) for pair in ends]
    return json_numbers(ends) if np.isfinite(ends).all() else None


def warnings_by_system(
    cases: dict[str, Array], reference: str, length: int = 1, parts: tuple[int, ...] = ()
) -> Scores:
    """Return what the warnings of systems are worth, from `cases [date, level, occurred]` of each.

    The relative economic value (Richardson 2000, QJRMS 126) is that of a user who can prevent a loss at a cost,
    and does so where the probability is at least the ratio of cost to loss. It is the share that forecasts save of
    what perfect ones would, beside acting always or never, whichever costs less in the scored years.

    Returns, by system:
        frequency: how often the event came.
        curve: for warnings from each `probability` on, `warned` (their frequency), `hit_rate`,
            `false_alarm_ratio`, `success_index` and its `interval`.
        value: the relative economic `value` for each ratio `cost_loss`, and its `interval`.
        as_frequent: None, or of warnings as frequent as the event, their `probability`, `success_index`,
            `hit_rate` (1 minus the false alarm ratio) and `ratio`, that of the success index to the reference's.
    """
    found: Scores = {}
    indices: dict[str, Bootstrap] = {}
    for name, of in cases.items():
        warned = Outcomes.of(of, PROBABILITIES)
        blocks, total = Blocks.of(warned.came, length, parts), of.sum()
        frequency = warned.came.sum() / total if total > 0 else np.nan
        found[name] = {
            "frequency": json_numbers(float(frequency)),
            "curve": _curve(warned, blocks, total),
            "value": _economic_value(warned, blocks, frequency),
            "as_frequent": None,
        }
        if (matched := Outcomes.as_frequent(of)) is not None:
            probability, warned = matched
            indices[name] = blocks.quotient(warned.hits, warned.came + warned.false_alarms)
            found[name]["as_frequent"] = {
                "probability": json_numbers(probability),
                "success_index": estimate(indices[name]),
                "hit_rate": estimate(blocks.quotient(warned.hits, warned.came)),
            }
    for name, of_name in indices.items() if reference in indices else ():
        own = name == reference
        found[name]["as_frequent"]["ratio"] = None if own else estimate(of_name, indices[reference], largest=None)
    return found


def _curve(warned: Outcomes, blocks: Blocks, total: float) -> Scores:
    """Return the shares of warnings, hits and false alarms, and the success index, from each probability on."""
    index = estimate(blocks.quotient(warned.hits, warned.came[:, None] + warned.false_alarms))
    hits, false_alarms = warned.hits.sum(0), warned.false_alarms.sum(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = {
            "warned": (hits + false_alarms) / total,
            "hit_rate": hits / warned.came.sum(),
            "false_alarm_ratio": false_alarms / (hits + false_alarms),
        }
    by_name = {name: json_numbers(values) for name, values in shares.items()}
    values = {"success_index": index["value"], "interval": index["interval"]}
    return {"probability": PROBABILITIES.tolist(), **by_name, **values}


def _economic_value(warned: Outcomes, blocks: Blocks, frequency: float) -> Scores:
    """Return the relative economic value for each ratio of cost to loss, of an event with this frequency."""
    came, calm = warned.came[:, None], warned.calm[:, None]
    loss = PROBABILITIES * warned.false_alarms + (1 - PROBABILITIES) * (came - warned.hits)
    without = np.where(frequency > PROBABILITIES, PROBABILITIES * calm, (1 - PROBABILITIES) * came)
    excess = estimate(blocks.quotient(loss, without), largest=None)
    intervals = [
        None if ends is None else [round(1 - end, 6) for end in ends[::-1]] for ends in excess["interval"]
    ]
    values = [None if of is None else round(1 - of, 6) for of in excess["value"]]
    return {"cost_loss": PROBABILITIES.tolist(), "value": values, "interval": intervals}
