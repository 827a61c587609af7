"""Where OISST lives: names and addresses, without asking anyone."""

import datetime as dt
from urllib.parse import unquote

import numpy as np
import pytest

from sstcast.errors import SSTCastError
from sstcast.ocean.grid import Grid, parse_grid
from sstcast.sources.sources import AWS, NCEI, PSL, find_sources

DAY = dt.date(2022, 2, 18)
TODAY = dt.date(2024, 6, 30)
PACIFIC = parse_grid("pacific")


def addresses(name: str, day: dt.date = DAY, final_only: bool = False) -> list[list[str]]:
    """Return, source by source, where a day is looked for."""
    found = find_sources(name, PACIFIC, TODAY)
    return [[f"{source.base}/{file}" for file in source.files(day, final_only)] for source in found]


def test_aws_has_a_file_a_day_and_ncei_stands_in() -> None:
    names = ["202202/oisst-avhrr-v02r01.20220218.nc", "202202/oisst-avhrr-v02r01.20220218_preliminary.nc"]
    assert addresses("aws") == [[f"{AWS}/{name}" for name in names], [f"{NCEI}/{name}" for name in names]]
    assert addresses("ncei") == addresses("aws")[::-1]
    assert AWS.startswith("https://noaa-cdr-sea-surface-temp-optimum-interpolation-pds.s3.amazonaws.com/")


def test_only_a_final_file_replaces_a_preliminary_one() -> None:
    assert addresses("aws", final_only=True)[0] == [f"{AWS}/202202/oisst-avhrr-v02r01.20220218.nc"]


def test_psl_has_a_file_a_year_and_no_word_on_its_latest_days() -> None:
    (psl,) = find_sources("psl", PACIFIC, TODAY)
    assert addresses("psl") == [[f"{PSL}/sst.day.mean.2022.nc"]]
    assert not psl.provisional("sst.day.mean.2024.nc", dt.date(2024, 6, 15))
    assert psl.provisional("sst.day.mean.2024.nc", dt.date(2024, 6, 16))
    assert psl.files(dt.date(2024, 6, 16), final_only=True) == ()


def test_erddap_is_asked_for_the_box_and_one_at_a_time() -> None:
    (erddap,) = find_sources("erddap", PACIFIC, TODAY)
    final, preliminary = erddap.files(DAY)
    query = "?sst[(2022-02-18T12:00:00Z)][(0.0)][(-14.875):(14.875)][(180.125):(269.875)]"
    assert unquote(final) == "ncdcOisst21Agg.nc" + query
    assert unquote(preliminary) == "ncdcOisst21NrtAgg.nc" + query
    assert not set("[]") & set(final)  # servers refuse bare brackets
    assert erddap.provisional(preliminary, DAY)
    assert not erddap.provisional(final, DAY)
    assert erddap.together == 1


def test_erddap_serves_no_box_across_greenwich() -> None:
    with pytest.raises(SSTCastError, match="Greenwich"):
        find_sources("erddap", parse_grid("-10,10,-5,5"), TODAY)


def test_a_mirror_is_asked_for_years_then_for_days_in_months_or_flat() -> None:
    base = "https://example.org/oisst"
    name = "oisst-avhrr-v02r01.20220218"
    yearly, daily = addresses(base)
    assert yearly == [f"{base}/sst.day.mean.2022.nc"]
    assert daily == [
        f"{base}/{file}"
        for file in (
            f"202202/{name}.nc",
            f"{name}.nc",
            f"202202/{name}_preliminary.nc",
            f"{name}_preliminary.nc",
        )
    ]


def test_a_bucket_is_reached_over_https() -> None:
    assert addresses("s3://mirror/oisst")[0] == ["https://mirror.s3.amazonaws.com/oisst/sst.day.mean.2022.nc"]


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
    grid = parse_grid(region)
    assert grid.shape == shape
    assert (grid.lon[0], grid.lon[-1]) == lon
    for axis in (grid.lat, grid.lon):
        np.testing.assert_array_equal(axis * 8 % 2, 1)  # odd eighths of a degree are OISST's centres
        np.testing.assert_array_equal(np.diff(axis), 0.25)


@pytest.mark.parametrize("region", ["atlantis", "1,2,3", "a,b,c,d", "0,10,5,-5", "10.2,10.3,0,1"])
def test_a_wrong_region_is_named(region: str) -> None:
    with pytest.raises(SSTCastError, match=region):
        parse_grid(region)


def test_grids_of_the_same_edges_are_equal() -> None:
    assert parse_grid("180,270,-15,15") == PACIFIC == Grid((180, 270), (-15, 15))
