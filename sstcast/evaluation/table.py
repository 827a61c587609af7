"""Metrics as two small tables, for the terminal and for the report."""

from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from sstcast.evaluation.evaluate import MODEL


@dataclass(frozen=True)
class Sheet:
    """A table as text: `rows` are (name, cells), the model's first."""

    title: str
    header: list[str]
    rows: list[tuple[str, list[str]]]


def overall(metrics: dict[str, Any], label: str) -> Sheet:
    """Scores over all leads: degC, then standardised units, and the model's skill against each baseline."""
    header = ["RMSE", "MAE", "bias", "ACC", "MSE*", "MAE*", "skill"]

    def cells(method: str, score: dict[str, Any]) -> list[str]:
        degrees, standardised = score["degC"], score["standardised"]
        values = [
            *(degrees[m] for m in ("rmse", "mae", "bias", "acc")),
            standardised["mse"],
            standardised["mae"],
        ]
        saved = "" if method == MODEL else f"{metrics['skill']['degC'][method]['overall']:+.1%}"
        return [*map(_text, values), saved]

    return Sheet(
        "All leads, °C (* in standardised units; skill: share of MSE the model saves)",
        header,
        _rows(metrics, label, cells),
    )


def by_lead(metrics: dict[str, Any], label: str) -> Sheet:
    """RMSE in degC on the first day, at the end of each week, and on the last day."""
    horizon = len(metrics["scores"][MODEL]["degC"]["by_lead"]["rmse"])
    leads = sorted({1, horizon, *range(7, horizon + 1, 7)})

    def cells(method: str, score: dict[str, Any]) -> list[str]:
        return [_text(score["degC"]["by_lead"]["rmse"][lead - 1]) for lead in leads]

    return Sheet("RMSE °C by lead", [f"day {lead}" for lead in leads], _rows(metrics, label, cells))


def print_metrics(metrics: dict[str, Any], label: str) -> None:
    """Print the scores of a run's model and of the baselines over the test days."""
    first, last = metrics["test"]
    console = Console(highlight=False)
    console.print(
        f"{label}: {metrics['model']}, {metrics['protocol']} protocol, {metrics['forecasts']} forecasts of "
        f"{metrics['ocean_cells']} ocean cells, {first} to {last}",
        soft_wrap=True,
    )
    for sheet in (overall(metrics, label), by_lead(metrics, label)):
        table = Table(title=sheet.title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        table.add_column("", no_wrap=True)
        for name in sheet.header:
            table.add_column(name, justify="right", no_wrap=True)
        for name, cells in sheet.rows:
            table.add_row(name, *cells, style="bold" if name == label else None)
        console.print(table)


def _rows(metrics: dict[str, Any], label: str, cells: Any) -> list[tuple[str, list[str]]]:
    return [(label if m == MODEL else m, cells(m, score)) for m, score in metrics["scores"].items()]


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
