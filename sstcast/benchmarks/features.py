"""Encoders of node and edge features, and the readout of a graph's vector from its nodes."""

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sstcast.benchmarks.dataset import Categories, Dataset
from sstcast.benchmarks.packed import Graphs
from sstcast.errors import SSTCastError
from sstcast.graphs.graph import Graph
from sstcast.graphs.sparse import SparseGraph
from sstcast.models.base import Backbone
from sstcast.models.mpnn import VirtualNode

HIGHEST_DEGREE = 255  # higher degrees count as this one

ReadoutName = Literal["mean", "sum", "max", "virtual-node", "token"]


class CategoricalEncoder(nn.Module):
    """The sum of one embedding per column; with OGB's sizes, OGB's atom and bond encoders."""

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
    """Dropout on real features, then a linear map, or nothing if `width` is None."""

    def __init__(self, features: int, width: int | None, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(features, width) if width is not None else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Map `[rows, features]` to `[rows, width]`, or to the same shape without a width."""
        return self.linear(self.dropout(x.float()))


class DegreeEncoder(nn.Module):
    """An embedding of the number of incoming edges (Ying et al. 2021, arXiv:2106.05234).

    It starts as small as the embeddings of categories: torch's N(0, 1) would drown the features it is added to.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(HIGHEST_DEGREE + 1, width)
        nn.init.xavier_uniform_(self.embedding.weight)

    def forward(self, graph: SparseGraph) -> Tensor:
        """Return `[nodes, width]`."""
        ones = torch.ones(len(graph.batch), 1, device=graph.batch.device)
        return self.embedding(graph.neighbors(ones).long().clamp(max=HIGHEST_DEGREE).squeeze(1))


def build_encoder(kind: Categories | str, features: int, width: int, dropout: float = 0.0) -> nn.Module | None:
    """Build the encoder of `features` columns declared as `kind`, None for `none`."""
    if isinstance(kind, tuple):
        return CategoricalEncoder(kind, width)
    return LinearEncoder(features, width, dropout) if kind == "linear" else None


def normalise_rows(graphs: Graphs, dataset: Dataset) -> Graphs:
    """Divide each node's features by the sum of their absolute values, as Kipf & Welling 2017 do for words.

    Raises SSTCastError if the features are not real numbers.
    """
    if graphs.x is None or dataset.node != "linear":
        raise SSTCastError(f"predictor.normalise: {dataset.name} has no real-valued features; set it to none")
    return replace(graphs, x=F.normalize(graphs.x.float(), p=1, dim=1))


class Readout(nn.Module):
    """Mean, sum or maximum of the nodes, or the row that the backbone itself keeps for a graph.

    `virtual-node` is the virtual node of message passing, updated once more from the last layer's nodes; `token`
    is the graph token of TokenGT. Raises SSTCastError if the backbone has no such row.
    """

    def __init__(self, kind: ReadoutName, backbone: Backbone) -> None:
        super().__init__()
        self.kind = kind
        self.update = VirtualNode(backbone.width) if kind == "virtual-node" else None
        if kind in ("virtual-node", "token") and kind != backbone.row:
            raise SSTCastError(f"predictor.readout: this model has no {kind}; choose mean, sum or max")
        if kind == "virtual-node" and backbone.ends[1] != backbone.width:
            raise SSTCastError("predictor.readout: virtual-node needs a head; choose mean, sum or max")

    def forward(self, x: Tensor, own: Tensor | None, graph: Graph) -> Tensor:
        """Reduce `x [nodes, width]` to `[graphs, width]`; `own` is the row that the backbone keeps."""
        if self.update is not None:
            return self.update(x, own, graph)
        if self.kind == "token":
            assert own is not None
            return own
        assert self.kind in ("mean", "sum", "max")
        return graph.pool(x, self.kind)
