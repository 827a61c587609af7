"""Perceptrons over a whole tile and over single nodes."""

from torch import Tensor, nn

from sstcast.graphs.graph import Graph
from sstcast.models.base import Backbone, ForecastModel
from sstcast.models.sizes import Count, Layers, Share


class TileMLP(ForecastModel):
    """A perceptron from the whole history of a tile to all its changes (Cai et al. 2023, D.4).

    Weights belong to positions in the tile, so the model is not permutation equivariant, and tiles have one size.

    Args:
        hidden: units of the hidden layer.
    """

    TRANSFER = "tile"

    def __init__(self, history: int, horizon: int, nodes: int, hidden: Count = 512) -> None:
        super().__init__()
        self.nodes, self.horizon = nodes, horizon
        self.net = nn.Sequential(nn.Linear(nodes * history, hidden), nn.ReLU(), nn.Linear(hidden, nodes * horizon))

    def change(self, history: Tensor, graph: Graph) -> Tensor:
        x, _ = graph.dense(history)
        return graph.sparse(self.net(x.flatten(1)).reshape(-1, self.nodes, self.horizon))


class PointwiseMLP(Backbone):
    """Residual perceptron layers on each node alone, which show how far a forecast comes without neighbours.

    Args:
        layers: the number of layers, each a linear map, LayerNorm, ReLU and dropout.
    """

    def __init__(self, width: Count = 256, layers: Layers = 2, dropout: Share = 0.0) -> None:
        super().__init__()
        self.width = width
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.ReLU(), nn.Dropout(dropout))
            for _ in range(layers)
        )

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Map `x [..., width]` to the same shape, node by node."""
        for layer in self.layers:
            x = x + layer(x)
        return x
