"""Every declared data set opens from tiny files in its raw format, with the graphs that PyG reads from them."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric
from small_raw import WRITERS, both_ways, ring, write
from torch_geometric import datasets as pyg
from torch_geometric.data import Batch, Data
from torch_geometric.utils import sort_edge_index

from perf.beside_pyg import edges_of_class
from sstcast.benchmarks.config import load_benchmark
from sstcast.benchmarks.edges import sorted_by_node
from sstcast.benchmarks.load import LoadedDataset, load
from sstcast.benchmarks.objectives import VOCABULARY_SIZE, number_words
from sstcast.benchmarks.packed import Graphs, standardise
from sstcast.benchmarks.registry import Dataset, find_dataset, named
from sstcast.benchmarks.run import build_task
from sstcast.benchmarks.splits import choose_split


def open_small(name: str, tmp: Path) -> tuple[Dataset, LoadedDataset]:
    write(find_dataset(name), tmp / "raw")
    loaded = load(find_dataset(name), tmp / "raw", tmp / "cache", trust=True)  # these pickles are our own
    return loaded.dataset, loaded


SMALL = [name for name, dataset in named().items() if dataset.reader in WRITERS and ":" not in name]


@pytest.mark.parametrize("name", SMALL)
def test_every_declaration_opens_its_raw_files(name: str, tmp_path: Path) -> None:
    dataset, loaded = open_small(name, tmp_path)
    graphs = loaded.graphs
    split = choose_split(dataset, loaded.graphs, loaded.splits, 0)
    assert not set(split.train.tolist()) & set(split.test.tolist())
    assert not set(split.train.tolist()) & set(split.validation.tolist())
    assert min(len(part) for part in split) > 0
    assert (graphs.x is None) == (dataset.node == "none")
    assert dataset.edge == "none" or graphs.edge_attr is not None
    batch = graphs.batch(torch.arange(len(graphs)))
    assert len(batch.graph.batch) == graphs.nodes.sum()
    assert len(batch.y) == {"graph": len(graphs), "node": int(graphs.nodes.sum())}.get(graphs.level, len(batch.y))
    again = load(find_dataset(name), tmp_path / "raw", tmp_path / "cache", trust=True)  # from the cache
    assert (again.dataset, again.digest) == (dataset, loaded.digest)
    if dataset.reader == "ogb" and dataset.single:  # undirected and without loops, as in Polynormer's code
        assert pairs_of(graphs) == [Counter(map(tuple, both_ways(ring(int(graphs.nodes[0]))).T.tolist()))]
    elif dataset.reader not in ("ogb", "smiles_csv"):
        theirs = edges_of_class(dataset, tmp_path / "raw")
        assert pairs_of(graphs) == [Counter(zip(*index.tolist(), strict=True)) for index in theirs]


def pairs_of(graphs: Graphs) -> list[Counter[tuple[int, int]]]:
    """Return source and target of the edges of each graph."""
    parts = graphs.edge_index.split(graphs.edges.tolist(), dim=1)
    return [Counter(zip(*index.tolist(), strict=True)) for index in parts]


def test_a_named_graph_keeps_its_repeated_edges_with_their_features() -> None:
    index = torch.tensor([[3, 0, 3, 1, 3], [0, 3, 0, 1, 0]])
    graph = Data(edge_index=index, edge_attr=torch.arange(5), edge_weight=torch.arange(5.0), num_nodes=4, kept=1)
    found = sorted_by_node(graph)
    assert found.edge_index.T.tolist() == [[0, 3], [1, 1], [3, 0], [3, 0], [3, 0]]
    assert found.edge_attr.tolist() == found.edge_weight.tolist() == [1, 3, 0, 2, 4]
    assert (found.num_nodes, found.kept) == (4, 1)
    assert torch.equal(graph.edge_index, index)


def masked(data: Data) -> list[list[list[int]]]:
    """Return the nodes of each part of each split."""
    masks = (data[name].reshape(data.num_nodes, -1) for name in ("train_mask", "val_mask", "test_mask"))
    columns = [[column.nonzero().flatten().tolist() for column in mask.T] for mask in masks]
    return [[part[min(i, len(part) - 1)] for part in columns] for i in range(len(columns[0]))]


@pytest.mark.filterwarnings("ignore")  # from PyG and its pickles
@pytest.mark.parametrize(
    ("name", "reader", "root", "options"),
    [
        ("CiteSeer", pyg.Planetoid, "Planetoid", {"name": "CiteSeer"}),
        ("wikics", pyg.WikiCS, "WikiCS", {"is_undirected": True}),
        ("MUTAG", pyg.TUDataset, "TUDataset", {"name": "MUTAG"}),
        ("ZINC", pyg.ZINC, "ZINC", {"subset": True}),
        ("CIFAR10", pyg.GNNBenchmarkDataset, "GNNBenchmarkDataset", {"name": "CIFAR10"}),
        ("PCQM-Contact", pyg.LRGBDataset, "", {"name": "PCQM-Contact"}),
    ],
)
def test_graphs_and_splits_are_those_of_pyg(
    name: str, reader: Any, root: str, options: dict[str, Any], tmp_path: Path
) -> None:
    _, loaded = open_small(name, tmp_path)
    options = options | {"root": str(tmp_path / "raw" / root)}
    if name in ("ZINC", "CIFAR10", "PCQM-Contact"):
        parts = [list(reader(split=part, **options)) for part in ("train", "val", "test")]
        assert [len(part) for part in loaded.splits[0]] == [len(part) for part in parts]
        theirs = [data for part in parts for data in part]
        assert torch.cat(list(loaded.splits[0])).tolist() == list(range(len(theirs)))
    else:
        theirs = list(reader(**options))
    if name == "wikics":  # its nodes for early stopping are for validation too, as Polynormer has them
        assert (theirs[0].stopping_mask & ~theirs[0].val_mask).any()
        theirs[0].val_mask |= theirs[0].stopping_mask
    if "train_mask" in theirs[0]:
        assert [[part.tolist() for part in split] for split in loaded.splits] == masked(theirs[0])
    if name == "CIFAR10":
        theirs = [data.update({"x": torch.cat([data.x, data.pos], dim=1)}) for data in theirs]
    if name == "PCQM-Contact":
        pairs = loaded.graphs.batch(torch.tensor([5])).pairs
        assert torch.equal(pairs, theirs[5].edge_label_index)
        theirs = [data.update({"y": data.edge_label}) for data in theirs]
    ours, whole = loaded.graphs.batch(torch.arange(len(theirs))), Batch.from_data_list(theirs)
    assert torch.equal(ours.graph.batch, whole.batch)
    torch.testing.assert_close(ours.y.flatten().float(), whole.y.flatten().float())
    assert torch.equal(sort_edge_index(ours.graph.edge_index), sort_edge_index(whole.edge_index))
    if ours.x is not None:
        torch.testing.assert_close(ours.x, whole.x)
    if ours.edge_attr is not None:
        attributes = whole.edge_attr.view(len(ours.edge_attr), -1)
        found = sort_edge_index(ours.graph.edge_index, ours.edge_attr)[1]
        torch.testing.assert_close(found, sort_edge_index(whole.edge_index, attributes)[1])


def test_syntax_trees_get_edges_between_tokens(tmp_path: Path) -> None:
    _, loaded = open_small("ogbg-code2", tmp_path)
    batch = loaded.graphs.batch(torch.tensor([0]))  # 5 nodes, of which 1, 2 and 4 are tokens; a ring with a chord
    tokens = batch.edge_attr[:, 0] == 1
    forward = tokens & (batch.edge_attr[:, 1] == 0)
    assert batch.graph.edge_index[:, forward].T.tolist() == [[1, 2], [2, 4]]
    assert batch.graph.edge_index[:, tokens & ~forward].T.tolist() == [[2, 1], [4, 2]]
    assert (~tokens).sum() == 2 * 6
    assert loaded.graphs.x[:, 2].max() == 20


def test_words_are_numbered_by_frequency_in_training() -> None:
    lines = [["a", "b"], ["b", "c"], ["b", "a"], ["d", "b", "never"]]
    numbered = number_words(lines, lines[:3])
    assert numbered[:3].tolist() == [[1, 0, -1], [0, 2, -1], [0, 1, -1]]
    assert numbered[3, 1] == 0
    assert (numbered[3, [0, 2]] >= VOCABULARY_SIZE).all()
    assert numbered[3, 0] != numbered[3, 2]


def test_pcqm4mv2_tests_on_the_public_validation_part(tmp_path: Path) -> None:
    dataset, loaded = open_small("PCQM4Mv2", tmp_path)
    split = choose_split(dataset, loaded.graphs, loaded.splits, 0)
    assert split.test.tolist() == [10, 11]
    assert sorted([*split.train.tolist(), *split.validation.tolist()]) == list(range(10))


def test_attributes_are_standardised_by_the_training_graphs_and_come_before_labels(
    tmp_path: Path, fabric: Fabric
) -> None:
    _, loaded = open_small("PROTEINS", tmp_path)
    task, _ = build_task(load_benchmark("PROTEINS", "gin"), loaded, fabric)
    raw, x = loaded.graphs.x.double().numpy(), task.graphs.x.numpy()
    assert x.shape[1] == 1 + 3
    graph = np.repeat(np.arange(len(loaded.graphs)), loaded.graphs.nodes.numpy())
    of_training = raw[np.isin(graph, task.split.train.numpy()), 0]
    np.testing.assert_allclose(x[:, 0], (raw[:, 0] - of_training.mean()) / of_training.std(), rtol=1e-5, atol=1e-6)
    assert abs(x[:, 0].mean()) > 1e-3  # the means of all graphs would make it 0
    assert (x[:, 1:].sum(1) == 1).all()
    np.testing.assert_array_equal(x[:, 1:], raw[:, 1:])


def test_a_column_that_is_constant_in_training_is_centred() -> None:
    """A deviation of rounding alone would turn 5.5 of a test graph into 10^16."""
    training = torch.arange(9) < 6
    table = torch.stack([torch.where(training, 0.1, 5.5), (torch.arange(9) == 8).float(), torch.arange(9.0)], 1)
    found = standardise(table, training)
    assert found[:6, 0].abs().max() < 1e-6
    torch.testing.assert_close(found[6:, 0], torch.full((3,), 5.4))
    assert torch.equal(found[:, 1], table[:, 1])
    torch.testing.assert_close(found[:6].std(0, unbiased=False)[2], torch.tensor(1.0))
    assert standardise(table[:, :1] * 0, training).abs().max() == 0
