"""Training begins from the weights of another run, and the first loss is theirs."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import yaml
from logged import logged
from refusals import refused
from runs_of_training import ONE_STEP, setup
from scored_runs import configure
from untrained import make_run

from sstcast.config import RunConfig, load_config
from sstcast.errors import Interrupted
from sstcast.models import build_forecaster
from sstcast.storage.artefacts import digest
from sstcast.storage.paths import packaged
from sstcast.training.checkpoint import load_checkpoint, save_checkpoint
from sstcast.training.data_record import record_of
from sstcast.training.devices import start
from sstcast.training.engine import Trainer
from sstcast.training.forecast_task import ForecastTask
from sstcast.training.initial_weights import InitialWeights
from sstcast.training.train import train


def begun_from(place: object, *overrides: str) -> list[str]:
    return ["name=later", f"training.weights={place}", *overrides]


@pytest.mark.parametrize("base", ["persistence", "linear"])
def test_the_first_loss_is_that_of_the_weights(run_yaml: Path, base: str) -> None:
    """It equals the mean squared error that the other run's network has on the windows of the first step."""
    first, _ = train(*setup(run_yaml, f"model.base={base}", *ONE_STEP))
    config, windows = setup(run_yaml, *begun_from(first.folder, f"model.base={base}", *ONE_STEP))
    network = build_forecaster("mpnn-vn", history=10, horizon=5, shape=(8, 6), base=base, width=16, layers=2)
    network.load_state_dict(load_checkpoint(first.best)["model"])
    task = ForecastTask(windows, config.training, start(config.training))
    batch = task.batch(task.order(0, 0)[0])
    with torch.no_grad():
        expected = task.loss(network.train(), batch) / task.weight(batch)
    later, new = train(config, windows)
    assert new
    assert float(pd.read_csv(later.history)["train_loss"][0]) == pytest.approx(float(expected), rel=1e-6)
    assert record_of(later).initial_weights == digest(first.best)
    assert yaml.safe_load(later.config_file.read_text())["training"]["weights"] == str(first.folder)
    # Once it is trained, it no longer needs them.
    first.best.unlink()
    assert not train(config, windows)[1]


def test_keys_that_are_not_set_stay_out_of_files_but_not_of_recipes(run_yaml: Path) -> None:
    run, _ = train(*setup(run_yaml, *ONE_STEP))
    assert "weights" not in yaml.safe_load(run.config_file.read_text())["training"]
    assert "weights" not in load_checkpoint(run.best)["config"]["training"]
    assert run.config.experiment()["training"]["weights"] is None
    assert record_of(run).initial_weights is None


def test_a_checkpoint_and_an_average_begin_with_the_weights(run_yaml: Path) -> None:
    short = ["training.ema=0.9", "training.epochs=1", "training.windows_per_epoch=60"]
    first, _ = train(*setup(run_yaml, *short))
    saved = load_checkpoint(first.best)["model"]
    config, windows = setup(run_yaml, *begun_from(first.best, *short, "training.learning_rate=1e-30"))
    later, _ = train(config, windows)
    for name, weight in load_checkpoint(later.best)["model"].items():
        torch.testing.assert_close(weight, saved[name])


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["model.width=8"], "encoder.weight is [16, 10] there and [8, 10] here"),
        (["model.layers=3"], "is absent there and"),
        (["data.horizon=4"], "head.2.weight is [5, 32] there and [4, 32] here"),
        (["model={name: multiscale-ridge}"], "multiscale-ridge is solved in one step"),
        (
            ["data.splits.test=[2003-07-01, 2004-12-31]", "data.splits.validation=[2003-01-01, 2003-06-30]"],
            "2003-12-31",
        ),
    ],
)
def test_weights_that_do_not_fit_are_refused_before_anything_is_written(
    run_yaml: Path, overrides: list[str], words: str
) -> None:
    first = make_run(setup(run_yaml)[0])
    config, windows = setup(run_yaml, *begun_from(first.folder, *overrides))
    with refused("training.weights", words):
        train(config, windows)
    assert not config.folder.exists()


def test_weights_of_weights_that_learnt_from_the_test_days_are_refused(run_yaml: Path) -> None:
    """The second run learns only from 2001 and 2002, but begins from weights that learnt from 2001-2003."""
    first = make_run(setup(run_yaml)[0])
    early = ["data.splits.train=[2001, 2001]", "data.splits.validation=[2002-01-01, 2002-06-30]"]
    second = make_run(load_config(run_yaml, ["name=second", f"training.weights={first.folder}", *early]))
    late = [
        "data.splits.validation=[2002, 2002]",
        "data.splits.train=[2001, 2001]",
        "data.splits.test=[2003, 2003]",
    ]
    config = load_config(run_yaml, begun_from(second.folder, *late))
    with refused("training.weights", "2003-12-31"):
        train(config, setup(run_yaml)[1])


