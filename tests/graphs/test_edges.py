"""The edges of grids and sparse graphs, side by side in each graph of a batch."""

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.utils import subgraph

from sstcast.graphs.graph import DenseEdges
from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph

H, W = 4, 5


def rows(edges: DenseEdges, graph: int) -> list[tuple[float, ...]]:
    parts = [edges.source, edges.target] + ([] if edges.attr is None else [edges.attr])
    return sorted(map(tuple, torch.cat(parts, dim=-1)[graph][edges.mask[graph]].tolist()))


def oceans() -> tuple[GridGraph, SparseGraph, Tensor]:
    mask = torch.rand(2, H * W, generator=torch.Generator().manual_seed(1)) < 0.7
    grid = GridGraph(H, W, mask)
    index = grid.edge_index()
    attr = torch.stack([index[0] % W - index[1] % W, index[0] // W - index[1] // W], dim=1).float()
    graphs = []
    for keep in mask:
        edges, features = subgraph(keep, index, attr, relabel_nodes=True, num_nodes=H * W)
        graphs.append(Data(edge_index=edges, edge_attr=features, num_nodes=int(keep.sum())))
    return grid, SparseGraph.from_pyg(Batch.from_data_list(graphs)), mask


def test_a_tile_has_3422_edges_in_two_directions() -> None:
    edges = GridGraph(30, 30).dense_edges(torch.arange(900.0).reshape(1, 900, 1))
    ends = torch.cat([edges.source, edges.target], dim=-1)[edges.mask]
    assert len({tuple(pair) for pair in ends.tolist()}) == len(ends) == 2 * 3422
    assert {tuple(pair) for pair in ends.tolist()} == {tuple(pair) for pair in ends.flip(1).tolist()}
    gap = ends[:, 0] - ends[:, 1]
    torch.testing.assert_close(gap, edges.attr[edges.mask] @ torch.tensor([1.0, 30.0]))


def test_grid_and_sparse_give_the_same() -> None:
    grid, sparse, mask = oceans()
    x = torch.arange(2.0 * H * W).reshape(2, H * W, 1)
    ours, theirs = grid.dense_edges(x), sparse.dense_edges(x[mask])
    assert rows(ours, 0) == rows(theirs, 0)
    assert rows(ours, 1) == rows(theirs, 1)
    assert ours.mask.sum() == theirs.mask.sum() == sparse.edge_index.shape[1]


@pytest.mark.parametrize("features", [0, 2])
def test_edges_of_two_graphs_mixed_up(features: int) -> None:
    """The edges of each graph are those of the list, whatever their order there."""
    torch.manual_seed(0)
    index = torch.cat([torch.randint(0, 6, (2, 9)), torch.randint(6, 10, (2, 5))], dim=1)[:, torch.randperm(14)]
    attr = torch.randn(14, features) if features else None
    x, batch = torch.randn(10, 3), torch.tensor([0] * 6 + [1] * 4)
    edges = SparseGraph(index, batch, 2, attr).dense_edges(x)
    assert edges.mask.sum(1).tolist() == [9, 5]
    for graph in range(2):
        own = batch[index[0]] == graph
        parts = [x[index[0, own]], x[index[1, own]]] + ([attr[own]] if features else [])
        assert rows(edges, graph) == sorted(map(tuple, torch.cat(parts, dim=1).tolist()))


def test_no_edges() -> None:
    batch = torch.tensor([0, 0, 2])
    edges = SparseGraph(torch.empty(2, 0, dtype=torch.long), batch, 3).dense_edges(torch.randn(3, 4))
    assert edges.source.shape == (3, 0, 4)
    assert edges.mask.shape == (3, 0)
