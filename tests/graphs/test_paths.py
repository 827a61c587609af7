"""Means along shortest paths, against every path that networkx lists."""

import networkx as nx
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.utils import subgraph

from sstcast.graphs.grid import GridGraph
from sstcast.graphs.paths import mean_along_paths
from sstcast.graphs.sparse import SparseGraph

H, W, MOST = 4, 5, 3


def as_sparse(*graphs: nx.Graph) -> SparseGraph:
    """Each edge in both directions, with a feature of its own in each."""
    data = []
    for graph in graphs:
        index = torch.tensor(list(graph.to_directed().edges), dtype=torch.long).reshape(-1, 2).T
        attr = torch.randn(index.shape[1], 1, dtype=torch.float64)
        data.append(Data(edge_index=index, edge_attr=attr, num_nodes=len(graph)))
    return SparseGraph.from_pyg(Batch.from_data_list(data))


def scores_of(graph: GridGraph | SparseGraph, x: Tensor) -> list[Tensor]:
    """The k-th edge of a path counts by the k-th power of its feature."""
    attr = graph.dense_edges(x).attr
    return [attr**k for k in range(1, MOST + 1)]


def explicit(graph: nx.Graph, feature: dict[tuple[int, int], float], size: int) -> Tensor:
    means = torch.zeros(size, size, 1, dtype=torch.float64)
    for i, reached in nx.all_pairs_shortest_path_length(graph):
        for j, hops in reached.items():
            if 0 < hops <= MOST:
                paths = list(nx.all_shortest_paths(graph, i, j))
                sums = [sum(feature[e] ** k for k, e in enumerate(nx.utils.pairwise(p), start=1)) for p in paths]
                means[i, j] = sum(sums) / len(paths) / hops
    return means


def test_of_graphs_in_a_batch() -> None:
    """Many paths, few, several pieces, no edge and no node."""
    torch.manual_seed(0)
    graphs = [
        nx.gnm_random_graph(12, 20, seed=0),
        nx.Graph(),
        nx.disjoint_union(nx.path_graph(6), nx.cycle_graph(4)),
        nx.empty_graph(2),
    ]
    batch = as_sparse(*graphs)
    x, edges = torch.zeros(len(batch.batch), 1, dtype=torch.float64), batch.edge_index.T.tolist()
    means = mean_along_paths(batch, scores_of(batch, x), 12)
    values = dict(zip(map(tuple, edges), batch.edge_attr[0].flatten().tolist(), strict=True))
    first = 0
    for ours, graph in zip(means, graphs, strict=True):
        own = {(i, j): values[first + i, first + j] for i, j in graph.to_directed().edges}
        torch.testing.assert_close(ours, explicit(graph, own, 12), rtol=1e-6, atol=1e-6)
        first += len(graph)
    assert means[0].abs().sum() > 0


def test_of_a_grid_are_those_of_its_ocean() -> None:
    mask = torch.rand(2, H * W, generator=torch.Generator().manual_seed(1)) < 0.7
    grid = GridGraph(H, W, mask)
    index = grid.edge_index()
    attr = torch.stack([index[0] % W - index[1] % W, index[0] // W - index[1] // W], dim=1).float()
    x = torch.zeros(2, H * W, 1)
    ours = mean_along_paths(grid, scores_of(grid, x), H * W)
    for means, keep in zip(ours, mask, strict=True):
        edges, features = subgraph(keep, index, attr, relabel_nodes=True, num_nodes=H * W)
        ocean = SparseGraph(edges, edges.new_zeros(int(keep.sum())), 1, features)
        theirs = mean_along_paths(ocean, scores_of(ocean, x[0, keep]), int(keep.sum()))[0]
        torch.testing.assert_close(means[keep][:, keep], theirs)
        assert not means[~keep].any()
    assert not torch.allclose(ours[0], ours[1])


def test_an_edge_stored_one_way_counts_both_ways() -> None:
    graph = SparseGraph(
        torch.tensor([[0, 2], [1, 1]]), torch.zeros(3, dtype=torch.long), 1, torch.tensor([[2.0], [5.0]])
    )
    means = mean_along_paths(graph, [torch.tensor([[[2.0], [5.0]]])] * 2, 3)[0, :, :, 0]
    expected = torch.tensor([[0, 2, 3.5], [2, 0, 5], [3.5, 5, 0]])
    torch.testing.assert_close(means, expected)


@pytest.mark.parametrize("most", [1, 2])
def test_gradients(most: int) -> None:
    """By differences: the mean is linear in the scores, so they are exact."""
    graph = as_sparse(nx.cycle_graph(4))
    scores = torch.randn(most, 1, 8, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: mean_along_paths(graph, list(s), 4), scores)
