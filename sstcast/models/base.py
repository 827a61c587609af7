"""Base classes of all models, and `Forecaster`, which turns a `Backbone` into a forecast model."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sstcast.errors import SSTCastError
from sstcast.graphs.graph import GEOGRAPHY_CHANNELS, Graph
from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph, check_weights
from sstcast.models.norms import BatchNorm

Base = Literal["persistence", "linear", "local", "none"]
Encoder = Literal["linear", "convolution"]
Positional = Literal["none", "lap", "rwse"]
Transfer = Literal["anywhere", "tile", "region"]  # weights fit any tiles, tiles of one shape, or one region
SUMMARIES = 2  # numbers that an index tells on a day (`predictors.index.known_index`)
# A function of n that yields the windows of a split that start every n days, in parts (`ocean.windows.Windows`).
Samples = Callable[[int], Iterable[Any]]


class Model(nn.Module):
    """A model that the trainer accepts. Its modules may add terms to the loss through a method `penalty()`."""

    def auxiliary_loss(self) -> Tensor:
        """Return the sum of `penalty()` over all modules that have one, for the last forward pass."""
        penalties = [m.penalty() for m in self.modules() if hasattr(m, "penalty")]  # type: ignore[operator]
        return torch.stack(penalties).sum() if penalties else next(self.parameters()).new_zeros(())


class Backbone(Model):
    """Layers that map node features to node features.

    Features have the shape in which the graph stores them: `[B, N, width]` on a grid, `[nodes, width]` on a sparse
    graph.
    """

    width: int  # of the layers; `ends` are the widths of input and output
    stages: tuple[str, ...] = ()  # parts of the model that can be trained before the whole
    readout: str | None = None  # the name of the graph's own features, if `encode` returns any
    virtual_hidden: int | None = None  # hidden units of a virtual node, if they are given
    in_graph = False  # whether a virtual node becomes a node of each graph, which only edge lists can take
    eigenpairs = 0  # Laplacian eigenpairs of each graph that the model reads

    @property
    def ends(self) -> tuple[int, int]:
        """The number of input and output channels."""
        return self.width, self.width

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Return new features of the same nodes."""
        raise NotImplementedError

    def encode(self, x: Tensor, graph: Graph) -> tuple[Tensor, Tensor | None]:
        """Return the node features, and the features of each graph `[graphs, width]` if the model has any."""
        return self(x, graph), None

    @property
    def reads_weights(self) -> bool:
        """Whether a layer reads the weights of edges."""
        return any(getattr(module, "reads_weights", False) for module in self.modules() if module is not self)

    def enter(self, stage: str | None) -> None:
        """Restrict the model to the part that `stage`, one of `stages`, trains. None restores the whole model."""


class ForecastModel(Model):
    """A model that maps standardised anomalies `[B, N, history]` on a graph to `[B, N, horizon]`.

    A network predicts the `change` from its `base`: the last day of history, the forecast of `linear`, or 0. If it
    has a `share [horizon]` from cross-fitting, it adds only this share of the change, except in training. A base
    with a memory reads the days before the window, which come first in `history`. A network reads predictors
    besides SST before the days of history: `reads` has the number of values of each. Its base does not read them.
    """

    BASE: ClassVar[Base] = "persistence"
    TRANSFER: ClassVar[Transfer] = "anywhere"
    base: Base
    linear: "LinearSystem | None"
    share: Tensor | None

    def __init__(self) -> None:
        super().__init__()
        self.base, self.linear = self.BASE, None
        self.reads: dict[str, int] = {}
        self.register_buffer("share", None)

    @property
    def before(self) -> int:
        """The number of days that a forecast reads before its history."""
        return 0 if self.linear is None else self.linear.before

    def forward(self, history: Tensor, graph: Graph) -> Tensor:
        """Forecast the coming days."""
        change = self.scaled_change(history, graph)
        if self.base == "none":
            return change
        return change + (history[..., -1:] if self.linear is None else self.linear(history, graph))

    def scaled_change(self, history: Tensor, graph: Graph) -> Tensor:
        """Return the change times its share, `[B, N, horizon]`."""
        change = self.change(self.network_input(history, graph), graph)
        return change if self.share is None or self.training else self.share * change

    def network_input(self, history: Tensor, graph: Graph) -> Tensor:
        """Return what the network reads: the channels of the predictors, 0 on land, then the days of history."""
        days = history if self.linear is None else history[..., -self.linear.history :]
        if not self.reads:
            return days
        assert isinstance(graph, GridGraph)
        known = [channels_of(graph.predictors[name], count) for name, count in self.reads.items()]
        ocean = graph.mask.unsqueeze(-1)
        return torch.cat([*(channels * ocean for channels in known), days], dim=-1)

    def change(self, history: Tensor, graph: Graph) -> Tensor:
        """Return the predicted change from the base, `[B, N, horizon]`. `history` is from `network_input`."""
        raise NotImplementedError

    def set_base(self, base: Base) -> None:
        """Predict the change from another base. Raises SSTCastError if the model does not support it."""
        self.base = base


