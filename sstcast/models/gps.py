"""GraphGPS: message passing beside global attention in every layer (Rampasek et al. 2022, arXiv:2205.12454)."""

from typing import Any, Literal

from torch import Tensor, nn

from sstcast.errors import SSTCastError
from sstcast.graphs.graph import Graph, Planes
from sstcast.models.attention import Attention, GraphAttention, OnGraph, feed_forward
from sstcast.models.base import Backbone
from sstcast.models.convs import Conv, EdgeEncoder
from sstcast.models.layers import ATTENTIONS, CONVS, AttentionName, ConvOrNone, build_attention, build_conv
from sstcast.models.norms import NORMS, ActivationName, NormName
from sstcast.models.sizes import Count, Layers, Share, Size


class GPSLayer(nn.Module):
    """The sum of a local layer and an attention, then a feed-forward network, all with residual and norm.

    Local layer and attention read the same input. A local layer with its own residual connection gets no second
    one.
    """

    def __init__(
        self,
        width: int,
        conv: Conv | None,
        attention: GraphAttention | None,
        dropout: float,
        norm: str = "layer",
        activation: str = "relu",
    ) -> None:
        super().__init__()
        self.conv, self.attention = conv, attention
        self.conv_norm = NORMS[norm](width) if conv is not None else None
        self.attention_norm = NORMS[norm](width) if attention is not None else None
        self.feed_forward, self.norm = feed_forward(width, dropout, activation), NORMS[norm](width)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Tensor, graph: Graph, edges: Planes | None, memory: Tensor | None
    ) -> tuple[Tensor, Planes | None, Tensor | None]:
        """Return new node features, edge state and memory of the attention."""
        branches, new_edges = [], edges
        if self.conv is not None and self.conv_norm is not None:
            local, new_edges = self.conv(x, graph, edges)
            branches.append(self.conv_norm(local if self.conv.residual else x + self.dropout(local), graph.mask))
        if self.attention is not None and self.attention_norm is not None:
            attended, memory = self.attention(x, graph, edges, memory)
            branches.append(self.attention_norm(x + self.dropout(attended), graph.mask))
        y = branches[0] if len(branches) == 1 else branches[0] + branches[1]
        return self.norm(y + self.feed_forward(y), graph.mask), new_edges, memory


class GPS(Backbone):
    """Layers of message passing beside global attention. One of the two may be `none`.

    Args:
        conv: the message passing (see `sstcast.models.layers`).
        attention: the attention (see `sstcast.models.layers`).
        attention_dropout: the dropout inside the attention.
        edge_dim: edge features of the graphs, 0 for none. They are encoded to `width` channels if `conv` updates
            or the attention reads them.
        norm: the norm of the layers. `gatedgcn` and the attentions keep their own.
        conv_norm: the norm inside `gatedgcn`, `layer` or `batch`.
        activation: the activation of the feed-forward networks.
        stable_pairs: Laplacian eigenvectors in which `gatedgcn` measures distances (ESLapPE, see `GatedGCN`).

    Raises SSTCastError for options that the attention does not have, if `heads` does not divide `width`, if both
    `conv` and `attention` are `none`, or for `stable_pairs` or `conv_norm` with another `conv` than `gatedgcn`.
    """

    def __init__(
        self,
        width: Count = 64,
        layers: Layers = 4,
        conv: ConvOrNone = "gatedgcn",
        attention: AttentionName = "softmax",
        heads: Count = 4,
        dropout: Share = 0.0,
        attention_dropout: Share = 0.0,
        edge_dim: Size = 2,
        attention_options: dict[str, Any] | None = None,
        norm: NormName = "layer",
        activation: ActivationName = "relu",
        stable_pairs: Size = 0,
        conv_norm: Literal["layer", "batch"] = "layer",
    ) -> None:
        super().__init__()
        if conv == attention == "none":
            raise SSTCastError("model gps: conv and attention are both none; choose one of them")
        if stable_pairs and conv != "gatedgcn":
            raise SSTCastError(f"model gps: stable_pairs: {conv} has no gates; leave it out, or choose gatedgcn")
        if conv_norm != "layer" and conv != "gatedgcn":
            raise SSTCastError(f"model gps: conv_norm: {conv} follows norm; leave it out, or choose gatedgcn")
        self.width, self.eigenpairs = width, stable_pairs
        inner_norm = conv_norm if conv == "gatedgcn" else norm
        updates = conv != "none" and CONVS[conv].updates_edges
        reads = edge_dim > 0 and getattr(ATTENTIONS.get(attention), "reads_edges", False)
        encode = layers > 0 and (updates or reads)
        self.edge_encoder = EdgeEncoder(edge_dim, width) if encode else None
        sizes = {"width": width, "heads": heads, "dropout": attention_dropout, "edge_state": encode}

        def attend() -> GraphAttention | None:
            if attention == "none":
                return None
            module = build_attention(attention, attention_options, **sizes)
            return OnGraph(module) if isinstance(module, Attention) else module

        def convolve(last: bool) -> Conv | None:
            if conv == "none":
                return None
            edges = width if encode else edge_dim
            return build_conv(conv, width, edges, dropout=dropout, norm=inner_norm, last=last, pairs=stable_pairs)

        gps_layers = [
            GPSLayer(width, convolve(number == layers), attend(), dropout, norm, activation)
            for number in range(1, layers + 1)
        ]
        for layer in gps_layers[1:]:
            if layer.attention is not None and gps_layers[0].attention is not None:
                layer.attention.share(gps_layers[0].attention)
        self.layers = nn.ModuleList(gps_layers)

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Map `x [..., width]` to the same shape."""
        edges, memory = graph.edge_attr if self.edge_encoder is None else self.edge_encoder.planes(x, graph), None
        for layer in self.layers:
            x, edges, memory = layer(x, graph, edges, memory)
        return x
