"""Graph transformers with a bias, made linear by a kernel (Wu et al. 2023, KDLGT), and their quadratic originals.

| name     | weight of node j for node i, before it is normalised over j             | time              |
|----------|-------------------------------------------------------------------------|-------------------|
| `sat`    | exp((q_i k_j + (S W_q)_i (S W_k)_j) / sqrt(d))                          | nodes^2           |
| `lsat`   | phi([q, S W_q]_i) phi([k, S W_k]_j)                                     | nodes             |
| `spdgt`  | exp(q_i k_j / sqrt(d) + b), b of the hops and edges from i to j         | nodes^2           |
| `sapdgt` | phi(q_i) phi(k_j) exp(c hops(j, a) / 2), c < 0; mean over the anchors a | nodes x anchors   |

S is a GNN on the layer's input and phi the positive random features of softmax. The paper's `sapdgt` also adds
c hops(i, a) / 2 to each row, which normalisation over j cancels. The remaining term is a factor of each key, which
multiplies phi(k_j) exactly and needs no further dimension. Only `spdgt` stores a number for every pair of nodes.
"""

import math
from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sstcast.graphs.anchors import anchor_distances, check_memory
from sstcast.graphs.graph import Graph
from sstcast.models.attention import feed_forward
from sstcast.models.base import Backbone
from sstcast.models.biased_attention import AnchorAttention, PathAttention, PathBias, StructureAwareAttention
from sstcast.models.convs import add_edges, edge_linear


class Block(nn.Module):
    """Attention and a perceptron, each with a LayerNorm before it and a residual connection."""

    def __init__(self, attention: nn.Module, width: int, dropout: float) -> None:
        super().__init__()
        self.attention = attention
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.dropout = nn.Dropout(dropout)
        self.mlp = feed_forward(width, dropout)

    def forward(self, x: Tensor, *context: Any) -> Tensor:
        """Map node features to node features of the same shape; the attention gets the `context` too."""
        x = x + self.dropout(self.attention(self.norms[0](x), *context))
        return x + self.mlp(self.norms[1](x))


class BiasedTransformer(Backbone):
    """Blocks with the given `attentions`, and a norm."""

    def __init__(self, width: int, attentions: Iterable[nn.Module], dropout: float) -> None:
        super().__init__()
        self.width = width
        self.blocks = nn.ModuleList(Block(attention, width, dropout) for attention in attentions)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        return self.attend(x, graph)

    def attend(self, x: Tensor, *context: Any) -> Tensor:
        """Map node features to node features of the same shape; every attention gets the `context`."""
        for block in self.blocks:
            x = block(x, *context)
        return self.norm(x)


class StructureAware(BiasedTransformer):
    """`lsat`, or `sat` if not `linear`.

    `hops` is the depth of the structure extractor, of the k-subtree or the k-subgraph; `features` is the number of
    random features per head.
    """

    def __init__(
        self,
        width: int = 64,
        layers: int = 3,
        heads: int = 4,
        hops: int = 2,
        linear: bool = True,
        features: int = 64,
        dropout: float = 0.0,
        edge_dim: int = 2,
        extractor: Literal["subtree", "subgraph"] = "subtree",
    ) -> None:
        sizes = (width, heads, hops, edge_dim, features if linear else 0, extractor == "subgraph")
        super().__init__(width, (StructureAwareAttention(*sizes) for _ in range(layers)), dropout)


class AnchorDistance(BiasedTransformer):
    """`sapdgt`: every node has an anchor within `radius` hops; a larger one needs fewer anchors and less time.

    With `edge_messages`, `x_i + mean_j ReLU(x_j + E e_ij)` comes before the first layer, if edges have features:
    the paper's bias does not see them. Without, as in the paper, nodes affect each other by attention alone.
    """

    def __init__(
        self,
        width: int = 64,
        layers: int = 3,
        heads: int = 4,
        radius: int = 5,
        features: int = 64,
        dropout: float = 0.0,
        edge_dim: int = 2,
        edge_messages: bool = False,
    ) -> None:
        super().__init__(width, (AnchorAttention(width, heads, features) for _ in range(layers)), dropout)
        self.radius = radius
        self.edge = edge_linear(edge_dim if edge_messages else 0, width)

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        if self.edge is not None and graph.edge_attr is not None:
            messages = add_edges(graph.source(x), self.edge, graph.edge_attr)
            x = x + graph.aggregate([m.relu() for m in messages], "mean")
        return self.attend(x, graph, anchor_distances(graph, self.radius).to(x.device))


class PathDistance(BiasedTransformer):
    """`spdgt`: Graphormer's attention, with one bias for all layers (see `PathBias`).

    With a `graph_node`, linked to all nodes, its row is the readout `token`.
    """

    def __init__(
        self,
        width: int = 64,
        layers: int = 3,
        heads: int = 4,
        max_hops: int = 30,
        dropout: float = 0.0,
        edge_dim: int = 2,
        graph_node: bool = False,
    ) -> None:
        super().__init__(width, (PathAttention(width, heads) for _ in range(layers)), dropout)
        self.heads, self.row = heads, "token" if graph_node else None
        self.bias = PathBias(heads, max_hops, edge_dim, graph_node)
        self.graph_node = nn.Parameter(0.02 * torch.randn(1, 1, width)) if graph_node else None

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        return self.encode(x, graph)[0]

    def encode(self, x: Tensor, graph: Graph) -> tuple[Tensor, Tensor | None]:
        """Return the node features, and each graph's own node if there is one."""
        y, mask = graph.dense(x)
        if self.graph_node is not None:
            y = torch.cat([self.graph_node.expand(len(y), -1, -1), y], dim=1)
            mask = F.pad(mask, (1, 0), value=True)
        scores = (len(y), self.heads, *mask.shape[1:], *mask.shape[1:])
        check_memory(f"attention with {' x '.join(map(str, scores))} scores", math.prod(scores))
        keys = mask | ~mask.any(-1, keepdim=True)  # a sample without nodes must not give NaN
        y = self.attend(y, self.bias(x, graph).masked_fill(~keys[:, None, None], -torch.inf))
        if self.graph_node is None:
            return graph.sparse(y), None
        return graph.sparse(y[:, 1:]), y[:, 0]
