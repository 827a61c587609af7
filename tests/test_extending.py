"""To add one thing, one place is touched: each test registers a toy once and finds it where users will."""

from pathlib import Path

import pytest
import torch
from small_raw import write
from torch import Tensor, nn

from sstcast.benchmarks.config import load_benchmark
from sstcast.benchmarks.registry import find_dataset
from sstcast.benchmarks.run import run_benchmark
from sstcast.graphs.graph import Graph, Planes
from sstcast.models import build_forecaster
from sstcast.models.attention import Attention
from sstcast.models.convs import Conv
from sstcast.models.layers import ATTENTIONS, CONVS


class ToyConv(Conv):
    """The sum of the neighbours."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: Tensor, graph: Graph, edges: Planes | None) -> tuple[Tensor, Planes | None]:
        return self.linear(graph.neighbors(x)), edges


class ToyAttention(Attention):
    """A mean over all nodes, real or not, times a number that adds to the loss."""

    def __init__(self, width: int, strength: float = 1.0) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.full((width,), strength))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return (self.factor * x.mean(1, keepdim=True)).expand_as(x)

    def penalty(self) -> Tensor:
        return self.factor.square().sum()


def test_a_local_layer_is_one_registration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONVS, "toy", ToyConv)

    write(find_dataset("MUTAG"), tmp_path / "raw")
    small = ["model.width=8", "training.epochs=1", "training.device=cpu"]
    places = [f"runs={tmp_path / 'runs'}", f"cache={tmp_path / 'cache'}"]
    config = load_benchmark("mutag", "toy-vn", tmp_path / "raw", [*small, *places])
    assert config.model.options == {"conv": "toy", "virtual_node": True, "width": 8}
    (result,) = run_benchmark(config, [0])
    assert result["epochs"] == 1
    assert (tmp_path / "runs/MUTAG/toy-vn/seed-0/checkpoints/best.pt").exists()

    for name in ("mpnn", "gps"):
        model = build_forecaster(name, history=5, horizon=2, shape=(3, 4), width=8, conv="toy")
        assert any(isinstance(module, ToyConv) for module in model.modules())


def test_an_attention_is_one_registration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ATTENTIONS, "toy", ToyAttention)

    for name in ("gps", "linear-transformer", "tokengt"):
        model = build_forecaster(
            name,
            history=5,
            horizon=2,
            shape=(3, 4),
            width=8,
            layers=2,
            heads=2,
            attention="toy",
            attention_options={"strength": 2.0},
        )
        assert float(model.auxiliary_loss().detach()) == 2 * 8 * 2.0**2
