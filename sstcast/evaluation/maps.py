"""Maps of errors, skill and single forecasts, as PNG files.

Everything is drawn in one equirectangular projection centred on the region, true to scale at its middle
latitude. Fields are placed by their distance in degrees from the central longitude, so a box may span the
date line or Greenwich. Land is Natural Earth 1:50m as it ships with sstcast: nothing is downloaded.
"""

import gzip
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import cmocean
import numpy as np
import shapely
import xarray as xr
from cartopy.crs import PlateCarree
from cartopy.mpl.ticker import LatitudeFormatter, LongitudeFormatter
from matplotlib.collections import QuadMesh
from matplotlib.colors import BoundaryNorm, Colormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from sstcast.errors import SSTCastError
from sstcast.files import atomic, packaged

Kind = Literal["error", "difference", "skill", "temperature"]

# Both diverging maps stay legible to colour-blind readers, and skill never looks like warm and cold. Their
# ends are cut off, because black for much too warm cannot be told from black for much too cold.
COLOURS: dict[Kind, Colormap] = {
    "error": cmocean.cm.amp,
    "difference": cmocean.tools.crop_by_percent(cmocean.cm.balance, 12, which="both"),
    "skill": cmocean.tools.crop_by_percent(cmocean.cm.delta, 12, which="both"),
    "temperature": cmocean.cm.thermal,
}
SMALLEST_RANGE = 0.01  # the resolution of OISST in degC: nothing finer is worth a colour
LAND, HATCH, COAST = "0.62", "0.7", "0.15"  # greys; sea without data is hatched, as no pale colour is free
SLIDE = (12.0, 6.0)  # inches that the panels of `draw_weeks` may fill
TALL = (13.0, 8.5)  # the same for the three rows of `draw_forecast`
GAP_X, GAP_Y = 0.4, 0.4  # inches between panels, enough for degree labels and titles


class Box(NamedTuple):
    """The outer cell edges of a field, in degrees; longitudes run eastward and may exceed 360."""

    west: float
    east: float
    south: float
    north: float

    @property
    def centre(self) -> float:
        """The central longitude."""
        return (self.west + self.east) / 2

    @property
    def stretch(self) -> float:
        """Length of a degree of latitude over that of a degree of longitude, at the middle latitude."""
        return float(1 / np.cos(np.radians((self.south + self.north) / 2)))

    @property
    def shape(self) -> float:
        """Height of the map over its width."""
        return self.stretch * (self.north - self.south) / (self.east - self.west)


