"""Where OISST lives: names and addresses, without asking anyone."""

import datetime as dt
from urllib.parse import unquote

import pytest

from sstcast.config import parse_box
from sstcast.errors import SSTCastError
from sstcast.sources import find_source
from sstcast.sources.noaa import Aws, Ncei, Psl
from sstcast.sources.remote import Remote
from sstcast.sources.source import FetchRequest

DAY = dt.date(2022, 2, 18)
TODAY = dt.date(2024, 6, 30)
PACIFIC = parse_box("pacific")
AWS, NCEI, PSL = Aws.base, Ncei.base, Psl.base


def opened(name: str, region: str = "pacific") -> list[Remote]:
    """Return the sources a name or a URL stands for, in the order they are asked."""
    found = list(find_source(name).open(FetchRequest(DAY, DAY, name, region)))
    for source in found:
        assert isinstance(source, Remote)
        source.today = TODAY
    return found


def addresses(name: str, day: dt.date = DAY, final_only: bool = False) -> list[list[str]]:
    """Return, source by source, where a day is looked for."""
    return [[f"{source.base}/{file}" for file in source.files(day, final_only)] for source in opened(name)]


def test_aws_has_a_file_a_day_and_ncei_stands_in() -> None:
    names = ["202202/oisst-avhrr-v02r01.20220218.nc", "202202/oisst-avhrr-v02r01.20220218_preliminary.nc"]
    assert addresses("aws") == [[f"{AWS}/{name}" for name in names], [f"{NCEI}/{name}" for name in names]]
    assert addresses("ncei") == addresses("aws")[::-1]
    assert addresses("aws", final_only=True)[0] == [f"{AWS}/{names[0]}"]
    assert AWS.startswith("https://noaa-cdr-sea-surface-temp-optimum-interpolation-pds.s3.amazonaws.com/")


def test_psl_has_a_file_a_year_and_no_word_on_its_latest_days() -> None:
    (psl,) = opened("psl")
    assert addresses("psl") == [[f"{PSL}/sst.day.mean.2022.nc"]]
    assert not psl.provisional("sst.day.mean.2024.nc", dt.date(2024, 6, 15))
    assert psl.provisional("sst.day.mean.2024.nc", dt.date(2024, 6, 16))
    assert psl.files(dt.date(2024, 6, 16), final_only=True) == ()


def test_erddap_is_asked_for_the_box_and_one_at_a_time() -> None:
    (erddap,) = opened("erddap")
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
        opened("erddap", "-10,10,-5,5")


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
