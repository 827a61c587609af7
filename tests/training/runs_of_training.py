"""Helpers for tests that train. As a script, it trains under SIGKILL:

    python runs_of_training.py YAML KILLS

trains `small` undisturbed and `disturbed` with so many kills, and prints how many hit a running process.
"""

import importlib
import os
import random
import signal
import sys
import time
from functools import cache
from pathlib import Path

import dask
import torch

from sstcast.config import DataConfig, RunConfig, load_config
from sstcast.ocean.prepare import prepare
from sstcast.ocean.windows import Windows, cut_windows
from sstcast.runs import Run
from sstcast.training.checkpoint import load_checkpoint, step_checkpoints
from sstcast.training.train import train

ONE_STEP = ["training.epochs=1", "training.windows_per_epoch=20", "training.batch_size=20"]


def setup(path: Path, *overrides: str) -> tuple[RunConfig, dict[str, Windows]]:
    """Load a configuration and cut its windows."""
    config = load_config(path, list(overrides))
    return config, dict(_windows(config.data.model_dump_json()))


@cache
def _windows(data: str) -> dict[str, Windows]:
    """Prepare and cut windows once for all runs on them, which only read their values."""
    config = DataConfig.model_validate_json(data)
    _, anomalies = prepare(config).open()
    return {split: cut_windows(anomalies, config, split) for split in ("train", "validation")}


def weights(run: Run) -> dict[str, torch.Tensor]:
    """Return the newest weights."""
    return load_checkpoint(step_checkpoints(run.checkpoints)[-1])["model"]


def train_in_a_child(config: RunConfig, windows: dict[str, Windows]) -> int:
    """Start training in a process of its own, which needs no imports; return its number."""
    child = os.fork()
    if child == 0:
        try:
            with dask.config.set(scheduler="synchronous"):  # dask's threads do not survive a fork
                train(config, windows)
        finally:
            os._exit(0)
    return child


def main() -> None:
    """Train twice, once killed again and again."""
    path, kills = Path(sys.argv[1]), int(sys.argv[2])
    importlib.import_module("sstcast.training.engine")  # once, and not in each child
    options = ["training.epochs=4", "training.windows_per_epoch=100", "training.checkpoint_steps=3"]
    options += ["model.dropout=0.1", "training.ema=0.9"]
    config, windows = setup(path, *options)
    os.waitpid(train_in_a_child(config, windows), 0)
    config, windows = setup(path, *options, "name=disturbed")
    moments, hits, folder = random.Random(0), 0, Run(config.folder).checkpoints
    for _ in range(kills):
        kept = step_checkpoints(folder)
        child = train_in_a_child(config, windows)
        while step_checkpoints(folder)[-1:] == kept[-1:]:  # until it has saved more
            time.sleep(0.002)
        time.sleep(moments.uniform(0, 0.05))
        os.kill(child, signal.SIGKILL)
        hits += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    train(config, windows)
    print("kills", hits)


if __name__ == "__main__":
    main()
