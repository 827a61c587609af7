"""The parts of a report: what each says, in words, tables and figures."""

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr
import yaml

from sstcast.errors import reading
from sstcast.pages import charts, table
from sstcast.pages.animation import animate
from sstcast.pages.atlas import LABELS, REFERENCE, Atlas, draw_field
from sstcast.pages.charts import Chart
from sstcast.pages.images import png_uri, svg_uri
from sstcast.pages.maps import PHONE, SLIDE, TALL, draw_forecast
from sstcast.pages.table import Sheet
from sstcast.runs import Run
from sstcast.scores.significance import FDR, skill_interval
from sstcast.scores.tables import DEGREES, MODEL, REGION, TRUTH
from sstcast.training.listing import describe, read_history

Scores = dict[str, Any]
ANOMALY = "SST anomaly (°C)"


@dataclass(frozen=True)
class Image:
    """A picture as `data:` addresses: `narrow` on a phone, `still` in print and where motion is unwelcome."""

    wide: str
    alt: str
    caption: str
    narrow: str = ""
    still: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the page under a heading; what is empty is left out."""

    id: str
    title: str
    text: str = ""
    facts: Sheet | None = None
    charts: list[Image] = field(default_factory=list)
    maps: list[Image] = field(default_factory=list)
    tables: list[Sheet] = field(default_factory=list)
    motion: Image | None = None
    source: str = ""


def data(run: Run, metrics: Scores) -> Section:
    """What was forecast, and from what."""
    config, box = run.config.data, run.config.data.box
    named = f"{config.region}: " if isinstance(config.region, str) else ""
    facts = {
        "Source": metrics["source"],
        "Region": f"{named}longitude {box.lon[0]:g} to {box.lon[1]:g}, latitude {box.lat[0]:g} to {box.lat[1]:g}",
        "Tiles": f"{box.tile[0]} x {box.tile[1]} nodes, each of {box.coarsen} x {box.coarsen} cells of the source",
        "Ocean": f"{metrics['ocean_cells']} nodes",
        "Protocol": config.protocol,
        "History and horizon": f"{config.history} days seen, {config.horizon} days forecast",
        **{name.capitalize(): " to ".join(map(str, span)) for name, span in config.splits},
        "Forecasts": f"{metrics['forecasts']}, one a day; intervals from blocks of {metrics['block']} days",
    }
    return Section("data", "Data", facts=_facts("What was forecast, and from what", facts))


def training(run: Run) -> Section:
    """How each member learnt."""
    members = {member.folder.name: member for member in run.members}
    written = {name: member.history for name, member in members.items() if member.history.exists()}
    histories = {name: read_history(file) for name, file in written.items()}
    rows = {name: describe(member) for name, member in members.items()}
    header = [name for name in next(iter(rows.values())) if name != "run"]
    sheet = Sheet("Trained", header, [(name, [row[key] for key in header]) for name, row in rows.items()])
    caption = (
        "Training loss (dashed) and validation score by epoch; the ring marks the epoch whose weights are used."
    )
    curves = [_chart(charts.training(histories), caption)] if histories else []
    return Section("training", "Training", charts=curves, tables=[sheet])


def scores(run: Run, metrics: Scores) -> Section:
    """The tables of the verb `evaluate` that are not in sections of their own."""
    label = run.folder.name
    compared = metrics["skill"][DEGREES]
    sheets = [
        table.overall(metrics, label),
        table.by_lead(metrics, label),
        *(table.versus(compared[name], name) for name in compared),
        table.by_season(metrics, label),
    ]
    return Section("scores", "Scores", tables=sheets)


def errors(metrics: Scores, tables: xr.Dataset) -> Section:
    """Error and skill by lead, with intervals."""
    by_method = {name: of[DEGREES]["by_lead"] for name, of in metrics["scores"].items()}
    error = tables["mse_by_date"].sel(units=DEGREES)
    intervals = {name: _rmse_interval(error.sel(forecast=name), metrics["block"]) for name in (MODEL, REFERENCE)}
    rmse = charts.by_lead({name: of["rmse"] for name, of in by_method.items()}, "RMSE (°C)", intervals=intervals)
    acc = charts.by_lead({name: of["acc"] for name, of in by_method.items()}, "Anomaly correlation")
    bias = charts.by_lead({name: of["bias"] for name, of in by_method.items()}, "Bias (°C)", zero=True)
    compared = {name: of for name, of in metrics["skill"][DEGREES].items() if name != "climatology"}
    skill = charts.by_lead(
        {name: of["by_lead"] for name, of in compared.items()},
        "Skill over the baseline",
        intervals={name: of["by_lead_interval"] for name, of in compared.items()},
        zero=True,
    )
    band = f"Bands hold 95 % of a moving-block bootstrap over initial dates, blocks of {metrics['block']} days."
    return Section(
        "errors",
        "Error by lead",
        charts=[
            _chart(rmse, f"Root mean squared error of all ocean, weighted by area. {band}"),
            _chart(
                skill,
                f"Share of a baseline's mean squared error that the model saves; above 0 it is better. {band}",
            ),
            _chart(acc, "Uncentred correlation of anomalies from the climatology of the training years."),
            _chart(bias, "Mean of forecast minus observation, weighted by area."),
        ],
    )


def maps(atlas: Atlas, metrics: Scores) -> Section:
    """Where the errors are, by lead week."""
    compared = metrics["skill"][DEGREES][REFERENCE]
    told = [f"{better:.0%} and {worse:.0%} in week {week}" for week, better, worse in _weeks(compared)]
    captions = {
        "rmse": "Root mean squared error by lead week.",
        "bias": "Mean of forecast minus observation by lead week.",
        "skill": f"Skill over {REFERENCE} by lead week; above 0 the model is better. Hatched: not significant by "
        f"a Diebold-Mariano test with false discoveries held at {FDR:.0%}. Cells where it is significantly better "
        f"and worse: {', '.join(told)}.",
    }
    images = []
    for name, caption in captions.items():
        wide, narrow = (png_uri(draw_field(atlas, name, title="", room=room)) for room in (SLIDE, PHONE))
        images.append(Image(wide, _map_text(LABELS[name], atlas.weekly[name]), caption, narrow))
    return Section("maps", "Maps by lead week", maps=images)


def indices(run: Run, metrics: Scores, tables: xr.Dataset) -> Section:
    """Means over boxes of the ocean, the Niño indices among them."""
    images, sheets = [], []
    for box in metrics["indices"]:
        name = table.BOXES[box]
        index = tables["index"].sel(box=box, series=[TRUTH, MODEL, REFERENCE]).isel(lead=-1)
        caption = f"{name}: anomaly of the last day forecast, as observed and as forecast."
        images.append(_chart(charts.series(index, name), caption))
        correlation = {method: of["by_lead"]["correlation"] for method, of in metrics["indices"][box].items()}
        images.append(
            _chart(
                charts.by_lead(correlation, f"{name}: correlation"), f"{name}: correlation with the observed one."
            )
        )
        sheets.append(table.indices(metrics, run.folder.name, box))
    title = "Niño indices and box means" if len(metrics["indices"]) > 1 else table.BOXES[REGION]
    return Section("indices", title, charts=images, tables=sheets)


def heatwaves(run: Run, metrics: Scores) -> Section:
    """Days above the 90th percentile."""
    found = metrics["heatwaves"]
    curves = {"brier": "Brier score", "hit_rate": "Hit rate", "false_alarm_ratio": "False alarm ratio"}
    captions = {
        "brier": "Mean squared error of the probability; lower is better.",
        "hit_rate": "Share of the heatwave days that were forecast.",
        "false_alarm_ratio": "Share of the heatwave days forecast that did not come true.",
    }
    images = [
        _chart(charts.by_lead({m: of["by_lead"][key] for m, of in found.items()}, label), captions[key])
        for key, label in curves.items()
    ]
    text = (
        "A day counts where it is warmer than the 90th percentile of its time of the year in the training years "
        f"(Hobday et al. 2016). In the test period {found[MODEL]['observed']:.1%} of days were."
    )
    return Section(
        "heatwaves", "Marine heatwaves", text, charts=images, tables=[table.heatwaves(metrics, run.folder.name)]
    )


def ensemble(metrics: Scores) -> Section:
    """Whether the spread of the members tells the error of their mean."""
    found, leads = metrics["ensemble"], metrics["ensemble"]["by_lead"]
    told = found["reliability"]
    images = [
        _chart(
            charts.spread_and_error(leads["spread"], leads["rmse"]),
            "Standard deviation of the members and error of their mean; of a reliable ensemble they are alike.",
        ),
        _chart(
            charts.rank_histogram(found["rank_histogram"]),
            "A reliable ensemble has all ranks equally often; high ends mean too little spread.",
        ),
        _chart(
            charts.reliability(told["probability"], told["observed"], told["share"]),
            "How often heatwaves came true, by their probability forecast; larger points are more cases.",
        ),
    ]
    return Section("ensemble", "Ensemble", charts=images, tables=[table.ensemble(metrics)])


def cases(atlas: Atlas) -> Section:
    """The best and the worst forecast beside the truth, and an animation of a middling one."""
    images = []
    for name in ("best", "worst"):
        forecast, truth, text = _case(atlas, name)
        pair = forecast["anomaly"], truth["anomaly"]
        options: Any = {"title": "", "label": ANOMALY, "kind": "difference"}
        wide, narrow = (png_uri(draw_forecast(*pair, room=room, **options)) for room in (TALL, PHONE))
        last = (pair[0] - pair[1]).isel(lead=-1)
        alt = f"{text} Forecast anomalies, observed ones and their difference; on the last day {_range(last)} °C."
        images.append(Image(wide, alt, text, narrow))
    forecast, truth, text = _case(atlas, "median")
    moving, still = animate(forecast["anomaly"], truth["anomaly"], ANOMALY)
    alt = f"{text} Anomalies day by day, forecast beside observed; {_range(forecast['anomaly'])} °C forecast."
    return Section("cases", "Cases", maps=images, motion=Image(moving, alt, text, still=still))


def configuration(run: Run) -> Section:
    """The run's YAML, every default spelled out."""
    text = yaml.safe_dump(run.config.model_dump(mode="json"), sort_keys=False)
    return Section("configuration", "Configuration", source=text)


