"""Tables of scores of runs, scored files and hindcasts, which `printing` and the reports show."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sstcast.errors import counted, printable
from sstcast.names import (
    BASE_RATE,
    COVERED,
    DEGREES,
    LEVELS,
    LINEAR_BASE,
    MODEL,
    PERFECT,
    REGION,
    SCORED_YEARS,
    SEASONS,
    THIRDS,
    WITHOUT_PREDICTOR,
)
from sstcast.scores.metrics import columns
from sstcast.scores.score_files import part_of, skill_of
from sstcast.scores.significance import decimals, p_text

Scores = dict[str, Any]

BOXES = {
    REGION: "Mean of the region",
    "nino12": "Niño 1+2",
    "nino3": "Niño 3",
    "nino34": "Niño 3.4",
    "nino4": "Niño 4",
}
HEATWAVES = {
    "exceedance": "Days above the 90th percentile",
    "event": "Days in a marine heatwave",
}
PARTS = {  # the ways in which scores are split, with their names in titles and on axes
    "by_lead": "lead",
    "by_week": "lead week",
    "by_season": "season of the day forecast",
    "by_fold": "fold",
}
ASTERISK = "* the 95 % interval of the ratio excludes 1."
NOTE = f"{ASTERISK} Skill is 1 minus a ratio."
VARY = "The last digits vary between machines, because processors and versions of PyTorch round differently."


@dataclass(frozen=True)
class Sheet:
    """A table of text. Each of `rows` is a name and its cells."""

    title: str
    header: list[str]
    rows: list[tuple[str, list[str]]]

    @property
    def note(self) -> str:
        """The meaning of the asterisk, if the table has one."""
        return ASTERISK if any("*" in cell for _, cells in self.rows for cell in cells) else ""


def summary(metrics: Scores) -> str:
    """Describe the system, the forecasts and the test period in a line."""
    (first, last), scored = metrics["test"], f"forecasts of {metrics['ocean_cells']} ocean cells"
    if protocol := metrics.get("protocol_of_hindcast"):
        return (
            f"{metrics['forecasts']} {scored}, {protocol['first']} to {protocol['last']}, "
            f"{counted(metrics['horizon'], 'day')} ahead, trained on earlier years only "
            f"({counted(len(_folds(metrics)), 'fold')})"
        )
    system = metrics["systems"][MODEL]
    members = f" (ensemble of {system['members']})" if system["members"] > 1 else ""
    origin = f", trained on {printable(system['trained_on'])}" if system.get("trained_on") else ""
    return (
        f"{system['model']}{members}{origin}, {metrics['protocol']} protocol, {metrics['forecasts']} {scored}, "
        f"{first} to {last}"
    )


def errors(metrics: Scores, label: str) -> list[Sheet]:
    """Return tables of errors and ratios over all leads, and of the RMSE by lead and by season."""

    def cells(name: str, score: Scores) -> list[str]:
        numbers = [number(score[units][metric]) for _, units, metric in columns()]
        return [number(score[DEGREES]["mse"], 4), *numbers, *_ratio(metrics, "mse", name)]

    def by(split: str) -> Sheet:
        parts = parts_of(metrics, split)

        def rmse(_name: str, score: Scores) -> list[str]:
            return [number(score[DEGREES][split]["rmse"][part]) for part in parts.values()]

        return _sheet(f"RMSE °C by {PARTS[split]}", [*parts], metrics, metrics["scores"], label, rmse)

    header = ["MSE", *(heading for heading, *_ in columns()), "ratio", "95 %", "p"]
    title = f"All leads, °C, MSE °C² (std: standardised; ratio: MSE / MSE of {metrics['reference']})"
    everything = _sheet(title, header, metrics, metrics["scores"], label, cells)
    return [everything, by("by_lead"), by("by_season")]


def bases(metrics: Scores, against: Sequence[str] = ()) -> list[str]:
    """Return `against`, by default the reference, after the linear base of the run's network if it has one."""
    linear_bases = [LINEAR_BASE] if LINEAR_BASE in metrics["systems"] else []
    return list(dict.fromkeys([*linear_bases, *(against or [metrics["reference"]])]))


