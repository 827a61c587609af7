"""Maps of errors, skill and single forecasts, in any projection (see `projection`).

Functions return matplotlib figures that are filled by their maps; titles, degrees and colour bars are outside the
figure, and `images.render` includes them with a tight box.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import cmocean
import numpy as np
import shapely
import xarray as xr
from matplotlib.collections import QuadMesh
from matplotlib.colors import BoundaryNorm, Colormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from sstcast.errors import SSTCastError
from sstcast.geo import Box
from sstcast.pages.projection import DEFAULT_PROJECTION, View, edges

Kind = Literal["error", "difference", "skill", "temperature", "probability"]

# Colour-blind readers can read both diverging colour maps, and skill never looks like warm and cold. The dark ends
# are cut off, because black for much too warm looks the same as black for much too cold.
COLOURS: dict[Kind, Colormap] = {
    "error": cmocean.cm.amp,
    "difference": cmocean.tools.crop_by_percent(cmocean.cm.balance, 12, which="both"),
    "skill": cmocean.tools.crop_by_percent(cmocean.cm.delta, 12, which="both"),
    "temperature": cmocean.cm.thermal,
    "probability": cmocean.cm.matter,
}
SMALLEST_RANGE = 0.01  # the resolution of OISST in degC: finer differences get no colour
NO_DATA: dict[str, Any] = {
    "facecolor": "white",
    "edgecolor": "0.7",
    "hatch": "....",
    "linewidth": 0.0,
}  # no pale colour is free
HATCH: dict[str, Any] = {"facecolor": "none", "edgecolor": "0.2", "hatch": "/////", "linewidth": 0.0}
HATCH_WIDTH = 0.6  # points
GAP_X, GAP_Y = 0.4, 0.45  # inches between panels, enough for degree labels and titles
NARROW_PANEL, WIDE_PANEL = 1.5, 3.2  # smallest width in inches of a narrow and a wide map
WIDE = 0.6  # a map is wide if height / width is at most this


class Room(NamedTuple):
    """The space for the panels of a figure, in inches."""

    width: float
    height: float


SLIDE = Room(12.0, 6.0)
TALL = Room(13.0, 8.5)
PHONE = Room(3.6, 8.0)


def draw_weeks(
    field: xr.DataArray,
    *,
    label: str,
    kind: Literal["error", "difference", "skill"],
    hatched: xr.DataArray | None = None,
    hatch_label: str = "",
    title: str = "",
    credit: str = "",
    projection: str = DEFAULT_PROJECTION,
    room: Room = SLIDE,
) -> Figure:
    """Draw `field(week, lat, lon)` as one map per week with one colour bar.

    `kind` selects the colours: `error` from 0 upwards, `difference` symmetric about 0, `skill`
    (1 - MSE / MSE of the reference) symmetric about 0 and within -1..1. The outermost 2 % of values are ignored
    for the range; arrows on the colour bar show that values exceed it. Cells where the mask `hatched(week, lat,
    lon)` is true are hatched, with `hatch_label` in the legend. `label`, with units, is the label of the colour
    bar; `credit` is printed small at the bottom.

    Raises SSTCastError if no cell has a value, or the projection is unknown or does not show the box.
    """
    view = View(Box.of(field), projection)
    panels = {f"Week {week}": field.sel(week=week) for week in field["week"].values}
    figure, meshes = draw_panels(panels, view, label=label, kind=kind, room=room)
    legend = []
    if hatched is not None and bool(hatched.any()):
        for mesh, week in zip(meshes, field["week"].values, strict=True):
            _hatch(mesh.axes, view, hatched.sel(week=week))
        legend.append(Patch(**HATCH, label=hatch_label))
    if bool((field.isnull().all("week") & ~view.is_land(field)).any()):
        legend.append(Patch(**NO_DATA, label="no data"))
    _finish(figure, title=(title, 0.45), credit=(credit, 1.75 if legend else 1.4), legend=(legend, 1.25))
    return figure


def draw_panels(
    panels: Mapping[str, xr.DataArray],
    view: View,
    *,
    label: str,
    kind: Kind,
    room: Room,
    values: NDArray[Any] | None = None,
) -> tuple[Figure, list[QuadMesh]]:
    """Draw fields `(lat, lon)` side by side, each with its name as title, with one colour bar.

    The colour range fits `values`, or the fields themselves. Returns the figure and the artist of each field.
    Raises SSTCastError if all values are missing.
    """
    norm = colour_norm(np.stack(list(panels.values())) if values is None else values, kind)
    count = len(panels)
    columns = max(range(1, count + 1), key=lambda n: _panel_width(view, -(-count // n), n, room))
    figure, axes = _panels(view, -(-count // columns), columns, room)
    meshes = []
    for panel, ((name, field), ax) in enumerate(zip(panels.items(), axes.flat, strict=False)):
        meshes.append(_draw(ax, view, field, norm, kind))
        _label(ax, view, left=panel % columns == 0, bottom=panel + columns >= count)
        ax.set_title(name)
    for ax in axes.flat[count:]:
        ax.remove()
    _bar_below(figure, meshes[0], label)
    return figure, meshes


def draw_forecast(
    forecast: xr.DataArray,
    truth: xr.DataArray,
    *,
    label: str = "Sea surface temperature (°C)",
    kind: Literal["temperature", "difference"] = "temperature",
    title: str = "",
    credit: str = "",
    projection: str = DEFAULT_PROJECTION,
    room: Room = TALL,
) -> Figure:
    """Draw one forecast, the observation and their difference.

    `forecast` and `truth` are `(lead, lat, lon)` in degC on the same grid, lead in days, with the coordinate
    `valid_time(lead)`; for anomalies, `kind` is `difference`. Columns are the last days of the lead weeks and the
    last day of the horizon, or only the last of these if `room` is narrow.

    Raises SSTCastError if forecast or difference have no values, or the projection is unknown or does not show the
    box; ValueError if the grids differ.
    """
    xr.align(forecast, truth, join="exact")
    view, leads = View(Box.of(forecast), projection), forecast["lead"].values
    ends = [int(day) for day in leads if day % 7 == 0 or day == leads[-1]]
    days = ends[-int(room.width / (NARROW_PANEL if view.shape > WIDE else WIDE_PANEL)) :]
    forecast, truth = forecast.sel(lead=days), truth.sel(lead=days)
    difference = forecast - truth
    warmth = colour_norm(np.stack([forecast.values, truth.values]), kind)
    error = colour_norm(difference.values, "difference")

    figure, axes = _panels(view, 3, len(days), room)
    for column, day in enumerate(days):
        valid = np.datetime_as_string(forecast["valid_time"].values[column], unit="D")
        axes[0, column].set_title(f"Day {day}\n{valid}")
        warm = _draw(axes[0, column], view, forecast.sel(lead=day), warmth, kind)
        _draw(axes[1, column], view, truth.sel(lead=day), warmth, kind)
        wrong = _draw(axes[2, column], view, difference.sel(lead=day), error, "difference")
        for row in range(3):
            _label(axes[row, column], view, left=column == 0, bottom=row == 2)
    for ax, name in zip(axes[:, 0], ("Forecast", "Observed", "Difference"), strict=True):
        across = -0.55 / _inches(ax)[0]
        ax.text(across, 0.5, name, size="large", rotation=90, ha="right", va="center", transform=ax.transAxes)
    _bar_beside(figure, axes[:2, -1], warm, label)
    _bar_beside(figure, axes[2:, -1], wrong, "Forecast −\nobserved (°C)")
    _finish(figure, title=(title, 0.65), credit=(credit, 0.5))
    return figure


def colour_norm(values: NDArray[Any], kind: Kind) -> BoundaryNorm:
    """Choose round colour levels that cover all but the outermost 2 % of `values`."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        raise SSTCastError("nothing to draw: every cell is empty; choose another --region, or check data.region")
    if kind == "probability":
        return BoundaryNorm(np.linspace(0, 1, 11), COLOURS[kind].N)
    if kind == "temperature":
        low, high = np.percentile(finite, [1, 99])
        levels = _levels(low, max(high, low + SMALLEST_RANGE), 16)
    else:
        high = max(np.percentile(np.abs(finite), 98), SMALLEST_RANGE)
        levels = _levels(0, min(high, 1) if kind == "skill" else high, 12 if kind == "error" else 6)
    diverging = kind in ("difference", "skill")
    if diverging:
        levels = np.concatenate([-levels[:0:-1], levels])
    below, above = bool(finite.min() < levels[0]), bool(finite.max() > levels[-1])
    if diverging:  # a single arrow would shift the colour of zero
        below = above = below or above
    extend: Any = ("neither", "max", "min", "both")[2 * below + above]
    return BoundaryNorm(levels, COLOURS[kind].N, extend=extend)


