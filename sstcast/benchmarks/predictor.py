"""`GraphPredictor`: encodes node and edge features, applies a backbone, predicts for graphs, nodes or pairs."""

import torch
from torch import Tensor, nn

from sstcast.benchmarks.config import BenchmarkConfig, PredictorConfig
from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.features import DegreeEncoder, LinearEncoder, Readout, build_encoder
from sstcast.benchmarks.packed import GraphBatch, Graphs
from sstcast.errors import SSTCastError
from sstcast.models import build_model, default_options, takes_graphs
from sstcast.models.base import Backbone, Model
from sstcast.models.layers import reads_edges
from sstcast.models.norms import ACTIVATIONS
from sstcast.models.positional_encodings import LaplacianEncoding, RandomWalkEncoding


class GraphPredictor(Model):
    """Encoders, a backbone and a head: `outputs` numbers for each graph, or for each node.

    Without the head, the backbone's last layer returns the outputs.
    """

    of_each_stage = "head."  # parameters with this prefix are new in each stage

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
        self.position: nn.Module | None = None
        if config.positional == "lap":
            self.position = LaplacianEncoding(width, config.pairs)
        elif config.positional == "rwse":
            self.position = RandomWalkEncoding(width, config.steps)
        self.backbone = backbone
        self.readout = Readout(config.readout, backbone) if graph_level else None
        self.head = (
            perceptron(last, outputs, config.head_layers, config.head_activation)
            if config.head
            else nn.Sequential()
        )
        self.untrained_head = {name: value.clone() for name, value in self.head.state_dict().items()}

    def enter(self, stage: str | None) -> None:
        """Use only the part trained in `stage` (all if None), with a new head: each stage has its own head."""
        self.backbone.enter(stage)
        self.head.load_state_dict(self.untrained_head)

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


def build_predictor(config: BenchmarkConfig, dataset: Dataset, graphs: Graphs, outputs: int) -> GraphPredictor:
    """Build the configured predictor for these graphs.

    Raises SSTCastError if the model works only on tiles of the sea, needs the encoder or head that the predictor
    leaves out, or if its options are wrong.
    """
    name, options, predictor = config.model.name, config.model.options, config.predictor
    defaults = default_options(name)
    if not takes_graphs(name):
        raise SSTCastError(f"model {name}: it forecasts tiles, not graphs; see `sstcast models`")
    known = defaults | options
    sighted = "edge_dim" in defaults and dataset.edge != "none"
    if "conv" in known:
        sighted = sighted and reads_edges(known["conv"], known.get("attention", "none"))
    if "edge_dim" in defaults:
        options["edge_dim"] = known["width"] if sighted else 0
    columns = _columns(graphs.x)
    if not predictor.encoder:
        if dataset.node != "linear":
            raise SSTCastError(f"predictor.encoder: {dataset.name} has no real-valued features; leave it on")
        options["in_width"] = columns
    if not predictor.head:
        options["out_width"] = outputs
    for key, part in (("in_width", "encoder"), ("out_width", "head")):
        if key in options and key not in defaults:
            raise SSTCastError(f"predictor.{part}: {name} cannot replace it; leave it on, or choose mpnn")
    backbone = build_model(name, **options)
    return GraphPredictor(
        build_encoder(dataset.node, columns, backbone.ends[0], predictor.input_dropout)
        if predictor.encoder
        else LinearEncoder(columns, None, predictor.input_dropout),
        build_encoder(dataset.edge, _columns(graphs.edge_attr), backbone.width) if sighted else None,
        backbone,
        outputs,
        graphs.level == "graph",
        predictor,
    )


def positions_of(model: GraphPredictor) -> tuple[int, int]:
    """Return how many eigenpairs and random-walk steps the model needs from its graphs."""
    own = model.position.pairs if isinstance(model.position, LaplacianEncoding) else 0
    pairs = max(own, model.backbone.eigenpairs)
    return pairs, model.position.steps if isinstance(model.position, RandomWalkEncoding) else 0


def perceptron(width: int, outputs: int, hidden: int, activation: str) -> nn.Sequential:
    """Return `hidden` linear layers of size `width`, each with an activation, then the output layer."""
    layers: list[nn.Module] = []
    for _ in range(hidden):
        layers += [nn.Linear(width, width), ACTIVATIONS[activation]()]
    return nn.Sequential(*layers, nn.Linear(width, outputs))


def _columns(features: Tensor | None) -> int:
    return 0 if features is None else features.shape[1]
