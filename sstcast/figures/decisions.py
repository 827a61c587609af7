"""Charts of what probabilities are worth to those who act on them: reliability, warnings and their value."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from sstcast.figures.curves import Chart, draw_curves
from sstcast.figures.results import Results
from sstcast.figures.sheets.heatwaves import HEATWAVES, WITHIN_HORIZON
from sstcast.names import REGION, THIRDS

LOWEST_VALUE = -0.2  # on the axis of relative economic values


def reliability(results: Results) -> Iterator[Chart]:
    """Draw the reliability diagram of the first system for each kind of heatwave probability, and for events."""
    for kind, scores in results.metrics["heatwaves"].items():
        if results.system in scores:
            yield from _reliability(results, scores[results.system]["reliability"], kind, HEATWAVES[kind])
    diagram = results.metrics.get("events", {}).get(results.system, {}).get("reliability")
    if diagram is not None:
        yield from _reliability(results, diagram, "event within the horizon", WITHIN_HORIZON)


def tercile_reliability(results: Results) -> Iterator[Chart]:
    """Draw the reliability diagram of the first system for each third of weekly means."""
    scores = results.metrics.get("terciles", {"scores": {}})["scores"].get(results.system, {})
    for third in THIRDS if scores else ():
        title = f"Weekly means in the {third} third of the base period"
        yield from _reliability(results, scores[third]["reliability"], f"{third} third", title)


def area_reliability(results: Results) -> Iterator[Chart]:
    """Draw the reliability diagram of the first system for each share of the region in a heatwave."""
    shares = results.metrics.get("areas", {}).get(REGION, {}).get(results.system, {}).get("share", {})
    for share, scores in shares.items():
        if "reliability" in scores:
            title = f"At least {share} % of the region in a heatwave"
            yield from _reliability(results, scores["reliability"], f"{share} % in a heatwave", title)


def _reliability(results: Results, diagram: dict[str, Any], event: str, title: str) -> Iterator[Chart]:
    intervals = diagram.get("interval") or [None] * len(diagram["share"])  # earlier versions have none
    rows = zip(*(diagram[part] for part in ("probability", "observed", "share")), intervals, strict=True)
    bins = [row for row in rows if None not in row[:3]]
    if not bins:  # no event is defined in a frozen sea
        return
    probability, observed, share = np.array([row[:3] for row in bins], float).T
    ends = np.array([row[3] or (np.nan, np.nan) for row in bins], float)
    curves, across = {results.system: observed, "reliable": probability}, f"Forecast probability, {event}"
    bands, styles = {results.system: ends}, results.styles
    figure, alt = draw_curves(
        curves, "Observed frequency", across=across, x=probability, bands=bands, styles=styles
    )
    colour = results.styles[results.system]["color"]
    figure.axes[0].set_xticks(np.arange(6) / 5)
    figure.axes[0].scatter(probability, observed, s=20 + 300 * share, alpha=0.7, clip_on=False, color=colour)
    caption = f"{title}: observed frequency by forecast probability. Larger points have more cases"
    caption += f", from {share.min():.1%} to {share.max():.1%}."
    if np.isfinite(ends).any():
        caption += " Shaded: 95 % interval over years."
    yield Chart(figure, alt, caption)


def warnings(results: Results) -> Iterator[Chart]:
    """Draw hits, false alarms and success index by the probability from which systems warn, and their value.

    Warnings are of events within the horizon or, if those were not verified, of days in a heatwave.
    """
    found, title = results.metrics.get("events", {}), WITHIN_HORIZON
    if not any("warnings" in of for of in found.values()):
        found, title = results.metrics["heatwaves"].get("event", {}), HEATWAVES["event"]
    worth = {name: found[name]["warnings"] for name in results.shown if "warnings" in found.get(name, {})}
    if not worth:
        return
    first = next(iter(worth))

    def bands(part: str) -> dict[str, Any]:
        intervals = worth[first][part]["interval"]
        return {first: [ends or (np.nan, np.nan) for ends in intervals]}

    def about_bands(part: str) -> str:  # too few years give no interval
        return " Shaded: 95 % interval." if any(worth[first][part]["interval"]) else ""

    x = worth[first]["curve"]["probability"]
    hits = {
        "hit rate": worth[first]["curve"]["hit_rate"],
        "false alarms": worth[first]["curve"]["false_alarm_ratio"],
    }
    across = "Probability from which to warn"
    text = (
        f"{title}: share of events that were warned of, and share of warnings without an event, of {first}, by "
        "the probability from which it warns."
    )
    yield Chart(*draw_curves(hits, "Share", across=across, x=x), text)
    curves = {name: of["curve"]["success_index"] for name, of in worth.items()}
    figure, alt = draw_curves(
        curves, "Critical success index", across=across, x=x, bands=bands("curve"), styles=results.styles
    )
    for name, of in worth.items():
        if (matched := of["as_frequent"]) is not None:
            point = matched["probability"], matched["success_index"]["value"]
            figure.axes[0].plot(*point, "o", markersize=7, fillstyle="none", color=results.styles[name]["color"])
    text = (
        f"{title}: critical success index of warnings by the probability from which a system warns. Rings: where "
        f"its warnings are as frequent as the event in the scored years.{about_bands('curve')}"
    )
    yield Chart(figure, alt, text)
    curves = {name: np.maximum(np.array(of["value"]["value"], float), LOWEST_VALUE) for name, of in worth.items()}
    figure, alt = draw_curves(
        curves,
        "Relative economic value",
        across="Cost of acting / loss",
        x=x,
        bands=bands("value"),
        styles=results.styles,
    )
    figure.axes[0].set_ylim(LOWEST_VALUE, 1)
    text = (
        f"{title}: share that each system saves of what perfect forecasts would, for users who act where the "
        "probability is at least the ratio of cost to loss. 0 is acting always or never, whichever costs less. "
        f"The axis ends at {LOWEST_VALUE}.{about_bands('value')}"
    )
    yield Chart(figure, alt, text)
