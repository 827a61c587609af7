"""The last days of a source: what is fetched, what is marked as preliminary, what cannot be had."""

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from logged import logged
from refusals import refused
from served_days import DAY, FIRST, LAST, SIMULATOR, put, serving
from untrained import make_run

import sstcast
from sstcast import status
from sstcast.config import DataConfig, load_config
from sstcast.errors import SSTCastError
from sstcast.forecasting.forecast import forecast
from sstcast.forecasting.history import last_days
from sstcast.ocean.prepare import prepare
from sstcast.sources.noaa import Aws


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with serving(monkeypatch):
        yield


def config_of(run_yaml: Path, store: Path) -> DataConfig:
    splits = "{train: [2001, 2001], validation: [2002-01-01, 2002-06-30], test: [2002-07-01, 2002-12-31]}"
    return load_config(run_yaml, [f"data.source={store}", f"data.splits={splits}"]).data


def marked(history: xr.DataArray) -> list[dt.date]:
    return history["time"].values[history["preliminary"].values].astype("datetime64[D]").tolist()


def test_what_is_there_is_not_fetched(run_yaml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Aws, "base", "http://127.0.0.1:1")
    data = config_of(run_yaml, put(tmp_path / "a.zarr", FIRST))
    with logged() as lines:
        history = last_days(data, LAST, LAST + 100 * DAY)
    assert not lines
    assert history["time"].values.astype("datetime64[D]").tolist() == [LAST - n * DAY for n in range(9, -1, -1)]
    assert marked(history) == [LAST - DAY, LAST]
    expected = SIMULATOR.field([LAST], history["lat"].values, history["lon"].values)[0]
    np.testing.assert_allclose(history[-1], expected, atol=0.0051)


def test_missing_days_are_fetched_and_preliminary_ones_replaced(run_yaml: Path, tmp_path: Path, aws: None) -> None:
    data = config_of(run_yaml, put(tmp_path / "a.zarr", FIRST))
    end = LAST + 8 * DAY
    with logged() as lines:
        history = last_days(data, end, end + DAY)
    assert history["time"].values[-1] == np.datetime64(end)
    assert marked(history) == [end - 2 * DAY, end - DAY, end]
    assert "10 days fetched" in lines[0]
    expected = SIMULATOR.field([end - 3 * DAY], history["lat"].values, history["lon"].values)[0]
    np.testing.assert_allclose(history[-4], expected, atol=0.0051)
    assert status(tmp_path)[0].gaps == []


def test_latest_is_what_can_be_had(run_yaml: Path, tmp_path: Path, aws: None) -> None:
    data = config_of(run_yaml, put(tmp_path / "a.zarr", FIRST))
    history = last_days(data, None, LAST + 12 * DAY)
    assert history["time"].values[-1] == np.datetime64(LAST + 8 * DAY)
    with pytest.raises(SSTCastError, match=rf"needs .*\.\.{LAST + 10 * DAY}, but it holds .*\.\.{LAST + 8 * DAY}"):
        last_days(data, LAST + 10 * DAY, LAST + 12 * DAY)


def test_days_between_are_fetched_too(run_yaml: Path, tmp_path: Path, aws: None) -> None:
    """History of three days that begins after the store's end: no gap is left."""
    data = config_of(run_yaml, put(tmp_path / "a.zarr", FIRST)).model_copy(update={"history": 3})
    assert last_days(data, LAST + 6 * DAY, LAST + 7 * DAY).sizes["time"] == 3
    assert status(tmp_path)[0].gaps == []


@pytest.mark.parametrize(
    ("origin", "date", "words"),
    [
        ("aws", dt.date(2100, 6, 1), "2100-06-01: is in the future"),
        ("simulator", dt.date(2003, 3, 14), "needs 2003-03-05..2003-03-14, but it holds"),
        ("mirror", dt.date(2003, 3, 14), "choose another --date or fetch them"),
        ("aws", dt.date(2003, 1, 9), "from 2003-01-09 needs 2002-12-31..2003-01-09, but it holds 2003-01-01"),
    ],
)
def test_days_that_cannot_be_had(run_yaml: Path, tmp_path: Path, origin: str, date: dt.date, words: str) -> None:
    data = config_of(run_yaml, put(tmp_path / "a.zarr", FIRST, origin=origin))
    with refused(words):
        last_days(data, date, dt.date(2003, 4, 1))


def test_latest_of_a_source_that_does_not_grow(run_yaml: Path, tmp_path: Path) -> None:
    data = config_of(run_yaml, put(tmp_path / "a.zarr", FIRST, origin="mirror"))
    assert last_days(data, None, LAST + 50 * DAY)["time"].values[-1] == np.datetime64(LAST)


def test_the_file_names_them_and_is_made_anew_when_they_are_final(run_yaml: Path, tmp_path: Path) -> None:
    store = put(tmp_path / "a.zarr", dt.date(2001, 1, 1))
    config = load_config(run_yaml).model_copy(update={"data": config_of(run_yaml, store)})
    prepare(config.data)
    run = make_run(config)
    path, _ = forecast(run.folder, str(LAST))
    assert forecast(run.folder, str(LAST)) == (path, False)
    with xr.open_dataset(path, engine="netcdf4") as held:
        assert held.attrs["data"].startswith("NOAA Daily OISST")
        assert held.attrs["data"].endswith(f"preliminary days: {LAST - DAY}..{LAST}")
    put(store, LAST - DAY, 0)
    assert forecast(run.folder, str(LAST)) == (path, True)
    with xr.open_dataset(path, engine="netcdf4") as held:
        assert held.attrs["data"].endswith("preliminary days: none")


@pytest.mark.slow
def test_days_that_became_final_do_not_stop_a_system_fitted_to_newer_days(run_yaml: Path, tmp_path: Path) -> None:
    store = put(tmp_path / "a.zarr", dt.date(1997, 1, 1), 5)
    splits = "{train: [1997, 1999], validation: [2000, 2000], test: [2001, 2001]}"
    config = load_config(run_yaml, [f"data.source={store}", f"data.splits={splits}", "model={name: ridge}"])
    run = sstcast.train(config)
    path, _ = forecast(run.folder, str(LAST))
    before = xr.load_dataset(path)["sst"]
    put(store, LAST - 4 * DAY, 0, warmer=3)
    assert forecast(run.folder, str(LAST)) == (path, True)
    assert float(abs(xr.load_dataset(path)["sst"] - before).max()) == pytest.approx(0.03, abs=0.02)
    put(store, dt.date(1997, 1, 1), 0, warmer=30)  # also the days that it was trained on
    with pytest.raises(SSTCastError, match="was trained on other data than"):
        forecast(run.folder, str(LAST))
