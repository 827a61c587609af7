"""The figures of a report, and the maps of the command `map`: one function each, listed in `FIGURES`."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from sstcast.names import CLIMATE, COVERED, DEGREES, LEVELS, MODEL, TRUTH
from sstcast.pages.curves import Picture, draw_curves
from sstcast.pages.heatwave_figures import heatwave_case, heatwaves, reliability
from sstcast.pages.maps import draw_forecast, draw_weeks
from sstcast.pages.results import REFERENCE, Results
from sstcast.pages.text import BOXES
from sstcast.scores.metrics import METRICS
from sstcast.scores.significance import FDR, skill_interval
from sstcast.training.listing import read_history

ANOMALY = "SST anomaly (°C)"


@dataclass(frozen=True)
class Entry:
    """A figure of the report, or several figures of one kind.

    Attributes:
        name: name of its file, if it is a map.
        title: a short title.
        section: section of the report, one of `report.SECTIONS`.
        draw: function that makes the pictures of some `Results`, or none if they do not apply. A function for a
            map makes one picture, and takes the options `title`, `credit`, `projection` and `room` of
            `maps.draw_weeks`.
        is_map: whether the command `map` draws it, and the report draws it again for narrow screens.
        of_run: whether it takes a run; it is not drawn of a file's forecasts.
    """

    name: str
    title: str
    section: str
    draw: Callable[..., Iterable[Picture]]
    is_map: bool = False
    of_run: bool = False


def training(results: Results) -> Iterator[Picture]:
    """Training loss and validation score of each member, by epoch."""
    for member in results.run.members:
        if not member.history.exists():
            continue
        history = read_history(member.history)
        score = next(column for column in history if column.startswith("validation_"))
        label = score.replace("_", " ").replace("mse", "MSE")
        curves = {"training loss": history["train_loss"], label: history[score]}
        epochs, best = (
            np.arange(1, 1 + len(history[score])),
            int(np.nan_to_num(history[score], nan=np.inf).argmin()),
        )
        figure, alt = draw_curves(curves, "Standardised units", across="Epoch", x=epochs)
        figure.axes[0].plot(
            epochs[best], history[score][best], "o", markersize=11, fillstyle="none", color="black"
        )
        caption = f"{member.folder.name}: training loss and validation score; the ring marks the weights used."
        yield Picture(figure, f"{member.folder.name}: {alt} Best: epoch {epochs[best]}.", caption)


def error_by_lead(results: Results) -> Iterator[Picture]:
    """Every metric shown in the tables in degC, by lead; the RMSE with intervals."""
    block, error = results.metrics["block"], results.tables["mse_by_date"].sel(units=DEGREES)
    told = (MODEL, REFERENCE) if block else ()  # none where there are too few dates
    intervals = {name: _rmse_interval(error.sel(forecast=name), block) for name in told}
    scores = {name: of[DEGREES]["by_lead"] for name, of in results.metrics["scores"].items()}
    for metric in METRICS.values():
        if metric.in_degrees:
            up = f"{metric.heading} ({metric.unit})" if metric.unit else metric.heading
            bands = intervals if metric.name == "rmse" else {}
            figure, alt = draw_curves({name: of[metric.name] for name, of in scores.items()}, up, bands=bands)
            yield Picture(figure, alt, f"{metric.about} {_about_bands(results)}" if bands else metric.about)


def skill_by_lead(results: Results) -> Iterator[Picture]:
    """The fraction of each baseline's squared error that the model removes."""
    compared = {name: of for name, of in results.metrics["skill"][DEGREES].items() if name != "climatology"}
    bands = {name: of["by_lead_interval"] for name, of in compared.items()}
    curves = {name: of["by_lead"] for name, of in compared.items()}
    caption = "Share of a baseline's mean squared error that the model saves; above 0 it is better."
    yield Picture(*draw_curves(curves, "Skill", bands=bands), f"{caption} {_about_bands(results)}")


def rmse_map(results: Results, **options: Any) -> list[Picture]:
    """RMSE by lead week."""
    caption = "Root mean squared error by lead week."
    return [_weeks(results, "rmse", "RMSE (°C)", caption, kind="error", **options)]


def bias_map(results: Results, **options: Any) -> list[Picture]:
    """Bias by lead week."""
    caption = "Mean of forecast minus observation by lead week."
    return [_weeks(results, "bias", "Forecast − observed (°C)", caption, kind="difference", **options)]


