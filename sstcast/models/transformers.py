"""Transformers over nodes (`linear-transformer`), and over nodes and edges (`tokengt`)."""

from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch._compile import _disable_dynamo  # torch.compiler.disable takes a second to import
from torch.nn import functional as F

from sstcast.graphs.graph import Graph
from sstcast.graphs.positions import node_identifiers
from sstcast.models.attention import feed_forward
from sstcast.models.base import Backbone
from sstcast.models.layers import NodeAttentionName, build_attention
from sstcast.models.sizes import Count, Layers, Share, Size
from sstcast.models.sparse_attention import rank


class EncoderLayer(nn.Module):
    """Attention and a feed-forward network, each after a norm and with a residual connection.

    The network has `hidden` units, by default twice the width.
    """

    def __init__(self, width: int, attention: nn.Module, dropout: float, hidden: int | None = None) -> None:
        super().__init__()
        self.attention, self.attention_norm = attention, nn.LayerNorm(width)
        self.feed_forward, self.feed_forward_norm = (
            feed_forward(width, dropout, hidden=hidden),
            nn.LayerNorm(width),
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, *context: Any) -> Tensor:
        """Map `x [..., width]` to the same shape. The attention also gets the `context`, such as a mask."""
        x = x + self.dropout(self.attention(self.attention_norm(x), *context))
        return x + self.feed_forward(self.feed_forward_norm(x))


class Transformer(Backbone):
    """Encoder layers with the given `attentions`, and a final norm."""

    def __init__(self, width: int, attentions: Iterable[nn.Module], dropout: float) -> None:
        super().__init__()
        self.width = width
        self.layers = nn.ModuleList(EncoderLayer(width, attention, dropout) for attention in attentions)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Map `x [..., width]` to the same shape."""
        return self.attend(x, graph)

    def attend(self, x: Tensor, *context: Any) -> Tensor:
        """Map `x [..., width]` to the same shape. Every attention also gets the `context`."""
        for layer in self.layers:
            x = layer(x, *context)
        return self.norm(x)


class LinearTransformer(Transformer):
    """A Transformer with linear (Katharopoulos et al. 2020, arXiv:2006.16236) or another attention to nodes.

    It does not read the edges, so nodes know their positions only from positional encodings in `x`.

    Args:
        attention: any attention that reads only nodes (see `sstcast.models.layers`).

    Raises SSTCastError for options that the attention does not have, or if `heads` does not divide `width`.
    """

    def __init__(
        self,
        width: Count = 256,
        layers: Layers = 2,
        heads: Count = 4,
        attention: NodeAttentionName = "linear",
        dropout: Share = 0.0,
        attention_options: dict[str, Any] | None = None,
    ) -> None:
        sizes = {"width": width, "heads": heads, "dropout": dropout}
        attentions = (build_attention(attention, attention_options, **sizes) for _ in range(layers))
        super().__init__(width, attentions, dropout)

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Map `x [..., width]` to the same shape."""
        return graph.sparse(self.attend(*graph.dense(x)))


