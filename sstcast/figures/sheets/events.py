"""The table of warnings of heatwaves: hits, false alarms and errors of days."""

from sstcast.figures.sheets.sheet import Scores, Sheet, Sheets, estimate_text, first_system, sheet_of_warnings

WITHIN_HORIZON = "A heatwave within the horizon"  # the event of the probabilities
SCORE_COLUMNS = {
    "hit_rate": "hit rate",
    "false_alarm_ratio": "false alarms",
    "success_index": "success index",
    "onset_error": "onset, days",
    "end_error": "end, days",
}


def sheets(metrics: Scores, label: str) -> Sheets:
    """Return the table of warnings."""
    return {"heatwaves": events(metrics, label)}


def events(metrics: Scores, label: str) -> list[Sheet]:
    """Return the tables of the warnings of all systems, with 95 % intervals, if events were verified."""
    found = metrics.get("events", {})
    if not found:
        return []
    categories = list(next(iter(found.values()))["by_category"])
    rows = [
        (
            label if name == "model" else name,
            [estimate_text(of[key]) for key in SCORE_COLUMNS]
            + [estimate_text(of["by_category"][name]) for name in categories],
        )
        for name, of in found.items()
    ]
    title = (
        "Warnings of a heatwave within the horizon (probability of one half or more): share of events that were "
        "warned of, share of warnings without an event, critical success index, mean absolute errors of onset and "
        "end among hits, and hit rate by category of the event"
    )
    warnings = Sheet(title, [*SCORE_COLUMNS.values(), *categories], rows)
    return [warnings, sheet_of_warnings(WITHIN_HORIZON, metrics, found, label)]


def diagrams(metrics: Scores) -> Scores:
    """Return the reliability diagram of the first system, if its probabilities of events were verified."""
    found = metrics.get("events", {}).get(first_system(metrics), {})
    return {WITHIN_HORIZON: found["reliability"]} if found else {}
