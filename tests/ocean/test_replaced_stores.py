"""A process that holds stores while another prepares them again returns and keeps nothing of both."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import xarray as xr
from scored_runs import configure, make_run
from small_ocean import make_sst

import sstcast
from sstcast.config import ModelConfig
from sstcast.errors import SSTCastError
from sstcast.extremes import heatwaves, records
from sstcast.extremes.heatwaves import limits_of
from sstcast.extremes.terciles import terciles_of
from sstcast.forecasting.spread import calibrated
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared
from sstcast.runs import Run
from sstcast.scores.evaluate import evaluate
from sstcast.storage.artefacts import open_intact
from sstcast.training.data_record import record_of
from sstcast.training.train import train, training_windows

WORDS = r"was prepared again from other days while it was read; load the run again$"
DAYS = -60  # which the file lacks at first
SPLITS = {
    "train": [2001, 2001],
    "validation": ["2002-01-01", "2002-02-28"],
    "test": ["2002-03-01", "2002-06-30"],
}


def write(run: Run, warmer: float = 0, last: int | None = DAYS) -> None:
    sst = make_sst(2)
    sst["sst"] += warmer
    sst.isel(time=slice(None, last)).to_netcdf(run.config.data.source, engine="netcdf4")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    """A run beside its source and stores, and a copy of all of them."""
    folder = tmp_path_factory.mktemp("made")
    make_sst(2).isel(time=slice(None, DAYS)).to_netcdf(folder / "small.nc", engine="netcdf4")
    run = make_run(configure(folder, folder / "small.nc", splits=SPLITS))
    return run, shutil.copytree(folder, tmp_path_factory.mktemp("copies") / "made")


@pytest.fixture
def run(made: tuple[Run, Path]) -> Run:
    """The run, and its source and stores as they were made, in the same place."""
    run, copy = made
    shutil.rmtree(folder := run.config.runs.parent)
    shutil.copytree(copy, folder)
    return Run(run.folder)


def opened(run: Run) -> Prepared:
    held = Prepared.of(run.config.data)
    held.open()
    held.open_statistics()
    return held


def again(run: Run, warmer: float = 0, last: int | None = DAYS) -> None:
    """Prepare the stores again, as another process does, or put them there as they were prepared then."""
    folder, stores = run.config.runs.parent, run.config.data.directory
    if not (copy := folder.with_name(f"{folder.name}-{warmer}-{last}")).exists():
        write(run, warmer, last)
        shutil.rmtree(Prepared.of(run.config.data).cube)
        prepare(run.config.data)
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("runs"))
        return
    shutil.rmtree(stores)
    shutil.copytree(copy, folder, dirs_exist_ok=True)


KEPT: dict[str, Callable[[Run, Prepared], object]] = {
    "limits": lambda run, held: limits_of(held),
    "terciles": lambda run, held: terciles_of(held),
    "spread": lambda run, held: calibrated(run, held),
}


def test_tables_of_other_days_are_not_kept(run: Run) -> None:
    held = {kind: opened(run) for kind in KEPT}
    again(run, warmer=3)
    for kind, make in KEPT.items():
        with pytest.raises(SSTCastError, match=WORDS):
            make(run, held[kind])
        assert not [*held[kind].cube.parent.glob("*.nc"), *run.folder.glob("*.nc")], kind
    for make in KEPT.values():
        make(run, opened(run))


def test_stores_replaced_while_a_table_is_computed(run: Run) -> None:
    held, found = opened(run), []

    def of_bands(sst: xr.DataArray) -> xr.Dataset:
        found.append(made := of_stores(sst))
        if len(found) == 1:
            again(run, last=None)  # the same days, and two months more
        return made

    of_stores = heatwaves._by_bands
    with patch.object(heatwaves, "_by_bands", of_bands):
        limits = limits_of(held)
    assert len(found) == 2  # read once more
    xr.testing.assert_identical(limits, limits_of(opened(run)))


def test_a_loaded_run_forecasts_on_from_the_same_days_alone(run: Run) -> None:
    loaded, history = sstcast.load(run), make_sst(2)["sst"].sel(time=slice(None, "2002-06-30"))
    expected = loaded.forecast(history)
    again(run, last=None)
    xr.testing.assert_equal(loaded.forecast(history), expected)
    again(run, warmer=3)
    with pytest.raises(SSTCastError, match=WORDS):
        loaded.forecast(history)


def test_nothing_of_two_states_is_scored(run: Run) -> None:
    changed = []

    def with_change(data: Prepared, *names: str) -> xr.Dataset:
        if not changed:
            changed.append(True)
            again(run, warmer=3)
        return of_stores(data, *names)

    of_stores = limits_of
    with patch("sstcast.scores.analysis.limits_of", with_change), pytest.raises(SSTCastError, match=WORDS):
        evaluate(run)
    assert not run.metrics.exists()
    assert not run.forecasts.exists()


def test_events_of_two_states_are_not_written(run: Run) -> None:
    def with_change(*arguments: Any) -> xr.Dataset:
        again(run, warmer=3)
        return of_days(*arguments)

    of_days = records.events_of_cells
    with patch.object(records, "events_of_cells", with_change), pytest.raises(SSTCastError, match=WORDS):
        sstcast.heatwaves(run.folder)
    assert not (run.folder / "heatwaves.nc").exists()


def test_a_run_records_the_days_that_it_was_trained_on(run: Run) -> None:
    """An ensemble is trained for hours after its windows were cut."""
    config = run.config.model_copy(update={"name": "second", "model": ModelConfig(name="multiscale-ridge")})
    held = Prepared.of(config.data)
    windows, unread = training_windows(config, held), opened(run)
    again(run, last=None)
    second, _ = train(config, windows, held)
    again(run, warmer=3)
    third, _ = train(config.model_copy(update={"name": "third"}), windows, held)
    assert record_of(third).cube == record_of(second).cube != Prepared.of(config.data).record().cube
    with pytest.raises(SSTCastError, match=WORDS):
        train(config.model_copy(update={"name": "fourth"}), windows, unread)
    assert not Run(run.folder.with_name("fourth")).data.exists()


def test_a_store_that_is_renamed_while_it_is_opened_is_opened_again(run: Run) -> None:
    held, calls = Prepared.of(run.config.data), []

    def renamed_meanwhile(path: Path, *arguments: Any) -> xr.Dataset:
        calls.append(path)
        if len(calls) > 1:
            return open_intact(path, *arguments)
        aside = path.rename(path.with_name("aside"))
        try:
            return open_intact(path, *arguments)
        finally:
            shutil.copytree(aside, path)

    with patch("sstcast.ocean.prepared.open_intact", renamed_meanwhile):
        assert held.open_cube()["sst"].notnull().any()
    assert calls == [held.cube] * 2
    shutil.rmtree(held.cube)
    with pytest.raises(SSTCastError, match="does not exist; run `sstcast prepare`"):
        opened(run)


def test_stores_of_a_killed_preparation_are_prepared_again(run: Run) -> None:
    """The cube is new, and statistics and anomalies are not: without this, anomalies of the old days were read."""
    held = opened(run)
    assert Prepared.of(run.config.data).is_current
    old = held.cube.parent.parent / "old"
    shutil.copytree(held.cube.parent, old)
    again(run, warmer=0.5)
    for store in (held.statistics, held.anomalies):
        shutil.rmtree(store)
        shutil.copytree(old / store.name, store)
        shutil.copy(old / f".{store.name}.note", store.with_name(f".{store.name}.note"))
    assert not Prepared.of(run.config.data).is_current
    with pytest.raises(SSTCastError, match=r"was made from other days .*; run `sstcast prepare`"):
        opened(run)
    prepare(run.config.data)
    assert Prepared.of(run.config.data).is_current
    recipe = json.loads(opened(run).open_anomalies().attrs["recipe"])
    assert recipe["days"] != json.loads(xr.open_zarr(old / held.anomalies.name).attrs["recipe"])["days"]
    assert np.isfinite(opened(run).open_anomalies()["anomaly"].values).any()
