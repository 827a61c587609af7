"""Graphs that occur several times: which are equal, and the parts of a split that they stay in."""

from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
import yaml
from rdkit import Chem
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import from_networkx

import sstcast
from sstcast.benchmarks.config import load_benchmark
from sstcast.benchmarks.equal_graphs import repeats_line
from sstcast.benchmarks.load import LoadedDataset, load
from sstcast.benchmarks.objectives import objective_of
from sstcast.benchmarks.packed import Split
from sstcast.benchmarks.registry import parse_split
from sstcast.benchmarks.splits import choose_split
from sstcast.errors import SSTCastError

COPIES = 4


def renumbered(data: Data, generator: torch.Generator, y: int) -> Data:
    """Return the same graph with its nodes and edges in another order."""
    order = torch.randperm(data.num_nodes, generator=generator)
    edges = order.argsort()[data.edge_index][:, torch.randperm(data.num_edges, generator=generator)]
    return Data(x=data.x[order], edge_index=edges, y=torch.tensor([y]))


def repeated(graphs: int = 30, label: Any = lambda graph, copy: graph % 3) -> list[Data]:
    """Return random graphs, each `COPIES` times, in a random order."""
    generator, found = torch.Generator().manual_seed(0), []
    for i in range(graphs):
        data = from_networkx(nx.gnm_random_graph(5 + i % 3, 7, seed=i))
        data.x = torch.randint(3, (data.num_nodes, 1), generator=generator).double() / 7
        found += [renumbered(data, generator, label(i, copy)) for copy in range(COPIES)]
    return [found[k] for k in torch.randperm(len(found), generator=generator).tolist()]


def distinct() -> list[Data]:
    return [
        Data(x=torch.full((3, 1), i + 0.5), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([i % 3]))
        for i in range(30)
    ]


def loaded(data: Any, *overrides: str) -> LoadedDataset:
    config = load_benchmark(None, "gin", None, list(overrides))
    return load(config.declaration, config.root, Path(), source=data)


def split_of(found: LoadedDataset, seed: int = 0, groups: Tensor | None = None) -> Split:
    return choose_split(found.dataset, found.graphs, found.splits, seed, groups)


def test_equal_graphs_are_those_with_the_same_colours_in_networkx() -> None:
    data = repeated()
    hashes = []
    for one in data:
        graph = nx.Graph(one.edge_index.T.tolist())
        graph.add_nodes_from((i, {"x": str(value)}) for i, value in enumerate(one.x.flatten().tolist()))
        hashes.append(nx.weisfeiler_lehman_graph_hash(graph, node_attr="x", iterations=6))
    groups = loaded(data).groups
    assert groups.tolist() == [list(dict.fromkeys(hashes)).index(text) for text in hashes]
    assert len(set(hashes)) == 30
    other = [one.clone() for one in data]
    first, second = (groups == 0).nonzero().flatten()[:2].tolist()
    other[second].x = other[second].x + 1e-6
    assert loaded(other).groups[first] != loaded(other).groups[second]
    for one in data:
        one.edge_attr = torch.zeros(one.num_edges, 1)
    data[second].edge_attr[3] = 0.5
    assert loaded(data).groups[first] != loaded(data).groups[second]


def undirected(ends: list[tuple[int, int]], x: Tensor | None) -> Data:
    one_way = torch.tensor(ends).T
    return Data(x=x, edge_index=torch.cat([one_way, one_way.flip(0)], 1), num_nodes=1 + int(one_way.max()))


def groups_of(first: Data, second: Data) -> list[int]:
    """Return the groups of the two graphs, of which there are several copies."""
    return loaded([Data(**(first, second)[i % 2].to_dict(), y=i % 3) for i in range(12)]).groups[:4].tolist()


