"""Polynormer: local, then global attention, each multiplied by its input (Deng et al. 2024, arXiv:2403.01232).

Without norms and activations, and with fixed attention coefficients, a node's output is a polynomial in the input,
and every layer doubles its degree.
"""

import torch
from torch import Tensor, nn

from sstcast.graphs.graph import Graph
from sstcast.models.attention import check_heads, merge_heads, split_heads
from sstcast.models.base import Backbone
from sstcast.models.convs import GAT
from sstcast.models.kernels import kernel_attention, widen


class Mixture(nn.Module):
    """The factor beta `[width]` of lower-degree terms: a sigmoid, or a free parameter that starts at `beta`."""

    def __init__(self, width: int, beta: float | None) -> None:
        super().__init__()
        self.bounded = beta is None
        self.value = nn.Parameter(torch.full((width,), beta or 0.0))

    def forward(self) -> Tensor:
        """Return beta."""
        return self.value.sigmoid() if self.bounded else self.value


class LocalLayer(nn.Module):
    """`(1 - beta) norm(h * y) + beta y` with `h = act(H x)` and `y = act(GAT(x) + W x)` (equation 17)."""

    def __init__(
        self,
        width: int,
        heads: int,
        act: nn.Module,
        beta: float | None,
        dropout: float,
        pre_norm: bool,
        edge_dim: int,
    ) -> None:
        super().__init__()
        self.pre_norm = nn.LayerNorm(width) if pre_norm else nn.Identity()
        self.gate, self.root = nn.Linear(width, width), nn.Linear(width, width)
        self.conv = GAT(width, edge_dim, heads, bias=False)
        self.act, self.norm, self.beta = act, nn.LayerNorm(width), Mixture(width, beta)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Map node features to node features of the same shape."""
        x = self.pre_norm(x)
        y = self.conv(x, graph, graph.edge_attr)[0] + self.root(x)
        y, beta = self.dropout(self.act(y)), self.beta()
        return (1 - beta) * self.norm(self.act(self.gate(x)) * y) + beta * y


class GlobalLayer(nn.Module):
    """`norm(q (q^T v) / q (q^T 1)) * (H x + beta)` with `q = sigmoid(K x)` for queries and keys (equation 8)."""

    def __init__(self, width: int, heads: int, beta: float | None) -> None:
        super().__init__()
        self.heads = heads
        self.gate, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.norm, self.beta = nn.LayerNorm(width), Mixture(width, beta)

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Map node features to node features of the same shape."""
        key, mask = graph.dense(self.key(x))
        value, _ = graph.dense(self.value(x))
        with torch.autocast(x.device.type, enabled=False):
            q = split_heads(widen(key).sigmoid(), self.heads)
            k = q.masked_fill(~mask[:, None, :, None], 0)
            y = kernel_attention(q, k, split_heads(widen(value), self.heads))
        return self.norm(graph.sparse(merge_heads(y))) * (self.gate(x) + self.beta())


class Polynormer(Backbone):
    """Local layers, whose outputs are summed, then global layers; `relu=False` is Polynormer, else Polynormer-r.

    Local layers should be trained first: in the stage `local` the model ends after them. If `beta` is None, it is
    learned as a sigmoid; otherwise it is a free parameter that starts at this value.

    Raises SSTCastError if the heads do not share the width evenly.
    """

    stages = ("local",)

    def __init__(
        self,
        width: int = 256,
        local_layers: int = 5,
        global_layers: int = 2,
        heads: int = 8,
        relu: bool = True,
        beta: float | None = None,
        dropout: float = 0.0,
        global_dropout: float = 0.0,
        pre_norm: bool = False,
        edge_dim: int = 2,
    ) -> None:
        super().__init__()
        check_heads(width, heads)
        self.width, self.global_attention = width, True
        self.act = nn.ReLU() if relu else nn.Identity()
        self.local_layers = nn.ModuleList(
            LocalLayer(width, heads, self.act, beta, dropout, pre_norm, edge_dim) for _ in range(local_layers)
        )
        self.norm = nn.LayerNorm(width)
        self.global_layers = nn.ModuleList(GlobalLayer(width, heads, beta) for _ in range(global_layers))
        self.out = nn.Linear(width, width)  # shared by all global layers
        self.dropout, self.global_dropout = nn.Dropout(dropout), nn.Dropout(global_dropout)

    def enter(self, stage: str | None) -> None:
        """End after the local layers in the stage `local`."""
        self.global_attention = stage != "local"

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        x = self.dropout(x)
        total = torch.zeros_like(x)
        for layer in self.local_layers:
            x = layer(x, graph)
            total = total + x
        if not self.global_attention:
            return total
        x = self.norm(total)
        for layer in self.global_layers:
            x = self.global_dropout(self.act(self.out(layer(x, graph))))
        return x
