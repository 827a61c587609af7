"""Local layers, called as `layer(x, graph, edges) -> (x, edges)` with node features and the edge state.

Names are those in `sstcast.models.layers`:

| name       | new node features                                                              | source            |
|------------|--------------------------------------------------------------------------------|-------------------|
| `mean`     | W_root x_i + mean_j ReLU(W x_j + E e_ij)                                       |                   |
| `gin`      | MLP((1 + eps) x_i + sum_j x_j)                                                 | arXiv:1810.00826  |
| `gine`     | MLP((1 + eps) x_i + sum_j ReLU(x_j + E e_ij))                                  | arXiv:1905.12265  |
| `sage`     | W_1 x_i + W_2 mean_j x_j                                                       | arXiv:1706.02216  |
| `gcn`      | sum_(j, i) w_ij W x_j / sqrt(d_i d_j) + b, where d counts the node itself      | arXiv:1609.02907  |
| `gat`      | sum_(j, i) softmax_j(LeakyReLU(s W x_j + t W x_i + u E e_ij)) W x_j + b        | arXiv:1710.10903  |
| `gatedgcn` | x_i + ReLU(norm(U x_i + sum_j gate_ij * V x_j / (sum_j gate_ij + 1e-6))), with | arXiv:1711.07553, |
|            | s_ij = A x_i + B x_j + C e_ij, gate_ij = sigmoid(s_ij),                        | arXiv:2003.00982  |
|            | e_ij <- e_ij + ReLU(norm(s_ij))                                                |                   |

`edges` are planes of `edge_dim` channels, such as `graph.edge_attr`, or None, in which case the term with e_ij is
left out. Only `gatedgcn` updates them, so there they must be as wide as the nodes. Weights are drawn as in PyTorch
Geometric: from Glorot's distribution for `gcn` and `gat`, else from the defaults of torch.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sstcast.graphs.graph import Graph, Planes
from sstcast.models.attention import check_heads
from sstcast.models.norms import NORMS, BatchNorm, NormName
from sstcast.models.sizes import Share


class Conv(nn.Module):
    """Base class of local layers. Their arguments are `width` and any that `layers.build_conv` passes.

    A `residual` layer adds its own input. For other layers the caller adds residual connection, norm and dropout.
    """

    about: ClassVar[str] = ""  # a short description
    residual: ClassVar[bool] = False
    updates_edges: ClassVar[bool] = False
    reads_weights: ClassVar[bool] = False  # of the edges, `Graph.edge_weight`

    def forward(self, x: Tensor, graph: Graph, edges: Planes | None) -> tuple[Tensor, Planes | None]:
        """Return new node features and the new edge state."""
        raise NotImplementedError


class MessagePassing(Conv):
    """`mean`. On a grid, the edge features are offsets (dx, dy), without which the mean has no direction."""

    about = "a linear map of the neighbours' mean"

    def __init__(self, width: int, edge_dim: int = 2, in_width: int | None = None) -> None:
        super().__init__()
        self.root = nn.Linear(in_width or width, width)
        self.neighbor = nn.Linear(in_width or width, width)
        self.edge = edge_linear(edge_dim, width)

    def forward(self, x: Tensor, graph: Graph, edges: Planes | None) -> tuple[Tensor, Planes | None]:
        """Map `x [..., in_width]` to `[..., width]`, and return the edges unchanged."""
        messages = add_edges(graph.source(self.neighbor(x)), self.edge, edges)
        return self.root(x) + graph.aggregate([m.relu() for m in messages], "mean"), edges


class SAGE(Conv):
    """`sage`, which ignores edge features. It averages before or after W_2, whichever has fewer channels."""

    about = "GraphSAGE, mean of the neighbours (arXiv:1706.02216)"

    def __init__(self, width: int, in_width: int | None = None) -> None:
        super().__init__()
        self.root = nn.Linear(in_width or width, width)
        self.neighbor = nn.Linear(in_width or width, width, bias=False)

    def forward(self, x: Tensor, graph: Graph, edges: Planes | None) -> tuple[Tensor, Planes | None]:
        """Map `x [..., in_width]` to `[..., width]`, and return the edges unchanged."""
        if self.neighbor.in_features < self.neighbor.out_features:
            return self.root(x) + self.neighbor(graph.neighbors(x, "mean")), edges
        return self.root(x) + graph.neighbors(self.neighbor(x), "mean"), edges


class GINE(Conv):
    """`gine`. With the norm `batch`, its perceptron has a BatchNorm, as in Xu et al. 2019 (arXiv:1810.00826)."""

    about = "GIN with edge features (arXiv:1905.12265)"

    def __init__(
        self, width: int, edge_dim: int = 0, in_width: int | None = None, norm: NormName = "none"
    ) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(in_width or width, width), nn.ReLU(), nn.Linear(width, width))
        self.norm = NORMS[norm if norm == "batch" else "none"](width)
        self.eps = nn.Parameter(torch.zeros(()))
        self.edge = edge_linear(edge_dim, in_width or width)

    def forward(self, x: Tensor, graph: Graph, edges: Planes | None) -> tuple[Tensor, Planes | None]:
        """Map `x [..., in_width]` to `[..., width]`, and return the edges unchanged."""
        if self.edge is None:
            received = graph.neighbors(x)
        else:
            received = graph.aggregate([m.relu() for m in add_edges(graph.source(x), self.edge, edges)])
        first, act, last = self.mlp
        y = first((1 + self.eps) * x + received)
        return last(act(self.norm(y, graph.mask))), edges


class GIN(GINE):
    """`gin`, which ignores edge features."""

    about = "GIN, reads no edge features (arXiv:1810.00826)"

    def __init__(self, width: int, in_width: int | None = None, norm: NormName = "none") -> None:
        super().__init__(width, in_width=in_width, norm=norm)


class GCN(Conv):
    """`gcn`, which ignores edge features. Each node has one self-loop, in place of any in the graph.

    Weights of edges, if the graph has any, multiply the messages. Then d_i is the sum of the weights of i's edges,
    and a self-loop keeps its own, as in `gcn_norm` of PyTorch Geometric. Several at a node count as one with their
    mean weight. A node with d_i = 0 sends nothing.
    """

    about = "GCN, reads weights of edges (arXiv:1609.02907)"
    reads_weights = True

    def __init__(self, width: int, in_width: int | None = None) -> None:
        super().__init__()
        self.linear = glorot(in_width or width, width)
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor, graph: Graph, edges: Planes | None) -> tuple[Tensor, Planes | None]:
        """Map `x [..., in_width]` to `[..., width]`, and return the edges unchanged."""
        loops, (graph, _) = graph.loop_weight, graph.without_loops()
        x = self.linear(x)
        if loops is not None and graph.edge_weight is not None:
            total = graph.aggregate(graph.edge_weight) + loops
            scale = total.rsqrt().masked_fill(total == 0, 0)
            x = x * scale
            messages = [w * m for w, m in zip(graph.edge_weight, graph.source(x), strict=True)]
            return scale * (graph.aggregate(messages) + loops * x) + self.bias, edges
        scale = (graph.neighbors(torch.ones_like(x[..., :1])) + 1).rsqrt()
        x = x * scale
        return scale * (graph.neighbors(x) + x) + self.bias, edges


class GAT(Conv):
    """`gat` with `heads` side by side.

    Each node has one self-loop, in place of any in the graph. As in PyTorch Geometric, its features are the mean
    over the node's incoming edges, or 0 if there are none. Raises SSTCastError if `heads` does not divide `width`.
    """

    about = "GAT, with edge features (arXiv:1710.10903)"

    def __init__(
        self, width: int, edge_dim: int = 0, heads: int = 4, bias: bool = True, in_width: int | None = None
    ) -> None:
        super().__init__()
        check_heads(width, heads)
        self.heads = heads
        self.linear = glorot(in_width or width, width)
        self.edge = glorot(edge_dim, width) if edge_dim else None
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None
        self.attend_source = nn.Parameter(nn.init.xavier_uniform_(torch.empty(heads, width // heads)))
        self.attend_target = nn.Parameter(nn.init.xavier_uniform_(torch.empty(heads, width // heads)))
        if self.edge is not None:
            self.attend_edge = nn.Parameter(nn.init.xavier_uniform_(torch.empty(heads, width // heads)))

    def forward(self, x: Tensor, graph: Graph, edges: Planes | None) -> tuple[Tensor, Planes | None]:
        """Map `x [..., in_width]` to `[..., width]`, and return the edges unchanged."""
        graph, keep = graph.without_loops()
        x = self.linear(x)
        source, target = self._score(x, self.attend_source), self._score(x, self.attend_target)
        scores = [s + t for s, t in zip(graph.source(source), graph.target(target), strict=True)]
        own_score = source + target
        if self.edge is not None and edges is not None:
            edge_features = edges if keep is None else [e[rows] for e, rows in zip(edges, keep, strict=True)]
            by_edge = [self._score(self.edge(e), self.attend_edge) for e in edge_features]
            mean = graph.aggregate([e.expand_as(s) for s, e in zip(scores, by_edge, strict=True)], "mean")
            own_score = own_score + mean
            scores = [s + e for s, e in zip(scores, by_edge, strict=True)]
        own_score = F.leaky_relu(own_score, 0.2)
        scores = [F.leaky_relu(s, 0.2) for s in scores]
        x = edge_softmax(graph, scores, graph.source(x), [own_score], [x], own_score)
        return x if self.bias is None else x + self.bias, edges

    def _score(self, x: Tensor, attend: Tensor) -> Tensor:
        return x @ torch.block_diag(*attend.unsqueeze(-1))  # a matrix product is faster than a sum per head


class GatedGCN(Conv):
    """`gatedgcn`, with dropout on the updates of nodes and edges. An edge state of None counts as 0.

    The gates read the edge scores before norm and activation, as in the released layers of arXiv:2003.00982 and
    GraphGPS.

    Args:
        width: channels of nodes and edges.
        edge_dim: channels of the edges, which must equal `width`.
        dropout: the share of updates set to 0 in training.
        last: whether this is the last layer of a model, which need not update the edges.
        pairs: the number of Laplacian eigenvectors in which the distance between the ends of an edge is measured.
            Each gate is multiplied by a learned function of its square, which does not depend on the signs and
            rotations of eigenvectors (ESLapPE, arXiv:2203.00199).
        norm: the norms of nodes and edges, `layer` or, as in arXiv:2003.00982, `batch`, whose statistics of edges
            are those of all edges between real nodes.
    """

    about = "GatedGCN, updates edge features (arXiv:1711.07553)"
    residual = updates_edges = True

    def __init__(
        self,
        width: int,
        edge_dim: int,
        dropout: Share = 0.0,
        last: bool = False,
        pairs: int = 0,
        norm: NormName = "layer",
    ) -> None:
        super().__init__()
        self.own = nn.Linear(width, width)
        self.neighbor = nn.Linear(width, width)
        self.target = nn.Linear(width, width)
        self.source = nn.Linear(width, width, bias=False)
        self.edge = edge_linear(edge_dim, width)
        self.node_norm, self.edge_norm = NORMS[norm](width), None if last else NORMS[norm](width)
        self.dropout, self.pairs = nn.Dropout(dropout), pairs
        self.near = nn.Sequential(nn.Linear(1, width), nn.ReLU(), nn.Linear(width, 1)) if pairs else None

    def forward(self, x: Tensor, graph: Graph, edges: Planes | None) -> tuple[Tensor, Planes | None]:
        """Map `x [..., width]` to the same shape, and each plane of the edges to new ones."""
        ends = zip(graph.target(self.target(x)), graph.source(self.source(x)), strict=True)
        scores = add_edges([t + s for t, s in ends], self.edge, edges)
        gates = [s.sigmoid() for s in scores]
        if self.near is not None:
            p = graph.laplacian(self.pairs)[0].expand(*x.shape[:-1], -1).to(x)
            distances = [
                (t - s).square().sum(-1, keepdim=True)
                for s, t in zip(graph.source(p), graph.target(p), strict=True)
            ]
            gates = [g * self.near(d).sigmoid() for g, d in zip(gates, distances, strict=True)]
        messages = [g * m for g, m in zip(gates, graph.source(self.neighbor(x)), strict=True)]
        mean = graph.aggregate(messages) / (graph.aggregate(gates) + 1e-6)
        x = x + self.dropout(self.node_norm(self.own(x) + mean, graph.mask).relu())
        if self.edge_norm is None:
            return x, edges
        updates = [self.dropout(s.relu()) for s in norm_edges(self.edge_norm, scores, graph)]
        return x, updates if edges is None else [e + u for e, u in zip(edges, updates, strict=True)]


class EdgeEncoder(nn.Linear):
    """A linear map from edge features to the first edge state. Edges without features have the feature 1."""

    def __init__(self, edge_dim: int, width: int) -> None:
        super().__init__(max(edge_dim, 1), width)
        self.featureless = edge_dim == 0

    def planes(self, x: Tensor, graph: Graph) -> Planes | None:
        """Return the edge state, or None if the graph lacks the features."""
        edges = [x.new_ones(1)] * len(graph.source(x)) if self.featureless else graph.edge_attr
        return None if edges is None else project(self, edges)


def glorot(inputs: int, outputs: int) -> nn.Linear:
    """Return a linear map without bias, with weights from Glorot's uniform distribution."""
    linear = nn.Linear(inputs, outputs, bias=False)
    nn.init.xavier_uniform_(linear.weight)
    return linear


