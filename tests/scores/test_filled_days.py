"""Forecasts do not begin on days that were filled, and scores are those of the record filled by hand."""

import datetime as dt
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scored_runs import configure, make_run, metrics_of
from small_ocean import make_sst

from sstcast.errors import SSTCastError
from sstcast.forecasting.history import last_days, sst_of_stores
from sstcast.ocean.filled_days import check_test_dates, left_out
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.reading.reading import open_region
from sstcast.runs import Run
from sstcast.scores.analysis import Analysis
from sstcast.scores.evaluate import evaluate
from sstcast.scores.score_files import ScoreFiles
from sstcast.training.train import training_windows

TODAY = dt.date(2005, 1, 1)
SEA = 8 * 12 - 6  # cells of the small ocean
SPLITS = {"train": [2001, 2002], "validation": [2003, 2003], "test": ["2004-01-01", "2004-06-30"]}
FIRST, LAST = pd.Timestamp("2004-01-10"), pd.Timestamp("2004-06-21")  # initial dates of the test days
ABSENT = pd.to_datetime(
    ["2003-06-01", "2004-01-10", "2004-01-11", "2004-02-05", "2004-03-01", "2004-03-03", "2004-06-21"]
)
HOLE = pd.Timestamp("2004-05-01")  # on which three cells have no value: more than a thousandth of the sea


def with_gaps() -> xr.Dataset:
    """The small ocean up to the test days, without the days `ABSENT`, and with a hole of three cells."""
    data = make_sst().sel(time=slice(None, "2004-06-30"))
    data["sst"].loc[{"time": HOLE}][4, 4:7] = np.nan
    return data.drop_sel(time=ABSENT)


def by_hand(data: xr.Dataset) -> xr.Dataset:
    """The same days with all gaps interpolated by pandas."""
    table = data["sst"].to_series().unstack("time").T.resample("1D").mean()
    filled = table.interpolate("linear", limit_area="inside").unstack().to_xarray().transpose("time", "lat", "lon")
    return filled.to_dataset(name="sst").assign({"sst": filled.astype("float32").assign_attrs(units="Celsius")})


def saved(data: xr.Dataset, path: Path) -> Path:
    data.to_netcdf(path)
    return path