@pytest.mark.parametrize("place", ["nowhere", "empty", "notes.txt", "ensemble"])
def test_places_without_weights_are_refused(run_yaml: Path, tmp_path: Path, place: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("no weights")
    path = tmp_path / place
    if place == "ensemble":
        path = make_run(load_config(run_yaml, ["name=ensemble"]), (0, 1)).folder
    config, windows = setup(run_yaml, *begun_from(path))
    with refused("training.weights", "seed-0" if place == "ensemble" else str(path)):
        train(config, windows)
    assert not config.folder.exists()


def test_weights_and_cross_fitting_exclude_each_other(run_yaml: Path) -> None:
    with refused("training", "weights", "cross_fit"):
        load_config(run_yaml, ["training.weights=pretrained", "training.cross_fit=2", "model.base=linear"])


def test_pretrained_are_the_weights_that_ship(
    run_yaml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They learnt from days up to 2014. Nothing is copied to runs/."""
    monkeypatch.chdir(tmp_path)
    config, windows = setup(run_yaml, *begun_from("pretrained"))
    with refused("training.weights: pretrained", "2014-12-31"):
        train(config, windows)
    monkeypatch.setattr(InitialWeights, "config_as", lambda *_: RunConfig(**yaml.safe_load(run_yaml.read_text())))
    with refused("training.weights: pretrained", "do not fit this model"):
        train(config, windows)
    weights = load_checkpoint(packaged("data/pretrained/checkpoints/best.pt"))["model"]
    shipped = RunConfig(**yaml.safe_load(packaged("data/pretrained/config.yaml").read_text()))
    model = build_forecaster(history=42, horizon=28, shape=(30, 30), **shipped.model.model_dump())
    InitialWeights.read("pretrained").put_into(model, ("linear.", "share"))
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, weights[name])
    assert not any(tmp_path.glob("runs/pretrained*"))


def test_other_weights_are_refused_before_the_first_checkpoint(
    run_yaml: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make_run(setup(run_yaml)[0])
    config, windows = setup(run_yaml, *begun_from(first.folder, *ONE_STEP))
    with monkeypatch.context() as patch:  # a kill before the first step
        patch.setattr(Trainer, "fit", stop)
        with pytest.raises(Interrupted):
            train(config, windows)
    state = load_checkpoint(first.best)
    state["model"]["encoder.weight"] += 1
    save_checkpoint(first.best, first.config, model=state["model"])
    with refused("training.weights", "began with"):
        train(config, windows)


def stop(trainer: Trainer) -> None:
    raise Interrupted(15)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"kind": "forecast"}, "kind: grid, but this run with forecast"),
        ({"delay": 1}, "delay: 2, but this run with 1"),
        ({"units": "knots"}, "units: None, but this run with knots"),
        ({"variable": "v10"}, "variable: u10, but this run with v10"),
        ({"kind": "forecast", "perfect": True, "delay": 2}, "kind: grid"),
    ],
)
def test_weights_belong_to_what_they_read(tmp_path: Path, keys: dict[str, Any], words: str) -> None:
    weights = InitialWeights("training.weights: x", {}, None, "")
    grid = {"kind": "grid", "source": "wind.nc", "variable": "u10", "delay": 2}
    own, same, other = (
        configure(tmp_path, "sst.nc", predictors={"wind": predictor}).data
        for predictor in (grid, {**grid, "source": "other.nc", "missing": "climatology"}, {**grid, **keys})
    )
    with logged() as lines:
        weights.check_predictors(own, same)
    assert (
        "training.weights: x: read data.predictors.wind with source: wind.nc, but this run with other.nc" in lines
    )
    with refused("training.weights: x", words):
        weights.check_predictors(own, other)


def test_weights_of_perfect_forecasts_and_of_other_boxes_are_others(tmp_path: Path) -> None:
    weights = InitialWeights("training.weights: x", {}, None, "")
    ahead, box = (
        {"kind": "forecast", "source": "wind.nc"},
        {"kind": "index", "source": "sst.nc", "region": "nino34"},
    )
    for first, second, words in (
        ({**ahead, "perfect": True}, ahead, "perfect: True, but this run with False"),
        (ahead, {**ahead, "perfect": True}, "perfect: False"),
        (box, {**box, "region": "nino3"}, "region: nino34"),
        (
            {"kind": "index", "source": "a.csv", "span": "3 months"},
            {"kind": "index", "source": "a.csv"},
            "span: 3",
        ),
    ):
        own, other = (configure(tmp_path, "sst.nc", predictors={"a": each}).data for each in (first, second))
        with refused("training.weights: x: read data.predictors.a with", words):
            weights.check_predictors(own, other)
