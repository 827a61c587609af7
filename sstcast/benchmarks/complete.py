"""Decides what a declaration leaves open, and checks the graphs by what it then says."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from sstcast.benchmarks.dataset import Dataset, Kind
from sstcast.benchmarks.objectives import check_task, objective_of
from sstcast.benchmarks.packed import Graphs
from sstcast.errors import SSTCastError, in_short

MANY_WORDS = 100  # columns
DENSE = 0.2  # of them in a row: divided by their number, so many are too small to learn from
FEW = 0.1  # of the nodes
MOST_KINDS = 100_000  # in a column of whole numbers; larger ones are quantities
MOST_CLASSES = 20  # more different whole numbers in a tenth of the samples are no classes, unless declared


def complete(dataset: Dataset, data: Sequence[Data], official: bool) -> Dataset:
    """Return the declaration with every field decided; `official` says whether the data have splits of their own.

    Whole numbers in a single column are classes; zeros and ones in several columns are yes-or-no questions; other
    numbers are regression targets. Labels are those of nodes if each node has one. Features of whole numbers are
    categories; 100 or more columns of zeros and ones say which words a node has. A declared field stays as it is.
    Raises SSTCastError if a graph is not usable, or the metric is not one of the task's.
    """
    task, usual = (dataset.task, "") if dataset.task else _task(dataset.name, data)
    dataset = replace(dataset, task=task, metric=dataset.metric or usual)
    check_task(dataset)
    objective = objective_of(dataset)
    single = dataset.single or (len(data) == 1 and objective.level == "node")
    words, few = dataset.words, dataset.few
    if dataset.reader == "memory" and single:
        words, few = _words(data[0])
    return replace(
        dataset,
        metric=dataset.metric or next(iter(objective.metrics)),
        split=dataset.split or ("official" if official else "random:0.8/0.1/0.1"),
        node=dataset.node or _kind([d.x for d in data]),
        edge=dataset.edge or _kind([d.edge_attr for d in data]),
        single=single,
        words=words,
        few=few,
    )


def check_graphs(graphs: Graphs, dataset: Dataset, where: str) -> None:
    """Raise SSTCastError, saying `where` the graphs are from, if their parts do not fit or a value is unusable."""
    rows = {"graph": len(graphs), "node": int(graphs.nodes.sum()), "pair": len(graphs.y)}[graphs.level]
    if len(graphs.y) != rows:
        raise SSTCastError(f"{where}: {len(graphs.y)} labels for {rows} {graphs.level}s")

    def place(row: int, column: int) -> str:
        labels = graphs.y.numel() // max(rows, 1)
        return f"{where}: {_place(graphs, graphs.level, row)}" + (f", column {column}" if labels > 1 else "")

    objective_of(dataset).check(graphs.y, dataset, place)
    _check_features(graphs, "node", dataset.node, graphs.x, where)
    _check_features(graphs, "edge", dataset.edge, graphs.edge_attr, where)


def _words(data: Data) -> tuple[bool, bool]:
    """Return whether rows of words are to be divided by their sum, and whether few nodes have labels to learn."""
    x, mask = data.x, data.get("train_mask")
    bag = x is not None and x.is_floating_point() and x.shape[-1] >= MANY_WORDS
    bag = bag and bool(((x == 0) | (x == 1)).all())
    few = bag and mask is not None and mask.double().mean() < FEW
    return bag and bool(x.mean() < DENSE), bool(few)


def _task(name: str, data: Sequence[Data]) -> tuple[str, str]:
    """Return the task, and the metric if the task's usual one does not suit."""
    if (bare := next((i for i, d in enumerate(data) if d.get("y") is None), None)) is not None:
        raise SSTCastError(f"{name}: graph {bare} has no labels; give every graph y")
    try:
        labels = [torch.as_tensor(d.y) for d in data]
        y = torch.cat([y.flatten() for y in labels]).double()
    except (TypeError, ValueError, RuntimeError) as error:
        raise SSTCastError(f"{name}: y must hold numbers ({in_short(error)})") from error
    y = y[~y.isnan()]
    if not len(y):
        raise SSTCastError(f"{name}: no label is known; give some graphs a y that is not NaN")
    of_nodes = all(y.ndim and len(y) == d.num_nodes for y, d in zip(labels, data, strict=True)) and (
        len(data) == 1 or any(d.num_nodes > 1 for d in data)
    )
    level = "node" if of_nodes else "graph"
    columns = labels[0][0].numel() if of_nodes else labels[0].numel()
    binary = bool(((y == 0) | (y == 1)).all())
    if columns > 1 and binary:
        return ("node-classification", "roc-auc") if of_nodes else ("multi-label", "")
    if columns > 1 or (labels[0].is_floating_point() and not binary):
        return f"{level}-regression", ""
    if (kinds := len(y.unique())) > max(MOST_CLASSES, len(y) / 10):
        raise SSTCastError(
            f"{name}: y has {kinds} different whole numbers; did you mean task={level}-regression? "
            f"If they are classes, set task={level}-classification"
        )
    return f"{level}-classification", ""


def _kind(features: Sequence[Tensor | None]) -> Kind:
    first = features[0]
    if first is None:
        return "none"
    if first.is_floating_point() or first.is_complex() or first.dtype == torch.bool:
        return "linear"
    columns = [f.reshape(len(f), -1) for f in features if f is not None and len(f)]
    if not columns or len({f.shape[1] for f in columns}) > 1 or min(int(f.min()) for f in columns) < 0:
        return "linear"
    sizes = torch.stack([f.amax(0) for f in columns]).amax(0) + 1
    return tuple(sizes.tolist()) if int(sizes.max()) <= MOST_KINDS else "linear"


def _check_features(graphs: Graphs, what: str, declared: Kind | str, found: Tensor | None, where: str) -> None:
    """Raise SSTCastError if features are not finite numbers or not of the declared kind."""
    if declared == "none":
        return
    if found is None:
        raise SSTCastError(f"{where}: no {what} features; declare {what}: none")
    wrong, known = ~found.isfinite(), "a finite number"
    if isinstance(declared, tuple):
        if found.shape[1] != len(declared):
            raise SSTCastError(f"{where}: {what} features do not have the {len(declared)} columns declared")
        wrong = (found < 0) | (found != found.floor()) | (found >= torch.tensor(declared))
        known = f"a category: below {declared}"
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
