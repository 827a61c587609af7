import itertools
import socket

import matplotlib.image
import numpy as np
import pytest
import shapely
import xarray as xr
from cartopy.crs import PlateCarree
from cartopy.mpl.feature_artist import FeatureArtist
from cartopy.mpl.geoaxes import GeoAxes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from sstcast.errors import SSTCastError
from sstcast.evaluation.maps import by_week, draw_forecast, draw_weeks

# west, south, rows, columns, degrees a cell; and a place on land and one at sea
REGIONS = {
    "tasman": ((147.25, -44.75, 30, 30, 0.25), (147.5, -42.0), (152.0, -42.0)),
    "pacific": ((180.0, -15.0, 60, 180, 0.5), (187.5, -13.6), (200.0, 0.0)),  # Savaiʻi, Samoa
    "date line": ((160.0, 55.0, 36, 80, 0.5), (180.0, 71.3), (180.0, 60.0)),  # Wrangel, cut in the source
    "Greenwich": ((350.0, 35.0, 40, 40, 0.5), (360.0, 48.0), (351.0, 48.0)),  # Normandy
    "west of Greenwich": ((-10.0, 35.0, 40, 40, 0.5), (0.0, 48.0), (-9.0, 48.0)),
}


def field(region, name, steps, seed=0):
    """Random values `(name, lat, lon)` on a region's grid, with a corner left out."""
    west, south, rows, columns, cell = REGIONS[region][0]
    values = np.random.default_rng(seed).normal(size=(len(steps), rows, columns))
    values[:, :3, :4] = np.nan
    lat, lon = south + cell * (np.arange(rows) + 0.5), west + cell * (np.arange(columns) + 0.5)
    return xr.DataArray(values, {name: list(steps), "lat": lat, "lon": lon}, (name, "lat", "lon"))


def forecast(region, horizon, seed=0):
    days = np.datetime64("2015-12-20", "ns") + np.arange(1, horizon + 1).astype("timedelta64[D]")
    return (20 + field(region, "lead", range(1, horizon + 1), seed)).assign_coords(valid_time=("lead", days))


