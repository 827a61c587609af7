"""A hindcast in the terminal and on a page."""

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sstcast import __version__
from sstcast.artefacts import below, digest, is_made_of, locked
from sstcast.errors import SSTCastError, printable, warn
from sstcast.hindcasts.files import Hindcast
from sstcast.names import CLIMATE, COVERED, LEVELS, SEASONS, STATE
from sstcast.pages.curves import draw_curves
from sstcast.pages.former import of_hindcast, read_hindcast
from sstcast.pages.hindcast_figures import HIGHEST, Skill, draw_ratios, skills
from sstcast.pages.images import Image, png_uri, svg_uri, write_page
from sstcast.pages.maps import PHONE, SLIDE
from sstcast.pages.report import Section, facts
from sstcast.pages.text import HEATWAVES, Sheet, p_value, print_sheets, week_ends

Scores = dict[str, Any]

NOTE = "* the 95 % interval of the ratio excludes 1"


def print_hindcast(metrics: Scores, name: str) -> None:
    """Print the tables of a hindcast."""
    metrics = of_hindcast(metrics)
    print_sheets(f"{printable(name)}: {_summary(metrics)}", sheets(metrics), metrics["reference"], NOTE)


def sheets(metrics: Scores) -> list[Sheet]:
    """Return the tables: all leads, and the ratio by lead, lead week, season and fold."""
    horizon = len(next(iter(metrics["systems"].values()))["by_lead"]["mse"])
    leads, base = week_ends(horizon), metrics["reference"]

    def table(title: str, parts: dict[str, Any]) -> Sheet:
        """Make a table of ratios; `parts` are functions of a system's scores."""
        rows = [(name, [_ratio(part(of)) for part in parts.values()]) for name, of in metrics["systems"].items()]
        return Sheet(f"MSE over that of {base}, by {title}", list(parts), rows)

    weeks = range(len(next(iter(metrics["systems"].values()))["by_week"]["mse"]))
    folds = next(iter(metrics["systems"].values()))["by_fold"]
    return [
        overall(metrics),
        table("lead", {f"day {n}": lambda of, n=n: _at(of["by_lead"], n - 1) for n in leads}),
        table("lead week", {f"week {n + 1}": lambda of, n=n: _at(of["by_week"], n) for n in weeks}),
        table("season of the day forecast", {s: lambda of, s=s: of["by_season"][s] for s in SEASONS}),
        table("fold", {f"from {f}": lambda of, f=f: of["by_fold"][f] for f in folds}),
        *distributions(metrics),
        *heatwaves(metrics),
    ]


def distributions(metrics: Scores) -> list[Sheet]:
    """Scores of the predictive distributions over all leads, and the coverage of 80 % intervals by lead."""
    found = {name: of["probabilities"] for name, of in metrics["systems"].items()}
    leads, base = week_ends(metrics["horizon"]), metrics["reference"]
    folds = next(iter(found.values()))["by_fold"]
    rows, covered = [], []
    for name, of in found.items():
        low, high = of["interval"]
        interval = "-" if low is None or name == base else f"{low:.3f}..{high:.3f}"
        shares = [_percent(of[key]) for key in COVERED]
        numbers = [_number(of["crps"], 4), _ratio(of), interval, _percent(of["skill"]), *shares]
        rows.append((name, [*numbers, _number(of["spread_skill"])]))
        by_lead = [of["by_lead"]["covered_80"][lead - 1] for lead in leads]
        covered.append((name, [_percent(s) for s in (*by_lead, *(of["by_fold"][f]["covered_80"] for f in folds))]))
    header = ["CRPS", "ratio", "95 %", "skill", *(f"in {level} %" for level in LEVELS), "spread / error"]
    parts = [*(f"day {lead}" for lead in leads), *(f"from {fold}" for fold in folds)]
    return [
        Sheet(f"Probabilities: CRPS °C, its ratio to that of {base}, skill against climatology", header, rows),
        Sheet("Share of the truth within 80 % intervals, by lead and fold", parts, covered),
    ]


