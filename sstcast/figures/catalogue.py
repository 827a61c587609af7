"""The figures of reports and the maps of the command `map`. `FIGURES` and `MAPS` list their functions."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from sstcast.figures.curves import MAX_RATIO, THRESHOLD_COLOUR, Chart, draw_curves, draw_panels_of_ratios, legend
from sstcast.figures.decisions import area_reliability, reliability, tercile_reliability, warnings
from sstcast.figures.events import days_by_week, draw_days_by_week
from sstcast.figures.heatwave_case import heatwave_case, heatwave_history, heatwave_weeks
from sstcast.figures.maps import PanelArea, draw_forecast, draw_weeks
from sstcast.figures.results import Results
from sstcast.figures.sheets.errors import BOXES
from sstcast.figures.sheets.heatwaves import HEATWAVES
from sstcast.figures.sheets.sheet import PARTS, percent, scored_leads
from sstcast.figures.tables import comparisons
from sstcast.names import (
    BASE_RATE,
    COVERED,
    EVENT,
    LEVELS,
    MODEL,
    SEASONS,
    STATE,
    TRUTH,
)
from sstcast.scores.comparisons import date_blocks
from sstcast.scores.metrics import METRICS
from sstcast.scores.score_files import comparison, errors_of
from sstcast.scores.significance import FDR, ratio
from sstcast.scores.system_records import CORRECTED, climatologies, distinct, of_role, run_itself
from sstcast.training.run_list import read_history, read_losses

ANOMALY = "SST anomaly (°C)"
WEEKLY: tuple[tuple[str, str, str, str, Literal["error", "difference"]], ...] = (
    ("rmse", "RMSE", "RMSE (°C)", "Root mean squared error", "error"),
    ("bias", "Bias", "Forecast − observed (°C)", "Mean of forecast minus observation", "difference"),
)
GLANCE = PanelArea(6.4, 5.2)  # of a map beside a chart
CASES = {"median": "median", "best": "lowest", "worst": "highest"}  # forecasts shown, and the rank of their error


@dataclass(frozen=True)
class Map:
    """A map of the report and of the command `map`.

    Attributes:
        name: name of its file.
        title: a short title.
        alt, caption: the alternative text, and the caption.
        draw: function that draws the map, with the options `title`, `credit`, `projection` and `area` of
            `maps.draw_weeks`.
    """

    name: str
    title: str
    alt: str
    caption: str
    draw: Callable[..., Figure]


def training(results: Results) -> Iterator[Chart]:
    """Draw the training loss by step and the validation score by epoch of each member of a run."""
    for member in results.run.members if results.run else ():
        if not member.history.exists():
            continue
        history, losses = read_history(member.history), read_losses(member)
        score = next(column for column in history if column.startswith("validation_"))
        epochs, best = 1 + history["epoch"], int(np.nan_to_num(history[score], nan=np.inf).argmin())
        curve = (epochs, history["train_loss"]) if losses is None else losses
        figure, alt = draw_curves({"training loss": curve[1]}, "Standardised units", across="Epoch", x=curve[0])
        ax, label = figure.axes[0], score.replace("_", " ").replace("mse", "MSE")
        ax.set_xlim(0, epochs[-1] * 1.02)
        (line,) = ax.plot(epochs, history[score], "o-", color=THRESHOLD_COLOUR, markersize=4, label=label)
        ax.plot(epochs[best], history[score][best], "o", markersize=11, fillstyle="none", color=line.get_color())
        figure.legends.clear()
        legend(figure)
        name = member.folder.name
        alt = f"{name}: {alt} {label}: lowest {history[score][best]:.3f} at epoch {epochs[best]:g}."
        caption = f"{name}: training loss, and {label} after each epoch. The ring marks the selected weights."
        yield Chart(figure, alt, caption)


def error_by_lead(results: Results) -> Iterator[Chart]:
    """Draw each metric of errors in degC by lead, and the interval of the first system's RMSE."""
    interval = {results.system: _rmse_interval(results)}
    for metric in METRICS.values():
        if metric.in_degrees:
            up = f"{metric.heading} ({metric.unit})" if metric.unit else metric.heading
            errors = {name: errors_of(results.metrics, name) for name in results.shown}
            curves = {name: of["by_lead"][metric.name] for name, of in errors.items()}
            bands = interval if metric.name == "rmse" else {}
            figure, alt = draw_curves(curves, up, bands=bands, styles=results.styles)
            yield Chart(figure, alt, f"{metric.about} {_about_bands(results)}" if bands else metric.about)