def edge_linear(edge_dim: int, width: int) -> nn.Linear | None:
    """Return a projection of edge features, or None. Other terms of the layers have the bias."""
    return nn.Linear(edge_dim, width, bias=False) if edge_dim else None


def add_edges(messages: Planes, linear: nn.Linear | None, edges: Planes | None) -> Planes:
    """Add the projected edges to the messages, if there are both edges and a projection."""
    if linear is None or edges is None:
        return messages
    return [m + e for m, e in zip(messages, project(linear, edges), strict=True)]


def project(linear: nn.Module, edges: Planes) -> Planes:
    """Return `linear` of each plane. Planes of a single row, as on a grid on a GPU, take one product together."""
    if len(edges) > 1 and all(e.shape == edges[0].shape and e.shape[:-1].numel() == 1 for e in edges):
        return [*linear(torch.stack(list(edges))).unbind()]
    return [linear(e) for e in edges]


def norm_edges(norm: nn.Module, planes: Planes, graph: Graph) -> Planes:
    """Normalise planes of edge features. The statistics of BatchNorm are those of all edges between real nodes."""
    if not isinstance(norm, BatchNorm):
        return [norm(plane) for plane in planes]
    real = None
    if graph.mask is not None:
        ends = graph.mask.unsqueeze(-1)
        real = torch.cat([s & t for s, t in zip(graph.source(ends), graph.target(ends), strict=True)], dim=-2)
        real = real.squeeze(-1)
    sizes = [plane.shape[-2] for plane in planes]
    return norm(torch.cat(list(planes), dim=-2), real).split(sizes, dim=-2)


