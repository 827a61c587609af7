import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.utils import subgraph, to_undirected

from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph
from sstcast.graphs.undirected import UndirectedEdges, undirected_edges

H, W = 4, 5


def rows(edges: UndirectedEdges, graph: int) -> set[tuple[float, ...]]:
    parts = [edges.first, edges.second] + ([] if edges.attr is None else [edges.attr])
    return set(map(tuple, torch.cat(parts, dim=-1)[graph][edges.mask[graph]].tolist()))


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


def test_a_tile_has_3422_edges() -> None:
    edges = undirected_edges(GridGraph(30, 30), torch.arange(900.0).reshape(1, 900, 1))
    ends = torch.cat([edges.first, edges.second], dim=-1)[edges.mask]
    assert len({frozenset(pair) for pair in ends.tolist()}) == len(ends) == 3422
    gap = ends[:, 0] - ends[:, 1]
    torch.testing.assert_close(gap, edges.attr[edges.mask] @ torch.tensor([1.0, 30.0]))


def test_grid_and_sparse_give_the_same() -> None:
    grid, sparse, mask = oceans()
    x = torch.arange(2.0 * H * W).reshape(2, H * W, 1)
    ours, theirs = undirected_edges(grid, x), undirected_edges(sparse, x[mask])
    assert rows(ours, 0) == rows(theirs, 0)
    assert rows(ours, 1) == rows(theirs, 1)
    assert ours.mask.sum() == theirs.mask.sum() == sparse.edge_index.shape[1] // 2


@pytest.mark.parametrize("features", [0, 2])
def test_numbering_changes_nothing(features: int) -> None:
    """Features that differ by direction, and none at all."""
    torch.manual_seed(0)
    index = to_undirected(torch.randint(0, 12, (2, 20)))
    attr = torch.randint(0, 3, (index.shape[1], features)).float() if features else None
    x, order = torch.randn(12, 3), torch.randperm(12)
    place = order.argsort()
    batch = torch.zeros(12, dtype=torch.long)
    ours = undirected_edges(SparseGraph(index, batch, 1, attr), x)
    theirs = undirected_edges(SparseGraph(place[index], batch, 1, attr), x[order])
    assert rows(ours, 0) == rows(theirs, 0)
    assert ours.mask.sum() == len({frozenset(pair) for pair in index.T.tolist()})


def test_without_a_direction_both_ends_are_the_mean() -> None:
    x = torch.randn(3, 2)
    index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    edges = undirected_edges(SparseGraph(index, torch.zeros(3, dtype=torch.long), 1), x)
    torch.testing.assert_close(edges.first[0], torch.stack([x[0] + x[1], x[1] + x[2]]) / 2)
    assert torch.equal(edges.first, edges.second)


def test_an_edge_of_one_direction_keeps_it() -> None:
    x = torch.randn(2, 2)
    edges = undirected_edges(SparseGraph(torch.tensor([[1], [0]]), torch.zeros(2, dtype=torch.long), 1), x)
    assert torch.equal(edges.first[0], x[1:])
    assert torch.equal(edges.second[0], x[:1])


def test_no_edges() -> None:
    batch = torch.tensor([0, 0, 2])
    edges = undirected_edges(SparseGraph(torch.empty(2, 0, dtype=torch.long), batch, 3), torch.randn(3, 4))
    assert edges.first.shape == (3, 0, 4)
    assert edges.mask.shape == (3, 0)
