"""Base classes of all systems: `Backbone`, and `Forecaster`, which adds an encoder and a head."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sstcast.errors import SSTCastError
from sstcast.graphs.graph import GEOGRAPHY, Graph
from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph

Base = Literal["persistence", "linear", "local", "none"]
Encoder = Literal["linear", "convolution"]
Positional = Literal["none", "lap", "rwse"]
Home = Literal["anywhere", "tile", "region"]  # where a model's weights can be used
# Given n, the windows of a split that start every n days, some at a time, as `ocean.windows.Windows`.
Samples = Callable[[int], Iterable[Any]]


class Model(nn.Module):
    """A model that can be trained; its parts may add terms to the loss by a method `penalty()`."""

    def auxiliary_loss(self) -> Tensor:
        """Return the loss terms of the last forward pass: the sum of `penalty()` over all parts that have one."""
        penalties = [m.penalty() for m in self.modules() if hasattr(m, "penalty")]  # type: ignore[operator]
        return torch.stack(penalties).sum() if penalties else torch.zeros(())


class Backbone(Model):
    """Layers that map node features to node features.

    `forward(x, graph)` takes `x` of the shape the graph stores (`[B, N, width]` on a grid,
    `[nodes, width]` on a sparse graph) and returns the same, except for the channels if its `ends` differ.

    `stages` names the parts of the model that can be trained before the whole. `row` names the graph token, if the
    model has one (see `encode`). The model needs the first `eigenpairs` Laplacian eigenpairs of its graphs.
    """

    width: int  # inside; `ends` are the widths of input and output
    stages: tuple[str, ...] = ()
    row: str | None = None
    eigenpairs = 0

    @property
    def ends(self) -> tuple[int, int]:
        """The number of channels that it takes and returns."""
        return self.width, self.width

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Map `x` to new features of the same nodes."""
        raise NotImplementedError

    def encode(self, x: Tensor, graph: Graph) -> tuple[Tensor, Tensor | None]:
        """Return the node features and, if the model keeps one, each graph's own row `[graphs, width]`."""
        return self(x, graph), None

    def enter(self, stage: str | None) -> None:
        """Use only the part that is trained in `stage`, one of `stages`; use the whole model if it is None."""


class ForecastModel(Model):
    """A model that maps `history [B, N, history]` on a graph to standardised anomalies `[B, N, horizon]`.

    A network predicts the `change` from its `base`: the last day of history, the forecast of `linear`, or 0.
    Except in training, it adds the `share [horizon]` of the change that cross-fitting supports, if it has one. A
    base with a memory is given the days before a window at the beginning of `history`.
    """

    BASE: ClassVar[Base] = "persistence"
    HOME: ClassVar[Home] = "anywhere"
    base: Base
    linear: "LinearSystem | None"
    share: Tensor | None

    def __init__(self) -> None:
        super().__init__()
        self.base, self.linear = self.BASE, None
        self.register_buffer("share", None)

    @property
    def before(self) -> int:
        """The number of days before its history that a forecast needs."""
        return 0 if self.linear is None else self.linear.before

    def forward(self, history: Tensor, graph: Graph) -> Tensor:
        """Forecast the coming days."""
        change = self.added(history, graph)
        if self.base == "none":
            return change
        return change + (history[..., -1:] if self.linear is None else self.linear(history, graph))

    def added(self, history: Tensor, graph: Graph) -> Tensor:
        """Return the share of the change that is added to the base."""
        change = self.change(history if self.linear is None else history[..., -self.linear.history :], graph)
        return change if self.share is None or self.training else self.share * change

    def change(self, history: Tensor, graph: Graph) -> Tensor:
        """Return the change that is added to the base."""
        raise NotImplementedError

    def set_base(self, base: Base) -> None:
        """Forecast the change from another base; raise SSTCastError if this model cannot."""
        self.base = base


