"""Every attention against its definition, written out over pairs of nodes, and the features of kernels."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sstcast.errors import SSTCastError
from sstcast.models.attention import (
    DeepSets,
    LinearAttention,
    PerformerAttention,
    SoftmaxAttention,
    elu_features,
    favor_features,
    kernel_attention,
    orthogonal_directions,
    split_heads,
)

D, HEADS = 12, 3


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def make(batch: int = 2, nodes: int = 30) -> tuple[Tensor, Tensor]:
    return torch.randn(batch, nodes, D, dtype=torch.double), torch.rand(batch, nodes) < 0.7


def test_softmax_against_torch() -> None:
    ours, theirs = SoftmaxAttention(D, HEADS).double(), nn.MultiheadAttention(D, HEADS, batch_first=True).double()
    theirs.in_proj_weight, theirs.in_proj_bias = ours.qkv.weight, ours.qkv.bias
    theirs.out_proj.load_state_dict(ours.out.state_dict())
    x, mask = make()
    expected = theirs(x, x, x, key_padding_mask=~mask, need_weights=False)[0]
    torch.testing.assert_close(ours(x, mask)[mask], expected[mask])
    with pytest.raises(SSTCastError, match="5 heads cannot share a width of 12"):
        SoftmaxAttention(D, 5)


@pytest.mark.parametrize("dtype", [torch.float, torch.double])
def test_linear_attention_by_its_quadratic_form(dtype: torch.dtype) -> None:
    attention, (x, mask) = LinearAttention(D, HEADS).double(), make(1)
    q, k, v = (split_heads(part, HEADS) for part in attention.qkv(x).chunk(3, dim=-1))
    weights = (F.elu(q) + 1) @ (F.elu(k) + 1).transpose(2, 3) * mask
    y = weights / weights.sum(-1, keepdim=True) @ v
    expected = attention.out(y.transpose(1, 2).flatten(2))
    ours = attention.to(dtype)(x.to(dtype), mask).double()
    torch.testing.assert_close(ours[mask], expected[mask], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("norm", ["none", "layer"])
def test_deepsets_by_its_equation(norm: str) -> None:
    """Definition 5.2 of Cai et al. 2023 without a norm: ReLU(X A + 1/n 1 1^T X B + 1 c^T)."""
    layer, (x, mask) = DeepSets(D, norm=norm).double(), make()
    a, b, c = (part.detach().numpy() for part in (layer.each.weight.T, layer.mean.weight.T, layer.each.bias))
    for row, real, out in zip(x, mask, layer(x, mask), strict=True):
        nodes = row[real].numpy()
        ones = np.ones((len(nodes), 1))
        mixed = torch.from_numpy(nodes @ a + ones @ ones.T @ nodes @ b / len(nodes) + ones @ c[None])
        mixed = F.layer_norm(mixed, [D]) if norm == "layer" else mixed
        torch.testing.assert_close(out[real], mixed.relu(), rtol=1e-9, atol=1e-12)


def test_favor_survives_large_queries_and_keys() -> None:
    attention, (x, mask) = PerformerAttention(D, HEADS), make()
    x = (1e3 * x).float().requires_grad_()
    out = attention(x, mask)
    out.sum().backward()
    assert torch.isfinite(out).all()
    assert torch.isfinite(x.grad).all()


def test_redraw_in_training_only() -> None:
    x, mask = make()
    for redraw in (False, True):
        attention = PerformerAttention(D, HEADS, redraw=redraw).double()
        assert torch.equal(attention(x, mask), attention(x, mask)) != redraw
        before = attention.eval().directions
        assert torch.equal(attention(x, mask), attention(x, mask))
        assert attention.directions is before
        assert "directions" in attention.state_dict()


def test_elu_features_stay_positive() -> None:
    x = torch.tensor([-60.0, -20.0, -1.0, 0.0, 1.0, 20.0])
    torch.testing.assert_close(elu_features(x), F.elu(x) + 1)
    assert (elu_features(x) > 0).all()


def test_favor_error_shrinks_with_the_number_of_features() -> None:
    """The mean error falls as one over the square root: by half for four times the features.

    Moderate queries and keys: the estimator's variance grows with exp |q + k|^2, and a few draws of a heavy tail
    show no rate.
    """
    q, k, v = torch.randn(3, 8, 2, 40, 8, dtype=torch.double).unbind(0)
    q, k, mask = q / 2, k / 2, torch.rand(8, 40) < 0.8
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
    w, mask = orthogonal_directions(20, 4).double(), torch.rand(1, 30) < 0.7
    q, k = torch.randn(2, 1, 1, 30, 4, dtype=torch.double)
    naive_q, naive_k = (torch.exp(a @ w.T / math.sqrt(2) - a.square().sum(-1, keepdim=True) / 4) for a in (q, k))
    weights = (naive_q @ naive_k.transpose(2, 3)).masked_fill(~mask, 0)
    ours_q, ours_k = favor_features(q, k, mask, w)
    ours = ours_q @ ours_k.transpose(2, 3)
    torch.testing.assert_close(ours / ours.sum(-1, keepdim=True), weights / weights.sum(-1, keepdim=True))
    assert (ours.sum(-1) >= 1).all()


def test_directions_are_orthogonal_and_favour_none() -> None:
    w = orthogonal_directions(4000, 4)
    blocks, bound = w.reshape(1000, 4, 4), 5 / math.sqrt(1000)
    products = blocks @ blocks.transpose(1, 2)
    off = products - torch.diag_embed(products.diagonal(dim1=1, dim2=2))
    assert off.abs().max() < 1e-4
    assert blocks.mean(0).abs().max() < bound  # entry by entry: LAPACK's own Q has means of 0.4
    torch.testing.assert_close(w.T @ w / 4000, torch.eye(4), rtol=0, atol=bound)


def test_error_of_features_by_equation_18_of_kdlgt() -> None:
    """The relative error of r independent features is c = sqrt((exp(|q + k|^2) - 1) / r), in the mean of squares.

    Orthogonal ones have less. Both are right on average, so that P' = P in Lemma 1 whatever c is.
    """
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
