"""Theorems 3 to 5 of Primphormer with weights instead of training: Sumformers, and functions of sets of numbers.

A Sumformer gives each node a function of itself and of Xi, a sum over all nodes. The shipped attention with `sums`
brings Xi to every node (C14 to C22). Here xi(x) are the powers of a number, so that Xi determines the set of
numbers by Newton's identities, which take the place of the approximations in Theorems 5 and 6; any function of the
set can be computed from it.
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from small_graphs import NO_EDGES, one_graph

from sstcast.models.primphormer import PrimphormerAttention

N = 5
Array = NDArray[np.float64]


@torch.no_grad()
def sums_by_attention(xi: Array) -> Array:
    """Return the sum of `xi [N, d']` over all nodes as every node gets it, by the weights of (C16) to (C21)."""
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
