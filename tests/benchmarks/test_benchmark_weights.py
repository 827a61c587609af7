"""A benchmark begins from the weights of another run, and the first loss is theirs."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from lightning_fabric import Fabric
from logged import logged
from refusals import refused
from small_raw import graphs
from torch_geometric.data import Data

import sstcast
from sstcast.benchmarks import sample_keys
from sstcast.benchmarks.config import BenchmarkConfig, load_benchmark
from sstcast.benchmarks.load import load
from sstcast.benchmarks.run import build_task, run_benchmark
from sstcast.runs import Run
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


def test_weights_of_another_fold_are_refused(tmp_path: Path) -> None:
    """Each fold is tested on samples that another fold trains on."""
    data, keys = graphs(12), [f"runs={tmp_path}", "training.epochs=1", "training.device=cpu", "model.width=4"]
    sstcast.benchmark(data, "gin", seeds=[0], overrides=[*keys, "split=folds:3"])
    (folder,) = tmp_path.glob("*/gin/seed-0")
    begun = [*keys, f"training.weights={folder}", "label=later"]
    for seed, split in ((1, "folds:3"), (2, "folds:4")):
        with refused("training.weights", "test samples of this run, the first is graph", "choose weights with"):
            sstcast.benchmark(data, "gin", seeds=[seed], overrides=[*begun, f"split={split}"])
        assert not list(tmp_path.glob("*/later"))
    sstcast.benchmark(data, "gin", seeds=[0], overrides=[*begun, "split=folds:3"])


def one_graph(split: int = 0, features: int = 0, other_labels: bool = False) -> Data:
    """Return a graph of 40 nodes whose split and features are drawn by these seeds."""

    def drawn(seed: int) -> torch.Generator:
        return torch.Generator().manual_seed(seed)

    masks = torch.zeros(3, 40, dtype=torch.bool)
    for mask, nodes in zip(masks, torch.randperm(40, generator=drawn(split)).split([20, 10, 10]), strict=True):
        mask[nodes] = True
    return Data(
        x=torch.randn(40, 4, generator=drawn(features)),
        edge_index=torch.randint(40, (2, 90), generator=drawn(9)),
        y=torch.randint(2, (40,), generator=drawn(8)) ^ other_labels,
        **dict(zip(("train_mask", "val_mask", "test_mask"), masks, strict=True)),
    )


def test_weights_know_the_samples_that_they_learnt(tmp_path: Path) -> None:
    """Whatever the names of the data, and also those of the weights that they began from themselves."""
    keys = [f"runs={tmp_path}", "training.epochs=1", "training.device=cpu", "model.width=4", "model.layers=1"]

    def trained(data: Any, label: str, *overrides: str) -> Path:
        sstcast.benchmark(data, "gin", overrides=[*keys, f"label={label}", *overrides])
        (folder,) = tmp_path.glob(f"*/{label}/seed-0")
        return folder

    def begun(folder: Path) -> str:
        return f"training.weights={folder}"

    first = trained(one_graph(), "first")
    with refused("training.weights", "of 10 test samples of this run, the first is node", "seed and split"):
        trained(one_graph(split=1), "wrong", begun(first))
    second = trained(one_graph(features=1), "second", begun(first))
    with refused("training.weights", "of 10 test samples of this run"):  # that the first has learnt
        trained(one_graph(split=1), "wrong", begun(second))
    assert not list(tmp_path.glob("*/wrong"))
    third = trained(one_graph(), "third", begun(second), "training.epochs=2")  # resumed without them
    learnt = [set(load_checkpoint(Run(folder).best)["learnt"].tolist()) for folder in (first, second, third)]
    assert [len(keys) for keys in learnt] == [30, 60, 60]
    assert learnt[0] < learnt[1] == learnt[2]
    trained(one_graph(), "third", begun(second), "training.epochs=3")
    assert set(load_checkpoint(Run(third).best)["learnt"].tolist()) == learnt[2]
    with logged() as lines:
        trained(one_graph(split=1, other_labels=True), "relabelled", begun(first))
    (told,) = (line for line in lines if "another label" in line)
    assert re.search(r"learnt \d of 10 test samples with another label, the first is node \d+$", told)


def test_weights_without_a_record_are_compared_by_name(configure: Configure) -> None:
    first = configure("MUTAG", "gin", "split=folds:3")
    run_benchmark(first, [0])
    best = Run(seed_of(first, 0)).best
    state = {key: value for key, value in torch.load(best, weights_only=True).items() if key != "learnt"}
    torch.save(state, best)
    begun = [f"training.weights={best}", "label=later"]
    with logged() as lines, refused("training.weights", "because their split differs (seed 0)"):
        run_benchmark(configure("MUTAG", "gin", "split=folds:3", *begun), [1])
    assert any("holds no keys of the samples that it learnt" in line for line in lines)
    same = configure("MUTAG", "gin", "split=folds:3", *begun)
    run_benchmark(same, [0])
    assert "learnt" not in load_checkpoint(Run(seed_of(same, 0)).best)  # not all are known


def test_keys_are_of_graphs_as_read_and_of_their_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    ours = graphs(
        6, edge_attr=lambda data, i: torch.randn(data.num_edges, 2), y=lambda data, i: torch.tensor([i % 2])
    )
    keys = keys_of(ours)
    assert len(keys.unique()) == 6
    assert torch.equal(keys_of(ours[::-1]).flip(0), keys)
    monkeypatch.setattr(sample_keys, "NUMBERS_AT_ONCE", 50)
    assert torch.equal(keys_of(ours), keys)
    for name in ("x", "edge_attr", "edge_index", "y"):
        other = [data.clone() for data in ours]
        if name == "edge_index":
            other[2].edge_index = other[2].edge_index.flip(1)
        else:
            other[2][name] = 1 - other[2][name]
        changed = keys_of(other) != keys
        assert changed.tolist() == [i == 2 for i in range(6)], name
        without = sample_keys.without_labels(keys_of(other)) != sample_keys.without_labels(keys)
        assert torch.equal(without, changed & (name != "y"))


def keys_of(data: list[Data]) -> torch.Tensor:
    config = load_benchmark(None, "gin")
    return load(config.declaration, config.root, config.cache, source=data).keys


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