def skill_by_lead(results: Results) -> Iterator[Chart]:
    """Draw the skill by lead of the model, or of each system of a hindcast, over the reference.

    That of a network is also drawn over its linear base. If mean errors were removed, corrected forecasts are
    compared.
    """
    metrics = results.metrics
    if metrics["kind"] == "hindcast":
        base, names = results.reference, results.models
        against = {name: of for name in names if (of := comparison(metrics, "mse", name, base))}
        about = f"Skill of each system over {results.reference} by lead. Above 0 the system is better."
    else:
        named = (results.system, results.reference, *filter(None, [results.linear_base]))
        system, *bases = map(results.corrected, named)
        by_base = {base: of for base in bases if (of := comparison(metrics, "mse", system, base))}
        against = {f"over {base}": of for base, of in by_base.items()}
        about = f"Skill of the {system} by lead, over {' and over its own '.join(by_base)}. Above 0 it is better."
    if against:
        figure, alt = _skill_curves(results, against, "Skill, 1 − ratio of squared errors", banded=against)
        yield Chart(figure, alt, f"{about} {_about_bands(results)}")


def ratio_by_lead(results: Results) -> Iterator[Chart]:
    """Draw the ratios of mean squared errors by lead, each in a panel."""
    # Climatologies are omitted, because their far larger errors would stretch the axis that panels share.
    systems = results.metrics["systems"]
    climates = climatologies(systems, run_itself(results.metrics))
    climates += [key for climate in climates for key in of_role(systems, CORRECTED, climate)]
    ratios = {
        name: compared["by_lead"]
        for name, compared in comparisons(results.metrics).items()
        if name not in climates
    }
    if not ratios:
        return
    if results.metrics["kind"] == "hindcast":
        up, about = f"MSE / MSE of {results.reference}", f"Mean squared error divided by {results.reference}'s"
        better = "A ratio below 1 means that the system is better"
    else:
        up, about = "MSE / MSE of each", "Mean squared error of the model divided by each system's"
        better = "A ratio below 1 means that the model is better"
    figure, alt = draw_panels_of_ratios(ratios, up, results.styles)
    yield Chart(figure, alt, f"{about}. {better}. The axis ends at {MAX_RATIO}. {_about_bands(results)}")


def indices(results: Results) -> Iterator[Chart]:
    """Draw the mean of each box over the test days, and its correlation with the observed mean by lead."""
    for box, scores in results.metrics["indices"].items():
        names = list(dict.fromkeys([results.system, results.reference]))
        tables = results.scores.tables.sel(box=box, lead=scored_leads(results.metrics)[-1])
        index, observed = tables["index"], tables["observed_index"]
        if "system" in observed.dims:  # show all as anomalies from the climatology of the first
            own = observed.sel(system=results.system)
            index, observed = index - observed + own, own
        series = {TRUTH: observed} | {distinct(name, [TRUTH], "system"): index.sel(system=name) for name in names}
        days, up = tables["valid_time"].values, f"{BOXES[box]} (°C)"
        curves = {name: index.values for name, index in series.items()}
        caption = f"{BOXES[box]}: observed (truth) and forecast anomaly at the longest lead."
        yield Chart(*draw_curves(curves, up, across="Day", x=days, styles=results.styles), caption)
        correlation = {name: scores[name]["by_lead"]["correlation"] for name in results.shown if name in scores}
        label = f"{BOXES[box]}: correlation"
        yield Chart(*draw_curves(correlation, label, styles=results.styles), f"{label} with the observed mean.")


def crps_skill(results: Results) -> Iterator[Chart]:
    """Draw the CRPS skill of each system over climatology by lead."""
    metrics, climate = results.metrics, results.metrics["climate"]
    names = [name for name in results.shown if name != climate]
    against = {name: of for name in names if (of := comparison(metrics, "crps", name, climate))}
    if against:
        own = "that of the file is its own, " if metrics["kind"] == "file" and MODEL in against else ""
        caption = (
            f"Reduction of the continuous ranked probability score (CRPS) relative to {climate}. All systems "
            f"forecast Gaussians. Their spread is estimated on the validation days, {own}that of the climatology "
            f"in the base period. {_about_bands(results)}"
        )
        yield Chart(*_skill_curves(results, against, "CRPS skill", banded=[results.system]), caption)


