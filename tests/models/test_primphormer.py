"""Primal attention against its equations and its dual (Primphormer, section 2.2)."""

from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from small_graphs import NO_EDGES, one_graph
from torch import Tensor
from torch.nn import functional as F

from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph
from sstcast.models.gps import GPS
from sstcast.models.primphormer import KSVDAttention, PrimalAttention, PrimphormerAttention

D, RANK, PROJECTIONS, NODES = 12, 4, 6, 15


def nodes_of(*sizes: int) -> SparseGraph:
    """Return graphs of so many nodes, without edges."""
    return SparseGraph(NO_EDGES, torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes)), len(sizes))


def make(heads: int) -> tuple[PrimphormerAttention, Tensor]:
    attention = PrimphormerAttention(D, heads, rank=RANK, projections=PROJECTIONS).double()
    return attention, torch.randn(NODES, D, dtype=torch.double)


def projection(attention: PrimphormerAttention, x: Tensor) -> Tensor:
    """Return f(X) = F + v 1^T, `[s, N_s]`, with v from the mean of the nodes."""
    return attention.basis + attention.virtual(x.mean(0)).unsqueeze(1)


def by_pairs(h: Tensor, f: Tensor, kernel: Tensor) -> Tensor:
    """Return the dual form of equation 2.8, sum_j F_X h_j kernel_ij, `[N, heads, s]`."""
    return torch.einsum("hij,jhs->ihs", kernel, h @ f @ f.T)


def scores(attention: PrimphormerAttention, x: Tensor) -> Tensor:
    """Return the input of the output map, e and r side by side, `[N, heads, 2 s]`."""
    caught = []
    handle = attention.compose.register_forward_pre_hook(lambda _, args: caught.append(args[0]))
    attention(x, nodes_of(len(x)), None, None)
    handle.remove()
    return caught[0]


def test_scores_by_equation_2_5() -> None:
    attention, x = make(3)
    f = projection(attention, x)
    q, k = attention.qk(x).chunk(2, dim=-1)
    for h in range(3):
        part = slice(4 * h, 4 * h + 4)
        for i in range(NODES):
            e = f @ attention.w_e[:, h] @ (q[i, part] / q[i, part].norm())
            r = f @ attention.w_r[:, h] @ (k[i, part] / k[i, part].norm())
            torch.testing.assert_close(scores(attention, x)[i, h], torch.cat([e, r]))


def test_primal_and_dual_agree_for_the_weights_of_equation_2_7() -> None:
    """W = sum_j f(X)^T h_j phi(x_j)^T turns projections into attention over pairs, for any dual variables."""
    heads = 3
    attention, x = make(heads)
    phi_q, phi_k = attention.features(x)
    f = projection(attention, x)
    h_e, h_r = torch.randn(2, NODES, heads, RANK, dtype=torch.double)
    with torch.no_grad():
        attention.w_e.copy_(torch.einsum("sn,jhs,jhd->nhd", f, h_r, phi_k))
        attention.w_r.copy_(torch.einsum("sn,ihs,ihd->nhd", f, h_e, phi_q))
    kernel = torch.einsum("ihd,jhd->hij", phi_q, phi_k)
    dual = torch.cat([by_pairs(h_r, f, kernel), by_pairs(h_e, f, kernel.transpose(1, 2))], dim=-1)
    torch.testing.assert_close(scores(attention, x), dual, rtol=1e-10, atol=1e-10)


def stationary(attention: PrimphormerAttention, x: Tensor) -> tuple[Tensor, Tensor]:
    """Set the weights of one head to a solution of equation 2.6 and return its H_e and H_r.

    With the singular value decomposition K = U S V^T, any orthogonal O and any diagonal Sigma,

        H_e = U O Sigma^-1/2,  H_r = V O Sigma^-1/2,  F_X = Sigma^1/2 O^T S^-1 O Sigma^1/2

    satisfy K H_r F_X = H_e Sigma and K^T H_e F_X = H_r Sigma. F is chosen so that f(X) f(X)^T is this F_X, and
    Lambda = Sigma^-1 so that the layer's mean over nodes is the paper's sum.
    """
    phi_q, phi_k = (phi[:, 0] for phi in attention.features(x))
    u, s, vt = torch.linalg.svd(phi_q @ phi_k.T)
    u, s, v = u[:, :RANK], s[:RANK], vt[:RANK].T
    sigma = torch.rand(RANK, dtype=torch.double) + 0.5
    turn = torch.linalg.qr(torch.randn(RANK, RANK, dtype=torch.double)).Q
    h_e, h_r = u @ turn / sigma.sqrt(), v @ turn / sigma.sqrt()
    f = torch.zeros(RANK, PROJECTIONS, dtype=torch.double)
    f[:, :RANK] = sigma.sqrt().unsqueeze(1) * turn.T / s.sqrt()
    f = f @ torch.linalg.qr(torch.randn(PROJECTIONS, PROJECTIONS, dtype=torch.double)).Q
    attention.basis.copy_(f - attention.virtual(x.mean(0)).unsqueeze(1))
    attention.w_e[:, 0] = f.T @ h_r.T @ phi_k
    attention.w_r[:, 0] = f.T @ h_e.T @ phi_q
    attention.scale[0] = (len(x) / sigma).sqrt()
    return h_e, h_r


