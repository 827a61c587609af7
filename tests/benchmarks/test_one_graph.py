"""A graph is one graph, whoever reads it: a CSV, an npz, PyG's `Data`, a layer, an attention or a cache."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from logged import logged
from small_graphs import same
from torch import Tensor
from torch_geometric.data import Data

from sstcast.benchmarks.config import load_benchmark
from sstcast.benchmarks.edges import listed_edges
from sstcast.benchmarks.load import LoadedDataset, load
from sstcast.graphs import paths
from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph
from sstcast.models import MODELS, build_model, default_options, reads_edges, takes_graphs
from sstcast.models.layers import ATTENTIONS, CONVS

NODES, WIDTH = 9, 8
LINES = [(0, 1), (1, 0), (1, 2), (1, 2), (2, 1), (3, 3), (3, 3), (5, 5), (6, 4), (6, 4), (0, 7), (7, 8), (8, 7)]
FEATURES = torch.arange(1.0, len(LINES) + 1)


def stored(lines: list[tuple[int, int]], values: list[float], directed: bool) -> Counter[tuple[int, int, float]]:
    """Return the edges as documented, line by line in plain Python."""
    if directed:
        return Counter((a, b, v) for (a, b), v in zip(lines, values, strict=True))
    found: Counter[tuple[int, int, float]] = Counter()
    for a, b in {(min(line), max(line)) for line in lines}:
        there, back = (
            [v for line, v in zip(lines, values, strict=True) if line == ends] for ends in ((a, b), (b, a))
        )
        if a == b:
            found.update((a, a, v) for v in there)
            continue
        for k in range(max(len(there), len(back))):
            found[a, b, there[k] if k < len(there) else back[k]] += 1
            found[b, a, back[k] if k < len(back) else there[k]] += 1
    return found


def counted(index: Tensor, values: Tensor) -> Counter[tuple[int, int, float]]:
    return Counter(zip(*index.tolist(), values.flatten().tolist(), strict=True))


@pytest.mark.parametrize("directed", [False, True])
def test_no_line_is_lost_or_merged(directed: bool) -> None:
    random, where = np.random.default_rng(0), Path("edges.csv")
    for lines in (0, 1, 40):
        index, values = torch.from_numpy(random.integers(0, 5, (2, lines))), torch.arange(float(lines))
        ours, of_lines = listed_edges(index, values[:, None], 5, directed, where)
        assert counted(ours, of_lines) == stored([*map(tuple, index.T.tolist())], values.tolist(), directed)
        assert ours.T.tolist() == sorted(ours.T.tolist())
    with logged() as told:
        listed_edges(torch.tensor(LINES).T, FEATURES[:, None], NODES, directed, where)
        listed_edges(torch.tensor([[0, 1], [1, 0]]), torch.zeros(2, 0), 2, directed, where)
    # The repeats are between 1 and 2, the loop at 3, and between 4 and 6. The second graph has none.
    assert told == ["edges.csv: 3 self-loops and 3 repeated edges; kept"]


def as_csv(folder: Path) -> str:
    rows = "".join(f"{i},{i % 2},{i / 4}\n" for i in range(NODES))
    (folder / "nodes.csv").write_text("id,y,a\n" + rows)
    lines = "".join(f"{a},{b},{v},{1 / v}\n" for (a, b), v in zip(LINES, FEATURES.tolist(), strict=True))
    (folder / "edges.csv").write_text("source,target,feature,weight\n" + lines)
    keys = {"kind": "graph_csv", "path": "nodes.csv", "edges": "edges.csv", "id": "id", "target": "y"}
    (folder / "csv.yaml").write_text(yaml.safe_dump(keys | {"edge_features": ["feature"], "features": ["a"]}))
    return str(folder / "csv.yaml")


def as_npz(folder: Path) -> str:
    index = np.array(sorted(LINES)).T
    order = np.lexsort(np.array(LINES).T[::-1])
    starts = np.searchsorted(index[0], np.arange(NODES + 1))  # a CSR matrix may hold an entry twice
    arrays = {"adj_data": (1 / FEATURES.numpy())[order], "adj_indices": index[1], "adj_indptr": starts}
    arrays |= {"adj_shape": np.array([NODES, NODES]), "labels": np.arange(NODES) % 2}
    np.savez(folder / "graph.npz", attr_matrix=np.arange(NODES)[:, None] / 4, **arrays)
    (folder / "npz.yaml").write_text("{kind: pyg, path: graph.npz}")
    return str(folder / "npz.yaml")


def as_data() -> Data:
    """Return the same graph as a user would store it: each edge both ways, in an order of its own."""
    edges = [*stored(LINES, FEATURES.tolist(), directed=False).elements()]
    np.random.default_rng(1).shuffle(edges)
    source, target, value = torch.tensor(edges).T
    x = torch.arange(NODES).view(-1, 1) / 4
    index, y = torch.stack([source, target]).long(), torch.arange(NODES) % 2
    return Data(x=x, edge_index=index, edge_attr=value[:, None], edge_weight=1 / value, y=y)


def read(name: str | None, source: Any = None) -> LoadedDataset:
    config = load_benchmark(name, "gcn")
    return load(config.declaration, config.root, Path(), source=source)


GRAPHS = {name: {} for name in MODELS if takes_graphs(name)}
GRAPHS |= {f"mpnn {name}": {"conv": name, "layers": 2} for name in CONVS}
GRAPHS |= {f"gps {name}": {"conv": "none", "attention": name, "layers": 2} for name in ATTENTIONS}
GRAPHS |= {"sat subgraph": {"extractor": "subgraph"}}


def test_the_same_graph_from_every_reader_has_the_same_outputs(tmp_path: Path) -> None:
    """Its lines hold loops, repeats, and edges of one and of both directions, with features of their own."""
    found = {"csv": read(as_csv(tmp_path)), "data": read(None, as_data()), "list": read(None, [as_data()])}
    found["npz"] = read(as_npz(tmp_path))
    wanted = stored(LINES, FEATURES.tolist(), directed=False)
    for name, loaded in found.items():
        graphs = loaded.graphs
        values = 1 / graphs.edge_weight if graphs.edge_attr is None else graphs.edge_attr
        assert counted(graphs.edge_index, values.round()) == wanted, name
    batches = {name: loaded.graphs.batch(torch.tensor([0])) for name, loaded in found.items()}
    x = torch.randn(NODES, WIDTH)
    for name, options in GRAPHS.items():
        model_name = name.partition(" ")[0]
        known = default_options(model_name)
        for features in range(1 + reads_edges(model_name, options)):
            sizes = {"width": WIDTH, "heads": 2, "edge_dim": features}
            model = build_model(model_name, **{k: v for k, v in sizes.items() if k in known}, **options).eval()
            readers = [reader for reader in batches if reader != "npz" or not features]
            expected, *others = (
                model(x, batches[reader].graph.with_edges(batches[reader].edge_attr if features else None))
                for reader in readers
            )
            for output in others:
                same(output, expected, 1e-4)


def test_weighted_loops_at_a_node_count_as_one_with_their_mean_weight() -> None:
    index = torch.tensor([[0, 1, 1, 1, 2], [1, 0, 1, 1, 2]])
    graph = SparseGraph(index, torch.zeros(3).long(), 1, edge_weight=torch.tensor([1.0, 1, 0.5, 2.5, 0.25]))
    assert graph.loop_weight.flatten().tolist() == [1.0, 1.5, 0.25]


@pytest.mark.parametrize("name", ["spdgt", "sat"])
@pytest.mark.parametrize("shape", [(1, 6), (6, 1), (2, 5), (5, 2)])
@pytest.mark.parametrize("wrap", [False, True])
def test_caches_know_the_places_of_edges(name: str, shape: tuple[int, int], wrap: bool) -> None:
    """Grids of other shapes and edge lists have the same nodes and edges, at other places."""
    torch.manual_seed(0)
    options = {"extractor": "subgraph"} if name == "sat" else {}
    model, x = build_model(name, width=WIDTH, heads=2, edge_dim=2, **options).eval(), torch.randn(10, WIDTH)
    grid, x = GridGraph(*shape, wrap=wrap), x[: shape[0] * shape[1]]
    listed, outputs = as_list(grid, x), []
    for before in (grid, GridGraph(*shape[::-1], wrap=wrap), GridGraph(*shape, wrap=not wrap), listed):
        for function in (paths._to_anchors, paths.hops_between_all, paths._steps, paths._egos):
            function.cache_clear()
        model(x if before is listed else x[None], before)
        outputs.append(model(x[None], grid)[0])
    assert all(torch.equal(output, outputs[0]) for output in outputs)
    same(model(x, listed), outputs[0])


def as_list(grid: GridGraph, x: Tensor) -> SparseGraph:
    """Return a grid as an edge list with the same features, in the order of `edge_index`."""
    edges = grid.dense_edges(torch.arange(len(x)).view(1, -1, 1).float())
    real = edges.mask[0]
    index = torch.stack([edges.source[0, real, 0], edges.target[0, real, 0]]).long()
    assert torch.equal(index, grid.edge_index)
    return SparseGraph(index, torch.zeros(len(x)).long(), 1, edges.attr[0, real])
