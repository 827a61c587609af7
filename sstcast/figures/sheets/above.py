"""The tables of the probability of a day above a temperature."""

from sstcast.figures.sheets.sheet import (
    Sheet,
    first_name,
    first_system,
    sheet_of_reliability,
    sheets_of_event,
)
from sstcast.types import Scores


def above(metrics: Scores, label: str) -> list[Sheet]:
    """Return the tables of each temperature, with the skill over the best climatology."""
    found: list[Sheet] = []
    for level, scores in metrics.get("above", {}).items():
        found += sheets_of_event(_title(level), "", metrics, f"above {level}", scores, metrics["climate"], label)
    by_heading = {_title(level): of for level, of in diagrams(metrics).items()}
    return found + sheet_of_reliability(f"Warm days by {first_name(metrics, label)}", by_heading)


def _title(level: str) -> str:
    return f"Days above {level} °C"


def diagrams(metrics: Scores) -> Scores:
    """Return the reliability diagram of the first system for each temperature that it was scored for."""
    system = first_system(metrics)
    return {level: of[system]["reliability"] for level, of in metrics.get("above", {}).items() if system in of}
