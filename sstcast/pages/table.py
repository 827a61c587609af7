"""Metrics as small tables, for the terminal and for the report."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from sstcast.errors import printable
from sstcast.scores.comparison import SEASONS
from sstcast.scores.tables import MODEL, REGION

Scores = dict[str, Any]

BOXES = {
    REGION: "Mean of the region",
    "nino12": "Niño 1+2",
    "nino3": "Niño 3",
    "nino34": "Niño 3.4",
    "nino4": "Niño 4",
}


@dataclass(frozen=True)
class Sheet:
    """A table as text: `rows` are (name, cells)."""

    title: str
    header: list[str]
    rows: list[tuple[str, list[str]]]


def sheets(metrics: Scores, label: str, against: str, comparison: Scores | None = None) -> list[Sheet]:
    """Return every table of a run called `label`.

    The skill is that over the baseline `against` or, with a `comparison`, over the run of that name.
    """
    compared = comparison or metrics["skill"]["degC"][against]
    return [
        overall(metrics, label),
        by_lead(metrics, label),
        versus(compared, against),
        by_season(metrics, label),
        heatwaves(metrics, label),
        *(indices(metrics, label, box) for box in metrics["indices"] if box.startswith("nino")),
        *([ensemble(metrics)] if metrics["ensemble"] else []),
    ]


def overall(metrics: Scores, label: str) -> Sheet:
    """Scores over all leads: degC, then standardised units, and the model's skill against each baseline."""

    def cells(method: str, score: Scores) -> list[str]:
        degrees, standardised = score["degC"], score["standardised"]
        values = [degrees[m] for m in ("rmse", "mae", "bias", "acc")]
        values += [standardised["mse"], standardised["mae"]]
        skill = ["", ""] if method == MODEL else _skill(metrics["skill"]["degC"][method])
        return [*map(_number, values), *skill]

    return Sheet(
        "All leads, °C (* standardised; skill: share of MSE the model saves)",
        ["RMSE", "MAE", "bias", "ACC", "MSE*", "MAE*", "skill", "95 %"],
        _rows(metrics, label, cells),
    )


def by_lead(metrics: Scores, label: str) -> Sheet:
    """RMSE in degC on the first day, at the end of each week, and on the last day."""
    leads = _leads(metrics["scores"][MODEL]["degC"]["by_lead"]["rmse"])

    def cells(method: str, score: Scores) -> list[str]:
        return [_number(score["degC"]["by_lead"]["rmse"][lead - 1]) for lead in leads]

    return Sheet("RMSE °C by lead", [f"day {lead}" for lead in leads], _rows(metrics, label, cells))


def by_season(metrics: Scores, label: str) -> Sheet:
    """RMSE in degC by the season of the day forecast."""

    def cells(method: str, score: Scores) -> list[str]:
        return [_number(score["degC"]["by_season"]["rmse"][season]) for season in SEASONS]

    return Sheet("RMSE °C by season of the day forecast", list(SEASONS), _rows(metrics, label, cells))


def versus(comparison: Scores, name: str) -> Sheet:
    """Skill over a reference by lead, its interval, the test of equal errors, and where on the map it holds."""
    leads = _leads(comparison["by_lead"])
    skills = [_skill(comparison), *(_skill(_at(comparison, lead - 1)) for lead in leads)]
    p_values = [comparison["p_value"], *(comparison["by_lead_p_value"][lead - 1] for lead in leads)]
    weeks = [None, *((lead - 1) // 7 if lead % 7 == 0 or lead == leads[-1] else None for lead in leads)]

    def share(kind: str) -> list[str]:
        return ["" if week is None else _percent(comparison[kind][week]) for week in weeks]

    rows = [
        ("skill", [skill for skill, _ in skills]),
        ("95 % interval", [interval for _, interval in skills]),
        ("p (equal MSE)", [_p_value(p) for p in p_values]),
        ("cells better", share("better")),
        ("cells worse", share("worse")),
    ]
    title = f"Skill over {name} (cells: share of those with a significant difference, by week)"
    return Sheet(title, ["all", *(f"day {lead}" for lead in leads)], rows)


def heatwaves(metrics: Scores, label: str) -> Sheet:
    """Days above the 90th percentile of the training years: how often, how well foreseen."""
    scores = metrics["heatwaves"]

    def cells(method: str, score: Scores) -> list[str]:
        mine = scores[method]
        return [
            _percent(mine["observed"]),
            _percent(mine["hit_rate"]),
            _percent(mine["false_alarm_ratio"]),
            _number(mine["brier"]),
        ]

    header = ["observed", "hit rate", "false alarms", "Brier"]
    return Sheet("Marine heatwave days, all leads", header, _rows(metrics, label, cells))


def indices(metrics: Scores, label: str, box: str) -> Sheet:
    """RMSE and correlation of a box mean, a Niño index for instance, on the last lead and over all."""

    def cells(method: str, score: Scores) -> list[str]:
        index = metrics["indices"][box][method]
        last = index["by_lead"]
        values = (index["rmse"], index["correlation"], last["rmse"][-1], last["correlation"][-1])
        return [_number(value) for value in values]

    header = ["RMSE", "correlation", "RMSE, last day", "correlation, last day"]
    return Sheet(f"{BOXES[box]}, °C", header, _rows(metrics, label, cells))


def ensemble(metrics: Scores) -> Sheet:
    """Scores of the ensemble as one, over all leads."""
    scores = metrics["ensemble"]
    names = {"crps": "CRPS", "crps_fair": "fair CRPS", "spread": "spread", "spread_skill": "spread / error"}
    cells = [_number(scores[name]) for name in names]
    return Sheet("Ensemble, all leads, °C", list(names.values()), [(f"{metrics['members']} members", cells)])


def print_metrics(
    metrics: Scores, label: str, against: str = "persistence", comparison: Scores | None = None
) -> None:
    """Print the tables of `sheets`."""
    first, last = metrics["test"]
    console = open_console()
    console.print(
        f"{printable(label)}: {metrics['model']}, {metrics['protocol']} protocol, {metrics['forecasts']} "
        f"forecasts of {metrics['ocean_cells']} ocean cells, {first} to {last}",
        soft_wrap=True,
    )
    for sheet in sheets(metrics, label, against, comparison):
        print_sheet(console, sheet, bold=label)


def open_console() -> Console:
    """Return standard output: as wide as the terminal, or 120 columns in a file, which has no edge."""
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


def _rows(metrics: Scores, label: str, cells: Callable[[str, Scores], list[str]]) -> list[tuple[str, list[str]]]:
    return [(label if m == MODEL else m, cells(m, score)) for m, score in metrics["scores"].items()]


def _leads(by_lead: list[Any]) -> list[int]:
    """Return the first day, the end of each week, and the last day."""
    horizon = len(by_lead)
    return sorted({1, horizon, *range(7, horizon + 1, 7)})


def _at(comparison: Scores, lead: int) -> Scores:
    return {"overall": comparison["by_lead"][lead], "interval": comparison["by_lead_interval"][lead]}


def _skill(score: Scores) -> list[str]:
    low, high = score["interval"]
    interval = "-" if low is None or high is None else f"{100 * low:.0f}..{100 * high:.0f}%"
    return [_percent(score["overall"]), interval]


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _p_value(value: float | None) -> str:
    return "-" if value is None else "<0.001" if value < 0.001 else f"{value:.3f}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
