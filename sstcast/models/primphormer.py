"""Attention in its primal representation, whose cost is linear because it needs no pairs of nodes.

From queries and keys of length 1, Primphormer computes the projection scores `e_i = f(X) W_e phi(q_i)` and
`r_j = f(X) W_r phi(k_j)`, and maps them together to the output. `PrimalAttention` has its own scores (see there).
At the optimum of the kernel singular value decomposition (KSVD), the scores are outputs of attention,
`e_i = sum_j h~_j <phi(q_i), phi(k_j)>`, and the objective

    J = mean_i e_i^T Lambda e_i / 2 + mean_j r_j^T Lambda r_j / 2 - Tr(W_e^T W_r)

is 0. So `eta J^2` is added to the loss (Primphormer, equations 2.5 to 2.8 and 3.1, with means over nodes and heads
as in Algorithm 1).
"""

from typing import Any

import torch
from pydantic import NonNegativeFloat
from torch import Tensor, nn
from torch.nn import functional as F

from sstcast.graphs.graph import Graph, Planes
from sstcast.models.attention import Attention, GraphAttention, check_heads
from sstcast.models.sizes import Count, Share
from sstcast.models.sparse_attention import pack


class KSVDAttention(nn.Module):
    """Base class: features of queries and keys, the map from scores to outputs, and the objective."""

    def __init__(self, width: int, heads: int, dropout: float, rank: int, eta: float) -> None:
        super().__init__()
        check_heads(width, heads)
        self.heads, self.eta = heads, eta
        self.qk = nn.Linear(width, 2 * width)
        self.scale = nn.Parameter(torch.rand(heads, rank))  # the square root of Lambda in equation 2.5
        self.dropout = nn.Dropout(dropout)
        self.compose = nn.Linear(2 * rank, width // heads)
        self.objective = torch.zeros(())  # J of the last forward pass

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the last objective, because torch cannot copy a tensor with a gradient history."""
        return self.__dict__ | {"objective": torch.zeros(())}

    def penalty(self) -> Tensor:
        """Return `eta J^2` of the last forward pass."""
        return self.eta * self.objective.square()

    def features(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return `phi(q)` and `phi(k)` of length 1, `[..., heads, d]`."""
        phi_q, phi_k = self.qk(x).unflatten(-1, (2, self.heads, -1)).unbind(-3)
        return F.normalize(phi_q, dim=-1), F.normalize(phi_k, dim=-1)

    def outputs(self, e: Tensor, r: Tensor) -> Tensor:
        """Return node features from the scores, each `[..., heads, rank]`."""
        return self.compose(self.dropout(torch.cat([e, r], dim=-1))).flatten(-2)

    def energy(self, e: Tensor, r: Tensor) -> Tensor:
        """Return the part of each node in J, averaged over heads, `[..., 1]`."""
        squares = (self.scale * e).square().sum(-1) + (self.scale * r).square().sum(-1)
        return squares.mean(-1, keepdim=True) / 2

    def coupling(self, w_e: Tensor, w_r: Tensor) -> Tensor:
        """Return `Tr(W_e^T W_r)`, averaged over heads."""
        return (w_e * w_r).sum() / self.heads


class PrimphormerAttention(KSVDAttention, GraphAttention):
    """Primal attention on graphs: `f(X) = F + v 1^T` with a virtual node v (Primphormer, Algorithm 1).

    F is learned and shared by all layers. The virtual node is a projection of the mean of the nodes, accumulated
    from layer to layer. Since `f(X) W = F W + v (1^T W)`, no matrix per graph is stored. Dropout acts on the
    scores.

    Args:
        rank: rows of F, the paper's s.
        projections: columns of F, the paper's N_s.
        eta: the weight of J^2 in the loss.
        sums: whether v sums the projections of the nodes without a bias and starts anew in each layer, as in
            equation C19. J then sums over the nodes of a graph, as in equation 2.5, and averages over graphs.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        dropout: Share = 0.0,
        rank: Count = 30,
        projections: Count = 30,
        eta: NonNegativeFloat = 0.1,
        sums: bool = False,
    ) -> None:
        super().__init__(width, heads, dropout, rank, eta)
        self.sums = sums
        self.virtual = nn.Linear(width, rank, bias=not sums)
        self.basis = nn.Parameter(nn.init.orthogonal_(torch.empty(rank, projections)))
        self.w_e = nn.Parameter(nn.init.orthogonal_(torch.empty(projections, heads, width // heads)))
        self.w_r = nn.Parameter(nn.init.orthogonal_(torch.empty(projections, heads, width // heads)))

    def forward(
        self, x: Tensor, graph: Graph, edges: Planes | None, memory: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return node features, and v `[graphs, rank]` as the `memory` of the next layer."""
        v = self.virtual(graph.pool(x, "sum" if self.sums else "mean"))
        v = v if memory is None or self.sums else memory + v
        phi_q, phi_k = self.features(x)
        e, r = self._scores(phi_q, self.w_e, v, graph), self._scores(phi_k, self.w_r, v, graph)
        energies = graph.pool(self.energy(e, r), "sum")
        count = graph.pool(torch.ones_like(x[..., :1]), "sum")
        divisors = torch.ones_like(count) if self.sums else count
        self.objective = energies.sum() / divisors.sum().clamp(min=1) - self.coupling(self.w_e, self.w_r)
        return self.outputs(e, r), v

    def share(self, first: nn.Module) -> None:
        """Take F from the first layer."""
        self.basis = first.basis  # type: ignore[assignment]

    def _scores(self, phi: Tensor, w: Tensor, v: Tensor, graph: Graph) -> Tensor:
        """Return `f(X) W phi`, `[..., heads, rank]`."""
        learned = torch.einsum("...hd,shd->...hs", phi, torch.einsum("sn,nhd->shd", self.basis, w))
        return learned + (phi * w.sum(0)).sum(-1, keepdim=True) * graph.broadcast(v).unsqueeze(-2)


class PrimalAttention(KSVDAttention, Attention):
    """Primal attention on sequences (Chen et al. 2023, arXiv:2305.19798).

    f(X) holds the features X' of `samples` nodes at equal steps in the order of storage, in each head its own
    channels, so that `e_i = (X'^T W_e)^T phi(q_i)`. Dropout acts on the scores.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        dropout: Share = 0.0,
        rank: Count = 30,
        samples: Count = 60,
        eta: NonNegativeFloat = 0.1,
    ) -> None:
        super().__init__(width, heads, dropout, rank, eta)
        self.w_e = nn.Parameter(nn.init.orthogonal_(torch.empty(heads, samples, rank)))
        self.w_r = nn.Parameter(nn.init.orthogonal_(torch.empty(heads, samples, rank)))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Map `x [B, N, width]` to the same shape, and keep the objective for `penalty`."""
        sampled = self._sample(x, mask).unflatten(-1, (self.heads, -1))
        phi_q, phi_k = self.features(x)
        e, r = self._scores(phi_q, self.w_e, sampled), self._scores(phi_k, self.w_r, sampled)
        energy = self.energy(e, r).masked_fill(~mask.unsqueeze(-1), 0)
        self.objective = energy.sum() / mask.sum().clamp(min=1) - self.coupling(self.w_e, self.w_r)
        return self.outputs(e, r)

    def _sample(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return nodes from first to last, `[B, samples, width]`, with repetitions if there are too few."""
        packed, _, _ = pack(x, mask)
        steps = torch.linspace(0, 1, self.w_e.shape[1], device=x.device)
        index = (steps * (mask.sum(1, keepdim=True) - 1).clamp(min=0)).round().long()
        return packed.gather(1, index.unsqueeze(-1).expand(-1, -1, x.shape[-1]))

    def _scores(self, phi: Tensor, w: Tensor, sampled: Tensor) -> Tensor:
        """Return `(X'^T W)^T phi`, `[B, N, heads, rank]`."""
        return torch.einsum("bnhd,bhds->bnhs", phi, torch.einsum("bmhd,hms->bhds", sampled, w))
