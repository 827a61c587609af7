"""sstcast against the plain PyTorch Geometric implementation that perf/training_step.py times it beside."""

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch.nn import functional as F
from torch_geometric.data import Batch

PERF = Path(__file__).parents[1] / "perf"
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture
def pairs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(PERF)
    torch.manual_seed(0)
    return import_module("reference.pairs")


def small(pairs: ModuleType) -> tuple:
    size = pairs.Size(batch=5, rows=4, columns=6, width=16, layers=2, history=7, horizon=3)
    return size, pairs.random_windows(size, tiles=3, land=0.2)


@pytest.mark.parametrize("name", ["mpnn-vn", "polynormer", "primphormer"])
def test_systems_agree_forward_and_backward(pairs: ModuleType, name: str) -> None:
    """Land nodes are masked on the grid and absent from the reference's graphs."""
    size, windows = small(pairs)
    ours, theirs = pairs.build_system(name, size)
    batch, dataset = windows.batch(torch.arange(5)), pairs.WindowDataset(windows)
    data = Batch.from_data_list([dataset[i] for i in range(5)])
    forecast, expected = ours(batch.history, batch.graph)[batch.ocean], theirs(data)
    torch.testing.assert_close(forecast, expected, **TOLERANCE)
    (F.mse_loss(forecast, data.y) + ours.auxiliary_loss()).backward()
    (F.mse_loss(expected, data.y) + theirs.auxiliary_loss()).backward()
    gradients = sorted(float(p.grad.square().sum()) for p in ours.parameters())
    others = sorted(float(p.grad.square().sum()) for p in theirs.parameters())
    assert gradients == pytest.approx(others, rel=1e-3, abs=1e-8)


@pytest.mark.parametrize("name", ["mpnn-vn", "primphormer"])
def test_the_timed_steps_train(pairs: ModuleType, name: str) -> None:
    size, windows = small(pairs)
    pair = pairs.system(name, size, windows, compiled=False)
    ways = pair.ours, pair.reference, pair.compiled, pair.convolutions
    losses = [[float(way()) for way in ways] for _ in range(3)]
    for ours, eager, compiled, _ in losses:
        assert [eager, compiled] == pytest.approx([ours, ours], rel=1e-3)
    assert losses[2][0] < losses[0][0]
    assert losses[2][3] < losses[0][3]


def test_the_gpu_benchmark_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(PERF)
    arguments = "--device cpu --presets configs/models --tile 6 6 --steps 2 --least 0.001 --only mlp-pointwise"
    import_module("gpu").main([*arguments.split(), "--precision", "32-true", "--no-compile"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("| mlp-pointwise |")
