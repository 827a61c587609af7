"""Line charts of a report, each with a text that says in words what it shows."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sstcast.forecasting.baselines import BASELINES
from sstcast.scores.tables import MODEL, TRUTH

SIZE = (5.0, 3.6)  # inches: as wide as a phone, so that text stays legible there
# Colours of Okabe and Ito (2008), which colour-blind readers tell apart; dashes tell them apart in grey.
STYLES: dict[str, dict[str, Any]] = {
    MODEL: {"color": "#0072B2", "linewidth": 2.4, "zorder": 3},
    "persistence": {"color": "#D55E00", "linestyle": "--"},
    "damped persistence": {"color": "#CC79A7", "linestyle": "-."},
    "climatology": {"color": "0.4", "linestyle": ":"},
    "ridge": {"color": "#009E73", "linestyle": (0, (6, 2))},
    TRUTH: {"color": "black", "linewidth": 1.4},
}
OTHERS = ("#56B4E9", "#E69F00", "#F0E442")  # of baselines without a style of their own
BAND = 0.2  # opacity of an interval

Values = Sequence[float | None]


class Chart(NamedTuple):
    """A figure and its text alternative."""

    figure: Figure
    alt: str


def training(histories: Mapping[str, pd.DataFrame]) -> Chart:
    """Draw the training loss and the validation score of each member by epoch, from their `history.csv`."""
    figure, ax = _axes("Epoch", "Standardised units")
    parts = []
    for number, (name, history) in enumerate(histories.items()):
        epochs = history["epoch"] + 1
        score = next(column for column in history if column.startswith("validation_"))
        alone, colour = len(histories) == 1, f"C{number}"
        suffix = "" if alone else f", {name}"
        ax.plot(
            epochs, history["train_loss"], color=colour, linestyle="--", marker=".", label=f"training loss{suffix}"
        )
        label = score.replace("_", " ").replace("mse", "MSE")
        ax.plot(epochs, history[score], color=colour, marker="o", markersize=4, label=label + suffix)
        best = history[score].idxmin()
        ax.plot(epochs[best], history[score][best], "o", markersize=11, fillstyle="none", color=colour)
        parts.append(
            f"{'' if alone else name + ': '}training loss from {history['train_loss'].iloc[0]:.3f} to "
            f"{history['train_loss'].iloc[-1]:.3f} in {len(history)} epochs, lowest {label} "
            f"{history[score][best]:.3f} in epoch {epochs[best]}"
        )
    ax.set_xlim(0.5, max(map(len, histories.values())) + 0.5)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    _legend(figure)
    return Chart(figure, "Training curves. " + "; ".join(parts) + ".")


def by_lead(
    values: Mapping[str, Values],
    label: str,
    *,
    intervals: Mapping[str, Sequence[Sequence[float | None]]] | None = None,
    zero: bool = False,
) -> Chart:
    """Draw curves over the lead in days, each of the model, the truth or a baseline; None is a gap.

    `intervals` holds the two ends at each lead; `zero` draws a line at 0.
    """
    figure, ax = _axes("Lead (days)", label)
    if zero:
        ax.axhline(0, color="0.2", linewidth=0.8)
    parts = []
    for name, curve in values.items():
        line = np.array(curve, float)
        if not np.isfinite(line).any():
            continue
        leads = np.arange(1, len(line) + 1)
        ax.plot(leads, line, label=name, marker="." if len(line) < 3 else None, **_style(name))
        if intervals and name in intervals:
            low, high = np.array(intervals[name], float).T
            ax.fill_between(leads, low, high, color=_style(name)["color"], alpha=BAND, linewidth=0)
        shown = leads[np.isfinite(line)]
        parts.append(
            f"{name} {line[shown[0] - 1]:.2f} on day {shown[0]}, {line[shown[-1] - 1]:.2f} on day {shown[-1]}"
        )
    _leads(ax, len(next(iter(values.values()))))
    _legend(figure)
    return Chart(figure, f"{label} by lead: {'; '.join(parts)}.")


def series(index: xr.DataArray, name: str) -> Chart:
    """Draw `index(series, init_time)` of one lead, with the coordinate `valid_time(init_time)`, over the days."""
    lead = int(index["lead"])
    figure, ax = _axes("", f"{name} (°C)")
    for which in index["series"].values:
        ax.plot(index["valid_time"], index.sel(series=which), label=_series_name(which, lead), **_style(which))
    ax.axhline(0, color="0.2", linewidth=0.8)
    locator = AutoDateLocator(maxticks=7)
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    _legend(figure)
    truth = index.sel(series=TRUTH)
    parts = [
        f"{_series_name(which, lead)} correlates with it at {float(xr.corr(truth, index.sel(series=which))):.2f}"
        for which in index["series"].values
        if which != TRUTH
    ]
    return Chart(
        figure,
        f"{name} of observations and of forecasts for day {lead}: observed between {float(truth.min()):.2f} and "
        f"{float(truth.max()):.2f} °C; {'; '.join(parts)}.",
    )


def rank_histogram(shares: Sequence[float]) -> Chart:
    """Draw how often so many members lie below the truth; a reliable ensemble has bars of one height."""
    figure, ax = _axes("Members below the truth", "Share of cases")
    ax.bar(np.arange(len(shares)), shares, color="#0072B2", width=0.9)
    ax.axhline(1 / len(shares), color="black", linestyle="--", label="reliable")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    _legend(figure)
    parts = ", ".join(f"{rank}: {share:.0%}" for rank, share in enumerate(shares))
    return Chart(figure, f"Rank histogram, share of cases by the number of members below the truth: {parts}.")


def reliability(probability: Values, observed: Values, share: Values) -> Chart:
    """Draw how often heatwaves came true by the probability forecast; larger points are more cases."""
    known = [row for row in zip(probability, observed, share, strict=True) if None not in row]
    x, y, weight = np.array(known, float).T
    figure, ax = _axes("Forecast probability", "Observed frequency")
    ax.plot([0, 1], [0, 1], color="black", linestyle="--", label="reliable")
    ax.plot(x, y, color="#0072B2", label=MODEL)
    ax.scatter(x, y, s=20 + 300 * weight, color="#0072B2", alpha=0.7, clip_on=False, zorder=3)
    ax.set(xlim=(0, 1), ylim=(0, 1))
    _legend(figure)
    parts = "; ".join(
        f"forecast {p:.0%}, observed {o:.0%} ({w:.0%} of cases)" for p, o, w in zip(x, y, weight, strict=True)
    )
    return Chart(figure, f"Reliability of heatwave probabilities: {parts}.")


def spread_and_error(spread: Values, error: Values) -> Chart:
    """Draw the spread of an ensemble and the error of its mean by lead."""
    figure, ax = _axes("Lead (days)", "°C")
    leads = np.arange(1, len(spread) + 1)
    ax.plot(leads, np.array(error, float), label="RMSE of the mean", **STYLES[MODEL])
    ax.plot(leads, np.array(spread, float), label="spread", color="#D55E00", linestyle="--")
    ax.set_ylim(bottom=0)
    _leads(ax, len(spread))
    _legend(figure)
    return Chart(
        figure,
        f"Spread and error of the ensemble by lead: on day 1 spread {spread[0]:.2f} and RMSE {error[0]:.2f} °C, "
        f"on day {len(spread)} spread {spread[-1]:.2f} and RMSE {error[-1]:.2f} °C.",
    )


def _style(name: str) -> dict[str, Any]:
    if name in STYLES:
        return STYLES[name]
    return {"color": OTHERS[list(BASELINES).index(name) % len(OTHERS)], "linestyle": "-."}


def _series_name(which: str, lead: int) -> str:
    return "observed" if which == TRUTH else f"{which}, day {lead}"


def _axes(across: str, up: str) -> tuple[Figure, Any]:
    figure = Figure(figsize=SIZE, dpi=150, layout="constrained")
    ax = figure.add_subplot()
    ax.set_xlabel(across)
    ax.set_ylabel(up)
    ax.grid(color="0.88", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    return figure, ax


def _leads(ax: Any, horizon: int) -> None:
    """Mark the first day, the ends of the weeks and the last day."""
    ax.set_xlim(1, max(2, horizon))
    ax.set_xticks(sorted({1, horizon, *range(7, horizon + 1, 7)}) if horizon >= 14 else range(1, horizon + 1))


def _legend(figure: Figure) -> None:
    """Put the legend above the curves, where it hides none."""
    figure.legend(loc="outside upper left", ncols=2, frameon=False)