def skill_map(results: Results, **options: Any) -> list[Picture]:
    """Skill over persistence by lead week, hatched where it is not significant."""
    compared = results.metrics["skill"][DEGREES][REFERENCE]
    shares = enumerate(zip(compared["better"], compared["worse"], strict=True), 1)
    told = [f"{b:.0%} and {w:.0%} in week {week}" for week, (b, w) in shares if b is not None]
    caption = (
        f"Skill over {REFERENCE} by lead week; above 0 the model is better. Hatched: not significant by "
        f"a Diebold-Mariano test with false discoveries held at {FDR:.0%}. Cells where it is significantly better "
        f"and worse: {', '.join(told)}."
    )
    label = f"1 − MSE / MSE of {REFERENCE} (above 0: better)"
    hatched = {
        "hatched": results.weekly["hatched"],
        "hatch_label": f"not significant (false discoveries ≤ {FDR:.0%})",
    }
    return [_weeks(results, "skill", label, caption, kind="skill", **hatched, **options)]


def median_forecast(results: Results, **options: Any) -> list[Picture]:
    """The forecast with the median error beside the observation, in degC."""
    return [_case(results, "median", "sst", **options)]


def best_forecast(results: Results, **options: Any) -> list[Picture]:
    """The forecast with the lowest error beside the observation, as anomalies."""
    return [_case(results, "best", "anomaly", label=ANOMALY, kind="difference", **options)]


def worst_forecast(results: Results, **options: Any) -> list[Picture]:
    """The forecast with the highest error beside the observation, as anomalies."""
    return [_case(results, "worst", "anomaly", label=ANOMALY, kind="difference", **options)]


def indices(results: Results) -> Iterator[Picture]:
    """The mean of each box over the test days, and its correlation with the observed one by lead."""
    for box, scores in results.metrics["indices"].items():
        index = results.tables["index"].sel(box=box, series=[TRUTH, MODEL, REFERENCE]).isel(lead=-1)
        days, up = index["valid_time"].values, f"{BOXES[box]} (°C)"
        curves = {name: index.sel(series=name).values for name in index["series"].values}
        caption = f"{BOXES[box]}: anomaly of the last day forecast, as observed (truth) and as forecast."
        yield Picture(*draw_curves(curves, up, across="day", x=days), caption)
        correlation = {name: of["by_lead"]["correlation"] for name, of in scores.items()}
        label = f"{BOXES[box]}: correlation"
        yield Picture(*draw_curves(correlation, label), f"{label} with the observed one.")


def crps_skill(results: Results) -> Iterator[Picture]:
    """The fraction of the climatological distribution's CRPS that each method saves, by lead."""
    found = {name: of["skill"] for name, of in results.metrics["probabilities"].items() if name != CLIMATE}
    bands = {name: of["by_lead_interval"] for name, of in found.items() if name == MODEL}
    caption = (
        "Share of the continuous ranked probability score of the climatological distribution that each method "
        f"saves, all of them Gaussians as wide as their errors on the validation days. {_about_bands(results)}"
    )
    curves = {name: of["by_lead"] for name, of in found.items()}
    yield Picture(*draw_curves(curves, "CRPS skill", bands=bands), caption)


def coverage(results: Results) -> Iterator[Picture]:
    """How much of the truth lies in the model's intervals, by lead."""
    if MODEL not in results.metrics["probabilities"]:
        return
    of = results.metrics["probabilities"][MODEL]["by_lead"]
    curves = {f"{level} % interval": of[name] for level, name in zip(LEVELS, COVERED, strict=True)}
    figure, alt = draw_curves(curves, "Share of the truth inside")
    for level in LEVELS:
        figure.axes[0].axhline(level / 100, color="0.4", linestyle=":", linewidth=1)
    yield Picture(figure, alt, "Share of the truth in the model's intervals by lead; dotted: what they promise.")


def pit(results: Results) -> Iterator[Picture]:
    """Where in the distributions the truth lies."""
    found = {name: of["pit"] for name, of in results.metrics["probabilities"].items()}
    bins = len(found[REFERENCE])
    curves = {name: np.array(found[name]) * bins for name in (MODEL, REFERENCE) if name in found}
    curves["reliable"] = np.ones(bins)
    caption = (
        "Probability integral transform: how often the truth lies at each quantile of the distribution, over the "
        "share that a reliable forecast has. High ends mean too little spread, a slope a bias."
    )
    middle = (np.arange(bins) + 0.5) / bins
    yield Picture(*draw_curves(curves, "Relative frequency", across="Probability below", x=middle), caption)


