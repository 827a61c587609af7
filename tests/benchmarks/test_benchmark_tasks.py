"""Tasks of benchmarks: parts of a graph, batches, losses, weights and scores."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from documentation import EXTENDING, blocks
from small_raw import graphs, packed

import sstcast
from sstcast.benchmarks import objectives
from sstcast.benchmarks.config import BenchmarkConfig
from sstcast.benchmarks.objectives import BinaryLabels, Classes, Regression
from sstcast.benchmarks.registry import find_dataset
from sstcast.benchmarks.run import run_benchmark
from sstcast.benchmarks.tasks import PartsOfOneGraph
from sstcast.errors import SSTCastError


def test_parts_of_a_graph_cover_all_its_nodes(
    configure: Callable[..., BenchmarkConfig], build: Callable[..., Any]
) -> None:
    (result,) = run_benchmark(configure("minesweeper", "mpnn", "part=15"), [0])
    assert result["epochs"] == 2
    task, _ = build("minesweeper", "mpnn", "part=15")
    assert isinstance(task, PartsOfOneGraph)
    first, again, other = task.order(0, 0), task.order(0, 0), task.order(0, 1)
    assert [len(part) for part in first] == [15, 15, 10]
    assert sorted(torch.cat(first).tolist()) == list(range(40))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])
    assert sum(int(task.weight(task.batch(part))) for part in first) == len(task.split.train)


def test_the_whole_graph_is_one_step_asked_about_training_nodes(build: Callable[..., Any]) -> None:
    task, model = build("minesweeper", "mpnn")
    (index,) = task.order(0, 5)
    batch = task.batch(index)
    assert torch.equal(index, task.split.train)
    model.eval()
    torch.testing.assert_close(model(batch), model(task.batch(torch.arange(40)))[index])
    assert task.describe(index).startswith("nodes 0, 1, 4, 5, 8 and 15 more of minesweeper")


def test_scores_do_not_depend_on_batches(build: Callable[..., Any]) -> None:
    scores = []
    for size in (1, 3, 100):
        task, model = build("ogbg-molpcba", "gps", f"training.batch_size={size}")
        scores.append(task.predict(model.eval(), torch.arange(24))[0])
    assert scores[0] == pytest.approx(scores[1]) == pytest.approx(scores[2])


def one_graph(y: torch.Tensor) -> object:
    graph = {"num_nodes": len(y), "edge_index": torch.zeros(2, 0).long(), "y": y}
    return packed([graph], "node").batch(torch.tensor([0]))


def test_losses_are_sums_over_known_labels() -> None:
    nan = torch.nan
    answers, logits = torch.tensor([[1.0, nan], [0, 1]]), torch.tensor([[0.3, 5], [-1, 2]])
    batch = one_graph(answers)
    expected = -(logits[0, 0].sigmoid().log() + (-logits[1, 0]).sigmoid().log() + logits[1, 1].sigmoid().log())
    any_set = find_dataset("MUTAG")
    questions = BinaryLabels(answers, answers, any_set)
    torch.testing.assert_close(questions.loss(logits, batch), expected)
    assert questions.weight(batch) == 3

    classes, weights = torch.tensor([2, -1, 0]), torch.tensor([1.0, 1, 4])
    log = torch.randn(3, 3).log_softmax(1)
    weighted = Classes(classes, classes, any_set)
    weighted.weights = weights
    torch.testing.assert_close(weighted.loss(log, one_graph(classes)), -(4 * log[0, 2] + log[2, 0]))
    assert weighted.weight(one_graph(classes)) == 5

    targets = torch.tensor([[10.0], [nan], [30]])
    objective = Regression(targets, targets, replace(any_set, metric="mae"))  # mean 20, standard deviation 10
    batch = one_graph(targets)
    assert objective.weight(batch) == 2
    torch.testing.assert_close(objective.loss(torch.tensor([[0.0], [9], [0.5]]), batch), torch.tensor(1.5))
    squared = Regression(targets, targets, replace(any_set, metric="rmse"))
    torch.testing.assert_close(squared.loss(torch.tensor([[0.0], [9], [0.5]]), batch), torch.tensor(1.25))
    torch.testing.assert_close(objective.scored_values(torch.tensor([[0.5]]), batch)[0], torch.tensor([[25.0]]))


def test_balanced_classes_weigh_the_same_in_training(build: Callable[..., Any]) -> None:
    task, _ = build("PascalVOC-SP", "mpnn")
    y = task.graphs.batch(task.split.train).y
    shares = torch.bincount(y) * task.objective.weights[: int(y.max()) + 1]
    torch.testing.assert_close(shares, torch.full_like(shares, len(y) / len(task.objective.weights)))


def test_a_task_of_one_s_own_trains_and_checks_its_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page docs/extending.md defines it."""
    monkeypatch.setitem(objectives.TASKS, "counts", None)  # removed again after the test
    defined: dict[str, Any] = {}
    exec(blocks(EXTENDING, "A task on graphs")[0], defined)
    methods = {name for name, value in vars(defined["Counts"]).items() if callable(value) and name != "__init__"}
    assert methods <= set(dir(objectives.Objective))  # it overrides what the base class calls
    keys = ["data.task=counts", "model.width=8", "model.layers=1", "training.epochs=3", "training.device=cpu"]
    places = [f"runs={tmp_path / 'runs'}", f"cache={tmp_path / 'cache'}"]
    data = graphs(20, y=lambda d, i: torch.tensor([1.0 * d.num_nodes]))
    (result,) = sstcast.benchmark(data, "gin", overrides=[*keys, *places])
    assert result["metric"] == "deviance"
    assert result["test"] >= 0
    with pytest.raises(SSTCastError, match="metric: counts is judged by deviance"):
        sstcast.benchmark(data, "gin", overrides=[*keys, *places, "data.metric=mae"])
    data[0].y = -data[0].y
    with pytest.raises(SSTCastError, match=r"graph 0: label -4, which is not a count: 0, 1, \.\.\."):
        sstcast.benchmark(data, "gin", overrides=[*keys, *places])