def values_of(kind: str, history: int, horizon: int) -> int:
    """Return the number of values that a network reads of a kind of predictor at a node."""
    return {"index": SUMMARIES, "grid": history, "forecast": horizon, "static": 1}[kind]


def channels_of(known: Tensor, count: int) -> Tensor:
    """Return the channels `[B, N, count + 1]` of what is `known [B, N, values]` of a predictor.

    They are its last `count` values, 0 where they are not known, then the share of them that is.
    """
    last = known[..., -count:]
    return torch.cat([last.nan_to_num(0.0), last.isfinite().to(last.dtype).mean(-1, keepdim=True)], dim=-1)


class LinearSystem(ForecastModel):
    """A forecaster whose weights are buffers, which `fit` computes from windows that start some days apart, by
    default `STRIDE`.
    """

    STRIDE = 7

    def __init__(self, history: int, horizon: int) -> None:
        super().__init__()
        self.history, self.horizon = history, horizon

    def forecast_windows(self, windows: Any) -> Tensor:
        """Forecast all windows of one part of `Samples`: `[starts, horizon, tile, N]`."""
        batch = windows.batch(torch.arange(len(windows), device=windows.device))
        forecast = self(batch.history, batch.graph).unflatten(0, (windows.starts, -1))
        return forecast.movedim(-1, 1)

    def fit(self, train: Samples, validation: Samples | None, refit: bool = True) -> dict[str, Any]:
        """Fit the weights.

        Args:
            train: the training windows.
            validation: the windows on which options such as a penalty are chosen. If None, the weights are
                fitted to the training windows alone, with the first option or, with memory or stencil, the best
                by cross-validation over training years.
            refit: whether the weights are fitted again, to both splits, with the chosen options.

        Returns:
            The chosen options by name.
        """
        return {}


class LaplacianEncoding(nn.Module):
    """`rho(sum_k phi(v_ik, lambda_k))` over k eigenpairs (LapPE; Rampasek et al. 2022, arXiv:2205.12454).

    Eigenvectors have an arbitrary sign, so training draws a random one for each vector of a graph in each pass.
    The samples of a grid share these signs.
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
    """BatchNorm and a linear map of the landing probabilities (RWSE; Dwivedi et al. 2022, arXiv:2110.07875)."""

    def __init__(self, width: int, steps: int = 16) -> None:
        super().__init__()
        self.steps = steps
        self.norm = BatchNorm(steps)
        self.linear = nn.Linear(steps, width)

    def forward(self, graph: Graph) -> Tensor:
        """Return `[1, H*W, width]` on a grid, `[nodes, width]` on a sparse graph."""
        walk = graph.random_walk(self.steps)
        return self.linear(self.norm(walk.flatten(0, -2)).view(walk.shape))


def build_encoding(
    name: Positional, width: int, pairs: int = 16, steps: int = 16
) -> LaplacianEncoding | RandomWalkEncoding | None:
    """Build a positional encoding from `pairs` eigenpairs, or from walks of up to `steps` steps. Returns None for
    `none`.
    """
    if name == "none":
        return None
    return LaplacianEncoding(width, pairs) if name == "lap" else RandomWalkEncoding(width, steps)


class ConvolutionEncoder(nn.Module):
    """A convolution over days with the nodes of a tile as channels, and a linear map, each with a LeakyReLU.

    This is the encoder in the released code of Cai et al. (2023). Every node sees the whole tile, and weights
    belong to positions in it.
    """

    def __init__(self, nodes: int, history: int, width: int) -> None:
        super().__init__()
        self.nodes = nodes
        self.mix = nn.Conv1d(nodes, nodes, 3, padding=1)
        self.linear = nn.Linear(history, width)

    def forward(self, history: Tensor) -> Tensor:
        """Map `[B, nodes, history]` to `[B, nodes, width]`. Raises SSTCastError for another number of nodes."""
        if history.shape[-2] != self.nodes:
            raise SSTCastError(
                f"model.encoder: built for tiles of {self.nodes} nodes, not {history.shape[-2]}; use those"
            )
        return F.leaky_relu(self.linear(F.leaky_relu(self.mix(history), 0.1)), 0.1)


class Forecaster(ForecastModel):
    """An encoder of the history, a backbone, and a perceptron that returns the change from the base.

    Encoder and head act on each node alone, so the model is as equivariant as its backbone, unless the encoder is
    a `ConvolutionEncoder`. The head has one hidden layer of twice the width (Cai et al. 2023, D.4: 256 and 512).

    Args:
        backbone: the layers between encoder and head.
        positional: the positional encoding added to the node features: `lap`, `rwse` or `none`.
        geography: whether a linear map of place and time (`Graph.geography`) is added to the node features.
        encoder: `linear`, or `convolution` over the nodes of a tile.
        nodes: the number of nodes in a tile, for `convolution`.

    Raises SSTCastError if the backbone adds a node to the graph.
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
        if backbone.in_graph:
            raise SSTCastError("model.virtual_node: tiles have no place for a node of the graph; choose true")
        width, out_width = backbone.ends
        convolve = encoder == "convolution"
        self.encoder = ConvolutionEncoder(nodes, history, width) if convolve else nn.Linear(history, width)
        self.position = build_encoding(positional, width)
        self.geography = nn.Linear(GEOGRAPHY_CHANNELS, width, bias=False) if geography else None
        self.backbone = backbone
        self.head = nn.Sequential(
            nn.Linear(out_width, 2 * out_width), nn.ReLU(), nn.Linear(2 * out_width, horizon)
        )

    def change(self, history: Tensor, graph: Graph) -> Tensor:
        """Return the change. Raises SSTCastError if the model reads the geography and the graph has none."""
        x = self.encoder(history)
        if self.position is not None:
            x = x + self.position(graph)
        if self.geography is not None:
            if graph.geography is None:
                raise SSTCastError("geography: these graphs have no geography; set model.geography=false")
            x = x + self.geography(graph.geography)
        return self.head(self.backbone(x, graph))


