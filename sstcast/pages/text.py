"""Formats metrics as small text tables, for the terminal and for the report."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from sstcast.errors import printable
from sstcast.names import CLIMATE, COVERED, DEGREES, LEVELS, MODEL, REGION, SEASONS, STRONGEST
from sstcast.runs import Run
from sstcast.scores.metrics import columns

Scores = dict[str, Any]

BOXES = {
    REGION: "Mean of the region",
    "nino12": "Niño 1+2",
    "nino3": "Niño 3",
    "nino34": "Niño 3.4",
    "nino4": "Niño 4",
}

HEATWAVES = {
    "exceedance": "Days above the 90th percentile",
    "event": "Days in a marine heatwave",
}


@dataclass(frozen=True)
class Sheet:
    """A table as text: `rows` are (name, cells)."""

    title: str
    header: list[str]
    rows: list[tuple[str, list[str]]]


VARY = "Last digits vary by machine: processors and versions of PyTorch round differently."


def print_metrics(metrics: Scores, label: str, against: str = STRONGEST, comparison: Scores | None = None) -> None:
    """Print the tables of a run called `label`.

    Skill is relative to the baseline `against` or, with a `comparison`, to the run of that name.
    """
    first, last = metrics["test"]
    heading = (
        f"{printable(label)}: {system(metrics)}, {metrics['protocol']} protocol, {metrics['forecasts']} "
        f"forecasts of {metrics['ocean_cells']} ocean cells, {first} to {last}"
    )
    sheets = [
        overall(metrics, label),
        by_lead(metrics, label),
        versus(comparison or metrics["skill"][DEGREES][against], against),
        by_season(metrics, label),
        *probabilities(metrics, label),
        *heatwaves(metrics, label),
        *(sheet for box, sheet in indices(metrics, label).items() if box != REGION),
        *ensemble(metrics),
    ]
    print_sheets(heading, sheets, label)


def print_sheets(heading: str, sheets: Sequence[Sheet], bold: str = "", note: str = "") -> None:
    """Print tables with a `heading`; rows called `bold` stand out."""
    console = open_console()
    if heading:
        console.print(heading, soft_wrap=True)
    for sheet in sheets:
        print_sheet(console, sheet, bold)
    console.print("\n".join(filter(None, [note, VARY])), soft_wrap=True)


def system(metrics: Scores) -> str:
    """Return the model's name, the number of members, and the training data if they are another ocean."""
    members = f" (ensemble of {metrics['members']})" if metrics["members"] > 1 else ""
    origin = metrics.get("trained_on")
    return f"{metrics['model']}{members}" + (f", trained on {printable(origin)}" if origin else "")


def overall(metrics: Scores, label: str) -> Sheet:
    """Scores over all leads: degC, then standardised units, and the model's skill over each baseline."""

    def cells(method: str, score: Scores) -> list[str]:
        skill = ["", ""] if method == MODEL else _skill(metrics["skill"][DEGREES][method])
        return [*(_number(score[units][metric]) for _, units, metric in columns()), *skill]

    title = "All leads, °C (* standardised; skill: share of MSE in °C² saved)"
    header = [*(heading for heading, *_ in columns()), "skill", "95 %"]
    return _sheet(title, header, metrics["scores"], label, cells)


def by_lead(metrics: Scores, label: str) -> Sheet:
    """RMSE in degC on the first day, at the end of each week, and on the last day."""
    leads = week_ends(len(metrics["scores"][MODEL][DEGREES]["by_lead"]["rmse"]))

    def cells(method: str, score: Scores) -> list[str]:
        return [_number(score[DEGREES]["by_lead"]["rmse"][lead - 1]) for lead in leads]

    return _sheet("RMSE °C by lead", [f"day {lead}" for lead in leads], metrics["scores"], label, cells)


def by_season(metrics: Scores, label: str) -> Sheet:
    """RMSE in degC by the season of the target day."""

    def cells(method: str, score: Scores) -> list[str]:
        return [_number(score[DEGREES]["by_season"]["rmse"][season]) for season in SEASONS]

    return _sheet("RMSE °C by season of the day forecast", list(SEASONS), metrics["scores"], label, cells)