@pytest.mark.parametrize("x", [None, torch.zeros(4, 1), torch.ones(4, 2).long()])
def test_a_star_and_a_path_differ_without_features_too(x: Tensor | None) -> None:
    """Both have four nodes and three edges."""
    star, path = [(0, 1), (0, 2), (0, 3)], [(0, 1), (1, 2), (2, 3)]
    assert groups_of(undirected(star, x), undirected(path, x)) == [0, 1, 0, 1]


def test_a_node_is_not_one_of_its_neighbours() -> None:
    """In both squares, a node and its neighbours are two of one kind and one of the other."""
    square, x = [(0, 1), (1, 2), (2, 3), (3, 0)], torch.tensor([[1], [1], [2], [2]])
    assert groups_of(undirected(square, x), undirected(square, x[[0, 2, 1, 3]])) == [0, 1, 0, 1]


@pytest.mark.parametrize(("apart", "equal"), [(11, False), (13, True)])
def test_six_rounds_see_six_edges_far(apart: int, equal: bool) -> None:
    """Two nodes of a ring are marked. A node half way sees both, or none does."""
    ring, rows = [(i, (i + 1) % 32) for i in range(32)], torch.arange(32)[:, None]
    marked = [(rows == 0) | (rows == far) for far in (apart, apart + 1)]
    assert groups_of(*(undirected(ring, one.long()) for one in marked)) == ([0] * 4 if equal else [0, 1, 0, 1])


def test_a_weight_is_no_feature() -> None:
    data, values = distinct(), torch.tensor([0.5, 2.0])
    for i, one in enumerate(data):
        one.x, one.edge_attr, one.edge_weight = (
            torch.ones(3, 1),
            values[i % 2, None, None],
            values[1 - i % 2, None],
        )
    assert loaded(data).groups.tolist() == [0, 1] * 15


@pytest.mark.parametrize("split", ["60/20/20", "folds:5", "random:4-per-class"])
def test_equal_graphs_stay_in_one_part_of_a_drawn_split(split: str) -> None:
    found = loaded(repeated(), f"split={split}")
    assert found.grouped == 120
    for seed in range(5):
        parts = split_of(found, seed, found.groups)
        members = [set(found.groups[part].tolist()) for part in parts]
        assert sum(map(len, members)) == len(set.union(*members))
        assert torch.cat(list(parts)).unique().numel() == (30 if "per-class" in split else 120)
        if split == "60/20/20":
            assert [len(part) for part in parts] == [72, 24, 24]
        elif split == "folds:5":
            assert [torch.bincount(found.graphs.y[part]).tolist() for part in parts[1:]] == [[8, 8, 8]] * 2
        else:
            assert torch.bincount(found.graphs.y[parts.train]).tolist() == [4, 4, 4]


@pytest.mark.parametrize("split", ["60/20/20", "folds:5", "random:4-per-class"])
def test_graphs_without_repeats_and_rows_are_divided_as_before(split: str) -> None:
    once = loaded(distinct(), f"split={split}")
    assert once.grouped == 0
    for ours, theirs in zip(split_of(once, 3, once.groups), split_of(once, 3), strict=True):
        assert torch.equal(ours, theirs)
    plain, rows = loaded(repeated(), f"split={split}"), loaded(repeated(), f"split=rows:{split}")
    assert (rows.grouped, rows.digest) == (0, plain.digest)
    for ours, theirs in zip(split_of(rows, 3, rows.groups), split_of(plain, 3), strict=True):
        assert torch.equal(ours, theirs)


def test_a_part_that_equal_graphs_leave_empty_is_refused_with_a_remedy() -> None:
    found = loaded(repeated(3), "split=80/10/10")
    message = (
        "puts none of 12 samples into test, as equal graphs stay in one part; set split=rows:random:0.8/0.1/0.1"
    )
    with pytest.raises(SSTCastError, match=message):
        split_of(found, 0, found.groups)
    rows = loaded(repeated(3), "split=rows:random:0.8/0.1/0.1")
    assert [len(part) for part in split_of(rows, 0, rows.groups)] == [10, 1, 1]