class GraphArgument:
    """A forward pre-hook that turns an `edge_index`, or a `Data` or `Batch` of PyG, into a `SparseGraph`.

    An `edge_index [2, edges]` may come with `batch [nodes]`, the graph of each node, and `edge_attr [edges, f]`.
    The hook raises SSTCastError if one of them is malformed, for any other argument, or if the numbers of features
    differ from those of the backbone `name`, which is built for `edge_dim` edge features (0 for none), if it
    `reads_edges`, or if the backbone reads weights of edges and one is negative or not finite.
    """

    def __init__(self, name: str, edge_dim: int, reads_edges: Callable[[], bool]) -> None:
        self.name, self.edge_dim, self.reads_edges = name, edge_dim, cache(reads_edges)

    def __call__(
        self, backbone: Backbone, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of `forward`: the node features and the graph."""
        names = dict(zip(("x", "graph", "batch"), arguments, strict=False)) | keywords
        names |= {"graph": names.pop("edge_index")} if "edge_index" in names else {}
        if "graph" not in names or isinstance(names["graph"], GridGraph):
            return arguments, keywords
        from torch_geometric.data import Data

        x, graph, batch, edge_attr = (names.pop(name, None) for name in ("x", "graph", "batch", "edge_attr"))
        if names:
            raise SSTCastError(f"model {self.name}: does not read {min(names)}; leave it out")
        if isinstance(graph, Tensor):
            graph = Data(edge_index=graph, batch=batch, edge_attr=edge_attr)
        elif batch is not None or edge_attr is not None:
            raise SSTCastError(
                f"model {self.name}: pass batch and edge_attr only with an edge_index; other graphs hold theirs"
            )
        if isinstance(graph, Data):
            try:
                graph = SparseGraph.from_pyg(graph, len(x), x.dtype)
                if backbone.reads_weights and graph.edge_weight is not None:
                    check_weights(graph.edge_weight[0])
            except ValueError as error:
                raise SSTCastError(f"model {self.name}: {error}") from error
        width = backbone.ends[0]
        if x.shape[-1] != width:
            raise SSTCastError(
                f"model {self.name}: got {x.shape[-1]} node features, expected {width}; "
                f"map them first, for instance by torch.nn.Linear({x.shape[-1]}, {width})"
            )
        if self.edge_dim and graph.edge_attr is not None:
            edge_dims = {edges.shape[-1] for edges in graph.edge_attr}
            if edge_dims != {self.edge_dim} and self.reads_edges():
                numbers = ", ".join(map(str, sorted(edge_dims)))
                raise SSTCastError(
                    f"model {self.name}: edge_dim is {self.edge_dim}, but the graph has {numbers} edge features; "
                    f"build it with edge_dim={numbers}, or with data=, the first graph"
                )
        return (x, graph), {}
