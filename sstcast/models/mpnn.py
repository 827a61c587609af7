"""Message passing with and without a virtual node (Cai et al. 2023, arXiv:2301.11956)."""

from torch import Tensor, nn

from sstcast.graphs.graph import Graph
from sstcast.models.base import Backbone


class MessagePassing(nn.Module):
    """`W_root x_i + mean_j ReLU(W x_j + E e_ij)`.

    On a grid `e_ij` is the offset (dx, dy): currents carry heat in a direction, and a mean over
    neighbours alone cannot see which. With `edge_dim=0` edges have no features.
    """

    def __init__(self, width: int, edge_dim: int = 2) -> None:
        super().__init__()
        self.root = nn.Linear(width, width)
        self.neighbor = nn.Linear(width, width)
        self.edge = nn.Linear(edge_dim, width, bias=False) if edge_dim else None

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Map node features to node features of the same shape."""
        messages = graph.source(self.neighbor(x))
        if self.edge is not None and graph.edge_attr is not None:
            messages = [m + self.edge(e) for m, e in zip(messages, graph.edge_attr, strict=True)]
        return self.root(x) + graph.aggregate([m.relu() for m in messages], "mean")


class VirtualNode(nn.Module):
    """One node joined to all: `vn <- vn + MLP(mean_i x_i + vn)`, from `vn = 0`."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor, vn: Tensor | None, graph: Graph) -> Tensor:
        """Return the new `vn`, one row a graph, from the nodes' mean and the old one (None is 0)."""
        mean = graph.pool(x, "mean")
        return self.mlp(mean) if vn is None else vn + self.mlp(mean + vn)


class MPNN(Backbone):
    """`layers` of message passing, LayerNorm, ReLU and dropout, each around a residual.

    With `virtual_node` every layer first adds the virtual node to the nodes and then updates it; it starts
    at 0. Everything else is equal, so that the two can be compared.
    """

    def __init__(
        self,
        width: int = 256,
        layers: int = 3,
        virtual_node: bool = False,
        dropout: float = 0.0,
        edge_dim: int = 2,
    ) -> None:
        super().__init__()
        self.width = width
        self.convs = nn.ModuleList(MessagePassing(width, edge_dim) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        # The last layer has none: its update would reach nothing.
        self.virtual_nodes = nn.ModuleList(VirtualNode(width) for _ in range(layers - 1 if virtual_node else 0))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Map node features to node features of the same shape."""
        vn = None
        for layer, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            if vn is not None:
                x = x + graph.spread(vn)
            x = x + self.dropout(norm(conv(x, graph)).relu())
            if layer < len(self.virtual_nodes):
                vn = self.virtual_nodes[layer](x, vn, graph)
        return x
