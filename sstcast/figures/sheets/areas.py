"""The tables of scores of areas."""

from sstcast.figures.sheets.sheet import (
    Scores,
    Sheet,
    Sheets,
    interval_text,
    marked,
    number,
    percent,
    sheet_of_reliability,
    sheet_of_systems,
)
from sstcast.names import MODEL, REGION, SCORED_YEARS


def sheets(metrics: Scores, label: str) -> Sheets:
    """Return the tables of areas. A terminal shows those of places besides the region."""
    return {"indices": areas(metrics, label)}


def areas(metrics: Scores, label: str) -> list[Sheet]:
    """Return a table of the scores of areas, for the first system, if areas were verified.

    Two more tables are of the share of the region in a heatwave: the Brier scores of all systems, and reliability.
    """
    by_area = metrics.get("areas", {})
    system = next(iter(metrics["systems"]))
    if system not in next(iter(by_area.values()), {}):
        return []
    weeks = len(next(iter(by_area.values()))[system]["by_week"]["covered_80"])
    shares = list(next(iter(by_area.values()))[system]["share"])
    header = ["CRPS", "RMSE", "spread / error", "in 80 %", *(f"week {week + 1}" for week in range(weeks))]
    header += [text for share in shares for text in (f"Brier, {share} %", "skill")]
    rows = []
    for area, of in by_area.items():
        area_scores = of[system]
        covered = [percent(share) for share in area_scores["by_week"]["covered_80"]]
        means = [number(area_scores["crps"], 4), number(area_scores["rmse"]), number(area_scores["spread_skill"])]
        brier = [text for share in shares for text in _brier_cells(area_scores["share"][share])]
        rows.append((area, [*means, percent(area_scores["covered_80"]), *covered, *brier]))
    name = label if system == MODEL else system
    title = (
        f"Means of areas by {name}, °C: share in the 80 % interval, also by lead week; Brier score of at least so "
        "much of the area in a heatwave, and its skill over the frequency in the scored years (95 % interval)"
    )
    found = [Sheet(title, header, rows, is_printed="places" in metrics)]
    of_region = {name: of["share"] for name, of in by_area.get(REGION, {}).items()}
    if SCORED_YEARS in of_region:
        found += [_shares(metrics, of_region, shares, label)]
    own = of_region.get(system, {})
    diagrams = {
        f"at least {share} %": own[share]["reliability"] for share in shares if "reliability" in own[share]
    }
    return found + sheet_of_reliability(f"Share of the region in a heatwave by {name}", diagrams, label)


def _shares(metrics: Scores, of_region: Scores, shares: list[str], label: str) -> Sheet:
    """Return the table of the Brier scores of all systems."""
    reference = metrics["reference"]

    def cells(name: str, of: Scores) -> list[str]:
        texts = []
        for share in shares:
            brier, skill = _brier_cells(of[share])
            compared = of[share].get(reference)
            if name == reference or compared is None:
                ratio = ["1.000 " if name == reference else "-", ""]
            else:
                ratio = [marked(compared), interval_text(compared["interval"])]
            texts += [brier, *ratio, skill]
        return texts

    header = [text for share in shares for text in (f"Brier, {share} %", "ratio", "95 %", "skill")]
    title = (
        f"At least so much of the region in a heatwave: Brier score, ratio to {reference}; skill over the "
        "frequency in the scored years, which nobody knew before (95 % interval)"
    )
    return sheet_of_systems(title, header, metrics, of_region, label, cells)


def _brier_cells(score: Scores) -> list[str]:
    """Return the Brier score, and its skill over the frequency in the scored years with its interval."""
    compared = score.get(SCORED_YEARS)
    if compared is None or compared["ratio"] is None:
        return [number(score["brier"], 4), "-"]
    low, high = compared["interval"]
    ends = "" if low is None or high is None else f" ({1 - high:.2f}-{1 - low:.2f})"
    return [number(score["brier"], 4), f"{1 - compared['ratio']:z.2f}{ends}"]
