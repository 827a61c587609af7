"""`gatedgcn`, the local layer with a state for each edge (its equations are in `sstcast.models.convs`)."""

from torch import Tensor, nn

from sstcast.graphs.graph import Graph, Planes
from sstcast.models.convs import Conv, add_edges, edge_linear


class GatedGCN(Conv):
    """`gatedgcn`, with dropout on its updates of nodes and edges; edges that are None start at 0.

    The gates see the edges' scores before norm and activation, as in the released layers of arXiv:2003.00982 and
    GraphGPS. The `last` layer of a model leaves the edges as they are, since nothing reads them after it. With
    `pairs`, a gate is multiplied by a learned function of the squared distance of its ends in the graph's first
    `pairs` Laplacian eigenvectors, which no sign or rotation of them changes (ESLapPE, arXiv:2203.00199).
    """

    residual = updates_edges = True

    def __init__(
        self, width: int, edge_dim: int, dropout: float = 0.0, last: bool = False, pairs: int = 0
    ) -> None:
        super().__init__()
        if edge_dim != width:
            raise ValueError(f"gatedgcn updates its edges, so they must have {width} channels, not {edge_dim}")
        self.own = nn.Linear(width, width)
        self.neighbor = nn.Linear(width, width)
        self.target = nn.Linear(width, width)
        self.source = nn.Linear(width, width, bias=False)
        self.edge = edge_linear(edge_dim, width)
        self.node_norm, self.edge_norm = nn.LayerNorm(width), None if last else nn.LayerNorm(width)
        self.dropout, self.pairs = nn.Dropout(dropout), pairs
        self.near = nn.Sequential(nn.Linear(1, width), nn.ReLU(), nn.Linear(width, 1)) if pairs else None

    def forward(self, x: Tensor, graph: Graph, edges: Planes | None) -> tuple[Tensor, Planes | None]:
        ends = zip(graph.target(self.target(x)), graph.source(self.source(x)), strict=True)
        scores = add_edges([t + s for t, s in ends], self.edge, edges)
        gates = [s.sigmoid() for s in scores]
        if self.near is not None:
            p = graph.laplacian(self.pairs)[0].expand(*x.shape[:-1], -1).to(x)
            apart = [
                (t - s).square().sum(-1, keepdim=True)
                for s, t in zip(graph.source(p), graph.target(p), strict=True)
            ]
            gates = [g * self.near(d).sigmoid() for g, d in zip(gates, apart, strict=True)]
        messages = [g * m for g, m in zip(gates, graph.source(self.neighbor(x)), strict=True)]
        mean = graph.aggregate(messages) / (graph.aggregate(gates) + 1e-6)
        x = x + self.dropout(self.node_norm(self.own(x) + mean).relu())
        if self.edge_norm is None:
            return x, edges
        updates = [self.dropout(self.edge_norm(s).relu()) for s in scores]
        return x, updates if edges is None else [e + u for e, u in zip(edges, updates, strict=True)]


class EdgeEncoder(nn.Linear):
    """The first state of edges, as wide as the nodes; edges without features all have the feature 1."""

    def __init__(self, edge_dim: int, width: int) -> None:
        super().__init__(max(edge_dim, 1), width)
        self.featureless = edge_dim == 0

    def planes(self, x: Tensor, graph: Graph) -> Planes | None:
        """Return the state; None if the graph lacks the features."""
        edges = [x.new_ones(1)] * len(graph.source(x)) if self.featureless else graph.edge_attr
        return None if edges is None else [self(e) for e in edges]
