"""What every system is built of: `Backbone`, and `Forecaster` around it."""

import torch
from torch import Tensor, nn

from sstcast.errors import SSTCastError
from sstcast.graphs.graph import GEOGRAPHY, Graph
from sstcast.models.positional_encodings import Positional, build_encoding


class Model(nn.Module):
    """Anything that is trained; parts of it may add to the loss by a method `penalty()`."""

    def auxiliary_loss(self) -> Tensor:
        """Return what the last forward pass adds to the loss: the `penalty()` of all parts that have one."""
        penalties = [m.penalty() for m in self.modules() if hasattr(m, "penalty")]  # type: ignore[operator]
        return torch.stack(penalties).sum() if penalties else torch.zeros(())


class Backbone(Model):
    """Layers that map node features to node features of the same shape.

    `forward(x, graph)` takes `x` of the shape the graph stores (`[B, N, width]` on a grid,
    `[nodes, width]` on a sparse graph) and returns the same.

    A model may be trained in `stages`: each names a part of it that is trained before the whole. `row` names the
    row that the model keeps for each graph (see `encode`). `eigenpairs` is how many Laplacian eigenpairs it asks
    its graphs for.
    """

    width: int
    stages: tuple[str, ...] = ()
    row: str | None = None
    eigenpairs = 0

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Map `x` to features of the same shape."""
        raise NotImplementedError

    def encode(self, x: Tensor, graph: Graph) -> tuple[Tensor, Tensor | None]:
        """Return the node features and, of a model that keeps one, each graph's own row `[graphs, width]`."""
        return self(x, graph), None

    def enter(self, stage: str | None) -> None:
        """Use only what is trained in `stage`, one of `stages`; use the whole model if it is None."""


class ForecastModel(Model):
    """Anything that maps `history [B, N, history]` on a graph to the standardised anomaly `[B, N, horizon]`."""

    def forward(self, history: Tensor, graph: Graph) -> Tensor:
        """Forecast the coming days."""
        raise NotImplementedError


class Forecaster(ForecastModel):
    """History encoder -> backbone -> MLP head, which forecasts the change since the last day of history.

    So the network need not learn to repeat what it was given. The encoder and the head act on each node
    alone, and the whole is as equivariant as its backbone; with `positional` a node also knows where it is
    in the graph (see `positional_encodings`), and with `geography` where on the globe it is and when in the year.
    The head has one hidden layer of twice the width (Cai et al. 2023, D.4: 256 and 512).
    """

    def __init__(
        self,
        backbone: Backbone,
        history: int,
        horizon: int,
        positional: Positional = "none",
        geography: bool = False,
    ) -> None:
        super().__init__()
        width = backbone.width
        self.encoder = nn.Linear(history, width)
        self.position = build_encoding(positional, width)
        self.geography = nn.Linear(GEOGRAPHY, width, bias=False) if geography else None
        self.backbone = backbone
        self.head = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, horizon))

    def forward(self, history: Tensor, graph: Graph) -> Tensor:
        """Forecast the coming days. Raises SSTCastError if the graph lacks the geography asked for."""
        x = self.encoder(history)
        if self.position is not None:
            x = x + self.position(graph)
        if self.geography is not None:
            if graph.geography is None:
                raise SSTCastError("geography: these graphs do not say where they lie; set model.geography=false")
            x = x + self.geography(graph.geography)
        return history[..., -1:] + self.head(self.backbone(x, graph))
