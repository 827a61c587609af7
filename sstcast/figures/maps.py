"""Maps of errors, skill and forecasts, in any projection (see `projection`)."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import shapely
import xarray as xr
from matplotlib.collections import QuadMesh
from matplotlib.colorbar import Colorbar
from matplotlib.colors import BoundaryNorm, Colormap, ListedColormap
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from sstcast.config import parse_box
from sstcast.errors import SSTCastError
from sstcast.extremes.heatwaves import CATEGORIES
from sstcast.figures.colours import CATEGORY_COLOURS, colour_map
from sstcast.figures.projection import DEFAULT_PROJECTION, View
from sstcast.geo import Box, edges

Kind = Literal["error", "difference", "skill", "temperature", "probability", "count", "category"]

# Colour-blind readers can read both diverging colour maps. Skill has its own map, which does not suggest warm and
# cold.
COLOUR_MAPS: dict[Kind, Colormap] = {
    "error": colour_map("amp"),
    "difference": colour_map("balance"),
    "skill": colour_map("delta"),
    "temperature": colour_map("thermal"),
    "probability": colour_map("matter"),
    "count": colour_map("amp"),
    "category": ListedColormap(CATEGORY_COLOURS),
}
SMALLEST_RANGE = 0.01  # smallest colour range in degC: the resolution of OISST
# Dots mark cells without data, because the colour maps already use all pale colours.
NO_DATA: dict[str, Any] = {"facecolor": "white", "edgecolor": "0.7", "hatch": "....", "linewidth": 0.0}
HATCH: dict[str, Any] = {"facecolor": "none", "edgecolor": "0.2", "hatch": "/////", "linewidth": 0.0}
HATCH_WIDTH = 0.6  # points
GAP = 0.5  # inches around a panel for its title, degree labels and part of the colour bar
TITLE = 12.0  # points of the titles above columns
PAD = 0.12  # inches above and below a panel, because matplotlib underestimates the height of maps with titles
NARROW_PANEL, WIDE_PANEL = 1.5, 3.2  # smallest width in inches of a narrow and a wide map
WIDE_RATIO = 0.6  # largest height / width of a map that counts as wide


class PanelArea(NamedTuple):
    """The area for the panels of a figure, in inches."""

    width: float
    height: float


SLIDE = PanelArea(12.0, 6.0)
TALL = PanelArea(13.0, 8.5)
PHONE = PanelArea(3.6, 8.0)


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
    area: PanelArea = SLIDE,
) -> Figure:
    """Draw one map per week, with a shared colour bar.

    The outermost 2 % of values do not affect the colour range. Arrows on the colour bar show that values exceed
    it.

    Args:
        field: values `(week, lat, lon)`.
        label: the label of the colour bar, with units.
        kind: the colour range: `error` starts at 0, `difference` is symmetric about 0, and `skill` (1 - MSE / MSE
            of the reference) is symmetric about 0 and within -1..1.
        hatched: mask `(week, lat, lon)` of cells to hatch.
        hatch_label: the meaning of the hatching, for the legend.
        title: the title of the figure.
        credit: a line in small print at the bottom.
        projection: the name of a cartopy projection.
        area: the area for the panels.

    Raises:
        SSTCastError: no cell has a value, or the projection is unknown or does not show the box.
    """
    panels = {f"Week {week}": field.sel(week=week) for week in field["week"].values}
    masks = [] if hatched is None else [hatched.sel(week=week) for week in field["week"].values]
    options: Any = {"label": label, "kind": kind, "title": title, "credit": credit, "area": area}
    return draw_hatched(panels, masks, hatch_label, projection=projection, **options)


def draw_hatched(
    panels: Mapping[str, xr.DataArray],
    masks: Sequence[xr.DataArray] = (),
    hatch_label: str = "",
    *,
    label: str,
    kind: Kind,
    title: str = "",
    credit: str = "",
    projection: str = DEFAULT_PROJECTION,
    area: PanelArea = SLIDE,
) -> Figure:
    """Draw fields `(lat, lon)` of the same cells in panels titled with their names, otherwise as `draw_weeks`.

    Cells are hatched where the mask `(lat, lon)` of a panel is true.
    """
    fields = list(panels.values())
    view = View(Box.of(fields[0]), projection)
    figure, meshes = draw_panels(panels, view, label=label, kind=kind, area=area)
    legend = []
    if any(bool(mask.any()) for mask in masks):
        for mesh, mask in zip(meshes, masks, strict=True):
            _hatch(mesh.axes, view, mask)
        legend.append(Patch(**HATCH, label=hatch_label))
    empty = np.isnan([field.transpose("lat", "lon").values for field in fields]).all(0)
    if (empty & ~view.is_land(fields[0])).any():
        legend.append(Patch(**NO_DATA, label="no data"))
    _frame(figure, title, credit, legend)
    return figure


def draw_panels(
    panels: Mapping[str, xr.DataArray],
    view: View,
    *,
    label: str,
    kind: Kind,
    area: PanelArea,
    values: NDArray[Any] | None = None,
) -> tuple[Figure, list[QuadMesh]]:
    """Draw fields `(lat, lon)` in panels titled with their names, with a shared colour bar.

    The colour range covers `values`, by default the fields. Returns the figure and the artist of each field.
    Raises SSTCastError if all values are missing.
    """
    norm = colour_norm(np.stack(list(panels.values())) if values is None else values, kind)
    count = len(panels)
    columns = max(range(1, count + 1), key=lambda n: _panel_width(view, -(-count // n), n, area))
    figure, axes, width = _panels(view, -(-count // columns), columns, area)
    meshes = []
    for panel, ((name, field), ax) in enumerate(zip(panels.items(), axes.flat, strict=False)):
        meshes.append(_draw(ax, view, field, norm, kind))
        view.label(ax, left=panel % columns == 0, bottom=panel + columns >= count, width=width)
        ax.set_title(name)
    for ax in axes.flat[count:]:
        ax.remove()
    bar = _bar(figure, meshes[0], list(axes.flat[:count]), label, "bottom")
    if kind == "category":
        bar.set_ticks(range(len(CATEGORIES)), labels=CATEGORIES)
    return figure, meshes


def draw_forecast(
    forecast: xr.DataArray,
    truth: xr.DataArray,
    *,
    label: str = "Sea surface temperature (°C)",
    kind: Literal["temperature", "difference"] = "temperature",
    names: tuple[str, str, str] = ("Forecast", "Observed", "Difference"),
    difference_label: str = "Forecast −\nobserved (°C)",
    title: str = "",
    credit: str = "",
    projection: str = DEFAULT_PROJECTION,
    area: PanelArea = TALL,
) -> Figure:
    """Draw a forecast, the observations (or another forecast) and their difference.

    The columns are the last days of the lead weeks and the last lead. If `area` is narrow, only the last of these
    are drawn.

    Args:
        forecast: fields `(lead, lat, lon)` in degC, with leads in days and the coordinate `valid_time(lead)`.
        truth: the observations on the same days and grid.
        label: the label of the colour bar, with units.
        kind: `temperature`, or `difference` for anomalies.
        names: the names of the three rows.
        difference_label: the label of the colour bar of the differences.
        title: the title above all maps.
        credit: a line below all maps, which names the source of the data.
        projection: the name of a projection of cartopy.
        area: the largest width and height of all maps, in inches.

    Raises:
        SSTCastError: forecast or difference have no values, or the projection is unknown or does not show the box.
        ValueError: the grids differ.
    """
    xr.align(forecast, truth, join="exact")
    view, leads = View(Box.of(forecast), projection), forecast["lead"].values
    ends = [int(day) for day in leads if day % 7 == 0 or day == leads[-1]]
    days = ends[-int(area.width / (NARROW_PANEL if view.shape > WIDE_RATIO else WIDE_PANEL)) :]
    forecast, truth = forecast.sel(lead=days), truth.sel(lead=days)
    warmth = colour_norm(np.stack([forecast.values, truth.values]), kind)
    error = colour_norm((forecast - truth).values, "difference")
    fields: tuple[tuple[xr.DataArray, BoundaryNorm, Kind], ...] = (
        (forecast, warmth, kind),
        (truth, warmth, kind),
        (forecast - truth, error, "difference"),
    )
    rows = dict(zip(names, fields, strict=True))
    figure, axes, width = _panels(view, 3, len(days), area)
    meshes = []
    for row, (name, (values, norm, colours)) in enumerate(rows.items()):
        for column, day in enumerate(days):
            ax = axes[row, column]
            meshes.append(_draw(ax, view, values.sel(lead=day), norm, colours))
            view.label(ax, left=column == 0, bottom=row == 2, width=width)
        style = {"xytext": (-42, 0), "textcoords": "offset points", "rotation": 90, "ha": "right", "va": "center"}
        axes[row, 0].annotate(name, (0, 0.5), xycoords="axes fraction", size="large", **style)
    for ax, day, valid in zip(axes[0], days, forecast["valid_time"].values, strict=True):
        # A date has ten characters of 0.65 of the font's size: titles of narrow maps must not overlap.
        size = min(TITLE, 72 * width / (10 * 0.65))
        ax.set_title(f"Day {day}\n{np.datetime_as_string(valid, unit='D')}", fontsize=size)
    _bar(figure, meshes[0], list(axes[:2].flat), label, "right")
    _bar(figure, meshes[-1], list(axes[2]), difference_label, "right")
    _frame(figure, title, credit)
    return figure


def select_region(fields: xr.Dataset, region: str | None) -> xr.Dataset:
    """Select the cells of `fields(..., lat, lon)` with centres in `region`.

    Longitudes increase eastwards from the west edge of the region. Raises SSTCastError if there are fewer than two
    rows or columns.
    """
    if region is None:
        return fields
    box = parse_box(region)
    inside = box.contains(fields["lat"], fields["lon"])
    rows, columns = inside.any("lon"), inside.any("lat")
    if min(int(rows.sum()), int(columns.sum())) < 2:
        raise SSTCastError(
            f"--region {region}: contains fewer than two rows or columns of the cells, which cover "
            f"{Box.of(fields)}; make it larger or leave it out"
        )
    cells = fields.assign_coords(lon=box.eastward(fields["lon"]))
    cells = cells.isel(lat=rows.values, lon=columns.values).sortby("lon")
    step = float(fields["lon"][1] - fields["lon"][0])
    lon = cells["lon"].values
    full_lon = np.arange(lon[0], lon[-1] + step / 2, step)  # the box may have a gap
    return cells.reindex(lon=full_lon, method="nearest", tolerance=step / 4)


def colour_norm(values: NDArray[Any], kind: Kind) -> BoundaryNorm:
    """Choose round colour levels that cover `values` except the outermost 2 %."""
    if kind == "probability":
        return BoundaryNorm(np.linspace(0, 1, 11), COLOUR_MAPS[kind].N)
    if kind == "category":
        return BoundaryNorm(np.arange(len(CATEGORIES) + 1) - 0.5, len(CATEGORIES))
    finite = values[np.isfinite(values)]
    if not finite.size:
        raise SSTCastError("nothing to draw: all cells are empty; choose another --region, or check data.region")
    if kind == "count":  # a colour for each number from 0
        return BoundaryNorm(np.arange(finite.max() + 2) - 0.5, COLOUR_MAPS[kind].N)
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
    return BoundaryNorm(levels, COLOUR_MAPS[kind].N, extend=extend)


def ticks_of(norm: BoundaryNorm, most: int = 9) -> NDArray[Any]:
    """Return at most `most` evenly spaced colour levels, including 0 if it is one of the levels.

    Those of counts are the numbers between the levels.
    """
    levels = np.asarray(norm.boundaries)
    if levels[0] == -0.5 and levels[1] == 0.5:  # only of counts
        levels = levels[:-1] + 0.5
    step = -(-len(levels) // most)
    return levels[int(np.abs(levels).argmin()) % step :: step]


def _levels(low: float, high: float, most: int) -> NDArray[Any]:
    return np.asarray(MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high))


def _draw(ax: Any, view: View, field: xr.DataArray, norm: BoundaryNorm, kind: Kind) -> QuadMesh:
    """Draw `field(lat, lon)` above the land and below the coastline. Empty cells are transparent."""
    field = field.transpose("lat", "lon")
    x, y = view.x(edges(field["lon"].values)), edges(field["lat"])
    ax.patch.set(**NO_DATA)
    view.prepare(ax)
    mesh: QuadMesh = ax.pcolormesh(
        x, y, field.values, cmap=COLOUR_MAPS[kind], norm=norm, zorder=1, transform=view.degrees
    )
    return mesh


def _hatch(ax: Any, view: View, cells: xr.DataArray) -> None:
    """Hatch the cells where `cells(lat, lon)` is true."""
    cells = cells.transpose("lat", "lon")
    x, y = view.x(edges(cells["lon"].values)), edges(cells["lat"])
    row, column = np.nonzero(cells.values)
    if row.size:
        area = shapely.union_all(shapely.box(x[column], y[row], x[column + 1], y[row + 1]))
        artist = ax.add_geometries([area], crs=view.degrees, zorder=1.5, **HATCH)
        artist.set_hatch_linewidth(HATCH_WIDTH)


def _panel_width(view: View, rows: int, columns: int, area: PanelArea) -> float:
    """Return the width in inches at which `rows` x `columns` maps fill `area`."""
    return min(area.width / columns - GAP, (area.height / rows - GAP) / view.shape)


def _panels(view: View, rows: int, columns: int, area: PanelArea) -> tuple[Figure, NDArray[Any], float]:
    """Return a figure of maps, its axes `[rows, columns]`, and the width of a map in inches."""
    width = _panel_width(view, rows, columns, area)
    size = (columns * (width + GAP) + 2 * GAP, rows * (width * view.shape + GAP) + 3.5 * GAP)
    figure = Figure(figsize=size, dpi=150, layout=ConstrainedLayoutEngine(compress=True, h_pad=PAD))
    return figure, figure.subplots(rows, columns, squeeze=False, subplot_kw={"projection": view.projection}), width


def _bar(
    figure: Figure, mesh: QuadMesh, axes: Sequence[Any], label: str, side: Literal["bottom", "right"]
) -> Colorbar:
    """Add a colour bar at one side of some maps."""
    assert isinstance(mesh.norm, BoundaryNorm)
    ticks = ticks_of(mesh.norm, 5 if side == "bottom" and _is_narrow(figure) else 9)
    return figure.colorbar(mesh, ax=axes, location=side, label=label, ticks=ticks, fraction=0.04, aspect=40)


def _is_narrow(figure: Figure) -> bool:
    return bool(figure.get_size_inches()[0] < 6)


def _frame(figure: Figure, title: str, credit: str, legend: Sequence[Patch] = ()) -> None:
    """Print a title above the maps, and a legend and the credit below them."""
    if title:
        figure.suptitle(title, fontsize="x-large")
    if legend or credit:
        below: Any = {"loc": "outside lower center", "ncols": 1 if _is_narrow(figure) else 2, "frameon": False}
        figure.legend(handles=legend, title=credit, title_fontsize="x-small", **below)
