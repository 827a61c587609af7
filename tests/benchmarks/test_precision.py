"""Labels and features with large offsets or small deviations."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_raw import NODES, ring
from torch import Tensor
from torch_geometric.data import Data

import sstcast
from sstcast.benchmarks.config import load_benchmark
from sstcast.benchmarks.load import LoadedDataset, load
from sstcast.benchmarks.objectives import Regression
from sstcast.benchmarks.registry import find_dataset


def rings(y: Tensor, x: Tensor | None = None) -> list[Data]:
    index = torch.from_numpy(ring(5))
    x = torch.randn(len(y), 5, 1, generator=torch.Generator().manual_seed(1)) if x is None else x
    return [Data(x=x[i], edge_index=index, y=y[i : i + 1]) for i in range(len(y))]


def loaded(data: Any) -> LoadedDataset:
    config = load_benchmark(None, "gin", None, [])
    return load(config.declaration, config.root, Path(), source=data)


BASE = torch.randn(60, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize(
    ("offset", "scale"), [(-291230.0, 0.05), (1.1e9, 60.0), (0.0, 1e-8), (0.0, 1e-25), (5e-9, 1e-8)]
)
def test_scores_of_targets_do_not_depend_on_their_offset_and_unit(
    offset: float, scale: float, tmp_path: Path
) -> None:
    """Standardised targets are the same, so the error in units of the scale is."""
    sizes = ["model.width=8", "model.layers=1", "training.epochs=2", "training.device=cpu"]
    scores = []
    for metric in ("mae", "rmse"):
        keys = [*sizes, f"runs={tmp_path / metric}", f"data.metric={metric}", "data.task=graph-regression"]
        (plain,), (moved,) = (
            sstcast.benchmark(rings(y), "gin", overrides=keys) for y in (BASE, offset + scale * BASE)
        )
        assert moved["test"] / scale == pytest.approx(plain["test"], rel=1e-3)
        scores.append(plain["test"])
    assert scores[0] < scores[1]
    found = loaded(rings(offset + scale * BASE))
    precise = abs(offset) > 1e3 * scale
    assert found.graphs.y.dtype == (torch.float64 if precise else torch.float32)
    assert (found.digest == loaded(rings((offset + scale * BASE).float())).digest) is not precise
    if precise:
        assert torch.equal(found.graphs.y.flatten(), offset + scale * BASE)


@pytest.mark.parametrize("value", [0.1, 7.0, 1024.0])
def test_constant_targets_stay_in_single_precision(value: float) -> None:
    y = torch.full((20,), value, dtype=torch.float64)
    assert loaded(rings(y)).graphs.y.dtype == torch.float32
    single = y.float().unsqueeze(1)
    assert Regression(single, single, find_dataset("ZINC")).scale.tolist() == pytest.approx([1e-6])


@pytest.mark.parametrize(
    ("first", "step", "dtype"),
    [(1.1e9, 60, torch.int64), (1.1e9, 60, torch.float64), (5_400_000, 0.01, torch.float64)],
)
def test_features_with_a_large_offset_keep_their_differences(
    first: float, step: float, dtype: torch.dtype, caplog: pytest.LogCaptureFixture
) -> None:
    times = (first + step * torch.arange(400, dtype=torch.float64)).to(dtype)
    assert len(times.float().unique()) < 400
    x = torch.stack([times.double(), torch.arange(400.0).double() / 7], 1).to(dtype).view(80, 5, 2)
    with caplog.at_level(logging.INFO, "sstcast"):
        found = loaded(rings(BASE.repeat(2)[:80], x)).graphs.x
    torch.testing.assert_close(found[:, 0].double(), times - times.double().mean(), rtol=1e-6, atol=1e-4 * step)
    assert "x: the mean of column 0 is subtracted" in caplog.text
    torch.testing.assert_close(found[:, 1], x[..., 1].flatten().float(), rtol=0, atol=0)


def test_columns_of_a_csv_keep_their_differences(tmp_path: Path) -> None:
    metres = 5_400_000 + np.arange(NODES) / 100
    rows = "".join(f"{i},{i % 3},{value:.2f}\n" for i, value in enumerate(metres))
    (tmp_path / "nodes.csv").write_text("id,kind,northing\n" + rows)
    edges = "".join(f"{a},{b},{1.1e9 + 60 * a}\n" for a, b in ring(NODES).T)
    (tmp_path / "edges.csv").write_text("source,target,time\n" + edges)
    keys = {"kind": "graph_csv", "path": "nodes.csv", "edges": "edges.csv", "id": "id", "target": "kind"}
    text = "".join(f"{key}: {value}\n" for key, value in keys.items()) + "edge_features: [time]\n"
    (tmp_path / "mine.yaml").write_text(text)
    config = load_benchmark(str(tmp_path / "mine.yaml"), "gine")
    found = load(config.declaration, config.root, tmp_path).graphs
    np.testing.assert_allclose(found.x.numpy()[:, 0], metres - metres.mean(), atol=1e-6)
    assert len(found.edge_attr.unique()) == NODES
