"""Graphs in concatenated tensors: `ConcatenatedGraphs` holds them as PyG does, and `Graphs` makes batches.

A batch is gathered from these tensors on their device, without worker processes.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.data.collate import collate
from torch_geometric.data.separate import separate
from torch_geometric.utils import subgraph

from sstcast.errors import in_short
from sstcast.graphs.sparse import SparseGraph
from sstcast.log import LOG

FIELDS = {"x", "pos", "edge_index", "edge_attr", "y", "edge_label", "edge_label_index", "smiles", "num_nodes"}
FIELDS |= {"edge_weight", "weight", "train_mask", "val_mask", "test_mask", "stopping_mask"}
FIELDS_OF_ONE = {"train_idx", "val_idx", "valid_idx", "test_idx"}  # of a single graph
LOST_SHARE = 1e-3  # of the deviation of a column
ROUNDING = 1e-12  # relative error of a mean in double precision


class Split(NamedTuple):
    """The graphs (or the nodes of a single graph) for training, validation and testing."""

    train: Tensor
    validation: Tensor
    test: Tensor


class ConcatenatedGraphs(NamedTuple):
    """Graphs of PyG as one `Data` of concatenated tensors.

    Nodes are numbered within each graph. `counts` maps a tensor's name to its number of rows in each graph,
    `[graphs]`.
    """

    data: Data
    nodes: Tensor  # [graphs]
    counts: Mapping[str, Tensor]

    @property
    def samples(self) -> int:
        """The number of samples that a split divides: the nodes of a single graph, or the graphs."""
        return int(self.nodes[0]) if len(self.nodes) == 1 else len(self.nodes)

    @property
    def labels(self) -> Tensor:
        """The labels `y` of all graphs. Raises ValueError if they are missing or not numbers."""
        if self.data.y is None:
            raise ValueError("some graphs have no labels y; add them, or leave these graphs out")
        try:
            return torch.as_tensor(self.data.y)
        except (TypeError, ValueError, RuntimeError) as error:
            reason = f"which are numbers ({in_short(error)}); number the classes from 0"
            raise ValueError(f"every graph must have labels y, {reason}") from error

    @classmethod
    def of_list(cls, graphs: Sequence[Any]) -> "ConcatenatedGraphs":
        """Join graphs, without attributes that some graphs lack.

        Raises ValueError if there are no graphs, an element is not a graph, its edges are stored in another form,
        or features are missing in some graphs or differ in width.
        """
        if not graphs:
            raise ValueError("no graphs")
        for number, graph in enumerate(graphs):
            if not isinstance(graph, Data) or isinstance(graph, Batch):
                raise ValueError(f"graph {number} is {type(graph).__name__}, not torch_geometric.data.Data")
            index = graph.get("edge_index")
            if index is None and "adj_t" in graph:
                raise ValueError(
                    f"graph {number} has adj_t in place of edge_index; leave out the transform ToSparseTensor"
                )
            if isinstance(index, Tensor) and index.ndim == 2 and index.shape[1] == 2 != index.shape[0]:
                raise ValueError(
                    f"graph {number}: edge_index is [edges, 2] instead of [2, edges]; transpose it, with "
                    "data.edge_index = data.edge_index.t().contiguous()"
                )
        data, slices = _collate(graphs, "graph")
        return cls(data, torch.tensor([graph.num_nodes or 0 for graph in graphs]), _counts(slices))

    @classmethod
    def of_slices(cls, data: Data, slices: Mapping[str, Any] | None) -> "ConcatenatedGraphs":
        """Join the storage of an `InMemoryDataset`. `slices` holds the row of each tensor where each graph begins.

        Raises ValueError if a tensor has more or fewer rows, for instance because a class read a truncated file.
        """
        if not slices:
            return cls.of_list([data])
        counts = _counts(slices)
        for name in FIELDS.intersection(counts):
            if isinstance(table := data.get(name), Tensor):
                rows, belong = table.size(data.__cat_dim__(name, table)), int(counts[name].sum())
                if rows != belong:
                    raise ValueError(f"{name} has {rows} rows instead of {belong}")
        nodes = counts.get("x", getattr(data, "_num_nodes", None))
        if nodes is None:
            graphs = range(len(next(iter(counts.values()))))
            nodes = [separate(Data, data, i, slices, decrement=False).num_nodes for i in graphs]
        return cls(data, torch.as_tensor(nodes), counts)

    @classmethod
    def of_parts(cls, parts: Iterable["ConcatenatedGraphs"]) -> "ConcatenatedGraphs":
        """Concatenate parts that are joined already."""
        pieces = list(parts)
        data, slices = _collate([part.data for part in pieces], "part")
        counts = {name: torch.cat([part.counts[name] for part in pieces]) for name in slices}
        return cls(data, torch.cat([part.nodes for part in pieces]), counts)


class GraphBatch(NamedTuple):
    """A batch of graphs as one graph, with the labels to predict."""

    graph: SparseGraph  # without edge features, as `edge_attr` is not encoded yet
    x: Tensor | None  # [nodes, f], whole numbers are categories
    edge_attr: Tensor | None  # [edges, f]
    y: Tensor  # [graphs, ...], or [rows, ...] of nodes, or [pairs]
    rows: Tensor | None = None  # the nodes to predict; None for all
    pairs: Tensor | None = None  # [2, pairs] nodes whose link is to be predicted


@dataclass(frozen=True)
class Graphs:
    """Packed graphs. Nodes are numbered within each graph.

    `y` has a row for each graph, node or pair of nodes, depending on `level`: classes are whole numbers, -1 if
    unknown. All other labels are real numbers, NaN if unknown. `vectors`, `values`, `components`, `degrees` and
    `walk` are positions as in `SparseGraph`.
    """

    level: str  # graph, node or pair
    nodes: Tensor  # [graphs]
    edges: Tensor  # [graphs]
    edge_index: Tensor  # [2, edges]
    y: Tensor
    x: Tensor | None = None  # [nodes, f]
    edge_attr: Tensor | None = None  # [edges, f]
    edge_weight: Tensor | None = None  # [edges], which only gcn reads
    pair_counts: Tensor | None = None  # [graphs]
    pairs: Tensor | None = None  # [2, pairs]
    vectors: Tensor | None = None
    values: Tensor | None = None
    components: Tensor | None = None  # [nodes]
    degrees: Tensor | None = None  # [nodes], `SparseGraph.laplacian_degree`
    walk: Tensor | None = None

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def transductive(self) -> bool:
        """Whether the samples are nodes of one graph instead of graphs."""
        return self.level == "node" and len(self) == 1

    def to(self, device: torch.device) -> "Graphs":
        """Move all tensors except the counts, which stay on the CPU, where sizes can be read without waiting."""
        stay = {"nodes", "edges", "pair_counts"}
        moved: Any = {name: value.to(device) for name, value in self.tensors().items() if name not in stay}
        return replace(self, **moved)

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors that are not None, by name."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}

    def batch(self, index: Tensor) -> GraphBatch:
        """Join the graphs with numbers `index` (on the CPU), in this order."""
        device = self.edge_index.device
        nodes, edges = self.nodes[index], self.edges[index]
        node_rows = _rows(self.nodes, index).to(device)
        edge_rows = _rows(self.edges, index).to(device)
        first = (nodes.cumsum(0) - nodes).to(device)
        batch = torch.arange(len(index)).repeat_interleave(nodes).to(device)

        def shifted(ends: Tensor, counts: Tensor, rows: Tensor) -> Tensor:
            owner = torch.arange(len(counts)).repeat_interleave(counts).to(device)
            return ends[:, rows].long() + first[owner]

        pairs, target = None, {"graph": index.to(device), "node": node_rows}.get(self.level)
        if self.pairs is not None and self.pair_counts is not None:
            target = _rows(self.pair_counts, index).to(device)
            pairs = shifted(self.pairs, self.pair_counts[index], target)
        assert target is not None
        ends, walk = shifted(self.edge_index, edges, edge_rows), _select_if_any(self.walk, node_rows)
        graph = SparseGraph(
            ends,
            batch,
            len(index),
            basis=self._basis(node_rows, index.to(device)),
            walk=walk,
            edge_weight=_select_if_any(self.edge_weight, edge_rows),
            components=_select_if_any(self.components, node_rows),
            laplacian_degree=_select_if_any(self.degrees, node_rows),
        )
        edge_attr = _select_if_any(self.edge_attr, edge_rows)
        return GraphBatch(
            graph, _select_if_any(self.x, node_rows), edge_attr, _select(self.y, target), pairs=pairs
        )

    def part(self, keep: Tensor, rows: Tensor) -> GraphBatch:
        """Return a single graph's nodes `keep` with the edges among them.

        The mask `rows` over all nodes selects the nodes to predict. Both are on the device.
        """
        ends, _, edge_mask = subgraph(
            keep, self.edge_index.long(), relabel_nodes=True, num_nodes=int(self.nodes[0]), return_edge_mask=True
        )
        graph = SparseGraph(
            ends,
            torch.zeros_like(keep),
            1,
            basis=self._basis(keep),
            walk=_select_if_any(self.walk, keep),
            edge_weight=_select_if_any(self.edge_weight, edge_mask),
            components=_select_if_any(self.components, keep),
            laplacian_degree=_select_if_any(self.degrees, keep),
        )
        label_rows = rows[keep].nonzero().squeeze(1)
        edge_attr = _select_if_any(self.edge_attr, edge_mask)
        return GraphBatch(
            graph, _select_if_any(self.x, keep), edge_attr, _select(self.y, keep[label_rows]), rows=label_rows
        )

    def _basis(self, rows: Tensor, index: Tensor | None = None) -> tuple[Tensor, Tensor] | None:
        """Return the eigenpairs of nodes `rows` and of graphs `index`, by default all."""
        if self.vectors is None or self.values is None:
            return None
        return self.vectors[rows], self.values if index is None else self.values[index]


def pack(joined: ConcatenatedGraphs, level: str, **tensors: Tensor | None) -> Graphs:
    """Pack joined graphs. `tensors` holds `y` and other fields of `Graphs`, such as the features.

    Raises ValueError, naming the graph, if it has no nodes, an edge ends outside it, or it has too many or too few
    rows of a feature.
    """
    index = joined.data.edge_index
    dense = isinstance(index, Tensor) and index.layout == torch.strided and not index.is_floating_point()
    if not dense or index.ndim != 2 or len(index) != 2:
        raise ValueError("edge_index must be a dense tensor [2, edges] of whole numbers")
    edges = joined.counts["edge_index"]
    nodes = joined.nodes.repeat_interleave(edges)
    if not joined.nodes.all():
        raise ValueError(f"graph {int(joined.nodes.argmin())} has no nodes; give it some or leave it out")
    if len(invalid := ((index < 0) | (index >= nodes)).any(0).nonzero()):
        graph = graph_of(edges, int(invalid[0]))
        raise ValueError(f"graph {graph}: an edge's node is not one of its {int(joined.nodes[graph])} nodes")
    for name, rows in (("x", joined.nodes), ("edge_attr", edges), ("edge_weight", edges)):
        if tensors.get(name) is not None and len(invalid := (joined.counts[name] != rows).nonzero()):
            graph = int(invalid[0])
            row_count = int(joined.counts[name][graph])
            raise ValueError(f"graph {graph}: {name} has {row_count} rows instead of {int(rows[graph])}")
    counts = {"nodes": joined.nodes, "edges": edges, "pair_counts": tensors.pop("pair_counts", None)}
    small = {name: tensor if tensor is None else compact(tensor) for name, tensor in tensors.items()}
    if (y := tensors["y"]) is not None and y.is_floating_point():
        small["y"] = y
    return Graphs(level=level, edge_index=compact(index), **counts, **small)  # type: ignore[arg-type]


def _counts(slices: Mapping[str, Any]) -> dict[str, Tensor]:
    return {name: ends.diff() for name, ends in slices.items() if isinstance(ends, Tensor)}


def _collate(data: Sequence[Data], noun: str) -> tuple[Data, Mapping[str, Any]]:
    """Join the tensors that all data have, and keep node numbers. Return them and the rows where each one begins.

    Raises ValueError, calling each one a `noun`, if features are missing in some or differ in width.
    """
    for name in ("x", "edge_attr", "edge_weight", "weight"):
        columns = [(name in element, getattr(element.get(name), "shape", ())[1:]) for element in data]
        if unequal := [number for number, column in enumerate(columns) if column != columns[0]]:
            raise ValueError(f"{noun} {unequal[0]} and {noun} 0 do not have the same columns of {name}")
    keys = [set(element.keys()) for element in data]
    unused = keys[0] - FIELDS.intersection(*keys)
    unused -= FIELDS_OF_ONE if len(data) == 1 else set()
    joined, slices, _ = collate(type(data[0]), list(data), increment=False, add_batch=False, exclude_keys=unused)
    return joined, slices


def graph_of(counts: Tensor, row: int) -> int:
    """Return the graph that owns a row of a packed tensor with `counts` rows per graph."""
    return int(torch.searchsorted(counts.cumsum(0), row, right=True))


def loses_digits(table: Tensor) -> Tensor:
    """Return a mask of the columns in which single precision moves a value by more than `LOST_SHARE` deviations.

    A column whose values are all equal is not one of them.
    """
    if table.dtype in (torch.bool, torch.float16, torch.bfloat16, torch.float32):
        return torch.zeros(table.shape[1], dtype=torch.bool)
    values = table.double()
    values = values.where(values.abs() <= torch.finfo(torch.float32).max, torch.nan)
    deviation = (values - values.nanmean(0)).square().nanmean(0).sqrt()
    varies = deviation > ROUNDING * values.abs().nan_to_num().sum(0) / max(len(values), 1)
    return varies & ((values.float() - values).abs() > LOST_SHARE * deviation).any(0)


def narrow(table: Tensor, label: str) -> Tensor:
    """Return features in single precision. Columns that would lose digits are centred, and a line says so."""
    if (lost := loses_digits(table)).any():
        table = table.double()
        means = table.where(table.isfinite(), torch.nan).nanmean(0)
        columns = ", ".join(map(str, lost.nonzero().flatten().tolist()))
        LOG.info(f"{label}: the mean of column {columns} is subtracted, as single precision has too few digits")
        table = table - means.where(lost, 0)
    return table.float()


def standardise(table: Tensor, training: Tensor) -> Tensor:
    """Return features `[rows, columns]` standardised by the mean and deviation of the rows in the mask `training`.

    A column of zeros and ones is left. One that is constant in these rows is centred, not divided.
    """
    values, known = table.double(), table[training].double()
    mean, deviation = known.mean(0), known.std(0, unbiased=False)
    binary, varies = ((values == 0) | (values == 1)).all(0), deviation > ROUNDING * mean.abs()
    return ((values - mean.where(~binary, 0)) / deviation.where(varies & ~binary, 1)).float()


def compact(values: Tensor) -> Tensor:
    """Return the values as float32, or as the smallest integer type that holds them."""
    if values.is_floating_point() or not values.numel():
        return values.float() if values.is_floating_point() else values
    low, high = (int(v) for v in values.aminmax())
    for dtype in (torch.uint8, torch.int16, torch.int32):
        if torch.iinfo(dtype).min <= low and high <= torch.iinfo(dtype).max:
            return values.to(dtype)
    return values


def digest_tensors(tensors: Mapping[str, Tensor], metadata: Any) -> str:
    """Return the SHA-256 of tensors, with their names, types and shapes, and of the plain data `metadata`."""
    described = {name: [str(tensor.dtype), list(tensor.shape)] for name, tensor in tensors.items()}
    content = hashlib.sha256(json.dumps([described, metadata], sort_keys=True).encode())
    for name in sorted(tensors):
        content.update(np.ascontiguousarray(tensors[name].numpy()).reshape(-1).view(np.uint8).data)
    return content.hexdigest()


def _rows(counts: Tensor, index: Tensor) -> Tensor:
    """Return the rows of the packed blocks `index`, whose sizes are `counts`."""
    starts, sizes = counts.cumsum(0) - counts, counts[index]
    offset = starts[index] - (sizes.cumsum(0) - sizes)
    return torch.arange(int(sizes.sum())) + offset.repeat_interleave(sizes)


def _select(values: Tensor, rows: Tensor) -> Tensor:
    selection = values[rows]
    return selection if selection.is_floating_point() else selection.long()


def _select_if_any(values: Tensor | None, rows: Tensor) -> Tensor | None:
    return None if values is None else _select(values, rows)