def added(metrics: Scores) -> str:
    """Describe in a sentence what the network of a run added to its own linear base. Empty for other results."""
    compared = metrics["ratios"].get("mse", {}).get(MODEL, {}).get(LINEAR_BASE)
    if compared is None or compared["ratio"] is None:
        return ""
    by_lead = compared["by_lead"]["ratio"]
    days = ", ".join(
        f"{'day ' if lead == 1 else ''}{lead}: {by_lead[lead - 1]:.3f}"
        for lead in week_ends(len(by_lead))
        if by_lead[lead - 1] is not None
    )
    low, high = compared["interval"]
    same = round(compared["ratio"], 3) == 1
    verdict, to = ("leaves", "at") if same else ("lowers" if compared["ratio"] < 1 else "raises", "to")
    doubt = ""
    if low is None:
        ends = ", too few dates for an interval"
    else:
        ends = f", 95 % interval {low:.3f} to {high:.3f}"
        doubt = "" if same or high < 1 or low > 1 else ", which may be chance"
    share = metrics["systems"][MODEL].get("share")
    share_text = (
        "All of its change is added"
        if share is None
        else "Only the share of the change that held in years left out of training is added: "
        + ", ".join(f"{week_share:.2f} in week {week}" for week, week_share in enumerate(share, 1))
    )
    return (
        f"The network changes the forecast of its own {LINEAR_BASE}, a linear map fitted to the same days. The "
        f"change {verdict} the mean squared error {to} {compared['ratio']:.3f} times that of the "
        f"base{ends}{doubt} ({days}). {share_text}."
    )


def gains(metrics: Scores) -> list[str]:
    """Describe in a line for each predictor of a linear system what it is worth, and tell which are perfect."""
    read = metrics.get("predictors", {})
    lines = [f"The system {name} reads {text}." for name, text in read.items() if PERFECT in text]
    for name, compared in metrics["ratios"].get("mse", {}).get(MODEL, {}).items():
        if name.startswith(WITHOUT_PREDICTOR) and compared["ratio"] is not None:
            with_it, without = (metrics["scores"][of][DEGREES]["mse"] for of in (MODEL, name))
            low, high = compared["interval"]
            ends = "too few dates for an interval" if low is None else f"95 % {low:.4f} to {high:.4f}"
            lines.append(
                f"Predictor {name.removeprefix(WITHOUT_PREDICTOR)}: MSE {with_it:.4f} °C² with it, {without:.4f} "
                f"without, ratio {compared['ratio']:.4f} ({ends})."
            )
    return lines


def comparisons(metrics: Scores) -> dict[str, Scores]:
    """Return the comparisons of the model with all other systems, or for a hindcast of all with the reference."""
    mse_ratios, base = metrics["ratios"].get("mse", {}), metrics["reference"]
    if metrics["kind"] != "hindcast":
        return dict(mse_ratios.get(MODEL, {}))
    return {name: mse_ratios[name][base] for name in metrics["systems"] if name in mse_ratios and name != base}


def ratios(metrics: Scores, label: str) -> list[Sheet]:
    """Return tables of the `comparisons` by lead, lead week, season and fold."""
    by_system = comparisons(metrics)
    if not by_system:
        return []
    has_model = metrics["kind"] != "hindcast"
    name = f"MSE of {label} / MSE of each system" if has_model else f"MSE / MSE of {metrics['reference']}"
    sheets = []
    for split, title in PARTS.items():
        if parts := parts_of(metrics, split):
            rows = [
                (system, [_marked(part_of(compared, split, part)) for part in parts.values()])
                for system, compared in by_system.items()
            ]
            sheets.append(Sheet(f"{name}, by {title}", [*parts], rows))
    return sheets


def by_index(metrics: Scores, label: str) -> list[Sheet]:
    """Return a table of RMSE and ratio to the reference by third of an index, if scores were split by an index."""
    if "index" not in metrics:
        return []
    base = metrics["reference"]

    def cells(name: str, score: Scores) -> list[str]:
        compared = metrics["ratios"]["mse"].get(name, {}).get(base)
        rmse = [number(score[DEGREES]["by_index"]["rmse"][third]) for third in THIRDS]
        parts = [part_of(compared, "by_index", third) if compared else None for third in THIRDS]
        return [*rmse, *(_marked(part) if part and name != base else "" for part in parts)]

    title = f"By third of {metrics['index']} on the initial date: RMSE °C, and MSE / MSE of {base}"
    header = [*THIRDS, *(f"ratio, {third}" for third in THIRDS)]
    return [_sheet(title, header, metrics, metrics["scores"], label, cells)]