def versus(comparison: Scores, name: str) -> Sheet:
    """Skill over a reference by lead, its interval, the test of equal errors, and shares of significant cells."""
    leads = week_ends(len(comparison["by_lead"]))
    parts = zip(comparison["by_lead"], comparison["by_lead_interval"], strict=True)
    at = [{"overall": skill, "interval": interval} for skill, interval in parts]
    skills = [_skill(comparison), *(_skill(at[lead - 1]) for lead in leads)]
    p_values = [comparison["p_value"], *(comparison["by_lead_p_value"][lead - 1] for lead in leads)]
    weeks = [None, *((lead - 1) // 7 if lead % 7 == 0 or lead == leads[-1] else None for lead in leads)]

    def share(kind: str) -> list[str]:
        return ["" if week is None else _percent(comparison[kind][week]) for week in weeks]

    rows = [
        ("skill", [skill for skill, _ in skills]),
        ("95 % interval", [interval for _, interval in skills]),
        ("p (equal MSE)", [p_value(p) for p in p_values]),
        ("cells better", share("better")),
        ("cells worse", share("worse")),
    ]
    title = f"Skill over {name} (cells: share of those with a significant difference, by week)"
    return Sheet(title, ["all", *(f"day {lead}" for lead in leads)], rows)


def probabilities(metrics: Scores, label: str) -> list[Sheet]:
    """Scores of the predictive distributions over all leads, and the coverage of 80 % intervals by lead."""
    found = metrics["probabilities"]
    leads = week_ends(len(metrics["scores"][MODEL][DEGREES]["by_lead"]["rmse"]))

    def cells(method: str, score: Scores) -> list[str]:
        skill = ["", ""] if method == CLIMATE else _skill(score["skill"])
        covered = [_percent(score[name]) for name in COVERED]
        return [_number(score["crps"]), *skill, *covered, _number(score["spread"]), _number(score["spread_skill"])]

    def covered(method: str, score: Scores) -> list[str]:
        return [_percent(score["by_lead"]["covered_80"][lead - 1]) for lead in leads]

    header = ["CRPS", "skill", "95 %", *(f"in {level} %" for level in LEVELS), "spread", "spread / error"]
    title = "Probabilities, all leads, °C (skill: share of the climatological distribution's CRPS saved)"
    by_lead = "Share of the truth within 80 % intervals"
    return [
        _sheet(title, header, found, label, cells),
        _sheet(by_lead, [f"day {lead}" for lead in leads], found, label, covered),
    ]


def heatwaves(metrics: Scores, label: str) -> list[Sheet]:
    """Scores of the probabilities of days above the threshold, and of days in a marine heatwave."""
    sheets = []
    for kind, found in metrics["heatwaves"].items():
        leads = week_ends(len(found["scores"][MODEL]["by_lead"]["brier"]))

        def cells(method: str, score: Scores, found: Scores = found, leads: list[int] = leads) -> list[str]:
            skill = ["", ""] if method == MODEL else _skill(found["skill"][method])
            values = [score["roc_area"], score["sedi"], *(score["by_lead"]["brier"][lead - 1] for lead in leads)]
            return [_number(score["brier"]), *skill, *map(_number, values)]

        header = ["Brier", "skill", "95 %", "ROC area", "SEDI", *(f"day {lead}" for lead in leads)]
        observed = _percent(found["scores"][MODEL]["observed"])
        title = f"{HEATWAVES[kind]}, {observed} observed (skill: share of the Brier score the model saves)"
        sheets.append(_sheet(title, header, found["scores"], label, cells))
    return sheets


def indices(metrics: Scores, label: str) -> dict[str, Sheet]:
    """RMSE and correlation of each box mean, over all leads and on the last one."""

    def cells(method: str, score: Scores) -> list[str]:
        last = score["by_lead"]
        values = (score["rmse"], score["correlation"], last["rmse"][-1], last["correlation"][-1])
        return [_number(value) for value in values]

    header = ["RMSE", "correlation", "RMSE, last day", "correlation, last day"]
    found = metrics["indices"].items()
    return {box: _sheet(f"{BOXES[box]}, °C", header, scores, label, cells) for box, scores in found}


def ensemble(metrics: Scores) -> list[Sheet]:
    """Probabilistic scores of an ensemble over all leads; no table for a single run."""
    if not metrics["ensemble"]:
        return []
    names = {"crps": "CRPS", "crps_fair": "fair CRPS", "spread": "spread", "spread_skill": "spread / error"}
    cells = [_number(metrics["ensemble"][name]) for name in names]
    return [Sheet("Ensemble, all leads, °C", list(names.values()), [(f"{metrics['members']} members", cells)])]


def weights(run: Run) -> Sheet:
    """The weights of a combination's parts by lead week."""
    # Not above: it needs PyTorch, and no other table does.
    from sstcast.forecasting.predictor import load_combination

    found = load_combination(run)
    names = ["/".join(step for step in part.run.parts if step != "..") for part in run.parts]
    rows = [(name, [_number(weight) for weight in row]) for name, row in zip(names, found.T, strict=True)]
    header = [f"week {1 + week}" for week in range(len(found))]
    return Sheet(f"Weights of {run.folder.name} by lead week", header, rows)


def week_ends(horizon: int) -> list[int]:
    """Return the first day, the end of each week, and the last day."""
    return sorted({1, horizon, *range(7, horizon + 1, 7)})


def open_console() -> Console:
    """Return a console for standard output: as wide as the terminal, or 120 columns if it is not a terminal."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 120
    return console


def print_sheet(console: Console, sheet: Sheet, bold: str = "") -> None:
    """Print a table; the row called `bold` stands out."""
    table = Table(title=printable(sheet.title), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for name in sheet.header:
        table.add_column(name, justify="right", overflow="fold")
    for name, cells in sheet.rows:
        table.add_row(printable(name), *cells, style="bold" if name == bold else None)
    console.print(table)


def p_value(value: float | None) -> str:
    """Return a p-value as text."""
    return "-" if value is None else "<0.001" if value < 0.001 else f"{value:.3f}"


def _sheet(
    title: str, header: list[str], scores: Scores, label: str, cells: Callable[[str, Scores], list[str]]
) -> Sheet:
    """Make a table with one row per method; the model's row has the name of the run."""
    return Sheet(title, header, [(label if m == MODEL else m, cells(m, score)) for m, score in scores.items()])


def _skill(score: Scores) -> list[str]:
    low, high = score["interval"]
    interval = "-" if low is None or high is None else f"{100 * low:.0f}..{100 * high:.0f}%"
    return [_percent(score["overall"]), interval]


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
