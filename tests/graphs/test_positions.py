"""Positional encodings against closed forms, dense solvers and PyTorch Geometric."""

import networkx as nx
import numpy as np
import pytest
import torch
from small_graphs import NO_EDGES, one_graph
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import AddRandomWalkPE
from torch_geometric.utils import from_networkx, get_laplacian, to_dense_adj, to_undirected

from sstcast.graphs import positions
from sstcast.graphs.grid import GridGraph
from sstcast.graphs.positions import landing_probabilities, laplacian_basis, node_identifiers
from sstcast.graphs.sparse import SparseGraph
from sstcast.models.base import LaplacianEncoding, RandomWalkEncoding


def edges(graph: nx.Graph) -> Tensor:
    return from_networkx(nx.convert_node_labels_to_integers(graph)).edge_index


def basis(edge_index: Tensor, nodes: int, k: int) -> tuple[Tensor, Tensor]:
    vectors, values = laplacian_basis(edge_index, torch.zeros(nodes, dtype=torch.long), 1, k)
    return vectors, values[0]


def dense_laplacian(edge_index: Tensor, nodes: int) -> Tensor:
    index, weight = get_laplacian(edge_index, normalization="sym", num_nodes=nodes)
    return to_dense_adj(index, edge_attr=weight, max_num_nodes=nodes)[0]


def test_a_path_in_closed_form() -> None:
    """Its eigenvalues are 1 - cos(pi j / (n - 1)), its vectors sqrt(degree) cos(pi j i / (n - 1))."""
    vectors, values = basis(edges(nx.path_graph(12)), 12, 5)
    j, i = np.arange(1, 6), np.arange(12)[:, None]
    np.testing.assert_allclose(values, 1 - np.cos(np.pi * j / 11), atol=1e-6)
    expected = np.cos(np.pi * j * i / 11) * np.where((i == 0) | (i == 11), 1, np.sqrt(2))
    expected *= np.sqrt(12) / np.linalg.norm(expected, axis=0)
    np.testing.assert_allclose(np.abs((expected * vectors.numpy()).mean(0)), 1, atol=1e-6)


@pytest.mark.parametrize(
    ("graph", "k"),
    [
        (nx.balanced_tree(2, 9), 16),
        (nx.grid_2d_graph(33, 33, periodic=True), 24),
        (nx.cycle_graph(1100), 5),  # its eigenvalues are so small that Lanczos does not converge
        (nx.barabasi_albert_graph(1200, 3, seed=0), 8),
    ],
)
def test_large_graphs_get_what_a_dense_solver_gives(graph: nx.Graph, k: int) -> None:
    nodes, edge_index = len(graph), edges(graph)
    vectors, values = basis(edge_index, nodes, k)
    laplacian = dense_laplacian(edge_index, nodes).double()
    expected = torch.linalg.eigvalsh(laplacian)
    torch.testing.assert_close(values.double(), expected[1 : k + 1], atol=2e-7, rtol=1e-6)
    torch.testing.assert_close(vectors.T @ vectors / nodes, torch.eye(k), atol=1e-5, rtol=0)
    residual = laplacian @ vectors.double() - vectors.double() * values.double()
    assert residual.abs().max() < 1e-5