def provenance(run: Run) -> Section:
    """What made the run."""
    file = run.folder / "provenance.json"
    if not file.exists():
        return Section("provenance", "Provenance", "Not known: provenance.json is not there.")
    with reading(file, "restore it, or delete it: the report then goes without"):
        made = json.loads(file.read_text())
        facts = {
            "Command": " ".join(made["command"]),
            "Time": made["time"],
            "sstcast": made["sstcast"],
            "Python": made["python"],
            "Platform": made["platform"],
            **made["packages"],
        }
    return Section("provenance", "Provenance", facts=_facts("What made this run", facts))


def _facts(title: str, facts: dict[str, Any]) -> Sheet:
    return Sheet(title, [], [(name, [str(value)]) for name, value in facts.items()])


def _chart(chart: Chart, caption: str) -> Image:
    return Image(svg_uri(chart.figure), chart.alt, caption)


def _rmse_interval(error: xr.DataArray, block: int) -> list[list[float]]:
    """Return the ends of a 95 % interval of the RMSE at each lead: the skill over a reference of error 1."""
    values = error.transpose("init_time", "lead").values.astype(float)
    low, high = skill_interval(values, np.ones_like(values), block)
    ends: list[list[float]] = np.sqrt(np.stack([1 - high, 1 - low], axis=-1)).tolist()
    return ends


def _weeks(compared: Scores) -> list[tuple[int, float, float]]:
    shares = zip(compared["better"], compared["worse"], strict=True)
    return [(week, better, worse) for week, (better, worse) in enumerate(shares, 1) if better is not None]


def _map_text(label: str, weekly: xr.DataArray) -> str:
    parts = []
    for week in weekly["week"].values:
        low, middle, high = np.nanpercentile(weekly.sel(week=week).values, [5, 50, 95])
        parts.append(f"week {week} median {middle:.2f}, nine tenths of the cells {low:.2f} to {high:.2f}")
    return f"Maps of {label}: {'; '.join(parts)}."


def _case(atlas: Atlas, name: str) -> tuple[xr.Dataset, xr.Dataset, str]:
    date = atlas.case(name)
    day = np.datetime_as_string(atlas.error["init_time"].values[date], unit="D")
    kind = {"best": "lowest", "worst": "highest", "median": "median"}[name]
    text = (
        f"The forecast of the {kind} error, from {day}: RMSE {float(atlas.error[date]):.2f} °C over all its days."
    )
    return *atlas.fields(date), text


def _range(values: xr.DataArray) -> str:
    return f"{float(values.min()):.1f} to {float(values.max()):.1f}"
