"""The command `report`: writes all results of a run to one self-contained page."""

import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from sstcast import __version__
from sstcast.artefacts import is_made_of, locked
from sstcast.errors import reading
from sstcast.names import DEGREES, MODEL
from sstcast.pages import figures, text
from sstcast.pages.images import Image, animate, png_uri, svg_uri, write_page
from sstcast.pages.maps import PHONE
from sstcast.pages.results import REFERENCE, Results
from sstcast.pages.scored import FileResults
from sstcast.pages.text import Sheet
from sstcast.progress import hides_progress
from sstcast.runs import Run
from sstcast.scores.saved import Scored
from sstcast.training.listing import describe

SECTIONS = {
    "data": "Data",
    "training": "Training",
    "scores": "Scores",
    "errors": "Error by lead",
    "maps": "Maps by lead week",
    "indices": "Box means",
    "probabilities": "Probabilities",
    "heatwaves": "Marine heatwaves",
    "ensemble": "Ensemble",
    "cases": "Cases",
    "configuration": "Configuration",
    "provenance": "Provenance",
}


@dataclass
class Section:
    """A section of the page; it is left out if it is empty."""

    id: str
    title: str
    charts: list[Image] = field(default_factory=list)
    maps: list[Image] = field(default_factory=list)
    tables: list[Sheet] = field(default_factory=list)
    motion: Image | None = None
    source: str = ""


def write_report(run: Run) -> tuple[Path, bool]:
    """Write `report.html` with its images; evaluate the run first if necessary.

    Returns its path and whether there was anything to do; an existing page of the same checkpoints is kept.
    """
    with locked(run.forecasts):
        results = Results(run)
        if is_made_of(run.report, results.recipe):
            return run.report, False
        sections = _sections(results, _of_run(run, results.metrics), figures.FIGURES)
        sections["configuration"].source = run.config_file.read_text(encoding="utf-8")
        _write(results, run.report, run.folder.name, sections)
        return run.report, True


def write_scored_report(scored: Scored) -> tuple[Path, bool]:
    """Write `report.html` of forecasts that `sstcast score` has scored, as `write_report` does that of a run.

    Raises SSTCastError if the scores are damaged, or the file with the forecasts has gone or changed.
    """
    with locked(scored.folder):
        results = FileResults(scored)
        if is_made_of(scored.report, results.recipe):
            return scored.report, False
        name, drawn = results.path.name, [entry for entry in figures.FIGURES if not entry.of_run]
        tables = {"data": [_of_file(results.metrics)], **_scores(results.metrics, name)}
        _write(results, scored.report, name, _sections(results, tables, drawn))
        return scored.report, True


def _write(results: Results, page: Path, name: str, sections: dict[str, Section]) -> None:
    write_page(
        page,
        "report.html",
        results.recipe,
        run=name,
        version=__version__,
        written=dt.datetime.now(dt.UTC).isoformat(timespec="minutes"),
        credit=results.credit,
        summary=_summary(results.metrics),
        verdict=_verdict(results.metrics),
        key=_key_figures(results.metrics),
        sections=[s for s in sections.values() if s.tables or s.charts or s.maps or s.source],
    )


def _sections(
    results: Results, tables: dict[str, list[Sheet]], drawn: Sequence[figures.Entry]
) -> dict[str, Section]:
    """Return the sections of the page by name, in order."""
    sections = {name: Section(name, title) for name, title in SECTIONS.items()}
    for name, sheets in tables.items():
        sections[name].tables = sheets
    console = Console(stderr=True)
    for entry in track(drawn, "report", console=console, disable=hides_progress(console), transient=True):
        section = sections[entry.section]
        (section.maps if entry.is_map else section.charts).extend(_images(entry, results))
    sections["cases"].motion = _animation(results)
    return sections


def _images(entry: figures.Entry, results: Results) -> list[Image]:
    """Draw a figure; a map for wide and for narrow screens."""
    if entry.is_map:
        (wide,), (narrow,) = entry.draw(results), entry.draw(results, room=PHONE)
        return [Image(png_uri(wide.figure), wide.alt, wide.caption, png_uri(narrow.figure))]
    # A score may be undefined for all, as of one date.
    drawn = (picture for picture in entry.draw(results) if any(axes.has_data() for axes in picture.figure.axes))
    return [Image(svg_uri(figure), alt, caption) for figure, alt, caption in drawn]