@pytest.fixture
def figures(monkeypatch):
    """The figures written during a test."""
    written, savefig = [], Figure.savefig

    def record(self, *args, **kwargs):
        written.append(self)
        savefig(self, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", record)
    return written


def maps(figure):
    return [ax for ax in figure.axes if isinstance(ax, GeoAxes)]


def mesh(ax):
    (found,) = [child for child in ax.get_children() if isinstance(child, QuadMesh)]
    return found


def land(ax):
    """The land drawn on `ax`, in the coordinates of its projection."""
    artist = next(child for child in ax.get_children() if isinstance(child, FeatureArtist))
    return shapely.union_all(list(artist._feature.geometries()))


def drawn_at(ax, lon, lat):
    """The value drawn at a place, found through cartopy's own projection."""
    x, y = ax.projection.transform_point(lon, lat, PlateCarree())
    edges = mesh(ax).get_coordinates()
    row, column = (edges[:, 0, 1] < y).sum() - 1, (edges[0, :, 0] < x).sum() - 1
    return mesh(ax).get_array()[row, column]


@pytest.mark.parametrize("region", REGIONS)
def test_values_and_land_lie_where_they_belong(region, figures, tmp_path):
    given = field(region, "week", (1, 2, 3))
    draw_weeks(given, tmp_path / "map.png", title="T", label="°C", kind="difference")
    for week, ax in zip((1, 2, 3), maps(figures[0]), strict=True):
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


def test_the_map_ends_where_the_cells_end(figures, tmp_path):
    draw_weeks(field("pacific", "week", [1]), tmp_path / "map.png", title="T", label="°C", kind="error")
    (ax,) = maps(figures[0])
    west, east, south, north = ax.get_extent(PlateCarree())
    np.testing.assert_allclose([west % 360, east % 360, south, north], [180, 270, -15, 15])
    assert [text.get_text() for text in ax.get_xticklabels()] == ["180°", "160°W", "140°W", "120°W", "100°W"]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["10°S", "0°", "10°N"]


@pytest.mark.parametrize("kind", ["difference", "skill"])
@pytest.mark.parametrize("outlier", [0.0, 50.0, -50.0])
def test_diverging_colours_are_symmetric_about_zero(kind, outlier, figures, tmp_path):
    given = abs(field("tasman", "week", (1, 2)))
    given[0, 10, 10] += outlier
    draw_weeks(given, tmp_path / "map.png", title="T", label="°C", kind=kind)
    norm = mesh(maps(figures[0])[0]).norm
    np.testing.assert_array_equal(norm.boundaries, -norm.boundaries[::-1])
    assert 0 in norm.boundaries
    assert norm.boundaries[-1] < (5 if kind == "difference" else 1.001)
    middles = (norm.boundaries[1:] + norm.boundaries[:-1]) / 2
    np.testing.assert_array_less(abs(norm(middles) + norm(-middles) - 255), 2)  # mirrored, 256 colours
    outside = bool((abs(given) > norm.boundaries[-1]).any())
    assert norm.extend == ("both" if outside else "neither")


def test_errors_start_at_zero_and_weeks_share_their_colours(figures, tmp_path):
    given = abs(field("tasman", "week", (1, 2, 3, 4))) * xr.DataArray([1, 2, 3, 4.0], dims="week")
    given[0, 10, 10] = 1e6
    draw_weeks(given, tmp_path / "map.png", title="T", label="RMSE (°C)", kind="error", credit="Data: NOAA")
    meshes = [mesh(ax) for ax in maps(figures[0])]
    assert len({id(m.norm) for m in meshes}) == 1
    assert meshes[0].norm.boundaries[0] == 0
    assert np.nanpercentile(given, 98) <= meshes[0].norm.boundaries[-1] < 20
    assert meshes[0].norm.extend == "max"
    assert "RMSE (°C)" in [ax.get_xlabel() for ax in figures[0].axes]
    assert [text.get_text() for text in figures[0].texts] == ["T", "Data: NOAA"]


def test_a_perfect_forecast_can_be_drawn(figures, tmp_path):
    truth = forecast("tasman", 7)
    draw_forecast(truth, truth, tmp_path / "map.png", title="T")
    norm = mesh(maps(figures[0])[2]).norm
    assert 0 < norm.boundaries[-1] < 0.05


@pytest.mark.parametrize(
    ("horizon", "titles"),
    [
        (5, ["Day 5\n2015-12-25"]),
        (10, ["Day 7\n2015-12-27", "Day 10\n2015-12-30"]),
        (14, ["Day 7\n2015-12-27", "Day 14\n2016-01-03"]),
    ],
)
def test_forecast_beside_truth(horizon, titles, figures, tmp_path):
    given, truth = forecast("date line", horizon), forecast("date line", horizon, seed=1)
    draw_forecast(given, truth, tmp_path / "map.png", title="T")
    rows = np.array(maps(figures[0])).reshape(3, len(titles))
    assert [ax.get_title() for ax in rows[0]] == titles
    assert [ax.get_ylabel() for ax in rows[:, 0]] == ["Forecast", "Observed", "Difference"]
    for column, title in enumerate(titles):
        day = int(title.split()[1])
        above, middle, below = (np.ma.filled(mesh(ax).get_array(), np.nan) for ax in rows[:, column])
        np.testing.assert_array_equal(above, given.values[day - 1])
        np.testing.assert_array_equal(middle, truth.values[day - 1])
        np.testing.assert_array_equal(below, given.values[day - 1] - truth.values[day - 1])
    assert mesh(rows[0, 0]).norm is mesh(rows[1, -1]).norm
    difference = mesh(rows[2, 0]).norm.boundaries
    np.testing.assert_array_equal(difference, -difference[::-1])
    labels = [ax.get_ylabel() for ax in figures[0].axes if not isinstance(ax, GeoAxes)]
    assert labels == ["Sea surface temperature (°C)", "Forecast −\nobserved (°C)"]


@pytest.mark.parametrize("region", ["tasman", "pacific"])
def test_no_text_runs_into_another_panel(region, figures, tmp_path):
    weeks = field(region, "week", (1, 2, 3, 4, 5))
    draw_weeks(weeks, tmp_path / "weeks.png", title="Title", label="Bias (°C)", kind="difference", credit="Data")
    truth = forecast(region, 28)
    draw_forecast(truth + 0.1, truth, tmp_path / "forecast.png", title="Title", credit="Data")
    for figure in figures:
        boxes = [artist.get_tightbbox() for artist in figure.axes]
        boxes += [text.get_window_extent() for text in figure.texts]
        assert not [1 for a, b in itertools.combinations(boxes, 2) if a.overlaps(b)]


def test_png_is_written_offline(monkeypatch, tmp_path):
    def refuse(*_args, **_kwargs):
        raise AssertionError("maps must not use the network")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    path = tmp_path / "new" / "map.png"
    draw_weeks(field("Greenwich", "week", (1, 2)), path, title="T", label="°C", kind="skill")
    height, width, _ = matplotlib.image.imread(path).shape
    assert width > 1000
    assert height > 500


def test_nothing_is_half_written(monkeypatch, tmp_path):
    path = tmp_path / "map.png"
    path.write_bytes(b"the last one")

    def fail(_self, target, **_kwargs):
        target.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(OSError, match="disk full"):
        draw_weeks(field("tasman", "week", [1]), path, title="T", label="°C", kind="error")
    assert path.read_bytes() == b"the last one"
    assert list(tmp_path.iterdir()) == [path]


def test_fields_without_values_are_refused(tmp_path):
    empty = field("tasman", "week", [1]) * np.nan
    with pytest.raises(SSTCastError, match=r"map\.png: nothing to draw"):
        draw_weeks(empty, tmp_path / "map.png", title="T", label="°C", kind="error")
    assert not list(tmp_path.iterdir())


def test_grids_that_differ_are_refused(tmp_path):
    with pytest.raises(ValueError, match="align"):
        draw_forecast(forecast("tasman", 7), forecast("Greenwich", 7), tmp_path / "map.png", title="T")


@pytest.mark.parametrize("horizon", [3, 7, 10, 28])
def test_by_week_is_the_mean_of_the_days(horizon):
    days = forecast("tasman", horizon)
    weeks = by_week(days)
    expected = [days.values[start : start + 7].mean(axis=0) for start in range(0, horizon, 7)]
    assert weeks.dims == ("week", "lat", "lon")
    assert weeks["week"].values.tolist() == list(range(1, len(expected) + 1))
    np.testing.assert_allclose(weeks.values, expected, rtol=1e-12)


def test_by_week_hides_no_missing_day():
    days = xr.DataArray([1.0, np.nan, 3, 4, 5, 6, 7, 8], {"lead": range(1, 9)}, "lead")
    np.testing.assert_array_equal(by_week(days).values, [np.nan, 8])