@torch.no_grad()
def test_the_objective_is_0_where_the_dual_problem_is_solved() -> None:
    """Theorem 2. At the solution, the scores are the dual variables: Lambda e_i = h_ei, Lambda r_j = h_rj (C2)."""
    attention, x = make(1)
    h_e, h_r = stationary(attention, x)
    e, r = scores(attention, x)[:, 0].chunk(2, dim=-1)
    capital_lambda = attention.scale[0].square() / NODES
    torch.testing.assert_close(capital_lambda * e, h_e, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(capital_lambda * r, h_r, rtol=1e-9, atol=1e-9)
    coupling = attention.coupling(attention.w_e, attention.w_r)
    assert abs(coupling) > 0.1  # so that the objective is no difference of zeros
    assert abs(attention.objective) < 1e-10 * abs(coupling)
    attention.w_r *= 1.1
    attention(x, nodes_of(NODES), None, None)
    assert abs(attention.objective) > 1e-3 * abs(coupling)


def test_the_objective_by_its_equation() -> None:
    attention, x = make(2)
    e, r = scores(attention, x).chunk(2, dim=-1)
    terms = []
    for h in range(2):
        lengths = [(attention.scale[h] * z[:, h]).norm(dim=1).square().mean() / 2 for z in (e, r)]
        terms.append(sum(lengths) - torch.trace(attention.w_e[:, h].T @ attention.w_r[:, h]))
    torch.testing.assert_close(attention.objective, sum(terms) / 2)
    torch.testing.assert_close(attention.penalty(), 0.1 * (sum(terms) / 2) ** 2)


@torch.no_grad()
def test_sums_by_equations_2_5_and_c19() -> None:
    """One head with F = 0: f(X) = B X 1 1^T, and J sums over the nodes of a graph and averages over graphs."""
    options = {"rank": RANK, "projections": PROJECTIONS, "sums": True}
    attention, sizes = PrimphormerAttention(D, 1, **options).double(), (9, 4)
    attention.basis.zero_()
    xs, objectives, outputs = [torch.randn(n, D).double() for n in sizes], [], []
    b, w_e, w_r = attention.virtual.weight, attention.w_e[:, 0], attention.w_r[:, 0]
    squared = torch.diag(attention.scale[0] ** 2)  # Lambda
    for x in xs:
        phi_q, phi_k = (F.normalize(part, dim=1) for part in attention.qk(x).chunk(2, 1))
        f = b @ x.T @ torch.ones(len(x), PROJECTIONS).double()
        e, r = phi_q @ (f @ w_e).T, phi_k @ (f @ w_r).T
        objectives.append(((e @ squared * e).sum() + (r @ squared * r).sum()) / 2 - torch.trace(w_e.T @ w_r))
        outputs.append(attention.compose(torch.cat([e, r], 1)))
    for memory in (None, torch.randn(2, RANK).double()):  # each layer starts anew
        ours, _ = attention(torch.cat(xs), nodes_of(*sizes), None, memory)
        torch.testing.assert_close(ours, torch.cat(outputs), rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(attention.objective, sum(objectives) / 2, rtol=1e-9, atol=0)


@pytest.mark.parametrize("kind", [PrimphormerAttention, PrimalAttention])
def test_weights_start_as_in_algorithm_1(kind: type[KSVDAttention]) -> None:
    """W_e and W_r are orthogonal, Lambda is uniform between 0 and 1. F, which it leaves open, is orthogonal."""
    torch.manual_seed(0)
    layer = kind(width=D, heads=3, rank=400)
    names = ("w_e", "w_r", "basis") if kind is PrimphormerAttention else ("w_e", "w_r")
    for name in names:
        matrix = getattr(layer, name).flatten(1)
        rows = matrix if len(matrix) <= matrix.shape[1] else matrix.T
        torch.testing.assert_close(rows @ rows.T, torch.eye(len(rows)), rtol=0, atol=1e-5)
    values = layer.scale.flatten().sort().values
    even = (torch.arange(len(values)) + 0.5) / len(values)
    torch.testing.assert_close(values, even, rtol=0, atol=1.63 / len(values) ** 0.5)  # Kolmogorov-Smirnov, 1 %


def test_each_node_counts_once_in_the_objective() -> None:
    """For graphs of different sizes, and on a grid with land."""
    attention = PrimphormerAttention(D, 2, rank=RANK, projections=PROJECTIONS)
    mask = torch.rand(2, NODES) < torch.tensor([[0.9], [0.3]])
    x = torch.randn(2, NODES, D)
    attention(x, GridGraph(3, 5, mask), None, None)
    on_grid = attention.objective
    attention(x[mask], nodes_of(*mask.sum(1).tolist()), None, None)
    torch.testing.assert_close(attention.objective, on_grid)


def test_one_basis_and_an_ever_growing_virtual_node() -> None:
    options = {"rank": RANK, "projections": PROJECTIONS}
    model = GPS(D, 3, attention="primphormer", heads=2, attention_options=options).eval()
    layers = [layer.attention for layer in model.layers]
    assert all(layer.basis is layers[0].basis for layer in layers)
    assert sum("basis" in name for name, _ in model.named_parameters()) == 1
    seen = []
    for layer in layers:
        layer.register_forward_hook(lambda layer, args, out: seen.append((layer.virtual(args[0].mean(1)), out[1])))
    model(torch.randn(2, 20, D), GridGraph(4, 5))
    total = torch.zeros(2, RANK)
    for own, carried in seen:
        total = total + own
        torch.testing.assert_close(carried, total)
    expected = sum(layer.eta * layer.objective.square() for layer in layers)
    torch.testing.assert_close(model.auxiliary_loss(), expected)
    assert expected > 0


@pytest.mark.parametrize("samples", [5, 40])
def test_primal_attention_on_sequences_by_its_equation(samples: int) -> None:
    """It samples nodes at equal steps, both ends included, with repetitions if there are too few."""
    attention = PrimalAttention(D, 3, rank=RANK, samples=samples).double()
    x = torch.randn(1, 9, D, dtype=torch.double)
    out = attention(x, torch.ones(1, 9, dtype=torch.bool))
    index = [round(8 * m / (samples - 1)) for m in range(samples)]
    q, k = attention.qk(x[0]).chunk(2, dim=-1)
    for i in range(9):
        expected = []
        for h in range(3):
            part = slice(4 * h, 4 * h + 4)
            sampled = x[0, index][:, part]
            e = (sampled.T @ attention.w_e[h]).T @ F.normalize(q[i, part], dim=0)
            r = (sampled.T @ attention.w_r[h]).T @ F.normalize(k[i, part], dim=0)
            expected.append(attention.compose(torch.cat([e, r])))
        torch.testing.assert_close(out[0, i], torch.cat(expected))


def test_training_the_penalty_drives_the_objective_to_0() -> None:
    attention, x = make(2)
    optimizer = torch.optim.Adam(attention.parameters(), lr=1e-2)
    values = []
    for _ in range(60):
        attention(x, nodes_of(NODES), None, None)
        values.append(attention.penalty().item())
        optimizer.zero_grad()
        attention.penalty().backward()
        optimizer.step()
    assert values[-1] < 1e-3 * values[0]


# Theorems 3 to 5 of Primphormer with constructed weights. A Sumformer gives each node a function of itself and of
# Xi, a sum over all nodes. The shipped attention with `sums` passes Xi to every node (C14 to C22). Here xi(x) are
# the powers of a number, so Xi determines the set of numbers by Newton's identities, and any function of the set
# can be computed from it. The identities replace the approximations in Theorems 5 and 6.

N = 5

Array = NDArray[np.float64]


@torch.no_grad()
def sums_by_attention(xi: Array) -> Array:
    """Return the sum of `xi [N, d']` over all nodes that each node gets with the weights of (C16) to (C21)."""
    nodes, size = xi.shape
    width = 2 + 2 * size  # [1, x, xi, 0] with d = 1
    layer = PrimphormerAttention(width, 1, rank=size, projections=3, sums=True).double()
    for parameter in layer.parameters():
        parameter.zero_()
    layer.qk.weight[0, 0] = layer.qk.weight[width, 0] = 1  # phi is (1, 0, ...) for all nodes
    layer.virtual.weight[:, 2 : 2 + size] = torch.eye(size)  # B
    layer.w_e[0, 0, 0] = layer.w_r[0, 0, 0] = 1
    layer.compose.weight[2 + size :] = torch.cat([torch.eye(size), torch.eye(size)], 1) / 2
    x = np.concatenate([np.ones((nodes, 1)), np.zeros((nodes, 1)), xi, np.zeros((nodes, size))], axis=1)
    out, _ = layer(torch.from_numpy(x), one_graph(NO_EDGES, nodes), None, None)
    assert not out[:, : 2 + size].any()
    return out[:, 2 + size :].numpy()


def powers(x: Array) -> Array:
    return x[:, None] ** np.arange(1, len(x) + 1)


def numbers(sums: Array) -> Array:
    """Return the numbers, in order, whose sums of powers 1 to N are `sums` (Newton's identities)."""
    coefficients = [1.0]
    for k in range(1, len(sums) + 1):
        terms = [(-1) ** (i - 1) * coefficients[k - i] * sums[i - 1] for i in range(1, k + 1)]
        coefficients.append(sum(terms) / k)
    return np.sort(np.roots([(-1) ** k * c for k, c in enumerate(coefficients)]).real)


def primphormer(x: Array, psi: Callable[[float, Array], float]) -> Array:
    """Return `psi(x_i, Xi)` of each node, with Xi from the attention."""
    return np.array([psi(own, numbers(row)) for own, row in zip(x, sums_by_attention(powers(x)), strict=True)])


def test_attention_gives_every_node_the_sum() -> None:
    """C19 to C22, exactly."""
    xi = np.random.default_rng(0).normal(size=(7, 4))
    np.testing.assert_allclose(sums_by_attention(xi), np.tile(xi.sum(0), (7, 1)), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "f",
    [
        lambda own, others: others.max() - own,
        lambda own, others: own * np.median(others),
        lambda own, others: np.sum(np.abs(others - own)),
    ],
)
def test_equivariant_functions(f: Callable[[float, Array], float]) -> None:
    """Theorems 3 and 5, on sets of N numbers: each node gets a function of itself and the set."""
    generator = np.random.default_rng(0)
    for _ in range(5):
        x = generator.permutation(np.linspace(0, 1, N) + 0.04 * generator.uniform(size=N))
        expected = np.array([f(own, x) for own in x])
        np.testing.assert_allclose(primphormer(x, f), expected, atol=1e-6)
        order = generator.permutation(N)
        np.testing.assert_allclose(primphormer(x[order], f), expected[order], atol=1e-6)


def test_functions_of_the_order_with_positions() -> None:
    """Theorem 4: with i added to the number of node i (C25), the set shows which number is whose."""
    generator, place = np.random.default_rng(0), np.arange(N)

    def backwards(own: float, others: Array) -> float:
        return float((others - place)[N - 1 - int(own)])

    for _ in range(5):
        x = 0.9 * generator.uniform(size=N)
        np.testing.assert_allclose(primphormer(x + place, backwards), x[::-1], atol=1e-5)
        assert not np.allclose(primphormer(x[::-1] + place, backwards), x[::-1], atol=1e-2)


def a_graph(seed: int) -> nx.Graph:
    return nx.compose(nx.path_graph(6), nx.gnp_random_graph(6, 0.2, seed=seed))


def test_functions_on_graphs_of_pairs() -> None:
    """Section 3.2, edge Primphormer: a token ((i, j), sigma_ij) for each pair with i <= j, in any order.

    The sum of sigma_ij e_ij over the pairs is the graph, so each pair can get the distance of its ends.
    """
    generator = np.random.default_rng(0)
    for seed in range(3):
        graph = a_graph(seed)
        pairs = generator.permutation([(i, j) for i in range(6) for j in range(i, 6)])
        xi = np.zeros((21, 6, 6))
        for token, (i, j) in zip(xi, pairs, strict=True):
            token[i, j] = graph.has_edge(i, j)
        distances = []
        for (i, j), seen in zip(pairs, sums_by_attention(xi.reshape(21, -1)), strict=True):
            whole = nx.from_numpy_array((seen + 1e-9).reshape(6, 6).round())
            distances.append(nx.shortest_path_length(whole, i, j))
        assert distances == [nx.shortest_path_length(graph, *pair) for pair in pairs]


def test_functions_on_graphs_of_nodes() -> None:
    """Section 3.2, node Primphormer: the token of node i is row i of the identity beside row i of the adjacency.

    The sum of their products is the adjacency, so each node can get its largest distance to others.
    """
    for seed in range(3):
        graph = a_graph(seed)
        adjacency = nx.to_numpy_array(graph, range(6))
        tokens = np.concatenate([np.eye(6), adjacency], axis=1)
        xi = tokens[:, :6, None] * tokens[:, None, 6:]
        furthest = []
        for token, seen in zip(tokens, sums_by_attention(xi.reshape(6, -1)), strict=True):
            whole = nx.from_numpy_array((seen + 1e-9).reshape(6, 6).round())
            furthest.append(nx.eccentricity(whole, int(token[:6].argmax())))
        assert furthest == [nx.eccentricity(graph, node) for node in range(6)]
