"""Several models in one command, their table and the best constant, local layers as models, and wrong names."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from sklearn.metrics import accuracy_score, f1_score
from small_raw import TASKS
from torch_geometric.data import Data

import sstcast
from sstcast.benchmarks import load as load_module
from sstcast.benchmarks import run as run_module
from sstcast.benchmarks.config import BenchmarkConfig
from sstcast.benchmarks.objectives import TASKS as OBJECTIVES
from sstcast.benchmarks.objectives import lower_is_better
from sstcast.benchmarks.run import training_rows
from sstcast.errors import SSTCastError
from sstcast.models import build_model
from sstcast.models.layers import CONVS

Command = Callable[..., tuple[int, str, str]]


def test_several_models_load_the_data_once_and_share_a_table(
    root: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = ("training.epochs=1", "training.device=cpu", f"cache={tmp_path / 'cache'}", f"runs={tmp_path / 'runs'}")
    sets = [part for key in keys for part in ("--set", key)]
    loads: list[str] = []
    read = load_module.read_class
    monkeypatch.setattr(load_module, "read_class", lambda *arguments: loads.append("read") or read(*arguments))
    build = run_module.build_graph_model

    def fail(config: BenchmarkConfig, *arguments: Any) -> Any:
        if config.label == "gps":
            raise SSTCastError("gps: these graphs are too large")
        return build(config, *arguments)

    monkeypatch.setattr(run_module, "build_graph_model", fail)
    models = ["--model", "gin,gps", "--model", "sage"]
    code, out, err = command("benchmark", "mutag", *models, "--root", root, "--seeds", "0..1", *sets)
    assert code == 3
    assert loads == ["read"]
    assert "gps: no result" in err
    assert "too large" in err
    results = {
        name: [json.loads((tmp_path / f"runs/MUTAG/{name}/seed-{s}/metrics.json").read_text()) for s in (0, 1)]
        for name in ("gin", "sage")
    }
    *_, title, header, first, second, constant = out.splitlines()
    assert title.startswith("MUTAG: test accuracy, split ")
    assert header.split() == ["mean", "sd", "seeds", "seconds"]
    means = {name: np.mean([run["test"] for run in runs]) for name, runs in results.items()}
    assert {row.split()[0]: float(row.split()[1]) for row in (first, second)} == pytest.approx(means, abs=1e-4)
    assert float(first.split()[1]) >= float(second.split()[1])
    assert constant.startswith("best constant")
    for run in results["gin"]:
        kept = np.load(tmp_path / f"runs/MUTAG/gin/seed-{run['seed']}/predictions.npz")
        assert run["test_samples"] == len(kept["test_target"])
    code, out, _ = command("leaderboard", tmp_path / "runs")
    assert code == 0
    assert all(words in out for words in ("MUTAG: test accuracy", "MUTAG/gin", "MUTAG/sage", "best constant"))
    assert "MUTAG/gin" in (tmp_path / "runs/leaderboard.html").read_text()


@pytest.mark.parametrize("task", TASKS)
def test_the_best_constant_is_that_of_the_training_labels(task: str, build: Callable[..., Any]) -> None:
    task_of_set, _ = build(TASKS[task], "gin")
    graphs, split, metric = task_of_set.graphs, task_of_set.split, task_of_set.dataset.metric
    score = task_of_set.constant_score()
    if metric in ("roc-auc", "mrr", "f1", "ap"):
        assert 0 <= score <= 1
        return
    train, test = (
        graphs.y[training_rows(graphs, split._replace(train=getattr(split, part)))] for part in ("train", "test")
    )
    if metric == "mae":
        expected = (test - train.nanmedian(0).values).abs().nanmean()
    elif metric == "rmse":
        expected = (test - train.nanmean(0)).square().nanmean().sqrt()
    else:
        guess = np.full(len(test), np.bincount(train[train >= 0]).argmax())
        is_known = test.numpy() >= 0
        labels = test.numpy()[is_known], guess[is_known]
        expected = accuracy_score(*labels) if metric == "accuracy" else f1_score(*labels, average="macro")
    assert score == pytest.approx(float(expected), rel=1e-5)


def test_only_errors_are_better_low() -> None:
    names = {name for task in OBJECTIVES.values() for name in task.metrics}
    assert {name for name in names if lower_is_better(name)} == {"mae", "rmse"}


def test_a_class_is_no_name_and_a_file_needs_a_yaml(tmp_path: Path, command: Command) -> None:
    graph = Data(x=torch.ones(4, 1), edge_index=torch.zeros(2, 1, dtype=torch.long), y=torch.zeros(4).long())
    for model in (torch.nn.Linear, ["gin", torch.nn.Linear]):
        with pytest.raises(SSTCastError, match=r"model: Linear does not derive from sstcast.models.base.Backbone"):
            sstcast.benchmark(graph, model)  # type: ignore[arg-type]
    with pytest.raises(SSTCastError, match="model: an object of int, not a name"):
        sstcast.benchmark(graph, 3)  # type: ignore[arg-type]
    code, _, err = command("benchmark", tmp_path / "graphs.pt", "--model", "gin")
    assert code == 2
    assert yaml.safe_load(err.partition("the line ")[2]) == {"kind": "pyg", "path": "graphs.pt"}
    code, _, err = command("benchmark", tmp_path / "x.csv", "--model", "gin")
    assert "{kind: smiles_csv, path: x.csv" in err
    code, _, err = command("benchmark", "mutag", "--model", "gin,ginn", "--root", tmp_path)
    assert code == 2
    assert "did you mean 'gine'" in err or "did you mean 'gin'" in err
    assert not any(tmp_path.iterdir())


def test_a_local_layer_is_built_as_message_passing(command: Command) -> None:
    _, out, _ = command("models")
    assert all(f"\n{name:20}{conv.about}\n" in out for name, conv in CONVS.items())
    assert all(conv.about for conv in CONVS.values())
    for name in CONVS:
        for suffix, virtual_node in (("", False), ("-vn", True)):
            torch.manual_seed(0)
            model = build_model(name + suffix, width=8, layers=2)
            torch.manual_seed(0)
            expected = build_model("mpnn", conv=name, virtual_node=virtual_node, width=8, layers=2)
            assert str(model) == str(expected)
            assert all(torch.equal(a, b) for a, b in zip(model.parameters(), expected.parameters(), strict=True))
