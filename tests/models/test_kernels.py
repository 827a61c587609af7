"""Features of queries and keys against what they stand for."""

import math
from itertools import pairwise

import torch
from torch.nn import functional as F

from sstcast.models.attention import elu_features, favor_features, kernel_attention, orthogonal_directions


def test_elu_features_stay_positive() -> None:
    x = torch.tensor([-60.0, -20.0, -1.0, 0.0, 1.0, 20.0])
    torch.testing.assert_close(elu_features(x), F.elu(x) + 1)
    assert (elu_features(x) > 0).all()
    assert (F.elu(x) + 1 == 0).any()


def test_favor_error_shrinks_with_the_number_of_features() -> None:
    """The mean error falls as one over the square root: by half for four times the features.

    Moderate queries and keys: the estimator's variance grows with exp |q + k|^2, and a few draws of a heavy tail
    show no rate.
    """
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 8, 2, 40, 8, dtype=torch.double).unbind(0)
    q, k = q / 2, k / 2
    mask = torch.rand(8, 40) < 0.8
    exact = F.scaled_dot_product_attention(q, k, v, mask[:, None, None])
    errors = []
    for features in (16, 64, 256, 1024):
        draws = [orthogonal_directions(features, 8).double() for _ in range(8)]
        outputs = [kernel_attention(*favor_features(q, k, mask, w), v) for w in draws]
        errors.append(float(torch.stack([(y - exact).square().mean() for y in outputs]).mean().sqrt()))
    ratios = [b / a for a, b in pairwise(errors)]
    assert all(0.4 < ratio < 0.6 for ratio in ratios), ratios
    assert errors[-1] < 0.1 * float(exact.square().mean().sqrt()), errors


def test_favor_features_without_their_stabiliser() -> None:
    """phi(x) = exp(w x - |x|^2 / 2) as the paper writes it, in a range where nothing can overflow."""
    torch.manual_seed(0)
    w, mask = orthogonal_directions(20, 4).double(), torch.rand(1, 30) < 0.7
    q, k = torch.randn(2, 1, 1, 30, 4, dtype=torch.double)
    naive_q, naive_k = (torch.exp(a @ w.T / math.sqrt(2) - a.square().sum(-1, keepdim=True) / 4) for a in (q, k))
    weights = (naive_q @ naive_k.transpose(2, 3)).masked_fill(~mask, 0)
    ours_q, ours_k = favor_features(q, k, mask, w)
    ours = ours_q @ ours_k.transpose(2, 3)
    torch.testing.assert_close(ours / ours.sum(-1, keepdim=True), weights / weights.sum(-1, keepdim=True))
    assert (ours.sum(-1) >= 1).all()


def test_directions_are_orthogonal_and_favour_none() -> None:
    torch.manual_seed(0)
    w = orthogonal_directions(4000, 4)
    blocks = w.reshape(1000, 4, 4)
    products = blocks @ blocks.transpose(1, 2)
    off = products - torch.diag_embed(products.diagonal(dim1=1, dim2=2))
    assert off.abs().max() < 1e-4
    bound = 5 / math.sqrt(1000)
    assert blocks.mean(0).abs().max() < bound  # entry by entry: LAPACK's own Q has means of 0.4
    torch.testing.assert_close(w.T @ w / 4000, torch.eye(4), rtol=0, atol=bound)


def test_error_of_features_by_equation_18_of_kdlgt() -> None:
    """The relative error of r independent features is c = sqrt((exp(|q + k|^2) - 1) / r), in the mean of squares.

    Orthogonal ones have less. Both are right on average, so that P' = P in Lemma 1 whatever c is.
    """
    torch.manual_seed(0)
    q, k, features, draws = *torch.randn(2, 4, dtype=torch.double) / 4, 16, 20_000
    squared = float(((q + k).square().sum().exp() - 1) / features)
    assert squared < 1
    found = []
    for w in (torch.randn(draws * features, 4), orthogonal_directions(draws * features, 4)):
        both = [torch.exp(w.double() @ x - x.square().sum() / 2) for x in (q, k)]
        ratio = (both[0] * both[1]).view(draws, features).mean(1) / torch.exp(q @ k)
        assert abs(ratio.mean() - 1) < 5 * (squared / draws) ** 0.5
        found.append(float((ratio - 1).square().mean()))
    assert abs(found[0] / squared - 1) < 0.1
    assert found[1] < 0.95 * squared
