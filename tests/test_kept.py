"""What a folder holds is used again: trainings end, stores grow, and scores are made once."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
import yaml
from scored_runs import configure
from small_ocean import make_sst

import sstcast
from sstcast.training.checkpoint import load_checkpoint, step_checkpoints

DAY = "2004-06-30"
REGION = {"lon": [170, 171.5], "lat": [-12, -10], "tile": [8, 6]}
QUICK = {"epochs": 2, "windows_per_epoch": 100, "checkpoint_steps": 2}
SPLITS = {"train": [2001, 2002], "validation": [2003, 2003], "test": ["2004-05-15", "2004-07-15"]}
ASKED: dict[str, Any] = {"places": "places.csv", "observations": "points.csv", "events": True}
HINDCAST: dict[str, Any] = {"fold": 1, "validation": 1, "every": 21, "out": "runs/hindcast", **ASKED}
RAW: dict[str, Any] = {"region": "147,150,-44,-41", "out": "raw.zarr"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trained and evaluated network, its forecast, scores, a hindcast and fetched days."""
    made = tmp_path_factory.mktemp("kept")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        sst = make_sst(years=5, cols=6)
        sst.to_netcdf("sea.nc", engine="netcdf4")
        Path("places.csv").write_text("name,lat,lon\nbay,-10.9,171.1\n")
        at = sst["sst"].sel(time=slice("2004", "2005")).isel(lat=5, lon=4)[::7]
        lat, lon = float(at["lat"]), float(at["lon"])
        points = pd.DataFrame({"time": at["time"], "lat": lat, "lon": lon, "sst": at + 1})
        points.assign(platform=np.arange(len(at)) % 4).to_csv("points.csv", index=False)
        models = {"network": {"name": "mlp-pointwise", "width": 8}, "local": {"name": "local-ridge"}}
        for name, model in models.items():
            config = configure(Path(), "sea.nc", name, model, QUICK, splits=SPLITS, region=REGION)
            Path(f"{name}.yaml").write_text(yaml.safe_dump(config.model_dump(mode="json")))
        sstcast.train("network.yaml")
        sstcast.evaluate("runs/network", **ASKED)
        sstcast.forecast("runs/network", date=DAY, out="forecast.nc")
        sstcast.score("forecast.nc", truth="network.yaml", out="scored")
        sstcast.hindcast(["local.yaml"], "2004:2005", **HINDCAST)
        sstcast.fetch("sample", end=dt.date(1982, 1, 15), **RAW)
    return made


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in the folder."""
    monkeypatch.chdir(folder)


def scores(folder: str) -> dict[str, Any]:
    return json.loads(Path(folder, "metrics.json").read_bytes())


def test_a_training_without_its_last_checkpoint_ends_the_same() -> None:
    run = Path("runs/network/checkpoints")
    before = load_checkpoint(run / "best.pt")["model"]
    step_checkpoints(run)[-1].unlink()
    sstcast.train(resume="runs/network")
    after = load_checkpoint(run / "best.pt")["model"]
    assert before.keys() == after.keys()
    for name, weights in after.items():
        torch.testing.assert_close(weights, before[name], rtol=1e-4, atol=1e-5)


def test_a_raw_store_takes_more_days() -> None:
    with xr.open_zarr("raw.zarr", consolidated=False) as raw:
        before = raw["sst"].load()
    sstcast.fetch("sample", end=dt.date(1982, 1, 25), **RAW)
    with xr.open_zarr("raw.zarr", consolidated=False) as raw:
        days = raw["sst"].notnull().any(("lat", "lon"))
        assert int(days.sum()) == 25
        np.testing.assert_array_equal(raw["sst"][:15], before[:15])


def test_the_same_forecast() -> None:
    assert not sstcast.forecast("runs/network", date=DAY, out="forecast.nc").new
    sstcast.forecast("runs/network", date=DAY, out="again.nc")
    with xr.open_dataset("forecast.nc") as before, xr.open_dataset("again.nc") as after:
        xr.testing.assert_equal(before, after)


def test_a_file_is_scored_once_and_the_same_elsewhere() -> None:
    before = scores("scored")
    assert not sstcast.score("forecast.nc", truth="network.yaml", out="scored").new
    assert sstcast.score("forecast.nc", truth="network.yaml", out="elsewhere").new
    assert scores("scored") == scores("elsewhere") == before


def test_what_was_asked_last_is_kept() -> None:
    before = scores("runs/network")
    assert {"places", "points", "areas", "events"} < before.keys()
    for options in ({}, ASKED):
        again = sstcast.evaluate("runs/network", **options)
        assert not again.new
        assert again.value == before


def test_folds_are_joined_and_not_verified_again() -> None:
    before = scores("runs/hindcast")
    assert {"places", "points", "areas", "events", "terciles"} < before.keys()
    assert not sstcast.hindcast(["local.yaml"], "2004:2005", **HINDCAST).new
    files = {file: file.read_bytes() for file in Path("runs/hindcast").rglob("*.nc") if file.name != "scores.nc"}
    assert len(files) >= 4  # of the system and of the baselines in both folds
    Path("runs/hindcast/metrics.json").unlink()
    joined = sstcast.hindcast(["local.yaml"], "2004:2005", **HINDCAST)
    assert joined.new
    assert joined.value == before
    assert files == {file: file.read_bytes() for file in files}
