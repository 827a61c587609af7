"""The tables of probabilities of heatwaves."""

from sstcast.figures.sheets import events
from sstcast.figures.sheets.sheet import (
    Sheet,
    first_name,
    first_system,
    percent,
    sheet_of_reliability,
    sheets_of_event,
)
from sstcast.names import BASE_RATE
from sstcast.types import Scores

HEATWAVES = {
    "exceedance": "Days above the 90th percentile",
    "event": "Days in a marine heatwave",
}


def heatwaves(metrics: Scores, label: str) -> list[Sheet]:
    """Return tables for each kind of heatwave probability: Brier score, ratio, and skill over the base rate.

    Reports also show their warnings and reliability.
    """
    sheets = []
    for kind, scores in metrics["heatwaves"].items():
        first = next(iter(scores.values()))
        where = f", no event defined on {percent(1 - first['defined'])} of cells and days" * (first["defined"] < 1)
        if short := metrics["short_base_period"]:
            where += f", base period of only {short}"
        sheets += sheets_of_event(HEATWAVES[kind], where, metrics, kind, scores, BASE_RATE, label)
    by_heading = {HEATWAVES[kind]: diagram for kind, diagram in diagrams(metrics).items()}
    by_heading |= events.diagrams(metrics)
    return sheets + sheet_of_reliability(f"Heatwaves by {first_name(metrics, label)}", by_heading)


def diagrams(metrics: Scores) -> Scores:
    """Return the reliability diagram of the first system for each kind of heatwave that it was scored for."""
    system = first_system(metrics)
    of_system = {kind: scores[system] for kind, scores in metrics["heatwaves"].items() if system in scores}
    return {kind: scores["reliability"] for kind, scores in of_system.items()}
