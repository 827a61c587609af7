"""The figures of marine heatwaves: scores of their probabilities, and a forecast of one beside what came true."""

from collections.abc import Iterator
from statistics import NormalDist

import numpy as np
import xarray as xr
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sstcast.errors import reading
from sstcast.forecasting.files import DAY
from sstcast.names import BASE_RATE, EVENT, MODEL
from sstcast.ocean.anomalies import on_days
from sstcast.ocean.heatwaves import AROUND, events
from sstcast.ocean.limits import limits_of
from sstcast.ocean.prepared import Prepared
from sstcast.pages.curves import BAND, SIZE, STYLES, Picture, draw_curves, legend
from sstcast.pages.results import Results
from sstcast.pages.text import HEATWAVES
from sstcast.scores.evaluate import open_forecasts

INTERVALS = (95, 80, 50)  # per cent
SHOWN = 42  # days before it
EXPECTED = ("heatwave_threshold", "climatology")
AFTER = 3  # days from the first day of the heatwave shown to the last one known when it was forecast


def heatwaves(results: Results) -> Iterator[Picture]:
    """Brier skill over the base rate by lead, and ROC area and SEDI of the probabilities of events."""
    found = results.metrics["heatwaves"]
    for kind, of in found.items():
        base = np.array(of["scores"][BASE_RATE]["by_lead"]["brier"], float)
        brier = {name: score["by_lead"]["brier"] for name, score in of["scores"].items() if name != BASE_RATE}
        curves = {name: 1 - np.array(values, float) / base for name, values in brier.items()}
        caption = (
            f"{HEATWAVES[kind]}: share of the Brier score of the base rate, the frequency in the training years, "
            f"that each probability saves. In the test period {of['scores'][MODEL]['observed']:.1%} of days were."
        )
        yield Picture(*draw_curves(curves, f"Brier skill, {kind}"), caption)
    captions = {
        "roc_area": ("ROC area", "how often a day in a heatwave had the higher probability; 0.5 is no skill."),
        "sedi": (
            "SEDI",
            "symmetric extremal dependence index, as many days warned of as observed; 0 is no skill.",
        ),
    }
    for key, (label, text) in captions.items():
        curves = {name: score["by_lead"][key] for name, score in found[EVENT]["scores"].items()}
        yield Picture(*draw_curves(curves, label), f"{HEATWAVES[EVENT]}: {text}")


def reliability(results: Results) -> Iterator[Picture]:
    """How often days came true by the model's probability of them."""
    for kind, of in results.metrics["heatwaves"].items():
        diagram = of["scores"][MODEL]["reliability"]
        rows = zip(*(diagram[part] for part in ("probability", "observed", "share")), strict=True)
        probability, observed, share = np.array([row for row in rows if None not in row], float).T
        curves, across = {MODEL: observed, "reliable": probability}, f"Forecast probability, {kind}"
        figure, alt = draw_curves(curves, "Observed frequency", across=across, x=probability)
        figure.axes[0].scatter(probability, observed, s=20 + 300 * share, alpha=0.7, clip_on=False)
        caption = f"{HEATWAVES[kind]}: how often they came true, by probability; larger points are more cases."
        yield Picture(figure, alt, caption)


def heatwave_case(results: Results) -> Iterator[Picture]:
    """The severest heatwave of the test days, as forecast when it had just begun: temperature and probability.

    It is chosen by what was observed alone: by its cumulative intensity, the sum of its departures from the
    climatology (Hobday et al. 2016).
    """
    from sstcast.forecasting.heatwaves import with_heatwaves  # not above: they need PyTorch, no other figure does
    from sstcast.forecasting.spread import Spread, calibrated

    if (found := _severest(results)) is None:
        return
    date, row, col = found
    with reading(results.run.forecasts, "delete it and evaluate again"):
        cell = open_forecasts(results.run)[["sst"]].isel(init_time=[date], lat=[row], lon=[col]).load()
    prepared = Prepared.of(results.run.config.data)
    observed = prepared.open()[0]["sst"].isel(lat=[row], lon=[col])
    init, last = cell["init_time"].values[0], cell["valid_time"].values[0, -1]
    days = observed.sel(time=slice(init - (SHOWN - 1) * DAY, last + AROUND * DAY)).load()
    past = days.sel(time=slice(None, init))
    cell["sst_past"] = (("init_time", "past", "lat", "lon"), past.values[None])
    cell = cell.assign_coords(past=np.arange(1 - past.sizes["time"], 1))
    limits = limits_of(results.run.config.data).isel(lat=[row], lon=[col])
    spread = calibrated(results.run)
    spread = Spread(spread.values.isel(lat=[row], lon=[col]), spread.correlation)
    cell = with_heatwaves(cell, spread, limits)
    width = spread.spread(cell["valid_time"]).values.ravel()
    daily = xr.Dataset({name: on_days(limits[name], days["time"]) for name in EXPECTED})
    inside = events(days.values > daily["heatwave_threshold"].values).ravel()
    daily = daily.assign(sst=days).isel(lat=0, lon=0).assign(inside=("time", inside))
    yield _draw_case(cell, width, daily.sel(time=slice(None, last)))


