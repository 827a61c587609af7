"""A task of one's own, as docs/own-task.md describes it: one class and one line."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from small_raw import both_ways, ring
from torch_geometric.data import Data

import sstcast
from sstcast.benchmarks import objectives
from sstcast.errors import SSTCastError

PAGE = Path(__file__).parents[2] / "docs/own-task.md"


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The class of the page, listed as it says."""
    code = re.search(r"```python\n(.*?class Counts.*?)```", PAGE.read_text(), re.DOTALL)
    assert code
    found: dict[str, Any] = {}
    exec(code[1], found)
    monkeypatch.setitem(objectives.TASKS, "counts", found["Counts"])


def graphs(of: float = 1.0) -> list[Data]:
    found = []
    for i in range(20):
        nodes = 4 + i % 5
        edges = torch.from_numpy(both_ways(ring(nodes)))
        found.append(Data(x=torch.ones(nodes, 1), edge_index=edges, y=torch.tensor([of * nodes])))
    return found


@pytest.mark.usefixtures("counts")
def test_a_task_of_one_s_own_trains_and_checks_its_labels(tmp_path: Path) -> None:
    keys = ["data.task=counts", "model.width=8", "model.layers=1", "training.epochs=3", "training.device=cpu"]
    places = [f"runs={tmp_path / 'runs'}", f"cache={tmp_path / 'cache'}"]
    (result,) = sstcast.benchmark(graphs(), "gin", overrides=[*keys, *places])
    assert result["metric"] == "deviance"
    assert result["test"] >= 0
    with pytest.raises(SSTCastError, match=r"graph 0: label -4, which is not a count: 0, 1, \.\.\."):
        sstcast.benchmark(graphs(-1.0), "gin", overrides=[*keys, *places])
    with pytest.raises(SSTCastError, match="metric: counts is judged by deviance"):
        sstcast.benchmark(graphs(), "gin", overrides=[*keys, *places, "data.metric=mae"])
