"""Training survives kills and damaged checkpoints, and stops at losses that are not finite."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from logged import logged
from runs_of_training import ONE_STEP, setup, weights

from sstcast.config import load_config
from sstcast.errors import SSTCastError
from sstcast.runs import Run
from sstcast.training.checkpoint import load_checkpoint, newest_checkpoint, step_checkpoints
from sstcast.training.devices import start
from sstcast.training.forecast_task import ForecastTask
from sstcast.training.train import train

SCRIPT = Path(__file__).parent / "runs_of_training.py"


def test_kills_change_no_bit(run_yaml: Path) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}  # a forked process has no threads
    out = subprocess.run(
        [sys.executable, SCRIPT, run_yaml, "2"], env=environment, capture_output=True, text=True, check=True
    )
    assert out.stdout.splitlines()[-1] == "kills 2"
    calm, disturbed = (Run(load_config(run_yaml).runs / name) for name in ("small", "disturbed"))
    ours, theirs = (load_checkpoint(step_checkpoints(run.checkpoints)[-1]) for run in (calm, disturbed))
    for part in ("model", "ema"):
        for name, value in ours[part].items():
            assert torch.equal(value, theirs[part][name]), name
    best = [load_checkpoint(run.best) for run in (calm, disturbed)]
    assert best[0]["epoch"] == best[1]["epoch"]
    histories = [pd.read_csv(run.history).drop(columns="seconds") for run in (calm, disturbed)]
    pd.testing.assert_frame_equal(*histories)
    pd.testing.assert_frame_equal(*(pd.read_csv(run.curve) for run in (calm, disturbed)))


def test_a_kill_after_the_last_checkpoint_loses_no_file(run_yaml: Path) -> None:
    config, windows = setup(run_yaml, *ONE_STEP)
    run, _ = train(config, windows)
    kept = {path: path.read_text() for path in (run.history, run.curve)}
    for path in kept:
        path.unlink()
    train(config, windows)
    assert {path: path.read_text() for path in kept} == kept


def test_a_damaged_checkpoint_is_left_out(run_yaml: Path) -> None:
    options = ["training.checkpoint_steps=1", "training.windows_per_epoch=60"]
    config, windows = setup(run_yaml, *options)
    run, _ = train(config, windows)
    end = weights(run)
    newest = step_checkpoints(run.checkpoints)
    assert len(newest) == config.training.keep
    newest[-1].write_bytes(newest[-1].read_bytes()[:500])
    newest[-1].with_name("step-000000999.pt").write_bytes(b"")
    with logged() as lines:
        again, new = train(config, windows)
    assert new
    assert any(f"{newest[-1].name}: cannot be read" in line for line in lines)
    assert step_checkpoints(run.checkpoints) == newest  # the damaged one is not among the two that are kept
    assert all(torch.equal(value, weights(again)[name]) for name, value in end.items())
    for path in step_checkpoints(run.checkpoints):
        path.write_bytes(b"")
    with pytest.raises(SSTCastError, match=r"checkpoints: no checkpoint in it can be read; delete"):
        train(config, windows)


def test_a_loss_that_is_not_finite(run_yaml: Path) -> None:
    config, windows = setup(run_yaml, "training.checkpoint_steps=1")
    poisoned = windows["train"].values.clone()
    poisoned[400, 1] = np.inf
    windows["train"] = replace(windows["train"], values=poisoned)
    with pytest.raises(SSTCastError) as stop:
        train(config, windows)
    message = str(stop.value)
    assert "the loss is not finite at epoch" in message
    assert "\n" not in message
    assert "tile 1, 2002-01-" in message or "tile 1, 2002-02-" in message, message
    kept = newest_checkpoint(config.folder / "checkpoints")
    assert kept is not None
    assert f"last good checkpoint: {kept[0].name}" in message
    assert all(torch.isfinite(value).all() for value in kept[1]["model"].values())


@pytest.mark.parametrize("value", [np.nan, -np.inf, 1e30])
def test_windows_to_blame_are_named_first(run_yaml: Path, value: float) -> None:
    config, windows = setup(run_yaml)
    values = windows["train"].values.clone()
    values[400, 1] = value  # the 5th of February 2002
    windows["train"] = replace(windows["train"], values=values)
    task = ForecastTask(windows, config.training, start(config.training))
    index = torch.tensor([2 * 10, 2 * 11 + 1, 2 * 500, 2 * 501, 2 * 395 + 1, 2 * 395])
    assert task.describe(index).startswith("windows tile 1, 2002-01-31 to 2002-02-14; tile 0, ")


def test_a_validation_score_that_is_not_finite(run_yaml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ForecastTask, "validate", lambda *_: {"mse": np.nan})
    config, windows = setup(run_yaml, *ONE_STEP)
    with pytest.raises(SSTCastError, match=r"validation score is not finite after epoch 1: .*learning_rate"):
        train(config, windows)