def _severest(results: Results) -> tuple[int, int, int] | None:
    """Return initial date, row and column of the forecast to show; None if there was no heatwave."""
    data, starts = results.run.config.data, results.tables["init_time"].values
    days = slice(starts[0], results.tables["valid_time"].values[-1, -1])
    sst = Prepared.of(data).open()[0]["sst"].sel(time=days)
    sst = sst.where(results.tables["mse_by_cell"].isel(units=0, forecast=0, week=0).notnull()).load()
    expected = {name: on_days(limits_of(data)[name], sst["time"]).values for name in EXPECTED}
    inside = events(sst.values > expected["heatwave_threshold"])
    day = np.arange(len(inside))[:, None, None]
    before = np.concatenate([np.zeros_like(inside[:1]), inside[:-1]])
    began = np.maximum.accumulate(np.where(inside & ~before, day, 0))
    day, *cell = np.nonzero(inside)
    severity = np.zeros(inside.shape)
    np.add.at(severity, (began[inside], *cell), (sst.values - expected["climatology"])[inside])
    severity[0] = 0  # may have begun before
    severity[~np.isin(sst["time"].values + AFTER * DAY, starts)] = 0
    if not severity.any():
        return None
    first, row, col = np.unravel_index(np.argmax(severity), severity.shape)
    init = sst["time"].values[first] + AFTER * DAY
    return int(np.flatnonzero(starts == init)[0]), int(row), int(col)


def _draw_case(cell: xr.Dataset, width: NDArray[np.floating], daily: xr.Dataset) -> Picture:
    """Draw the forecast of a cell, its spread `width [lead]`, and on each day what was observed and expected."""
    figure = Figure(figsize=(SIZE[0], 1.4 * SIZE[1]), dpi=150, layout="constrained")
    top, bottom = figure.subplots(2, sharex=True, height_ratios=(2, 1))
    time, ahead, mean = daily["time"].values, cell["valid_time"].values.ravel(), cell["sst"].values.ravel()
    color = STYLES[MODEL]["color"]
    for level in INTERVALS:
        half = NormalDist().inv_cdf((1 + level / 100) / 2) * width
        top.fill_between(ahead, mean - half, mean + half, color=color, alpha=BAND, linewidth=0)
    top.plot(ahead, mean, color=color, linewidth=2.4, label="forecast: 50, 80, 95 %")
    top.plot(time, daily["sst"], color="black", linewidth=1.4, label="observed")
    top.plot(time, daily["heatwave_threshold"], color="#D55E00", linestyle="--", label="90th percentile")
    top.plot(time, daily["climatology"], color="0.4", linestyle=":", label="climatology")
    top.set_ylabel("SST (°C)")
    chance = cell["heatwave_probability"].values.ravel()
    bottom.plot(ahead, chance, color=color, linewidth=2.4)
    inside = daily["inside"].values
    bottom.fill_between(time, 0, 1, where=inside, step="mid", color="#D55E00", alpha=BAND, linewidth=0)
    bottom.set_ylim(0, 1)
    bottom.set_ylabel("Heatwave probability")
    for ax in (top, bottom):
        ax.axvline(cell["init_time"].values[0], color="0.2", linewidth=0.8)
        ax.grid(color="0.88", linewidth=0.8)
        ax.spines[["top", "right"]].set_visible(False)
    locator = AutoDateLocator(maxticks=7)
    bottom.xaxis.set_major_locator(locator)
    bottom.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    legend(figure)
    init, last = (np.datetime_as_string(day, unit="D") for day in (cell["init_time"].values[0], ahead[-1]))
    lat, lon = float(cell["lat"][0]), float(cell["lon"][0])
    place = f"{abs(lat):.2f}°{'N' if lat >= 0 else 'S'} {lon:.2f}°E"
    text = (
        f"The severest heatwave of the test days, at {place}, forecast {AFTER} days after it began, {init} to "
        f"{last}; shaded: the days observed to be in it. The probability of being in one is {chance.min():.0%} "
        f"to {chance.max():.0%}, and {chance[inside[-len(ahead) :]].mean():.0%} on average on days in it."
    )
    return Picture(figure, text, text)
