"""The Linear Transformer and related models: a transformer encoder on the nodes, which ignores edges."""

from typing import Any

from torch import Tensor, nn

from sstcast.graphs.graph import Graph
from sstcast.models.attention import Attention, feed_forward
from sstcast.models.base import Backbone
from sstcast.models.layers import NodeAttentionName, build_attention


class EncoderLayer(nn.Module):
    """Attention, then a feed-forward network, each with a norm before it and a residual connection."""

    def __init__(self, width: int, attention: Attention, dropout: float) -> None:
        super().__init__()
        self.attention, self.attention_norm = attention, nn.LayerNorm(width)
        self.feed_forward, self.feed_forward_norm = feed_forward(width, dropout), nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.attention_norm(x), mask))
        return x + self.feed_forward(self.feed_forward_norm(x))


class LinearTransformer(Backbone):
    """Linear attention (Katharopoulos et al. 2020, arXiv:2006.16236), or any other that sees only the nodes.

    Only positional encodings in `x` tell nodes their positions. `attention_options` are further arguments of
    the attention's class (see `sstcast.models.layers`), such as `features` and `redraw` of `performer`.

    Raises SSTCastError for options that the attention does not have, or if `heads` does not divide the width.
    """

    def __init__(
        self,
        width: int = 256,
        layers: int = 2,
        heads: int = 4,
        attention: NodeAttentionName = "linear",
        dropout: float = 0.0,
        attention_options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.width = width
        sizes = {"width": width, "heads": heads, "dropout": dropout}
        self.layers = nn.ModuleList(
            EncoderLayer(width, build_attention(attention, attention_options, **sizes), dropout)
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        y, mask = graph.dense(x)
        for layer in self.layers:
            y = layer(y, mask)
        return graph.sparse(self.norm(y))
