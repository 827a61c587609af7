"""Local layers as `MessagePassing` classes; GAT is PyG's own."""

import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, MessagePassing
from torch_geometric.utils import scatter


class MeanConv(MessagePassing):
    """`W_root x_i + mean_j ReLU(W x_j + E e_ij)`."""

    def __init__(self, width: int, edge_dim: int) -> None:
        super().__init__(aggr="mean")
        self.root = nn.Linear(width, width)
        self.neighbor = nn.Linear(width, width)
        self.edge = nn.Linear(edge_dim, width, bias=False)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        return self.root(x) + self.propagate(edge_index, x=self.neighbor(x), edge_attr=edge_attr)

    def message(self, x_j: Tensor, edge_attr: Tensor) -> Tensor:
        return (x_j + self.edge(edge_attr)).relu()


class GatedGCNConv(MessagePassing):
    """Bresson & Laurent's gated layer with an edge state (arXiv:1711.07553), LayerNorm in place of BatchNorm."""

    def __init__(self, width: int, last: bool = False) -> None:
        super().__init__(aggr="sum")
        self.own = nn.Linear(width, width)
        self.neighbor = nn.Linear(width, width)
        self.target = nn.Linear(width, width)
        self.source = nn.Linear(width, width, bias=False)
        self.edge = nn.Linear(width, width, bias=False)
        self.node_norm, self.edge_norm = nn.LayerNorm(width), None if last else nn.LayerNorm(width)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.edge_updater(edge_index, target=self.target(x), source=self.source(x), edge_attr=edge_attr)
        if self.edge_norm is not None:
            edge_attr = edge_attr + self.edge_norm(scores).relu()
        mean = self.propagate(edge_index, x=self.neighbor(x), gate=scores.sigmoid())
        return x + self.node_norm(self.own(x) + mean).relu(), edge_attr

    def edge_update(self, target_i: Tensor, source_j: Tensor, edge_attr: Tensor) -> Tensor:
        return target_i + source_j + self.edge(edge_attr)

    def message(self, x_j: Tensor, gate: Tensor) -> Tensor:
        return torch.cat([gate * x_j, gate], dim=-1)

    def aggregate(self, inputs: Tensor, index: Tensor, dim_size: int) -> Tensor:
        weighted, total = scatter(inputs, index, dim=0, dim_size=dim_size, reduce="sum").chunk(2, dim=-1)
        return weighted / (total + 1e-6)


def gat_conv(width: int, edge_dim: int, heads: int, bias: bool = True) -> GATConv:
    """PyG's layer."""
    return GATConv(width, width // heads, heads, edge_dim=edge_dim, bias=bias)
