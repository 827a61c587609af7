"""GridGraph against the SparseGraph of the same grid, and both against networkx and NumPy."""

from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
import torch
from small_graphs import NO_EDGES, land_grid, ocean_of
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import Groups, SparseGraph

H, W, D = 4, 5, 3


def kings_graph() -> nx.Graph:
    """Return a graph that links each cell to its eight nearest neighbours."""
    cells = nx.strong_product(nx.path_graph(H), nx.path_graph(W))
    return nx.convert_node_labels_to_integers(cells, ordering="sorted")


def test_edges_join_the_eight_nearest() -> None:
    pairs = GridGraph(H, W).edge_index.T.tolist()
    assert sorted(map(tuple, pairs)) == sorted(kings_graph().to_directed().edges)
    edges = GridGraph(30, 30).dense_edges(torch.arange(900.0).reshape(1, 900, 1))
    ends = torch.cat([edges.source, edges.target], dim=-1)[edges.mask]
    assert len({tuple(pair) for pair in ends.tolist()}) == len(ends) == 2 * 3422
    gap = ends[:, 0] - ends[:, 1]
    torch.testing.assert_close(gap, edges.attr[edges.mask] @ torch.tensor([1.0, 30.0]))


@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max"])
def test_grid_and_sparse_give_the_same(wrap: bool, reduce: str) -> None:
    grid, x = land_grid(H, W, wrap=wrap), torch.randn(2, H * W, D)
    sparse, mask = ocean_of(grid), grid.mask

    def messages(graph: GridGraph | SparseGraph, x: Tensor) -> list[Tensor]:
        triples = zip(graph.source(x), graph.target(x), graph.edge_attr, strict=True)
        return [(s * e[..., :1] + t * e[..., 1:]).tanh() for s, t, e in triples]

    for operation in (
        lambda g, x: g.aggregate(messages(g, x), reduce),
        lambda g, x: g.neighbors(x, reduce),
        lambda g, x: g.broadcast(g.pool(x, reduce)).expand_as(x),
        lambda g, x: g.sparse(g.dense(x)[0]),
    ):
        torch.testing.assert_close(operation(grid, x)[mask], operation(sparse, x[mask]), rtol=1e-5, atol=1e-6)


def test_mean_of_neighbours_by_a_matrix() -> None:
    grid, x = land_grid(H, W), torch.randn(2, H * W, D)
    linked = nx.to_numpy_array(kings_graph(), range(H * W))
    for mean, values, real in zip(grid.neighbors(x, "mean"), x, grid.mask, strict=True):
        near = linked * real.numpy()
        np.testing.assert_allclose(mean, near @ values.numpy() / near.sum(1, keepdims=True).clip(1), atol=1e-6)


def test_a_node_without_neighbours() -> None:
    mask = torch.arange(9)[None] == 4
    graph, x = GridGraph(3, 3, mask), torch.randn(1, 9, D)
    for reduce in ("sum", "mean", "max"):
        assert not graph.neighbors(x, reduce)[0, 4].any()
    torch.testing.assert_close(graph.pool(x), x[:, 4])


@pytest.mark.parametrize("features", [0, 2])
def test_dense_edges_of_two_graphs_mixed_up(features: int) -> None:
    """Each graph gets its own edges, in the order of the edge list."""
    index = torch.cat([torch.randint(0, 6, (2, 9)), torch.randint(6, 10, (2, 5))], dim=1)[:, torch.randperm(14)]
    attr = torch.randn(14, features) if features else None
    x, batch = torch.randn(10, 3), torch.tensor([0] * 6 + [1] * 4)
    edges = SparseGraph(index, batch, 2, attr).dense_edges(x)
    assert edges.mask.sum(1).tolist() == [9, 5]
    for graph, real in enumerate(edges.mask):
        own = batch[index[0]] == graph
        torch.testing.assert_close(edges.source[graph, real], x[index[0, own]])
        torch.testing.assert_close(edges.target[graph, real], x[index[1, own]])
        if features:
            torch.testing.assert_close(edges.attr[graph, real], attr[own])


SOURCES = Groups(torch.tensor([4, 0, 2, 2, 0, 1, 2]), 5)
TARGETS = Groups(torch.tensor([1, 1, 5, 0, 1, 5, 3]), 6)  # groups 2 and 4 are empty
NONE = Groups(NO_EDGES[0], 3)
OPERATIONS: dict[str, tuple[Callable[[Tensor], Tensor], int]] = {
    "copy": (TARGETS.copy, 6),
    "sum": (TARGETS.sum, 7),
    "sum_of": (lambda x: TARGETS.sum_of(SOURCES, x), 5),
    "copy of none": (NONE.copy, 3),
    "sum of none": (NONE.sum, 0),
    "sum_of none": (lambda x: NONE.sum_of(NONE, x), 3),
}


def matrix(groups: Groups) -> np.ndarray:
    """Return the matrix `[groups, items]` that is 1 where an item belongs to a group."""
    return (np.arange(groups.groups)[:, None] == groups.index.numpy()).astype(float)


def test_sums_over_groups_are_products_with_a_matrix() -> None:
    source, target = matrix(SOURCES), matrix(TARGETS)
    x, y, z = (torch.randn(rows, 3, dtype=torch.double) for rows in (6, 7, 5))
    np.testing.assert_allclose(TARGETS.copy(x), target.T @ x.numpy())
    np.testing.assert_allclose(TARGETS.sum(y), target @ y.numpy())
    np.testing.assert_allclose(TARGETS.sum_of(SOURCES, z), target @ source.T @ z.numpy())
    np.testing.assert_array_equal(TARGETS.counts(x), target.sum(1, keepdims=True).clip(1))


@pytest.mark.parametrize("name", OPERATIONS)
def test_derivatives_of_sums_over_groups(name: str) -> None:
    operation, rows = OPERATIONS[name]
    x = torch.randn(rows, 2, dtype=torch.double, requires_grad=True)
    assert gradcheck(operation, x)
    assert gradgradcheck(operation, x)
