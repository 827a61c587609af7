"""Hops, anchors and means along shortest paths, against networkx."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from small_graphs import as_sparse, land_grid, ocean_of, one_graph
from torch import Tensor

from sstcast.errors import SSTCastError
from sstcast.graphs.grid import GridGraph
from sstcast.graphs.paths import anchor_distances, dominating_set, mean_along_paths, path_distances
from sstcast.graphs.sparse import SparseGraph

H, W, MOST = 6, 7, 3
# A connected graph, a disconnected one, a single node and no node.
GRAPHS = [
    nx.random_regular_graph(3, 20, seed=1),
    nx.gnm_random_graph(15, 9, seed=2),
    nx.Graph([(0, 0)]),
    nx.Graph(),
]


def hops_of(graph: nx.Graph, size: int) -> np.ndarray:
    hops = np.full((size, size), np.inf)
    for source, targets in nx.all_pairs_shortest_path_length(graph):
        hops[source, list(targets)] = list(targets.values())
    return hops


def test_paths_of_sparse_graphs() -> None:
    hops = path_distances(as_sparse(*GRAPHS))
    assert hops.shape == (4, 20, 20)
    for ours, graph in zip(hops, GRAPHS, strict=True):
        np.testing.assert_array_equal(ours, hops_of(graph, 20))


def test_paths_of_a_grid_go_around_land() -> None:
    grid = land_grid(H, W)
    for ours, real in zip(path_distances(grid), grid.mask, strict=True):
        whole = nx.Graph(GridGraph(H, W).edge_index.T.tolist())
        ocean = whole.subgraph(real.nonzero().flatten().tolist())
        np.testing.assert_array_equal(ours, hops_of(ocean, H * W))
    wall = torch.ones(1, H * W, dtype=torch.bool)
    wall.reshape(H, W)[:-1, 3] = False
    assert path_distances(GridGraph(H, W, wall))[0, 0, W - 1] == 2 * (H - 1)
    assert path_distances(GridGraph(H, W))[0, 0, W - 1] == W - 1


@pytest.mark.parametrize("radius", [0, 1, 3])
def test_every_node_has_an_anchor_within_the_radius(radius: int) -> None:
    graph = as_sparse(*GRAPHS)
    hops, (_, mask) = anchor_distances(graph, radius), graph.dense(torch.zeros(len(graph.batch), 1))
    assert (hops.amin(2)[mask] <= radius).all()
    assert hops[~mask].isinf().all()
    for to_anchors, to_all in zip(hops, path_distances(graph), strict=True):
        wanted = {tuple(column.tolist()) for column in to_all.T}
        for column in to_anchors.T[to_anchors.isfinite().any(0)]:
            assert tuple(column.tolist()) in wanted
            assert (column == 0).sum() == 1


def test_the_set_is_small_and_knows_no_land() -> None:
    assert (
        anchor_distances(GridGraph(30, 30), 5).shape[2] <= 25
    )  # blocks of 11 x 11 around each anchor would need 9
    grid = land_grid(H, W, 1)
    hops, mask = anchor_distances(grid, 2)[0], grid.mask[0]
    assert hops[~mask].isinf().all()
    assert (hops[mask].amin(1) <= 2).all()
    assert torch.equal(hops[mask], anchor_distances(ocean_of(grid), 2)[0])


def test_numbering_does_not_choose_the_anchors() -> None:
    """The Frucht graph without an edge has no symmetry. With it, all nodes would have one colour."""
    graph = nx.frucht_graph()
    graph.remove_edge(0, 1)
    order = np.random.default_rng(0).permutation(len(graph))
    adjacency = nx.to_numpy_array(graph)
    shuffled = np.empty_like(adjacency)
    shuffled[np.ix_(order, order)] = adjacency
    for radius in (1, 2):
        ours, other = (dominating_set(csr_array(a), np.ones(12, bool), radius) for a in (adjacency, shuffled))
        assert set(order[ours]) == set(other)


def test_too_large_is_refused_with_the_number(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = as_sparse(nx.empty_graph(4000))
    monkeypatch.setattr("sstcast.graphs.graph.UNCHECKED", 0)
    monkeypatch.setattr("sstcast.graphs.graph.free_memory", lambda: 150 * 2**20)
    for distances in (path_distances, lambda graph: anchor_distances(graph, 1)):
        with pytest.raises(SSTCastError, match=r"4000.*0\.2 GiB of memory, and 0\.146 GiB is free"):
            distances(graph)


def scores_of(graph: GridGraph | SparseGraph, x: Tensor) -> list[Tensor]:
    """Score the k-th edge of a path by the k-th power of its feature."""
    attr = graph.dense_edges(x).attr
    return [attr**k for k in range(1, MOST + 1)]


def means_of(graph: nx.Graph, feature: dict[tuple[int, int], float], size: int) -> Tensor:
    """Return the means over every path that networkx lists."""
    means = torch.zeros(size, size, 1)
    for i, reached in nx.all_pairs_shortest_path_length(graph):
        for j, hops in reached.items():
            if 0 < hops <= MOST:
                paths = list(nx.all_shortest_paths(graph, i, j))
                sums = [sum(feature[e] ** k for k, e in enumerate(nx.utils.pairwise(p), start=1)) for p in paths]
                means[i, j] = sum(sums) / len(paths) / hops
    return means


def test_means_of_graphs_in_a_batch() -> None:
    """Graphs with many paths, with few, with several components, without edges, and without nodes."""
    torch.manual_seed(0)
    pieces = nx.disjoint_union(nx.path_graph(6), nx.cycle_graph(4))
    graphs = [nx.gnm_random_graph(12, 20, seed=0), nx.Graph(), pieces, nx.empty_graph(2)]
    batch, first = as_sparse(*graphs, features=1), 0
    means = mean_along_paths(batch, scores_of(batch, torch.zeros(len(batch.batch), 1)), 12)
    values = dict(zip(map(tuple, batch.edge_index.T.tolist()), batch.edge_attr[0].flatten().tolist(), strict=True))
    for ours, graph in zip(means, graphs, strict=True):
        own = {(i, j): values[first + i, first + j] for i, j in graph.to_directed().edges}
        torch.testing.assert_close(ours, means_of(graph, own, 12), rtol=1e-5, atol=1e-5)
        first += len(graph)
    assert means[0].abs().sum() > 0


def test_repeated_edges_are_one_step_with_their_mean_score() -> None:
    """Edges of both directions are not averaged, and a loop is on no path. The order of edges does not matter."""
    index = torch.tensor([[0, 1, 1, 1, 0, 2, 2, 2], [1, 0, 0, 2, 1, 3, 3, 2]])
    attr = torch.tensor([[1.0], [10.0], [20.0], [5.0], [2.0], [7.0], [9.0], [50.0]])
    steps = {(0, 1): 1.5, (1, 0): 15.0, (1, 2): 5.0, (2, 1): 5.0, (2, 3): 8.0, (3, 2): 8.0}
    expected = torch.zeros(4, 4)
    for i, j in ((i, j) for i in range(4) for j in range(4) if i != j):
        nodes = range(i, j + 1) if i < j else range(i, j - 1, -1)
        expected[i, j] = sum(steps[pair] for pair in pairwise(nodes)) / abs(i - j)
    for order in (torch.arange(8), torch.arange(8).flip(0), torch.randperm(8)):
        means = mean_along_paths(one_graph(index[:, order], 4, attr[order]), [attr[order][None]] * 3, 4)
        torch.testing.assert_close(means[0, :, :, 0], expected)


def test_an_edge_stored_one_way_counts_both_ways() -> None:
    attr = torch.tensor([[2.0], [5.0]])
    means = mean_along_paths(one_graph(torch.tensor([[0, 2], [1, 1]]), 3, attr), [attr[None]] * 2, 3)
    expected = torch.tensor([[0, 2, 3.5], [2, 0, 5], [3.5, 5, 0]])
    torch.testing.assert_close(means[0, :, :, 0], expected)
