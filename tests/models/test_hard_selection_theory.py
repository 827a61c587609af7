"""Theorem 6.3 of Cai et al. (2023, arXiv:2301.11956): n layers that each select one node are attention.

The construction of appendix B.2 is written out here, since the shipped virtual node takes a mean and selects
nothing; selection and the target are the shipped softmax attention.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch import Tensor
from torch.nn import functional as F

from sstcast.models.attention import SoftmaxAttention, softmax_attention

CLUSTERS = torch.tensor([[2.0, 0.0], [0.0, 2.0], [-2.0, 0.0], [0.0, -2.0]], dtype=torch.float64)


def draws(centres: Tensor, spread: float = 0.2, count: int = 20) -> Tensor:
    """Elements of a compact set: every node stays near its own centre, `[count, nodes, 2]`."""
    torch.manual_seed(0)
    return centres + spread * (2 * torch.rand(count, *centres.shape, dtype=torch.float64) - 1)


def select(scores: Tensor, x: Tensor) -> Tensor:
    """Return the mean of `x [B, n, d]` by the softmax of `scores [B, n]`, through the shipped attention."""
    query, keys, mask = torch.ones_like(scores[:, :1]), scores.unsqueeze(-1), torch.ones_like(scores) > 0
    return softmax_attention(query[:, None, None], keys[:, None], x[:, None], mask)[:, 0, 0]


def bilinear(x: Tensor, vector: Tensor) -> Tensor:
    return x @ vector


def gatv2(x: Tensor, vector: Tensor) -> Tensor:
    """`a^T LeakyReLU(W [x, v] + b)` with the weights that make it minus the L1 distance of x and v (Lemma B.8)."""
    difference = x - vector
    hidden = F.leaky_relu(
        torch.cat([difference, -difference], dim=-1), 0.2
    )  # LeakyReLU(z) + LeakyReLU(-z) = 0.8 |z|
    return hidden @ torch.full((hidden.shape[-1],), -1 / 0.8, dtype=x.dtype)


def by_selection(attention: SoftmaxAttention, x: Tensor, scores: list[Tensor]) -> Tensor:
    """In layer k the virtual node selects node k, and each node adds exp(q k) v and exp(q k); the last divides."""
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
        scores = bilinear(x, vector)
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
    """Theorem 6.3, with the same vectors for the whole set; the error falls with the selection's scale."""
    x = draws(CLUSTERS)
    errors = [error(x, [c * bilinear(x, v) for v in CLUSTERS]) for c in (0.5, 2.0, 8.0)]
    assert errors[0] > 10 * errors[1] > 100 * errors[2]
    assert errors[2] < 1e-8


@torch.no_grad()
def test_a_node_among_the_others_needs_gatv2() -> None:
    """Proposition B.10: a bilinear score cannot select what lies between the others, GATv2's can."""
    centres = torch.cat([CLUSTERS, torch.tensor([[0.6, 0.4]], dtype=torch.float64)])
    x = draws(centres)
    assert error(x, [8 * bilinear(x, v) for v in centres]) > 0.01
    errors = [error(x, [c * gatv2(x, v) for v in centres]) for c in (2.0, 8.0, 32.0)]
    assert errors[0] > 10 * errors[1] > 100 * errors[2]
    assert errors[2] < 1e-8


@torch.no_grad()
@pytest.mark.parametrize("seed", range(4))
def test_what_can_be_selected_is_outside_the_others_hull(seed: int) -> None:
    """Lemma B.2: by linear programming, a node is in the hull, or there is a vector that selects it."""
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
