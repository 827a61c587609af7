"""Days that come late or never: where forecasts stop, what they fill, and what they say about it."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from logged import logged
from refusals import refused
from served_days import DAY, LAST, put, serving
from small_ocean import make_sst
from untrained import make_run

import sstcast
from sstcast import status
from sstcast.config import RunConfig, load_config
from sstcast.errors import SSTCastError
from sstcast.forecasting.history import bring_up_to_date, last_days
from sstcast.ocean.prepare import prepare
from sstcast.reading.gaps import GapRule
from sstcast.reading.reading import open_region
from sstcast.reports.page import write_forecast_page
from sstcast.reports.update import MADE, NOTHING_NEW, SOURCE_DOWN, Update, update
from sstcast.runs import Run

OCEAN = make_sst()
TODAY = dt.date(2005, 1, 1)
MONTH = "2004-12"


def day(number: int) -> str:
    return f"{MONTH}-{number:02}"


def write(path: Path, *late: int, partial: int = 0, without: tuple[str, ...] = ()) -> None:
    """Write the ocean up to 2004-12-11, with later days of that month; of a `partial` one the western half."""
    days = pd.date_range("2001-01-01", day(11)).append(pd.to_datetime([day(number) for number in late]))
    sst = OCEAN.sel(time=days.difference(pd.to_datetime([*without]))).copy(deep=True)
    if partial:
        sst["sst"].loc[{"time": day(partial)}][:, 6:] = np.nan
    path.unlink(missing_ok=True)
    sst.to_netcdf(path, engine="netcdf4")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write(tmp_path / "sst.nc")
    return tmp_path / "sst.nc"


def configured(run_yaml: Path, source: Path, gaps: int) -> RunConfig:
    splits = "{train: [2001, 2002], validation: [2003, 2003], test: [2004-01-01, 2004-11-30]}"
    return load_config(run_yaml, [f"data.source={source}", f"data.gaps={gaps}", f"data.splits={splits}"])


@pytest.fixture
def run_with(
    run_yaml: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[int], tuple[Run, Callable[..., tuple[int, str, str]]]]:
    """Make a run with `data.gaps`, and what updates it once some days have come: code, newest file and line."""
    monkeypatch.setattr("sstcast.reports.update.write_forecast_page", lambda file, page, **_: (page, False))

    def make(gaps: int) -> tuple[Run, Callable[..., tuple[int, str, str]]]:
        config = configured(run_yaml, source, gaps)
        prepare(config.data)
        run = make_run(config)

        def come(*late: int, partial: int = 0, **options: int) -> tuple[int, str, str]:
            write(source, *late, partial=partial)
            done: Update = update(run.folder, **options)
            return done.code, done.forecast.stem.removeprefix(f"forecast-{MONTH}-"), done.line

        return run, come

    return make


def test_gaps_of_one_day_are_filled_and_longer_ones_waited_for(run_with) -> None:
    run, come = run_with(1)
    assert come()[:2] == (MADE, "11")
    code, newest, line = come(13)
    assert (code, newest) == (MADE, "13")
    assert f"; {day(12)} filled; " in line
    issued = run.folder / f"forecasts/forecast-{day(13)}.nc"
    held, content = xr.load_dataset(issued), issued.read_bytes()
    assert held.attrs["filled"] == day(12)
    assert f"; filled days: {day(12)}; " in held.attrs["data"]
    page, _ = write_forecast_page(issued)
    assert f"The source lacks {day(12)}, filled linearly in time." in page.read_text()
    code, newest, line = come(12, 13)
    assert (newest, issued.read_bytes()) == ("13", content)
    assert "forecast-" not in line  # only what verifies it may be new
    assert come(12, 13)[0] == NOTHING_NEW
    code, newest, line = come(12, 13, 16)
    assert (code, newest) == (SOURCE_DOWN, "13")
    assert f"no forecast after {day(13)}: {MONTH}-14..15 are missing; add them" in line
    code, newest, line = come(12, 13, 14, 16)
    assert (code, newest) == (MADE, "16")
    assert f"; {day(15)} filled; " in line


def test_a_gap_is_waited_for_or_filled_by_forecasts_alone(run_with, source: Path) -> None:
    run, come = run_with(0)
    code, newest, line = come(13)
    assert (code, newest) == (SOURCE_DOWN, "11")
    assert f"no forecast after {day(11)}: {day(12)} is missing; add them" in line
    with logged() as lines:
        path = sstcast.forecast(run, gaps=1).path
    assert path.stem == f"forecast-{day(13)}"
    assert f"{path}: {day(12)} filled" in lines
    told = f"no day after {day(11)}, because {day(12)} is missing; training again with data.gaps: 1 goes beyond it"
    assert any(line.endswith(told) for line in lines)
    code, newest, line = come(13)  # the number stays with the run
    assert (code, newest) == (MADE, "13")
    history = xr.load_dataset(path)
    past = history["sst_past"].isel(init_time=0).sel(past=-1)
    between = OCEAN["sst"].sel(time=[day(11), day(13)]).mean("time")
    np.testing.assert_allclose(past, between.where(past.notnull()), atol=1e-3)
    with open_region(run.config.data) as stores:
        assert stores.indexes["time"][-1] == pd.Timestamp(day(11))
    scores = pd.read_csv(run.folder / "forecasts/verification.csv", index_col="lead")
    assert scores.index.tolist() == [2]  # no filled day is an observation
    assert come(13, gaps=0)[0] == SOURCE_DOWN
    assert not run.gaps.exists()
    assert come(12, 13)[:2] == (MADE, "13")
    write(source, *range(14, 24))
    done = update(run.folder, day(23))  # whose own history is there
    assert (done.code, done.forecast.name) == (MADE, f"forecast-{day(23)}.nc")
    assert "no forecast after" not in done.line


def test_a_newest_day_with_only_some_cells_is_waited_for(run_with) -> None:
    _, come = run_with(0)
    code, newest, line = come(12, 13, partial=13)
    assert (code, newest) == (SOURCE_DOWN, "12")
    assert f"no forecast after {day(12)}: {day(13)} has values at only some cells; add them" in line
    assert come(12, 13, 14, partial=13)[:2] == (SOURCE_DOWN, "12")
    code, newest, line = come(12, 13, 14, partial=13, gaps=1)
    assert (code, newest) == (MADE, "14")
    assert f"; {day(13)} filled; " in line


def test_only_its_own_history_stands_in_the_way_of_a_date(run_yaml: Path, source: Path) -> None:
    write(source, *range(13, 32))
    data = configured(run_yaml, source, 0).data
    with logged() as lines:
        assert last_days(data, None, TODAY).indexes["time"][-1] == pd.Timestamp(day(11))
    assert lines == [f"{source}: no forecast after {day(11)}: {day(12)} is missing; add them"]
    with logged() as lines:
        history = last_days(data, dt.date(2004, 12, 22), TODAY)
    assert lines == []
    np.testing.assert_allclose(history, OCEAN["sst"].sel(time=slice(day(13), day(22))), atol=1e-4)
    with refused(rf"from {day(21)} needs {day(12)}..{day(21)}, but it holds {day(13)}..2004-12-31 without a gap"):
        last_days(data, dt.date(2004, 12, 21), TODAY)
    assert last_days(data, dt.date(2004, 12, 21), TODAY, rule=GapRule(most=1)).sizes["time"] == 10
    with pytest.raises(SSTCastError, match=rf"has missing values on {day(12)}.*--date, such as {day(11)}"):
        last_days(data, dt.date(2004, 12, 12), TODAY, rule=GapRule(most=1))


def test_the_splits_do_not_reach_beyond_a_gap(run_yaml: Path, source: Path) -> None:
    write(source, 12, without=("2004-11-29",))
    data = configured(run_yaml, source, 0).data
    with pytest.raises(
        SSTCastError, match=r"ends on 2004-11-28, because 2004-11-29 is missing; add .* data.splits.test"
    ):
        prepare(data)
    write(source, 12, without=("2003-11-29",))
    with pytest.raises(SSTCastError, match=r"1 missing day in time, the first 2003-11-29, up to 1 in a row; add"):
        prepare(data)
    with pytest.raises(SSTCastError, match=r"1 missing day in time, the first 2003-11-29"):
        last_days(data, None, TODAY, rule=GapRule(most=3))


def test_missing_days_of_a_fetched_store_are_fetched_first(
    run_yaml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = put(tmp_path / "a.zarr", dt.date(2002, 1, 1), without=[LAST - DAY])
    splits = "{train: [2001, 2001], validation: [2002-01-01, 2002-06-30], test: [2002-07-01, 2002-12-31]}"
    data = load_config(run_yaml, [f"data.source={store}", f"data.splits={splits}"]).data
    assert len(status(tmp_path)[0].gaps) == 1
    with serving(monkeypatch):
        report = bring_up_to_date(data, None, LAST + DAY)
    assert report is not None
    assert report.fetched == 2  # with the newest, which was preliminary
    assert status(tmp_path)[0].gaps == []