def versus(metrics: Scores, name: str, reference: str) -> Sheet:
    """Return a table that compares the first system, here called `name`, with `reference`.

    It has ratio, interval and p-value by lead, and the share of cells with a significant difference by lead week.
    """
    compared = metrics["ratios"]["mse"][next(iter(metrics["systems"]))][reference]
    leads = parts_of(metrics, "by_lead")
    parts = [compared, *(part_of(compared, "by_lead", day) for day in leads.values())]
    blank = [""] * len(leads)
    rows = [
        ("MSE ratio", [_marked(part) for part in parts]),
        ("95 % interval", [_interval(part["interval"]) for part in parts]),
        ("p (equal MSE)", [p_text(part["p_value"]) for part in parts]),
    ]
    weeks = [
        None,
        *(day // 7 if day % 7 == 6 or day == metrics["horizon"] - 1 else None for day in leads.values()),
    ]
    for kind in ("better", "worse"):
        if shares := compared.get(kind):
            rows.append((f"cells {kind}", ["" if week is None else percent(shares[week]) for week in weeks]))
    if folds := compared.get("over_folds"):
        rows.append(("95 % over folds", [_interval(folds["interval"]), *blank]))
        rows.append(("p over folds", [p_text(folds["p_value"]), *blank]))
    if seeds := compared.get("over_seeds"):
        seed_ratios = [ratio for ratio in seeds if ratio is not None]
        rows.append(
            ("each member", [_interval([min(seed_ratios), max(seed_ratios)]) if seed_ratios else "-", *blank])
        )
    title = f"MSE of {name} / MSE of {reference} (cells: share with a significant difference by week)"
    return Sheet(title, ["all", *leads], rows)


def probabilities(metrics: Scores, label: str) -> list[Sheet]:
    """Return tables of probabilistic scores over all leads, and of the coverage of 80 % intervals by part."""
    scores, climate = metrics["probabilities"], metrics["climate"]
    if not scores:
        return []
    parts = {split: parts_of(metrics, split) for split in ("by_lead", "by_season", "by_fold")}

    def cells(name: str, score: Scores) -> list[str]:
        skill = _skill(metrics["ratios"]["crps"][name].get(climate))
        covered = [percent(score[key]) for key in COVERED]
        width = [number(score["spread"]), number(score["spread_skill"])]
        return [number(score["crps"], 4), *_ratio(metrics, "crps", name)[:2], skill, *covered, *width]

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
        _sheet(title, header, metrics, scores, label, cells),
        _sheet(f"Coverage of 80 % intervals by {by}", headings, metrics, scores, label, covered),
    ]


def heatwaves(metrics: Scores, label: str) -> list[Sheet]:
    """Return a table for each kind of heatwave probability: Brier score, ratio, and skill over the base rate."""
    sheets, leads = [], parts_of(metrics, "by_lead")
    for kind, scores in metrics["heatwaves"].items():

        def cells(name: str, score: Scores, kind: str = kind) -> list[str]:
            base = metrics["ratios"][kind][name].get(BASE_RATE, {})
            brier = [number(score[key], 4) for key in ("brier", "brier_fair") if key in score]
            skills = [_skill(base), *(_skill(part_of(base, "by_lead", day)) for day in leads.values())]
            numbers = [number(score["roc_area"]), number(score["sedi"])]
            return [*brier, *_ratio(metrics, kind, name)[:2], *numbers, *skills]

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
        sheets.append(_sheet(title, header, metrics, scores, label, cells))
    return sheets


def terciles(metrics: Scores, label: str) -> list[Sheet]:
    """Return a table of the probabilities of thirds: RPS, ROC areas, and skill over base rates, also by week."""
    if "terciles" not in metrics:
        return []
    observed = metrics["terciles"]["observed"]
    count = len(observed["by_week"]["middle"])

    def cells(name: str, score: Scores) -> list[str]:
        base = metrics["ratios"]["rps"].get(name, {}).get(SCORED_YEARS)
        weeks = base["by_week"]["ratio"][:count] if base else [None] * count
        areas = [number(score.get(third, {}).get("roc_area")) for third in THIRDS]
        skills = [_skill(base or {}), *("-" if ratio is None else percent(1 - ratio) for ratio in weeks)]
        rps = [number(score[key], 4) for key in ("rps", "rps_fair") if key in score]
        return [*rps, *_ratio(metrics, "rps", name)[:2], *areas, *skills]

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
    return [_sheet(title, header, metrics, metrics["terciles"]["scores"], label, cells)]