def _of_run(run: Run, metrics: dict[str, Any]) -> dict[str, list[Sheet]]:
    trained = {member.folder.name: describe(member) for member in run.members}
    header = [name for name in next(iter(trained.values())) if name != "run"]
    return {
        "data": [_data(run, metrics)],
        "training": [
            Sheet("Trained", header, [(name, [row[key] for key in header]) for name, row in trained.items()]),
            *([text.weights(run.trained)] if run.trained.parts else []),
        ],
        **_scores(metrics, run.folder.name),
        "provenance": [_provenance(run)],
    }


def _scores(metrics: dict[str, Any], label: str) -> dict[str, list[Sheet]]:
    compared = metrics["skill"][DEGREES]
    return {
        "scores": [
            text.overall(metrics, label),
            text.by_lead(metrics, label),
            *(text.versus(compared[name], name) for name in compared),
            text.by_season(metrics, label),
        ],
        "indices": list(text.indices(metrics, label).values()),
        "probabilities": text.probabilities(metrics, label),
        "heatwaves": text.heatwaves(metrics, label),
        "ensemble": text.ensemble(metrics),
    }


def _data(run: Run, metrics: dict[str, Any]) -> Sheet:
    config, box = run.config.data, run.config.data.box
    named = f"{config.region}: " if isinstance(config.region, str) else ""
    (west, east), (south, north) = box.lon, box.lat
    origin = metrics.get("trained_on")
    return facts(
        "What was forecast, and from what",
        {
            "Source": metrics["source"],
            "Region": f"{named}longitude {west:g} to {east:g}, latitude {south:g} to {north:g}",
            "Tiles": f"{box.tile[0]} x {box.tile[1]} nodes of {box.coarsen} x {box.coarsen} cells of the source",
            "Ocean": f"{metrics['ocean_cells']} nodes",
            "Protocol": config.protocol,
            "History and horizon": f"{config.history} days seen, {config.horizon} days forecast",
            **({"Trained on": f"{origin}; the days below gave climatology and baselines"} if origin else {}),
            **{
                name.capitalize().replace("_", " "): " to ".join(map(str, span))
                for name, span in config.splits.given.items()
            },
            "Forecasts": f"{metrics['forecasts']}, one a day; intervals from blocks of {metrics['block']} days",
        },
    )


def _of_file(metrics: dict[str, Any]) -> Sheet:
    read, cells, dates, climatology = metrics["notes"]
    known = {"Read as": read, "Cells": cells, "Forecasts": dates, "Reference": climatology}
    return facts("What was scored, and on what", {**known, "Observed": metrics["source"]})


def _provenance(run: Run) -> Sheet:
    file = run.folder / "provenance.json"
    if not file.exists():
        return facts("Not known: provenance.json is not there", {})
    with reading(file, "restore it, or delete it to make a report without it"):
        made = json.loads(file.read_text())
        known = {
            "Command": " ".join(made["command"]),
            "Time": made["time"],
            "sstcast": made["sstcast"],
            "Python": made["python"],
            "Platform": made["platform"],
            **made["packages"],
        }
    return facts("What made this run", known)


def facts(title: str, known: dict[str, Any]) -> Sheet:
    """Make a table of names and values."""
    return Sheet(title, [], [(name, [str(value)]) for name, value in known.items()])


def _animation(results: Results) -> Image:
    forecast, truth = (fields["anomaly"] for fields in results.fields(results.case("median")))
    moving, still = animate(forecast, truth, figures.ANOMALY)
    caption = figures.describe_case(results, "median")
    low, high = float(forecast.min()), float(forecast.max())
    alt = f"{caption} Anomalies day by day, forecast beside observed; {low:.1f} to {high:.1f} °C forecast."
    return Image(moving, alt, caption, still=still)


def _summary(metrics: dict[str, Any]) -> str:
    first, last = metrics["test"]
    return (
        f"{text.system(metrics)}, {metrics['protocol']} protocol: {metrics['forecasts']} forecasts of "
        f"{metrics['ocean_cells']} ocean cells, {first} to {last}. Data: {metrics['source']}."
    )


def _verdict(metrics: dict[str, Any]) -> str:
    """Return a sentence that compares the model with persistence."""
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
    """Return name, value and note of the key figures at the top."""
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