def coverage(results: Results) -> Iterator[Chart]:
    """Draw the coverage of the first system's intervals by lead and by season of the day forecast."""
    if results.system not in results.metrics["probabilities"]:
        return
    scores = results.metrics["probabilities"][results.system]
    names = [f"{level} % interval" for level in LEVELS]
    blues = ("#08306B", "#2171B5", "#6BAED6")  # darker for narrower intervals
    styles = {name: {"color": blue, "linewidth": 2} for name, blue in zip(names, blues, strict=True)}
    by_season = [[scores["by_season"][key][season] for season in SEASONS] for key in COVERED]
    axes: dict[str, tuple[Any, dict[str, Any]]] = {
        "by_lead": ([scores["by_lead"][key] for key in COVERED], {}),
        "by_season": (by_season, {"across": PARTS["by_season"].capitalize(), "x": SEASONS}),
    }
    for split, (shares, axis) in axes.items():
        curves = dict(zip(names, shares, strict=True))
        figure, alt = draw_curves(curves, "Share of observed values inside", styles=styles, **axis)
        for level in LEVELS:
            figure.axes[0].axhline(level / 100, color="0.4", linestyle=":", linewidth=1)
        caption = (
            f"Share of observed values in the intervals of {_with_article(results)} by {PARTS[split]}. Dotted "
            "lines mark the nominal levels."
        )
        yield Chart(figure, alt, caption)


def pit(results: Results) -> Iterator[Chart]:
    """Draw PIT histograms of the first system and the reference."""
    scores = results.metrics["probabilities"]
    names = [name for name in dict.fromkeys([results.system, results.reference]) if name in scores]
    if not names:
        return
    bins = len(scores[names[0]]["pit"])
    curves = {"reliable": np.ones(bins)}
    curves = {
        distinct(name, curves, "system"): np.array(scores[name]["pit"], float) * bins for name in names
    } | curves
    caption = (
        "Histogram of the probability integral transform (PIT): how often the truth lies at each quantile of the "
        "forecast distribution, relative to a reliable forecast. High ends mean too little spread, and a slope "
        "means a bias."
    )
    middle = (np.arange(bins) + 0.5) / bins
    up, across = "Relative frequency", "Forecast probability of values below the truth"
    yield Chart(*draw_curves(curves, up, across=across, x=middle, styles=results.styles), caption)


def heatwaves(results: Results) -> Iterator[Chart]:
    """Draw the Brier skill over the base rate by lead, and the ROC area and SEDI of event probabilities."""
    metrics, names = results.metrics, [*results.shown, STATE]
    for kind, scores in metrics["heatwaves"].items():
        against = {name: of for name in names if (of := comparison(metrics, kind, name, BASE_RATE))}
        observed = next(iter(scores.values()))["observed"]
        caption = (
            f"{HEATWAVES[kind]}: reduction of the Brier score relative to the base rate, the frequency in the "
            f"base period. The observed frequency in the test period is {percent(observed)}."
        )
        yield Chart(*_skill_curves(results, against, f"Brier skill, {kind}"), caption)
    captions = {
        "roc_area": (
            "ROC area",
            "probability that a day in a heatwave had a higher forecast probability than another day. "
            "0.5 means no skill.",
        ),
        "sedi": (
            "SEDI",
            "symmetric extremal dependence index of warnings as frequent as the event. 0 means no skill.",
        ),
    }
    scores = metrics["heatwaves"].get(EVENT, {})
    for key, (label, text) in captions.items() if scores else ():
        curves = {name: scores[name]["by_lead"][key] for name in (*names, BASE_RATE) if name in scores}
        yield Chart(*draw_curves(curves, label, styles=results.styles), f"{HEATWAVES[EVENT]}: {text}")


def spread(results: Results) -> Iterator[Chart]:
    """Draw the spread of each ensemble and the error of its mean by lead."""
    for name, scores in results.metrics["ensemble"].items():
        curves = {"RMSE of the mean": scores["by_lead"]["rmse"], "spread": scores["by_lead"]["spread"]}
        caption = f"{name}: spread of the members and error of their mean. They agree if the ensemble is reliable."
        yield Chart(*draw_curves(curves, "°C"), caption)


