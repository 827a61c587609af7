"""Charts of what probabilities are worth to those who act on them: reliability, warnings and their value."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from sstcast.figures.curves import Chart, draw_curves
from sstcast.figures.results import Results
from sstcast.figures.sheets import above, areas, events, heatwaves, terciles
from sstcast.figures.sheets.events import WITHIN_HORIZON
from sstcast.figures.sheets.heatwaves import HEATWAVES
from sstcast.figures.sheets.sheet import intervals_of
from sstcast.names import EVENT
from sstcast.scores.system_records import distinct
from sstcast.types import Scores

WARN_FROM = "Probability from which to warn"  # an axis
LOWEST_VALUE = -0.2  # on the axis of relative economic values


def reliability(results: Results) -> Iterator[Chart]:
    """Draw the reliability diagram of the first system for each kind of heatwave probability, and for events."""
    for kind, diagram in heatwaves.diagrams(results.metrics).items():
        yield from _reliability(results, diagram, kind, HEATWAVES[kind])
    for title, diagram in events.diagrams(results.metrics).items():
        yield from _reliability(results, diagram, "event within the horizon", title)
    for level, diagram in above.diagrams(results.metrics).items():
        yield from _reliability(results, diagram, f"above {level} °C", f"Days above {level} °C")


def tercile_reliability(results: Results) -> Iterator[Chart]:
    """Draw the reliability diagram of the first system for each third of weekly means."""
    for third, diagram in terciles.diagrams(results.metrics).items():
        title = f"Weekly means in the {third} third of the base period"
        yield from _reliability(results, diagram, f"{third} third", title)


def area_reliability(results: Results) -> Iterator[Chart]:
    """Draw the reliability diagram of the first system for each share of the region in a heatwave."""
    for share, diagram in areas.diagrams(results.metrics).items():
        title = f"At least {share} % of the region in a heatwave"
        yield from _reliability(results, diagram, f"{share} % in a heatwave", title)


def _reliability(results: Results, diagram: Scores, event: str, title: str) -> Iterator[Chart]:
    columns = (diagram[part] for part in ("probability", "observed", "share"))
    rows = zip(*columns, intervals_of(diagram), strict=True)
    bins = [row for row in rows if None not in row[:3]]
    if not bins:  # no event is defined in a frozen sea
        return
    probability, observed, share = np.array([row[:3] for row in bins], float).T
    ends = np.array([row[3] or (np.nan, np.nan) for row in bins], float)
    name, across = distinct(results.system, ["reliable"], "system"), f"Forecast probability, {event}"
    curves, bands, styles = {name: observed, "reliable": probability}, {name: ends}, results.styles
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
    if not found:
        found, title = results.metrics["heatwaves"].get(EVENT, {}), HEATWAVES[EVENT]
    worth = {name: found[name]["warnings"] for name in results.shown if name in found}
    if worth:
        yield _hits(title, *next(iter(worth.items())))
        yield _success_index(results, title, worth)
        yield _economic_value(results, title, worth)


def _hits(title: str, name: str, of: Scores) -> Chart:
    hits = {"hit rate": of["curve"]["hit_rate"], "false alarms": of["curve"]["false_alarm_ratio"]}
    text = (
        f"{title}: share of events that were warned of, and share of warnings without an event, of {name}, by "
        "the probability from which it warns."
    )
    return Chart(*draw_curves(hits, "Share", across=WARN_FROM, x=of["curve"]["probability"]), text)


def _success_index(results: Results, title: str, worth: Scores) -> Chart:
    curves = {name: of["curve"]["success_index"] for name, of in worth.items()}
    bands, about_bands = _bands(worth, "curve")
    x, styles = next(iter(worth.values()))["curve"]["probability"], results.styles
    figure, alt = draw_curves(curves, "Critical success index", across=WARN_FROM, x=x, bands=bands, styles=styles)
    for name, of in worth.items():
        if (matched := of["as_frequent"]) is not None:
            point = matched["probability"], matched["success_index"]["value"]
            figure.axes[0].plot(*point, "o", markersize=7, fillstyle="none", color=styles[name]["color"])
    text = (
        f"{title}: critical success index of warnings by the probability from which a system warns. Rings: where "
        f"its warnings are as frequent as the event in the scored years.{about_bands}"
    )
    return Chart(figure, alt, text)


def _economic_value(results: Results, title: str, worth: Scores) -> Chart:
    curves = {name: np.maximum(np.array(of["value"]["value"], float), LOWEST_VALUE) for name, of in worth.items()}
    bands, about_bands = _bands(worth, "value")
    x, up, across = (
        next(iter(worth.values()))["value"]["cost_loss"],
        "Relative economic value",
        "Cost of acting / loss",
    )
    figure, alt = draw_curves(curves, up, across=across, x=x, bands=bands, styles=results.styles)
    figure.axes[0].set_ylim(LOWEST_VALUE, 1)
    text = (
        f"{title}: share that each system saves of what perfect forecasts would, for users who act where the "
        "probability is at least the ratio of cost to loss. 0 is acting always or never, whichever costs less. "
        f"The axis ends at {LOWEST_VALUE}.{about_bands}"
    )
    return Chart(figure, alt, text)


def _bands(worth: Scores, part: str) -> tuple[dict[str, Any], str]:
    """Return the intervals of the first system, and words about them. Too few years give none."""
    first, of = next(iter(worth.items()))
    intervals = of[part]["interval"]
    about = " Shaded: 95 % interval." if any(intervals) else ""
    return {first: [ends or (np.nan, np.nan) for ends in intervals]}, about
