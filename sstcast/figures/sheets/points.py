"""The table of scores against observations at points."""

from sstcast.figures.sheets.sheet import Sheet, number, percent, shown_leads
from sstcast.names import COVERED
from sstcast.scores.system_records import shown_names
from sstcast.types import Scores


def points(metrics: Scores, label: str) -> list[Sheet]:
    """Return a table with a row for each system and for the analysis, if forecasts were scored at points."""
    if not (found := metrics.get("points")):
        return []
    leads = shown_leads(metrics)
    header = ["RMSE", "95 %", "bias", "MSE ratio", "95 %", "CRPS", *(f"in {key[-2:]} %" for key in COVERED)]
    header += [f"day {lead}" for lead in leads]
    rows, names = [], shown_names(metrics, label)
    for name, score in found["scores"].items():
        roots = [None if end is None else end**0.5 for end in score["interval"]]
        by_lead = [number(score["by_lead"]["rmse"][lead - 1]) for lead in leads]
        cells = [number(score["rmse"]), _ends(roots), number(score["bias"]), number(score["ratio"])]
        cells += [
            _ends(score["ratio_interval"]),
            number(score["crps"], 4),
            *(percent(score[key]) for key in COVERED),
        ]
        rows.append((names[name], [*cells, *by_lead]))
    analysis = found["analysis"]
    blank = [""] * (len(header) - 3)
    rows.append(
        (
            "analysis, day 0 (has seen most of them)",
            [number(analysis["rmse"]), "", number(analysis["bias"]), *blank],
        )
    )
    lacking = "".join(f"; {words}" for words in found.get("without_interval", []))
    title = (
        f"Against {found['observations']:,} observations of {found['platforms']:,} platforms, °C; ratio to "
        f"{metrics['reference']}; an observation has an error of {found['error']:g} °C; RMSE by lead{lacking}"
    )
    return [Sheet(title, header, rows)]


def _ends(interval: list[float | None]) -> str:
    return "" if None in interval else f"{interval[0]:.3f}..{interval[1]:.3f}"
