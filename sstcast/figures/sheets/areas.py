"""The tables of scores of areas."""

from dataclasses import replace

from sstcast.figures.sheets.sheet import (
    Sheet,
    first_name,
    first_system,
    interval_text,
    marked,
    number,
    percent,
    sheet_of_reliability,
    sheet_of_systems,
)
from sstcast.names import REGION, SCORED_YEARS
from sstcast.scores.system_records import key_in_share
from sstcast.types import Scores

FEWEST_DATES = 5


def areas(metrics: Scores, label: str) -> list[Sheet]:
    """Return tables of the scores of areas, if areas were verified.

    Those of the Brier scores of a share of the region are of all systems, the others of the first.
    """
    by_area = metrics.get("areas", {})
    system, name = first_system(metrics), first_name(metrics, label)
    if not any(system in of for of in by_area.values()):
        return []
    first = next(iter(by_area.values()))[system]
    weeks, shares = len(first["by_week"]["covered_80"]), list(first["share"])
    header = ["CRPS", "RMSE", "spread / error", "in 80 %", *(f"week {week + 1}" for week in range(weeks))]
    header += [f"Brier, {share} %" for share in shares]
    rows = []
    for area, of in by_area.items():
        area_scores = of[system]
        covered = [percent(share) for share in area_scores["by_week"]["covered_80"]]
        brier = [number(area_scores["share"][share]["brier"], 4) for share in shares]
        means = [number(area_scores["crps"], 4), number(area_scores["rmse"]), number(area_scores["spread_skill"])]
        rows.append((area, [*means, percent(area_scores["covered_80"]), *covered, *brier]))
    title = (
        f"Means of areas by {name}, °C: share in the 80 % interval, also by lead week; Brier score of at least so "
        "much of the area in a heatwave"
    )
    found = [Sheet(title, header, rows, is_printed="places" in metrics)]
    by_heading = {f"at least {share} %": diagram for share, diagram in diagrams(metrics).items()}
    return [
        *found,
        _skills(by_area, system, name, shares, is_printed="places" in metrics),
        *(_share(metrics, by_area[REGION], share, label) for share in shares),
        *sheet_of_reliability(f"Share of the region in a heatwave by {name}", by_heading),
    ]


def diagrams(metrics: Scores) -> Scores:
    """Return the reliability diagram of the first system for each share of the region, if areas were verified."""
    found = metrics.get("areas", {}).get(REGION, {}).get(first_system(metrics), {}).get("share", {})
    return {share: scores["reliability"] for share, scores in found.items() if "reliability" in scores}


def _skills(by_area: Scores, system: str, name: str, shares: list[str], is_printed: bool) -> Sheet:
    """Return the table of the skill of a system for the shares of each area."""
    rows = [(area, [_skill(of[system]["share"][share]) for share in shares]) for area, of in by_area.items()]
    title = (
        f"At least so much of an area in a heatwave by {name}: skill of the Brier score over the frequency in the "
        "scored years, which nobody knew before (95 % interval)"
    )
    return Sheet(title, [f"{share} %" for share in shares], rows, is_printed)


def _share(metrics: Scores, of_region: Scores, share: str, label: str) -> Sheet:
    """Return the table of the Brier scores of all systems for a share of the region."""
    reference, scores = metrics["reference"], {name: of["share"][share] for name, of in of_region.items()}

    def cells(name: str, score: Scores) -> list[str]:
        compared = score.get(key_in_share(reference))
        ratio = ["1.000 ", ""] if name == reference else ["-", ""]
        if compared is not None and name != reference:
            ratio = [marked(compared), interval_text(compared["interval"])]
        return [number(score["brier"], 4), *ratio, _skill(score)]

    title = (
        f"At least {share} % of the region in a heatwave: Brier score, ratio to {reference}; skill over the "
        "frequency in the scored years, which nobody knew before (95 % interval)"
    )
    header = ["Brier", "ratio", "95 %", "skill"]
    return replace(sheet_of_systems(title, header, metrics, scores, label, cells), is_printed=False)


def _skill(score: Scores) -> str:
    """Return the skill of a Brier score over the frequency in the scored years, with its interval.

    There is none if the event came, or did not come, on fewer dates than `FEWEST_DATES`.
    """
    for word in ("came", "failed"):
        if score[word] < FEWEST_DATES:
            return f"- ({word} on {score[word]} of {score['dates']} dates)"
    compared = score.get(key_in_share(SCORED_YEARS))
    if compared is None or compared["ratio"] is None:
        return "-"
    low, high = compared["interval"]
    ends = "" if low is None or high is None else f" ({percent(1 - high)} to {percent(1 - low)})"
    return f"{percent(1 - compared['ratio'])}{ends}"
