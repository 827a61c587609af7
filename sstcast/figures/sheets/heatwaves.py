"""The tables of probabilities of heatwaves."""

from dataclasses import replace

from sstcast.figures.sheets import events
from sstcast.figures.sheets.sheet import (
    Scores,
    Sheet,
    Sheets,
    first_name,
    first_system,
    number,
    parts_of,
    percent,
    ratio_cells,
    sheet_of_reliability,
    sheet_of_systems,
    sheet_of_warnings,
    skill_cells,
)
from sstcast.names import BASE_RATE
from sstcast.scores.score_files import comparison

HEATWAVES = {
    "exceedance": "Days above the 90th percentile",
    "event": "Days in a marine heatwave",
}


def sheets(metrics: Scores, label: str) -> Sheets:
    """Return a table for each kind of heatwave probability."""
    return {"heatwaves": heatwaves(metrics, label)}


def heatwaves(metrics: Scores, label: str) -> list[Sheet]:
    """Return tables for each kind of heatwave probability: Brier score, ratio, and skill over the base rate.

    Reports also show their warnings and reliability.
    """
    sheets, leads = [], parts_of(metrics, "by_lead")
    for kind, scores in metrics["heatwaves"].items():

        def cells(name: str, score: Scores, kind: str = kind) -> list[str]:
            skills = skill_cells(comparison(metrics, kind, name, BASE_RATE), "by_lead", leads.values())
            brier = [number(score[key], 4) for key in ("brier", "brier_fair") if key in score]
            numbers = [number(score["roc_area"]), number(score["sedi"])]
            return [*brier, *ratio_cells(metrics, kind, name)[:2], *numbers, *skills]

        first = next(iter(scores.values()))
        header = ["Brier", *["fair Brier"] * ("brier_fair" in first)]
        header += ["ratio", "95 %", "ROC area", "SEDI", "skill", *leads]
        where = f", no event defined on {percent(1 - first['defined'])} of cells and days" * (first["defined"] < 1)
        if short := metrics["short_base_period"]:
            where += f", base period of only {short}"
        title = (
            f"{HEATWAVES[kind]}, {percent(first['observed'])} observed{where}: Brier score, ratio to "
            f"{metrics['reference']}; skill over the base rate, also by lead"
        )
        sheets.append(sheet_of_systems(title, header, metrics, scores, label, cells))
        sheets.append(replace(sheet_of_warnings(HEATWAVES[kind], metrics, scores, label), is_printed=False))
    by_heading = {HEATWAVES[kind]: diagram for kind, diagram in diagrams(metrics).items()}
    by_heading |= events.diagrams(metrics)
    return sheets + sheet_of_reliability(f"Heatwaves by {first_name(metrics, label)}", by_heading)


def diagrams(metrics: Scores) -> Scores:
    """Return the reliability diagram of the first system for each kind of heatwave that it was scored for."""
    system = first_system(metrics)
    of_system = {kind: scores[system] for kind, scores in metrics["heatwaves"].items() if system in scores}
    return {kind: scores["reliability"] for kind, scores in of_system.items()}