def rank_histogram(results: Results) -> Iterator[Chart]:
    """Draw the rank histogram of each ensemble, unless no forecast has all members."""
    for name, scores in results.metrics["ensemble"].items():
        if not (shares := scores["rank_histogram"]):
            continue
        curves = {"share": shares, "reliable": [1 / len(shares)] * len(shares)}
        caption = f"{name}: a reliable ensemble has a flat rank histogram. High ends mean too little spread."
        across, x = "Members below the truth", np.arange(len(shares))
        yield Chart(*draw_curves(curves, "Share of cases", across=across, x=x), caption)


def weekly_maps(results: Results, shown: str) -> Iterator[Map]:
    """Make maps of the first system by lead week, of `rmse` or `bias`."""
    weekly = results.weekly(results.system)
    for name, title, label, about, kind in (row for row in WEEKLY if row[0] == shown):
        caption = f"{about} of {_with_article(results)} by lead week."
        draw = partial(draw_weeks, weekly[name], label=label, kind=kind)
        yield Map(name, title, _about_weeks(weekly[name], label), caption, draw)


def skill_maps(results: Results, models: slice = slice(None)) -> Iterator[Map]:
    """Make maps of each model's skill over the reference by lead week, hatched where it is not significant."""
    for system in results.models[models]:
        yield _skill_map(results, *map(results.corrected, (system, results.reference)))


def added_maps(results: Results) -> Iterator[Map]:
    """Make maps of the forecast of a network, of its linear base and of their difference, and of the skill."""
    base, linear_base = results.base_fields(results.case("median")), results.linear_base
    if base is None or linear_base is None:
        return
    network, _ = results.fields(results.case("median"))
    change = (network["sst"] - base["sst"]).isel(lead=-1)
    text = (
        f"{describe_case(results, 'median')} Above: the forecast of the network. Middle: that of its own linear "
        "base. Below: what the network added."
    )
    alt = f"{text} On the last day it added {float(change.min()):.2f} to {float(change.max()):.2f} °C."
    names = ("Network", "Linear base", "Added")
    options: dict[str, Any] = {"names": names, "difference_label": "Network −\nbase (°C)", "kind": "difference"}
    draw = partial(draw_forecast, network["anomaly"], base["anomaly"], label=ANOMALY, **options)
    yield Map("added", "What the network added", alt, text, draw)
    yield _skill_map(results, results.system, linear_base)


def _skill_map(results: Results, system: str, base: str) -> Map:
    """Make maps of the skill of a system over `base` by lead week."""
    label = f"1 − MSE / MSE of {base} (positive: better)"
    compared, weekly = comparison(results.metrics, "mse", system, base), results.weekly(system, base)
    shares = enumerate(zip(compared["better"] or (), compared["worse"] or (), strict=True), 1)
    share_texts = [f"{b:.0%} and {w:.0%} in week {week}" for week, (b, w) in shares if b is not None]
    caption = (
        f"Skill of {_with_article(results, system)} over {base} by lead week. Positive skill means a smaller "
        "error. Hatched cells are not significant by a Diebold-Mariano test with a false discovery rate of "
        f"{FDR:.0%}."
    )
    if share_texts:
        caption += f" It is significantly better and worse in these shares of cells: {', '.join(share_texts)}."
    hatch = f"not significant (false discovery rate {FDR:.0%})"
    hatched = weekly["hatched"]
    draw = partial(draw_weeks, weekly["skill"], label=label, kind="skill", hatched=hatched, hatch_label=hatch)
    is_hindcast = results.metrics["kind"] == "hindcast"
    slug = "skill" if base == results.reference else f"skill-over-{base.replace(' ', '-')}"
    name, title = (
        (f"skill-{system}", f"Skill of {system} over {base}") if is_hindcast else (slug, f"Skill over {base}")
    )
    return Map(name, title, _about_weeks(weekly["skill"], label), caption, draw)


def case_maps(results: Results) -> Iterator[Map]:
    """Make maps of the forecasts with the median, lowest and highest error beside the observations."""
    for case in CASES if results.metrics["kind"] != "hindcast" else ():
        name = "forecast" if case == "median" else case
        forecast, truth = (fields["anomaly"] for fields in results.fields(results.case(case)))
        last = (forecast - truth).isel(lead=-1)
        text = describe_case(results, case)
        alt = (
            f"{text} Forecast, observation and their difference by lead. On the last day the difference ranges "
            f"from {float(last.min()):.1f} to {float(last.max()):.1f} °C."
        )
        draw = partial(draw_forecast, forecast, truth, label=ANOMALY, kind="difference")
        yield Map(name, f"{case.capitalize()} forecast", alt, text, draw)