def _levels(low: float, high: float, most: int) -> NDArray[Any]:
    return np.asarray(MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high))


def _draw(ax: Any, view: View, field: xr.DataArray, norm: BoundaryNorm, kind: Kind) -> QuadMesh:
    """Draw `field(lat, lon)` over the land, and the coast over both; empty cells are transparent."""
    field = field.transpose("lat", "lon")
    x, y = view.x(edges(field["lon"].values)), edges(field["lat"].values)
    ax.patch.set(**NO_DATA)
    view.prepare(ax)
    mesh: QuadMesh = ax.pcolormesh(
        x, y, field.values, cmap=COLOURS[kind], norm=norm, zorder=1, transform=view.degrees
    )
    return mesh


def _hatch(ax: Any, view: View, cells: xr.DataArray) -> None:
    """Hatch the true cells of `cells(lat, lon)`."""
    cells = cells.transpose("lat", "lon")
    x, y = view.x(edges(cells["lon"].values)), edges(cells["lat"].values)
    row, column = np.nonzero(cells.values)
    if row.size:
        area = shapely.union_all(shapely.box(x[column], y[row], x[column + 1], y[row + 1]))
        artist = ax.add_geometries([area], crs=view.degrees, zorder=1.5, **HATCH)
        artist.set_hatch_linewidth(HATCH_WIDTH)


