"""Perceptrons approximate the updates by which MPNN with a virtual node is attention (Cai et al. 2023, B.2-B.4).

The perceptrons are built, not trained: a hidden layer of ReLUs interpolates a function of one variable, and a
product is a difference of squares. So their error has a closed form.
"""

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

WIDTH, NODES, BOUND = 3, 5, 1.0  # AS1: features lie in [-BOUND, BOUND]
Function = Callable[[Tensor], Tensor]


def perceptron(function: Function, low: float, high: float, knots: int) -> nn.Sequential:
    """Return a layer of ReLUs on `[..., 1]` that equals `function` at `knots` points, and is linear between."""
    at = torch.linspace(low, high, knots, dtype=torch.float64)
    slopes = function(at).diff() / at.diff()
    net = nn.Sequential(nn.Linear(1, knots - 1), nn.ReLU(), nn.Linear(knots - 1, 1)).double()
    first, last = net[0], net[2]
    with torch.no_grad():
        first.weight.fill_(1.0)
        first.bias.copy_(-at[:-1])
        last.weight.copy_(torch.cat([slopes[:1], slopes.diff()])[None])
        last.bias.fill_(function(at[:1]).item())
    return net.requires_grad_(False)


def each(net: nn.Module, values: Tensor) -> Tensor:
    return net(values[..., None])[..., 0]


def product(x: Tensor, y: Tensor, bound: float, knots: int) -> Tensor:
    """Multiply numbers of at most `bound` by layers of ReLUs: `((x + y)^2 - (x - y)^2) / 4`."""
    square = perceptron(torch.square, -2 * bound, 2 * bound, knots)
    return (each(square, x + y) - each(square, x - y)) / 4


class Update:
    """Equation (9) by perceptrons, for attention scores `x^T W y` and values `V y`."""

    def __init__(self, scores: Tensor, values: Tensor, knots: int) -> None:
        self.scores, self.values, self.knots = scores, values, knots
        self.highest = float(BOUND**2 * scores.abs().sum())
        self.exp = perceptron(torch.exp, -self.highest, self.highest, knots)
        least, most = NODES * torch.tensor([-self.highest, self.highest]).exp()
        self.inverse = perceptron(torch.reciprocal, float(least) / 2, 2 * float(most), 8 * knots)

    def add(self, x: Tensor, total: Tensor, count: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return `tmp` and `partialsum` after the virtual node has brought `y`: k = 2, ..., n + 1."""
        turned = y @ self.scores.T
        bound = max(BOUND, float(turned.abs().max()))
        weight = each(self.exp, product(x, turned.expand_as(x), bound, self.knots).sum(-1))
        value = y @ self.values.T
        bound = max(float(weight.max()), float(value.abs().max()))
        return total + product(weight[:, None].expand_as(x), value.expand_as(x), bound, self.knots), count + weight

    def divide(self, total: Tensor, count: Tensor) -> Tensor:
        """Return `tmp / partialsum`: k = n + 2."""
        inverse = each(self.inverse, count)[:, None].expand_as(total)
        return product(total, inverse, float(max(total.abs().max(), inverse.max())), self.knots)


def attention(x: Tensor, scores: Tensor, values: Tensor) -> Tensor:
    return (x @ scores @ x.T).softmax(-1) @ (x @ values.T)


def simulated(x: Tensor, brought: Tensor, update: Update) -> Tensor:
    """Return what the graph nodes hold in the end; the virtual node brings a row of `brought` after the other."""
    total, count = torch.zeros_like(x), x.new_zeros(len(x))
    for y in brought:
        total, count = update.add(x, total, count, y)
    return update.divide(total, count)


@pytest.fixture
def layer() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    x = 2 * torch.rand(NODES, WIDTH, dtype=torch.float64) - 1
    scores, values = 0.3 * torch.randn(2, WIDTH, WIDTH, dtype=torch.float64)
    return x, scores, values


def test_a_perceptron_errs_by_the_square_of_the_distance_of_its_knots() -> None:
    inside = torch.linspace(-1, 2, 10_001, dtype=torch.float64)
    for knots in (4, 13, 31):
        error = (each(perceptron(torch.exp, -1, 2, knots), inside) - inside.exp()).abs().max()
        bound = (3 / (knots - 1)) ** 2 / 8 * torch.exp(torch.tensor(2.0))  # h^2 / 8 max |f''|
        assert 0.5 * bound < error <= bound


def test_updates_are_approximated_as_well_as_one_likes(layer: tuple[Tensor, Tensor, Tensor]) -> None:
    """Lemma B.4: with knots ten times as dense, attention by the updates is some 100 times as near."""
    x, scores, values = layer
    exact = attention(x, scores, values)
    errors = [
        (simulated(x, x, Update(scores, values, knots)) - exact).abs().max() for knots in (101, 1_001, 10_001)
    ]
    assert errors[0] < 0.1
    for coarse, fine in pairwise(errors):
        assert fine < coarse / 20


def test_errors_of_the_input_pass_in_proportion(layer: tuple[Tensor, Tensor, Tensor]) -> None:
    """Lemma B.5 and Remark B.6: beside the perceptrons' own error stands one in proportion to the input's."""
    x, scores, values = layer
    exact, update = attention(x, scores, values), Update(scores, values, 10_001)
    own = (simulated(x, x, update) - exact).abs().max()
    off = torch.randn(NODES, WIDTH, dtype=torch.float64).clamp(-1, 1)
    passed = [(simulated(x, x + size * off, update) - exact).abs().max() - own for size in (1e-1, 1e-2, 1e-3)]
    assert passed[0] < 1
    for larger, smaller in pairwise(passed):
        assert smaller < larger / 5