def heatwaves(metrics: Scores) -> list[Sheet]:
    """Brier score of the probabilities of each kind: all leads, ratio, skill over the base rate; skill by lead."""
    leads, base = week_ends(metrics["horizon"]), metrics["reference"]
    made = []
    for kind, found in metrics["heatwaves"].items():
        rows = []
        for name, of in found["scores"].items():
            low, high = of["interval"]
            interval = "-" if low is None or name == base else f"{low:.3f}..{high:.3f}"
            numbers = [_number(of["brier"], 4), _ratio(of), interval, _number(of["roc_area"]), _number(of["sedi"])]
            skill = [of["skill"], *(of["by_lead"]["skill"][lead - 1] for lead in leads)]
            rows.append((name, [*numbers, *map(_percent, skill)]))
        header = ["Brier", "ratio", "95 %", "ROC area", "SEDI", "skill", *(f"day {lead}" for lead in leads)]
        observed = f"{HEATWAVES[kind]}, {_percent(found['scores'][base]['observed'])} observed"
        title = f"{observed}: Brier score, its ratio to that of {base}; skill over the base rate, also by lead"
        made.append(Sheet(title, header, rows))
    return made


def overall(metrics: Scores) -> Sheet:
    """Errors over all leads, their ratio to the best linear system's, and the RMSE by lead."""
    first = next(iter(metrics["systems"].values()))
    leads = week_ends(len(first["by_lead"]["mse"]))
    rows = []
    for name, of in metrics["systems"].items():
        low, high = of["interval"]
        interval = "-" if low is None or name == metrics["reference"] else f"{low:.3f}..{high:.3f}"
        rmse = [_number(of["by_lead"]["mse"][lead - 1] ** 0.5) for lead in leads]
        p = "" if name == metrics["reference"] else p_value(of["p_value"])
        label = f"{name} ({of['members']} members)" if of["members"] > 1 else name
        rows.append((label, [_number(of["mse"], 4), _number(of["ratio"]), interval, p, *rmse]))
    title = f"All leads: MSE °C², its ratio to that of {metrics['reference']}; RMSE °C by lead"
    return Sheet(title, ["MSE", "ratio", "95 %", "p", *(f"day {lead}" for lead in leads)], rows)


def hindcast_sheets(folder: Path) -> list[Sheet]:
    """Return a table for each finished hindcast in or below a folder; report damaged ones on stderr."""
    found = []
    for file in below(folder, "hindcast.csv"):
        try:
            metrics = read_hindcast(Hindcast(file.parent))
        except SSTCastError as error:
            warn(f"left out: {error}")
            continue
        sheet = overall(metrics)
        found.append(Sheet(f"{file.parent.name}: {_summary(metrics)} {sheet.title}", sheet.header, sheet.rows))
    return found


def write_hindcast_report(hindcast: Hindcast) -> tuple[Path, bool]:
    """Write `report.html` of a finished hindcast, with its images; keep an existing page of the same scores.

    Returns its path, and whether there was anything to do. Raises SSTCastError if there are no scores.
    """
    metrics = read_hindcast(hindcast)
    recipe = {"sstcast": __version__, "scores": digest(hindcast.metrics)}
    with locked(hindcast.metrics):
        if is_made_of(hindcast.report, recipe):
            return hindcast.report, False
        figure, alt = draw_ratios(metrics)
        sections = [
            Section("scores", "Scores", tables=sheets(metrics)),
            Section("lead", "Ratio by lead", charts=[Image(svg_uri(figure), alt, _about(metrics))]),
            Section("probabilities", "Probabilities by lead", charts=list(_probabilities(metrics))),
            Section("heatwaves", "Marine heatwaves by lead", charts=list(_heatwaves(metrics))),
            Section("maps", "Maps of skill", maps=[_image(skill) for skill in skills(hindcast, metrics)]),
            Section("protocol", "Protocol", tables=[facts("How it was made", _protocol(metrics))]),
        ]
        write_page(
            hindcast.report,
            "report.html",
            recipe,
            run=hindcast.folder.name,
            version=__version__,
            written=dt.datetime.now(dt.UTC).isoformat(timespec="minutes"),
            credit=f"Data: {metrics['source']}. Land: Natural Earth.",
            summary=_summary(metrics),
            verdict=_verdict(metrics),
            key=_key_figures(metrics),
            sections=[section for section in sections if section.tables or section.charts or section.maps],
        )
    return hindcast.report, True


def _probabilities(metrics: Scores) -> Iterator[Image]:
    """Draw skill and coverage of the best system and of the best linear one, by lead."""
    names = dict.fromkeys([next(iter(metrics["systems"])), metrics["reference"], "persistence"])
    found = {n: metrics["systems"][n]["probabilities"]["by_lead"] for n in names if n in metrics["systems"]}
    figure, alt = draw_curves({name: of["skill"] for name, of in found.items()}, "CRPS skill")
    caption = "Share of the continuous ranked probability score of climatology that is saved."
    yield Image(svg_uri(figure), alt, caption)
    figure, alt = draw_curves({name: of["covered_80"] for name, of in found.items()}, "Share inside 80 %")
    figure.axes[0].axhline(0.8, color="0.4", linestyle=":", linewidth=1)
    yield Image(svg_uri(figure), alt, "Share of the truth within 80 % intervals; dotted: what they promise.")


