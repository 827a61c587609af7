"""The theorems of Cai et al. (2023, arXiv:2301.11956) on MPNN + VN, with the weights of the proofs.

Both constructions run in the shipped `MPNN`, without norms. A layer adds ReLU(root x) to x. Only one layer writes
each block of channels, which holds its activations from then on. The root of the next layer can combine all blocks
so far linearly.
"""

import itertools
import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch import Tensor, nn
from torch.nn import functional as F

from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph
from sstcast.models.attention import LinearAttention, SoftmaxAttention, softmax_attention
from sstcast.models.mpnn import MPNN


class Circuit:
    """An `MPNN` with a virtual node, zero weights and no norms, and methods that write weights into it."""

    def __init__(self, width: int, layers: int) -> None:
        self.model = MPNN(width, layers, virtual_node=True, edge_dim=0, norm="none").double()
        for parameter in self.model.parameters():
            nn.init.zeros_(parameter)
        self.width, self.used = width, 0

    def allocate(self, count: int) -> Tensor:
        """Return `count` fresh channels as linear functions of x, `[count, width + 1]` with a constant last."""
        functions = torch.zeros(count, self.width + 1, dtype=torch.double)
        functions[:, self.used : self.used + count] = torch.eye(count)
        self.used += count
        assert self.used <= self.width
        return functions

    @torch.no_grad()
    def relu(self, layer: int, inputs: Tensor) -> Tensor:
        """Let `layer` compute the ReLU of linear functions `[count, width + 1]`. Return its channels."""
        first = self.used
        outputs = self.allocate(len(inputs))
        root = self.model.convs[layer].root
        root.weight[first : self.used] = inputs[:, :-1]
        root.bias[first : self.used] = inputs[:, -1]
        return outputs

    @torch.no_grad()
    def mean(self, layer: int, inputs: Tensor) -> Tensor:
        """Let the virtual node after `layer` pass the mean of linear functions over nodes to the next layer.

        Later layers add it again, so only the next one may read it.
        """
        first, count = self.used, len(inputs)
        outputs = self.allocate(count)
        inner, _, outer = self.model.virtual_nodes[layer].mlp
        inner.weight[: 2 * count] = torch.cat([inputs, -inputs])[:, :-1]
        outer.weight[first : self.used, : 2 * count] = torch.cat([torch.eye(count), -torch.eye(count)], dim=1)
        outputs[:, -1] = inputs[:, -1]  # the mean of a constant
        return outputs

    def run(self, x: Tensor, graph: object, outputs: Tensor) -> Tensor:
        """Run the model on `x`, padded with zero channels. Return `outputs`, linear functions of its result."""
        padded = torch.cat([x, x.new_zeros(*x.shape[:-1], self.width - x.shape[-1])], dim=-1)
        return self.model(padded, graph) @ outputs[:, :-1].T + outputs[:, -1]


