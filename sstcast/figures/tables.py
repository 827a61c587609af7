"""Tables of scores of runs, scored files and hindcasts, which `printing` and the reports show."""

from collections.abc import Sequence

from sstcast.errors import counted, printable
from sstcast.figures.sheets.sheet import (
    ASTERISK,
    PARTS,
    Scores,
    Sheet,
    first_system,
    folds_of,
    interval_text,
    marked,
    parts_of,
    percent,
    week_ends,
)
from sstcast.names import LINEAR_BASE, MODEL, PERFECT, WITHOUT_PREDICTOR
from sstcast.scores.score_files import comparison, errors_of, part_of, skill_of
from sstcast.scores.significance import p_text

NOTE = f"{ASTERISK} Skill is 1 minus a ratio."
VARY = "The last digits vary between machines, because processors and versions of PyTorch round differently."


def summary(metrics: Scores) -> str:
    """Describe the system, the forecasts and the test period in a line."""
    (first, last), scored = metrics["test"], f"forecasts of {metrics['ocean_cells']} ocean cells"
    if protocol := metrics.get("protocol_of_hindcast"):
        return (
            f"{metrics['forecasts']} {scored}, {protocol['first']} to {protocol['last']}, "
            f"{counted(metrics['horizon'], 'day')} ahead, trained on earlier years only "
            f"({counted(len(folds_of(metrics)), 'fold')})"
        )
    system = metrics["systems"][MODEL]
    members = f" (ensemble of {system['members']})" if system["members"] > 1 else ""
    origin = f", trained on {printable(system['trained_on'])}" if system.get("trained_on") else ""
    return (
        f"{system['model']}{members}{origin}, {metrics['protocol']} protocol, {metrics['forecasts']} {scored}, "
        f"{first} to {last}"
    )


def bases(metrics: Scores, against: Sequence[str] = ()) -> list[str]:
    """Return `against`, by default the reference, after the linear base of the run's network if it has one."""
    linear_bases = [LINEAR_BASE] if LINEAR_BASE in metrics["systems"] else []
    return list(dict.fromkeys([*linear_bases, *(against or [metrics["reference"]])]))


def added(metrics: Scores) -> str:
    """Describe in a sentence what the network of a run added to its own linear base. Empty for other results."""
    compared = comparison(metrics, "mse", MODEL, LINEAR_BASE)
    if skill_of(compared) is None:
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
    for name, compared in comparisons(metrics).items():
        if name.startswith(WITHOUT_PREDICTOR) and compared["ratio"] is not None:
            with_it, without = (errors_of(metrics, of)["mse"] for of in (MODEL, name))
            low, high = compared["interval"]
            ends = "too few dates for an interval" if low is None else f"95 % {low:.4f} to {high:.4f}"
            lines.append(
                f"Predictor {name.removeprefix(WITHOUT_PREDICTOR)}: MSE {with_it:.4f} °C² with it, {without:.4f} "
                f"without, ratio {compared['ratio']:.4f} ({ends})."
            )
    return lines


def comparisons(metrics: Scores) -> dict[str, Scores]:
    """Return the comparisons of the model with all other systems, or for a hindcast of all with the reference."""
    if metrics["kind"] != "hindcast":
        return dict(metrics["ratios"].get("mse", {}).get(MODEL, {}))  # also with a run that `--against` names
    base, names = metrics["reference"], [name for name in metrics["systems"] if name != metrics["reference"]]
    return {name: of for name in names if (of := comparison(metrics, "mse", name, base))}


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
                (system, [marked(part_of(compared, split, part)) for part in parts.values()])
                for system, compared in by_system.items()
            ]
            sheets.append(Sheet(f"{name}, by {title}", [*parts], rows))
    return sheets


def versus(metrics: Scores, name: str, reference: str) -> Sheet:
    """Return a table that compares the first system, here called `name`, with `reference`.

    It has ratio, interval and p-value by lead, and the share of cells with a significant difference by lead week.
    """
    compared = comparison(metrics, "mse", first_system(metrics), reference)
    leads = parts_of(metrics, "by_lead")
    parts = [compared, *(part_of(compared, "by_lead", day) for day in leads.values())]
    blank = [""] * len(leads)
    rows = [
        ("MSE ratio", [marked(part) for part in parts]),
        ("95 % interval", [interval_text(part["interval"]) for part in parts]),
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
        rows.append(("95 % over folds", [interval_text(folds["interval"]), *blank]))
        rows.append(("p over folds", [p_text(folds["p_value"]), *blank]))
    if seeds := compared.get("over_seeds"):
        seed_ratios = [ratio for ratio in seeds if ratio is not None]
        rows.append(
            ("each member", [interval_text([min(seed_ratios), max(seed_ratios)]) if seed_ratios else "-", *blank])
        )
    title = f"MSE of {name} / MSE of {reference} (cells: share with a significant difference by week)"
    return Sheet(title, ["all", *leads], rows)
