"""Runs on short records go on forecasting while days are added."""

import datetime as dt
from pathlib import Path

import numpy as np
import pytest
import scored_runs
import xarray as xr
from logged import logged
from scored_runs import configure
from small_ocean import make_sst

from sstcast.config import load_config
from sstcast.errors import SSTCastError
from sstcast.forecasting.forecast import forecast
from sstcast.forecasting.loaded_run import LoadedRun
from sstcast.forecasting.places_told import lines_of_places
from sstcast.forecasting.system import system_of
from sstcast.ocean.prepare import prepare
from sstcast.places.places import Places
from sstcast.reports.update import MADE, update
from sstcast.runs import Run
from sstcast.training.checkpoint import load_checkpoint
from sstcast.training.train import train, training_windows

SPLITS = "{train: [2001, 2001], validation: [2002-01-01, 2002-06-30], test: [2002-07-01, 2002-12-31]}"


def trained(run_yaml: Path, source: Path, *overrides: str) -> Run:
    options = [f"data.source={source}", f"data.splits={SPLITS}", f"data.directory={source.parent}/p"]
    config = load_config(run_yaml, [*options, *overrides])
    prepare(config.data)
    return train(config, training_windows(config))[0]


def write(source: Path, days: int) -> None:
    source.unlink(missing_ok=True)
    make_sst(years=8).isel(time=slice(days)).to_netcdf(source, engine="netcdf4")


def test_a_record_under_five_years_keeps_its_splits(
    run_yaml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sstcast.reports.update.write_forecast_page", lambda file, page, **_: (page, False))
    source = tmp_path / "sst.nc"
    write(source, 730)
    run = trained(run_yaml, source, "model={name: multiscale-ridge}")
    before = forecast(run.folder, "2002-12-31", tmp_path / "before.nc")[0]
    write(source, 730 + 100)  # into 2003, as far as a window of the new year
    assert update(run.folder).code == MADE
    assert forecast(run.folder)[0].name == "forecast-2003-04-10.nc"
    after = forecast(run.folder, "2002-12-31", tmp_path / "after.nc")[0]
    with xr.open_dataset(before) as one, xr.open_dataset(after) as other:
        np.testing.assert_array_equal(one["sst"], other["sst"])


def test_a_memory_comes_with_a_longer_record(
    run_yaml: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "sst.nc"
    write(source, 730)
    run = trained(run_yaml, source, "model={name: local-ridge, memory: true}")
    assert capsys.readouterr().err.count("runs/small: fitted without memory") == 1
    assert system_of(run).before == 0
    write(source, 2922)
    path, new = forecast(run.folder)
    assert new
    with xr.open_dataset(path) as made:
        assert made["init_time"].values.astype("datetime64[D]").item() == dt.date(2008, 12, 31)
        assert made["sst"].notnull().any()
    assert not forecast(run.folder)[1]
    loaded, days = LoadedRun(run.folder), make_sst(years=8)["sst"][-400:]
    fetched = loaded.forecast(days.assign_coords(preliminary=("time", np.arange(400) > 397)))
    assert fetched.attrs["data"].endswith("preliminary days: 2008-12-30..2008-12-31")
    assert loaded.system.models[0].before > 0
    xr.testing.assert_equal(fetched["sst"].drop_attrs(), loaded.forecast(days)["sst"].drop_attrs())


def test_points_need_no_samples_and_the_share_of_the_sea_has_no_interval_without(
    tmp_path: Path, sst_file: Path, sites: Path
) -> None:
    splits = {"train": [2001, 2001], "validation": [2003, 2003], "test": [2004, 2004]}
    run = scored_runs.make_run(configure(tmp_path, sst_file, splits=splits))
    path = tmp_path / "farms.csv"
    path.write_text("name,lat,lon\nfarm,-10.3,171.3\n")
    with logged() as lines:
        made, _ = forecast(run.folder, "2004-03-10", tmp_path / "c.nc", places=Places.read(path))
    told = f"{run.folder}: too few training days for joint samples: points have no means of weeks"
    assert told in lines
    no_interval = f"{made}: the share of the sea in a heatwave has no interval; there are too few training days"
    assert any(line.startswith(no_interval) for line in lines)
    fields = xr.load_dataset(made)
    assert "heatwave_area_quantile" not in fields
    assert fields["place_sst"].notnull().all()
    assert fields["place_week_heatwave_probability"].notnull().all()
    assert fields["place_week_sst"].isnull().all()
    (line,) = lines_of_places(fields.isel(init_time=-1), Path("c-places.csv"))
    assert line.startswith("farm: a heatwave day in week 1: ")
    kept = Places.from_geojson(Places.read(sites).geojson)
    with pytest.raises(SSTCastError, match="--samples 100: needs 100 stretches"):
        forecast(run.folder, "2004-03-10", tmp_path / "c.nc", places=Places.read(sites))
    with logged() as lines:
        made, _ = forecast(run.folder, "2004-03-10", tmp_path / "c.nc", places=kept)
    assert f"{told}, and areas no forecast" in lines
    assert xr.load_dataset(made)["place_sst"].isnull().all(("init_time", "lead")).values.tolist() == [
        False,
        True,
        True,
    ]


def test_a_base_without_the_memory_that_it_was_to_have_is_told_once(
    run_yaml: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cross-fitting fits it to each block as well. The weights keep it, so nothing tells it again."""
    source = tmp_path / "sst.nc"
    write(source, 730)
    model = "model={name: mlp-pointwise, width: 8, base: {name: linear, memory: true}}"
    splits = (
        "data.splits={train: [2001-01-01, 2002-03-31], validation: [2002-04-01, 2002-08-31], test: [2002-09-01, "
    )
    training = "training={epochs: 1, windows_per_epoch: 20, device: cpu, compile: false, cross_fit: 2}"
    run = trained(run_yaml, source, model, splits + "2002-12-31]}", training)
    assert capsys.readouterr().err.count("fitted without memory") == 1
    assert not load_checkpoint(run.best)["model"]["linear.remembers"]
    assert trained(run_yaml, source, model, splits + "2002-12-31]}", training) == run
    assert system_of(run).before == 0
    assert "without memory" not in capsys.readouterr().err