def edge_softmax(
    graph: Graph, edge_scores: Planes, edge_values: Planes, scores: Planes, values: Planes, base: Tensor
) -> Tensor:
    """Average values with one softmax for each node, over its incoming edges and further keys.

    Args:
        graph: the graph with the edges.
        edge_scores: planes of scores, `[..., heads]`.
        edge_values: planes of values, `[..., width]`, the heads side by side.
        scores: for each further key, its score for every node, `[..., heads]`.
        values: for each further key, its value for every node, `[..., width]`.
        base: a score for each node and head, `[..., heads]`, subtracted from all scores for numerical stability.
    """
    relative = [s - o for s, o in zip(edge_scores, graph.target(base), strict=True)]
    scale = graph.aggregate(relative, "max").clamp(min=0).detach()
    # Masked edges may have larger scores than the maximum. The clamp keeps their exponentials finite. It is at 1,
    # not at the largest score, 0, because the derivative at the bound itself depends on the version of torch.
    weights = [(r - s).clamp(max=1).exp() for r, s in zip(relative, graph.target(scale), strict=True)]
    key_weights = [(s - base - scale).exp() for s in scores]
    total = graph.aggregate(weights) + torch.stack(key_weights).sum(0)
    y = graph.aggregate([weigh(w, v) for w, v in zip(weights, edge_values, strict=True)])
    for weight, value in zip(key_weights, values, strict=True):
        y = y + weigh(weight, value)
    return weigh(1 / total, y)


def weigh(weight: Tensor, value: Tensor) -> Tensor:
    """Multiply `value [..., width]` by the weight of its head, `[..., heads]`."""
    return (value.unflatten(-1, (weight.shape[-1], -1)) * weight.unsqueeze(-1)).flatten(-2)
