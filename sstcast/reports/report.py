"""The commands `report` and `map`: show the results of a run, a scored file or a hindcast."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sstcast.errors import counted, reading
from sstcast.figures import catalogue, tables
from sstcast.figures.answers import added, answers, gains, over_its_base, squared_error, summary, told
from sstcast.figures.maps import PHONE
from sstcast.figures.places import draw_outlines
from sstcast.figures.projection import DEFAULT_PROJECTION
from sstcast.figures.results import Results
from sstcast.figures.sheets import sections_of
from sstcast.figures.sheets.errors import about_small_scales
from sstcast.figures.sheets.sheet import Sheet, number, scored_leads
from sstcast.figures.weights import weights
from sstcast.log import LOG
from sstcast.names import BASE_RATE, MODEL, SCORED_YEARS
from sstcast.progress import tracked
from sstcast.reports.images import Image, animate, png_uri, svg_uri, write_page, write_png
from sstcast.runs import Run
from sstcast.scores.score_files import comparison, errors_of, skill_of
from sstcast.storage.artefacts import is_up_to_date, locked, read_recipe
from sstcast.training.run_list import describe

SECTIONS = {
    "glance": "At a glance",
    "added": "What the network added",
    "cases": "Cases",
    "errors": "Error by lead",
    "maps": "Maps by lead week",
    "probabilities": "Probabilities",
    "heatwaves": "Marine heatwaves",
    "terciles": "Thirds of weekly means",
    "points": "Observations at points",
    "indices": "Box means",
    "ensemble": "Ensemble",
    "scores": "Tables of scores",
    "data": "Data",
    "training": "Training",
    "configuration": "Configuration",
    "provenance": "Provenance",
}

LOSSES = {"mse": "errors", "crps": "probabilities", "rps": "terciles"}  # sections; of all others the heatwaves'


@dataclass
class Section:
    """A section of the report, which is omitted if it is empty."""

    id: str
    title: str
    sentences: list[str] = field(default_factory=list)
    charts: list[Image] = field(default_factory=list)
    maps: list[Image] = field(default_factory=list)
    tables: list[Sheet] = field(default_factory=list)
    motion: Image | None = None
    source: str = ""


def write_report(results: Results) -> tuple[Path, bool]:
    """Write `report.html`. Return its path, and False if a report of the same scores already exists.

    Raises SSTCastError if the forecasts in its figures are damaged, or the scored file is missing or has changed.
    """
    page = results.scored.report
    with locked(page):
        if is_up_to_date(page, results.recipe):
            return page, False
        sections = _sections(results)
        write_page(
            page,
            "report.html",
            results.recipe,
            run=results.name,
            credit=results.credit,
            first=squared_error(results.metrics),
            summary=f"{summary(results.metrics)}. Data: {results.metrics['source']}.",
            findings=answers(results.metrics),
            key=_key_figures(results),
            sections=[s for s in sections if s.tables or s.charts or s.maps or s.source],
        )
        return page, True


def draw_maps(results: Results, projection: str = DEFAULT_PROJECTION) -> list[Path]:
    """Draw the maps of a report to `maps/NAME.png`, and the ratios by lead to `maps/ratio-by-lead.png`.

    Nothing is drawn if these files already exist for the same scores, region and projection. Logs each file. Maps
    that sstcast drew for systems that are no longer scored go.

    Raises SSTCastError if cartopy has no such projection, and in the same cases as `write_report`.
    """
    folder, metrics = results.scored.folder / "maps", results.metrics
    recipe = results.recipe | {"projection": projection, "region": results.region}
    with locked(folder):
        functions = [draw for of_section in catalogue.MAPS.values() for draw in of_section]
        maps = (drawing for draw in tracked(functions, "reading the maps") for drawing in draw(results))
        drawings = {folder / f"{drawing.name}.png": drawing for drawing in maps}
        ratios = folder / "ratio-by-lead.png"
        for file in {*folder.glob("*.png")} - {*drawings, ratios}:
            made = read_recipe(file)
            if isinstance(made, dict) and made.keys() == recipe.keys():  # of a system that is no longer scored
                file.unlink()
        if all(is_up_to_date(file, recipe) for file in (*drawings, ratios)):
            LOG.info(f"{folder}: nothing to do")
            return [*drawings, ratios]
        period = "-".join(sorted({day[:4] for day in metrics["test"]}))
        for file, drawing in tracked(drawings.items(), "drawing the maps"):
            title = (
                f"{drawing.title}: {results.name}, {period}" if metrics["kind"] != "hindcast" else drawing.title
            )
            figure = drawing.draw(title=title, credit=results.credit, projection=projection)
            draw_outlines(figure, metrics)
            write_png(figure, file, recipe)
            LOG.info(str(file))
        for picture in catalogue.ratio_by_lead(results):
            write_png(picture.figure, ratios, recipe)
            LOG.info(str(ratios))
    return [*drawings, ratios]


def _sections(results: Results) -> list[Section]:
    """Return the sections of the report in order."""
    sections = {name: Section(name, title) for name, title in SECTIONS.items()}
    for name, sheets in _tables(results).items():
        sections[name].tables = sheets
    if results.run:
        sections["configuration"].source = results.run.config_file.read_text(encoding="utf-8")
    drawings: tuple[Mapping[str, Sequence[catalogue.Draw]], ...] = (catalogue.FIGURES, catalogue.MAPS)
    steps = [(name, draw) for group in drawings for name, functions in group.items() for draw in functions]
    short = results.metrics["short_base_period"]
    for name, draw in tracked(steps, "drawing the report"):
        for drawing in draw(results):
            if isinstance(drawing, catalogue.Map):
                options = {"area": catalogue.GLANCE} if name == "glance" else {}
                drawings_of_map = [drawing.draw(**options), drawing.draw(area=PHONE)]
                for figure in drawings_of_map:
                    draw_outlines(figure, results.metrics)
                wide, narrow = map(png_uri, drawings_of_map)
                sections[name].maps.append(Image(wide, drawing.alt, drawing.caption, narrow))
            elif any(axes.has_data() for axes in drawing.figure.axes):  # a score may be undefined for all systems
                note = f" The base period has only {short}." if name == "heatwaves" and short else ""
                chart = Image(svg_uri(drawing.figure), drawing.alt, drawing.caption + note)
                sections[name].charts.append(chart)
    if sections["cases"].maps:
        sections["cases"].motion = _animation(results)
    if sections["added"].maps:
        sections["added"].sentences = [added(results.metrics)]
    for name, sentences in _sentences(results).items():
        sections[name].sentences += sentences
    return list(sections.values())


def _animation(results: Results) -> Image:
    forecast, truth = (fields["anomaly"] for fields in results.fields(results.case("median")))
    moving, still = animate(forecast, truth, catalogue.ANOMALY)
    caption = catalogue.describe_case(results, "median")
    low, high = float(forecast.min()), float(forecast.max())
    alt = f"{caption} Forecast and observed anomalies day by day. Forecasts range from {low:.1f} to {high:.1f} °C."
    return Image(moving, alt, caption, still=still)


def _tables(results: Results) -> dict[str, list[Sheet]]:
    """Return the tables of each section."""
    metrics, label, run = results.metrics, results.name, results.run
    comparisons = tables.comparisons(metrics) if metrics["kind"] != "hindcast" else {}
    sheets = sections_of(metrics, label) | {"data": [_data(results)]}
    sheets["scores"] += tables.ratios(metrics, label)
    sheets["scores"] += [tables.versus(metrics, label, name) for name in comparisons]
    if run:
        trained = {member.folder.name: describe(member) for member in run.members}
        header = [name for name in next(iter(trained.values())) if name != "run"]
        rows = [(name, [row[key] for key in header]) for name, row in trained.items()]
        weight_tables = [weights(run.trained)] if run.trained.parts else []
        sheets |= {"training": [Sheet("Trained", header, rows), *weight_tables], "provenance": [_provenance(run)]}
    return sheets


def _data(results: Results) -> Sheet:
    """Return the table that describes the data, the forecasts and the scoring."""
    metrics, block, every = results.metrics, results.metrics["block_days"], results.metrics["every"]
    history, horizon = (counted(metrics[key], "day") for key in ("history", "horizon"))
    facts = {
        "Source": metrics["source"],
        "Region": metrics["region"],
        "Ocean": f"{metrics['ocean_cells']} cells",
        "Protocol": metrics["protocol"],
        **{f"Predictors of {name}": text for name, text in metrics.get("predictors", {}).items()},
        "History and horizon": f"{history} read, {horizon} forecast",
        "Test": " to ".join(metrics["test"]),
        "Forecasts": f"{metrics['forecasts']}, {counted(every, 'day')} apart",
        "Intervals": f"moving-block bootstrap with blocks of {block} days" if block else "none: too few dates",
    }
    if results.run:
        box = results.data.box
        (west, east), (south, north) = box.lon, box.lat
        facts["Region"] += f": longitude {west:g} to {east:g}, latitude {south:g} to {north:g}"
        facts["Tiles"] = (
            f"{box.tile[0]} x {box.tile[1]} nodes of {box.coarsen} x {box.coarsen} cells of the source"
        )
        for name, span in results.data.splits.given.items():
            facts[name.capitalize().replace("_", " ")] = " to ".join(map(str, span))
        if origin := metrics["systems"][MODEL].get("trained_on"):
            facts["Trained on"] = f"{origin}; climatology and baselines use the days above"
    if protocol := metrics.get("protocol_of_hindcast"):
        facts["Years forecast"] = (
            f"{protocol['first']} to {protocol['last']}, retrained every {counted(protocol['fold'], 'year')}"
        )
        facts["Training"] = f"all earlier years, of which the last {protocol['validation']} select the weights"
    notes = {f"Note {number}": note for number, note in enumerate(metrics["notes"], 1)}
    return _facts("Data, forecasts and scoring", facts | notes)


def _provenance(run: Run) -> Sheet:
    file = run.folder / "provenance.json"
    with reading(file, "restore it"):
        record = json.loads(file.read_text())
        facts = {name: record[name.lower()] for name in ("Time", "sstcast", "Python", "Platform")}
        facts = {"Command": " ".join(record["command"])} | facts | record["packages"]
    return _facts("Provenance of the run", facts)


def _facts(title: str, facts: dict[str, Any]) -> Sheet:
    """Make a table of names and values."""
    return Sheet(title, [], [(name, [str(value)]) for name, value in facts.items()])


def _sentences(results: Results) -> dict[str, list[str]]:
    """Compare models with reference and climatology by section, and tell what predictors are worth."""
    metrics, system, first = results.metrics, results.system, answers(results.metrics)
    found = {"errors": [*gains(metrics), *filter(None, [about_small_scales(metrics)])]}
    for loss in metrics["ratios"]:
        climate = BASE_RATE if loss in metrics["heatwaves"] else metrics["climate"]
        climate = SCORED_YEARS if loss == "rps" else climate
        pairs = [*((name, results.reference) for name in results.models), (system, climate)]
        pairs = [(results.corrected(model), results.corrected(base)) for model, base in pairs]
        if loss != "mse_standardised":
            comparisons = (comparison(metrics, loss, *pair) for pair in pairs if pair[0] != pair[1])
            sentences = (told(compared) for compared in comparisons if compared)
            found.setdefault(LOSSES.get(loss, "heatwaves"), []).extend(
                text for text in sentences if text not in first
            )
    return found


def _key_figures(results: Results) -> list[tuple[str, str, str]]:
    """Return name, value and note of the key figures at the top, which are scores of the first system."""
    best, base = (errors_of(results.metrics, name) for name in (results.system, results.reference))
    leads, name = scored_leads(results.metrics), results.reference

    def degrees(value: float | None) -> str:
        return number(value, unit="\u00a0°C")

    def at(score: dict[str, Any], lead: int) -> str:
        return degrees(score["by_lead"]["rmse"][lead - 1])

    first = []
    if results.metrics["kind"] == "hindcast":
        first = [("Best system", results.system, f"best linear system: {name}")]
    compared = over_its_base(results.metrics)
    if skill_of(compared) is not None:
        low, high = compared["interval"]
        interval = "" if low is None else f", 95 % {low:.3f} to {high:.3f}"
        first = [
            ("With the network", f"{compared['ratio']:.3f}", f"of the squared error of its linear base{interval}")
        ]
    return [
        *first,
        ("RMSE, all leads", degrees(best["rmse"]), f"{name} {degrees(base['rmse'])}"),
        *((f"RMSE, day {lead}", at(best, lead), f"{name} {at(base, lead)}") for lead in (leads[0], leads[-1])),
        ("Bias", degrees(best["bias"]), "forecast − observed"),
        ("Anomaly correlation", number(best["acc"]), f"{name} {number(base['acc'])}"),
    ]