def _heatwaves(metrics: Scores) -> Iterator[Image]:
    """Draw the Brier skill of the best system, of the best linear one and of persistence of state, by lead."""
    names = dict.fromkeys([next(iter(metrics["systems"])), metrics["reference"], CLIMATE, STATE])
    for kind, found in metrics["heatwaves"].items():
        curves = {n: found["scores"][n]["by_lead"]["skill"] for n in names if n in found["scores"]}
        figure, alt = draw_curves(curves, f"Brier skill, {kind}")
        saved = "share of the Brier score of the base rate, the frequency before the fold, that is saved"
        yield Image(svg_uri(figure), alt, f"{HEATWAVES[kind]}: {saved}.")


def _image(skill: Skill) -> Image:
    return Image(png_uri(skill.draw(SLIDE)), skill.alt, skill.caption, png_uri(skill.draw(PHONE)))


def _summary(metrics: Scores) -> str:
    folds = len(next(iter(metrics["systems"].values()))["by_fold"])
    return (
        f"{metrics['forecasts']} forecasts of {metrics['ocean_cells']} ocean cells, {metrics['first']} to "
        f"{metrics['last']}, {metrics['horizon']} days ahead, by training on earlier years only ({folds} folds)."
    )


def _verdict(metrics: Scores) -> str:
    """Return a sentence that compares the best system with the best linear one."""
    name, of = next(iter(metrics["systems"].items()))
    base = metrics["reference"]
    if name == base:
        return f"No system has a lower error than {base}, the best linear one."
    low, high = of["interval"]
    if low is None:
        return f"{name} has {of['ratio']:.3f} times the mean squared error of {base}, the best linear system."
    told = "is better than" if high < 1 else "cannot be told from"
    return (
        f"{name} {told} {base}, the best linear system: {of['ratio']:.3f} times its mean squared error "
        f"(95 % interval {low:.3f} to {high:.3f})."
    )


def _key_figures(metrics: Scores) -> list[tuple[str, str, str]]:
    """Return name, value and note of the key figures at the top, which describe the best system."""
    (name, best), base = next(iter(metrics["systems"].items())), metrics["systems"][metrics["reference"]]
    last = len(best["by_lead"]["mse"])

    def rmse(of: Scores, lead: int) -> str:
        return f"{of['by_lead']['mse'][lead - 1] ** 0.5:.3f} °C"

    return [
        ("Best system", name, f"best linear one: {metrics['reference']}"),
        ("MSE, all leads", f"{best['mse']:.4f} °C²", f"{metrics['reference']} {base['mse']:.4f} °C²"),
        ("RMSE, day 1", rmse(best, 1), f"{metrics['reference']} {rmse(base, 1)}"),
        (f"RMSE, day {last}", rmse(best, last), f"{metrics['reference']} {rmse(base, last)}"),
    ]


def _about(metrics: Scores) -> str:
    return (
        f"Mean squared error over that of {metrics['reference']}; below 1 a system is better. Bands hold 95 % of "
        f"a moving-block bootstrap over dates, blocks of {metrics['block_days']} days. Panels end at {HIGHEST}."
    )


def _protocol(metrics: Scores) -> dict[str, Any]:
    return {
        "Years forecast": f"{metrics['first']} to {metrics['last']}, retrained every {metrics['fold']} years",
        "Training": f"all earlier years, of which the last {metrics['validation']} select the weights",
        "Initial dates": f"{metrics['forecasts']}, {metrics['every']} days apart",
        "History and horizon": f"{metrics['history']} days seen, {metrics['horizon']} days forecast",
        "Source": metrics["source"],
        "Region": metrics["region"],
        "Intervals": f"moving-block bootstrap, blocks of {metrics['block_days']} days within folds",
    }


def _at(scores: Scores, position: int) -> Scores:
    return {key: scores[key][position] for key in ("ratio", "interval")}


def _ratio(scores: Scores) -> str:
    if scores["ratio"] is None:
        return "-"
    low, high = scores["interval"]
    told = low is not None and (low > 1 or high < 1)
    return f"{scores['ratio']:.3f}{'*' if told else ' '}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _number(value: float | None, decimals: int = 3) -> str:
    return "-" if value is None else f"{value:.{decimals}f}"
