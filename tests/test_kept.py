"""Files that sstcast 0.2.0 wrote open, and give the numbers that it gave.

`kept-0.2.0.tar.xz` has `sea.nc` (6 x 6 cells of the sample, 1982 to 1986) and what these commands made of it:
`init`, with a history of 14 days and a horizon of 7; `fetch --source sample`; `train` of the recommended system
(`sea`), of a network with a share on a base with a memory (`network`, then evaluated) and of a TF-Net (`plain`);
`forecast runs/network`; `score` of that forecast; and a `hindcast` of two folds.

`kept-0.2.0-points.tar.xz` has 4 x 4 of these cells, a place, observations at points, and what `evaluate` of a
local ridge and a `hindcast` of two folds made of them with `--places`, `--observations` and `--events`.
"""

import dataclasses
import datetime as dt
import json
import tarfile
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
import xarray as xr
from quick_drawing import draw_quickly

import sstcast
from sstcast.figures import catalogue
from sstcast.figures.sheets import sections_of
from sstcast.ocean.point_observations import PointObservations
from sstcast.ocean.prepared import Prepared
from sstcast.storage.artefacts import digest
from sstcast.training.checkpoint import load_checkpoint

ARCHIVE = Path(__file__).with_name("kept-0.2.0.tar.xz")
WITH_POINTS = Path(__file__).with_name("kept-0.2.0-points.tar.xz")
DAY = "1986-06-30"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the kept files, which is also the working folder."""
    monkeypatch.setattr(catalogue, "MAPS", {"maps": [catalogue.skill_maps]})  # tests of reports draw all
    return extract(ARCHIVE, tmp_path, monkeypatch)


def extract(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with tarfile.open(file) as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    prepared = Prepared.of(sstcast.load_config("sea.yaml").data).cube.parent  # named after the path of the source
    next(prepared.parent.glob("sea-*")).rename(prepared)
    return tmp_path


@pytest.fixture
def with_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The options that the kept scores at points were made with. Their recipes name the file where it lay then."""
    folder = extract(WITH_POINTS, tmp_path, monkeypatch)
    recipe = scores(folder / "runs/hindcast/metrics.json")["recipe"]["observations"]
    points = PointObservations.read(folder / "points.csv")
    kept = dataclasses.replace(points, path=Path("points.csv"), recipe=recipe)
    assert kept.recipe["digest"] == points.recipe["digest"]
    monkeypatch.setattr(PointObservations, "read", Mock(return_value=kept))
    return {"places": "places.csv", "observations": "points.csv", "events": True}


def scores(file: Path) -> dict[str, Any]:
    return json.loads(file.read_bytes())


def compare(after: dict[str, Any], before: dict[str, Any]) -> None:
    """Compare the errors of all systems, and the probabilistic scores, which no definition has changed."""
    for part in ("scores", "probabilities"):
        assert before[part].keys() <= after[part].keys()
        for system, expected in before[part].items():
            for units in ("physical", "standardised"):
                for name, value in expected.get(units, {}).items():
                    if isinstance(value, float):
                        assert after[part][system][units][name] == pytest.approx(value, abs=2e-5), (system, name)
            if expected.get("crps") is not None:
                assert after[part][system]["crps"] == pytest.approx(expected["crps"], abs=2e-5), system


def test_a_kept_network_forecasts_as_it_did(kept: Path) -> None:
    sstcast.forecast("runs/network", date=DAY, out="again.nc")
    with xr.open_dataset("forecast.nc") as before, xr.open_dataset("again.nc") as after:
        for name in ("sst", "sst_spread"):
            np.testing.assert_allclose(after[name], before[name], atol=1e-4)


@pytest.mark.parametrize("name", ["sea", "plain"])
def test_kept_runs_forecast_the_last_days(kept: Path, name: str) -> None:
    sstcast.forecast(f"runs/{name}", out="last.nc")
    with xr.open_dataset("last.nc") as forecast, xr.open_dataset("sea.nc") as sea:
        first = forecast["sst"].squeeze()[0]
        assert first.shape == (6, 6)
        assert float(abs(first - sea["sst"][-1].values).max()) < 1.5  # degC, in one day