class LinearSystem(ForecastModel):
    """A forecaster whose weights are buffers, which `fit` computes from windows that start `STRIDE` days apart."""

    STRIDE = 7

    def __init__(self, history: int, horizon: int) -> None:
        super().__init__()
        self.history, self.horizon = history, horizon

    def ahead(self, windows: Any) -> Tensor:
        """Forecast all windows of a piece of `Samples`: `[starts, horizon, tile, N]`."""
        batch = windows.batch(torch.arange(len(windows), device=windows.device))
        forecast = self(batch.history, batch.graph).unflatten(0, (windows.starts, -1))
        return forecast.movedim(-1, 1)

    def fit(self, train: Samples, validation: Samples | None, refit: bool = True) -> dict[str, Any]:
        """Fit the weights to the training windows; choose options, such as a penalty, on the validation windows.

        With the chosen options, the weights are fitted again to both splits, unless `refit` is false. Without
        `validation`, the first option is used, with the training windows only. Returns the chosen options by name.
        """
        return {}


class LaplacianEncoding(nn.Module):
    """`rho(sum_k phi(v_ik, lambda_k))` over k eigenpairs (LapPE; Rampasek et al. 2022, arXiv:2205.12454).

    In training each eigenvector of a graph gets a random sign in each pass, since the sign is arbitrary. Samples
    on one grid share the signs.
    """

    def __init__(self, width: int, pairs: int = 16, hidden: int = 32) -> None:
        super().__init__()
        self.pairs = pairs
        self.phi = nn.Sequential(nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.rho = nn.Linear(hidden, width)

    def forward(self, graph: Graph) -> Tensor:
        """Return `[1, H*W, width]` on a grid, `[nodes, width]` on a sparse graph."""
        vectors, values = graph.laplacian(self.pairs)
        if self.training:
            vectors = vectors * graph.broadcast(torch.randint(0, 2, values.shape, device=values.device) * 2.0 - 1)
        values = graph.broadcast(values).expand_as(vectors)
        pairs = self.phi(torch.stack([vectors, values], dim=-1))
        return self.rho(pairs.masked_fill(values.unsqueeze(-1) == 0, 0).sum(-2))  # 0: padding


class RandomWalkEncoding(nn.Module):
    """A linear map of landing probabilities, each scaled by BatchNorm (Dwivedi et al. 2022, arXiv:2110.07875)."""

    def __init__(self, width: int, steps: int = 16) -> None:
        super().__init__()
        self.steps = steps
        self.norm = nn.BatchNorm1d(steps)
        self.linear = nn.Linear(steps, width)

    def forward(self, graph: Graph) -> Tensor:
        """Return `[1, H*W, width]` on a grid, `[nodes, width]` on a sparse graph."""
        walk = graph.random_walk(self.steps)
        rows = walk.flatten(0, -2)
        if len(rows) == 1:  # a single node has no variance
            norm = self.norm
            rows = F.batch_norm(rows, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps)
        else:
            rows = self.norm(rows)
        return self.linear(rows.reshape(walk.shape))


def build_encoding(
    name: Positional, width: int, pairs: int = 16, steps: int = 16
) -> LaplacianEncoding | RandomWalkEncoding | None:
    """Build the encoding called `name`, of so many eigenpairs or steps; None for `none`."""
    if name == "none":
        return None
    return LaplacianEncoding(width, pairs) if name == "lap" else RandomWalkEncoding(width, steps)


class ConvolutionEncoder(nn.Module):
    """A convolution over days whose channels are the nodes of a tile, and a linear map, each with a LeakyReLU.

    As in the code of Cai et al. (2023): every node sees the whole tile, and weights belong to positions in it.
    """

    def __init__(self, nodes: int, history: int, width: int) -> None:
        super().__init__()
        self.nodes = nodes
        self.mix = nn.Conv1d(nodes, nodes, 3, padding=1)
        self.linear = nn.Linear(history, width)

    def forward(self, history: Tensor) -> Tensor:
        """Map `[B, nodes, history]` to `[B, nodes, width]`; raise SSTCastError for another number of nodes."""
        if history.shape[-2] != self.nodes:
            raise SSTCastError(
                f"model.encoder: built for tiles of {self.nodes} nodes, not {history.shape[-2]}; use such tiles"
            )
        return F.leaky_relu(self.linear(F.leaky_relu(self.mix(history), 0.1)), 0.1)


class Forecaster(ForecastModel):
    """History encoder -> backbone -> MLP head, which forecasts the change from the base.

    So the network need not learn to repeat its input, or what a linear map already predicts. The encoder and the
    head act on each node separately, so the model has the equivariance of its backbone, unless the encoder is a
    `convolution` over the `nodes` of a tile (`ConvolutionEncoder`). With `positional`, node features include the
    position in the graph (see `build_encoding`), and with `geography`, the place on the globe and the time
    of year. The head has one hidden layer of twice the width (Cai et al. 2023, D.4: 256 and 512).
    """

    def __init__(
        self,
        backbone: Backbone,
        history: int,
        horizon: int,
        positional: Positional = "none",
        geography: bool = False,
        encoder: Encoder = "linear",
        nodes: int = 0,
    ) -> None:
        super().__init__()
        width, outside = backbone.ends
        convolve = encoder == "convolution"
        self.encoder = ConvolutionEncoder(nodes, history, width) if convolve else nn.Linear(history, width)
        self.position = build_encoding(positional, width)
        self.geography = nn.Linear(GEOGRAPHY, width, bias=False) if geography else None
        self.backbone = backbone
        self.head = nn.Sequential(nn.Linear(outside, 2 * outside), nn.ReLU(), nn.Linear(2 * outside, horizon))

    def change(self, history: Tensor, graph: Graph) -> Tensor:
        """Return the change; raise SSTCastError if the graph lacks the requested geography."""
        x = self.encoder(history)
        if self.position is not None:
            x = x + self.position(graph)
        if self.geography is not None:
            if graph.geography is None:
                raise SSTCastError("geography: these graphs have no geography; set model.geography=false")
            x = x + self.geography(graph.geography)
        return self.head(self.backbone(x, graph))


class GraphArgument:
    """A forward pre-hook of the backbone `name`, which reads `edge_dim` edge features, 0 for none.

    In place of a graph, the backbone then takes an `edge_index [2, edges]`, with `batch [nodes]` if it is of
    several graphs, or PyG's `Data` or `Batch`. Raises SSTCastError if an `edge_index` is none, or if there are not
    as many features as it was built for.
    """

    def __init__(self, name: str, edge_dim: int) -> None:
        self.name, self.edge_dim = name, edge_dim

    def __call__(
        self, backbone: Backbone, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of `forward`, the second of them a graph."""
        names = dict(zip(("x", "graph", "batch"), arguments, strict=False)) | named
        names |= {"graph": names.pop("edge_index")} if "edge_index" in names else {}
        if "graph" not in names or isinstance(names["graph"], GridGraph):
            return arguments, named
        from torch_geometric.data import Data

        x, graph, batch = names["x"], names["graph"], names.get("batch")
        if isinstance(graph, Tensor):
            graph = self._of_edges(graph, batch, len(x))
        elif batch is not None:
            raise SSTCastError(f"model {self.name}: a graph has its batch; pass batch only with an edge_index")
        elif isinstance(graph, Data):
            graph = SparseGraph.from_pyg(graph)
        width = backbone.ends[0]
        if x.shape[-1] != width:
            raise SSTCastError(
                f"model {self.name}: got {x.shape[-1]} node features, expected {width}; "
                f"map them first, for instance by torch.nn.Linear({x.shape[-1]}, {width})"
            )
        if self.edge_dim and graph.edge_attr is not None:
            found = {edges.shape[-1] for edges in graph.edge_attr}
            if found != {self.edge_dim}:
                has = ", ".join(map(str, sorted(found)))
                raise SSTCastError(
                    f"model {self.name}: edge_dim is {self.edge_dim}, but the graph has {has} edge features; "
                    f"build it with edge_dim={has}, or with data=, the first graph"
                )
        return (x, graph), {}

    def _of_edges(self, edge_index: Tensor, batch: Tensor | None, nodes: int) -> SparseGraph:
        whole = edge_index.layout == torch.strided and not edge_index.is_floating_point()
        if not whole or edge_index.ndim != 2 or len(edge_index) != 2:
            kind = f"{str(edge_index.layout).removeprefix('torch.')} {edge_index.dtype} {list(edge_index.shape)}"
            raise SSTCastError(
                f"model {self.name}: edge_index is {kind}; give whole numbers [2, edges], for instance by "
                "torch_geometric.utils.to_edge_index of a sparse matrix"
            )
        if batch is None:
            return SparseGraph(edge_index, edge_index.new_zeros(nodes), 1)
        if len(batch) != nodes or bool((batch.diff() < 0).any()):
            raise SSTCastError(f"model {self.name}: batch: give the graph of each of the {nodes} nodes, in order")
        return SparseGraph(edge_index, batch, int(batch.max()) + 1 if nodes else 0)
