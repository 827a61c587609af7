"""Polynormer: local, then global attention, each multiplied by its input (Deng et al. 2024, arXiv:2403.01232).

Without norms and activations and with fixed attention weights, the output is a polynomial in the input, and every
layer doubles its degree. Layers are called as `layer(x, graph, position)`. `position`, a number for each node or
None, multiplies the parameter of beta (equation 19).
"""

from typing import Literal

import torch
from pydantic import NonNegativeFloat
from torch import Tensor, nn

from sstcast.errors import SSTCastError
from sstcast.graphs.graph import Graph
from sstcast.models.attention import check_heads, kernel_attention, merge_heads, split_heads
from sstcast.models.base import Backbone
from sstcast.models.convs import GAT, GCN
from sstcast.models.norms import widen
from sstcast.models.sizes import Count, Layers, Share, Size

GateName = Literal["activation", "sigmoid"]
LocalName = Literal["gat", "gcn"]


class Polynormer(Backbone):
    """Polynormer, or Polynormer-r if `relu` is true.

    Args:
        local_layers: layers with local attention.
        global_layers: layers with global attention. Without any, the result is the sum of the local layers.
        relu: whether the activations are ReLU, not the identity.
        beta: the first value of the free parameter beta. If None, beta is the sigmoid of a parameter.
        dropout: the share of activations set to 0 in training, in and before local layers.
        global_dropout: the same after global layers.
        pre_norm: whether local layers begin with a norm.
        form: `local-to-global` sums the outputs of all local layers and passes the sum to the global layers. Its
            stage `local` trains the local layers first. `local-and-global` has both attentions in each of its
            `local_layers` (appendix G). `base` has only layers of equation 4, whose weights depend on the
            numbering of nodes.
        eigenvector: whether this is Polynormer-v2 (equation 19), where beta's parameter is multiplied by the first
            non-trivial eigenvector of the Laplacian, whose sign is arbitrary.
        nodes: the number of nodes in each graph, for `base`.
        gate: the function applied to H x in local layers: `sigmoid`, or `activation`, which is ReLU, or the
            identity if `relu` is false, as in the released code.
        conv: the message passing of `local-to-global`: `gat`, or `gcn` as on the paper's two largest graphs
            (appendix H.2).
        separate_queries: whether global layers have weights for queries beside those for keys (equation 6). The
            released code shares them. `local-and-global` always has them.

    Raises SSTCastError if `heads` does not divide `width`, if `base` lacks `nodes`, or for `gcn` in another form
    than `local-to-global`.
    """

    def __init__(
        self,
        width: Count = 256,
        local_layers: Layers = 5,
        global_layers: Layers = 2,
        heads: Count = 8,
        relu: bool = True,
        beta: NonNegativeFloat | None = None,
        dropout: Share = 0.0,
        global_dropout: Share = 0.0,
        pre_norm: bool = False,
        edge_dim: Size = 2,
        form: Literal["local-to-global", "local-and-global", "base"] = "local-to-global",
        eigenvector: bool = False,
        nodes: int | None = None,
        gate: GateName = "activation",
        conv: LocalName = "gat",
        separate_queries: bool = False,
    ) -> None:
        super().__init__()
        check_heads(width, heads)
        if conv != "gat" and form != "local-to-global":
            raise SSTCastError(f"model.conv: {form} has no {conv}; leave it out, or choose form=local-to-global")
        self.width, self.form, self.eigenpairs = width, form, int(eigenvector)
        self.global_attention = two_parts = form == "local-to-global"
        self.stages = ("local",) if two_parts else ()
        self.act = nn.ReLU() if relu else nn.Identity()

        def local() -> nn.Module:
            if form == "base":
                if nodes is None:
                    raise SSTCastError("model.form: base has a weight for each pair of nodes; give model.nodes")
                return BaseLayer(width, nodes)
            mixture = Mixture(width, beta, local_layers)
            if form == "local-and-global":
                return ParallelLayer(width, heads, mixture, edge_dim)
            return LocalLayer(width, heads, self.act, mixture, dropout, pre_norm, edge_dim, gate, conv)

        self.local_layers = nn.ModuleList(local() for _ in range(local_layers))
        count = global_layers if two_parts else 0
        self.norm = nn.LayerNorm(width) if count else None
        self.global_layers = nn.ModuleList(
            GlobalLayer(width, heads, Mixture(width, beta, count), separate_queries) for _ in range(count)
        )
        self.out = nn.Linear(width, width) if count else None  # shared by all global layers
        self.dropout, self.global_dropout = nn.Dropout(dropout), nn.Dropout(global_dropout)

    def enter(self, stage: str | None) -> None:
        """End after the local layers if the stage is `local`."""
        self.global_attention = stage != "local"

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Map `x [..., width]` to the same shape."""
        position = graph.laplacian(1)[0].to(x) if self.eigenpairs else None
        x = self.dropout(x)
        total = torch.zeros_like(x)
        for layer in self.local_layers:
            x = layer(x, graph, position)
            if self.form == "local-and-global":
                x = self.dropout(self.act(x))
            total = total + x
        if self.form != "local-to-global":
            return x
        if self.norm is None or self.out is None or not self.global_attention:
            return total
        x = self.norm(total)
        for layer in self.global_layers:
            x = self.global_dropout(self.act(self.out(layer(x, graph, position))))
        return x


class Mixture(nn.Module):
    """The factor beta of lower-degree terms: a sigmoid, or a free parameter that starts at `beta`.

    As in the released code, the argument of the sigmoid starts as a row of a Glorot matrix `[layers, width]`.
    """

    def __init__(self, width: int, beta: float | None, layers: int) -> None:
        super().__init__()
        self.bounded = beta is None
        start = torch.full((width,), beta or 0.0)
        self.value = nn.Parameter(start + (2 / (layers + width)) ** 0.5 * torch.randn(width) * self.bounded)

    def forward(self, position: Tensor | None) -> Tensor:
        """Return beta: `[width]`, or with a `position`, a value for each node, `[..., width]`."""
        value = self.value if position is None else self.value * position
        return value.sigmoid() if self.bounded else value


class LocalLayer(nn.Module):
    """`(1 - beta) norm(h * y) + beta y` with `h = gate(H x)` and `y = act(GAT(x) + W x)` (equation 17).

    `gcn` replaces GAT by GCN. Equation 7 is `h * y + beta y` without `W`, biases and activation.
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
        conv: LocalName = "gat",
    ) -> None:
        super().__init__()
        self.pre_norm = nn.LayerNorm(width) if pre_norm else nn.Identity()
        self.gate, self.root = nn.Linear(width, width), nn.Linear(width, width)
        self.conv = GAT(width, edge_dim, heads, bias=False) if conv == "gat" else GCN(width)
        self.act, self.norm, self.beta = act, nn.LayerNorm(width), mixture
        self.gate_act = nn.Sigmoid() if gate == "sigmoid" else act
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, graph: Graph, position: Tensor | None) -> Tensor:
        """Map `x [..., width]` to the same shape. `position`, a number for each node or None, goes to the
        mixture.
        """
        x = self.pre_norm(x)
        y = self.conv(x, graph, graph.edge_attr)[0] + self.root(x)
        y, beta = self.dropout(self.act(y)), self.beta(position)
        return (1 - beta) * self.norm(self.gate_act(self.gate(x)) * y) + beta * y