class TokenGT(Backbone):
    """A Transformer over tokens of the graph, its nodes and its edges (Kim et al. 2022, arXiv:2207.02505).

    With the node identifiers P, the token of a node is `x_v + W (P_v, P_v) + type`, and the token of an edge from
    u to v is `E e_uv + W (P_u, P_v) + type`. Their products show which edge is incident to which node, and at
    which end. The paper uses 12 layers of width 768 with 32 heads of softmax. Here `linear` attention is the
    default, because a grid has 9 tokens per node.

    Args:
        layers: the number of encoder layers, with the norm before attention and feed-forward network.
        attention: any attention that reads only nodes (see `sstcast.models.layers`).
        identifiers: `laplacian`, the eigenvectors of the smallest eigenvalues, of which training flips the signs
            at random, separately for each graph. `orf`, rows of a random orthogonal matrix, cut and rescaled to
            length 1, which training draws anew for each graph and pass, and evaluation from `seed`. `none`,
            neither node nor type identifiers, as the `Transformer` in the paper's Table 2.
        identifier_size: numbers in an identifier. `orf` identifiers of a graph with no more nodes are orthonormal.
        seed: of the `orf` identifiers in evaluation.
        feed_forward_width: hidden units of the feed-forward networks, by default `2 * width`.

    Raises SSTCastError for options that the attention does not have, or if `heads` does not divide `width`.
    """

    readout = "token"

    def __init__(
        self,
        width: Count = 64,
        layers: Layers = 3,
        heads: Count = 4,
        attention: NodeAttentionName = "linear",
        identifiers: Literal["laplacian", "orf", "none"] = "laplacian",
        identifier_size: Count = 16,
        dropout: Share = 0.0,
        edge_dim: Size = 2,
        seed: int = 0,
        attention_options: dict[str, Any] | None = None,
        feed_forward_width: Count | None = None,
    ) -> None:
        super().__init__()
        self.eigenpairs = identifier_size - 1 if identifiers == "laplacian" else 0
        self.width, self.identifiers, self.seed = width, identifiers, seed
        self.size = 0 if identifiers == "none" else identifier_size
        self.node_identifiers = nn.Linear(2 * self.size, width, bias=False) if self.size else None
        self.type_identifiers = nn.Parameter(0.02 * torch.randn(2, width)) if self.size else None
        self.graph_token = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.edge_encoder = nn.Linear(edge_dim, width, bias=False) if edge_dim else None
        sizes = {"width": width, "heads": heads, "dropout": dropout}
        self.layers = nn.ModuleList(
            EncoderLayer(
                width, build_attention(attention, attention_options, **sizes), dropout, feed_forward_width
            )
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Map `x [..., width]` to the same shape."""
        return self.encode(x, graph)[0]

    def encode(self, x: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
        """Return the final tokens of the nodes, shaped like `x`, and of the graphs, `[graphs, width]`."""
        tokens, mask = self.embed(x, graph, self.draw_identifiers(x, graph))
        for layer in self.layers:
            tokens = layer(tokens, mask)
        tokens = self.norm(tokens)
        nodes = graph.dense(x[..., :1])[1].shape[1]
        return graph.sparse(tokens[:, 1 : 1 + nodes]), tokens[:, 0]

    def embed(self, x: Tensor, graph: Graph, p: Tensor) -> tuple[Tensor, Tensor]:
        """Return the initial tokens of graph, nodes and edges, in this order, and the mask of real ones.

        Tokens are `[graphs, 1 + nodes + edges, width]`. `p` holds the node identifiers, shaped like `x`.
        """
        nodes, node_mask = graph.dense(self._identify(x, p, p, 0))
        ends = graph.dense_edges(p)
        edges = x.new_zeros(self.width)
        if self.edge_encoder is not None and ends.attr is not None:
            edges = self.edge_encoder(ends.attr)
        edges = self._identify(edges, ends.source, ends.target, 1).expand(*ends.mask.shape, -1)
        tokens = torch.cat([self.graph_token.expand(len(nodes), -1, -1), nodes, edges], dim=1)
        return tokens, torch.cat([node_mask.new_ones(len(nodes), 1), node_mask, ends.mask], dim=1)

    def _identify(self, x: Tensor, first: Tensor, second: Tensor, kind: int) -> Tensor:
        if self.node_identifiers is None or self.type_identifiers is None:
            return x
        return x + self.node_identifiers(torch.cat([first, second], dim=-1)) + self.type_identifiers[kind]

    def draw_identifiers(self, x: Tensor, graph: Graph) -> Tensor:
        """Return the node identifiers P, shaped like `x`, with `identifier_size` channels (0 for `none`)."""
        if self.identifiers == "none":
            return x[..., :0]
        if self.identifiers == "orf":
            return orthogonal_identifiers(x, graph, self.size, None if self.training else self.seed)
        p = laplacian_identifiers(x, graph, self.size)
        if self.training:
            graphs = len(graph.pool(x[..., :1]))
            p = p * graph.broadcast(torch.randint(0, 2, (graphs, self.size), device=x.device) * 2 - 1)
        return p


@_disable_dynamo
def orthogonal_identifiers(x: Tensor, graph: Graph, size: int, seed: int | None) -> Tensor:
    """Return orthogonal random features, shaped like `x`. Land gets 0 and does not affect the draw."""
    _, mask = graph.dense(x[..., :1])
    packed = mask.sort(dim=1, descending=True).values
    rows = node_identifiers(packed, size, seed).gather(1, rank(mask).unsqueeze(-1).expand(-1, -1, size))
    return graph.sparse(rows.masked_fill(~mask.unsqueeze(-1), 0)).to(x)


def laplacian_identifiers(x: Tensor, graph: Graph, size: int) -> Tensor:
    """Return the first `size` eigenvectors, the trivial ones first, shaped like `x`.

    Each connected component has a trivial eigenvector, the square root of the degree inside, where a node without
    edges has degree 1, and 0 outside. All have a mean square of 1 over the graph and are orthogonal, so that
    P P^T = n I for a graph of n <= `size` nodes. With length 1, as in the paper, they would be negligible beside
    `x` in graphs of hundreds of nodes. On a grid, the graph is the whole grid with its land, so neither holds over
    the ocean alone.
    """
    degree = graph.laplacian_degree.clamp(min=1).unsqueeze(-1).to(x)
    others = graph.laplacian(size - 1)[0].expand(*x.shape[:-1], -1).to(x)
    if graph.components is None:
        root = (degree / degree.mean(1, keepdim=True)).sqrt()
        return torch.cat([root.expand(*x.shape[:-1], -1), others], dim=-1)
    columns, component = torch.arange(size, device=x.device), graph.components.unsqueeze(1)
    inside = (component == columns).to(x)  # [nodes, size]
    nodes = graph.broadcast(graph.pool(inside, "sum"))
    stretch = (nodes.sum(1) / (nodes * inside).sum(1).clamp(min=1)).sqrt()  # from the component to the graph
    count = graph.broadcast(graph.pool(component.to(x) + 1, "max")).long()  # of components
    stretched = F.pad(others * stretch.unsqueeze(1), (0, 1))  # which has a column even if `size` is 1
    shifted = stretched.gather(1, (columns - count).clamp(min=0))
    return torch.where(columns < count, _unit(degree * inside, graph), shifted)


def _unit(squares: Tensor, graph: Graph) -> Tensor:
    """Return the square roots, with a mean square of 1 over each graph, or 0 where all are 0."""
    mean = graph.broadcast(graph.pool(squares))
    return (squares / mean.masked_fill(mean == 0, 1)).sqrt()