def test_a_kept_store_holds_what_prepare_makes_today(kept: Path) -> None:
    config = sstcast.load_config("sea.yaml")
    before = sstcast.open(config)
    today = sstcast.load_config("sea.yaml", ["data.directory=data/again"])
    sstcast.prepare(today)
    for old, new in zip(before, sstcast.open(today), strict=True):
        for name in ("sst", "anomaly"):
            if name in old:
                np.testing.assert_allclose(old[name], new[name], atol=1e-6)


def test_kept_runs_are_trained(kept: Path) -> None:
    for name in ("sea", "network"):
        before = digest(kept / "runs" / name / "checkpoints/best.pt")
        sstcast.train(resume=f"runs/{name}")
        assert digest(kept / "runs" / name / "checkpoints/best.pt") == before


def test_a_training_without_its_last_checkpoint_ends_as_it_did(kept: Path) -> None:
    best = kept / "runs/plain/checkpoints/best.pt"
    before = load_checkpoint(best)["model"]
    sstcast.train(resume="runs/plain")
    for name, weights in load_checkpoint(best)["model"].items():
        torch.testing.assert_close(weights, before[name], rtol=1e-4, atol=1e-5)


def test_a_kept_network_scores_as_it_did(kept: Path) -> None:
    before = scores(kept / "runs/network/metrics.json")
    sstcast.evaluate("runs/network")
    compare(scores(kept / "runs/network/metrics.json"), before)
    sstcast.report("runs/network")
    assert "<img" in (kept / "runs/network/report.html").read_text()


def test_a_kept_forecast_scores_as_it_did(kept: Path) -> None:
    before = scores(kept / "scored/metrics.json")
    sstcast.score("forecast.nc", truth="sea.yaml", out="again")
    compare(scores(kept / "again/metrics.json"), before)


def test_a_kept_hindcast_is_reported_and_scores_as_it_did(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_quickly(monkeypatch)
    before = scores(kept / "runs/hindcast/metrics.json")
    sstcast.hindcast(["sea.yaml"], "1985:1986", fold=1, every=30, out="runs/hindcast")
    compare(scores(kept / "runs/hindcast/metrics.json"), before)
    sstcast.report("runs/hindcast")


def test_a_kept_raw_store_takes_more_days(kept: Path) -> None:
    sstcast.fetch("sample", end=dt.date(1982, 1, 25), region="147,150,-44,-41", out="raw.zarr")
    with xr.open_zarr("raw.zarr", consolidated=False) as raw:
        days = raw["sst"].notnull().any(("lat", "lon")).sum()
    assert days == 25


def test_kept_scores_of_places_points_and_events_are_not_made_again(with_points: dict[str, Any]) -> None:
    before = scores(Path("runs/sea/metrics.json"))
    assert {"places", "points", "areas", "events"} < before.keys()
    titles = [sheet.title for sheets in sections_of(before, "sea").values() for sheet in sheets]
    assert any(title.startswith("Warnings of a heatwave") for title in titles)
    assert not any("as often as the event" in title for title in titles)  # whose tables they lack
    for options in ({}, with_points):  # what was asked last is kept
        kept = sstcast.evaluate("runs/sea", **options)
        assert not kept.new
        assert kept.value == before


def test_kept_folds_are_joined_and_not_verified_again(with_points: dict[str, Any]) -> None:
    def again() -> sstcast.Result[dict[str, Any]]:
        options = {"fold": 1, "validation": 1, "every": 21, "out": "runs/hindcast", **with_points}
        return sstcast.hindcast(["sea.yaml"], "1985:1986", **options)

    before = scores(Path("runs/hindcast/metrics.json"))
    assert not again().new
    files = {file: file.read_bytes() for file in Path("runs/hindcast").rglob("*.nc") if file.name != "scores.nc"}
    Path("runs/hindcast/metrics.json").unlink()
    joined = again()
    assert joined.new
    compare(joined.value, before)
    for part in ("points", "areas", "events", "terciles", "heatwaves"):
        assert same(joined.value[part], before[part]), part
    assert files == {file: file.read_bytes() for file in files}


REDEFINED = ("interval", "ratio_interval", "left_out")  # since then, and told in other words


def same(after: Any, before: Any) -> bool:
    """Whether nested scores agree, whatever the processor, but for what has been `REDEFINED`."""
    if isinstance(before, dict):
        return all(key in REDEFINED or same(after[key], before[key]) for key in before)
    if isinstance(before, list):
        return len(after) == len(before) and all(map(same, after, before))
    return after == (pytest.approx(before, abs=2e-5) if isinstance(before, float) else before)
