"""The tables of errors, and of means over boxes of the ocean."""

from dataclasses import replace

from sstcast.figures.sheets.sheet import (
    PARTS,
    Sheet,
    first_name,
    first_system,
    marked,
    number,
    parts_of,
    ratio_cells,
    scored_leads,
    sheet_of_systems,
)
from sstcast.names import DEGREES, REGION, THIRDS
from sstcast.scores.metrics import columns
from sstcast.scores.score_files import comparison, errors_of, part_of
from sstcast.types import Scores

BOXES = {
    REGION: "Mean of the region",
    "nino12": "Niño 1+2",
    "nino3": "Niño 3",
    "nino34": "Niño 3.4",
    "nino4": "Niño 4",
}


def errors(metrics: Scores, label: str) -> list[Sheet]:
    """Return tables of errors and ratios over all leads, and of the RMSE by lead and by season."""

    def cells(name: str, score: Scores) -> list[str]:
        numbers = [number(score[units][metric]) for _, units, metric in columns()]
        return [number(score[DEGREES]["mse"], 4), *numbers, *ratio_cells(metrics, "mse", name)]

    def by(split: str) -> Sheet:
        parts = parts_of(metrics, split)

        def rmse(_name: str, score: Scores) -> list[str]:
            return [number(score[DEGREES][split]["rmse"][part]) for part in parts.values()]

        return sheet_of_systems(f"RMSE °C by {PARTS[split]}", [*parts], metrics, metrics["scores"], label, rmse)

    header = ["MSE", *(heading for heading, *_ in columns()), "ratio", "95 %", "p"]
    title = f"All leads, °C, MSE °C² (std: standardised; ratio: MSE / MSE of {metrics['reference']})"
    everything = sheet_of_systems(title, header, metrics, metrics["scores"], label, cells)
    return [everything, by("by_lead"), by("by_season")]


def by_index(metrics: Scores, label: str) -> list[Sheet]:
    """Return a table of RMSE and ratio to the reference by third of an index, if scores were split by an index."""
    if "index" not in metrics:
        return []
    base = metrics["reference"]

    def cells(name: str, score: Scores) -> list[str]:
        compared = comparison(metrics, "mse", name, base)
        rmse = [number(score[DEGREES]["by_index"]["rmse"][third]) for third in THIRDS]
        parts = [part_of(compared, "by_index", third) for third in THIRDS]
        return [*rmse, *(marked(part) if part and name != base else "" for part in parts)]

    day = "the initial date"
    if metrics["index"] in metrics["indices"]:
        day = f"the first day forecast (day {scored_leads(metrics)[0]})"
    title = f"By third of {metrics['index']} on {day}: RMSE °C, and MSE / MSE of {base}"
    header = [*THIRDS, *(f"ratio, {third}" for third in THIRDS)]
    return [sheet_of_systems(title, header, metrics, metrics["scores"], label, cells)]


def about_small_scales(metrics: Scores) -> str:
    """Describe the small scales of the first system in a sentence. Empty if they are unknown."""
    name = first_name(metrics, "the model")
    detail = errors_of(metrics, first_system(metrics))["by_lead"].get("small_scales", [None])
    if None in detail:
        return ""
    return (
        f"At scales of a few cells, {name} has {detail[0]:.0%} of the observed variance on day 1 and "
        f"{detail[-1]:.0%} on day {metrics['horizon']}."
    )


def indices(metrics: Scores, label: str) -> list[Sheet]:
    """Return a table for each box mean: RMSE and correlation over all leads and at the last lead.

    A terminal does not show that of the region.
    """

    def cells(_name: str, score: Scores) -> list[str]:
        parts = score, part_of(score, "by_lead", scored_leads(metrics)[-1] - 1)
        return [number(part[metric]) for part in parts for metric in ("rmse", "correlation")]

    header = ["RMSE", "correlation", "RMSE, last day", "correlation, last day"]
    found = {
        box: sheet_of_systems(f"{BOXES[box]}, °C", header, metrics, scores, label, cells)
        for box, scores in metrics["indices"].items()
    }
    return [replace(sheet, is_printed=box != REGION) for box, sheet in found.items()]
