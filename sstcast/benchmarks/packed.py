"""`Graphs`: many graphs, or a single large one, packed end to end; batches are made on the device.

There are no worker processes and no lists of objects: a batch is gathered from the packed tensors on their device.
"""

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sstcast.graphs.sparse import SparseGraph


class Split(NamedTuple):
    """The graphs (or the nodes of a single graph) for training, validation and testing."""

    train: Tensor
    validation: Tensor
    test: Tensor


class GraphBatch(NamedTuple):
    """Some graphs joined to one, with what to predict."""

    graph: SparseGraph  # without edge features: those below are not encoded yet
    x: Tensor | None  # [nodes, f], whole numbers are categories
    edge_attr: Tensor | None  # [edges, f]
    y: Tensor  # [graphs, ...], or [rows, ...] of nodes, or [pairs]
    rows: Tensor | None = None  # the nodes to predict, if not all
    pairs: Tensor | None = None  # [2, pairs] nodes whose link is to be predicted


@dataclass(frozen=True)
class Graphs:
    """Packed graphs; nodes are numbered within each graph.

    `y` has a row for each graph, node or pair of nodes, depending on `level`: classes are whole numbers, -1 if
    unknown; all other labels are real numbers, NaN if unknown. `vectors`, `values` and `walk` are positions as in
    `SparseGraph`.
    """

    level: str  # graph, node or pair
    nodes: Tensor  # [graphs]
    edges: Tensor  # [graphs]
    edge_index: Tensor  # [2, edges]
    y: Tensor
    x: Tensor | None = None  # [nodes, f]
    edge_attr: Tensor | None = None  # [edges, f]
    pair_counts: Tensor | None = None  # [graphs]
    pairs: Tensor | None = None  # [2, pairs]
    vectors: Tensor | None = None
    values: Tensor | None = None
    walk: Tensor | None = None

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def transductive(self) -> bool:
        """Whether the samples are nodes of one graph instead of graphs."""
        return self.level == "node" and len(self) == 1

    def to(self, device: torch.device) -> "Graphs":
        """Move all tensors except the counts, which stay on the CPU so that sizes are known without waiting."""
        stay = {"nodes", "edges", "pair_counts"}
        tensors = {k: v if k in stay else v.to(device) for k, v in self.tensors().items()}
        return Graphs(level=self.level, **tensors)

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
        basis = None
        if self.vectors is not None and self.values is not None:
            basis = self.vectors[node_rows], self.values[index.to(device)]
        walk = None if self.walk is None else self.walk[node_rows]
        graph = SparseGraph(shifted(self.edge_index, edges, edge_rows), batch, len(index), basis=basis, walk=walk)
        return GraphBatch(
            graph,
            _take_some(self.x, node_rows),
            _take_some(self.edge_attr, edge_rows),
            _take(self.y, target),
            pairs=pairs,
        )

    def part(self, kept: Tensor, rows: Tensor) -> GraphBatch:
        """Return a single graph's nodes `kept` with the edges among them.

        `rows` is a mask, over all nodes, of those to predict. Both are on the device.
        """
        place = torch.full((int(self.nodes[0]),), -1, dtype=torch.long, device=kept.device)
        place[kept] = torch.arange(len(kept), device=kept.device)
        ends = place[self.edge_index.long()]
        inside = (ends >= 0).all(0).nonzero().squeeze(1)
        walk = None if self.walk is None else self.walk[kept]
        basis = None
        if self.vectors is not None and self.values is not None:
            basis = self.vectors[kept], self.values
        graph = SparseGraph(ends[:, inside], torch.zeros_like(kept), 1, basis=basis, walk=walk)
        chosen = rows[kept].nonzero().squeeze(1)
        edge_attr = _take_some(self.edge_attr, inside)
        return GraphBatch(graph, _take_some(self.x, kept), edge_attr, _take(self.y, kept[chosen]), rows=chosen)


def pack(graphs: list[dict[str, Any]], level: str, y: Tensor | None = None) -> Graphs:
    """Pack graphs given as `edge_index [2, edges]`, `x` or `num_nodes`, `y`, optionally `edge_attr`, `pairs`.

    `y` are the labels of all graphs, if they are not in the graphs. Raises ValueError, naming the graph, if one is
    inconsistent or does not match the first one.
    """
    for number, graph in enumerate(graphs):
        _check_one(number, graph, graphs[0])
    packed: dict[str, Any] = {} if y is None else {"y": y}
    for name in ("x", "edge_attr", "y"):
        if graphs[0].get(name) is not None and name not in packed:
            packed[name] = compact(torch.cat([torch.as_tensor(g[name]) for g in graphs]))
    if "pairs" in graphs[0]:
        packed["pair_counts"] = torch.tensor([g["pairs"].shape[1] for g in graphs])
        packed["pairs"] = compact(torch.cat([torch.as_tensor(g["pairs"]) for g in graphs], dim=1))
    return Graphs(
        level=level,
        nodes=torch.tensor([g["num_nodes"] if g.get("x") is None else len(g["x"]) for g in graphs]),
        edges=torch.tensor([g["edge_index"].shape[1] for g in graphs]),
        edge_index=compact(torch.cat([torch.as_tensor(g["edge_index"]) for g in graphs], dim=1)),
        **packed,
    )


def _check_one(number: int, graph: dict[str, Any], first: dict[str, Any]) -> None:
    for name, rows in (("x", graph.get("num_nodes")), ("edge_attr", graph["edge_index"].shape[1])):
        ours, theirs = graph.get(name), first.get(name)
        if (ours is None) != (theirs is None):
            raise ValueError(f"graph {number} has {'no' if ours is None else 'an'} {name}, unlike graph 0")
        if ours is None or theirs is None:
            continue
        if len(ours.shape) != 2 or ours.shape[1:] != theirs.shape[1:]:
            raise ValueError(f"graph {number}: {name} of shape {list(ours.shape)}, graph 0: {list(theirs.shape)}")
        if rows is not None and len(ours) != rows:
            raise ValueError(f"graph {number}: {len(ours)} rows of {name} where {rows} belong")


def compact(values: Tensor) -> Tensor:
    """Return the values as float32, or as the smallest integer type that holds them."""
    if values.is_floating_point() or not len(values):
        return values.float() if values.is_floating_point() else values
    low, high = (int(v) for v in values.aminmax()) if values.numel() else (0, 0)
    for dtype in (torch.uint8, torch.int16, torch.int32):
        if torch.iinfo(dtype).min <= low and high <= torch.iinfo(dtype).max:
            return values.to(dtype)
    return values


def _rows(counts: Tensor, index: Tensor) -> Tensor:
    """Return the rows of the packed blocks `index`, whose sizes are `counts`."""
    starts, chosen = counts.cumsum(0) - counts, counts[index]
    offset = starts[index] - (chosen.cumsum(0) - chosen)
    return torch.arange(int(chosen.sum())) + offset.repeat_interleave(chosen)


def _take(values: Tensor, rows: Tensor) -> Tensor:
    taken = values[rows]
    return taken if taken.is_floating_point() else taken.long()


def _take_some(values: Tensor | None, rows: Tensor) -> Tensor | None:
    return None if values is None else _take(values, rows)
