"""The tables of distributions and of ensembles."""

from sstcast.figures.sheets.sheet import (
    Sheet,
    number,
    parts_of,
    percent,
    ratio_cells,
    sheet_of_systems,
    skill_text,
)
from sstcast.names import COVERED, LEVELS
from sstcast.scores.score_files import comparison
from sstcast.types import Scores


def probabilities(metrics: Scores, label: str) -> list[Sheet]:
    """Return tables of probabilistic scores over all leads, and of the coverage of 80 % intervals by part."""
    scores, climate = metrics["probabilities"], metrics["climate"]
    if not scores:
        return []
    parts = {split: parts_of(metrics, split) for split in ("by_lead", "by_season", "by_fold")}

    def cells(name: str, score: Scores) -> list[str]:
        skill = skill_text(comparison(metrics, "crps", name, climate))
        covered = [percent(score[key]) for key in COVERED]
        width = [number(score["spread"]), number(score["spread_skill"])]
        return [number(score["crps"], 4), *ratio_cells(metrics, "crps", name)[:2], skill, *covered, *width]

    def covered(_name: str, score: Scores) -> list[str]:
        return [
            percent(score[split]["covered_80"][part])
            for split, by_heading in parts.items()
            for part in by_heading.values()
        ]

    header = ["CRPS", "ratio", "95 %", "skill", *(f"in {level} %" for level in LEVELS), "spread", "spread / error"]
    title = f"Probabilities, °C: CRPS, ratio to {metrics['reference']}, skill against {climate}"
    by = "lead, season and fold" if parts["by_fold"] else "lead and season"
    headings = [heading for by_heading in parts.values() for heading in by_heading]
    return [
        sheet_of_systems(title, header, metrics, scores, label, cells),
        sheet_of_systems(f"Coverage of 80 % intervals by {by}", headings, metrics, scores, label, covered),
    ]


def ensembles(metrics: Scores, label: str) -> list[Sheet]:
    """Return a table of ensemble scores over all leads, if there is an ensemble."""
    names = {"crps": "CRPS", "crps_fair": "fair CRPS", "spread": "spread", "spread_skill": "spread / error"}

    def cells(_name: str, score: Scores) -> list[str]:
        return [number(score[name]) for name in names]

    scores, header = metrics["ensemble"], [*names.values()]
    return [sheet_of_systems("Ensemble, all leads, °C", header, metrics, scores, label, cells)] if scores else []
