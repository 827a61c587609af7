"""Lemma 1, Theorems 1 and 2 and Corollary 1 of TokenGT for graphs (k = 2), with weights instead of training.

All n^2 pairs of nodes are tokens with orthonormal node identifiers and a type. A head's score counts which of the
conditions of a basis tensor hold: for each index of query and key that they are equal, or not, and the key's type.
All hold exactly on the tensor's entries, so softmax becomes a mean over them as the scores are scaled up. A
perceptron then multiplies by their number, and by 0 where the query has the other type. The attention is shipped.
"""

import itertools

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sstcast.models.attention import SoftmaxAttention
from sstcast.models.transformers import EncoderLayer
from studies.equivariant_basis import BASES

Array = NDArray[np.float64]
PATTERNS = list(BASES.values())


class Layout:
    """The channels of a token: value, type (1 on the diagonal), constant, both identifiers, the heads' sums."""

    def __init__(self, nodes: int) -> None:
        self.nodes, self.heads = nodes, len(PATTERNS)
        self.size = 2 * nodes + 1  # of a query
        self.width = self.heads * self.size
        self.ends = [slice(3, 3 + nodes), slice(3 + nodes, 3 + 2 * nodes)]
        self.sums = slice(3 + 2 * nodes, 3 + 2 * nodes + self.heads)
        self.pairs = list(itertools.product(range(nodes), repeat=2))

    def tokens(self, x: Array, seed: int = 0) -> Tensor:
        """Return the tokens of `x [n, n]`, `[1, n^2, width]`."""
        rotation = np.linalg.qr(np.random.default_rng(seed).normal(size=(self.nodes, self.nodes)))[0]
        tokens = torch.zeros(1, len(self.pairs), self.width, dtype=torch.double)
        for number, pair in enumerate(self.pairs):
            tokens[0, number, :3] = torch.tensor([x[pair], float(pair[0] == pair[1]), 1.0])
            for end, node in zip(self.ends, pair, strict=True):
                tokens[0, number, end] = torch.from_numpy(rotation[node])
        return tokens


def basis(pattern: tuple[int, ...], layout: Layout) -> Array:
    """A basis tensor as a matrix over pairs."""
    wanted = np.equal.outer(pattern, pattern)
    return np.array(
        [[float((np.equal.outer((*i, *j), (*i, *j)) == wanted).all()) for j in layout.pairs] for i in layout.pairs]
    )


@torch.no_grad()
def attention(layout: Layout, scale: float) -> SoftmaxAttention:
    """Heads whose weights tend to the basis tensors; head h writes its sum into channel `sums[h]`."""
    layer = SoftmaxAttention(layout.width, layout.heads).double()
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    query, key, value = layer.qkv.weight.unflatten(0, (3, layout.heads, layout.size))
    for head, pattern in enumerate(PATTERNS):
        for b in range(2):  # the key's index, which has a block of channels
            block = slice(b * layout.nodes, (b + 1) * layout.nodes)
            key[head, block, layout.ends[b]] = torch.eye(layout.nodes).double()
            for a in range(2):
                sign = 1 if pattern[a] == pattern[2 + b] else -1
                query[head, block, layout.ends[a]] += scale * sign * torch.eye(layout.nodes).double()
        query[head, -1, 2] = scale
        key[head, -1, 1] = 1 if pattern[2] == pattern[3] else -1
        value[head, 0, 0] = 1
        layer.out.weight[layout.sums.start + head, head * layout.size] = 1
    return layer


@torch.no_grad()
def equivariant_layer(layout: Layout, scale: float, weights: Array, biases: Array, bound: float) -> EncoderLayer:
    """A Transformer layer that replaces the value by L(X) of equation 2; values up to `bound` are exact."""
    layer = EncoderLayer(layout.width, attention(layout, scale), 0.0).double()
    layer.attention_norm = layer.feed_forward_norm = nn.Identity()
    first, _, _, last, _ = layer.feed_forward
    for parameter in layer.feed_forward.parameters():
        nn.init.zeros_(parameter)
    for head, (pattern, weight) in enumerate(zip(PATTERNS, weights, strict=True)):
        same = pattern[0] == pattern[1]
        count = basis(pattern, layout).sum(1).max()
        for part, sign in enumerate((1, -1)):  # z if the query has the type, else 0: ReLU(z - b) - ReLU(-z - b)
            unit = 2 * head + part
            first.weight[unit, layout.sums.start + head] = sign
            first.weight[unit, 1] = bound if same else -bound
            first.bias[unit] = -bound if same else 0
            last.weight[0, unit] = sign * weight * count
            last.weight[layout.sums.start + head, layout.heads * 2 + unit] = -sign  # the sums are 0 again
            first.weight[layout.heads * 2 + unit, layout.sums.start + head] = sign
    for part, sign in enumerate((1, -1)):  # X itself is replaced
        unit = 4 * layout.heads + part
        first.weight[unit, 0], last.weight[0, unit] = sign, -sign
    last.bias[0] = biases[1]
    unit = 4 * layout.heads + 2
    first.weight[unit, 1], last.weight[0, unit] = 1, biases[0] - biases[1]
    return layer


