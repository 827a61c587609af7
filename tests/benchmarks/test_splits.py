"""Splits by name, drawn by a seed, and what happens to a run when another is chosen."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sstcast.benchmarks.config import load_benchmark
from sstcast.benchmarks.dataset import parse_split
from sstcast.benchmarks.packed import Graphs, pack
from sstcast.benchmarks.registry import find_dataset
from sstcast.benchmarks.splits import choose_split
from sstcast.errors import SSTCastError

SMALL = ["model.width=8", "model.layers=1", "training.epochs=1", "training.batch_size=4", "training.device=cpu"]


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("public", "official"),
        ("70/15/15", "random:0.7/0.15/0.15"),
        ("0.6/0.2/0.2", "random:0.6/0.2/0.2"),
        ("random:0.7/0.15/0.15", "random:0.7/0.15/0.15"),
        ("random:20-per-class", "random:20-per-class"),
        ("folds:10", "folds:10"),
    ],
)
def test_splits_have_the_names_that_people_write(text: str, split: str) -> None:
    assert parse_split(text) == split


@pytest.mark.parametrize("text", ["", "70/30", "70/20/20", "0.5/0.5/0", "folds:2", "random", "-1/1/1", "nan/1/0"])
def test_other_splits_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write official"):
        parse_split(text)
    with pytest.raises(SSTCastError, match="split"):
        load_benchmark("minesweeper", "gps", None, [f"split='{text}'"])


def test_a_split_of_so_many_per_class(tmp_path: Path) -> None:
    y = torch.arange(3000) % 3
    y[7] = -1
    one: Graphs = pack([{"num_nodes": 3000, "edge_index": torch.zeros(2, 0, dtype=torch.long), "y": y}], "node")
    dataset = replace(find_dataset("Cora"), split="random:20-per-class")
    first, other = (choose_split(dataset, one, [], seed) for seed in (0, 1))
    assert torch.bincount(y[first.train]).tolist() == [20, 20, 20]
    assert [len(part) for part in first] == [60, 500, 1000]  # as PyG's Planetoid(split="random")
    assert not set(first.train.tolist()) & {7, *first.validation.tolist(), *first.test.tolist()}
    assert not set(first.validation.tolist()) & set(first.test.tolist())
    assert first.test.tolist() != other.test.tolist()
