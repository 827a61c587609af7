"""What the systems of scores are: the records in `systems` of `metrics.json`. Keys and labels are for people.

A record has a `role`, and `of`, the key of the system that it belongs to, or None:

    run: the run itself or the scored file, under the key `model`; in a hindcast each of its systems.
    baseline: one of `BASELINES`. In a hindcast over several oceans it is `of` the first system of its ocean.
    base: the linear base of the run's network.
    without: the run's linear system without one of its predictors.
    corrected: a system minus its mean error.
    against: a run that a file was compared with.

A `label` says what the key does not: which baseline, which predictor, or the label of the run.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from sstcast.names import (
    BASELINES,
    BIAS_REMOVED,
    CLIMATOLOGIES,
    MODEL,
    REFERENCES,
    SCORED_YEARS,
    WITHOUT_PREDICTOR,
)

RUN, BASELINE, BASE, WITHOUT, CORRECTED, AGAINST = ("run", "baseline", "base", "without", "corrected", "against")
UNKNOWN: dict[str, Any] = {
    "model": None,
    "members": 1,
    "trained_on": None,
    "share": None,
}  # of systems beside the run
# Scores of the share of an area, beside which stand comparisons by the name of a system.
OF_A_SHARE = (
    *("brier", "by_lead", "by_week", "by_season", "by_fold", "by_index"),
    *("dates", "came", "failed", "reliability"),
)

Records = Mapping[str, Mapping[str, Any]]


def record(role: str, of: str | None = None, label: str | None = None, **entries: Any) -> dict[str, Any]:
    """Return the record of a system, with the `entries` of its command."""
    return {**entries, "role": role, "of": of} | ({} if label is None else {"label": label})


def run_itself(metrics: Mapping[str, Any]) -> str | None:
    """Return the key of the run, or of the scored file. A hindcast has several runs, none of which is meant."""
    return None if metrics["kind"] == "hindcast" else MODEL


def of_role(systems: Records, role: str, of: str | None = None) -> list[str]:
    """Return the keys of the systems that have a role and, if it is given, belong to the system `of`."""
    return [key for key, system in systems.items() if system["role"] == role and of in (None, system["of"])]


def corrected(systems: Records, key: str) -> str:
    """Return the key of a system minus its mean error if it was scored so, else its own."""
    return (of_role(systems, CORRECTED, key) or [key])[0]


def models_of(systems: Records, itself: str | None) -> dict[str, str]:
    """Return `model.name` of baselines and of the systems of a hindcast by their keys, not of the run `itself`."""
    return {
        key: system["model"] or BASELINES[system.get("label", key)]
        for key, system in systems.items()
        if system["role"] in (RUN, BASELINE) and key != itself
    }


def climatologies(systems: Records, itself: str | None) -> list[str]:
    """Return the keys of the climatologies among the systems of `models_of`."""
    return [key for key, model in models_of(systems, itself).items() if model in CLIMATOLOGIES]


def shown_names(metrics: Mapping[str, Any], label: str) -> dict[str, str]:
    """Return what tables call each system and reference, all differently. The run itself is called `label`."""
    systems, itself = metrics["systems"], run_itself(metrics)
    names: dict[str, str] = {key: key for key in (*systems, *REFERENCES, SCORED_YEARS) if key != itself}
    labels = {key: systems[key].get("label", key) for key in of_role(systems, AGAINST)}
    unique = [of for of, count in Counter(labels.values()).items() if count == 1 and of not in names]
    names |= {key: of for key, of in labels.items() if of in unique}
    if itself is None:
        return names
    return {itself: distinct(label, names.values(), metrics["kind"])} | names


def distinct(name: str, taken: Collection[str], word: str) -> str:
    """Return a name, followed by a `word` in brackets if something else is called so."""
    while name in taken:
        name = f"{name} ({word})"
    return name


def key_corrected(key: str) -> str:
    """Return the key of a system minus its mean error."""
    return f"{key}{BIAS_REMOVED}"


def key_without(predictor: str) -> str:
    """Return the key of the run's linear system without a predictor."""
    return f"{WITHOUT_PREDICTOR}{predictor}"


def key_in_share(system: str) -> str:
    """Return the key of the comparison with a system among the scores of the share of an area."""
    return distinct(system, OF_A_SHARE, "system")
