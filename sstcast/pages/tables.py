"""Scores as small text tables, for the terminal and for reports: of runs, scored files and hindcasts alike."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from sstcast.errors import printable
from sstcast.names import BASE_RATE, COVERED, DEGREES, LEVELS, MODEL, REGION, SEASONS, THIRDS
from sstcast.runs import Run
from sstcast.scores.metrics import columns
from sstcast.scores.significance import p_text

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
NOTE = "* the 95 % interval of the ratio excludes 1. Skill is 1 less a ratio."
VARY = "Last digits vary by machine: processors and versions of PyTorch round differently."


@dataclass(frozen=True)
class Sheet:
    """A table as text: `rows` are (name, cells)."""

    title: str
    header: list[str]
    rows: list[tuple[str, list[str]]]


def print_scores(metrics: Scores, label: str, against: Sequence[str] = ()) -> None:
    """Print the tables of a run, a file or a hindcast called `label`.

    `against` names the systems with which the first system is compared by lead; by default the reference.
    """
    system, hindcast = next(iter(metrics["systems"])), metrics["kind"] == "hindcast"
    compared, name = metrics["ratios"]["mse"][system], system if hindcast else label
    sheets = [
        *errors(metrics, label),
        *(versus(compared[other], name, other) for other in against or [metrics["reference"]] if other != system),
        *(ratios(metrics, label) if hindcast else []),
        *by_index(metrics, label),
        *probabilities(metrics, label),
        *heatwaves(metrics, label),
        *(sheet for box, sheet in indices(metrics, label).items() if box != REGION),
        *ensembles(metrics, label),
    ]
    print_sheets(f"{printable(label)}: {summary(metrics)}", sheets, name, NOTE)


def print_sheets(heading: str, sheets: Sequence[Sheet], bold: str = "", note: str = "") -> None:
    """Print tables with a `heading`; rows called `bold` stand out."""
    console = open_console()
    if heading:
        console.print(heading, soft_wrap=True)
    for sheet in sheets:
        print_sheet(console, sheet, bold)
    console.print("\n".join(filter(None, [note, VARY])), soft_wrap=True)


def summary(metrics: Scores) -> str:
    """Return what was forecast, in a sentence."""
    (first, last), scored = metrics["test"], f"forecasts of {metrics['ocean_cells']} ocean cells"
    if protocol := metrics.get("protocol_of_hindcast"):
        folds = len(metrics["ratios"]["mse"][metrics["reference"]][metrics["reference"]]["by_fold"]["ratio"])
        return (
            f"{metrics['forecasts']} {scored}, {protocol['first']} to {protocol['last']}, {metrics['horizon']} "
            f"days ahead, by training on earlier years only ({folds} folds)"
        )
    system = metrics["systems"][MODEL]
    members = f" (ensemble of {system['members']})" if system["members"] > 1 else ""
    origin = f", trained on {printable(system['trained_on'])}" if system.get("trained_on") else ""
    return (
        f"{system['model']}{members}{origin}, {metrics['protocol']} protocol, {metrics['forecasts']} {scored}, "
        f"{first} to {last}"
    )


def errors(metrics: Scores, label: str) -> list[Sheet]:
    """Scores over all leads and the ratio to the reference; RMSE by lead and by season of the day forecast."""
    leads, base = week_ends(metrics["horizon"]), metrics["reference"]

    def cells(name: str, score: Scores) -> list[str]:
        numbers = [_number(score[units][metric]) for _, units, metric in columns()]
        return [_number(score[DEGREES]["mse"], 4), *numbers, *_ratio(metrics, "mse", name)]

    def by_lead(_name: str, score: Scores) -> list[str]:
        return [_number(score[DEGREES]["by_lead"]["rmse"][lead - 1]) for lead in leads]

    def by_season(_name: str, score: Scores) -> list[str]:
        return [_number(score[DEGREES]["by_season"]["rmse"][season]) for season in SEASONS]

    header = ["MSE", *(heading for heading, *_ in columns()), "ratio", "95 %", "p"]
    title = f"All leads, °C, MSE °C² (* standardised; ratio: MSE / MSE of {base})"
    return [
        _sheet(title, header, metrics, metrics["scores"], label, cells),
        _sheet("RMSE °C by lead", _days(leads), metrics, metrics["scores"], label, by_lead),
        _sheet("RMSE °C by season of the day forecast", [*SEASONS], metrics, metrics["scores"], label, by_season),
    ]


def comparisons(metrics: Scores, loss: str = "mse") -> dict[str, Scores]:
    """Return how the model compares with every other system or, of a hindcast, each system with the reference."""
    found, base = metrics["ratios"].get(loss, {}), metrics["reference"]
    if metrics["kind"] != "hindcast":
        return dict(found.get(MODEL, {}))
    return {name: found[name][base] for name in metrics["systems"] if name in found and name != base}


def ratios(metrics: Scores, label: str) -> list[Sheet]:
    """The `comparisons` by lead, lead week, season and fold."""
    found, leads = comparisons(metrics), week_ends(metrics["horizon"])
    first = next(iter(found.values()), None)
    if first is None:
        return []
    ours = metrics["kind"] != "hindcast"
    name = f"MSE of {label} / MSE of each system" if ours else f"MSE / MSE of {metrics['reference']}"

    def table(by: str, parts: Mapping[str, Any], title: str) -> Sheet:
        rows = [(of, [_marked(_at(c[by], part)) for part in parts.values()]) for of, c in found.items()]
        return Sheet(f"{name}, by {title}", list(parts), rows)

    folds = first["by_fold"]["ratio"]
    weeks = {f"week {n + 1}": n for n in range(len(first["by_week"]["ratio"]))}
    return [
        table("by_lead", {f"day {lead}": lead - 1 for lead in leads}, "lead"),
        table("by_week", weeks, "lead week"),
        table("by_season", {season: season for season in SEASONS}, "season of the day forecast"),
        *([table("by_fold", {f"from {fold}": fold for fold in folds}, "fold")] if len(folds) > 1 else []),
    ]


def by_index(metrics: Scores, label: str) -> list[Sheet]:
    """RMSE and the ratio to the reference by third of an index; no table without one."""
    if "index" not in metrics:
        return []
    base = metrics["reference"]

    def cells(name: str, score: Scores) -> list[str]:
        compared = metrics["ratios"]["mse"].get(name, {}).get(base)
        rmse = [_number(score[DEGREES]["by_index"]["rmse"][third]) for third in THIRDS]
        parts = [_at(compared["by_index"], third) if compared else None for third in THIRDS]
        return [*rmse, *(_marked(part) if part and name != base else "" for part in parts)]

    title = f"By third of {metrics['index']} on the initial date: RMSE °C, and MSE / MSE of {base}"
    header = [*THIRDS, *(f"ratio, {third}" for third in THIRDS)]
    return [_sheet(title, header, metrics, metrics["scores"], label, cells)]


def versus(compared: Scores, system: str, reference: str) -> Sheet:
    """A comparison by lead: the ratio, its interval, the test of equal errors, shares of significant cells."""
    by_lead = compared["by_lead"]
    leads = week_ends(len(by_lead["ratio"]))
    at = [compared, *(_at(by_lead, lead - 1) for lead in leads)]
    weeks = [None, *((lead - 1) // 7 if lead % 7 == 0 or lead == leads[-1] else None for lead in leads)]
    rows = [
        ("MSE ratio", [_marked(part) for part in at]),
        ("95 % interval", [_interval(part["interval"]) for part in at]),
        ("p (equal MSE)", [p_text(part["p_value"]) for part in at]),
    ]
    for kind in ("better", "worse"):
        if shares := compared.get(kind):
            rows.append((f"cells {kind}", ["" if week is None else _percent(shares[week]) for week in weeks]))
    if folds := compared.get("over_folds"):
        rows.append(("95 % over folds", [_interval(folds["interval"]), *[""] * len(leads)]))
        rows.append(("p over folds", [p_text(folds["p_value"]), *[""] * len(leads)]))
    if seeds := compared.get("over_seeds"):
        known = [ratio for ratio in seeds if ratio is not None]
        rows.append(("each member", [_interval([min(known), max(known)]) if known else "-", *[""] * len(leads)]))
    title = f"MSE of {system} / MSE of {reference} (cells: share with a significant difference, by week)"
    return Sheet(title, ["all", *_days(leads)], rows)


def probabilities(metrics: Scores, label: str) -> list[Sheet]:
    """Scores of the distributions over all leads; coverage of 80 % intervals by lead, season and fold."""
    found, leads, climate = metrics["probabilities"], week_ends(metrics["horizon"]), metrics["climate"]
    if not found:
        return []
    folds = next(iter(found.values()))["by_fold"]["covered_80"]

    def cells(name: str, score: Scores) -> list[str]:
        skill = _skill(metrics["ratios"]["crps"][name].get(climate))
        covered = [_percent(score[key]) for key in COVERED]
        width = [_number(score["spread"]), _number(score["spread_skill"])]
        return [_number(score["crps"], 4), *_ratio(metrics, "crps", name)[:2], skill, *covered, *width]

    def covered(_name: str, score: Scores) -> list[str]:
        shares = [score["by_lead"]["covered_80"][lead - 1] for lead in leads]
        shares += [score["by_season"]["covered_80"][season] for season in SEASONS]
        return [
            _percent(s) for s in (*shares, *(score["by_fold"]["covered_80"][f] for f in folds if len(folds) > 1))
        ]

    header = ["CRPS", "ratio", "95 %", "skill", *(f"in {level} %" for level in LEVELS), "spread", "spread / error"]
    title = f"Probabilities, °C: CRPS, ratio to {metrics['reference']}, skill against {climate}"
    parts = [*_days(leads), *SEASONS, *(f"from {fold}" for fold in folds if len(folds) > 1)]
    by = "lead, season and fold" if len(folds) > 1 else "lead and season"
    return [
        _sheet(title, header, metrics, found, label, cells),
        _sheet(f"Share of the truth within 80 % intervals, by {by}", parts, metrics, found, label, covered),
    ]


def heatwaves(metrics: Scores, label: str) -> list[Sheet]:
    """Brier scores of the probabilities of each kind, the ratio, and the skill over the base rate by lead."""
    sheets, leads = [], week_ends(metrics["horizon"])
    for kind, found in metrics["heatwaves"].items():

        def cells(name: str, score: Scores, kind: str = kind) -> list[str]:
            base = metrics["ratios"][kind][name].get(BASE_RATE, {})
            skills = [_skill(base), *(_skill(_at(base["by_lead"], n - 1) if base else None) for n in leads)]
            numbers = [_number(score["roc_area"]), _number(score["sedi"])]
            return [_number(score["brier"], 4), *_ratio(metrics, kind, name)[:2], *numbers, *skills]

        header = ["Brier", "ratio", "95 %", "ROC area", "SEDI", "skill", *_days(leads)]
        observed = _percent(next(iter(found.values()))["observed"])
        title = (
            f"{HEATWAVES[kind]}, {observed} observed: Brier score, ratio to {metrics['reference']}; "
            "skill over the base rate, also by lead"
        )
        sheets.append(_sheet(title, header, metrics, found, label, cells))
    return sheets


def indices(metrics: Scores, label: str) -> dict[str, Sheet]:
    """RMSE and correlation of each box mean, over all leads and on the last one."""

    def cells(_name: str, score: Scores) -> list[str]:
        last = score["by_lead"]
        values = (score["rmse"], score["correlation"], last["rmse"][-1], last["correlation"][-1])
        return [_number(value) for value in values]

    header = ["RMSE", "correlation", "RMSE, last day", "correlation, last day"]
    found = metrics["indices"].items()
    return {box: _sheet(f"{BOXES[box]}, °C", header, metrics, scores, label, cells) for box, scores in found}


def ensembles(metrics: Scores, label: str) -> list[Sheet]:
    """Probabilistic scores of ensembles over all leads; no table without one."""
    names = {"crps": "CRPS", "crps_fair": "fair CRPS", "spread": "spread", "spread_skill": "spread / error"}
    found = metrics["ensemble"]
    if not found:
        return []
    title = "Ensemble, all leads, °C"
    return [
        _sheet(
            title, [*names.values()], metrics, found, label, lambda _, of: [_number(of[name]) for name in names]
        )
    ]


def weights(run: Run) -> Sheet:
    """The weights of a combination's parts by lead week."""
    # Not above: it needs PyTorch, and no other table does.
    from sstcast.forecasting.predictor import load_combination

    found = load_combination(run)
    names = ["/".join(step for step in part.run.parts if step != "..") for part in run.parts]
    rows = [(name, [_number(weight) for weight in row]) for name, row in zip(names, found.T, strict=True)]
    header = [f"week {1 + week}" for week in range(len(found))]
    return Sheet(f"Weights of {run.folder.name} by lead week", header, rows)


