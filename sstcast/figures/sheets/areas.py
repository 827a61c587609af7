"""The table of scores of areas."""

from sstcast.figures.sheets.sheet import Scores, Sheet, Sheets, number, percent


def sheets(metrics: Scores, label: str) -> Sheets:
    """Return the table of areas. A terminal shows it if there are places besides the region."""
    return {"indices": areas(metrics, label)}


def areas(metrics: Scores, label: str) -> list[Sheet]:
    """Return a table of the scores of areas, for the first system, if areas were verified."""
    by_area = metrics.get("areas", {})
    system = next(iter(metrics["systems"]))
    if system not in next(iter(by_area.values()), {}):
        return []
    weeks = len(next(iter(by_area.values()))[system]["by_week"]["covered_80"])
    shares = list(next(iter(by_area.values()))[system]["share"])
    header = ["CRPS", "RMSE", "spread / error", "in 80 %", *(f"week {week + 1}" for week in range(weeks))]
    header += [f"Brier, {share} %" for share in shares]
    rows = []
    for area, of in by_area.items():
        area_scores = of[system]
        covered = [percent(share) for share in area_scores["by_week"]["covered_80"]]
        brier = [number(area_scores["share"][share]["brier"], 4) for share in shares]
        means = [number(area_scores["crps"], 4), number(area_scores["rmse"]), number(area_scores["spread_skill"])]
        rows.append((area, [*means, percent(area_scores["covered_80"]), *covered, *brier]))
    name = label if system == "model" else system
    title = (
        f"Means of areas by {name}, °C: share in the 80 % interval, also by lead week; Brier score of at least so "
        "much of the area in a heatwave"
    )
    return [Sheet(title, header, rows, is_printed="places" in metrics)]
