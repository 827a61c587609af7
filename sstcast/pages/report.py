"""The verb `report`: all that is known of a run on one page that needs nothing else."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from rich.console import Console
from rich.progress import track

from sstcast.files import alone, atomic
from sstcast.pages import sections
from sstcast.pages.atlas import REFERENCE, Atlas, checkpoint_stamp, credit
from sstcast.pages.sections import Section
from sstcast.runs import Run
from sstcast.scores.evaluate import evaluate, open_scores
from sstcast.scores.tables import DEGREES, MODEL

HEAD = 1000  # characters of the page in which its stamp lies


def write_report(run: Run) -> tuple[Path, bool]:
    """Write `report.html`, images included, evaluating the run first if need be.

    Returns its path and whether there was anything to do: a page of the same checkpoints is kept.
    """
    with alone(run.forecasts):
        return _write(run)


def _write(run: Run) -> tuple[Path, bool]:
    metrics, _ = evaluate(run)
    stamp = checkpoint_stamp(metrics)
    if run.report.is_file():
        with run.report.open(encoding="utf-8", errors="replace") as file:
            if stamp in file.read(HEAD):
                return run.report, False
    page = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined
    ).get_template("page.html")
    html = page.render(
        run=run.folder.name,
        stamp=stamp,
        written=dt.datetime.now(dt.UTC).isoformat(timespec="minutes"),
        credit=credit(metrics),
        summary=_summary(metrics),
        verdict=_verdict(metrics),
        key=_key_figures(metrics),
        sections=_sections(run, metrics),
    )
    with atomic(run.report) as temporary:
        temporary.write_text(html, encoding="utf-8")
    return run.report, True


def _sections(run: Run, metrics: dict[str, Any]) -> list[Section]:
    """Return the parts of the page in order."""
    with open_scores(run) as file:
        tables = file[["mse_by_date", "index"]].load()
    atlas = Atlas(run)
    parts: list[Callable[[], Section]] = [
        lambda: sections.data(run, metrics),
        lambda: sections.training(run),
        lambda: sections.scores(run, metrics),
        lambda: sections.errors(metrics, tables),
        lambda: sections.maps(atlas, metrics),
        lambda: sections.indices(run, metrics, tables),
        lambda: sections.heatwaves(run, metrics),
        *([lambda: sections.ensemble(metrics)] if metrics["ensemble"] else []),
        lambda: sections.cases(atlas),
        lambda: sections.configuration(run),
        lambda: sections.provenance(run),
    ]
    console = Console(stderr=True)
    shown = console.is_terminal
    return [make() for make in track(parts, "report", console=console, disable=not shown, transient=True)]


def _summary(metrics: dict[str, Any]) -> str:
    first, last = metrics["test"]
    members = f" (ensemble of {metrics['members']})" if metrics["members"] > 1 else ""
    return (
        f"{metrics['model']}{members}, {metrics['protocol']} protocol: {metrics['forecasts']} forecasts of "
        f"{metrics['ocean_cells']} ocean cells, {first} to {last}. Data: {metrics['source']}."
    )


def _verdict(metrics: dict[str, Any]) -> str:
    """Say in a sentence how the model compares with persistence."""
    compared = metrics["skill"][DEGREES][REFERENCE]
    saved, (low, high) = compared["overall"], compared["interval"]
    if None in (saved, low, high):
        return f"Its error cannot be compared with that of {REFERENCE}."
    told = "is better than" if low > 0 else "is worse than" if high < 0 else "cannot be told from"
    return (
        f"Over all leads the model {told} {REFERENCE}: it saves {saved:.1%} of the mean squared error "
        f"(95 % interval {low:.1%} to {high:.1%})."
    )


def _key_figures(metrics: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return name, value and note of the figures on top."""
    model, reference = (metrics["scores"][name][DEGREES] for name in (MODEL, REFERENCE))
    last = len(model["by_lead"]["rmse"])

    def number(value: float | None, unit: str = " °C") -> str:
        return "-" if value is None else f"{value:.3f}{unit}"

    return [
        ("RMSE, all leads", number(model["rmse"]), f"{REFERENCE} {number(reference['rmse'])}"),
        (
            f"RMSE, day {last}",
            number(model["by_lead"]["rmse"][-1]),
            f"{REFERENCE} {number(reference['by_lead']['rmse'][-1])}",
        ),
        ("Bias", number(model["bias"]), "forecast − observed"),
        ("Anomaly correlation", number(model["acc"], ""), f"{REFERENCE} {number(reference['acc'], '')}"),
    ]