def week_ends(horizon: int) -> list[int]:
    """Return the first day, the end of each week, and the last day."""
    return sorted({1, horizon, *range(7, horizon + 1, 7)})


def open_console() -> Console:
    """Return a console for standard output: as wide as the terminal, or 140 columns if it is not a terminal."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = 140
    return console


def print_sheet(console: Console, sheet: Sheet, bold: str = "") -> None:
    """Print a table; the row called `bold` stands out."""
    table = Table(title=printable(sheet.title), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for name in sheet.header:
        table.add_column(name, justify="right", overflow="fold")
    for name, cells in sheet.rows:
        table.add_row(printable(name), *cells, style="bold" if name == bold else None)
    console.print(table)


def _sheet(
    title: str,
    header: list[str],
    metrics: Scores,
    scores: Scores,
    label: str,
    cells: Callable[[str, Scores], list[str]],
) -> Sheet:
    """Make a table with a row for each system, in the order of `systems`; the model's has the run's name."""
    order = [*(name for name in metrics["systems"] if name in scores), *scores]
    rows = []
    for name in dict.fromkeys(order):
        members = metrics["systems"].get(name, {}).get("members", 1)
        more = f" ({members} members)" if members > 1 and name != MODEL else ""
        rows.append((label if name == MODEL else f"{name}{more}", cells(name, scores[name])))
    return Sheet(title, header, rows)


def _ratio(metrics: Scores, loss: str, name: str) -> list[str]:
    """Return ratio, interval and p-value of a system against the reference."""
    compared = metrics["ratios"][loss].get(name, {}).get(metrics["reference"])
    if compared is None or name == metrics["reference"]:
        return ["1.000 " if compared else "-", "", ""]
    return [_marked(compared), _interval(compared["interval"]), p_text(compared["p_value"])]


def _at(parts: Scores, part: Any) -> Scores:
    """Return the comparison of one lead, week, season or fold."""
    return {key: values[part] for key, values in parts.items()}


def _marked(compared: Scores) -> str:
    if compared["ratio"] is None:
        return "-"
    low, high = compared["interval"]
    told = low is not None and (low > 1 or high < 1)
    return f"{compared['ratio']:.3f}{'*' if told else ' '}"


def _interval(ends: Sequence[float | None]) -> str:
    low, high = ends
    return "-" if low is None or high is None else f"{low:.3f}..{high:.3f}"


def _skill(compared: Scores | None) -> str:
    return _percent(None if not compared or compared["ratio"] is None else 1 - compared["ratio"])


def _days(leads: Sequence[int]) -> list[str]:
    return [f"day {lead}" for lead in leads]


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _number(value: float | None, decimals: int = 3) -> str:
    return "-" if value is None else f"{value:.{decimals}f}"
