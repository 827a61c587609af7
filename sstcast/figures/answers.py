"""What people ask of scores, answered in sentences and lines, which `printing` and the reports show."""

import datetime as dt
import re
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

import pandas as pd

from sstcast.errors import counted, printable
from sstcast.figures.sheets.sheet import (
    Sheet,
    first_system,
    folds_of,
    interval_text,
    marked,
    number,
    percent,
    scored_leads,
    sheet_of_systems,
    week_ends,
)
from sstcast.models import LINEAR
from sstcast.names import BASE_RATE, BASELINES, CLIMATOLOGIES, EVENT, LINEAR_BASE, MODEL, PERFECT, PERSISTENCE
from sstcast.ocean.filled_days import MOST_FILLED
from sstcast.runs import Run
from sstcast.scores.score_files import best_climatology, best_of, comparison, errors_of, part_of, skill_of
from sstcast.scores.significance import BETTER, verdict
from sstcast.scores.system_records import BASE, WITHOUT, of_role, shown_names
from sstcast.types import Scores

DAYS = (1, 7, 14, 28)  # ahead, whose errors answers tell, besides the first and the last one
FIRST_DAY = "day 1 is 1 day after the last observed day"  # so it is over where the newest days come late
MOST_SYSTEMS = 8  # of a hindcast that have a line
YEARS = {1: "one test year", 2: "two test years"}  # that are weak evidence


def summary(metrics: Scores) -> str:
    """Describe the system, the forecasts and the test period in a line, and tell if there are few test years."""
    (first, last), scored = metrics["test"], f"forecasts of {metrics['ocean_cells']} ocean cells"
    if count := metrics.get("dates_left_out"):
        scored += f" (without {counted(count, 'initial date')} on which gaps were filled)"
    days = dt.date.fromisoformat(last) - dt.date.fromisoformat(first)
    evidence = YEARS.get(max(1, round(days.days / 365.25)), "")
    weak = evidence and f" ({evidence}: weak evidence)"
    if protocol := metrics.get("protocol_of_hindcast"):
        return (
            f"{metrics['forecasts']} {scored}, {protocol['first']} to {protocol['last']}{weak}, "
            f"{counted(metrics['horizon'], 'day')} ahead, trained on earlier years only "
            f"({counted(len(folds_of(metrics)), 'fold')})"
        )
    system = metrics["systems"][first_system(metrics)]
    members = f" (ensemble of {system['members']})" if system["members"] > 1 else ""
    origin = f", trained on {printable(system['trained_on'])}" if system.get("trained_on") else ""
    return (
        f"{system['model']}{members}{origin}, {metrics['protocol']} protocol, {metrics['forecasts']} {scored}, "
        f"{first} to {last}{weak}"
    )


def squared_error(metrics: Scores) -> str:
    """Compare the squared error of the first system in a line that needs no knowledge of the systems' kinds.

    It is set beside that of the best climatology and of persistence, and then beside that of the strongest linear
    rival, with an interval if the two were compared (in a hindcast, if one is the reference). Empty if none was
    scored.
    """
    system = first_system(metrics)
    plain, rivals = {*CLIMATOLOGIES, BASELINES[PERSISTENCE]}, []
    for article, models in (("the ", CLIMATOLOGIES), ("", [BASELINES[PERSISTENCE]]), ("", {*LINEAR} - plain)):
        name = best_of(metrics, models)
        if name is None:
            continue
        compared = comparison(metrics, "mse", system, name)
        mse, of_rival = (errors_of(metrics, key)["mse"] for key in (system, name))
        if (skill := skill_of(compared or {"ratio": mse / of_rival})) is not None:
            has_interval = compared and not plain.issuperset(models)
            interval = f", {_span(skill, compared['interval'])}" if has_interval else ""
            rivals.append((f"{_below(skill)} {article}{name}", interval))
    told = ", ".join(text for text, interval in rivals if not interval)
    told = "; ".join(filter(None, [told, *(text + interval for text, interval in rivals if interval)]))
    of = f" of {system}" * (metrics["kind"] == "hindcast")
    return f"squared error{of} {told}" if told else ""


def _below(skill: float) -> str:
    """Say how far a squared error lies below another one, or above it."""
    return f"{_percent(skill)} {'above' if skill < 0 else 'below'}"


def _span(skill: float, ends: Sequence[float | None]) -> str:
    """Write the interval of a ratio as per cent below or above 1, each end with this word if they differ."""
    low, high = ends
    if low is None or high is None:
        return "too few dates for an interval"
    skills = [1 - high, 1 - low] if skill >= 0 else [1 - low, 1 - high]
    if len({end < 0 for end in (skill, *skills)}) > 1:
        return " to ".join(map(_below, skills))
    return f"{_percent(skills[0]).removesuffix(' %')} to {_percent(skills[1])}"