def test_a_pair_that_the_solver_misses_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanczos may miss one of many equal eigenvalues. Here the first call misses two."""
    graph = nx.grid_2d_graph(33, 33, periodic=True)
    eigsh, calls = positions.eigsh, []

    def careless(operator: object, k: int, **options: object) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = eigsh(operator, k + 2, **options)
        calls.append(k)
        keep = [i for i in range(k + 2) if i not in (2, 5)] if len(calls) == 1 else slice(2, None)
        return values[keep], vectors[:, keep]

    monkeypatch.setattr(positions, "eigsh", careless)
    _, values = basis(edges(graph), len(graph), 12)
    monkeypatch.undo()
    assert len(calls) >= 4
    torch.testing.assert_close(values, basis(edges(graph), len(graph), 12)[1])


def test_every_component_has_its_own_trivial_pair() -> None:
    """Two paths and an isolated node: the closed forms are merged, and no trivial 0 is returned."""
    edge_index = torch.cat([edges(nx.path_graph(4)), edges(nx.path_graph(3)) + 5], dim=1)
    vectors, values = basis(edge_index, 8, 8)
    merged = sorted([*(1 - np.cos(np.pi * np.arange(1, 4) / 3)), *(1 - np.cos(np.pi * np.arange(1, 3) / 2))])
    np.testing.assert_allclose(values, [*merged, 0, 0, 0], atol=1e-6)
    assert (vectors[4] == 0).all()
    assert (vectors[:, 5:] == 0).all()
    in_first = vectors[:4].abs().sum(0)[:5] > 0
    in_second = vectors[5:].abs().sum(0)[:5] > 0
    assert (in_first ^ in_second).all()
    assert in_first.sum() == 3
    np.testing.assert_allclose(vectors.square().sum(0), np.where(in_first, 4, 3).tolist() + [0] * 3, atol=1e-5)


def test_small_graphs_are_padded() -> None:
    for edge_index, nodes in ((NO_EDGES, 1), (NO_EDGES, 3), (torch.tensor([[0], [0]]), 1)):
        vectors, values = basis(edge_index, nodes, 4)
        assert vectors.shape == (nodes, 4)
        assert not vectors.any()
        assert not values.any()
    _, values = basis(
        torch.tensor([[0, 0, 1, 2, 2], [1, 1, 2, 0, 2]]), 3, 3
    )  # a triangle with a repeated edge and a self-loop
    np.testing.assert_allclose(values, [1.5, 1.5, 0], atol=1e-6)


def test_the_basis_does_not_depend_on_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """A solver may rotate a pair of equal eigenvalues, common on a square grid, but the result stays the same."""
    edge_index, (vectors, values) = GridGraph(6, 6).edge_index, GridGraph(6, 6).laplacian(7)
    assert (values[0].diff() < 1e-6).any()
    eigh = np.linalg.eigh

    def turned(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = eigh(matrix)
        for i in np.flatnonzero(np.diff(values) < 1e-10):
            rotation = np.array([[0.6, 0.8], [-0.8, 0.6]])
            vectors[:, i : i + 2] = vectors[:, i : i + 2] @ rotation
        return values, -vectors

    monkeypatch.setattr(np.linalg, "eigh", turned)
    torch.testing.assert_close(basis(edge_index, 36, 7)[0], vectors[0])


@pytest.mark.parametrize("wrap", [False, True])
def test_grid_and_sparse_give_the_same(wrap: bool) -> None:
    grid = GridGraph(4, 5, torch.rand(3, 20) < 0.7, wrap)
    sparse = one_graph(grid.edge_index, 20)
    for ours, theirs in zip(grid.laplacian(6), sparse.laplacian(6), strict=True):
        torch.testing.assert_close(ours.reshape(theirs.shape), theirs)
    torch.testing.assert_close(grid.random_walk(6)[0], sparse.random_walk(6))


def test_positions_computed_beforehand_are_taken() -> None:
    data = [Data(edge_index=edges(nx.path_graph(n)), num_nodes=n) for n in (3, 5)]
    for graph in data:
        graph.laplacian_vectors, graph.laplacian_values = torch.randn(graph.num_nodes, 4), torch.rand(1, 4)
        graph.random_walk = torch.rand(graph.num_nodes, 4)
    graph = SparseGraph.from_pyg(Batch.from_data_list(data))
    for ours, given in zip(graph.laplacian(2), ("laplacian_vectors", "laplacian_values"), strict=True):
        assert torch.equal(ours, torch.cat([d[given] for d in data])[:, :2])
    assert torch.equal(graph.random_walk(3), torch.cat([d.random_walk for d in data])[:, :3])
    assert graph.laplacian(6)[0].shape == (8, 6)


@pytest.mark.parametrize("entries", [positions.ENTRIES, 5 * 32, 1])
def test_landing_probabilities_are_pygs(monkeypatch: pytest.MonkeyPatch, entries: int) -> None:
    """All nodes at once, five at a time, and one by one."""
    monkeypatch.setattr(positions, "ENTRIES", entries)
    edge_index = to_undirected(torch.randint(0, 30, (2, 60), generator=torch.Generator().manual_seed(0)))
    edge_index = edge_index[:, edge_index[0] != edge_index[1]]
    expected = AddRandomWalkPE(7, "walk")(Data(edge_index=edge_index, num_nodes=32)).walk
    torch.testing.assert_close(landing_probabilities(edge_index, 32, 7), expected)
    assert (landing_probabilities(NO_EDGES, 2, 3) == 0).all()


def test_identifiers() -> None:
    mask = torch.tensor([[True] * 9, [True] * 5 + [False] * 4, [False, True] + [False] * 7])
    wide = node_identifiers(mask, 12)
    gram = wide @ wide.transpose(1, 2)
    torch.testing.assert_close(gram, torch.diag_embed(mask.float()), atol=1e-5, rtol=0)
    narrow = node_identifiers(mask, 6)
    torch.testing.assert_close(narrow.norm(dim=-1), mask.float())
    torch.testing.assert_close(narrow[1, :5] @ narrow[1, :5].T, torch.eye(5), atol=1e-5, rtol=0)
    assert not torch.equal(node_identifiers(mask, 6), narrow)


def test_signs_flip_in_training_only() -> None:
    torch.manual_seed(0)
    encoding, grid = LaplacianEncoding(8), GridGraph(4, 5)
    assert not torch.equal(encoding(grid), encoding(grid))
    encoding.eval()
    assert torch.equal(encoding(grid), encoding(grid))


def test_laplacian_encoding_by_its_sum() -> None:
    """rho(sum_k phi(v_ik, lambda_k)). The smaller graph has three of the five pairs."""
    torch.manual_seed(0)
    encoding, expected = LaplacianEncoding(8, pairs=5).eval(), []
    graphs = [nx.path_graph(4), nx.lollipop_graph(4, 5)]
    for graph in graphs:
        vectors, values = basis(edges(graph), len(graph), min(5, len(graph) - 1))
        rows = [[encoding.phi(torch.stack(pair)) for pair in zip(row, values, strict=True)] for row in vectors]
        expected += [encoding.rho(sum(row)) for row in rows]
    batch = SparseGraph.from_pyg(Batch.from_data_list([from_networkx(graph) for graph in graphs]))
    torch.testing.assert_close(encoding(batch), torch.stack(expected))


def test_training_flips_each_eigenvector_of_each_graph_on_its_own() -> None:
    """Two vectors of two graphs show all 16 combinations of signs. Their products with the vectors tell them."""
    torch.manual_seed(0)
    encoding, path = LaplacianEncoding(2, pairs=2), Data(edge_index=edges(nx.path_graph(5)), num_nodes=5)
    encoding.phi, encoding.rho = nn.Identity(), nn.Identity()  # the sum of s_k v_k, and that of the eigenvalues
    batch, seen = SparseGraph.from_pyg(Batch.from_data_list([path, path])), set()
    vectors, values = batch.laplacian(2)
    for _ in range(200):
        flipped, total = encoding(batch).unbind(-1)
        torch.testing.assert_close(total, values.sum(1).repeat_interleave(5))
        signs = torch.einsum("gnk,gn->gk", vectors.view(2, 5, 2), flipped.view(2, 5)) / 5
        torch.testing.assert_close(signs.abs(), torch.ones(2, 2))
        seen.add(tuple(signs.flatten().sign().tolist()))
    assert len(seen) == 16


def test_the_raw_walk_is_normalised() -> None:
    torch.manual_seed(0)
    encoding, graph = RandomWalkEncoding(8, 6), GridGraph(4, 5)
    walk = graph.random_walk(6)[0].double()
    scaled = (walk - walk.mean(0)) / (walk.var(0, unbiased=False) + 1e-5).sqrt()
    torch.testing.assert_close(encoding(graph)[0], encoding.linear(scaled.float()), atol=1e-4, rtol=1e-4)
