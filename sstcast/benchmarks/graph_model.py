"""`GraphModel`: encodes node and edge features, applies a backbone, predicts for graphs, nodes or pairs."""

import torch
from torch import Tensor, nn

from sstcast.benchmarks.config import BenchmarkConfig, PredictorConfig, ReadoutName
from sstcast.benchmarks.packed import GraphBatch, Graphs
from sstcast.benchmarks.registry import Categories, Dataset
from sstcast.errors import SSTCastError
from sstcast.graphs.graph import Graph
from sstcast.graphs.sparse import SparseGraph, check_weights
from sstcast.models import build_model, default_options, reads_edges, takes_graphs
from sstcast.models.base import Backbone, Model, build_encoding
from sstcast.models.mpnn import VirtualNode
from sstcast.models.norms import ACTIVATIONS

HIGHEST_DEGREE = 255  # higher degrees count as this one


class CategoricalEncoder(nn.Module):
    """The sum of one embedding per column. With OGB's sizes, these are OGB's atom and bond encoders."""

    def __init__(self, sizes: Categories, width: int) -> None:
        super().__init__()
        tables = [nn.Embedding(size, width) for size in sizes]
        for table in tables:
            nn.init.xavier_uniform_(table.weight)
        self.embeddings = nn.ModuleList(tables)

    def forward(self, x: Tensor) -> Tensor:
        """Map whole numbers `[rows, columns]` to `[rows, width]`."""
        return torch.stack([embed(x[:, i]) for i, embed in enumerate(self.embeddings)]).sum(0)


