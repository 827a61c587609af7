"""The Bokeh plots of a forecast page. They are empty. `page.js` adds the data and the colours of dark mode."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import shapely
import xarray as xr
from bokeh.embed import json_item
from bokeh.models import (
    BoxAnnotation,
    ColorBar,
    ColumnDataSource,
    DatetimeTickFormatter,
    FixedTicker,
    LinearColorMapper,
    Span,
)
from bokeh.plotting import figure
from matplotlib.colors import to_hex

from sstcast.figures.curves import MODEL_COLOUR, THRESHOLD_COLOUR
from sstcast.figures.places import labels, outlines
from sstcast.figures.projection import COAST, LAND, land_in
from sstcast.geo import Box, edges, evenly_spaced
from sstcast.places.places import Places

MOST_ROWS = 4000  # of an image
FINEST = 1500  # the coast is simplified to one part in this of the width of the map
HEAT = "#E69F00"  # days above the threshold; page.js sets the colours of lines that have none here
ASKED = "#a25fc0"  # temperatures that a forecast was asked for, readable on light and dark ground
FAN = {"95": 0.18, "80": 0.25, "50": 0.35}  # opacity of each interval (per cent), widest first
_BARE: Any = {"toolbar_location": None, "tools": "", "output_backend": "canvas"}
_LABEL: Any = {"text_color": "black", "text_font_size": "13px", "x_offset": 11, "y_offset": -5}
_TEXT = {"axis_label_text_font_style": "normal", "major_label_text_font_size": "13px"}


def image_rows(lat: xr.DataArray) -> list[int]:
    """Return the row of the grid in each row of an image, whose rows have equal heights.

    If the rows of the grid have not, those of the image are as high as the lowest, or `MOST_ROWS`.
    """
    if evenly_spaced(lat):
        return list(range(len(lat)))
    ends = edges(lat)
    count = min(MOST_ROWS, round((ends[-1] - ends[0]) / np.diff(ends).min()))
    middles = ends[0] + (np.arange(count) + 0.5) * (ends[-1] - ends[0]) / count
    rows: list[int] = (np.searchsorted(ends, middles) - 1).tolist()
    return rows


def map_plot(grid: xr.Dataset, label: str, places: Places | None = None) -> Any:
    """Return the map of an empty field on the cells of `grid`, with places and their names, as Bokeh JSON."""
    box = Box.of(grid)
    plot = figure(x_range=(box.west, box.east), y_range=(box.south, box.north), name="map", **_BARE)
    land = ColumnDataSource(_polygons(box), name="land")
    plot.multi_polygons("x", "y", source=land, fill_color=to_hex(LAND), line_color=None)
    empty = np.full((len(image_rows(grid["lat"])), grid.sizes["lon"]), np.nan, np.float32)
    colours = LinearColorMapper(["#ffffff"], low=0, high=1, nan_color="rgba(0, 0, 0, 0)", name="colours")
    field = ColumnDataSource({"image": [empty]}, name="field")
    corner: Any = {"x": box.west, "y": box.south, "dw": box.east - box.west, "dh": box.north - box.south}
    plot.image("image", source=field, color_mapper=colours, **corner)
    plot.multi_polygons("x", "y", source=land, fill_color=None, line_color=to_hex(COAST), line_width=0.8)
    if places is not None:
        shown = ColumnDataSource(outlines(places, box), name="places")
        for colour, width in (("white", 3.5), ("black", 1.5)):
            plot.multi_line("x", "y", source=shown, line_color=colour, line_width=width)
        names = ColumnDataSource(labels(places, box), name="names")
        for outline in ("white", None):  # the outline would cover the letters
            plot.text("x", "y", "name", source=names, text_outline_color=outline, **_LABEL)
    point = ColumnDataSource({"x": [], "y": []}, name="point")
    for colour, width in (("white", 5), ("black", 2)):
        plot.scatter("x", "y", source=point, size=15, fill_color=None, line_color=colour, line_width=width)
    for axis in (plot.xaxis, plot.yaxis):
        axis.ticker = FixedTicker(ticks=[])
        axis.update(**_TEXT)
    plot.grid.visible = False
    bar = ColorBar(
        color_mapper=colours,
        ticker=FixedTicker(ticks=[]),
        title=label,
        title_text_font_style="normal",
        title_text_font_size="13px",
        major_label_text_font_size="13px",
        height=14,
        name="bar",
    )
    plot.add_layout(bar, "below")
    return json_item(plot)


def series_plot(temperatures: Sequence[float] = ()) -> Any:
    """Return the empty time series of a point, with its fan of intervals, as Bokeh JSON.

    Lines at `temperatures` in degC are seen where they are within its axis.
    """
    shape: Any = {"x_range": (0, 1), "y_range": (0, 1), "sizing_mode": "stretch_width", "height": 300}
    plot = figure(x_axis_type="datetime", name="series", **shape, **_BARE)
    days = ColumnDataSource(dict.fromkeys(("x", "climatology", "threshold"), ()), name="days")
    columns = ("x", "sst", *(f"{side}{share}" for share in FAN for side in ("low", "high")))
    fan = ColumnDataSource(dict.fromkeys(columns, ()), name="fan")
    past = ColumnDataSource(dict.fromkeys(("x", "sst", "threshold", "heat"), ()), name="past")
    plot.varea("x", "threshold", "heat", source=past, fill_color=HEAT, fill_alpha=0.75)
    for share, alpha in FAN.items():
        plot.varea("x", f"low{share}", f"high{share}", source=fan, fill_color=MODEL_COLOUR, fill_alpha=alpha)
    plot.line("x", "climatology", source=days, line_width=1.5, line_dash="dashed", name="climatology")
    plot.line("x", "threshold", source=days, line_color=THRESHOLD_COLOUR, line_width=1.5, line_dash="dotdash")
    plot.line("x", "sst", source=fan, line_width=2.5, name="forecast")
    plot.line("x", "sst", source=past, line_width=2, name="observed")
    for level in temperatures:
        plot.add_layout(Span(location=level, dimension="width", line_color=ASKED, line_width=1.5))
    plot.add_layout(Span(dimension="height", line_dash="dotted", name="chosen"))
    plot.add_layout(BoxAnnotation(fill_alpha=1, line_color=None, level="underlay", name="before"))
    plot.xaxis.formatter = DatetimeTickFormatter(days="%d %b", months="%b %Y")
    plot.xaxis.ticker.desired_num_ticks = 5
    plot.yaxis.axis_label = "°C"
    for axis in (plot.xaxis, plot.yaxis):
        axis.update(**_TEXT)
    plot.min_border_right = 25
    return json_item(plot)


def _polygons(box: Box) -> dict[str, list[Any]]:
    """Return the land in a box as Bokeh multi-polygons `[part][0][ring][point]`, in degrees."""
    columns: dict[str, list[Any]] = {"x": [], "y": []}
    for part in shapely.get_parts(shapely.simplify(land_in(box), (box.east - box.west) / FINEST)):
        if part.geom_type == "Polygon":
            rings = [np.add(ring.coords, [box.centre, 0]) for ring in (part.exterior, *part.interiors)]
            for axis, column in enumerate(columns.values()):
                column.append([[ring[:, axis].round(3).tolist() for ring in rings]])
    return columns
