"""Where OISST lives: names and addresses, without asking anyone."""

import datetime as dt

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


def test_erddap_serves_preliminary_days_apart_and_gets_no_bare_brackets() -> None:
    (erddap,) = opened("erddap")
    final, preliminary = erddap.files(DAY)
    assert not set("[]") & set(final)  # servers refuse them
    assert (erddap.provisional(preliminary, DAY), erddap.provisional(final, DAY)) == (True, False)


def test_erddap_serves_no_box_across_greenwich() -> None:
    with pytest.raises(SSTCastError, match="Greenwich"):
        opened("erddap", "-10,10,-5,5")


def test_a_mirror_is_asked_for_years_then_for_days_in_months_or_flat() -> None:
    base = "https://example.org/oisst"
    name = "oisst-avhrr-v02r01.20220218"
    yearly, daily = addresses(base)
    assert yearly == [f"{base}/sst.day.mean.2022.nc"]
    files = [f"{place}{name}{ending}.nc" for ending in ("", "_preliminary") for place in ("202202/", "")]
    assert daily == [f"{base}/{file}" for file in files]
