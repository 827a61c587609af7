"""Helpers for tests that train. As a script, it trains under SIGKILL:

    python runs_of_training.py YAML KILLS

trains `small` undisturbed and `disturbed` with so many kills, and prints how many hit a running process.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import dask
import torch

from sstcast.config import RunConfig, load_config
from sstcast.ocean.prepare import prepare
from sstcast.ocean.windows import Windows, cut_windows
from sstcast.runs import Run
from sstcast.training.checkpoint import load_checkpoint, step_checkpoints
from sstcast.training.train import train


def setup(path: Path, *overrides: str) -> tuple[RunConfig, dict[str, Windows]]:
    """Load a configuration and cut its windows."""
    config = load_config(path, list(overrides))
    _, anomalies = prepare(config.data).open()
    return config, {split: cut_windows(anomalies, config.data, split) for split in ("train", "validation")}


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
    options = ["training.epochs=4", "training.checkpoint_steps=3", "model.dropout=0.1", "training.ema=0.9"]
    config, windows = setup(path, *options)
    started = time.monotonic()
    os.waitpid(train_in_a_child(config, windows), 0)
    whole = time.monotonic() - started
    config, windows = setup(path, *options, "name=disturbed")
    moments, hits = random.Random(0), 0
    for _ in range(kills):
        child = train_in_a_child(config, windows)
        time.sleep(moments.uniform(0.01, 0.08) * whole)
        os.kill(child, signal.SIGKILL)
        hits += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    train(config, windows)
    print("kills", hits)


if __name__ == "__main__":
    main()
