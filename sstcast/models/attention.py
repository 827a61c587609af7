"""Global attention: `Attention` on padded nodes, `GraphAttention` on nodes and their graph.

Masked nodes are never keys, and denominators and means leave them out. Their own output is finite and meaningless.
With n nodes, width d, m random features and blocks of b nodes:

| class                                 | time and memory    | source                                            |
|---------------------------------------|--------------------|---------------------------------------------------|
| `SoftmaxAttention`                    | n^2 d (memory n d) | Vaswani et al. 2017                               |
| `LinearAttention`                     | n d^2              | Katharopoulos et al. 2020, arXiv:2006.16236       |
| `PerformerAttention`                  | n m d              | Choromanski et al. 2021, arXiv:2009.14794         |
| `DeepSets`                            | n d^2              | Cai et al. 2023, arXiv:2301.11956, section 7.2    |
| `sparse_attention.BigBirdAttention`   | n b d              | Zaheer et al. 2020, arXiv:2007.14062              |
| `sparse_attention.ExphormerAttention` | (n + edges) d      | Shirzad et al. 2023, arXiv:2303.06147             |
| `primphormer.PrimalAttention`         | n d^2              | Chen et al. 2023, arXiv:2305.19798                |
| `primphormer.PrimphormerAttention`    | n d^2              | Primphormer, section 2.2                          |
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sstcast.errors import SSTCastError
from sstcast.graphs.graph import Graph, Planes, check_full_attention, check_memory
from sstcast.models.norms import ACTIVATIONS, NORMS, NormName, widen
from sstcast.models.sizes import Count, Share


class Attention(nn.Module):
    """Attention that reads only the nodes, padded to `[B, N, width]`, and not the graph.

    If it adds a term to the loss, it has a method `penalty()`.
    """

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Map `x [B, N, width]` to the same shape. `mask [B, N]` is True on real nodes."""
        raise NotImplementedError


class GraphAttention(nn.Module):
    """Attention that reads the graph and its edge state, and may pass a memory from layer to layer."""

    reads_edges = False

    def forward(
        self, x: Tensor, graph: Graph, edges: Planes | None, memory: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return new node features and the `memory` for the next layer."""
        raise NotImplementedError

    def share(self, first: nn.Module) -> None:
        """Take the parameters that all layers share from the attention of the first layer. By default, none."""


class OnGraph(GraphAttention):
    """Adapts an `Attention` to the interface of a `GraphAttention`."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention

    def forward(
        self, x: Tensor, graph: Graph, edges: Planes | None, memory: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Map `x [..., width]` to the same shape, and pass the memory on."""
        return graph.sparse(self.attention(*graph.dense(x))), memory


class HeadedAttention(Attention):
    """Projects to queries, keys and values, calls `attend` on all heads, and projects their outputs together.

    Raises SSTCastError if `heads` does not divide `width`.
    """

    def __init__(self, width: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        check_heads(width, heads)
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Map `x [B, N, width]` to the same shape. `mask [B, N]` is True on real nodes."""
        q, k, v = (split_heads(part, self.heads) for part in self.qkv(x).chunk(3, dim=-1))
        return self.out(merge_heads(self.attend(q, k, v, mask)))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """Return `[B, heads, N, d]` from queries, keys and values of that shape and the mask `[B, N]`."""
        raise NotImplementedError


class SoftmaxAttention(HeadedAttention):
    """`softmax(q k^T / sqrt(d)) v`. Dropout acts on the weights."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """Attend with torch's kernels, which are fused except for dropout on a CPU."""
        return softmax_attention(q, k, v, mask, self.dropout if self.training else 0.0)


class LinearAttention(HeadedAttention):
    """`phi(q) (phi(k)^T v) / phi(q) (phi(k)^T 1)` with `phi(x) = elu(x) + 1`. Dropout acts on the result."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """Attend through the d x d product of keys and values."""
        with torch.autocast(q.device.type, enabled=False):
            phi_q, phi_k = elu_features(widen(q)), elu_features(widen(k))
            phi_k = phi_k.masked_fill(~mask[:, None, :, None], 0)
            y = kernel_attention(phi_q, phi_k, widen(v)).to(v.dtype)
        return F.dropout(y, self.dropout, self.training)


class PerformerAttention(HeadedAttention):
    """Softmax attention estimated by FAVOR+: positive orthogonal random features, whose kernel is unbiased.

    Dropout acts on the result.

    `features` is the number of random features, d ln(d + 1) rounded up if None. They are drawn once and saved with
    the weights.
    """

    def __init__(self, width: int, heads: int, dropout: Share = 0.0, features: Count | None = None) -> None:
        super().__init__(width, heads, dropout)
        size = width // heads
        self.directions: Tensor
        self.register_buffer(
            "directions", orthogonal_directions(features or math.ceil(size * math.log(size + 1)), size)
        )

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """Attend through the m x d product of keys and values."""
        return F.dropout(favor_attention(q, k, v, mask, self.directions), self.dropout, self.training)


class DeepSets(Attention):
    """`ReLU(norm(x A + mean(x) B + c))`, which replaces attention by a virtual node.

    With the norm `none`, this is a layer of equivariant DeepSets and a ReLU (Cai et al. 2023, Definition 5.2).
    """

    def __init__(self, width: int, dropout: float = 0.0, norm: NormName = "layer") -> None:
        super().__init__()
        self.each = nn.Linear(width, width)
        self.mean = nn.Linear(width, width, bias=False)
        self.norm = NORMS[norm](width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Map `x [B, N, width]` to the same shape. `mask [B, N]` is True on real nodes."""
        real = mask.unsqueeze(-1)
        mean = x.masked_fill(~real, 0).sum(1, keepdim=True) / real.sum(1, keepdim=True).clamp(min=1)
        return self.dropout(self.norm(self.each(x) + self.mean(mean), mask).relu())


def softmax_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, dropout: float = 0.0) -> Tensor:
    """Return `[B, heads, N, d]`. A sample whose keys are all masked attends to all of them, which avoids NaN.

    On a CPU, dropout makes torch store the n^2 weights. Raises SSTCastError if they would need too much memory,
    or without dropout, if the matrix of one head does, because its computation would take days.
    """
    scores = (*q.shape[:-1], k.shape[-2])
    if dropout:
        check_memory(f"attention with dropout, {' x '.join(map(str, scores))} scores", math.prod(scores), q.device)
    else:
        check_full_attention(scores[-1], q.device)
    keys = mask | ~mask.any(-1, keepdim=True)
    return F.scaled_dot_product_attention(q, k, v, keys[:, None, None], dropout_p=dropout)


def favor_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, directions: Tensor) -> Tensor:
    """Return an estimate of `softmax_attention`, `[B, heads, N, d]`, from the random features of FAVOR+."""
    with torch.autocast(q.device.type, enabled=False):
        phi_q, phi_k = favor_features(widen(q), widen(k), mask, directions)
        return kernel_attention(phi_q, phi_k, widen(v)).to(v.dtype)


