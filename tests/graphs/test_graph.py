"""GridGraph against the SparseGraph of the same grid, and both against plain loops."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.utils import subgraph

from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph

H, W, D = 4, 5, 3


def both(wrap: bool = False) -> tuple[GridGraph, SparseGraph, Tensor]:
    """A grid of two samples with different land, and the ocean nodes of it as a sparse graph."""
    mask = torch.rand(2, H * W, generator=torch.Generator().manual_seed(1)) < 0.7
    grid = GridGraph(H, W, mask, wrap)
    edges, attributes = grid.edge_index(), offsets(grid)
    graphs = []
    for keep in mask:
        index, attr = subgraph(keep, edges, attributes, relabel_nodes=True, num_nodes=H * W)
        graphs.append(Data(edge_index=index, edge_attr=attr, num_nodes=int(keep.sum())))
    return grid, SparseGraph.from_pyg(Batch.from_data_list(graphs)), mask


def offsets(grid: GridGraph) -> Tensor:
    """(dx, dy) of every edge of `edge_index`, from its end points."""
    source, target = grid.edge_index()
    dx = (source % W - target % W + W // 2) % W - W // 2 if grid.wrap else source % W - target % W
    return torch.stack([dx, source // W - target // W], dim=1).float()


def test_edges_join_the_eight_nearest() -> None:
    pairs = set(map(tuple, GridGraph(H, W).edge_index().T.tolist()))
    place = [(i // W, i % W) for i in range(H * W)]
    near = {
        (s, t)
        for s in range(H * W)
        for t in range(H * W)
        if s != t and max(abs(a - b) for a, b in zip(place[s], place[t], strict=True)) == 1
    }
    assert pairs == near
    assert len(GridGraph(30, 30).edge_index().T) == 2 * 3422


@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max"])
def test_grid_and_sparse_give_the_same(wrap: bool, reduce: str) -> None:
    grid, sparse, mask = both(wrap)
    x = torch.randn(2, H * W, D)

    def messages(graph: GridGraph | SparseGraph, x: Tensor) -> list[Tensor]:
        triples = zip(graph.source(x), graph.target(x), graph.edge_attr, strict=True)
        return [(s * e[..., :1] + t * e[..., 1:]).tanh() for s, t, e in triples]

    for operation in (
        lambda g, x: g.aggregate(messages(g, x), reduce),
        lambda g, x: g.neighbors(x, reduce),
        lambda g, x: g.spread(g.pool(x, reduce)).expand_as(x),
        lambda g, x: g.sparse(g.dense(x)[0]),
    ):
        torch.testing.assert_close(operation(grid, x)[mask], operation(sparse, x[mask]), rtol=1e-5, atol=1e-6)


def test_mean_of_neighbours_by_hand() -> None:
    grid, _, mask = both()
    x = torch.randn(2, H * W, D)
    mean = grid.neighbors(x, "mean")
    for b in range(2):
        for node in range(H * W):
            row, col = divmod(node, W)
            near = [
                x[b, r * W + c].numpy()
                for r in range(max(row - 1, 0), min(row + 2, H))
                for c in range(max(col - 1, 0), min(col + 2, W))
                if (r, c) != (row, col) and mask[b, r * W + c]
            ]
            np.testing.assert_allclose(mean[b, node], np.mean(near, axis=0) if near else np.zeros(D), atol=1e-6)


def test_a_node_without_neighbours() -> None:
    mask = torch.zeros(1, 9, dtype=torch.bool)
    mask[0, 4] = True
    graph = GridGraph(3, 3, mask)
    x = torch.randn(1, 9, D)
    for reduce in ("sum", "mean", "max"):
        assert (graph.neighbors(x, reduce)[0, 4] == 0).all()
    torch.testing.assert_close(graph.pool(x), x[:, 4])


def test_dense_pads_with_zeros() -> None:
    _, sparse, mask = both()
    x = torch.randn(2, H * W, D)[mask]
    padded, real = sparse.dense(x)
    assert real.sum(1).tolist() == mask.sum(1).tolist()
    assert (padded[~real] == 0).all()
    torch.testing.assert_close(padded[real], x)
