"""The layers of Polynormer (Deng et al. 2024, arXiv:2403.01232): `forward(x, graph, place)`.

`place` is a number for each node that beta is multiplied by, or None. All layers map node features to node
features of the same shape.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from sstcast.errors import SSTCastError
from sstcast.graphs.graph import Graph
from sstcast.models.attention import merge_heads, split_heads
from sstcast.models.convs import GAT
from sstcast.models.kernels import kernel_attention, widen

GateName = Literal["activation", "sigmoid"]


class Mixture(nn.Module):
    """The factor beta of lower-degree terms: a sigmoid, or a free parameter that starts at `beta`.

    The sigmoid's argument starts as a row of a Glorot matrix `[layers, width]`, as released. It is multiplied by
    `place`, one number for each node, if there is one (equation 19).
    """

    def __init__(self, width: int, beta: float | None, layers: int) -> None:
        super().__init__()
        self.bounded = beta is None
        start = torch.full((width,), beta or 0.0)
        self.value = nn.Parameter(start + (2 / (layers + width)) ** 0.5 * torch.randn(width) * self.bounded)

    def forward(self, place: Tensor | None) -> Tensor:
        """Return beta, `[width]`, or for each node if there is a `place`, in the form of node features."""
        value = self.value if place is None else self.value * place
        return value.sigmoid() if self.bounded else value


class LocalLayer(nn.Module):
    """`(1 - beta) norm(h * y) + beta y` with `h = gate(H x)` and `y = act(GAT(x) + W x)` (equation 17).

    Equation 7 is `h * y + beta y` without `W`, biases and activation.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        act: nn.Module,
        mixture: Mixture,
        dropout: float,
        pre_norm: bool,
        edge_dim: int,
        gate: GateName = "activation",
    ) -> None:
        super().__init__()
        self.pre_norm = nn.LayerNorm(width) if pre_norm else nn.Identity()
        self.gate, self.root = nn.Linear(width, width), nn.Linear(width, width)
        self.conv = glorot_gat(width, edge_dim, heads)
        self.act, self.norm, self.beta = act, nn.LayerNorm(width), mixture
        self.gate_act = nn.Sigmoid() if gate == "sigmoid" else act
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, graph: Graph, place: Tensor | None) -> Tensor:
        x = self.pre_norm(x)
        y = self.conv(x, graph, graph.edge_attr)[0] + self.root(x)
        y, beta = self.dropout(self.act(y)), self.beta(place)
        return (1 - beta) * self.norm(self.gate_act(self.gate(x)) * y) + beta * y


class GlobalLayer(nn.Module):
    """`norm(q (k^T v) / q (k^T 1)) * (H x + beta)` with `q = k = sigmoid(K x)` (equation 8)."""

    def __init__(self, width: int, heads: int, mixture: Mixture) -> None:
        super().__init__()
        self.heads = heads
        self.gate, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.norm, self.beta = nn.LayerNorm(width), mixture

    def forward(self, x: Tensor, graph: Graph, place: Tensor | None) -> Tensor:
        key = self.key(x)
        y = global_attention(key, key, self.value(x), graph, self.heads)
        return self.norm(y) * (self.gate(x) + self.beta(place))

    def weights(self, x: Tensor, graph: Graph) -> Tensor:
        """Return the attention's weight of each node for each, `[graphs, heads, N, N]`."""
        key, mask = graph.dense(self.key(x))
        q = split_heads(key.sigmoid(), self.heads)
        scores = q @ q.transpose(-1, -2) * mask[:, None, None]
        return scores / scores.sum(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).tiny)


class ParallelLayer(nn.Module):
    """`norm(A v + q (k^T v) / q (k^T 1)) * (H x + beta)`, A as in GAT, `q` and `k` sigmoids (equation 15)."""

    def __init__(self, width: int, heads: int, mixture: Mixture, edge_dim: int) -> None:
        super().__init__()
        self.heads = heads
        self.conv = glorot_gat(width, edge_dim, heads)
        self.gate, self.query, self.key = (nn.Linear(width, width) for _ in range(3))
        self.norm, self.beta = nn.LayerNorm(width), mixture

    def forward(self, x: Tensor, graph: Graph, place: Tensor | None) -> Tensor:
        y = global_attention(self.query(x), self.key(x), self.conv.linear(x), graph, self.heads)
        y = y + self.conv(x, graph, graph.edge_attr)[0]
        return self.norm(y) * (self.gate(x) + self.beta(place))


class BaseLayer(nn.Module):
    """`(W X) * (X + B)` with a weight for each pair of nodes and a shift for each node (equation 4)."""

    def __init__(self, width: int, nodes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(nodes, nodes)))
        self.shift = nn.Parameter(torch.ones(nodes, width))

    def forward(self, x: Tensor, graph: Graph, place: None) -> Tensor:
        """Raise SSTCastError if a graph has another number of nodes."""
        y, _ = graph.dense(x)
        if y.shape[1] != len(self.weight):
            raise SSTCastError(f"model.nodes: {len(self.weight)}, but a graph has {y.shape[1]}; give that number")
        return graph.sparse(self.weight @ y * (y + self.shift))


def glorot_gat(width: int, edge_dim: int, heads: int) -> GAT:
    """Return GAT without a bias, its weights drawn as PyG draws them."""
    conv = GAT(width, edge_dim, heads, bias=False)
    nn.init.xavier_uniform_(conv.linear.weight)
    return conv


def global_attention(query: Tensor, key: Tensor, value: Tensor, graph: Graph, heads: int) -> Tensor:
    """Return `q (k^T v) / q (k^T 1)` with `q` and `k` the sigmoids of `query` and `key` (equation 6)."""
    (query, mask), (key, _), (value, _) = graph.dense(query), graph.dense(key), graph.dense(value)
    with torch.autocast(query.device.type, enabled=False):
        q, k = (split_heads(widen(part).sigmoid(), heads) for part in (query, key))
        k = k.masked_fill(~mask[:, None, :, None], 0)
        y = kernel_attention(q, k, split_heads(widen(value), heads))
    return graph.sparse(merge_heads(y))
