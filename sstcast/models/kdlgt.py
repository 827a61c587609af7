"""Graph transformers with a bias, made linear by a kernel (Wu et al. 2023, KDLGT), and their quadratic originals.

| name     | weight of node j for node i, before it is normalised over j             | time              |
|----------|-------------------------------------------------------------------------|-------------------|
| `sat`    | exp((q_i k_j + (S W_q)_i (S W_k)_j) / sqrt(d))                          | nodes^2           |
| `lsat`   | phi([q, S W_q]_i) phi([k, S W_k]_j)                                     | nodes             |
| `spdgt`  | exp(q_i k_j / sqrt(d) + b), b a table over the hops from i to j         | nodes^2           |
| `sapdgt` | phi(q_i) phi(k_j) exp(c hops(j, a) / 2), c < 0; mean over the anchors a | nodes x anchors   |

S is a GNN on the layer's input and phi the positive random features of softmax. The paper's `sapdgt` also adds
c hops(i, a) / 2 to each row, which normalisation over j cancels. The remaining term is a factor of each key, which
multiplies phi(k_j) exactly and needs no further dimension. Only `spdgt` stores a number for every pair of nodes.
"""

from collections.abc import Iterable

from torch import Tensor, nn

from sstcast.graphs.anchors import anchor_distances, path_distances
from sstcast.graphs.graph import Graph
from sstcast.models.attention import feed_forward
from sstcast.models.base import Backbone
from sstcast.models.biased_attention import AnchorAttention, PathAttention, StructureAwareAttention


class Block(nn.Module):
    """Attention and a perceptron, each with a LayerNorm before it and a residual connection."""

    def __init__(self, attention: nn.Module, width: int, dropout: float) -> None:
        super().__init__()
        self.attention = attention
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.dropout = nn.Dropout(dropout)
        self.mlp = feed_forward(width, dropout)

    def forward(self, x: Tensor, graph: Graph, hops: Tensor | None) -> Tensor:
        """Map node features to node features of the same shape."""
        x = x + self.dropout(self.attention(self.norms[0](x), graph, hops))
        return x + self.mlp(self.norms[1](x))


class BiasedTransformer(Backbone):
    """Blocks with the given `attentions`, all of which get the graph's `distances`."""

    def __init__(self, width: int, attentions: Iterable[nn.Module], dropout: float) -> None:
        super().__init__()
        self.width = width
        self.blocks = nn.ModuleList(Block(attention, width, dropout) for attention in attentions)
        self.norm = nn.LayerNorm(width)

    def distances(self, graph: Graph) -> Tensor | None:
        """Return the hop distances that the attention needs."""
        return None

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        if not x.numel():
            return self.norm(x)  # distances need at least one node
        hops = self.distances(graph)
        hops = None if hops is None else hops.to(x.device)
        for block in self.blocks:
            x = block(x, graph, hops)
        return self.norm(x)


class StructureAware(BiasedTransformer):
    """`lsat`, or `sat` if not `linear`.

    `hops` is the depth of the structure extractor, `features` the number of random features per head.
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
    ) -> None:
        count = features if linear else 0
        super().__init__(
            width, (StructureAwareAttention(width, heads, hops, edge_dim, count) for _ in range(layers)), dropout
        )


class AnchorDistance(BiasedTransformer):
    """`sapdgt`: every node has an anchor within `radius` hops; a larger one needs fewer anchors and less time."""

    def __init__(
        self,
        width: int = 64,
        layers: int = 3,
        heads: int = 4,
        radius: int = 5,
        features: int = 64,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(width, (AnchorAttention(width, heads, features) for _ in range(layers)), dropout)
        self.radius = radius

    def distances(self, graph: Graph) -> Tensor:
        """Return the hops to the anchors."""
        return anchor_distances(graph, self.radius)


class PathDistance(BiasedTransformer):
    """`spdgt`: all distances beyond `max_hops` share one bias."""

    def __init__(
        self, width: int = 64, layers: int = 3, heads: int = 4, max_hops: int = 30, dropout: float = 0.0
    ) -> None:
        super().__init__(width, (PathAttention(width, heads, max_hops) for _ in range(layers)), dropout)

    def distances(self, graph: Graph) -> Tensor:
        """Return the hops between all nodes."""
        return path_distances(graph)
