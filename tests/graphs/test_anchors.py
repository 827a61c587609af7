"""Hop distances and dominating sets against networkx."""

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.utils import from_networkx, subgraph

from sstcast.errors import SSTCastError
from sstcast.graphs.grid import GridGraph
from sstcast.graphs.paths import anchor_distances, dominating_set, path_distances
from sstcast.graphs.sparse import SparseGraph

H, W = 6, 7


def random_graphs() -> list[nx.Graph]:
    """Connected, in pieces, a single node and no node at all."""
    return [
        nx.random_regular_graph(3, 20, seed=1),
        nx.gnm_random_graph(15, 9, seed=2),
        nx.Graph([(0, 0)]),
        nx.Graph(),
    ]


def as_sparse(graphs: list[nx.Graph]) -> SparseGraph:
    data = [Data(edge_index=from_networkx(g).edge_index, num_nodes=len(g)) for g in graphs]
    return SparseGraph.from_pyg(Batch.from_data_list(data))


def ocean(mask: Tensor) -> nx.Graph:
    """The ocean of one grid, its nodes by their place."""
    place = [(i // W, i % W) for i in range(H * W) if mask[i]]
    graph = nx.Graph()
    graph.add_nodes_from(r * W + c for r, c in place)
    near = [(a, b) for a in place for b in place if a != b and max(abs(a[0] - b[0]), abs(a[1] - b[1])) == 1]
    graph.add_edges_from((r * W + c, s * W + d) for (r, c), (s, d) in near)
    return graph


def expected(graph: nx.Graph, size: int) -> np.ndarray:
    hops = np.full((size, size), np.inf)
    for source, targets in nx.all_pairs_shortest_path_length(graph):
        for target, length in targets.items():
            hops[source, target] = length
    return hops


def test_paths_of_sparse_graphs() -> None:
    graphs = random_graphs()
    hops = path_distances(as_sparse(graphs))
    assert hops.shape == (4, 20, 20)
    for ours, graph in zip(hops, graphs, strict=True):
        np.testing.assert_array_equal(ours, expected(graph, 20))


def test_paths_of_a_grid_go_around_land() -> None:
    mask = torch.rand(2, H * W, generator=torch.Generator().manual_seed(0)) < 0.7
    hops = path_distances(GridGraph(H, W, mask))
    for ours, real in zip(hops, mask, strict=True):
        np.testing.assert_array_equal(ours, expected(ocean(real), H * W))
    wall = torch.ones(1, H * W, dtype=torch.bool)
    wall.reshape(H, W)[:-1, 3] = False
    assert path_distances(GridGraph(H, W, wall))[0, 0, W - 1] == 2 * (H - 1)
    assert path_distances(GridGraph(H, W))[0, 0, W - 1] == W - 1


@pytest.mark.parametrize("radius", [0, 1, 3])
def test_every_node_has_an_anchor_within_the_radius(radius: int) -> None:
    graph = as_sparse(random_graphs())
    hops, (_, mask) = anchor_distances(graph, radius), graph.dense(torch.zeros(len(graph.batch), 1))
    assert (hops.amin(2)[mask] <= radius).all()
    assert hops[~mask].isinf().all()
    columns = path_distances(graph)
    for to_anchors, to_all in zip(hops, columns, strict=True):
        wanted = {tuple(column.tolist()) for column in to_all.T}
        for column in to_anchors.T[to_anchors.isfinite().any(0)]:
            assert tuple(column.tolist()) in wanted
            assert (column == 0).sum() == 1


def test_the_set_is_small_and_knows_no_land() -> None:
    grid = GridGraph(30, 30)
    assert anchor_distances(grid, 5).shape[2] <= 25  # a 11 x 11 block an anchor would be 9
    mask = torch.rand(1, H * W, generator=torch.Generator().manual_seed(5)) < 0.6
    hops = anchor_distances(GridGraph(H, W, mask), 2)
    assert hops[0, ~mask[0]].isinf().all()
    assert (hops[0, mask[0]].amin(1) <= 2).all()


def test_grid_and_sparse_give_the_same() -> None:
    mask = torch.rand(1, H * W, generator=torch.Generator().manual_seed(4)) < 0.8
    grid = GridGraph(H, W, mask)
    edges, _ = subgraph(mask[0], grid.edge_index(), relabel_nodes=True, num_nodes=H * W)
    sparse = SparseGraph(edges, torch.zeros(int(mask.sum()), dtype=torch.long), 1)
    assert torch.equal(anchor_distances(grid, 2)[0, mask[0]], anchor_distances(sparse, 2)[0])


def test_numbering_does_not_choose_the_anchors() -> None:
    """The Frucht graph is regular and has no symmetry, but all its nodes have one colour: take off an edge."""
    graph = nx.frucht_graph()
    graph.remove_edge(0, 1)
    order = np.random.default_rng(0).permutation(len(graph))
    adjacency = nx.to_numpy_array(graph)
    shuffled = np.empty_like(adjacency)
    shuffled[np.ix_(order, order)] = adjacency
    real = np.ones(len(graph), bool)
    for radius in (1, 2):
        ours = dominating_set(csr_array(adjacency), real, radius)
        assert set(order[ours]) == set(dominating_set(csr_array(shuffled), real, radius))


def test_too_large_is_refused_with_the_number(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = as_sparse([nx.empty_graph(4000)])
    monkeypatch.setattr("sstcast.graphs.graph.LIMIT", 50 * 2**20)
    for distances in (path_distances, lambda graph: anchor_distances(graph, 1)):
        with pytest.raises(SSTCastError, match=r"4000.*0\.1 GiB.*limit"):
            distances(graph)
