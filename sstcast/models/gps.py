"""GraphGPS: message passing beside global attention in every layer (Rampasek et al. 2022, arXiv:2205.12454)."""

from typing import Any

from torch import Tensor, nn

from sstcast.graphs.graph import Graph, Planes
from sstcast.models.attention import Attention, GraphAttention, OnGraph, feed_forward
from sstcast.models.base import Backbone
from sstcast.models.convs import Conv
from sstcast.models.gatedgcn import EdgeEncoder
from sstcast.models.layers import ATTENTIONS, CONVS, AttentionName, ConvName, build_attention, build_conv


class GPSLayer(nn.Module):
    """Local layer and attention read the same input; each gets residual, dropout and norm; then they are added.

    A feed-forward network with its own residual and norm follows. A local layer that has its own residual gets no
    second one here.
    """

    def __init__(self, width: int, conv: Conv, attention: GraphAttention | None, dropout: float) -> None:
        super().__init__()
        self.conv, self.attention = conv, attention
        self.conv_norm = nn.LayerNorm(width)
        self.attention_norm = nn.LayerNorm(width) if attention is not None else None
        self.feed_forward, self.norm = feed_forward(width, dropout), nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Tensor, graph: Graph, edges: Planes | None, memory: Tensor | None
    ) -> tuple[Tensor, Planes | None, Tensor | None]:
        """Return new node features, edge state and memory of the attention."""
        local, new_edges = self.conv(x, graph, edges)
        y = self.conv_norm(local if self.conv.residual else x + self.dropout(local))
        if self.attention is not None and self.attention_norm is not None:
            attended, memory = self.attention(x, graph, edges, memory)
            y = y + self.attention_norm(x + self.dropout(attended))
        return self.norm(y + self.feed_forward(y)), new_edges, memory


class GPS(Backbone):
    """`layers` of `conv` beside `attention` (see `sstcast.models.layers`), or without attention if it is `none`.

    `attention_options` are further arguments of the attention's class, such as `features` of `performer`. Edge
    features, `edge_dim` of them, are encoded to the nodes' width if the local layer updates them or the attention
    reads them.

    Raises SSTCastError for options that the attention does not have, or if `heads` does not divide the width.
    """

    def __init__(
        self,
        width: int = 64,
        layers: int = 4,
        conv: ConvName = "gatedgcn",
        attention: AttentionName = "softmax",
        heads: int = 4,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        edge_dim: int = 2,
        attention_options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.width = width
        reads = edge_dim > 0 and getattr(ATTENTIONS.get(attention), "reads_edges", False)
        encode = CONVS[conv].updates_edges or reads
        self.edge_encoder = EdgeEncoder(edge_dim, width) if encode else None
        sizes = {"width": width, "heads": heads, "dropout": attention_dropout, "edge_state": encode}

        def attend() -> GraphAttention | None:
            if attention == "none":
                return None
            built = build_attention(attention, attention_options, **sizes)
            return OnGraph(built) if isinstance(built, Attention) else built

        built = [
            GPSLayer(
                width,
                build_conv(conv, width, width if encode else edge_dim, dropout, last=number == layers),
                attend(),
                dropout,
            )
            for number in range(1, layers + 1)
        ]
        for layer in built[1:]:
            if layer.attention is not None and built[0].attention is not None:
                layer.attention.share(built[0].attention)
        self.layers = nn.ModuleList(built)

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        edges, memory = graph.edge_attr if self.edge_encoder is None else self.edge_encoder.planes(x, graph), None
        for layer in self.layers:
            x, edges, memory = layer(x, graph, edges, memory)
        return x