def test_the_splits_of_all_seeds_are_checked_before_the_first_is_trained(tmp_path: Path) -> None:
    """Four equal graphs and four others: if the equal ones come last, the middle part is empty."""
    data = [*repeated(1), *distinct()[:4]]
    for one in data:
        one.x = one.x.float()
    found, fits = loaded(data, "split=50/25/25"), {}
    for seed in range(30):
        try:
            fits[len(split_of(found, seed, found.groups).test) > 0] = seed
        except SSTCastError:
            fits[False] = seed
    keys = ["split=50/25/25", "training.epochs=1", "training.device=cpu", f"runs={tmp_path}"]
    with pytest.raises(SSTCastError, match="none of 8 samples into validation, as equal graphs stay in one part"):
        sstcast.benchmark(data, "gin", overrides=keys, seeds=[fits[True], fits[False]])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("label", "words"),
    [
        (lambda g, c: g % 2, "120 of 120 graphs equal another, 0 of them with another label"),
        (lambda g, c: int(g == 7 and c == 2), "120 of 120 graphs equal another, 4 of them with another label"),
        (lambda g, c: (g + 1) % 2 if c else -1, "120 of 120 graphs equal another, 0 of them with another label"),
    ],
)
def test_repeats_and_their_disagreements_are_counted(label: Any, words: str) -> None:
    found = loaded(repeated(label=label))
    assert repeats_line(found.graphs, found.groups, objective_of(found.dataset)) == words
    assert repeats_line(found.graphs, torch.arange(120), objective_of(found.dataset)) == ""


def test_molecules_are_equal_however_they_are_written(tmp_path: Path) -> None:
    """OGB's features depend on the order of the atoms around a chiral one."""
    texts = ["C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O", "CCO", "c1ccccc1O", "CCN", "OC(=O)CC"]
    spellings = [Chem.MolToSmiles(Chem.MolFromSmiles(t), doRandom=True) for t in texts for _ in range(8)]
    rows = "".join(f"{text},{i // 8 % 2}\n" for i, text in enumerate(spellings))
    (tmp_path / "mine.csv").write_text("smiles,active\n" + rows)
    keys = {"kind": "smiles_csv", "path": "mine.csv", "targets": ["active"], "task": "graph-classification"}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(keys))
    config = load_benchmark(str(tmp_path / "mine.yaml"), "gin")
    for _ in ("computed", "kept"):
        found = load(config.declaration, config.root, tmp_path / "cache")
        assert found.groups.tolist() == [i // 8 for i in range(48)]


def test_a_line_tells_of_equal_graphs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = ["model.width=4", "model.layers=1", "training.epochs=1", "training.device=cpu", f"runs={tmp_path}"]
    sstcast.benchmark(repeated(), "gin", overrides=keys)
    assert "120 of 120 graphs equal another, 0 of them with another label; they stay in" in capsys.readouterr().out


def test_names_of_splits_by_rows() -> None:
    assert parse_split("rows:70/15/15") == "rows:random:0.7/0.15/0.15"
    assert parse_split("rows:folds:10") == "rows:folds:10"
    for text in ("rows:scaffold", "rows:official", "rows:rows:folds:3", "rows:"):
        with pytest.raises(ValueError, match="write official"):
            parse_split(text)


def test_the_digest_of_a_set_tells_its_split() -> None:
    def split_at(first: int) -> Data:
        nodes = torch.arange(20)
        masks = {
            "train_mask": nodes < first,
            "val_mask": (nodes >= first) & (nodes < 15),
            "test_mask": nodes >= 15,
        }
        edges = torch.stack([nodes, nodes.roll(1)])
        return Data(x=nodes[:, None].float(), y=nodes % 2, edge_index=edges, **masks)

    assert loaded(split_at(8)).digest == loaded(split_at(8)).digest != loaded(split_at(9)).digest