def indices(metrics: Scores, label: str) -> dict[str, Sheet]:
    """Return a table for each box mean: RMSE and correlation over all leads and at the last lead."""

    def cells(_name: str, score: Scores) -> list[str]:
        last = score["by_lead"]
        values = (score["rmse"], score["correlation"], last["rmse"][-1], last["correlation"][-1])
        return [number(value) for value in values]

    header = ["RMSE", "correlation", "RMSE, last day", "correlation, last day"]
    boxes = metrics["indices"].items()
    return {box: _sheet(f"{BOXES[box]}, °C", header, metrics, scores, label, cells) for box, scores in boxes}


def ensembles(metrics: Scores, label: str) -> list[Sheet]:
    """Return a table of ensemble scores over all leads, if there is an ensemble."""
    names = {"crps": "CRPS", "crps_fair": "fair CRPS", "spread": "spread", "spread_skill": "spread / error"}

    def cells(_name: str, score: Scores) -> list[str]:
        return [number(score[name]) for name in names]

    scores, header = metrics["ensemble"], [*names.values()]
    return [_sheet("Ensemble, all leads, °C", header, metrics, scores, label, cells)] if scores else []


def week_ends(horizon: int) -> list[int]:
    """Return the first lead, the last lead of each week, and the last lead, in days."""
    return sorted({1, horizon, *range(7, horizon + 1, 7)})


def parts_of(metrics: Scores, split: str) -> dict[str, Any]:
    """Return the parts that a table shows by heading, for scores split in one of the ways in `PARTS`.

    A part is the position of a day or week in a list of scores, or the key of a season or fold. A single fold is
    not shown.
    """
    horizon, folds = metrics["horizon"], _folds(metrics)
    parts: dict[str, dict[str, Any]] = {
        "by_lead": {f"day {day}": day - 1 for day in week_ends(horizon)},
        "by_week": {f"week {week + 1}": week for week in range(-(-horizon // 7))},
        "by_season": dict(zip(SEASONS, SEASONS, strict=True)),
        "by_fold": {f"from {fold}": fold for fold in folds if len(folds) > 1},
    }
    return parts[split]


def percent(value: float | None) -> str:
    """Format a share as a percentage."""
    return "-" if value is None else f"{value:z.1%}"


def number(value: float | None, decimals: int = 3, unit: str = "") -> str:
    """Format a score."""
    return "-" if value is None else f"{value:z.{decimals}f}{unit}"


def _folds(metrics: Scores) -> list[str]:
    """Return the first years of the folds."""
    return list(next(iter(metrics["scores"].values()))[DEGREES]["by_fold"]["mse"])


def _sheet(
    title: str,
    header: list[str],
    metrics: Scores,
    scores: Scores,
    label: str,
    cells: Callable[[str, Scores], list[str]],
) -> Sheet:
    """Return a table with a row for each system, in the order of `systems`. The model's row is called `label`."""
    order = [*(name for name in metrics["systems"] if name in scores), *scores]
    rows = []
    for name in dict.fromkeys(order):
        members = metrics["systems"].get(name, {}).get("members", 1)
        suffix = f" ({members} members)" if members > 1 and name != MODEL else ""
        rows.append((label if name == MODEL else f"{name}{suffix}", cells(name, scores[name])))
    return Sheet(title, header, rows)


def _ratio(metrics: Scores, loss: str, name: str) -> list[str]:
    """Return ratio, interval and p-value of a system against the reference."""
    compared = metrics["ratios"][loss].get(name, {}).get(metrics["reference"])
    if compared is None or name == metrics["reference"]:
        return ["1.000 " if compared else "-", "", ""]
    return [_marked(compared), _interval(compared["interval"]), p_text(compared["p_value"])]


def _marked(compared: Scores) -> str:
    if compared["ratio"] is None:
        return "-"
    low, high = compared["interval"]
    significant = low is not None and (low > 1 or high < 1)
    digits = decimals(compared["ratio"]) if significant else 3
    return f"{compared['ratio']:.{digits}f}{'*' if significant else ' '}"


def _interval(ends: Sequence[float | None]) -> str:
    low, high = ends
    if low is None or high is None:
        return "-"
    digits = decimals(low if low > 1 else high) if low > 1 or high < 1 else 3
    return f"{low:.{digits}f}..{high:.{digits}f}"


def _skill(compared: Scores | None) -> str:
    return percent(skill_of(compared or {}))
