"""A table of scores as text, and what the tables of several kinds of scores share."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sstcast.names import SEASONS
from sstcast.scores.score_files import comparison, errors_of, part_of, skill_of
from sstcast.scores.significance import BETTER, WORSE, decimals, p_text, verdict
from sstcast.scores.system_records import run_itself, shown_names
from sstcast.types import Scores

PARTS = {  # the ways in which scores are split, with their names in titles and on axes
    "by_lead": "lead",
    "by_week": "lead week",
    "by_season": "season of the day forecast",
    "by_fold": "fold",
}
COST_LOSS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7)  # ratios of cost to loss that tables show
ASTERISK = (
    "* better or worse: the 95 % intervals of the ratio over dates and, with several folds, over folds exclude 1."
)


@dataclass(frozen=True)
class Sheet:
    """A table of text. Each of `rows` is a name and its cells. If not `is_printed`, only reports show it."""

    title: str
    header: list[str]
    rows: list[tuple[str, list[str]]]
    is_printed: bool = True

    @property
    def note(self) -> str:
        """The meaning of the asterisk, if the table has one."""
        return ASTERISK if any("*" in cell for _, cells in self.rows for cell in cells) else ""


def week_ends(horizon: int) -> list[int]:
    """Return the first lead, the last lead of each week, and the last lead, in days."""
    return sorted({1, horizon, *range(7, horizon + 1, 7)})


def scored_leads(metrics: Scores) -> list[int]:
    """Return the leads in days that are scored. Those of a file may begin late, and need not be every day."""
    errors = (errors_of(metrics, name)["by_lead"]["mse"] for name in metrics["scores"])
    by_lead = zip(*errors, strict=True)
    return [day for day, of_systems in enumerate(by_lead, 1) if any(of is not None for of in of_systems)]


def shown_leads(metrics: Scores) -> list[int]:
    """Return the first and the last scored lead, and those of the others with which a week ends."""
    leads = scored_leads(metrics)
    return [day for day in leads if day in (leads[0], leads[-1], *week_ends(metrics["horizon"]))]


def parts_of(metrics: Scores, split: str) -> dict[str, Any]:
    """Return the parts that a table shows by heading, for scores split in one of the ways in `PARTS`.

    A part is the position of a day or week in a list of scores, or the key of a season or fold. A single fold is
    not shown, nor what no lead reaches.
    """
    folds, weeks = folds_of(metrics), sorted({(day - 1) // 7 for day in scored_leads(metrics)})
    parts: dict[str, dict[str, Any]] = {
        "by_lead": {f"day {day}": day - 1 for day in shown_leads(metrics)},
        "by_week": {f"week {week + 1}": week for week in weeks},
        "by_season": dict(zip(SEASONS, SEASONS, strict=True)),
        "by_fold": {f"from {fold}": fold for fold in folds if len(folds) > 1},
    }
    return parts[split]


def percent(value: float | None) -> str:
    """Format a share as a percentage."""
    return "-" if value is None else f"{value:z.1%}"


def number(value: float | None, decimals: int = 3, unit: str = "") -> str:
    """Format a score."""
    return "-" if value is None else f"{value:z.{decimals}f}{unit}"


def folds_of(metrics: Scores) -> list[str]:
    """Return the first years of the folds."""
    return list(errors_of(metrics, first_system(metrics))["by_fold"]["mse"])


def first_system(metrics: Scores) -> str:
    """Return the system that is described in detail: the model, or the best system of a hindcast."""
    return str(next(iter(metrics["systems"])))


def first_name(metrics: Scores, label: str) -> str:
    """Return what titles call this system. The run itself is called `label`."""
    return shown_names(metrics, label)[first_system(metrics)]


def sheet_of_systems(
    title: str,
    header: list[str],
    metrics: Scores,
    scores: Scores,
    label: str,
    cells: Callable[[str, Scores], list[str]],
) -> Sheet:
    """Return a table with a row for each system, in the order of `systems`. The run itself is called `label`."""
    order = [*(name for name in metrics["systems"] if name in scores), *scores]
    rows, names, itself = [], shown_names(metrics, label), run_itself(metrics)
    for name in dict.fromkeys(order):
        members = metrics["systems"].get(name, {}).get("members", 1)
        suffix = f" ({members} members)" if members > 1 and name != itself else ""
        rows.append((f"{names.get(name, name)}{suffix}", cells(name, scores[name])))
    return Sheet(title, header, rows)


def ratio_cells(metrics: Scores, loss: str, name: str) -> list[str]:
    """Return ratio, interval and p-value of a system against the reference."""
    compared = comparison(metrics, loss, name, metrics["reference"])
    if not compared or name == metrics["reference"]:
        return ["1.000 " if compared else "-", "", ""]
    return [marked(compared), interval_text(compared["interval"]), p_text(compared["p_value"])]


def marked(compared: Scores) -> str:
    """Return the ratio of a comparison, with an asterisk if its verdict is better or worse."""
    if compared["ratio"] is None:
        return "-"
    significant = verdict(compared) in (BETTER, WORSE)
    digits = decimals(compared["ratio"]) if significant else 3
    return f"{compared['ratio']:.{digits}f}{'*' if significant else ' '}"


def ratio_text(compared: Scores) -> str:
    """Return the ratio of a comparison as `marked`, and its interval over dates."""
    return f"{marked(compared).strip()} ({interval_text(compared['interval'])})"


def interval_text(ends: Sequence[float | None]) -> str:
    """Format an interval."""
    low, high = ends
    if low is None or high is None:
        return "-"
    digits = decimals(low if low > 1 else high) if low > 1 or high < 1 else 3
    return f"{low:.{digits}f}..{high:.{digits}f}"


def skill_text(compared: Scores) -> str:
    """Format the skill of a comparison."""
    return percent(skill_of(compared))


def skill_cells(compared: Scores, split: str, parts: Iterable[Any]) -> list[str]:
    """Return the skill of a comparison over all leads, and in `parts` of `split` (see `part_of`)."""
    return [skill_text(compared), *(skill_text(part_of(compared, split, part)) for part in parts)]


def sheet_of_warnings(title: str, metrics: Scores, by_system: Scores, label: str) -> Sheet:
    """Return the table of warnings as frequent as the event, and of their value.

    They are in `warnings` of the scores of each system (see `sstcast.scores.decisions`). `title` names the event.
    """
    worth = {name: of["warnings"] for name, of in by_system.items()}
    first = next(iter(worth.values()))
    shown = [first["value"]["cost_loss"].index(of) for of in COST_LOSS]

    def cells(name: str, of: Scores) -> list[str]:
        matched, value = of["as_frequent"], [number(of["value"]["value"][position], 2) for position in shown]
        if matched is None:
            return ["-", "-", "-", *value]
        ratio = matched.get("ratio")
        compared = "1" if name == metrics["reference"] else "-" if ratio is None else estimate_text(ratio, 3)
        return [percent(matched["probability"]), estimate_text(matched["success_index"]), compared, *value]

    header = ["from", "success index", f"ratio to {metrics['reference']}"]
    header += [f"C/L {of}" for of in COST_LOSS]
    text = (
        f"{title}: warnings from the probability at which each system warns as often as the event came in the "
        f"scored years ({percent(first['frequency'])}), which nobody knew before: critical success index; "
        "relative economic value of acting where the probability is at least the ratio of cost to loss (C/L)"
    )
    return sheet_of_systems(text, header, metrics, worth, label, cells)


def sheets_of_event(
    title: str, words: str, metrics: Scores, loss: str, scores: Scores, base: str, label: str
) -> list[Sheet]:
    """Return the tables of the probabilities of an event: Brier score, ratio, and skill over `base`; warnings.

    Only reports show the warnings.

    Args:
        title: names the event.
        words: what the first title adds after the frequency of the event.
        metrics: the contents of `metrics.json`.
        loss: the Brier score in `ratios`.
        scores: the scores of the event by system.
        base: the system over which skill is shown.
        label: the name of the scored run, file or hindcast.
    """
    leads, first = parts_of(metrics, "by_lead"), next(iter(scores.values()))

    def cells(name: str, score: Scores) -> list[str]:
        skills = skill_cells(comparison(metrics, loss, name, base), "by_lead", leads.values())
        brier = [number(score[key], 4) for key in ("brier", "brier_fair") if key in score]
        numbers = [number(score["roc_area"]), number(score["sedi"])]
        return [*brier, *ratio_cells(metrics, loss, name)[:2], *numbers, *skills]

    header = ["Brier", *["fair Brier"] * ("brier_fair" in first)]
    header += ["ratio", "95 %", "ROC area", "SEDI", "skill", *leads]
    text = (
        f"{title}, {percent(first['observed'])} observed{words}: Brier score, ratio to {metrics['reference']}; "
        f"skill over the {base}, also by lead"
    )
    warnings = replace(sheet_of_warnings(title, metrics, scores, label), is_printed=False)
    return [sheet_of_systems(text, header, metrics, scores, label, cells), warnings]


def sheet_of_reliability(title: str, diagrams: dict[str, Scores]) -> list[Sheet]:
    """Return the table of the reliability of probabilities, for reports: a column for each of `diagrams`."""
    if not diagrams:
        return []
    by_bin = [
        zip(of["probability"], of["observed"], intervals_of(of), of["share"], strict=True)
        for of in diagrams.values()
    ]
    bins = zip(*by_bin, strict=True)
    rows = [
        (f"{number / 10:.1f} to {(number + 1) / 10:.1f}", [_bin_text(*of) for of in row])
        for number, row in enumerate(bins)
    ]
    text = (
        f"{title}: mean probability forecast in each tenth, how often the event came, its 95 % interval over "
        "years, and the share of cases"
    )
    return [Sheet(text, list(diagrams), rows, is_printed=False)]


def intervals_of(diagram: Scores) -> list[Any]:
    """Return the interval of the observed frequency in each bin of a reliability diagram, or None.

    A system without probabilities has no intervals.
    """
    return diagram.get("interval") or [None] * len(diagram["share"])


def _bin_text(probability: float | None, observed: float | None, interval: Any, share: float) -> str:
    if probability is None or observed is None:
        return "-"
    return f"{probability:.2f}: {estimate_text({'value': observed, 'interval': interval})}, {share:.0%}"


def estimate_text(estimate: Scores, decimals: int = 2) -> str:
    """Format an estimate with its interval."""
    if estimate["value"] is None:
        return "-"
    ends = [f"{end:.{decimals}f}" for end in estimate["interval"] or ()]
    return f"{estimate['value']:.{decimals}f}" + (f" ({'-'.join(ends)})" if ends else "")
