"""What Cai et al. (2023, arXiv:2301.11956) prove of MPNN + VN, with the weights of the proofs.

Both constructions run in the shipped `MPNN`, without norms. A layer adds ReLU(root x) to x; each block of
channels is written by one layer alone, so that it holds exactly those activations from there on, and the next
layer's root may combine all blocks so far linearly.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph
from sstcast.models.attention import LinearAttention
from sstcast.models.mpnn import MPNN


class Circuit:
    """An `MPNN` with virtual node of zero weights and without norms, and the writing of weights into it."""

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
        """Let `layer` compute the ReLU of linear functions `[count, width + 1]`; return its channels."""
        first = self.used
        outputs = self.allocate(len(inputs))
        root = self.model.convs[layer].root
        root.weight[first : self.used] = inputs[:, :-1]
        root.bias[first : self.used] = inputs[:, -1]
        return outputs

    @torch.no_grad()
    def mean(self, layer: int, inputs: Tensor) -> Tensor:
        """Let the virtual node after `layer` bring the nodes' mean of linear functions to the next layer.

        Later layers add it again, so it is to be read in the next one only.
        """
        first, count = self.used, len(inputs)
        outputs = self.allocate(count)
        inner, _, outer = self.model.virtual_nodes[layer].mlp
        inner.weight[: 2 * count] = torch.cat([inputs, -inputs])[:, :-1]
        outer.weight[first : self.used, : 2 * count] = torch.cat([torch.eye(count), -torch.eye(count)], dim=1)
        outputs[:, -1] = inputs[:, -1]  # the mean of a constant
        return outputs

    def run(self, x: Tensor, graph: object, outputs: Tensor) -> Tensor:
        """Return the linear functions `outputs` of what the model makes of `x`, padded with zero channels."""
        padded = torch.cat([x, x.new_zeros(*x.shape[:-1], self.width - x.shape[-1])], dim=-1)
        return self.model(padded, graph) @ outputs[:, :-1].T + outputs[:, -1]


def test_mpnn_with_virtual_node_is_deepsets() -> None:
    """Theorem 5.5: two layers are X A + mean(X) B + c exactly, and its ReLU comes with it."""
    torch.manual_seed(0)
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
    sparse = SparseGraph(torch.tensor([[0, 1], [1, 0]]), batch, 2)  # whichever edges: the messages are 0
    torch.testing.assert_close(circuit.run(x[mask], sparse, positive - negative), linear[mask])


class Interpolation(Circuit):
    """A circuit that also approximates functions of one variable, by `pieces` linear pieces of one ReLU each."""

    def __init__(self, width: int, layers: int, pieces: int) -> None:
        super().__init__(width, layers)
        self.pieces = pieces

    def function(
        self, layer: int, f: Callable[[Tensor], Tensor], inputs: Tensor, low: float, high: float
    ) -> Tensor:
        """Approximate `f` on `[low, high]` of each of the linear functions `inputs`."""
        knots = torch.linspace(low, high, self.pieces + 1, dtype=torch.double)
        slopes = f(knots).diff() / knots.diff()
        steps = torch.cat([slopes[:1], slopes.diff()])
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
    """With twice the pieces the error falls to a quarter: it can be made as small as one likes."""
    torch.manual_seed(0)
    attention = LinearAttention(2, heads=1).double()
    circuit, outputs = approximate_linear_attention(attention, pieces)
    mask = torch.rand(1, 20) < 0.8
    x = 2 * torch.rand(1, 20, 2, dtype=torch.double) - 1
    expected, ours = attention(x, mask)[mask], circuit.run(x, GridGraph(4, 5, mask), outputs)[mask]
    assert (ours - expected).abs().max() < tolerance
    assert expected.std() > tolerance