@pytest.fixture(scope="module")
def gaps(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("gaps")
    run = make_run(configure(folder, saved(with_gaps(), folder / "gaps.nc"), gaps=3, splits=SPLITS))
    evaluate(run)
    return run


def dates_of(run: Run) -> pd.DatetimeIndex:
    with ScoreFiles(run.folder).open() as tables:
        return tables.indexes["init_time"]


def test_no_score_begins_on_a_day_that_was_filled(gaps: Run) -> None:
    expected = pd.date_range(FIRST, LAST).difference([*ABSENT, HOLE])
    assert dates_of(gaps).equals(expected)
    metrics = metrics_of(gaps)
    assert metrics["dates_left_out"] == 7
    # Every day of the eight after each date, once; the days that were filled, and three cells of the hole.
    days = pd.DatetimeIndex(np.unique(expected.values[:, None] + np.arange(1, 9) * np.timedelta64(1, "D")))
    filled = days.isin(ABSENT).sum() + days.isin([HOLE]).sum() * 3 / SEA
    assert metrics["filled"] == pytest.approx(filled / len(days), abs=1e-6)


def test_scores_are_those_of_the_record_that_was_filled_by_hand(gaps: Run, tmp_path: Path) -> None:
    whole = make_run(configure(tmp_path, saved(by_hand(with_gaps()), tmp_path / "whole.nc"), splits=SPLITS))
    evaluate(whole)
    assert "filled" not in metrics_of(whole)
    with ScoreFiles(gaps.folder).open() as tables, ScoreFiles(whole.folder).open() as expected:
        # Events and areas are scored on some dates alone, which are counted from the first one.
        fields = {name: {*field.dims} for name, field in expected.items()}
        names = [name for name, dims in fields.items() if {"system", "init_time"} <= dims and "area" not in dims]
        for name in names:
            dates = expected[name].sel(init_time=tables["init_time"])
            np.testing.assert_allclose(tables[name].values, dates.values, atol=1e-5, err_msg=name)
    assert {"gaussian_crps_by_date", "mse_by_date"} <= {*names}


def test_blocks_of_dates_are_those_without_gaps_but_for_the_ends(gaps: Run) -> None:
    truth = Analysis.of(gaps)
    blocks = truth.blocks()
    assert len(blocks) <= 3
    assert (blocks[0].start, blocks[-1].stop) == (0, truth.windows.starts)
    for block in blocks:  # all dates among those that are forecast
        past, every = truth.histories(block)
        forecast = past["time"].values[truth.windows.history - 1 :: every]
        assert np.isin(truth.windows.init_times[block], forecast).all()


def test_dates_are_left_out_after_they_are_thinned(gaps: Run) -> None:
    prepared = Analysis.of(gaps).prepared
    truth = Analysis.open(prepared, every=7)
    assert truth.windows.init_times[0] == FIRST + pd.Timedelta(days=7)  # and not a day after the gap
    assert (
        truth.left_out
        == left_out(prepared, 7)
        == (ABSENT.union([HOLE]) - FIRST).days[1:].isin(range(0, 366, 7)).sum()
    )
    validation = Analysis.open(prepared, "validation")
    assert (validation.windows.starts, validation.left_out) == (365 - 10 - 8, 0)


@pytest.mark.parametrize("coarsen", [1, 2])
def test_shares_are_of_the_cells_of_the_source(tmp_path: Path, coarsen: int) -> None:
    path = saved(with_gaps(), tmp_path / "gaps.nc")
    region = {"lon": [170, 173], "lat": [-12, -10], "tile": [8 // coarsen, 6 // coarsen], "coarsen": coarsen}
    prepared = prepare(configure(tmp_path, path, gaps=3, region=region, splits=SPLITS).data)
    assert f"2004-05-01: 3 of {SEA} cells" in prepared.open_cube().attrs["gaps_filled"]
    assert left_out(prepared) == 7


def test_a_forecast_from_a_filled_day_is_refused_and_names_an_earlier_one(gaps: Run) -> None:
    data = gaps.config.data
    for date, earlier in (("2004-01-11", "2004-01-09"), ("2004-05-01", "2004-04-30")):
        with pytest.raises(SSTCastError, match=f"has missing values on {date}.*--date, such as {earlier}"):
            last_days(data, dt.date.fromisoformat(date), TODAY)
    assert last_days(data, None, TODAY).indexes["time"][-1] == pd.Timestamp("2004-06-30")


def test_the_stores_of_a_record_in_python_tell_the_same_days(gaps: Run) -> None:
    filled = sst_of_stores(Prepared.of(gaps.config.data))["filled"]
    assert filled.indexes["time"][filled.values > 0].equals(ABSENT.union([HOLE]))
    with open_region(gaps.config.data) as opened:
        counts = opened["filled"].values
    np.testing.assert_allclose(filled, counts / SEA)


def test_later_days_do_not_change_a_history(gaps: Run, tmp_path: Path) -> None:
    changed = with_gaps()
    changed["sst"] = changed["sst"] + 2 * (changed["time"] > ABSENT[3])
    other = configure(tmp_path, saved(changed, tmp_path / "changed.nc"), gaps=3, splits=SPLITS).data
    for day in (1, 2, 9, 24):
        date = (ABSENT[3] - pd.Timedelta(days=day)).date()
        if pd.Timestamp(date) not in ABSENT:
            histories = (last_days(data, date, TODAY, 30).values for data in (gaps.config.data, other))
            np.testing.assert_array_equal(*histories)


def test_a_test_period_without_a_whole_day_is_refused_before_training(tmp_path: Path) -> None:
    data = make_sst()
    hole = data["sst"].sel(time=slice("2004-01-02", "2004-12-30"))
    data["sst"].loc[{"time": hole["time"]}] = hole.where((hole["lat"] < -11) | (hole["lon"] < 171))
    config = configure(tmp_path, saved(data, tmp_path / "late.nc"), gaps=366)
    prepared = prepare(config.data)
    with pytest.raises(SSTCastError, match=r"all initial dates in 2004-01-01\.\.2004-12-31"):
        training_windows(config, prepared)
    with pytest.raises(SSTCastError, match="all initial dates"):
        check_test_dates(prepared, 7)
