"""Whole forecasters, `forward(data) -> [nodes, horizon]`."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Batch, Data
from torch_geometric.nn import global_mean_pool
from torch_geometric.utils import to_dense_batch

from .layers import GatedGCNConv, MeanConv, gat_conv


class Forecaster(nn.Module):
    """Encoder, backbone, and a head that adds its output to the last day of history."""

    def __init__(self, backbone: nn.Module, width: int, history: int, horizon: int) -> None:
        super().__init__()
        self.encoder = nn.Linear(history, width)
        self.backbone = backbone
        self.head = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, horizon))

    def forward(self, data: Data) -> Tensor:
        return data.x[..., -1:] + self.head(self.backbone(self.encoder(data.x), data))

    def auxiliary_loss(self) -> Tensor:
        """What the backbone adds to the loss."""
        losses = [m.penalty for m in self.modules() if isinstance(m, PrimalAttention)]
        return torch.stack(losses).sum() if losses else torch.zeros(())


class VirtualNode(nn.Module):
    """`vn + MLP(mean_i x_i + vn)`."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))


class MPNN(nn.Module):
    """Mean layers with LayerNorm, ReLU, residual and a virtual node."""

    def __init__(self, width: int, layers: int, edge_dim: int = 2) -> None:
        super().__init__()
        self.convs = nn.ModuleList(MeanConv(width, edge_dim) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.virtual_nodes = nn.ModuleList(VirtualNode(width) for _ in range(layers - 1))

    def forward(self, x: Tensor, data: Batch) -> Tensor:
        vn = x.new_zeros(data.num_graphs, x.shape[-1])
        for layer, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            x = x + vn[data.batch]
            x = x + norm(conv(x, data.edge_index, data.edge_attr)).relu()
            if layer < len(self.virtual_nodes):
                vn = vn + self.virtual_nodes[layer].mlp(global_mean_pool(x, data.batch, data.num_graphs) + vn)
        return x


class Mixture(nn.Module):
    """Polynormer's beta."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(width))


class LocalLayer(nn.Module):
    """Polynormer's local layer (arXiv:2403.01232, equation 17)."""

    def __init__(self, width: int, heads: int, edge_dim: int) -> None:
        super().__init__()
        self.gate, self.root = nn.Linear(width, width), nn.Linear(width, width)
        self.conv = gat_conv(width, edge_dim, heads, bias=False)
        self.norm, self.beta = nn.LayerNorm(width), Mixture(width)

    def forward(self, x: Tensor, data: Batch) -> Tensor:
        y = (self.conv(x, data.edge_index, data.edge_attr) + self.root(x)).relu()
        beta = self.beta.value.sigmoid()
        return (1 - beta) * self.norm(self.gate(x).relu() * y) + beta * y


class GlobalLayer(nn.Module):
    """Polynormer's global layer (equation 8) on padded graphs; the padding has no key."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.gate, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.norm, self.beta = nn.LayerNorm(width), Mixture(width)

    def forward(self, x: Tensor, data: Batch) -> Tensor:
        q, mask = to_dense_batch(self.key(x).sigmoid(), data.batch)
        v, _ = to_dense_batch(self.value(x), data.batch)
        q, v = (t.unflatten(-1, (self.heads, -1)) for t in (q, v))
        summary = torch.einsum("bnhd,bnhe->bhde", q, v)  # padded rows of q are 0
        y = torch.einsum("bnhd,bhde->bnhe", q, summary)
        total = torch.einsum("bnhd,bhd->bnh", q, q.sum(1)).unsqueeze(-1)
        y = (y / total.masked_fill(total == 0, 1)).flatten(2)[mask]
        return self.norm(y) * (self.gate(x) + self.beta.value.sigmoid())


class Polynormer(nn.Module):
    """Polynormer-r."""

    def __init__(self, width: int, local_layers: int, global_layers: int, heads: int, edge_dim: int = 2) -> None:
        super().__init__()
        self.local_layers = nn.ModuleList(LocalLayer(width, heads, edge_dim) for _ in range(local_layers))
        self.norm = nn.LayerNorm(width)
        self.global_layers = nn.ModuleList(GlobalLayer(width, heads) for _ in range(global_layers))
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, data: Batch) -> Tensor:
        total = torch.zeros_like(x)
        for layer in self.local_layers:
            x = layer(x, data)
            total = total + x
        x = self.norm(total)
        for layer in self.global_layers:
            x = self.out(layer(x, data)).relu()
        return x


class PrimalAttention(nn.Module):
    """Primphormer's attention: `f(X) = F + v 1^T`, scores `f(X) W phi(x)`, and the objective `eta J^2`."""

    def __init__(self, width: int, heads: int, rank: int = 30, projections: int = 30, eta: float = 0.1) -> None:
        super().__init__()
        self.heads, self.eta = heads, eta
        self.qk, self.virtual = nn.Linear(width, 2 * width), nn.Linear(width, rank)
        self.scale = nn.Parameter(torch.rand(heads, rank))
        self.compose = nn.Linear(2 * rank, width // heads)
        self.basis = nn.Parameter(torch.randn(rank, projections))
        self.w_e = nn.Parameter(torch.randn(projections, heads, width // heads))
        self.w_r = nn.Parameter(torch.randn(projections, heads, width // heads))

    def forward(self, x: Tensor, data: Batch, memory: Tensor | None) -> tuple[Tensor, Tensor]:
        v = self.virtual(global_mean_pool(x, data.batch, data.num_graphs))
        v = v if memory is None else memory + v
        q, k = self.qk(x).unflatten(-1, (2, self.heads, -1)).unbind(-3)
        e = self.scores(F.normalize(q, dim=-1), self.w_e, v, data.batch)
        r = self.scores(F.normalize(k, dim=-1), self.w_r, v, data.batch)
        energy = ((self.scale * e).square().sum(-1) + (self.scale * r).square().sum(-1)).mean() / 2
        self.penalty = self.eta * (energy - (self.w_e * self.w_r).sum() / self.heads).square()
        return self.compose(torch.cat([e, r], dim=-1)).flatten(-2), v

    def scores(self, phi: Tensor, w: Tensor, v: Tensor, batch: Tensor) -> Tensor:
        """Return `[nodes, heads, rank]`."""
        learned = torch.einsum("ihd,shd->ihs", phi, torch.einsum("sn,nhd->shd", self.basis, w))
        return learned + (phi * w.sum(0)).sum(-1, keepdim=True) * v[batch].unsqueeze(1)


class GPSLayer(nn.Module):
    """GatedGCN beside attention, then a perceptron; LayerNorm throughout."""

    def __init__(self, width: int, heads: int, last: bool) -> None:
        super().__init__()
        self.conv, self.attention = GatedGCNConv(width, last), PrimalAttention(width, heads)
        self.conv_norm, self.attention_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        # Dropout of the original stands between, so that weights have the same names.
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 2 * width), nn.ReLU(), nn.Dropout(0.0), nn.Linear(2 * width, width), nn.Dropout(0.0)
        )
        self.norm = nn.LayerNorm(width)

    def forward(
        self, x: Tensor, data: Batch, edge_attr: Tensor, memory: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        local, edge_attr = self.conv(x, data.edge_index, edge_attr)
        attended, memory = self.attention(x, data, memory)
        y = self.conv_norm(local) + self.attention_norm(x + attended)
        return self.norm(y + self.feed_forward(y)), edge_attr, memory


class Primphormer(nn.Module):
    """GPS with primal attention; one F serves all layers."""

    def __init__(self, width: int, layers: int, heads: int = 4, edge_dim: int = 2) -> None:
        super().__init__()
        self.edge_encoder = nn.Linear(edge_dim, width)
        self.layers = nn.ModuleList(GPSLayer(width, heads, n == layers - 1) for n in range(layers))
        for layer in self.layers[1:]:
            layer.attention.basis = self.layers[0].attention.basis

    def forward(self, x: Tensor, data: Batch) -> Tensor:
        edge_attr, memory = self.edge_encoder(data.edge_attr), None
        for layer in self.layers:
            x, edge_attr, memory = layer(x, data, edge_attr, memory)
        return x


class Convolutions(nn.Module):
    """Residual 3 x 3 convolutions, `x + ReLU(conv(x))`, of `[B, nodes, width]` on grids of `shape`."""

    def __init__(self, width: int, layers: int, shape: tuple[int, int]) -> None:
        super().__init__()
        self.shape = shape
        self.convs = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(layers))
        self.to(memory_format=torch.channels_last)  # as `x` lies in memory

    def forward(self, x: Tensor, data: Data | None = None) -> Tensor:
        x = x.mT.unflatten(-1, self.shape)
        for conv in self.convs:
            x = x + conv(x).relu()
        return x.flatten(2).mT
