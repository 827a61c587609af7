"""Line charts, and descriptions of them as text for readers who cannot see them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from sstcast.names import MODEL, TRUTH
from sstcast.pages.text import week_ends

SIZE = (5.0, 3.6)  # inches: as wide as a phone, so that text stays legible there
# Colours of Okabe and Ito (2008), which colour-blind readers can distinguish; dashes distinguish curves in grey.
STYLES: dict[str, dict[str, Any]] = {
    MODEL: {"color": "#0072B2", "linewidth": 2.4, "zorder": 3},
    "persistence": {"color": "#D55E00", "linestyle": "--"},
    "damped persistence": {"color": "#CC79A7", "linestyle": "-."},
    "climatology": {"color": "0.4", "linestyle": ":"},
    "ridge": {"color": "#009E73", "linestyle": (0, (6, 2))},
    "multiscale ridge": {"color": "#56B4E9", "linestyle": (0, (4, 1, 1, 1))},
    TRUTH: {"color": "black", "linewidth": 1.4},
}
OTHERS = ("#E69F00", "#F0E442", "#0072B2")  # for names without a style
BAND = 0.2  # opacity of an interval

Values = Sequence[float | None]


class Picture(NamedTuple):
    """A figure, a description of it as text, and its caption."""

    figure: Figure
    alt: str
    caption: str


def empty_chart(across: str, up: str) -> tuple[Figure, Any]:
    """Return a figure and its axes, with the labels `across` and `up`."""
    figure = Figure(figsize=SIZE, dpi=150, layout="constrained")
    ax = figure.add_subplot()
    ax.set_xlabel(across)
    ax.set_ylabel(up)
    ax.set_prop_cycle(color=OTHERS)
    ax.grid(color="0.88", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    return figure, ax


def legend(figure: Figure) -> None:
    """Put the legend above the axes, where it hides no curve."""
    figure.legend(loc="outside upper left", ncols=2, frameon=False)


def draw_curves(
    curves: Mapping[str, Values | NDArray[Any]],
    up: str,
    *,
    across: str = "Lead (days)",
    x: NDArray[Any] | None = None,
    bands: Mapping[str, Sequence[Sequence[float | None]]] | None = None,
) -> tuple[Figure, str]:
    """Draw curves, with a line at 0 if one falls below it; also return as text where each begins and ends.

    Args:
        curves: values by name, drawn in the name's style in `STYLES`; None is a gap, and a curve of gaps is left
            out.
        up: the label of the values, with their unit.
        across: the label of `x`; days ahead by default.
        x: positions of the values: numbers, or days as `datetime64`.
        bands: both ends of an interval around each value, by the name of the curve.
    """
    figure, ax = empty_chart(across, up)
    longest = max(map(len, curves.values()))
    places = np.arange(1, longest + 1) if x is None else x
    parts, lowest = [], 0.0
    for name, values in curves.items():
        y = np.array(values, float)
        at = places[: len(y)]
        shown = np.flatnonzero(np.isfinite(y))
        if not shown.size:
            continue
        (line,) = ax.plot(at, y, label=name, marker="." if len(y) < 4 else None, **STYLES.get(name, {}))
        if bands and name in bands:
            low, high = np.array(bands[name], float).T
            ax.fill_between(at, low, high, color=line.get_color(), alpha=BAND, linewidth=0)
        lowest = min(lowest, np.nanmin(y))
        first, last = shown[[0, -1]]
        parts.append(f"{name} {y[first]:.2f} at {_text(at[first])}, {y[last]:.2f} at {_text(at[last])}")
    if lowest < 0:
        ax.axhline(0, color="0.2", linewidth=0.8)
    if np.issubdtype(places.dtype, np.datetime64):
        locator = AutoDateLocator(maxticks=7)
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    elif x is None:
        ax.set_xlim(1, max(2, longest))
        ax.set_xticks(week_ends(longest) if longest >= 14 else range(1, longest + 1))
    else:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if parts:
        legend(figure)
    return figure, f"{up} over {across}: {'; '.join(parts)}."


def _text(place: Any) -> str:
    return np.datetime_as_string(place, unit="D") if isinstance(place, np.datetime64) else f"{place:g}"