def spread(results: Results) -> Iterator[Picture]:
    """Spread of an ensemble and error of its mean, by lead."""
    if found := results.metrics["ensemble"]:
        curves = {"RMSE of the mean": found["by_lead"]["rmse"], "spread": found["by_lead"]["spread"]}
        caption = "Standard deviation of the members and error of their mean; alike if the ensemble is reliable."
        yield Picture(*draw_curves(curves, "°C"), caption)


def rank_histogram(results: Results) -> Iterator[Picture]:
    """How often each number of members is below the truth."""
    if found := results.metrics["ensemble"]:
        shares = found["rank_histogram"]
        curves = {"share": shares, "reliable": [1 / len(shares)] * len(shares)}
        across = "Members below the truth"
        caption = "A reliable ensemble has all ranks equally often; high ends mean too little spread."
        yield Picture(
            *draw_curves(curves, "Share of cases", across=across, x=np.arange(len(shares))),
            caption,
        )


FIGURES = [
    Entry("training", "Training", "training", training, of_run=True),
    Entry("error_by_lead", "Errors", "errors", error_by_lead),
    Entry("skill_by_lead", "Skill", "errors", skill_by_lead),
    Entry("rmse", "RMSE", "maps", rmse_map, is_map=True),
    Entry("bias", "Bias", "maps", bias_map, is_map=True),
    Entry("skill", f"Skill over {REFERENCE}", "maps", skill_map, is_map=True),
    Entry("indices", "Box means", "indices", indices),
    Entry("crps_skill", "CRPS skill", "probabilities", crps_skill),
    Entry("coverage", "Coverage", "probabilities", coverage),
    Entry("pit", "PIT", "probabilities", pit),
    Entry("heatwaves", "Heatwaves", "heatwaves", heatwaves),
    Entry("heatwave_reliability", "Reliability", "heatwaves", reliability),
    Entry("heatwave_case", "A heatwave", "heatwaves", heatwave_case, of_run=True),
    Entry("spread", "Spread and error", "ensemble", spread),
    Entry("rank_histogram", "Rank histogram", "ensemble", rank_histogram),
    Entry("forecast", "Median forecast", "cases", median_forecast, is_map=True),
    Entry("best", "Best forecast", "cases", best_forecast, is_map=True),
    Entry("worst", "Worst forecast", "cases", worst_forecast, is_map=True),
]


def describe_case(results: Results, name: str) -> str:
    """Return a sentence that identifies the `best`, `median` or `worst` forecast."""
    error = results.error[results.case(name)]
    kind = {"best": "lowest", "worst": "highest", "median": "median"}[name]
    day = np.datetime_as_string(error["init_time"].values, unit="D")
    return f"The forecast of the {kind} error, from {day}: RMSE {float(error):.2f} °C over all its days."


def _case(results: Results, name: str, field: str, **options: Any) -> Picture:
    forecast, truth = (fields[field] for fields in results.fields(results.case(name)))
    last = (forecast - truth).isel(lead=-1)
    text = describe_case(results, name)
    alt = (
        f"{text} Forecast, observation and their difference by lead; the last day's difference is "
        f"{float(last.min()):.1f} to {float(last.max()):.1f} °C."
    )
    return Picture(draw_forecast(forecast, truth, **options), alt, text)


def _weeks(results: Results, name: str, label: str, caption: str, **options: Any) -> Picture:
    field = results.weekly[name]
    parts = []
    for week in field["week"].values:
        low, middle, high = np.nanpercentile(field.sel(week=week).values, [5, 50, 95])
        parts.append(f"week {week} median {middle:.2f}, nine tenths of the cells {low:.2f} to {high:.2f}")
    return Picture(draw_weeks(field, label=label, **options), f"Maps of {label}: {'; '.join(parts)}.", caption)


def _rmse_interval(error: xr.DataArray, block: int) -> list[list[float]]:
    """Return the ends of a 95 % interval of the RMSE at each lead: the skill over a reference of error 1."""
    values = error.transpose("init_time", "lead").values.astype(float)
    low, high = skill_interval(values, np.ones_like(values), block)
    ends: list[list[float]] = np.sqrt(np.stack([1 - high, 1 - low], axis=-1)).tolist()
    return ends


def _about_bands(results: Results) -> str:
    if (block := results.metrics["block"]) is None:
        return ""
    days = block * results.metrics.get("every", 1)
    return f"Bands hold 95 % of a moving-block bootstrap over initial dates, blocks of {days} days."
