"""Line charts, with alternative texts for readers who cannot see them."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from sstcast.figures.sheets.sheet import week_ends
from sstcast.names import BASE_RATE, MODEL, STATE, TRUTH

SIZE = (5.0, 3.6)  # inches: narrow enough for the text to be legible on a phone
PANEL, ACROSS = (2.5, 1.9), 2  # size of a small panel in inches, and panels in a row
MAX_RATIO = 1.2  # largest ratio on the axis of a panel, because the interesting ratios are near 1
BAND_ALPHA = 0.2  # opacity of an interval
MODEL_COLOUR, THRESHOLD_COLOUR = "#0072B2", "#D55E00"  # colours of the model, and of thresholds
Style = dict[str, Any]
# Colours of Okabe and Ito (2008), which colour-blind readers can distinguish. Dashes distinguish curves in grey.
STYLES: dict[str, Style] = {
    MODEL: {"color": MODEL_COLOUR, "linewidth": 2.4, "zorder": 3},
    "persistence": {"color": "#D55E00", "linestyle": "--"},
    "damped persistence": {"color": "#CC79A7", "linestyle": "-."},
    "climatology": {"color": "0.4", "linestyle": ":"},
    "trend climatology": {"color": "0.4", "linestyle": (0, (5, 1, 1, 1, 1, 1))},
    "recent climatology": {"color": "0.4", "linestyle": (0, (1, 3))},
    "ridge": {"color": "#009E73", "linestyle": (0, (6, 2))},
    "multiscale ridge": {"color": "#56B4E9", "linestyle": (0, (4, 1, 1, 1))},
    TRUTH: {"color": "black", "linewidth": 1.4},
    BASE_RATE: {"color": "0.65", "linestyle": "-"},
    STATE: {"color": "#8C510A", "linestyle": (0, (2, 2))},
    "reliable": {"color": "0.4", "linewidth": 1},  # the curve of a perfectly reliable forecast
}
OTHERS = (MODEL_COLOUR, "#E69F00", "#882255", "#332288", "#999933", "#44AA99", "#117733", "#AA4499")


class Chart(NamedTuple):
    """A figure, its alternative text, and its caption."""

    figure: Figure
    alt: str
    caption: str


def styles_of(names: Iterable[str]) -> dict[str, Style]:
    """Return a style for each system, which all figures of a report share."""
    styles = {name: STYLES.get(name) for name in names}
    colours = [colour for colour in OTHERS if colour != MODEL_COLOUR or MODEL not in styles]
    unstyled_names = [name for name, style in styles.items() if style is None]
    new_styles = {name: {"color": colours[i % len(colours)]} for i, name in enumerate(unstyled_names)}
    return STYLES | {name: style or new_styles[name] for name, style in styles.items()}


def style_axes(ax: Any) -> None:
    """Draw a grid below the curves, and hide the frame at the top and right."""
    ax.grid(color="0.88", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def legend(figure: Figure) -> None:
    """Put the legend above the axes, where it does not cover the curves."""
    figure.legend(loc="outside upper left", ncols=2, frameon=False)


def draw_curves(
    curves: Mapping[str, Any],
    up: str,
    *,
    across: str = "Lead (days)",
    x: Any = None,
    bands: Mapping[str, Any] | None = None,
    styles: Mapping[str, Style] | None = None,
) -> tuple[Figure, str]:
    """Draw curves, with a line at 0 if any value is negative.

    Args:
        curves: values by name, all of the same length. None is a gap. A curve without values is omitted.
        up: the label of the vertical axis, with the unit.
        across: the label of the horizontal axis. By default, the lead.
        x: positions of the values: numbers, days as `datetime64`, or names of classes. By default, 1, 2, ...
        bands: the ends `[len(x)][2]` of an interval around each value, by name of the curve.
        styles: styles by name of the curve. By default, those that `styles_of` chooses.

    Returns:
        The figure, and an alternative text with the first and last value of each curve.
    """
    figure = Figure(figsize=SIZE, dpi=150, layout="constrained")
    ax = figure.add_subplot(xlabel=across, ylabel=up)
    style_axes(ax)
    styles, count = styles or styles_of(curves), len(next(iter(curves.values())))
    positions = np.arange(1, count + 1) if x is None else np.asarray(x)
    parts, lowest = [], 0.0
    for name, values in curves.items():
        y = np.array(values, float)
        finite = np.flatnonzero(np.isfinite(y))
        if not finite.size:
            continue
        _plot(ax, positions, y, (bands or {}).get(name), label=name, **styles.get(name, {}))
        lowest = min(lowest, np.nanmin(y))
        first, last = (f"{y[i]:.2f} at {_text(positions[i])}" for i in finite[[0, -1]])
        parts.append(f"{name} {first}, {last}")
    if lowest < 0:
        ax.axhline(0, color="0.2", linewidth=0.8)
    if x is None:
        ax.set_xlim(1, max(2, count))
        ax.set_xticks(week_ends(count) if count >= 14 else positions)
    elif positions.dtype.kind == "M":
        date_axis(ax)
    elif positions.dtype.kind != "U":  # Matplotlib has a tick for each class
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if parts:
        legend(figure)
    return figure, f"{up} over {across}: {'; '.join(parts)}."


def _plot(ax: Any, x: NDArray[Any], y: NDArray[Any], ends: Any = None, **style: Any) -> None:
    """Draw a curve, with markers if it has few points, and shade the interval `ends [len(x)][2]`."""
    (line,) = ax.plot(x, y, marker="." if len(y) < 5 else None, **style)
    if ends is not None:
        ax.fill_between(x, *np.array(ends, float).T, color=line.get_color(), alpha=BAND_ALPHA, linewidth=0)


def date_axis(ax: Any) -> None:
    """Label the horizontal axis with dates."""
    locator = AutoDateLocator(minticks=3, maxticks=7)
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def draw_panels_of_ratios(
    ratios: Mapping[str, Mapping[str, Any]], up: str, styles: Mapping[str, Style]
) -> tuple[Figure, str]:
    """Draw ratios by lead with their intervals, each in a small panel.

    Args:
        ratios: `ratio [lead]` and `interval [lead][2]` by name. Ratios that are always above `MAX_RATIO` are
            omitted, unless all are.
        up: the label of the ratios.
        styles: styles by name, as in `draw_curves`.

    Returns:
        The figure, and an alternative text with the first and last ratio of each panel.
    """
    low_ratios = {
        name: comparison
        for name, comparison in ratios.items()
        if any(r is not None and r <= MAX_RATIO for r in comparison["ratio"])
    }
    ratios = low_ratios or ratios
    columns, rows = min(ACROSS, len(ratios)), -(-len(ratios) // ACROSS)
    figure = Figure((PANEL[0] * columns + 0.5, PANEL[1] * rows + 0.5), dpi=150, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    parts, drawn_values = [], [np.ones(1)]
    for ax, (name, comparison) in zip(axes.flat, ratios.items(), strict=False):
        ratio, ends = np.array(comparison["ratio"], float), np.array(comparison["interval"], float)
        leads = np.arange(1, len(ratio) + 1)
        _plot(ax, leads, ratio, ends, color=styles.get(name, {}).get("color", MODEL_COLOUR))
        ax.axhline(1, color="0.2", linewidth=0.8)
        ax.set_title(name, fontsize="medium")
        style_axes(ax)
        drawn_values += [ratio, ends.ravel()]
        finite = np.flatnonzero(np.isfinite(ratio))
        first_and_last = (
            f"{ratio[lead]:.3f} on day {lead + 1}" for lead in finite[[0, -1] if finite.size else []]
        )
        parts.append(f"{name} {', '.join(first_and_last)}")
    for position, ax in enumerate(axes.flat):
        if position >= len(ratios):
            ax.remove()
        elif position + columns >= len(ratios):  # the last of its column
            ax.tick_params(labelbottom=True)
    values = np.concatenate(drawn_values)
    low, high = float(np.nanmin(values)), min(float(np.nanmax(values)), MAX_RATIO)
    margin = 0.05 * (high - low) + 1e-3
    axes.flat[0].set_ylim(low - margin, high + margin)
    axes.flat[0].set_xticks(week_ends(len(leads)))
    figure.supxlabel("Lead (days)", fontsize="medium")
    figure.supylabel(up, fontsize="medium")
    return figure, f"{up} by lead: {'; '.join(parts)}."


def _text(position: Any) -> str:
    """Format a position on the horizontal axis: a day, a class or a number."""
    if isinstance(position, np.datetime64):
        return np.datetime_as_string(position, unit="D")
    return str(position) if isinstance(position, str) else f"{position:g}"