def _percent(skill: float) -> str:
    share = abs(100 * skill)
    return f"{share:.{0 if share >= 0.95 else 1}f} %"


def answers(metrics: Scores, against: Sequence[str] = ()) -> list[str]:
    """Answer in sentences how good the first system is.

    They tell its errors, compare it with the systems `against`, by default the reference, and with the climatology
    that has the lowest squared error, and tell what its intervals hold and how well it forecasts heatwaves.
    """
    system, climate = first_system(metrics), best_climatology(metrics)
    own, base = (errors_of(metrics, name)["by_lead"]["rmse"] for name in (system, climate))
    errors = [f"{number(own[day - 1])} °C on day {day} ({number(base[day - 1])})" for day in _days(metrics)]
    # A file says itself what its initial time means.
    first_day = "" if metrics["kind"] == "file" else f" {FIRST_DAY.capitalize()}."
    names = dict.fromkeys([*(against or [metrics["reference"]]), climate])
    compared = [comparison(metrics, "mse", system, name) for name in names if name != system]
    filled = metrics.get("filled", 0)
    smooth = (
        "Filled values are smoother than the sea, so errors on them are too small: {} of those scored are filled."
    )
    return [
        f"RMSE (in brackets that of the {climate}): {', '.join(errors)}.{first_day}",
        *([smooth.format(percent(filled))] if filled > MOST_FILLED else []),
        *(told(of) for of in compared if of),
        *about_the_distribution(metrics),
    ]


def about_the_distribution(metrics: Scores) -> list[str]:
    """Tell what the 80 % intervals of the first system hold, and its skill for days in a heatwave by week."""
    return [text for text in (_coverage(metrics), _heatwaves(metrics)) if text]


def _coverage(metrics: Scores) -> str:
    scores = metrics["probabilities"].get(first_system(metrics), {})
    if scores.get("covered_80") is None:
        return ""
    seasons = {name: of for name, of in scores["by_season"]["covered_80"].items() if of is not None}
    lowest, highest = (choose(seasons, key=seasons.__getitem__) for choose in (min, max))
    by_season = f": {seasons[lowest]:.0%} in {lowest}, {seasons[highest]:.0%} in {highest}" * (len(seasons) > 1)
    return f"The 80 % intervals hold {scores['covered_80']:.0%} of the observed values{by_season}."


def _heatwaves(metrics: Scores) -> str:
    """Tell the Brier skill from the first week on, up to the last before one that is not better."""
    compared = comparison(metrics, EVENT, first_system(metrics), BASE_RATE)
    if skill_of(compared) is None:
        return ""
    weeks = [part_of(compared, "by_week", week) for week in range(len(compared["by_week"]["ratio"]))]
    weeks = [week for week in weeks if week["ratio"] is not None]
    better = len(list(takewhile(lambda week: verdict(week) == BETTER, weeks)))
    texts = [f"{percent(skill_of(week))} in week {number}" for number, week in enumerate(weeks[:better], 1)]
    if better < len(weeks):
        after = weeks[better]
        texts.append(f"{verdict(after)} in week {better + 1} ({percent(skill_of(after))})")
    return f"Days in a marine heatwave, Brier skill over the {BASE_RATE}: {', '.join(texts)}."


def lines_of_systems(metrics: Scores, label: str) -> Sheet:
    """Return a table with a line for each of the best systems, the reference and the best climatology.

    It has the RMSE by lead, and ratio, interval and verdict to the reference.
    """
    base, days = metrics["reference"], _days(metrics)
    needed = [base, best_climatology(metrics)]
    names = list(metrics["systems"])
    others = [name for name in names if name not in needed][: MOST_SYSTEMS - len(set(needed))]
    shown = {name: errors_of(metrics, name) for name in names if name in (*needed, *others)}

    def cells(name: str, score: Scores) -> list[str]:
        compared = comparison(metrics, "mse", name, base)
        rmse = [number(score["by_lead"]["rmse"][day - 1]) for day in days]
        if name == base or not compared:
            return [*rmse, "1.000 ", "", "the reference" if name == base else ""]
        return [*rmse, marked(compared), interval_text(compared["interval"]), verdict(compared)]

    title = f"RMSE, °C, and MSE / MSE of {base}; {FIRST_DAY}"
    if len(names) > len(shown):
        title += f" ({len(shown)} of {len(names)} systems; --tables prints all)"
    header = [*(f"day {day}" for day in days), "ratio", "95 %", "verdict"]
    return sheet_of_systems(title, header, metrics, shown, label, cells)