def test_mpnn_with_virtual_node_is_deepsets() -> None:
    """Theorem 5.5: two layers give X A + mean(X) B + c exactly, and its ReLU."""
    d = 3
    a, b, c = torch.randn(d, d).double(), torch.randn(d, d).double(), torch.randn(d).double()
    circuit = Circuit(4 * d, 2)
    x_channels = circuit.allocate(d)
    mean = circuit.mean(0, x_channels)
    mixed = a.T @ x_channels + b.T @ mean
    mixed[:, -1] += c
    positive, negative = circuit.relu(1, mixed), circuit.relu(1, -mixed)

    mask = torch.rand(2, 20) < torch.tensor([[0.8], [0.5]])
    x, grid = torch.randn(2, 20, d, dtype=torch.double), GridGraph(4, 5, mask)
    linear = circuit.run(x, grid, positive - negative)
    activated = circuit.run(x, grid, positive)
    for row, real, y, relu in zip(x, mask, linear, activated, strict=True):
        expected = row @ a + row[real].mean(0) @ b + c
        torch.testing.assert_close(y[real], expected[real], rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(relu[real], expected[real].relu(), rtol=1e-12, atol=1e-12)

    batch = torch.arange(2).unsqueeze(1).expand(2, 20)[mask]
    sparse = SparseGraph(torch.tensor([[0, 1], [1, 0]]), batch, 2)  # any edges, because the messages are 0
    torch.testing.assert_close(circuit.run(x[mask], sparse, positive - negative), linear[mask])


Function = Callable[[Tensor], Tensor]


def linear_pieces(f: Function, low: float, high: float, count: int) -> tuple[Tensor, Tensor]:
    """Return the knots of a function of `count` linear pieces that equals `f` there, and its changes of slope."""
    knots = torch.linspace(low, high, count + 1, dtype=torch.double)
    slopes = f(knots).diff() / knots.diff()
    return knots, torch.cat([slopes[:1], slopes.diff()])


class Interpolation(Circuit):
    """A circuit that also approximates functions of one variable, by `pieces` linear pieces of one ReLU each."""

    def __init__(self, width: int, layers: int, pieces: int) -> None:
        super().__init__(width, layers)
        self.pieces = pieces

    def function(self, layer: int, f: Function, inputs: Tensor, low: float, high: float) -> Tensor:
        """Approximate `f` on `[low, high]` of each of the linear functions `inputs`."""
        knots, steps = linear_pieces(f, low, high, self.pieces)
        outputs = []
        for one in inputs:
            shifted = one.repeat(self.pieces, 1)
            shifted[:, -1] -= knots[:-1]
            value = steps @ self.relu(layer, shifted)
            value[-1] += f(knots)[0]
            outputs.append(value)
        return torch.stack(outputs)

    def product(self, layer: int, left: Tensor, right: Tensor, bound: float) -> Tensor:
        """Approximate left * right, `((l + r)^2 - (l - r)^2) / 4`, for sums and differences within `bound`."""
        plus = self.function(layer, torch.square, left + right, -bound, bound)
        return (plus - self.function(layer, torch.square, left - right, -bound, bound)) / 4


def approximate_linear_attention(attention: LinearAttention, pieces: int) -> tuple[Interpolation, Tensor]:
    """Theorem 4.1: the weights that make MPNN + VN approximate one head of `attention`, of width 2.

    Layer 1 has phi(q) and phi(k), layer 2 the products phi(k) v, whose means and that of phi(k) the virtual node
    brings; layer 3 multiplies them with phi(q), layer 4 has one over the denominator, layer 5 the quotient.
    """
    circuit = Interpolation(29 * pieces + 2 + 6, 5, pieces)
    x = circuit.allocate(2)
    qkv = attention.qkv.weight @ x
    qkv[:, -1] += attention.qkv.bias
    q, k, v = qkv.split(2)
    phi_q, phi_k = (circuit.function(0, lambda z: nn.functional.elu(z) + 1, z, -2, 2) for z in (q, k))
    pairs = circuit.product(1, phi_k.repeat_interleave(2, 0), v.repeat(2, 1), 4)
    means = circuit.mean(1, torch.cat([pairs, phi_k]))
    products = circuit.product(2, phi_q.repeat_interleave(2, 0), means[:4], 4)
    numerator, weights = products.reshape(2, 2, -1).sum(0), circuit.product(2, phi_q, means[4:], 4).sum(0, True)
    inverse = circuit.function(3, torch.reciprocal, weights, 0.5, 6)
    y = circuit.product(4, numerator, inverse.repeat(2, 1), 5)
    outputs = attention.out.weight @ y
    outputs[:, -1] += attention.out.bias
    return circuit, outputs


@torch.no_grad()
@pytest.mark.parametrize(("pieces", "tolerance"), [(16, 0.05), (32, 0.0125)])
def test_mpnn_with_virtual_node_approximates_linear_attention(pieces: int, tolerance: float) -> None:
    """Twice the pieces reduce the error to a quarter."""
    attention = LinearAttention(2, heads=1).double()
    circuit, outputs = approximate_linear_attention(attention, pieces)
    mask = torch.rand(1, 20) < 0.8
    x = 2 * torch.rand(1, 20, 2, dtype=torch.double) - 1
    expected, ours = attention(x, mask)[mask], circuit.run(x, GridGraph(4, 5, mask), outputs)[mask]
    assert (ours - expected).abs().max() < tolerance
    assert expected.std() > tolerance


# Perceptrons approximate the updates by which MPNN with a virtual node is attention (Cai et al. 2023, B.2-B.4).
# They are built, not trained: a hidden layer of ReLUs interpolates a function of one variable, and a product is a
# difference of squares. So their error has a closed form.

WIDTH, NODES, BOUND = 3, 5, 1.0  # AS1: features lie in [-BOUND, BOUND]


def perceptron(f: Function, low: float, high: float, knots: int) -> Function:
    """Return a layer of ReLUs that equals `f` at `knots` points, and is linear between."""
    at, steps = linear_pieces(f, low, high, knots - 1)
    return lambda x: f(at[0]) + (x[..., None] - at[:-1]).relu() @ steps


def product(x: Tensor, y: Tensor, bound: float, knots: int) -> Tensor:
    """Multiply numbers of at most `bound` by layers of ReLUs: `((x + y)^2 - (x - y)^2) / 4`."""
    square = perceptron(torch.square, -2 * bound, 2 * bound, knots)
    return (square(x + y) - square(x - y)) / 4


class Update:
    """Equation 9 by perceptrons, for attention scores `x^T W y` and values `V y`."""

    def __init__(self, scores: Tensor, values: Tensor, knots: int) -> None:
        self.scores, self.values, self.knots = scores, values, knots
        self.highest = float(BOUND**2 * scores.abs().sum())
        self.exp = perceptron(torch.exp, -self.highest, self.highest, knots)
        least, most = NODES * torch.tensor([-self.highest, self.highest]).exp()
        self.inverse = perceptron(torch.reciprocal, float(least) / 2, 2 * float(most), 8 * knots)

    def add(self, x: Tensor, total: Tensor, count: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return `tmp` and `partialsum` after the virtual node has passed `y` on, for k = 2, ..., n + 1."""
        turned = y @ self.scores.T
        bound = max(BOUND, float(turned.abs().max()))
        weight = self.exp(product(x, turned.expand_as(x), bound, self.knots).sum(-1))
        value = y @ self.values.T
        bound = max(float(weight.max()), float(value.abs().max()))
        return total + product(weight[:, None].expand_as(x), value.expand_as(x), bound, self.knots), count + weight

    def divide(self, total: Tensor, count: Tensor) -> Tensor:
        """Return `tmp / partialsum`, for k = n + 2."""
        inverse = self.inverse(count)[:, None].expand_as(total)
        return product(total, inverse, float(max(total.abs().max(), inverse.max())), self.knots)


def attention(x: Tensor, scores: Tensor, values: Tensor) -> Tensor:
    return (x @ scores @ x.T).softmax(-1) @ (x @ values.T)


def simulated(x: Tensor, brought: Tensor, update: Update) -> Tensor:
    """Return the final graph nodes, after the virtual node has passed on the rows of `brought` one by one."""
    total, count = torch.zeros_like(x), x.new_zeros(len(x))
    for y in brought:
        total, count = update.add(x, total, count, y)
    return update.divide(total, count)


@pytest.fixture
def layer() -> tuple[Tensor, Tensor, Tensor]:
    x = 2 * torch.rand(NODES, WIDTH, dtype=torch.float64) - 1
    scores, values = 0.3 * torch.randn(2, WIDTH, WIDTH, dtype=torch.float64)
    return x, scores, values


def test_a_perceptron_errs_by_the_square_of_the_distance_of_its_knots() -> None:
    inside = torch.linspace(-1, 2, 10_001, dtype=torch.float64)
    for knots in (4, 13, 31):
        error = (perceptron(torch.exp, -1, 2, knots)(inside) - inside.exp()).abs().max()
        bound = (3 / (knots - 1)) ** 2 / 8 * torch.exp(torch.tensor(2.0))  # h^2 / 8 max |f''|
        assert 0.5 * bound < error <= bound


def test_updates_are_approximated_as_well_as_one_likes(layer: tuple[Tensor, Tensor, Tensor]) -> None:
    """Lemma B.4: with knots ten times as dense, the error of the updates is about 100 times smaller."""
    x, scores, values = layer
    exact = attention(x, scores, values)
    errors = [
        (simulated(x, x, Update(scores, values, knots)) - exact).abs().max() for knots in (101, 1_001, 10_001)
    ]
    assert errors[0] < 0.1
    for coarse, fine in pairwise(errors):
        assert fine < coarse / 20


def test_errors_of_the_input_pass_in_proportion(layer: tuple[Tensor, Tensor, Tensor]) -> None:
    """Lemma B.5 and Remark B.6: beyond the perceptrons' own error, the error is proportional to the input's."""
    x, scores, values = layer
    exact, update = attention(x, scores, values), Update(scores, values, 10_001)
    own = (simulated(x, x, update) - exact).abs().max()
    off = torch.randn(NODES, WIDTH, dtype=torch.float64).clamp(-1, 1)
    passed = [(simulated(x, x + size * off, update) - exact).abs().max() - own for size in (1e-1, 1e-2, 1e-3)]
    assert passed[0] < 1
    for larger, smaller in pairwise(passed):
        assert smaller < larger / 5


# Theorem 6.3 of Cai et al. (2023, arXiv:2301.11956): n layers that each select one node are attention. The
# construction of appendix B.2 is written out here, because the shipped virtual node takes a mean and cannot
# select. The shipped softmax attention selects, and is the target.

CLUSTERS = torch.tensor([[2.0, 0.0], [0.0, 2.0], [-2.0, 0.0], [0.0, -2.0]], dtype=torch.float64)


def draws(centres: Tensor, spread: float = 0.2, count: int = 20) -> Tensor:
    """Draw elements of a compact set, in which every node is near its own centre, `[count, nodes, 2]`."""
    torch.manual_seed(0)
    return centres + spread * (2 * torch.rand(count, *centres.shape, dtype=torch.float64) - 1)


def select(scores: Tensor, x: Tensor) -> Tensor:
    """Return the mean of `x [B, n, d]` by the softmax of `scores [B, n]`, through the shipped attention."""
    query, keys, mask = torch.ones_like(scores[:, :1]), scores.unsqueeze(-1), torch.ones_like(scores) > 0
    return softmax_attention(query[:, None, None], keys[:, None], x[:, None], mask)[:, 0, 0]


def gatv2(x: Tensor, vector: Tensor) -> Tensor:
    """`a^T LeakyReLU(W [x, v] + b)` with the weights that make it minus the L1 distance of x and v (Lemma B.8)."""
    difference = x - vector
    hidden = F.leaky_relu(
        torch.cat([difference, -difference], dim=-1), 0.2
    )  # LeakyReLU(z) + LeakyReLU(-z) = 0.8 |z|
    return hidden @ torch.full((hidden.shape[-1],), -1 / 0.8, dtype=x.dtype)


def by_selection(attention: SoftmaxAttention, x: Tensor, scores: list[Tensor]) -> Tensor:
    """Simulate attention: in layer k, each node adds exp(q k) v and exp(q k) of node k. The last layer divides."""
    q, _, _ = attention.qkv(x).chunk(3, dim=-1)
    total, weight = torch.zeros_like(x), torch.zeros_like(x[..., :1])
    for row in scores:
        _, key, value = attention.qkv(select(row, x)).unsqueeze(1).chunk(3, dim=-1)
        score = (q * key / math.sqrt(x.shape[-1])).sum(-1, keepdim=True).exp()
        total, weight = total + score * value, weight + score
    return attention.out(total / weight)


def error(x: Tensor, scores: list[Tensor]) -> float:
    torch.manual_seed(1)
    attention = SoftmaxAttention(2, heads=1).double()
    exact = attention(x, torch.ones(x.shape[:2], dtype=torch.bool))
    assert exact.std(1).mean() > 0.01
    return (by_selection(attention, x, scores) - exact).abs().max().item()


@torch.no_grad()
def test_selection_is_as_hard_as_one_likes() -> None:
    """Lemmas 6.2, B.3 and B.7: with a gap of delta, the weight is at least e^(c delta) / (e^(c delta) + n - 1)."""
    x = draws(CLUSTERS)
    largest, n = x.norm(dim=-1).max().item(), len(CLUSTERS)
    for (node, vector), c in itertools.product(enumerate(CLUSTERS), (1.0, 2.0, 4.0)):
        scores = x @ vector
        others = torch.cat([scores[:, :node], scores[:, node + 1 :]], dim=1)
        delta = (scores[:, node] - others.amax(1)).min().item()
        assert delta > 0
        one = torch.zeros(n, 1, dtype=torch.float64)
        one[node] = 1
        weight = select(c * scores, one.expand(len(x), n, 1)).min().item()
        least = math.exp(c * delta) / (math.exp(c * delta) + n - 1)
        assert weight >= least - 1e-12
        gap = (select(c * scores, x) - x[:, node]).norm(dim=-1).max().item()
        assert gap <= n * largest * (1 - least) + 1e-12


@torch.no_grad()
def test_n_layers_that_select_are_attention() -> None:
    """Theorem 6.3, with the same vectors for the whole set. The error falls with the scale of the selection."""
    x = draws(CLUSTERS)
    errors = [error(x, [c * (x @ v) for v in CLUSTERS]) for c in (0.5, 2.0, 8.0)]
    assert errors[0] > 10 * errors[1] > 100 * errors[2]
    assert errors[2] < 1e-8


@torch.no_grad()
def test_a_node_among_the_others_needs_gatv2() -> None:
    """Proposition B.10: the score of GATv2 can select a node between the others, a bilinear score cannot."""
    centres = torch.cat([CLUSTERS, torch.tensor([[0.6, 0.4]], dtype=torch.float64)])
    x = draws(centres)
    assert error(x, [8 * (x @ v) for v in centres]) > 0.01
    errors = [error(x, [c * gatv2(x, v) for v in centres]) for c in (2.0, 8.0, 32.0)]
    assert errors[0] > 10 * errors[1] > 100 * errors[2]
    assert errors[2] < 1e-8


@torch.no_grad()
@pytest.mark.parametrize("seed", range(4))
def test_what_can_be_selected_is_outside_the_others_hull(seed: int) -> None:
    """Lemma B.2: a node is in the hull of the others, or a vector selects it. Linear programs find which."""
    points = np.random.default_rng(seed).standard_normal((7, 2))
    x, inside = torch.from_numpy(points)[None], 0
    vectors = 10 * torch.randn(200, 2, dtype=torch.float64)
    for node in range(7):
        others = np.delete(points, node, axis=0)
        hull = linprog(
            np.zeros(6), A_eq=np.vstack([others.T, np.ones(6)]), b_eq=[*points[node], 1], bounds=(0, None)
        )
        one = torch.zeros(1, 7, 1, dtype=torch.float64)
        one[0, node] = 1
        if hull.status == 0:
            inside += 1
            weights = select((x @ vectors.T)[0].T, one.expand(200, 7, 1))
            assert weights.max() <= 0.5
        else:
            gaps = linprog(
                [0, 0, -1],
                A_ub=np.c_[others - points[node], np.ones(6)],
                b_ub=np.zeros(6),
                bounds=[(-1, 1)] * 2 + [(None, 1)],
            )
            assert gaps.x[2] > 0
            vector = torch.from_numpy(gaps.x[:2]) * 20 / gaps.x[2]
            assert select(x @ vector, one).item() > 1 - 1e-6
    assert 0 < inside < 7
