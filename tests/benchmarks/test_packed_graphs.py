"""Batches cut from packed graphs against PyG's, splits, labels, and positions."""

from pathlib import Path

import pytest
import torch
from small_raw import packed
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.utils import subgraph

from sstcast.benchmarks.cache import cached, with_positions
from sstcast.benchmarks.config import load_benchmark
from sstcast.benchmarks.packed import Graphs, Split, compact
from sstcast.benchmarks.registry import Dataset, parse_split
from sstcast.benchmarks.splits import choose_split
from sstcast.errors import SSTCastError
from sstcast.graphs.positions import landing_probabilities, laplacian_basis


def make(count: int = 6, level: str = "graph") -> tuple[Graphs, list[Data]]:
    generator = torch.Generator().manual_seed(2)
    data = []
    for i in range(count):
        nodes = 3 + i
        index = torch.randint(nodes, (2, 2 * i), generator=generator)  # the first has no edges
        x, attr = torch.randint(9, (nodes, 2), generator=generator), torch.randn(2 * i, 3, generator=generator)
        data.append(
            Data(x=x, edge_index=index, edge_attr=attr, y=torch.tensor([i]) if level == "graph" else x[:, 0])
        )
    return packed([d.to_dict() for d in data], level), data


@pytest.mark.parametrize("level", ["graph", "node"])
def test_batches_are_those_of_pyg(level: str) -> None:
    graphs, data = make(level=level)
    for index in ([0, 1, 2, 3, 4, 5], [4, 0, 2], [3], [5, 5]):
        ours, theirs = graphs.batch(torch.tensor(index)), Batch.from_data_list([data[i] for i in index])
        assert torch.equal(ours.graph.edge_index, theirs.edge_index)
        assert torch.equal(ours.graph.batch, theirs.batch)
        assert torch.equal(ours.x, theirs.x)
        assert torch.equal(ours.edge_attr, theirs.edge_attr)
        assert torch.equal(ours.y, theirs.y)
        assert ours.graph.graphs == len(index)


def test_a_part_is_the_induced_subgraph() -> None:
    nodes = 12
    index = torch.randint(nodes, (2, 40), generator=torch.Generator().manual_seed(0))
    x, attr, y = torch.randn(nodes, 2), torch.arange(40.0)[:, None], torch.arange(nodes)
    graphs = packed([{"x": x, "edge_index": index, "edge_attr": attr, "y": y}], "node")
    kept, training = torch.tensor([7, 2, 3, 11, 0]), torch.arange(nodes) < 8
    part = graphs.part(kept, training)
    inside, chosen = subgraph(kept.sort().values, index, attr, num_nodes=nodes)
    assert torch.equal(kept[part.graph.edge_index], inside)
    assert torch.equal(part.edge_attr, chosen)
    assert torch.equal(part.x, x[kept])
    assert kept[part.rows].tolist() == [7, 2, 3, 0]
    assert part.y.tolist() == [7, 2, 3, 0]


def test_whole_numbers_are_packed_small_and_come_back() -> None:
    for high, dtype in ((9, torch.uint8), (300, torch.int16), (70_000, torch.int32), (2**40, torch.int64)):
        values = torch.tensor([[0], [high]])
        assert compact(values).dtype == dtype
        assert torch.equal(compact(values).long(), values)
    assert compact(torch.tensor([-1, 3])).tolist() == [-1, 3]
    assert compact(torch.tensor([0.5], dtype=torch.float64)).dtype == torch.float32


def split_of(y: Tensor, split: str, seed: int = 0, level: str = "graph", metric: str = "accuracy") -> Split:
    """Split graphs of one node each, or the nodes of one graph."""
    parts = y.split(len(y) if level == "node" else 1)
    graphs = [{"num_nodes": len(part), "edge_index": torch.zeros(2, 0).long(), "y": part} for part in parts]
    dataset = Dataset("mine", "memory", task=f"{level}-classification", metric=metric, split=split)
    return choose_split(dataset, packed(graphs, level), [], seed)


