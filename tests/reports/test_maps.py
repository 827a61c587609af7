"""Maps of synthetic fields: what is drawn, where, and with which colours."""

import itertools
import socket
from unittest.mock import Mock

import matplotlib.image
import numpy as np
import pytest
import shapely
import xarray as xr
from cartopy.crs import PlateCarree
from cartopy.mpl.feature_artist import FeatureArtist
from cartopy.mpl.geoaxes import GeoAxes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import QuadMesh
from refusals import refused

from sstcast.errors import SSTCastError
from sstcast.figures.maps import PHONE, colour_norm, draw_forecast, draw_weeks
from sstcast.figures.projection import View, projections
from sstcast.geo import Box
from sstcast.reports.images import write_png
from sstcast.storage.artefacts import read_recipe

# west, south, rows, columns, degrees a cell; and a place on land and one at sea
REGIONS = {
    "tasman": ((147.25, -44.75, 30, 30, 0.25), (147.5, -42.0), (152.0, -42.0)),
    "pacific": ((180.0, -15.0, 60, 180, 0.5), (187.5, -13.6), (200.0, 0.0)),  # Savaiʻi, Samoa
    "date line": ((160.0, 55.0, 36, 80, 0.5), (180.0, 71.3), (180.0, 60.0)),  # Wrangel, cut in the source
    "Greenwich": ((350.0, 35.0, 40, 40, 0.5), (360.0, 48.0), (351.0, 48.0)),  # Normandy
    "west of Greenwich": ((-10.0, 35.0, 40, 40, 0.5), (0.0, 48.0), (-9.0, 48.0)),
    "globe": ((0.0, -90.0, 30, 60, 6.0), (24.0, 0.0), (200.0, 0.0)),
}
OPEN_OCEAN = (165.0, 29.0, 8, 12, 2.5)  # across the date line, without an island


def grid(west, south, rows, columns, cell, steps, seed=0):
    values = np.random.default_rng(seed).normal(size=(len(steps), rows, columns))
    lat, lon = south + cell * (np.arange(rows) + 0.5), west + cell * (np.arange(columns) + 0.5)
    return xr.DataArray(values, {"lead": list(steps), "lat": lat, "lon": lon}, ("lead", "lat", "lon"))


def field(region, name, steps, seed=0):
    """Random values `(name, lat, lon)` on a region's grid, with a corner left out."""
    values = grid(*REGIONS[region][0], steps, seed).rename(lead=name)
    values[:, :3, :4] = np.nan
    return values


def forecast(region, horizon, seed=0):
    days = np.datetime64("2015-12-20", "ns") + np.arange(1, horizon + 1).astype("timedelta64[D]")
    return (20 + field(region, "lead", range(1, horizon + 1), seed)).assign_coords(valid_time=("lead", days))


def maps(figure):
    return [ax for ax in figure.axes if isinstance(ax, GeoAxes)]


def mesh(ax):
    (found,) = [child for child in ax.get_children() if isinstance(child, QuadMesh)]
    return found


def land(ax):
    """The land drawn on `ax`, in the coordinates of its projection."""
    artist = next(child for child in ax.get_children() if isinstance(child, FeatureArtist))
    (geometry,) = artist._feature.geometries()
    return geometry


def drawn_at(ax, lon, lat):
    """The value drawn at a place, found through cartopy's own projection."""
    x, y = ax.projection.transform_point(lon, lat, PlateCarree())
    edges = mesh(ax).get_coordinates()
    row, column = (edges[:, 0, 1] < y).sum() - 1, (edges[0, :, 0] < x).sum() - 1
    return mesh(ax).get_array()[row, column]


@pytest.mark.parametrize("region", REGIONS)
def test_values_and_land_lie_where_they_belong(region):
    given = field(region, "week", (1, 2, 3))
    figure = draw_weeks(given, title="T", label="°C", kind="difference")
    for week, ax in zip((1, 2, 3), maps(figure), strict=True):
        assert ax.get_title() == f"Week {week}"
        np.testing.assert_array_equal(np.ma.filled(mesh(ax).get_array(), np.nan), given.sel(week=week).values)
        for row, column in [(4, 0), (7, 1), (20, 15), (-1, -1), (-2, 3)]:
            value = given.sel(week=week)[row, column]
            assert drawn_at(ax, float(value.lon), float(value.lat)) == float(value)
        assert drawn_at(ax, float(given.lon[0]), float(given.lat[0])) is np.ma.masked
        _, on_land, at_sea = REGIONS[region]
        for place, expected in ((on_land, True), (at_sea, False)):
            x, y = ax.projection.transform_point(*place, PlateCarree())
            assert shapely.contains_xy(land(ax), x, y) == expected


