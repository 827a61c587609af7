"""Checks that every data set must pass before a model uses it, whichever reader read it."""

import torch
from torch import Tensor

from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.packed import Graphs
from sstcast.errors import SSTCastError


def check_graphs(graphs: Graphs, dataset: Dataset, where: str) -> None:
    """Raise SSTCastError, saying `where` the graphs are from, if their parts do not fit or a value is unusable."""
    _check_edges(graphs, where)
    rows = {"graph": len(graphs), "node": int(graphs.nodes.sum()), "pair": len(graphs.y)}[graphs.level]
    if len(graphs.y) != rows:
        raise SSTCastError(f"{where}: {len(graphs.y)} labels for {rows} {graphs.level}s")

    def place(row: int, column: int) -> str:
        labels = graphs.y.numel() // max(rows, 1)
        return f"{where}: {_place(graphs, graphs.level, row)}" + (f", column {column}" if labels > 1 else "")

    dataset.objective.check(graphs.y, dataset, place)
    _check_features(graphs, dataset, where)


def _check_edges(graphs: Graphs, where: str) -> None:
    """Raise SSTCastError, naming graph and edge, if an edge points outside its graph, or it has no nodes."""
    if graphs.edge_index.is_floating_point():
        raise SSTCastError(f"{where}: edges must be whole numbers, the numbers of nodes")
    empty = (graphs.nodes == 0).nonzero()
    if len(empty):
        raise SSTCastError(f"{where}: graph {int(empty[0])} has no nodes; give it some or leave it out")
    nodes = graphs.nodes.repeat_interleave(graphs.edges)
    outside = ((graphs.edge_index < 0) | (graphs.edge_index >= nodes)).any(0).nonzero()
    if len(outside):
        row = int(outside[0])
        source, target = graphs.edge_index[:, row].tolist()
        raise SSTCastError(
            f"{where}: {_place(graphs, 'edge', row)}: {source} - {target} points outside; "
            f"its nodes are 0..{int(nodes[row]) - 1}"
        )


def _check_features(graphs: Graphs, dataset: Dataset, where: str) -> None:
    """Raise SSTCastError if features are not finite numbers or not of the declared kind."""
    for what, declared, found in (("node", dataset.node, graphs.x), ("edge", dataset.edge, graphs.edge_attr)):
        if declared == "none":
            continue
        if found is None:
            raise SSTCastError(f"{where}: no {what} features; declare {what}: none")
        wrong, known = ~found.isfinite(), "a finite number"
        if isinstance(declared, tuple):
            if found.shape[1] != len(declared):
                raise SSTCastError(f"{where}: {what} features do not have the {len(declared)} columns declared")
            sizes = torch.tensor(declared)
            wrong, known = (
                (found < 0) | (found != found.floor()) | (found >= sizes),
                f"a category: below {declared}",
            )
        if wrong.any():
            row, column = wrong.nonzero()[0].tolist()
            value = f"feature {column} is {float(found[row, column]):g}, which is not {known}"
            raise SSTCastError(f"{where}: {_place(graphs, what, row)}: {value}")


def _place(graphs: Graphs, what: str, row: int) -> str:
    """Describe a row of the packed graphs, nodes or edges as users number it."""
    counts: Tensor | None = {"node": graphs.nodes, "edge": graphs.edges}.get(what)
    if counts is None or len(graphs) == 1:
        return f"{what} {row}"
    ends = counts.cumsum(0)
    graph = int(torch.searchsorted(ends, row, right=True))
    return f"graph {graph}, {what} {row - int(ends[graph] - counts[graph])}"