def test_folds_test_every_sample_once_with_its_share_of_classes() -> None:
    splits = [split_of(torch.arange(60) % 3, "folds:5", seed) for seed in range(5)]
    assert sorted(torch.cat([s.test for s in splits]).tolist()) == list(range(60))
    for split in splits:
        assert sorted(torch.cat(list(split)).tolist()) == list(range(60))
        assert torch.bincount(split.test % 3).tolist() == [4, 4, 4]
        assert torch.bincount(split.validation % 3).tolist() == [4, 4, 4]


def test_folds_have_their_share_of_classes_with_a_rank_metric() -> None:
    y = (torch.arange(60) % 3 == 0).float().unsqueeze(1)
    y[59] = torch.nan
    for seed in range(5):
        split = split_of(y, "folds:5", seed, metric="roc-auc")
        assert int(y[split.test].nansum()) == int(y[split.validation].nansum()) == 4
    few = split_of(y, "random:5-per-class", metric="roc-auc")
    assert sorted(y[few.train].flatten().tolist()) == 5 * [0.0] + 5 * [1.0]


@pytest.mark.parametrize("level", ["graph", "node"])
def test_random_splits_follow_the_seed(level: str) -> None:
    y, split = torch.arange(188) % 2, "random:0.7/0.15/0.15"
    first, again, other = (split_of(y, split, seed, level) for seed in (0, 0, 1))
    assert [len(part) for part in first] == [132, 28, 28]
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first.test, other.test)
    assert sorted(torch.cat(list(first)).tolist()) == list(range(188))


@pytest.mark.parametrize("text", ["", "70/30", "70/20/20", "0.5/0.5/0", "folds:2", "random", "-1/1/1", "nan/1/0"])
def test_splits_have_the_names_that_people_write_and_no_others(text: str) -> None:
    assert parse_split("public") == "official"
    assert parse_split("70/15/15") == parse_split("0.7/0.15/0.15") == "random:0.7/0.15/0.15"
    with pytest.raises(ValueError, match="write official"):
        parse_split(text)
    with pytest.raises(SSTCastError, match="split"):
        load_benchmark("minesweeper", "gps", None, [f"split='{text}'"])


def test_a_split_of_so_many_per_class() -> None:
    y = torch.arange(3000) % 3
    y[7] = -1
    first, other = (split_of(y, "random:20-per-class", seed, "node") for seed in (0, 1))
    assert torch.bincount(y[first.train]).tolist() == [20, 20, 20]
    assert [len(part) for part in first] == [60, 500, 1000]  # as PyG's Planetoid(split="random")
    assert not set(first.train.tolist()) & {7, *first.validation.tolist(), *first.test.tolist()}
    assert not set(first.validation.tolist()) & set(first.test.tolist())
    assert first.test.tolist() != other.test.tolist()


def test_positions_are_each_graph_s_own_and_are_kept(tmp_path: Path) -> None:
    _, data = make()
    graphs = with_positions(make()[0], "mine", 4, 5, tmp_path)
    index = torch.tensor([5, 0, 3])
    batch = graphs.batch(index)
    theirs = Batch.from_data_list([data[i] for i in index])
    vectors, values = laplacian_basis(theirs.edge_index, theirs.batch, 3, 4)
    assert torch.equal(batch.graph.laplacian(4)[0], vectors)
    assert torch.equal(batch.graph.laplacian(4)[1], values)
    assert torch.equal(batch.graph.random_walk(5), landing_probabilities(theirs.edge_index, theirs.num_nodes, 5))
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.pt")}
    assert len(kept) == 2
    with_positions(make()[0], "mine", 4, 5, tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.pt")} == kept


@pytest.mark.parametrize("damage", ["cut", "empty", "changed"])
def test_a_damaged_cache_is_made_again(damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, whole = tmp_path / "walk.pt", torch.arange(30.0)
    cached(path, whole.clone)
    content = bytearray(path.read_bytes())
    content[content.find(whole.numpy().tobytes()) + 3] ^= 255
    path.write_bytes({"cut": content[:100], "empty": b"", "changed": content}[damage])
    assert torch.equal(cached(path, whole.clone), whole)
    assert capsys.readouterr().err == f"{path}: damaged; computing it again\n"
    assert torch.equal(cached(path, lambda: None), whole)
