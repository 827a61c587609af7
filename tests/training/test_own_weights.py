"""A run forecasts with its own weights: those of another run, fold, seed or step are refused in one line."""

import shutil
from pathlib import Path

import pytest
import torch
from logged import logged
from refusals import refused
from runs_of_training import setup
from untrained import make_run

from sstcast.config import load_config
from sstcast.forecasting.system import system_of
from sstcast.runs import Run
from sstcast.storage.artefacts import digest
from sstcast.training.checkpoint import load_checkpoint, save_checkpoint, step_checkpoints
from sstcast.training.data_record import record_of
from sstcast.training.train import train

LINEAR = ["model={name: multiscale-ridge}"]
SHORT = ["training.windows_per_epoch=40"]


def trained(path: Path, *overrides: str) -> Run:
    return train(*setup(path, *overrides))[0]


def test_weights_of_another_run_are_refused(run_yaml: Path) -> None:
    config, windows = setup(run_yaml, *SHORT, "training.checkpoint_steps=1", "training.keep=9")
    run, _ = train(config, windows)
    system_of(run)
    assert record_of(run).weights == digest(run.best)
    files = {"holds other weights than the training ended with": step_checkpoints(run.checkpoints)[0]}
    for change in (
        "training.seed=1",
        "data.splits.validation=[2003-01-01, 2003-06-30]",
        "model.dropout=0.1",
        "training.epochs=1",
    ):
        key = change.split("=")[0]
        files[f"{key} differs"] = make_run(load_config(run_yaml, [*SHORT, f"name={key}", change])).best
    for words, file in files.items():
        run.best.write_bytes(file.read_bytes())
        with refused(run.best, words):
            system_of(run)
        with refused(run.best, words):
            train(load_config(run.config_file), windows)


def test_each_member_has_its_own_seed_and_the_configuration_of_the_ensemble(
    run_yaml: Path, tmp_path: Path
) -> None:
    ensemble = make_run(setup(run_yaml)[0], (0, 1))
    system_of(ensemble)
    copy = Run(tmp_path / "copy")
    copy_tree(ensemble.folder, copy.folder)
    first, second = copy.members
    first.best.write_bytes(second.best.read_bytes())
    with refused(first.best, "training.seed differs"):
        system_of(copy)
    copy_tree(ensemble.folder, copy.folder)
    copy.config_file.write_text(copy.config_file.read_text().replace("width: 16", "width: 9"))
    with refused(first.best, "model.width differs"):
        system_of(copy)


def copy_tree(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


@pytest.mark.parametrize("model", [[], LINEAR])
def test_a_kill_before_the_digest_is_recorded_refuses_nothing(
    run_yaml: Path, model: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config, windows = setup(run_yaml, *model, *SHORT)
    with monkeypatch.context() as patch:
        patch.setattr("sstcast.training.train.close_training", lambda run, config: None)
        run, _ = train(config, windows)
    system_of(run)
    system_of(run)
    assert capsys.readouterr().err.count("its weights are not checked") == 1
    assert not train(config, windows)[1]
    assert record_of(run).weights == digest(run.best)


def test_training_again_after_its_checkpoints_are_gone(run_yaml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, windows = setup(run_yaml, *LINEAR)
    run, _ = train(config, windows)
    run.best.unlink()
    state = Run(run.folder)
    with monkeypatch.context() as patch:
        patch.setattr("sstcast.training.train.close_training", lambda run, config: None)
        train(config, windows)
    assert record_of(state).weights is None
    system_of(run)


def test_data_may_move_and_later_keys_count_as_their_defaults(
    run_yaml: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(load_config(run_yaml))
    state = load_checkpoint(run.best)
    for change in ({"source": "elsewhere.nc", "directory": "elsewhere"}, {}):
        moved = run.config.model_dump(mode="json")
        moved["data"] |= change
        moved |= {"name": "other", "runs": "others"}
        moved["training"] |= {"device": "auto", "keep": 7, "checkpoint_minutes": 3.0}
        del moved["training"]["cross_fit"], moved["data"]["gaps"]
        moved["also"] = []  # which earlier versions wrote
        torch.save(state | {"config": moved}, run.best)
        load_checkpoint(run.best, run.config)
    assert "base_period" not in run.config_file.read_text()


def test_a_step_of_another_run_is_not_resumed(run_yaml: Path) -> None:
    options = [*SHORT, "training.checkpoint_steps=1"]
    run, other = trained(run_yaml, *options), trained(run_yaml, *options, "name=other", "training.seed=1")
    ours, theirs = (step_checkpoints(one.checkpoints) for one in (run, other))
    ours[-1].write_bytes(theirs[-1].read_bytes())
    with logged() as lines:
        train(*setup(run_yaml, *options))
    assert any("(training.seed differs); trying the previous one" in line for line in lines)


def test_a_checkpoint_without_values_is_refused(run_yaml: Path) -> None:
    run = make_run(setup(run_yaml)[0])
    state = load_checkpoint(run.best)
    model = {name: weight.to("meta") for name, weight in state["model"].items()}
    save_checkpoint(run.best, run.config, model=model)
    with refused(run.best, "cannot be read (it holds no values)"):
        system_of(run)
