"""The table of warnings of heatwaves: hits, false alarms and errors of days."""

from sstcast.figures.sheets.sheet import (
    Sheet,
    estimate_text,
    first_system,
    sheet_of_systems,
    sheet_of_warnings,
)
from sstcast.types import Scores

WITHIN_HORIZON = "A heatwave within the horizon"  # the event of the probabilities
SCORE_COLUMNS = {
    "hit_rate": "hit rate",
    "false_alarm_ratio": "false alarms",
    "success_index": "success index",
    "onset_error": "onset, days",
    "end_error": "end, days",
}


def events(metrics: Scores, label: str) -> list[Sheet]:
    """Return the tables of the warnings of all systems, with 95 % intervals, if events were verified."""
    found = metrics.get("events", {})
    if not found:
        return []
    categories = list(next(iter(found.values()))["by_category"])

    def cells(_name: str, of: Scores) -> list[str]:
        by_category = [estimate_text(of["by_category"][category]) for category in categories]
        return [*(estimate_text(of[key]) for key in SCORE_COLUMNS), *by_category]

    title = (
        "Warnings of a heatwave within the horizon (probability of one half or more): share of events that were "
        "warned of, share of warnings without an event, critical success index, mean absolute errors of onset and "
        "end among hits, and hit rate by category of the event"
    )
    header = [*SCORE_COLUMNS.values(), *categories]
    warnings = sheet_of_systems(title, header, metrics, found, label, cells)
    return [warnings, sheet_of_warnings(WITHIN_HORIZON, metrics, found, label)]


def diagrams(metrics: Scores) -> Scores:
    """Return the reliability diagram of the first system, if its probabilities of events were verified."""
    found = metrics.get("events", {}).get(first_system(metrics), {})
    return {WITHIN_HORIZON: found["reliability"]} if found else {}