class GlobalLayer(nn.Module):
    """`norm(q (k^T v) / q (k^T 1)) * (H x + beta)` with `q = k = sigmoid(K x)` (equation 8).

    With `separate_queries`, `q = sigmoid(Q x)`.
    """

    def __init__(self, width: int, heads: int, mixture: Mixture, separate_queries: bool = False) -> None:
        super().__init__()
        self.heads = heads
        self.gate, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.norm, self.beta = nn.LayerNorm(width), mixture
        self.query = nn.Linear(width, width) if separate_queries else None

    def forward(self, x: Tensor, graph: Graph, position: Tensor | None) -> Tensor:
        """Map `x [..., width]` to the same shape. `position`, a number for each node or None, goes to the
        mixture.
        """
        key = self.key(x)
        query = key if self.query is None else self.query(x)
        y = global_attention(query, key, self.value(x), graph, self.heads)
        return self.norm(y) * (self.gate(x) + self.beta(position))


class ParallelLayer(nn.Module):
    """`norm(A v + q (k^T v) / q (k^T 1)) * (H x + beta)` with A from GAT and sigmoids q, k (equation 15)."""

    def __init__(self, width: int, heads: int, mixture: Mixture, edge_dim: int) -> None:
        super().__init__()
        self.heads = heads
        self.conv = GAT(width, edge_dim, heads, bias=False)
        self.gate, self.query, self.key = (nn.Linear(width, width) for _ in range(3))
        self.norm, self.beta = nn.LayerNorm(width), mixture

    def forward(self, x: Tensor, graph: Graph, position: Tensor | None) -> Tensor:
        """Map `x [..., width]` to the same shape. `position`, a number for each node or None, goes to the
        mixture.
        """
        y = global_attention(self.query(x), self.key(x), self.conv.linear(x), graph, self.heads)
        y = y + self.conv(x, graph, graph.edge_attr)[0]
        return self.norm(y) * (self.gate(x) + self.beta(position))


class BaseLayer(nn.Module):
    """`(W X) * (X + B)` with a weight W for each pair of nodes and a shift B for each node (equation 4)."""

    def __init__(self, width: int, nodes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(nodes, nodes)))
        self.shift = nn.Parameter(torch.ones(nodes, width))

    def forward(self, x: Tensor, graph: Graph, position: None) -> Tensor:
        """Return new node features. Raises SSTCastError if a graph has another number of nodes."""
        y, _ = graph.dense(x)
        if y.shape[1] != len(self.weight):
            raise SSTCastError(f"model.nodes: {len(self.weight)}, but a graph has {y.shape[1]}; give this number")
        return graph.sparse(self.weight @ y * (y + self.shift))


def global_attention(query: Tensor, key: Tensor, value: Tensor, graph: Graph, heads: int) -> Tensor:
    """Return `q (k^T v) / q (k^T 1)` with `q` and `k` the sigmoids of `query` and `key` (equation 6)."""
    (query, mask), (key, _), (value, _) = graph.dense(query), graph.dense(key), graph.dense(value)
    with torch.autocast(query.device.type, enabled=False):
        q, k = (split_heads(widen(part).sigmoid(), heads) for part in (query, key))
        k = k.masked_fill(~mask[:, None, :, None], 0)
        y = kernel_attention(q, k, split_heads(widen(value), heads))
    return graph.sparse(merge_heads(y))
