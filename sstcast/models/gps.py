"""GraphGPS: message passing beside global attention in every layer (Rampasek et al. 2022, arXiv:2205.12454)."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from sstcast.graphs.graph import Graph, Planes
from sstcast.models.attention import (
    DeepSets,
    LinearAttention,
    PerformerAttention,
    SoftmaxAttention,
    build_attention,
    feed_forward,
)
from sstcast.models.base import Backbone
from sstcast.models.bigbird import BigBirdAttention
from sstcast.models.convs import build_conv
from sstcast.models.exphormer import ExphormerAttention
from sstcast.models.primphormer import KSVDAttention, PrimalAttention, PrimphormerAttention

ON_DENSE: dict[str, type[nn.Module]] = {
    "softmax": SoftmaxAttention,
    "performer": PerformerAttention,
    "linear": LinearAttention,
    "deepsets": DeepSets,
    "bigbird": BigBirdAttention,
    "primal": PrimalAttention,
}
ON_GRAPH: dict[str, type[nn.Module]] = {"exphormer": ExphormerAttention, "primphormer": PrimphormerAttention}


class OnDense(nn.Module):
    """Attention on padded nodes, called as those that see the graph and remember from layer to layer."""

    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.attention = attention

    def forward(
        self, x: Tensor, graph: Graph, edges: Planes | None, memory: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return node features and `memory` as it was."""
        return graph.sparse(self.attention(*graph.dense(x))), memory


class GPSLayer(nn.Module):
    """Local layer and attention read the same input; each gets residual, dropout and norm; their sum goes on.

    A feed-forward follows with residual and norm of its own. A local layer with a residual of its own gets none
    here.
    """

    def __init__(self, width: int, conv: nn.Module, attention: nn.Module | None, dropout: float) -> None:
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
    """`layers` of `conv` (see `sstcast.models.convs`) beside `attention` (see `sstcast.models.attention`).

    `attention_options` are further arguments of the attention's class, such as `features` of `performer`. Edges
    of `edge_dim` features are encoded to the nodes' width where the edge state has readers: `gatedgcn`, which
    updates it, and `exphormer`. `primal` and `primphormer` bring their KSVD objective as the auxiliary loss.

    Raises SSTCastError for options that the attention does not have and heads that do not divide the width.
    """

    def __init__(
        self,
        width: int = 64,
        layers: int = 4,
        conv: Literal["mean", "gin", "gine", "gcn", "gat", "gatedgcn"] = "gatedgcn",
        attention: Literal[
            "none", "softmax", "performer", "bigbird", "exphormer", "primal", "primphormer", "linear", "deepsets"
        ] = "softmax",
        heads: int = 4,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        edge_dim: int = 2,
        attention_options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.width = width
        encode = edge_dim > 0 and (conv == "gatedgcn" or attention == "exphormer")
        self.edge_encoder = nn.Linear(edge_dim, width) if encode else None
        sizes = {"width": width, "heads": heads, "dropout": attention_dropout, "edge_state": encode}

        def attend() -> nn.Module | None:
            if attention == "none":
                return None
            if attention in ON_GRAPH:
                return build_attention(ON_GRAPH, attention, attention_options, **sizes)
            return OnDense(build_attention(ON_DENSE, attention, attention_options, **sizes))

        self.layers = nn.ModuleList(
            GPSLayer(width, build_conv(conv, width, width if encode else edge_dim, dropout), attend(), dropout)
            for _ in range(layers)
        )
        primal = [m for m in self.modules() if isinstance(m, PrimphormerAttention)]
        for later in primal[1:]:
            later.basis = primal[0].basis  # one F goes from layer to layer

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Map node features to node features of the same shape."""
        edges, memory = graph.edge_attr, None
        if self.edge_encoder is not None and edges is not None:
            edges = [self.edge_encoder(e) for e in edges]
        for layer in self.layers:
            x, edges, memory = layer(x, graph, edges, memory)
        return x

    def auxiliary_loss(self) -> Tensor:
        """Return the sum of the layers' `eta J^2`, 0 without primal attention."""
        penalties = [m.penalty() for m in self.modules() if isinstance(m, KSVDAttention)]
        return torch.stack(penalties).sum() if penalties else torch.zeros(())