def exact_layer(x: Array, layout: Layout, weights: Array, biases: Array) -> Array:
    """L(X) of equation 2, by the basis tensors."""
    out = sum(w * basis(p, layout) @ x.flatten() for w, p in zip(weights, PATTERNS, strict=True))
    diagonal = np.array([i == j for i, j in layout.pairs])
    return np.asarray(out + np.where(diagonal, biases[0], biases[1])).reshape(x.shape)


@torch.no_grad()
@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_basis_tensor_is_the_limit_of_a_head(pattern: tuple[int, ...]) -> None:
    """Lemma 1: rows of the tensor that are not 0, divided by their sums."""
    layout, head = Layout(4), PATTERNS.index(pattern)
    exact = basis(pattern, layout)
    rows = exact.any(1)
    exact = exact[rows] / exact[rows].sum(1, keepdims=True)
    errors = []
    for scale in (20.0, 40.0, 400.0):
        layer, tokens = attention(layout, scale), layout.tokens(np.zeros((4, 4)))
        q, k, _ = (part.unflatten(-1, (layout.heads, -1))[0, :, head] for part in layer.qkv(tokens).chunk(3, -1))
        weights = (q @ k.T / layout.size**0.5).softmax(-1).numpy()
        errors.append(np.abs(weights[rows] - exact).max())
    assert errors[2] < 1e-12
    assert errors[2] <= errors[1] <= errors[0]


def random_layer(generator: np.random.Generator) -> tuple[Array, Array]:
    return generator.normal(size=len(PATTERNS)) / 4, generator.normal(size=2)


@torch.no_grad()
@pytest.mark.parametrize("nodes", [4, 5])
def test_a_layer_is_an_equivariant_linear_layer(nodes: int) -> None:
    """Theorem 1: the error falls exponentially with the scale of queries."""
    layout, generator = Layout(nodes), np.random.default_rng(0)
    weights, biases = random_layer(generator)
    x = generator.normal(size=(nodes, nodes))
    exact, errors = exact_layer(x, layout, weights, biases), []
    for scale in (20.0, 40.0, 400.0):
        layer = equivariant_layer(layout, scale, weights, biases, bound=50.0)
        out = layer(layout.tokens(x), torch.ones(1, nodes**2, dtype=torch.bool))[0, :, 0]
        errors.append(np.abs(out.numpy() - exact.flatten()).max())
    assert errors[1] < errors[0] / 10
    assert errors[2] < 1e-10


@torch.no_grad()
def network(x: Array, layers: list[tuple[Array, Array]], scale: float = 400.0) -> float:
    """Theorem 2: layers with ReLU between them, and a sum over all tokens."""
    layout = Layout(len(x))
    tokens, mask = layout.tokens(x, seed=1), torch.ones(1, len(x) ** 2, dtype=torch.bool)
    for number, (weights, biases) in enumerate(layers):
        tokens = equivariant_layer(layout, scale, weights, biases, bound=1e4)(tokens, mask)
        if number < len(layers) - 1:
            tokens[..., 0] = tokens[..., 0].relu()  # a perceptron on each token
    return float(tokens[0, :, 0].relu().sum())


def exact_network(x: Array, layers: list[tuple[Array, Array]]) -> float:
    layout = Layout(len(x))
    for weights, biases in layers:
        x = np.maximum(exact_layer(x, layout, weights, biases), 0)
    return float(x.sum())


def test_a_transformer_is_an_invariant_graph_network() -> None:
    """Theorem 2 and Corollary 1 for k = 2: the same numbers, for any order of the nodes."""
    generator = np.random.default_rng(0)
    layers = [random_layer(generator) for _ in range(3)]
    x = generator.normal(size=(4, 4))
    exact = exact_network(x, layers)
    assert exact > 1
    assert network(x, layers) == pytest.approx(exact, rel=1e-8)
    order = generator.permutation(4)
    assert network(x[order][:, order], layers) == pytest.approx(exact, rel=1e-8)
