"""Tables of scores of runs, scored files and hindcasts, which `printing` and the reports show."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from sstcast.figures.sheets.sheet import (
    ASTERISK,
    PARTS,
    Sheet,
    first_name,
    first_system,
    interval_text,
    marked,
    parts_of,
    percent,
)
from sstcast.scores.score_files import comparison, part_of
from sstcast.scores.significance import p_text
from sstcast.scores.system_records import BASE, of_role, run_itself, shown_names
from sstcast.types import Scores

NOTE = f"{ASTERISK} Skill is 1 minus a ratio."
VARY = "The last digits vary between machines, because processors and versions of PyTorch round differently."


def bases(metrics: Scores, against: Iterable[str] = ()) -> list[str]:
    """Return `against`, by default the reference, after the linear base of the run's network if it has one."""
    return list(dict.fromkeys([*of_role(metrics["systems"], BASE), *(against or [metrics["reference"]])]))


def comparisons(metrics: Scores) -> dict[str, Scores]:
    """Return the comparisons of the model with all other systems, or for a hindcast of all with the reference."""
    if (itself := run_itself(metrics)) is not None:
        return dict(metrics["ratios"].get("mse", {}).get(itself, {}))  # also with a run that `--against` names
    base, names = metrics["reference"], [name for name in metrics["systems"] if name != metrics["reference"]]
    return {name: of for name in names if (of := comparison(metrics, "mse", name, base))}


def ratios(metrics: Scores, label: str) -> list[Sheet]:
    """Return tables of the `comparisons` by lead, lead week, season and fold."""
    by_system = comparisons(metrics)
    if not by_system:
        return []
    has_model = metrics["kind"] != "hindcast"
    name = f"MSE of {label} / MSE of each system" if has_model else f"MSE / MSE of {metrics['reference']}"
    sheets, names = [], shown_names(metrics, label)
    for split, title in PARTS.items():
        if parts := parts_of(metrics, split):
            rows = [
                (names.get(system, system), [marked(part_of(compared, split, part)) for part in parts.values()])
                for system, compared in by_system.items()
            ]
            sheets.append(Sheet(f"{name}, by {title}", [*parts], rows))
    return sheets


def _over_folds(parts: Sequence[Scores]) -> list[tuple[str, list[str]]]:
    """Return the rows of intervals and p-values over folds, if there are several folds."""
    folds = [part.get("over_folds") for part in parts]
    if not any(folds):
        return []
    return [
        ("95 % over folds", [interval_text(of["interval"]) if of else "-" for of in folds]),
        ("p over folds", [p_text(of["p_value"]) if of else "-" for of in folds]),
    ]


def versus(metrics: Scores, label: str, reference: str, called: str = "") -> Sheet:
    """Return a table that compares the first system with `reference`, `called` otherwise if it is a run.

    It has ratio, interval and p-value by lead, and the share of cells with a significant difference by lead week.
    """
    compared = comparison(metrics, "mse", first_system(metrics), reference)
    leads = parts_of(metrics, "by_lead")
    parts = [compared, *(part_of(compared, "by_lead", day) for day in leads.values())]
    blank = [""] * len(leads)
    rows = [
        ("MSE ratio", [marked(part) for part in parts]),
        ("95 % interval", [interval_text(part["interval"]) for part in parts]),
        ("p (equal MSE)", [p_text(part["p_value"]) for part in parts]),
        *_over_folds(parts),
    ]
    weeks = [day // 7 for day in leads.values()]
    ends = [None, *(week if week != after else None for week, after in pairwise([*weeks, None]))]
    for kind in ("better", "worse"):
        if shares := compared.get(kind):
            rows.append((f"cells {kind}", ["" if week is None else percent(shares[week]) for week in ends]))
    if seeds := compared.get("over_seeds"):
        seed_ratios = [ratio for ratio in seeds if ratio is not None]
        rows.append(
            ("each member", [interval_text([min(seed_ratios), max(seed_ratios)]) if seed_ratios else "-", *blank])
        )
    own, base = first_name(metrics, label), called or shown_names(metrics, label).get(reference, reference)
    title = f"MSE of {own} / MSE of {base} (cells: share with a significant difference by week)"
    return Sheet(title, ["all", *leads], rows)
