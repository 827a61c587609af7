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
from sstcast.names import BASELINES, PERSISTENCE, REGION, SCORED_YEARS
from sstcast.scores.score_files import best_climatology, best_of
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
    first = next(iter(by_area.values()))
    weeks, shares = len(first[system]["by_week"]["covered_80"]), list(first[system]["share"])
    plain = [best_climatology(metrics), best_of(metrics, [BASELINES[PERSISTENCE]])]
    beside = [key for key in plain if key is not None and key in first and key != system]
    header = ["CRPS", "RMSE", *beside, "spread / error", "in 80 %", *(f"week {week + 1}" for week in range(weeks))]
    header += [f"Brier, {share} %" for share in shares]
    rows = []
    for area, of in by_area.items():
        area_scores = of[system]
        covered = [percent(share) for share in area_scores["by_week"]["covered_80"]]
        brier = _each_once(area_scores, [number(score["brier"], 4) for score in area_scores["share"].values()])
        means = [number(area_scores["crps"], 4), *(number(of[key]["rmse"]) for key in (system, *beside))]
        means += [number(area_scores["spread_skill"]), percent(area_scores["covered_80"])]
        rows.append((area, [*means, *covered, *brier]))
    also = f", beside those of {' and '.join(beside)}" if beside else ""
    title = (
        f"Means of areas by {name}, °C: RMSE{also}; share in the 80 % interval, also by lead week; Brier score of "
        "at least so much of the area in a heatwave, once for a point"
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
    rows = [
        (area, _each_once(of[system], [_skill(of[system]["share"][share]) for share in shares]))
        for area, of in by_area.items()
    ]
    title = (
        f"At least so much of an area in a heatwave by {name}: skill of the Brier score over the frequency in the "
        "scored years, which nobody knew before (95 % interval)"
    )
    return Sheet(title, [f"{share} %" for share in shares], rows, is_printed)


def _each_once(score: Scores, cells: list[str]) -> list[str]:
    """Return a cell for each share, of which only the first has a text if the scores of all shares are equal.

    So they are of a point, all or nothing of which is in a heatwave.
    """
    first, *others = score["share"].values()
    return [cells[0], *([""] * len(others) if all(of == first for of in others) else cells[1:])]


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
