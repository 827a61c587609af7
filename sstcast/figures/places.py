"""Places on a forecast page and in a report: their outlines, a small curve of each, and their scores."""

import json
from typing import Any, NamedTuple

import cartopy.crs as ccrs
import numpy as np
import shapely
import xarray as xr
from cartopy.mpl.geoaxes import GeoAxes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sstcast.errors import shorten
from sstcast.forecasting.places_told import ToldPlace, told_days, told_places
from sstcast.geo import Box
from sstcast.places.places import OUTLINES, Places

CURVE_WIDTH, CURVE_HEIGHT = 150, 40  # of a curve, in units of its drawing
CURVE_MARGIN = 2
MOST_NAMED, LONGEST_LABEL = 20, 30  # places with their names on a map, and characters of a name
STYLE: dict[str, Any] = {"facecolor": "none", "edgecolor": "black", "linewidth": 1.2, "zorder": 2.5}


class Row(NamedTuple):
    """A place on a page: its name, its curve as SVG, what is said of it, and its forecast on some days."""

    name: str
    curve: str
    statements: list[str]
    cells: list[str]


def places_of(forecast: xr.Dataset) -> Places | None:
    """Return the places of a forecast, or None if it has none."""
    text = forecast.attrs.get(OUTLINES)
    return None if text is None or "place_sst" not in forecast else Places.from_geojson(text)


def rows_of(forecast: xr.Dataset) -> tuple[list[str], list[Row]]:
    """Return the table of places of a forecast from one day: the headings of days, and a row for each place."""
    days, rows = told_days(forecast["lead"].values.astype(int).tolist()), []
    for place in told_places(forecast):
        is_whole = bool(np.isfinite(place.values["sst"]).all())
        cells = [place.on(day) for day in days] if is_whole else [""] * len(days)
        rows.append(Row(place.name, _curve(place) if is_whole else "", place.statements, cells))
    return [f"on day {day}" for day in days], rows


def _curve(place: ToldPlace) -> str:
    """Draw the mean, the 80 % interval and the threshold of a place by lead."""
    fields = place.values
    mean, (low, high) = fields["sst"], fields["sst_quantile"]
    threshold = fields.get("threshold", np.full_like(mean, np.nan))
    shown = np.concatenate([low, high, threshold[np.isfinite(threshold)]])
    bottom, top = float(shown.min()), float(shown.max())

    def points(values: NDArray[Any]) -> list[str]:
        x = CURVE_MARGIN + np.arange(len(values)) * (CURVE_WIDTH - 2 * CURVE_MARGIN) / max(1, len(values) - 1)
        y = (
            CURVE_HEIGHT
            - CURVE_MARGIN
            - (values - bottom) / max(top - bottom, 0.01) * (CURVE_HEIGHT - 2 * CURVE_MARGIN)
        )
        return [f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True) if np.isfinite(b)]

    band = " ".join(points(low) + points(high)[::-1])
    label = f"Mean from {mean[0]:z.1f} to {mean[-1]:z.1f} °C, with its 80 % interval"
    return (
        f'<svg viewBox="0 0 {CURVE_WIDTH} {CURVE_HEIGHT}" width="{CURVE_WIDTH}" height="{CURVE_HEIGHT}" '
        f'role="img" aria-label="{label}">'
        f'<polygon points="{band}" fill="var(--forecast)" opacity=".3"/>'
        f'<polyline points="{" ".join(points(threshold))}" fill="none" stroke="#d55e00" stroke-dasharray="4 2"/>'
        f'<polyline points="{" ".join(points(mean))}" fill="none" stroke="var(--forecast)" stroke-width="2"/>'
        "</svg>"
    )


def outlines(places: Places, box: Box) -> dict[str, list[Any]]:
    """Return the outlines `x` and `y` of areas, and small crosses at points, in the longitudes of a box."""
    size = (box.north - box.south) / 100
    columns: dict[str, list[Any]] = {"x": [], "y": []}
    for place in places.places:
        if place.is_point:
            lines = [np.array([[-size, 0], [size, 0]]), np.array([[0, -size], [0, size]])]
            rings = [np.add(line, [place.lon, place.lat]) for line in lines]
        else:
            polygons = shapely.get_parts(place.geometry)
            rings = [
                np.array(ring.coords) for polygon in polygons for ring in (polygon.exterior, *polygon.interiors)
            ]
        for ring in rings:
            middle = (ring[:, 0].min() + ring[:, 0].max()) / 2
            shift = box.eastward(middle, near=(360 - box.width) / 2) - middle
            columns["x"].append((ring[:, 0] + shift).round(4).tolist())
            columns["y"].append(ring[:, 1].round(4).tolist())
    return columns


def labels(places: Places, box: Box) -> dict[str, list[Any]]:
    """Return `x` and `y` in the longitudes of a box, and the `name`, of the first `MOST_NAMED` places in it."""
    inside = [place for place in places.places if box.contains(place.lat, float(box.eastward(place.lon)))]
    named = inside[:MOST_NAMED]
    return {
        "x": [round(float(box.eastward(place.lon)), 4) for place in named],
        "y": [round(place.lat, 4) for place in named],
        "name": [shorten(place.name, LONGEST_LABEL) for place in named],
    }


def draw_outlines(figure: Figure, metrics: dict[str, Any]) -> None:
    """Draw the outlines of the places that were scored on all maps of a figure."""
    if OUTLINES not in metrics:
        return
    places = Places.from_geojson(json.dumps(metrics[OUTLINES]))
    west, south, east, north = shapely.total_bounds([place.geometry for place in places.places])
    margin = min(1, (360 - (east - west)) / 2)
    box = Box(west - margin, east + margin, south - 1, north + 1)
    drawn = outlines(places, box)
    lines = [
        shapely.LineString(np.column_stack([np.subtract(x, box.centre), y]))
        for x, y in zip(drawn["x"], drawn["y"], strict=True)
    ]
    degrees = ccrs.PlateCarree(central_longitude=(box.centre + 180) % 360 - 180)
    for ax in figure.axes:
        if isinstance(ax, GeoAxes):
            ax.add_geometries(lines, crs=degrees, **STYLE)
