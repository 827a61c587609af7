"""Message passing with and without a virtual node (Cai et al. 2023, arXiv:2301.11956)."""

from torch import Tensor, nn

from sstcast.graphs.graph import Graph
from sstcast.models.base import Backbone
from sstcast.models.gatedgcn import EdgeEncoder
from sstcast.models.layers import CONVS, ConvName, build_conv


class VirtualNode(nn.Module):
    """One node linked to all others: `vn <- vn + MLP(mean_i x_i + vn)`, starting from `vn = 0`."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor, vn: Tensor | None, graph: Graph) -> Tensor:
        """Return the new `vn`, one row per graph, from the nodes' mean and the old `vn` (None is 0)."""
        mean = graph.pool(x, "mean")
        return self.mlp(mean) if vn is None else vn + self.mlp(mean + vn)


class MPNN(Backbone):
    """`layers` of message passing, LayerNorm, ReLU and dropout, each with a residual connection.

    `conv` is the message passing (see `sstcast.models.convs`). If it updates edges, they are encoded to the nodes'
    width and passed from layer to layer. With `virtual_node`, every layer first adds the virtual node to the nodes
    and then updates it; it starts at 0. Everything else is the same with and without it, for a fair comparison.
    """

    def __init__(
        self,
        width: int = 256,
        layers: int = 3,
        virtual_node: bool = False,
        dropout: float = 0.0,
        edge_dim: int = 2,
        conv: ConvName = "mean",
    ) -> None:
        super().__init__()
        self.width = width
        self.edge_encoder = EdgeEncoder(edge_dim, width) if CONVS[conv].updates_edges else None
        if self.edge_encoder is not None:
            edge_dim = width
        self.convs = nn.ModuleList(
            build_conv(conv, width, edge_dim, dropout, last=number == layers) for number in range(1, layers + 1)
        )
        self.norms = nn.ModuleList(nn.Identity() if c.residual else nn.LayerNorm(width) for c in self.convs)
        # The last layer has none, because nothing would use its update.
        self.virtual_nodes = nn.ModuleList(VirtualNode(width) for _ in range(layers - 1 if virtual_node else 0))
        self.row = "virtual-node" if len(self.virtual_nodes) else None
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        return self.encode(x, graph)[0]

    def encode(self, x: Tensor, graph: Graph) -> tuple[Tensor, Tensor | None]:
        """Return the nodes, and the virtual node as it was before the last layer (None if there is none)."""
        vn, edges = None, graph.edge_attr if self.edge_encoder is None else self.edge_encoder.planes(x, graph)
        for layer, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            if vn is not None:
                x = x + graph.spread(vn)
            update, edges = conv(x, graph, edges)
            x = update if conv.residual else x + self.dropout(norm(update).relu())
            if layer < len(self.virtual_nodes):
                vn = self.virtual_nodes[layer](x, vn, graph)
        return x, vn
