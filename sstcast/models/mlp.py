"""Two perceptrons: for a whole tile, and for each node separately."""

from torch import Tensor, nn

from sstcast.graphs.graph import Graph
from sstcast.models.base import Backbone, ForecastModel


class TileMLP(ForecastModel):
    """A tile's history as one vector -> `hidden` -> its changes since the last day (Cai et al. 2023, D.4).

    Its weights belong to positions in the tile, so it is not permutation equivariant and has one tile size.
    """

    HOME = "tile"

    def __init__(self, history: int, horizon: int, nodes: int, hidden: int = 512) -> None:
        super().__init__()
        self.nodes, self.horizon = nodes, horizon
        self.net = nn.Sequential(nn.Linear(nodes * history, hidden), nn.ReLU(), nn.Linear(hidden, nodes * horizon))

    def change(self, history: Tensor, graph: Graph) -> Tensor:
        x, _ = graph.dense(history)
        return graph.sparse(self.net(x.flatten(1)).reshape(-1, self.nodes, self.horizon))


class PointwiseMLP(Backbone):
    """Residual perceptron layers on each node separately: a forecast without neighbours."""

    def __init__(self, width: int = 256, layers: int = 2, dropout: float = 0.0) -> None:
        super().__init__()
        self.width = width
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.ReLU(), nn.Dropout(dropout))
            for _ in range(layers)
        )

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x
