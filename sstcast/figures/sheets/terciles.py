"""The table of probabilities of thirds."""

from sstcast.figures.sheets.sheet import (
    Scores,
    Sheet,
    Sheets,
    number,
    percent,
    ratio_cells,
    sheet_of_reliability,
    sheet_of_systems,
    skill_text,
)
from sstcast.names import MODEL, SCORED_YEARS, THIRDS


def sheets(metrics: Scores, label: str) -> Sheets:
    """Return the table of thirds."""
    return {"terciles": terciles(metrics, label)}


def terciles(metrics: Scores, label: str) -> list[Sheet]:
    """Return tables of the probabilities of thirds: RPS, ROC areas, and skill over base rates, also by week.

    Reports also show their reliability.
    """
    if "terciles" not in metrics:
        return []
    observed = metrics["terciles"]["observed"]
    count = len(observed["by_week"]["middle"])

    def cells(name: str, score: Scores) -> list[str]:
        base = metrics["ratios"]["rps"].get(name, {}).get(SCORED_YEARS)
        weeks = base["by_week"]["ratio"][:count] if base else [None] * count
        areas = [number(score.get(third, {}).get("roc_area")) for third in THIRDS]
        skills = [skill_text(base or {}), *("-" if ratio is None else percent(1 - ratio) for ratio in weeks)]
        rps = [number(score[key], 4) for key in ("rps", "rps_fair") if key in score]
        return [*rps, *ratio_cells(metrics, "rps", name)[:2], *areas, *skills]

    is_fair = "rps_fair" in next(iter(metrics["terciles"]["scores"].values()))
    header = [
        "RPS",
        *["fair RPS"] * is_fair,
        "ratio",
        "95 %",
        *(f"ROC area, {third}" for third in THIRDS),
        "skill",
    ]
    header += [f"week {week + 1}" for week in range(count)]
    came = ", ".join(percent(observed[third]) for third in THIRDS)
    title = f"Thirds of weekly means, {came} observed: ranked probability score, skill over these frequencies"
    found = metrics["terciles"]["scores"]
    system = next(iter(metrics["systems"]))
    own = found.get(system, {})
    diagrams = {third: own[third]["reliability"] for third in THIRDS if third in own}
    text = f"Thirds of weekly means by {label if system == MODEL else system}"
    return [
        sheet_of_systems(title, header, metrics, found, label, cells),
        *sheet_of_reliability(text, diagrams),
    ]