class LinearEncoder(nn.Module):
    """Dropout on real features `[rows, features]`, then a linear map unless `width` is None."""

    def __init__(self, features: int, width: int | None, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(features, width) if width is not None else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Map raw features `x [..., features]` to `[..., width]`, or return them in single precision."""
        return self.linear(self.dropout(x.float()))


class DegreeEncoder(nn.Module):
    """An embedding of the number of incoming edges (Ying et al. 2021, arXiv:2106.05234).

    Its initial weights are as small as the embeddings of categories. Torch's N(0, 1) would outweigh the features.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(HIGHEST_DEGREE + 1, width)
        nn.init.xavier_uniform_(self.embedding.weight)

    def forward(self, graph: SparseGraph) -> Tensor:
        """Return `[nodes, width]`."""
        ones = torch.ones(len(graph.batch), 1, device=graph.batch.device)
        return self.embedding(graph.neighbors(ones).long().clamp(max=HIGHEST_DEGREE).squeeze(1))


def build_encoder(
    kind: Categories | str, features: int, width: int | None, dropout: float = 0.0
) -> nn.Module | None:
    """Build the encoder of `features` columns declared as `kind`. Return None if the kind is `none`.

    Without a `width`, the encoder does not map real numbers.
    """
    if isinstance(kind, tuple) and width is not None:
        return CategoricalEncoder(kind, width)
    return LinearEncoder(features, width, dropout) if kind == "linear" else None


class Readout(nn.Module):
    """The mean, sum or maximum of the nodes, or the backbone's own row for each graph.

    `virtual-node` is the virtual node of message passing, updated once more from the last layer's nodes. `token`
    is the graph token of TokenGT, or the graph node of Graphormer (`spdgt`). Raises SSTCastError if the backbone
    has no such row.
    """

    def __init__(self, kind: ReadoutName, backbone: Backbone) -> None:
        super().__init__()
        self.kind = kind
        virtual = kind == "virtual-node"
        self.update = VirtualNode(backbone.width, backbone.virtual_hidden) if virtual else None
        if kind in ("virtual-node", "token") and kind != backbone.readout:
            raise SSTCastError(f"predictor.readout: this model has no {kind}; choose mean, sum or max")
        if kind == "virtual-node" and backbone.ends[1] != backbone.width:
            raise SSTCastError("predictor.readout: virtual-node needs a head; choose mean, sum or max")

    def forward(self, x: Tensor, rows: Tensor | None, graph: Graph) -> Tensor:
        """Reduce `x [nodes, width]` to `[graphs, width]`. `rows [graphs, width]` holds the backbone's own rows."""
        if self.update is not None:
            return self.update(x, rows, graph)
        if self.kind == "token":
            assert rows is not None
            return rows
        assert self.kind in ("mean", "sum", "max")
        return graph.pool(x, self.kind)


class GraphModel(Model):
    """Encoders, a backbone and a head: `outputs` numbers for each graph, or for each node.

    Without the head, the backbone's last layer returns the outputs.
    """

    stage_prefix = "head."  # parameters with this prefix are new in each stage

    def __init__(
        self,
        nodes: nn.Module | None,
        edges: nn.Module | None,
        backbone: Backbone,
        outputs: int,
        graph_level: bool,
        config: PredictorConfig,
    ) -> None:
        super().__init__()
        width, last = backbone.ends
        self.nodes, self.edges = nodes, edges
        self.constant = nn.Parameter(torch.randn(width) / width**0.5) if nodes is None else None
        self.degree = DegreeEncoder(width) if config.degree else None
        self.position = build_encoding(config.positional, width, config.pairs, config.steps)
        self.backbone = backbone
        self.readout = Readout(config.readout, backbone) if graph_level else None
        sizes = last, outputs, config.head_layers
        self.head = perceptron(*sizes, config.head_activation) if config.head else nn.Sequential()
        self.initial_head = {name: value.clone() for name, value in self.head.state_dict().items()}

    def enter(self, stage: str | None) -> None:
        """Use only the part trained in `stage` (all if None), with the initial head: each stage has its own."""
        self.backbone.enter(stage)
        self.head.load_state_dict(self.initial_head)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return `[graphs, outputs]`, or `[rows, outputs]` for the requested nodes."""
        x = self.encode_nodes(batch)
        edges = None if self.edges is None else self.edges(batch.edge_attr)
        graph = batch.graph.with_edges(edges)
        if self.readout is not None:
            return self.head(self.readout(*self.backbone.encode(x, graph), graph))
        x = self.backbone(x, graph)
        return self.head(x if batch.rows is None else x[batch.rows])

    def encode_nodes(self, batch: GraphBatch) -> Tensor:
        """Return `[nodes, width]` from features, degrees and positions."""
        if self.constant is not None:
            x = self.constant.expand(len(batch.graph.batch), -1)
        else:
            assert self.nodes is not None
            x = self.nodes(batch.x)
        if self.degree is not None:
            x = x + self.degree(batch.graph)
        return x if self.position is None else x + self.position(batch.graph)


def check_model(config: BenchmarkConfig) -> Backbone:
    """Return the configured model without memory for its weights, before data are downloaded.

    Raises SSTCastError if no data could suit it: it forecasts only tiles of the sea, it has no such option, value
    or stage, or it needs encoder or head.
    """
    name, predictor = config.model.name, config.predictor
    if not takes_graphs(name):
        raise SSTCastError(f"model {name}: it forecasts tiles, not graphs; see `sstcast models`")
    for key, part, enabled in (("in_width", "encoder", predictor.encoder), ("out_width", "head", predictor.head)):
        if not enabled and key not in default_options(name):
            raise SSTCastError(f"predictor.{part}: {name} cannot replace it; leave it on, or choose mpnn")
    with torch.device("meta"):
        backbone: Backbone = build_model(name, **config.model.options)
    if foreign := set(config.stages) - set(backbone.stages):
        raise SSTCastError(f"stages: {name} has no {min(foreign)} stage; leave it out")
    return backbone


def build_graph_model(config: BenchmarkConfig, dataset: Dataset, graphs: Graphs, outputs: int) -> GraphModel:
    """Build the configured predictor for these graphs.

    Raises SSTCastError if an option does not suit the model or the data.
    """
    name, options, predictor = config.model.name, config.model.options, config.predictor
    defaults = default_options(name)
    settings = defaults | options
    uses_edges = dataset.edge != "none" and reads_edges(name, options)
    if "edge_dim" in defaults:
        options["edge_dim"] = settings["width"] if uses_edges else 0
    columns, edge_columns = (0 if table is None else table.shape[1] for table in (graphs.x, graphs.edge_attr))
    for key, needed in (("encoder", not predictor.encoder), ("normalise", predictor.normalise == "row")):
        if needed and dataset.node != "linear":
            raise SSTCastError(f"predictor.{key}: {dataset.name} has no real-valued features; leave it out")
    if not predictor.encoder:
        options["in_width"] = columns
    if not predictor.head:
        options["out_width"] = outputs
    backbone = build_model(name, **options)
    width = backbone.ends[0] if predictor.encoder else None
    nodes = build_encoder(dataset.node, columns, width, predictor.input_dropout)
    edges = build_encoder(dataset.edge, edge_columns, backbone.width) if uses_edges else None
    return GraphModel(nodes, edges, backbone, outputs, graphs.level == "graph", predictor)


def edge_weights(backbone: Backbone, dataset: Dataset, graphs: Graphs) -> Tensor | None:
    """Return the weights of the edges if the backbone reads them.

    Raises SSTCastError for a weight that is negative or not finite.
    """
    if graphs.edge_weight is None or not backbone.reads_weights:
        return None
    try:
        check_weights(graphs.edge_weight)
    except ValueError as error:
        raise SSTCastError(f"{dataset.name}: {error}") from error
    return graphs.edge_weight


def positions_of(model: GraphModel) -> tuple[int, int]:
    """Return how many eigenpairs and random-walk steps the model needs from its graphs."""
    pairs = getattr(model.position, "pairs", 0)
    return max(pairs, model.backbone.eigenpairs), getattr(model.position, "steps", 0)


def perceptron(width: int, outputs: int, hidden: int, activation: str) -> nn.Sequential:
    """Return `hidden` linear layers of size `width`, each with an activation, then the output layer."""
    layers: list[nn.Module] = []
    for _ in range(hidden):
        layers += [nn.Linear(width, width), ACTIVATIONS[activation]()]
    return nn.Sequential(*layers, nn.Linear(width, outputs))