def _label(ax: Any, view: View, *, left: bool, bottom: bool) -> None:
    view.label(ax, left=left, bottom=bottom, width=_inches(ax)[0])


def _inches(ax: Any) -> NDArray[Any]:
    """Return width and height of the map in inches."""
    return np.asarray(ax.get_position().size * ax.figure.get_size_inches())


def _panel_width(view: View, rows: int, columns: int, room: Room) -> float:
    """Return the width in inches at which `rows` x `columns` maps fill `room`."""
    return min((room.width + GAP_X) / columns - GAP_X, ((room.height + GAP_Y) / rows - GAP_Y) / view.shape)


def _panels(view: View, rows: int, columns: int, room: Room) -> tuple[Figure, NDArray[Any]]:
    """Return a figure that the maps fill to its edges."""
    width = _panel_width(view, rows, columns, room)
    height = width * view.shape
    size = (columns * (width + GAP_X) - GAP_X, rows * (height + GAP_Y) - GAP_Y)
    grid = {"left": 0, "right": 1, "bottom": 0, "top": 1, "wspace": GAP_X / width, "hspace": GAP_Y / height}
    figure = Figure(figsize=size, dpi=150)
    projection = {"projection": view.projection}
    return figure, figure.subplots(rows, columns, squeeze=False, subplot_kw=projection, gridspec_kw=grid)


def _bar_below(figure: Figure, mesh: QuadMesh, label: str) -> None:
    """Add a colour bar below all maps."""
    width, height = figure.get_size_inches()
    share = 0.7 if width > 6 else 0.96
    bar = figure.add_axes(((1 - share) / 2, -0.7 / height, share, 0.2 / height))
    ticks = _bar_ticks(mesh, share * width / 0.5)
    figure.colorbar(mesh, cax=bar, label=label, orientation="horizontal", ticks=ticks)


def _bar_beside(figure: Figure, column: NDArray[Any], mesh: QuadMesh, label: str) -> None:
    """Add a colour bar to the right of the maps in `column`, with the same height."""
    bottom, top = column[-1].get_position().y0, column[0].get_position().y1
    width, height = figure.get_size_inches()
    bar = figure.add_axes((1 + 0.25 / width, bottom, 0.2 / width, top - bottom))
    ticks = _bar_ticks(mesh, (top - bottom) * height / 0.2)
    figure.colorbar(mesh, cax=bar, label=label, ticks=ticks).ax.tick_params(labelsize="small")


def _bar_ticks(mesh: QuadMesh, most: float) -> NDArray[Any]:
    """Return every nth colour level, including 0, so that there are about `most`."""
    assert isinstance(mesh.norm, BoundaryNorm)
    levels = np.asarray(mesh.norm.boundaries)
    step = int(np.ceil(len(levels) / most))
    return levels[int(np.abs(levels).argmin()) % step :: step]


def _finish(
    figure: Figure,
    *,
    title: tuple[str, float],
    credit: tuple[str, float],
    legend: tuple[Sequence[Patch], float] = ((), 0),
) -> None:
    """Print title, credit and legend at fixed distances in inches above or below the maps."""
    height = figure.get_size_inches()[1]
    if title[0]:
        figure.text(0.5, 1 + title[1] / height, title[0], fontsize="x-large", ha="center", va="bottom")
    if credit[0]:
        figure.text(1, -credit[1] / height, credit[0], fontsize="x-small", color="0.35", ha="right", va="top")
    if legend[0]:
        where = (0.5, -legend[1] / height)
        figure.legend(handles=legend[0], loc="upper center", bbox_to_anchor=where, ncols=2, frameon=False)