def table_of_systems(metrics: Scores, label: str) -> pd.DataFrame:
    """Return the numbers of the answers for all systems, the run itself as `label`, best first in a hindcast.

    The columns are the RMSE in degC by `day`, the `ratio` of the squared error over all leads to that of the
    reference, the ends `low` and `high` of its 95 % interval, and the `verdict`. The reference has the ratio 1.
    """
    base, days = metrics["reference"], _days(metrics)
    systems, names = [of for of in metrics["systems"] if of in metrics["scores"]], shown_names(metrics, label)
    rows = []
    for system in systems:
        rmse = errors_of(metrics, system)["by_lead"]["rmse"]
        compared = {} if system == base else comparison(metrics, "mse", system, base)
        low, high = compared.get("interval", (None, None))
        ratio, words = (1.0, "the reference") if system == base else (compared.get("ratio"), "")
        rows.append([*(rmse[day - 1] for day in days), ratio, low, high, verdict(compared) if compared else words])
    columns = [*(f"day {day}" for day in days), "ratio", "low", "high", "verdict"]
    table = pd.DataFrame(rows, pd.Index([names[system] for system in systems], name="system"), columns)
    return table.astype(dict.fromkeys(columns[:-1], float))


def label_of(metrics: Scores, folder: Path) -> str:
    """Return what the scores in a folder are of: the label of the run, or the name of the file or the hindcast."""
    if metrics["kind"] == "run":
        return Run(folder).label
    return Path(metrics["file"]).name if "file" in metrics else folder.name


def _days(metrics: Scores) -> list[int]:
    leads = scored_leads(metrics)
    return [day for day in leads if day in (leads[0], leads[-1], *DAYS)]


def told(compared: Scores) -> str:
    """Return the sentence of a comparison, in which the system `model` has an article."""
    return re.sub(f"^{MODEL}(?=[ ,])", f"The {MODEL}", compared["sentence"])


def over_its_base(metrics: Scores) -> Scores:
    """Return the comparison of a run's network with its own linear base, or {} if there is none."""
    bases = of_role(metrics["systems"], BASE)
    return comparison(metrics, "mse", MODEL, bases[0]) if bases else {}


def added(metrics: Scores) -> str:
    """Describe in a sentence what the network of a run added to its own linear base. Empty for other results."""
    compared = over_its_base(metrics)
    if skill_of(compared) is None:
        return ""
    by_lead = compared["by_lead"]["ratio"]
    days = ", ".join(
        f"{lead}: {by_lead[lead - 1]:.3f}" for lead in week_ends(len(by_lead)) if by_lead[lead - 1] is not None
    )
    share = metrics["systems"][MODEL].get("share")
    share_text = (
        "All of its change is added"
        if share is None
        else "Only the share of the change that held in years left out of training is added: "
        + ", ".join(f"{week_share:.2f} in week {week}" for week, week_share in enumerate(share, 1))
    )
    return (
        f"The network changes the forecast of its own {LINEAR_BASE}, a linear map fitted to the same days. "
        f"{told(compared)} By lead in days: {days}. {share_text}."
    )


def gains(metrics: Scores) -> list[str]:
    """Describe in a line for each predictor of a linear system what it is worth, and tell which are perfect.

    A forecast of SST among them is also compared with the run.
    """
    read = metrics.get("predictors", {})
    lines = [f"The system {name} reads {text}." for name, text in read.items() if PERFECT in text]
    for name in of_role(metrics["systems"], WITHOUT, MODEL):
        compared = comparison(metrics, "mse", MODEL, name)
        if skill_of(compared) is not None:
            with_it, without = (errors_of(metrics, of)["mse"] for of in (MODEL, name))
            low, high = compared["interval"]
            ends = "too few dates for an interval" if low is None else f"95 % {low:.4f} to {high:.4f}"
            lines.append(
                f"Predictor {metrics['systems'][name]['label']}: MSE {with_it:.4f} °C² with it, {without:.4f} "
                f"without, ratio {compared['ratio']:.4f} ({ends})."
            )
    for by_run in metrics.get("rivals", {}).values():
        for compared in by_run.values():
            days = f"On {counted(compared['dates'], 'date')}, {counted(len(compared['leads']), 'day')} ahead"
            left_out = f"; {counted(compared['left_out'], 'date')} without a new issue" * bool(
                compared["left_out"]
            )
            lines.append(f"{told(compared)} {days}{left_out}.")
    return lines