def test_the_map_ends_where_the_cells_end():
    figure = draw_weeks(field("pacific", "week", [1]), title="T", label="°C", kind="error")
    (ax,) = maps(figure)
    west, east, south, north = ax.get_extent(PlateCarree())
    np.testing.assert_allclose([west % 360, east % 360, south, north], [180, 270, -15, 15])
    FigureCanvasAgg(figure).draw()
    (lines,) = ax.artists
    shown = [text for text in lines.label_artists if text.get_visible()]
    labels = {text.get_text(): text.get_position() for text in shown}
    assert {"10°S", "0°", "10°N", "160°W", "140°W", "120°W", "100°W"} <= set(labels) <= {*labels, "180°"}
    assert labels["160°W"][0] == pytest.approx(200 - 225)  # degrees east of the centre
    assert labels["10°S"][1] == pytest.approx(-10)


@pytest.mark.parametrize("kind", ["difference", "skill"])
@pytest.mark.parametrize("outlier", [0.0, 50.0, -50.0])
def test_diverging_colours_are_symmetric_about_zero(kind, outlier):
    given = abs(field("tasman", "week", (1, 2)))
    given[0, 10, 10] += outlier
    norm = colour_norm(given.values, kind)
    np.testing.assert_array_equal(norm.boundaries, -norm.boundaries[::-1])
    assert 0 in norm.boundaries
    assert norm.boundaries[-1] < (5 if kind == "difference" else 1.001)
    middles = (norm.boundaries[1:] + norm.boundaries[:-1]) / 2
    np.testing.assert_array_less(abs(norm(middles) + norm(-middles) - 255), 2)  # mirrored, 256 colours
    outside = bool((abs(given) > norm.boundaries[-1]).any())
    assert norm.extend == ("both" if outside else "neither")


def test_errors_start_at_zero_and_weeks_share_their_colours():
    given = abs(field("tasman", "week", (1, 2, 3, 4))) * xr.DataArray([1, 2, 3, 4.0], dims="week")
    given[0, 10, 10] = 1e6
    figure = draw_weeks(given, title="T", label="RMSE (°C)", kind="error", credit="Data: NOAA")
    meshes = [mesh(ax) for ax in maps(figure)]
    assert len({id(m.norm) for m in meshes}) == 1
    assert meshes[0].norm.boundaries[0] == 0
    assert np.nanpercentile(given, 98) <= meshes[0].norm.boundaries[-1] < 20
    assert meshes[0].norm.extend == "max"
    assert "RMSE (°C)" in [ax.get_xlabel() for ax in figure.axes]
    assert figure.get_suptitle() == "T"
    assert figure.legends[0].get_title().get_text() == "Data: NOAA"


@pytest.mark.parametrize(
    ("horizon", "titles"),
    [
        (5, ["Day 5\n2015-12-25"]),
        (10, ["Day 7\n2015-12-27", "Day 10\n2015-12-30"]),
        (14, ["Day 7\n2015-12-27", "Day 14\n2016-01-03"]),
    ],
)
def test_forecast_beside_truth(horizon, titles):
    given, truth = forecast("date line", horizon), forecast("date line", horizon, seed=1)
    figure = draw_forecast(given, truth, title="T")
    rows = np.array(maps(figure)).reshape(3, len(titles))
    assert [ax.get_title() for ax in rows[0]] == titles
    assert [ax.texts[0].get_text() for ax in rows[:, 0]] == ["Forecast", "Observed", "Difference"]
    for column, title in enumerate(titles):
        day = int(title.split()[1])
        above, middle, below = (np.ma.filled(mesh(ax).get_array(), np.nan) for ax in rows[:, column])
        np.testing.assert_array_equal(above, given.values[day - 1])
        np.testing.assert_array_equal(middle, truth.values[day - 1])
        np.testing.assert_array_equal(below, given.values[day - 1] - truth.values[day - 1])
    assert mesh(rows[0, 0]).norm is mesh(rows[1, -1]).norm
    difference = mesh(rows[2, 0]).norm.boundaries
    np.testing.assert_array_equal(difference, -difference[::-1])
    labels = [ax.get_ylabel() for ax in figure.axes if not isinstance(ax, GeoAxes)]
    assert labels == ["Sea surface temperature (°C)", "Forecast −\nobserved (°C)"]


@pytest.mark.parametrize(
    ("region", "projection"),
    [("tasman", "LambertConformal"), ("pacific", "PlateCarree")],
)
def test_no_text_runs_into_another_panel(region, projection):
    weeks, truth = field(region, "week", (1, 2, 3)), forecast(region, 14)
    weeks, truth = (values[:, ::2, ::2] for values in (weeks, truth))
    options = {"title": "Title", "credit": "Data", "projection": projection}
    hatched = {"hatched": weeks > 1, "hatch_label": "not significant"}
    for figure in (
        draw_weeks(weeks, label="Bias (°C)", kind="difference", **hatched, **options),
        draw_weeks(weeks, label="Bias (°C)", kind="difference", area=PHONE, **hatched, **options),
        draw_forecast(truth + 0.1, truth, **options),
        draw_forecast(truth + 0.1, truth, area=PHONE, **options),
    ):
        figure.dpi = 50
        FigureCanvasAgg(figure).draw()
        boxes = [artist.get_tightbbox() for artist in figure.axes]
        boxes += [text.get_window_extent() for text in figure.texts]
        boxes += [legend.get_window_extent() for legend in figure.legends]
        assert not [1 for a, b in itertools.combinations(boxes, 2) if a.overlaps(b)]