def heatwave_maps(results: Results) -> Iterator[Map]:
    """Make maps of the days in each category of heatwave by week, as forecast at the onset of the most severe
    one.
    """
    if (found := heatwave_weeks(results)) is None:
        return
    category, day = found
    days = days_by_week(category).sum("category", skipna=False).mean(("lat", "lon"))
    weeks = ", ".join(
        f"{float(of):.1f} in week {week}" for week, of in zip(days["week"].values, days, strict=True)
    )
    ends = (np.datetime64(day) + category["lead"].values[[0, -1]].astype(int)).astype(str)
    title = f"Days in each category of heatwave, {' to '.join(ends)}"
    text = f"{title}, by week, forecast from {day}. On average, a cell has {weeks}."
    draw = partial(draw_days_by_week, category)
    yield Map("heatwave-days", title, text, text, draw)


Draw = Callable[[Results], Iterable[Chart | Map]]  # yields nothing if its figure does not apply to the results
# The keys are sections of the report (`report.SECTIONS`).
FIGURES: dict[str, list[Draw]] = {
    "glance": [skill_by_lead, heatwave_case],
    "errors": [error_by_lead, ratio_by_lead],
    "indices": [indices, area_reliability],
    "probabilities": [crps_skill, coverage, pit],
    "heatwaves": [heatwave_history, heatwaves, warnings, reliability],
    "terciles": [tercile_reliability],
    "ensemble": [spread, rank_histogram],
    "training": [training],
}
MAPS: dict[str, list[Callable[[Results], Iterable[Map]]]] = {
    "glance": [partial(weekly_maps, shown="rmse"), partial(skill_maps, models=slice(1))],
    "added": [added_maps],
    "maps": [partial(weekly_maps, shown="bias"), partial(skill_maps, models=slice(1, None))],
    "heatwaves": [heatwave_maps],
    "cases": [case_maps],
}


def describe_case(results: Results, name: str) -> str:
    """Describe the `best`, `median` or `worst` forecast in a sentence."""
    error = results.error[results.case(name)]
    day = np.datetime_as_string(error["init_time"].values, unit="D")
    return f"The forecast with the {CASES[name]} error, from {day}: RMSE {float(error):.2f} °C over all leads."


def _with_article(results: Results, system: str | None = None) -> str:
    """Return the name of a system as it is used in sentences."""
    name = system or results.system
    return name if results.metrics["kind"] == "hindcast" else f"the {name}"


def _skill_curves(
    results: Results, against: dict[str, Any], up: str, banded: Iterable[str] = ()
) -> tuple[Figure, str]:
    """Draw the skill (1 minus the ratio) of some comparisons by lead, with intervals for the systems `banded`."""
    curves = {name: 1 - np.array(compared["by_lead"]["ratio"], float) for name, compared in against.items()}
    bands = {n: 1 - np.array(against[n]["by_lead"]["interval"], float)[:, ::-1] for n in banded if n in against}
    return draw_curves(curves, up, bands=bands, styles=results.styles)


def _about_weeks(field: xr.DataArray, label: str) -> str:
    parts = []
    for week in field["week"].values:
        low, middle, high = np.nanpercentile(field.sel(week=week).values, [5, 50, 95])
        parts.append(f"week {week}: median {middle:.2f}, 90 % of the cells {low:.2f} to {high:.2f}")
    return f"Maps of {label}: {'; '.join(parts)}."


def _rmse_interval(results: Results) -> Any:
    """Return the ends of a 95 % interval of the RMSE at each lead.

    The bootstrap gives the interval of a ratio, here of the mean squared error to a constant error of 1.
    """
    error = results.scores.errors.sel(system=results.system)
    values = error.values
    if results.metrics["block_days"] is None:
        return np.full((values.shape[1], 2), np.nan)
    block, _, segments = date_blocks(error)
    return np.sqrt(ratio(values, np.ones_like(values), block, segments)[1])


def _about_bands(results: Results) -> str:
    if (days := results.metrics["block_days"]) is None:
        return ""
    return f"Shaded: 95 % interval from a moving-block bootstrap over initial dates, with blocks of {days} days."