def by_week(by_lead: xr.DataArray) -> xr.DataArray:
    """Average `by_lead(lead, ...)`, lead = 1..h days, over each lead week, week = 1..ceil(h / 7).

    A last week cut short by the horizon is the mean of its days. A NaN on any day gives NaN.
    """
    week = ((by_lead["lead"] - 1) // 7 + 1).rename("week")
    return by_lead.groupby(week).mean(skipna=False)


def draw_weeks(
    field: xr.DataArray,
    path: Path,
    *,
    title: str,
    label: str,
    kind: Literal["error", "difference", "skill"],
    credit: str = "",
) -> None:
    """Draw `field(week, lat, lon)` as one map a week with one colour bar, and write it to `path` as PNG.

    `kind` chooses the colours: `error` from 0 upwards, `difference` symmetric about 0, `skill`
    (1 - MSE / MSE of the reference) symmetric about 0 and never beyond -1..1. The outermost 2 % of values
    do not stretch them; arrows on the colour bar say where values lie outside. `label`, with units, names
    the colour bar; `credit` is printed small at the bottom.

    Raises SSTCastError if no cell holds a value.
    """
    box, weeks = _box(field), field["week"].values
    norm = _norm(field.values, kind, path)
    columns = max(range(1, len(weeks) + 1), key=lambda n: _panel_width(box, -(-len(weeks) // n), n, SLIDE))
    figure, axes = _panels(box, -(-len(weeks) // columns), columns, SLIDE)
    for panel, (week, ax) in enumerate(zip(weeks, axes.flat, strict=False)):
        mesh = _draw(ax, field.sel(week=week), norm, kind)
        _label_axes(ax, box, left=panel % columns == 0, bottom=panel + columns >= len(weeks))
        ax.set_title(f"Week {week}")
    for ax in axes.flat[len(weeks) :]:
        ax.remove()
    height = figure.get_size_inches()[1]
    bar = figure.add_axes((0.15, -0.7 / height, 0.7, 0.2 / height))
    figure.colorbar(mesh, cax=bar, label=label, orientation="horizontal")
    _finish(figure, path, title=(title, 0.4), credit=(credit, 1.4))


def draw_forecast(
    forecast: xr.DataArray, truth: xr.DataArray, path: Path, *, title: str, credit: str = ""
) -> None:
    """Draw one forecast, what came true and their difference, and write it to `path` as PNG.

    `forecast` and `truth` are `(lead, lat, lon)` in degC on the same grid, lead in days, with the coordinate
    `valid_time(lead)`. Columns are the last days of the lead weeks and the last day of the horizon.

    Raises SSTCastError if forecast or difference hold no value, ValueError if the grids differ.
    """
    xr.align(forecast, truth, join="exact")
    box = _box(forecast)
    leads = forecast["lead"].values
    days = [int(day) for day in leads if day % 7 == 0 or day == leads[-1]]
    forecast, truth = forecast.sel(lead=days), truth.sel(lead=days)
    difference = forecast - truth
    warmth = _norm(np.stack([forecast.values, truth.values]), "temperature", path)
    error = _norm(difference.values, "difference", path)

    figure, axes = _panels(box, 3, len(days), TALL)
    for column, day in enumerate(days):
        valid = np.datetime_as_string(forecast["valid_time"].values[column], unit="D")
        axes[0, column].set_title(f"Day {day}\n{valid}")
        warm = _draw(axes[0, column], forecast.sel(lead=day), warmth, "temperature")
        _draw(axes[1, column], truth.sel(lead=day), warmth, "temperature")
        wrong = _draw(axes[2, column], difference.sel(lead=day), error, "difference")
        for row in range(3):
            _label_axes(axes[row, column], box, left=column == 0, bottom=row == 2)
    for ax, name in zip(axes[:, 0], ("Forecast", "Observed", "Difference"), strict=True):
        ax.set_ylabel(name, fontsize="large")
    _bar_beside(figure, axes[:2, -1], warm, "Sea surface temperature (°C)")
    _bar_beside(figure, axes[2:, -1], wrong, "Forecast −\nobserved (°C)")
    _finish(figure, path, title=(title, 0.65), credit=(credit, 0.5))


def _norm(values: NDArray[Any], kind: Kind, path: Path) -> BoundaryNorm:
    """Choose round colour levels that hold all but the outermost 2 % of `values`."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        raise SSTCastError(f"{path}: nothing to draw: every cell is empty; check data.region")
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
    if diverging:  # one arrow alone would shift the colour of zero
        below = above = below or above
    extend: Any = ("neither", "max", "min", "both")[2 * below + above]
    return BoundaryNorm(levels, COLOURS[kind].N, extend=extend)


def _levels(low: float, high: float, most: int) -> NDArray[Any]:
    return np.asarray(MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high))


def _draw(ax: Any, field: xr.DataArray, norm: BoundaryNorm, kind: Kind) -> QuadMesh:
    """Draw `field(lat, lon)` over the land and the coast over both; empty cells show what lies below."""
    box, field = _box(field), field.transpose("lat", "lon")
    land = [_land(box)]
    x, y = _edges(field["lon"].values) - box.centre, _edges(field["lat"].values)
    ax.patch.set(facecolor="white", edgecolor=HATCH, hatch="//////")
    ax.add_geometries(land, crs=ax.projection, facecolor=LAND, edgecolor="none", zorder=0.5)
    mesh: QuadMesh = ax.pcolormesh(x, y, field.values, cmap=COLOURS[kind], norm=norm, zorder=1)
    ax.add_geometries(land, crs=ax.projection, facecolor="none", edgecolor=COAST, linewidth=0.8, zorder=2)
    ax.set_xlim(box.west - box.centre, box.east - box.centre)
    ax.set_ylim(box.south, box.north)
    ax.set_aspect(box.stretch)
    return mesh


def _label_axes(ax: Any, box: Box, *, left: bool, bottom: bool) -> None:
    ax.set_xticks(_ticks(box.west, box.east) - box.centre, crs=ax.projection)
    ax.set_yticks(_ticks(box.south, box.north), crs=ax.projection)
    ax.xaxis.set_major_formatter(LongitudeFormatter())
    ax.yaxis.set_major_formatter(LatitudeFormatter())
    ax.tick_params(labelleft=left, labelbottom=bottom, labelsize="small")
    ax.grid(color=COAST, linewidth=0.5, alpha=0.5, linestyle=":", zorder=3)


def _panel_width(box: Box, rows: int, columns: int, room: tuple[float, float]) -> float:
    """Return the width in inches at which `rows` x `columns` maps fill `room`."""
    return min(room[0] / columns, room[1] / rows / box.shape)


def _panels(box: Box, rows: int, columns: int, room: tuple[float, float]) -> tuple[Figure, NDArray[Any]]:
    """Return a figure that the maps fill to its edges; all else is put outside and kept by the tight box."""
    width = _panel_width(box, rows, columns, room)
    height = width * box.shape
    size = (columns * (width + GAP_X) - GAP_X, rows * (height + GAP_Y) - GAP_Y)
    grid = {"left": 0, "right": 1, "bottom": 0, "top": 1, "wspace": GAP_X / width, "hspace": GAP_Y / height}
    figure = Figure(figsize=size, dpi=150)
    projection = {"projection": _projection(box.centre)}
    return figure, figure.subplots(rows, columns, squeeze=False, subplot_kw=projection, gridspec_kw=grid)


def _bar_beside(figure: Figure, column: NDArray[Any], mesh: QuadMesh, label: str) -> None:
    """Add a colour bar on the right of the maps of `column`, as high as they are."""
    bottom, top = column[-1].get_position().y0, column[0].get_position().y1
    width = figure.get_size_inches()[0]
    bar = figure.add_axes((1 + 0.25 / width, bottom, 0.2 / width, top - bottom))
    figure.colorbar(mesh, cax=bar, label=label).ax.tick_params(labelsize="small")


def _finish(figure: Figure, path: Path, *, title: tuple[str, float], credit: tuple[str, float]) -> None:
    """Print title and credit, each so many inches above or below the maps, and write the PNG."""
    height = figure.get_size_inches()[1]
    figure.text(0.5, 1 + title[1] / height, title[0], fontsize="x-large", ha="center", va="bottom")
    figure.text(1, -credit[1] / height, credit[0], fontsize="x-small", color="0.35", ha="right", va="top")
    with atomic(path) as partial:
        figure.savefig(partial, format="png", bbox_inches="tight", pad_inches=0.15)


@cache  # cartopy keeps what it knows of every projection object it ever met
def _projection(centre: float) -> Any:
    return PlateCarree(central_longitude=(centre + 180) % 360 - 180)


@cache
def _world() -> NDArray[Any]:
    """Read the land polygons of the world, longitudes -180..180."""
    with gzip.open(packaged("data/map/ne_50m_land.geojson.gz")) as file:
        features = shapely.from_geojson(file.read())
    return np.asarray(shapely.get_parts(shapely.get_parts(features)))


@cache
def _land(box: Box) -> Any:
    """Return the land within a degree of `box`, in degrees east of its centre and degrees north.

    The union, on a grid of 0.005 degrees, joins what Natural Earth cuts at the date line; the degree keeps
    the edges cut here out of sight.
    """
    window = shapely.box(box.west - box.centre - 1, box.south - 1, box.east - box.centre + 1, box.north + 1)
    pieces = []
    for turn in range(round(box.west / 360) - 1, round(box.east / 360) + 2):
        shift = np.array([360 * turn - box.centre, 0])
        pieces.append(shapely.intersection(shapely.transform(_world(), lambda xy, s=shift: xy + s), window))
    return shapely.union_all(pieces, grid_size=0.005)


def _box(field: xr.DataArray) -> Box:
    lon, lat = _edges(field["lon"].values), _edges(field["lat"].values)
    return Box(float(lon[0]), float(lon[-1]), float(lat[0]), float(lat[-1]))


def _edges(centres: NDArray[Any]) -> NDArray[Any]:
    """Return the n + 1 edges of n >= 2 evenly spaced cells."""
    half = (centres[-1] - centres[0]) / (len(centres) - 1) / 2
    return np.append(centres - half, centres[-1] + half)


def _ticks(start: float, stop: float) -> NDArray[Any]:
    """Return about four round degrees between two of them."""
    step = next(s for s in (0.5, 1, 2, 5, 10, 15, 20, 30, 45, 60, 90) if (stop - start) / s <= 5)
    return np.arange(np.ceil(start / step), np.floor(stop / step) + 1) * step
