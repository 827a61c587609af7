"""From cases by probability and outcome: what warnings are worth.

A system warns where its probability is at least some level. Neighbouring cells and days see the same events, so
intervals treat only years or blocks of dates as independent.
"""

from typing import NamedTuple

import numpy as np

from sstcast.scores.cases import FEWEST_BLOCKS, STEPS, Cases, known_ends
from sstcast.scores.comparisons import json_numbers
from sstcast.scores.significance import CONFIDENCE, Bootstrap
from sstcast.types import Array, Scores

PROBABILITIES = (
    np.arange(1, 20) / 20
)  # 0.05, 0.1, ..., from which a system warns, and the cost-loss ratios of its users
EQUAL_SUMS = 1e-9  # by which sums of the same cases may differ, as a share


class Outcomes(NamedTuple):
    """The outcomes of warnings from some probabilities on, `[date, probability]`, or of a single one, `[date]`.

    `came` and `calm` are the cases with and without the event, `[date]`.
    """

    hits: Array
    false_alarms: Array
    came: Array
    calm: Array

    @classmethod
    def of(cls, cases: Cases, probabilities: Array) -> "Outcomes":
        """Return the outcomes of warnings from each of the `probabilities` on, which are edges of steps."""
        edges = np.rint(probabilities * STEPS).astype(int)
        hits, false_alarms = (_from_each(of)[:, edges] for of in (cases.came, cases.calm))
        return cls(hits, false_alarms, cases.came.sum(-1), cases.calm.sum(-1))

    @classmethod
    def as_frequent(cls, cases: Cases) -> "tuple[float, Outcomes] | None":
        """Return the probability from which warnings are as frequent as the event, and their outcomes.

        It is the mean of the probabilities in the last step that is warned of. Of its cases, only the share that
        is needed is warned of, as for SEDI. Returns None if this would take warnings where the probability is 0,
        or if there is no event.
        """
        whole = cases.sum(0)
        warned, came = _from_each(whole.total), whole.came.sum()
        step = int(np.searchsorted(-warned, -came * (1 - EQUAL_SUMS), side="right")) - 1
        if step < 1 or came <= 0:
            return None
        share = min(1.0, (came - warned[step + 1]) / whole.total[step])
        hits, false_alarms = (_from_each(of)[:, step + 1] + of[:, step] * share for of in (cases.came, cases.calm))
        chance = float(whole.chance[step] / whole.total[step])
        return chance, cls(hits, false_alarms, cases.came.sum(-1), cases.calm.sum(-1))


def _from_each(cases: Array) -> Array:
    """Return the cases `[..., step]` in each step and those above it, and none beyond the last."""
    none = np.zeros((*cases.shape[:-1], 1))
    return np.concatenate([np.flip(np.flip(cases, -1).cumsum(-1), -1), none], -1)


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
    return {"value": json_numbers(value), "interval": known_ends(ends)}


def warnings_by_system(
    cases: dict[str, Cases], reference: str, length: int = 1, parts: tuple[int, ...] = ()
) -> Scores:
    """Return what the warnings of systems are worth, from the cases `[date, step]` of each.

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
        blocks, total = Blocks.of(warned.came, length, parts), of.total.sum()
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
