"""Where a gap ends a record: against a search day by day and cell by cell."""

import datetime as dt
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from sstcast.errors import SSTCastError
from sstcast.reading.gaps import check_gaps, fill_gaps, stretch_of, until_gap

FIRST = pd.Timestamp("2004-01-01")
VALIDATED = 4  # days of the record up to the last of the validation
COUNT = 14


def record(holes: np.ndarray) -> xr.DataArray:
    """Fourteen days of two cells of sea and one of land, without the days of `holes [day, cell]` in both cells."""
    values = np.full((COUNT, 1, 3), np.nan, np.float32)
    values[:, 0, :2] = np.where(holes, np.nan, np.arange(COUNT)[:, None])
    days = pd.date_range(FIRST, periods=COUNT)
    sst = xr.DataArray(values, {"time": days, "lat": [0.0], "lon": [1.0, 2.0, 3.0]}, ("time", "lat", "lon"))
    return sst[~holes.all(1)].chunk(time=5)


def end_of(holes: np.ndarray, gaps: int) -> int:
    """Return how many days a record has before the first one after the validation that cannot be filled."""

    def is_whole(day: int) -> bool:
        for cell in (0, 1):
            before = [d for d in range(day + 1) if not holes[d, cell]]
            after = [d for d in range(day, COUNT) if not holes[d, cell]]
            if not before or not after or after[0] - before[-1] - 1 > gaps:
                return False
        return True

    end = next((day for day in range(VALIDATED, COUNT) if not is_whole(day)), COUNT)
    while holes[end - 1].any():
        end -= 1
    return end


@pytest.mark.parametrize("gaps", [0, 1, 2])
def test_a_record_ends_on_a_whole_day_before_a_gap_that_cannot_be_filled(gaps: int) -> None:
    random = np.random.default_rng(gaps)
    ends = set()
    for _ in range(9):
        holes = np.zeros((COUNT, 2), bool)
        holes[VALIDATED:] = random.random((COUNT - VALIDATED, 1)) < 0.15  # whole days
        holes[VALIDATED:] |= random.random((COUNT - VALIDATED, 2)) < 0.06  # single cells
        holes[VALIDATED - 1] = False
        sst = record(holes)
        held = sst.indexes["time"]
        last = end_of(holes, gaps)
        validated = (FIRST + pd.Timedelta(days=VALIDATED - 1)).date()
        cut, why = until_gap(sst, gaps, validated, Path("sst.nc"), newest=COUNT)
        assert cut.indexes["time"][-1] == FIRST + pd.Timedelta(days=last - 1)
        assert bool(why) == (cut.sizes["time"] < held.size)
        filled = fill_gaps(cut, gaps, Path("sst.nc"))
        assert filled[..., :2].notnull().all()
        ends.add(last)
    assert len(ends) > 2


def test_why_it_ends_and_what_is_read(tmp_path: Path) -> None:
    holes = np.zeros((COUNT, 2), bool)
    holes[[1, 7, 8]] = True
    validated = dt.date(2004, 1, 4)
    told = {}
    for name, gaps in (("two", 0), ("one", 1), ("none", 2)):
        cut, told[name] = until_gap(record(holes), gaps, validated, tmp_path)
        assert cut.indexes["time"][-1].day == (COUNT if name == "none" else 7)
    assert told == {"two": "2004-01-08..09 are missing", "one": "2004-01-08..09 are missing", "none": ""}
    with pytest.raises(SSTCastError, match=r"3 missing days in time, the first 2004-01-02, up to 2 in a row"):
        check_gaps(record(holes).indexes["time"], 1, tmp_path)
    # An earlier gap is not for this function, and that after the last day of the validation is.
    assert until_gap(record(holes), 0, dt.date(2004, 1, 9), tmp_path)[1] == ""
    assert until_gap(record(holes), 0, dt.date(2004, 1, 7), tmp_path)[1] != ""
    partial = np.zeros((COUNT, 2), bool)
    partial[[6, 12], 1] = True
    ends = {
        (newest, known): until_gap(record(partial), 0, validated, tmp_path, newest, known)[0].sizes["time"]
        for newest, known in ((0, None), (2, None), (2, dt.date(2004, 1, 6)), (COUNT, dt.date(2004, 1, 7)))
    }
    assert [*ends.values()] == [COUNT, 12, 6, 12]
    assert until_gap(record(partial), 0, validated, tmp_path, 2)[1] == "2004-01-13 has values at only some cells"


def test_the_days_around_a_date(tmp_path: Path) -> None:
    holes = np.zeros((COUNT, 2), bool)
    holes[[1, 7, 8, 11]] = True
    sst = record(holes)

    def spans(gaps: int, date: int) -> tuple[int, int]:
        days = stretch_of(sst, gaps, dt.date(2004, 1, 4), dt.date(2004, 1, date)).indexes["time"]
        return days[0].day, days[-1].day

    assert [spans(0, day) for day in (6, 7, 8, 10, 11, 14)] == [
        (1, 7),
        (1, 7),
        (1, 7),
        (10, 11),
        (10, 11),
        (13, 14),
    ]
    assert [spans(1, day) for day in (7, 14)] == [(1, 7), (10, 14)]
    assert spans(2, 3) == (1, 14)
