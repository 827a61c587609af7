"""Attention with kernel features of queries and keys: linear in the number of nodes."""

import torch
from torch import Tensor


def kernel_attention(phi_q: Tensor, phi_k: Tensor, v: Tensor) -> Tensor:
    """Return `phi_q (phi_k^T v) / phi_q (phi_k^T 1)`, 0 where all keys have zero weight."""
    weight = phi_q @ phi_k.sum(-2).unsqueeze(-1)
    weight = weight.masked_fill(weight < torch.finfo(weight.dtype).tiny, 1)
    return phi_q @ (phi_k.transpose(-1, -2) @ v) / weight


def elu_features(x: Tensor) -> Tensor:
    """Return `elu(x) + 1`, computed so that very negative inputs give a positive value instead of 0."""
    return x.clamp(max=0).exp() + x.relu()


def favor_features(q: Tensor, k: Tensor, mask: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
    """Return phi(q), phi(k) with `E[phi(q) phi(k)^T]` proportional to `exp(q k^T / sqrt(d))` in every row.

    phi(x)_f = exp(w_f x - |x|^2 / 2). Factors of a row cancel in its average over keys; they, and the largest key
    of each feature, are removed from phi before the exponential. Then no entry exceeds 1, every row has a weight
    of at least 1, no small constant is needed, and masked nodes have no effect.
    """
    directions = directions * q.shape[-1] ** -0.25
    log_q = q @ directions.T
    log_k = k @ directions.T - k.square().sum(-1, keepdim=True) * q.shape[-1] ** -0.5 / 2
    log_k = log_k.masked_fill(~mask[:, None, :, None], torch.finfo(k.dtype).min)
    if k.shape[-2] == 0:  # without keys there is no largest key
        return log_q.exp(), log_k.exp()
    largest = log_k.amax(-2, keepdim=True).detach()
    log_q = log_q + largest
    phi_k = (log_k - largest).exp().masked_fill(~mask[:, None, :, None], 0)
    return (log_q - log_q.amax(-1, keepdim=True).detach()).exp(), phi_k


def orthogonal_directions(features: int, size: int) -> Tensor:
    """Draw `[features, size]`: each row is N(0, I), rows in a block of `size` are orthogonal.

    LAPACK's Q prefers some signs (the first entry is never positive), which would bias the features; multiplying
    by the signs of R's diagonal makes it uniform (Mezzadri 2007, arXiv:math-ph/0609050).
    """
    q, r = torch.linalg.qr(torch.randn(-(-features // size), size, size))
    blocks = q * r.diagonal(dim1=1, dim2=2).sign().unsqueeze(1)
    return blocks.transpose(1, 2).reshape(-1, size)[:features] * torch.randn(features, size).norm(
        dim=1, keepdim=True
    )


def widen(x: Tensor) -> Tensor:
    """Convert half precision to single precision, which sums over all nodes need."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