@pytest.mark.parametrize(
    "projection",
    ["PlateCarree", "LambertConformal", "Orthographic", "RotatedPole"],
)
def test_pixels_have_the_colour_of_the_value_there(projection):
    """End to end: the pixel at which the projection puts a cell's centre, in a region across the date line."""
    given = grid(*OPEN_OCEAN, [1]).rename(lead="week")
    figure = draw_weeks(given, title="", label="°C", kind="difference", projection=projection)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())
    (ax,) = maps(figure)
    drawn = mesh(ax)
    for row, column in np.ndindex(given.shape[1:]):
        value = given[0, row, column]
        place = ax.projection.transform_point(float(value.lon), float(value.lat), PlateCarree())
        x, y = ax.transData.transform(place)
        expected = drawn.cmap(drawn.norm(float(value)), bytes=True)[:3]
        near = pixels[len(pixels) - 1 - int(y) - 4 :, int(x) - 4 :][:9, :9, :3].reshape(-1, 3).astype(int)
        same = (abs(near - expected) <= 1).all(1)
        assert same.mean() > 0.6, (row, column)  # but for grid lines, which are thin


@pytest.mark.parametrize("region", ["date line", "globe"])
def test_hatching_covers_its_cells_and_no_others(region):
    given = field(region, "week", [1])
    hatched = given > 0
    figure = draw_weeks(given, title="T", label="", kind="skill", hatched=hatched, hatch_label="not significant")
    (ax,) = maps(figure)
    (artist,) = [child for child in ax.get_children() if isinstance(child, FeatureArtist) and child.get_hatch()]
    (area,) = artist._feature.geometries()
    centre = (float(given.lon[0]) + float(given.lon[-1])) / 2
    lon, lat = np.meshgrid(given.lon - centre, given.lat)
    np.testing.assert_array_equal(shapely.contains_xy(area, lon, lat), hatched[0].values)
    (legend,) = figure.legends
    assert legend.get_texts()[0].get_text() == "not significant"


FEW = {"OSGB", "OSNI", "EuroPP", "LambertZoneII"}  # show a country or a continent


def test_every_projection_shows_a_part_and_some_the_globe():
    names = sorted({*projections()} - FEW - {"Spilhaus"})  # for which PROJ may be too old
    for region, some in (("tasman", names), ("globe", names[::4])):
        for name in some:
            assert 0 < View(Box.of(field(region, "week", [1])), name).shape < np.inf, name


@pytest.mark.parametrize(
    ("name", "words"), [("OSGB", "does not show this region"), ("Robinsen", "did you mean 'Robinson'?")]
)
def test_an_unfit_and_an_unknown_projection(name, words):
    with refused(f"--projection {name}: ", words):
        draw_weeks(field("pacific", "week", [1]), title="", label="", kind="error", projection=name)


def test_png_is_written_offline(monkeypatch, tmp_path):
    for name in ("socket", "getaddrinfo"):
        monkeypatch.setattr(socket, name, Mock(side_effect=AssertionError("maps must not use the network")))
    path = tmp_path / "new" / "map.png"
    figure = draw_weeks(
        field("Greenwich", "week", (1, 2)), title="T", label="", kind="skill", projection="Robinson"
    )
    assert read_recipe(path) is None
    write_png(figure, path, {"of": "this, 1 °C"})
    assert read_recipe(path) == {"of": "this, 1 °C"}
    height, width, _ = matplotlib.image.imread(path).shape
    assert width > 1000
    assert height > 500


def test_fields_without_values_are_refused():
    empty = field("tasman", "week", [1]) * np.nan
    with pytest.raises(SSTCastError, match="nothing to draw"):
        draw_weeks(empty, title="T", label="°C", kind="error")


def test_titles_of_narrow_columns_do_not_overlap() -> None:
    lead = np.arange(1, 29)
    field = xr.DataArray(
        np.random.default_rng(0).normal(size=(28, 60, 10)),
        {
            "lead": lead,
            "lat": np.arange(60) * 0.5,
            "lon": 180 + np.arange(10) * 0.5,
            "valid_time": ("lead", np.datetime64("2016-01-31", "ns") + lead * np.timedelta64(1, "D")),
        },
        ("lead", "lat", "lon"),
    )
    figure = draw_forecast(field, field + 0.5)
    figure.draw_without_rendering()
    titles = [ax.title.get_window_extent() for ax in figure.axes if ax.get_title()]
    assert len(titles) == 4
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(titles))
