"""Boxes: parsed, cut into cells, and asked what lies in them, whatever the convention of longitudes."""

import numpy as np
import pytest
import xarray as xr

from sstcast.config import parse_box
from sstcast.errors import SSTCastError
from sstcast.figures.plots import image_rows
from sstcast.geo import Box, area_weights, edges, span
from sstcast.reading.grid import box_of
from sstcast.storage.cf import describe

PACIFIC = parse_box("pacific")


@pytest.mark.parametrize(
    ("region", "shape", "lon"),
    [
        ("pacific", (120, 360), (180.125, 269.875)),
        ("global", (720, 1440), (0.125, 359.875)),
        ("180,270,-15,15", (120, 360), (180.125, 269.875)),
        ("-180,-90,-15,15", (120, 360), (180.125, 269.875)),
        ("-10,10,-5,5", (40, 80), (-9.875, 9.875)),
        ("350,10,-5,5", (40, 80), (-9.875, 9.875)),
        ("170,-170,-5,5", (40, 80), (170.125, 189.875)),
        ("0.1,0.6,0.1,0.6", (2, 2), (0.125, 0.375)),
    ],
)
def test_a_region_is_the_cells_whose_centres_lie_in_it(region, shape, lon) -> None:
    box = parse_box(region)
    assert box.shape == shape
    assert (box.lon[0], box.lon[-1]) == lon
    for axis in (box.lat, box.lon):
        np.testing.assert_array_equal(axis * 8 % 2, 1)  # odd eighths of a degree are OISST's centres
        np.testing.assert_array_equal(np.diff(axis), 0.25)


@pytest.mark.parametrize("region", ["atlantis", "1,2,3", "a,b,c,d", "0,10,5,-5", "10.2,10.3,0,1"])
def test_a_wrong_region_is_named(region: str) -> None:
    with pytest.raises(SSTCastError, match=region):
        parse_box(region)


@pytest.mark.parametrize("text", ["180,270,-15,15", "-10,10,-5,5", "170,-170,-5,5", "0,360,-90,90"])
def test_a_box_is_written_as_it_is_read(text: str) -> None:
    assert str(parse_box(text)) == text


@pytest.mark.parametrize(
    ("box", "width", "centre", "middle"),
    [
        (Box(350, 10, -5, 5), 20, 360, 0),
        (Box(170, -170, -5, 15), 20, 180, 5),
        (Box(0, 360, -90, 90), 360, 180, 0),
        (Box(-180, -90, 0, 10), 90, -135, 5),
    ],
)
def test_width_and_centre(box: Box, width: float, centre: float, middle: float) -> None:
    assert (box.width, box.centre, box.middle) == (width, centre, middle)


@pytest.mark.parametrize("turn", [-360, 0, 360])
def test_places_of_any_convention_are_found(turn: int) -> None:
    lat, lon = np.arange(-89.5, 90), np.arange(0.5, 360) + turn
    labelled = xr.DataArray(lat, dims="lat"), xr.DataArray(lon, dims="lon")
    for box in (Box(170, -170, -5, 5), Box(170, 190, -5, 5), Box(-190, -170, -5, 5)):
        found = box.contains(*labelled)
        assert int(found.sum()) == 20 * 10
        np.testing.assert_array_equal(box.contains(lat[:, None], lon), found)
        inside = box.eastward(lon[found.any("lat").values])
        assert box.west < inside.min() < inside.max() < box.west + box.width


MERCATOR = np.degrees(np.arctan(np.sinh(np.linspace(-1.3, -0.5, 40))))
HYCOM = np.concatenate([np.arange(-41, -40.01, 0.04), np.arange(-40, -38, 0.08)])


@pytest.mark.parametrize("lat", [MERCATOR, HYCOM, np.concatenate([[-79.5], np.arange(-78.0, 0, 2)])])
def test_rows_of_any_spacing_have_edges_and_areas(lat: np.ndarray) -> None:
    ends = edges(lat)
    np.testing.assert_allclose(ends[1:-1], (lat[1:] + lat[:-1]) / 2)
    assert ends[0] == pytest.approx(lat[0] - (lat[1] - lat[0]) / 2)
    area = area_weights(xr.DataArray(lat, {"lat": lat}, ["lat"]))
    expected = np.sin(np.radians(ends[1:])) - np.sin(np.radians(ends[:-1]))
    np.testing.assert_allclose(area / area.sum(), expected / expected.sum())
    files = describe(xr.Dataset(coords={"lat": lat, "lon": np.arange(3.0)}))
    np.testing.assert_allclose(files["lat_bnds"][1:, 0], files["lat_bnds"][:-1, 1])
    np.testing.assert_allclose(files["lat_bnds"][:, 0], ends[:-1], atol=1e-6)
    part = box_of(lat, slice(5, 20), np.arange(3.0), slice(None))
    assert (part.south, part.north) == (pytest.approx(ends[5], abs=1e-5), pytest.approx(ends[20], abs=1e-5))
    rows = np.array(image_rows(lat))
    height = (ends[-1] - ends[0]) / len(rows)
    shown = ends[0] + (np.arange(len(rows)) + 0.5) * height
    assert (ends[rows] <= shown).all()
    assert (shown < ends[rows + 1]).all()
    assert set(rows) == set(range(len(lat)))


def test_a_regular_axis_has_the_mean_width_and_cosines() -> None:
    lat = np.float64(np.float32(-12 + (np.arange(30) + 0.5) / 12)).round(6)
    np.testing.assert_allclose(np.diff(edges(lat)), 1 / 12, atol=2e-6)
    area = area_weights(xr.DataArray(lat, dims="lat"))
    np.testing.assert_array_equal(area, np.cos(np.deg2rad(lat)))
    assert image_rows(lat) == list(range(30))


def test_the_box_of_cells_is_their_edges() -> None:
    assert Box.of({"lat": PACIFIC.lat, "lon": PACIFIC.lon}) == PACIFIC
    assert span(np.arange(10.0), slice(3, 4)) == (2.5, 3.5)
    assert Box(10, 20, -90.125, 0).yaml == "{lon: [10, 20], lat: [-90, 0]}"
