"""The verb fetch against a server that misbehaves: every day that lands is right, every other is listed."""

import datetime as dt
import itertools
import shutil
import time
from pathlib import Path

import pytest
from logged import logged
from oisst_server import DAYS, REGION, OisstServer, daily_file, daily_files, daily_path
from storing import assert_holds, get

from sstcast import progress, status
from sstcast.sources import remote
from sstcast.sources.fetch import fetch
from sstcast.sources.noaa import Aws, Ncei
from sstcast.sources.source import FetchRequest

BAD, FEW = DAYS[7], DAYS[:12]
DATE = "%a, %d %b %Y %H:%M:%S GMT"


def test_all_days_arrive_and_the_second_time_there_is_nothing_to_do(aws, tmp_path: Path) -> None:
    report = get(tmp_path)
    assert report.complete
    assert report.fetched == len(DAYS)
    assert_holds(tmp_path / "a.zarr", DAYS)
    assert sorted(aws.seen) == sorted(map(daily_path, DAYS))
    aws.seen.clear()
    request = FetchRequest(DAYS[0], DAYS[-1], region=REGION, out=tmp_path / "a.zarr")
    with logged() as lines:
        assert fetch(request).fetched == 0
    assert lines == [f"{tmp_path / 'a.zarr'}: nothing to do, all 40 days are present"]
    assert aws.seen == []


def test_only_the_difference_is_fetched(aws, tmp_path: Path) -> None:
    get(tmp_path, DAYS[5:10])
    aws.seen.clear()
    report = get(tmp_path, DAYS)
    assert (report.fetched, report.present) == (35, 5)
    assert sorted(aws.seen) == [daily_path(day) for day in DAYS[:5] + DAYS[10:]]
    assert_holds(tmp_path / "a.zarr", DAYS)


@pytest.mark.parametrize("fault", ["500", "503", "reset"])
def test_trouble_that_passes_is_sat_out(aws, tmp_path: Path, fault) -> None:
    aws.faults[daily_path(BAD)] = iter([fault, fault])
    assert get(tmp_path, FEW).complete
    assert aws.seen.count(daily_path(BAD)) == 3
    assert_holds(tmp_path / "a.zarr", FEW)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("404", "aws: not there"),
        ("500", "aws: status 500"),
        ("503", "aws: status 503"),
        ("reset", "aws: connection reset"),
        ("truncated", "aws: truncated"),
        ("slow", "aws: timed out"),
        ("html", "aws: not a NetCDF file"),
        (daily_file(BAD)[:-900], "aws: damaged"),
        (daily_file(dt.date(2020, 3, 9)), "holds 2020-03-09"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_trouble_that_lasts_is_listed_and_nothing_wrong_lands(
    aws, tmp_path: Path, monkeypatch, fault, reason: str
) -> None:
    monkeypatch.setattr(Aws, "time_limit", 0.5)
    aws.faults[daily_path(BAD)] = itertools.repeat(fault)
    report = get(tmp_path, FEW)
    assert list(report.missing) == [BAD]
    assert reason in report.missing[BAD]
    assert "ncei: connection refused" in report.missing[BAD]
    lacking = fault == "404" or "holds" in reason  # the server works, and does not have the day
    assert report.down == ("" if lacking else report.missing[BAD])
    assert any(line.startswith(f"missing {BAD}: ") for line in report.lines())
    assert_holds(tmp_path / "a.zarr", [day for day in FEW if day != BAD])
    del aws.faults[daily_path(BAD)]
    assert get(tmp_path, FEW).complete
    assert_holds(tmp_path / "a.zarr", FEW)


def test_a_terminal_sees_how_far_it_is(aws, tmp_path: Path, monkeypatch, capsys) -> None:
    get(tmp_path, DAYS[:3])
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("TTY_COMPATIBLE", "1")  # makes rich take any stream for a terminal
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(progress, "SHORT", 0)
    get(tmp_path)
    shown = capsys.readouterr().err
    for words in ("aws", "37/37 days", "MB/s", "100%", "0:00:00"):
        assert words in shown


def test_the_next_source_steps_in_for_a_day_and_for_a_server(aws, tmp_path: Path, monkeypatch) -> None:
    with OisstServer(daily_files(FEW)) as ncei:
        monkeypatch.setattr(Ncei, "base", ncei.url)
        del aws.files[daily_path(BAD)]
        assert get(tmp_path, FEW).complete
        assert ncei.seen == [daily_path(BAD)]
        assert_holds(tmp_path / "a.zarr", FEW)
        assert status(tmp_path)[0].sources == {"aws": 11, "ncei": 1}
        shutil.rmtree(tmp_path / "a.zarr")
        aws.faults["*"] = itertools.repeat("500")
        assert get(tmp_path, FEW).complete
        assert status(tmp_path)[0].sources == {"ncei": 12}


def test_a_server_that_is_down_is_not_asked_for_every_day(aws, tmp_path: Path, monkeypatch) -> None:
    aws.faults["*"] = itertools.repeat("500")
    monkeypatch.setattr(remote, "GIVE_UP", 4)
    report = get(tmp_path, concurrency=2)
    assert list(report.missing) == DAYS
    assert len(aws.seen) <= remote.ATTEMPTS * (4 + 2)
    assert "given up after 4 failures in a row (status 500)" in report.missing[DAYS[-1]]
    assert not (tmp_path / "a.zarr").exists()


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_a_server_says_when_to_come_back(aws, tmp_path: Path, monkeypatch, form: str) -> None:
    """It is obeyed, as seconds and as a date, but for no more than the longest wait."""
    in_an_hour = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    aws.retry_after = "2" if form == "seconds" else in_an_hour.strftime(DATE)
    aws.faults[daily_path(BAD)] = iter(["503"])
    monkeypatch.setattr(remote, "LONGEST_WAIT", 1)
    started = time.monotonic()
    assert get(tmp_path, [BAD]).complete
    assert time.monotonic() - started >= 1
    assert aws.seen.count(daily_path(BAD)) == 2


def test_preliminary_days_are_marked_and_replaced_by_final_ones(aws, tmp_path: Path) -> None:
    fresh = FEW[-5:]
    aws.files = daily_files(FEW[:-5]) | daily_files(fresh, preliminary=True)
    report = get(tmp_path, FEW)
    assert report.complete
    assert report.preliminary == tuple(fresh)
    assert_holds(tmp_path / "a.zarr", FEW, preliminary=tuple(fresh))

    aws.seen.clear()
    report = get(tmp_path, FEW)  # no final ones yet: what is there stays, and is not downloaded again
    assert (report.fetched, report.complete) == (0, True)
    assert sorted(aws.seen) == [daily_path(day) for day in fresh]
    assert_holds(tmp_path / "a.zarr", FEW, preliminary=tuple(fresh))

    aws.files = daily_files(FEW)
    report = get(tmp_path, FEW)
    assert (report.fetched, report.preliminary) == (5, ())
    assert_holds(tmp_path / "a.zarr", FEW)


def test_the_file_itself_says_whether_it_is_preliminary(aws, tmp_path: Path) -> None:
    aws.files[daily_path(BAD)] = daily_file(BAD, preliminary=True)  # under the name of a final one
    del aws.files[daily_path(FEW[0])]
    aws.files[daily_path(FEW[0], preliminary=True)] = daily_file(FEW[0])
    assert get(tmp_path, FEW).preliminary == (BAD,)
    assert_holds(tmp_path / "a.zarr", FEW, preliminary=(BAD,))
