"""A benchmark begins from the weights of another run, and the first loss is theirs."""

import json
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
import torch
from lightning_fabric import Fabric
from refusals import refused

from sstcast.benchmarks.config import BenchmarkConfig
from sstcast.benchmarks.load import load
from sstcast.benchmarks.run import build_task, run_benchmark
from sstcast.storage.artefacts import digest
from sstcast.training.checkpoint import load_checkpoint
from sstcast.training.task import seed_of as draw_seed

Configure = Callable[..., BenchmarkConfig]


def seed_of(config: BenchmarkConfig, seed: int) -> Any:
    return config.folder / f"seed-{seed}"


def test_the_first_loss_is_that_of_the_weights(configure: Configure, fabric: Fabric) -> None:
    first = configure("MUTAG", "gin", "training.epochs=3")
    run_benchmark(first, [0])
    best = seed_of(first, 0) / "checkpoints/best.pt"
    whole_batch = ["label=later", "training.epochs=1", "training.batch_size=1000"]
    config = configure("MUTAG", "gin", *whole_batch, f"training.weights={seed_of(first, 0)}")
    task, model = build_task(config, load(config.declaration, config.root, config.cache), fabric)
    model.load_state_dict(load_checkpoint(best)["model"])
    batch = task.batch(task.order(0, 0)[0])
    torch.manual_seed(draw_seed(0, 0, 0, 0))  # of dropout
    with torch.no_grad():
        expected = task.loss(model.train(), batch) / task.weight(batch)
    run_benchmark(config, [0])
    history = pd.read_csv(seed_of(config, 0) / "history.csv")
    assert history["train_loss"][0] == pytest.approx(float(expected), rel=1e-6)
    record = json.loads((seed_of(config, 0) / "data.json").read_text())
    assert record["initial_weights"] == digest(best)
    assert json.loads((seed_of(first, 0) / "data.json").read_text())["initial_weights"] is None
    # Once it is trained, it no longer needs them.
    best.unlink()
    run_benchmark(config, [0])
    run_benchmark(config, [0], evaluate=True)


def test_weights_that_may_have_learnt_from_test_samples_are_refused(configure: Configure) -> None:
    """Each fold is tested on samples that another fold trains on."""
    first = configure("MUTAG", "gin", "split=folds:3")
    run_benchmark(first, [0])
    begun = [f"training.weights={seed_of(first, 0)}", "label=later"]
    for seed, split in ((1, "folds:3"), (0, "folds:4")):
        config = configure("MUTAG", "gin", f"split={split}", *begun)
        with refused("training.weights", "seed 0"):
            run_benchmark(config, [seed])
        assert not seed_of(config, seed).exists()
    run_benchmark(configure("MUTAG", "gin", "split=folds:3", *begun), [0])


def test_weights_of_another_model_or_task_are_refused(configure: Configure) -> None:
    first = configure("MUTAG", "gin")
    run_benchmark(first, [0])
    begun = [f"training.weights={seed_of(first, 0)}", "label=later"]
    with refused("training.weights", "[8,", "[16,"):
        run_benchmark(configure("MUTAG", "gin", *begun, "model.width=16"), [0])
    with refused("training.weights", "do not fit this model"):
        run_benchmark(configure("minesweeper", "gin", *begun), [0])
    with refused("training.weights: pretrained", "was trained on an ocean; name weights trained on a benchmark"):
        run_benchmark(configure("MUTAG", "gin", "training.weights=pretrained", "label=later"), [0])