def kernel_attention(phi_q: Tensor, phi_k: Tensor, v: Tensor) -> Tensor:
    """Return `phi_q (phi_k^T v) / phi_q (phi_k^T 1)`, 0 where all keys have zero weight."""
    weight = phi_q @ phi_k.sum(-2).unsqueeze(-1)
    weight = weight.masked_fill(weight < torch.finfo(weight.dtype).tiny, 1)
    return phi_q @ (phi_k.transpose(-1, -2) @ v) / weight


def elu_features(x: Tensor) -> Tensor:
    """Return `elu(x) + 1` without cancellation, so that very negative inputs give a positive value, not 0."""
    positive = x.relu()
    return (
        x - positive
    ).exp() + positive  # the derivative of a clamp at its bound depends on the version of torch


def favor_features(q: Tensor, k: Tensor, mask: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
    """Return phi(q) and phi(k) with `E[phi(q) phi(k)^T]` proportional to `exp(q k^T / sqrt(d))` in every row.

    phi(x)_f = exp(w_f x - |x|^2 / 2). The factors of a row cancel in its average over keys. They are removed
    before the exponential, and so is the largest key of each feature. Then no entry exceeds 1, every row has a
    weight of at least 1, and no small constant is needed.

    Args:
        q: queries, `[B, heads, N, d]`.
        k: keys, `[B, heads, N, d]`.
        mask: True on real nodes, `[B, N]`.
        directions: the directions w_f, `[features, d]`.
    """
    directions = directions * q.shape[-1] ** -0.25
    log_q = q @ directions.T
    log_k = k @ directions.T - k.square().sum(-1, keepdim=True) * q.shape[-1] ** -0.5 / 2
    log_k = log_k.masked_fill(~mask[:, None, :, None], torch.finfo(k.dtype).min)
    largest = log_k.amax(-2, keepdim=True).detach()
    log_q = log_q + largest
    phi_k = (log_k - largest).exp().masked_fill(~mask[:, None, :, None], 0)
    return (log_q - log_q.amax(-1, keepdim=True).detach()).exp(), phi_k


def orthogonal_directions(features: int, size: int) -> Tensor:
    """Draw `[features, size]`: rows are N(0, I), and orthogonal within each block of `size` rows.

    The Q of LAPACK prefers some signs (its first entry is never positive), which would bias the features.
    Multiplied by the signs of R's diagonal it is uniform (Mezzadri 2007, arXiv:math-ph/0609050).
    """
    q, r = torch.linalg.qr(torch.randn(-(-features // size), size, size))
    blocks = q * r.diagonal(dim1=1, dim2=2).sign().unsqueeze(1)
    return blocks.transpose(1, 2).reshape(-1, size)[:features] * torch.randn(features, size).norm(
        dim=1, keepdim=True
    )


def check_heads(width: int, heads: int) -> None:
    """Raise SSTCastError if `heads` does not divide `width`."""
    if heads < 1 or width % heads:
        raise SSTCastError(f"heads: {heads} heads cannot share a width of {width}; choose a divisor of it")


def split_heads(x: Tensor, heads: int) -> Tensor:
    """Return `[B, heads, N, d]` from `[B, N, heads * d]`."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """Undo `split_heads`."""
    return x.transpose(1, 2).flatten(2)


def feed_forward(width: int, dropout: float, activation: str = "relu", hidden: int | None = None) -> nn.Sequential:
    """Return the perceptron after an attention. Its `hidden` layer has twice the width by default."""
    hidden = hidden or 2 * width
    return nn.Sequential(
        nn.Linear(width, hidden),
        ACTIVATIONS[activation](),
        nn.Dropout(dropout),
        nn.Linear(hidden, width),
        nn.Dropout(dropout),
    )
