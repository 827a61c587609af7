"""Networks of papers from a few lines of YAML, and the defaults of models without a preset."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric import nn as pyg
from torch_geometric.data import Data
from torch_geometric.transforms import NormalizeFeatures

from sstcast.benchmarks.config import load_benchmark
from sstcast.benchmarks.load import load
from sstcast.benchmarks.registry import find_dataset
from sstcast.errors import SSTCastError

BARE = ["predictor.encoder=false", "predictor.head=false"]


def test_the_preset_of_kipf_and_welling_is_pygs_gcn(root: Path, build: Callable[..., Any]) -> None:
    """Two layers from words to classes, on rows that PyG normalises itself."""
    task, ours = build("cora", "gcn-kipf", "model.width=16")
    theirs = pyg.models.GCN(12, 16, 2, 3, dropout=0.5)
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())
    for mine, other in zip(ours.backbone.convs, theirs.convs, strict=True):
        torch.nn.init.normal_(mine.bias)
        other.lin.weight.data.copy_(mine.linear.weight)
        other.bias.data.copy_(mine.bias)
    raw = load(find_dataset("Cora"), root, root / "cache", trust=True).graphs.batch(torch.tensor([0]))
    data = NormalizeFeatures()(Data(x=raw.x.float(), edge_index=raw.graph.edge_index))
    expected = theirs.eval()(data.x, data.edge_index)[task.split.train]
    torch.testing.assert_close(ours.eval()(task.batch(task.split.train)), expected)


def test_input_dropout_acts_on_features_without_an_encoder(build: Callable[..., Any]) -> None:
    task, model = build("cora", "gcn-kipf", "model.dropout=0", "predictor.input_dropout=0.5")
    batch = task.batch(task.split.train)
    zeros = (model.encode_nodes(batch) == 0).float().mean() - (batch.x == 0).float().mean()
    assert zeros > 0.1
    assert torch.equal(model.eval().encode_nodes(batch), batch.x)


@pytest.mark.parametrize(
    ("dataset", "model", "overrides", "words"),
    [
        ("ZINC", "gin", ["predictor.encoder=false"], "predictor.encoder: ZINC has no real-valued features"),
        ("minesweeper", "gps", BARE, "predictor.encoder: gps cannot replace it"),
        ("minesweeper", "gps", BARE[1:], "predictor.head: gps cannot replace it; leave it on, or choose mpnn"),
        ("minesweeper", "gatedgcn", BARE[1:], "conv gatedgcn: cannot map 8 channels to 1"),
        ("MUTAG", "gin-vn", [*BARE, "predictor.readout=virtual-node"], "virtual-node needs a head"),
        ("MUTAG", "gin", ["predictor.readout=virtual-node"], "this model has no virtual-node"),
        ("MUTAG", "gps", ["predictor.readout=token"], "this model has no token"),
        ("minesweeper", "gps", ["stages.local=1"], "gps has no local stage"),
        ("minesweeper", "mpnn", ["part=15", "training.accumulate=2"], r"part: leave out training\.accumulate"),
        ("MUTAG", "gin", ["part=15"], "part: MUTAG has many graphs"),
        ("ZINC", "gin", ["split=random:5-per-class"], "needs samples of known classes"),
        ("ZINC", "gin", ["predictor.normalise=row"], "predictor.normalise: ZINC has no real-valued features"),
    ],
)
def test_options_that_do_not_suit_are_refused(
    dataset: str, model: str, overrides: list[str], words: str, build: Callable[..., Any]
) -> None:
    with pytest.raises(SSTCastError, match=words):
        build(dataset, model, *overrides)


BATCHES = (("proteins", "gat"), ("pattern", "gat"), ("cox2_md", "lsat"))


def test_models_without_a_preset_get_the_defaults_that_they_have_options_for(tmp_path: Path) -> None:
    kipf, ours = (load_benchmark(*each, None, None) for each in (("cora", "gcn-kipf"), ("citeseer", "gcn")))
    assert ours.model.options == kipf.model.options | {"width": 64, "virtual_node": False}
    assert ours.predictor == kipf.predictor
    assert ours.predictor.normalise == "row"
    sizes = [load_benchmark(name, model, None, None).training.batch_size for name, model in BATCHES]
    assert sizes == [32, 128, 128]
    assert "norm" not in load_benchmark("proteins", "tokengt", None, None).model.options
    assert "norm" not in load_benchmark("proteins", "gatedgcn", None, None).model.options
    chosen = load_benchmark("proteins", "gat", None, ["model.dropout=0.7", "training.patience=3"])
    assert (chosen.model.options["dropout"], chosen.training.patience) == (0.7, 3)
    preset = load_benchmark("minesweeper", "gps", None, None)
    assert (preset.training.patience, preset.training.weight_decay) == (None, 0)
    mine = str(tmp_path / "mine.yaml")
    Path(mine).write_text("{kind: graph_csv, path: a.csv, edges: b.csv, target: y, task: node-classification}")
    assert load_benchmark(mine, "gat", None, None).model.options["dropout"] == 0.5
    for split, norm in (("random:20-per-class", "none"), ("random:.6/.2/.2", "batch")):  # few labels, and many
        for dataset in ("amazon-computers", mine):
            assert load_benchmark(dataset, "gcn", None, [f"split={split}"]).model.options["norm"] == norm
