"""The table of probabilities of thirds."""

from sstcast.figures.sheets.sheet import (
    Sheet,
    first_name,
    first_system,
    number,
    percent,
    ratio_cells,
    sheet_of_reliability,
    sheet_of_systems,
    skill_cells,
)
from sstcast.names import SCORED_YEARS, THIRDS
from sstcast.scores.score_files import comparison
from sstcast.types import Scores


def terciles(metrics: Scores, label: str) -> list[Sheet]:
    """Return tables of the probabilities of thirds: RPS, ROC areas, and skill over base rates, also by week.

    Reports also show their reliability.
    """
    if "terciles" not in metrics:
        return []
    observed = metrics["terciles"]["observed"]
    count = len(observed["by_week"]["middle"])

    def cells(name: str, score: Scores) -> list[str]:
        skills = skill_cells(comparison(metrics, "rps", name, SCORED_YEARS), "by_week", range(count))
        areas = [number(score.get(third, {}).get("roc_area")) for third in THIRDS]
        rps = [number(score[key], 4) for key in ("rps", "rps_fair") if key in score]
        return [*rps, *ratio_cells(metrics, "rps", name)[:2], *areas, *skills]

    is_fair = "rps_fair" in next(iter(metrics["terciles"]["scores"].values()))
    header = ["RPS", *["fair RPS"] * is_fair, "ratio", "95 %", *(f"ROC area, {third}" for third in THIRDS)]
    header += ["skill", *(f"week {week + 1}" for week in range(count))]
    came = ", ".join(percent(observed[third]) for third in THIRDS)
    title = f"Thirds of weekly means, {came} observed: ranked probability score, skill over these frequencies"
    found = metrics["terciles"]["scores"]
    return [
        sheet_of_systems(title, header, metrics, found, label, cells),
        *sheet_of_reliability(f"Thirds of weekly means by {first_name(metrics, label)}", diagrams(metrics)),
    ]


def diagrams(metrics: Scores) -> Scores:
    """Return the reliability diagram of the first system for each third, if it was scored for thirds."""
    found = metrics.get("terciles", {"scores": {}})["scores"].get(first_system(metrics), {})
    return {third: found[third]["reliability"] for third in THIRDS if third in found}
