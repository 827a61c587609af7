"""Infers what a declaration leaves open: the task from the labels, the encoders from the features' types."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from sstcast.benchmarks.dataset import METRICS_OF, Dataset, Kind, Metric, TaskName
from sstcast.errors import SSTCastError

MANY_WORDS = 100  # columns
DENSE = 0.2  # of them in a row: divided by their number, so many are too small to learn from
FEW = 0.1  # of the nodes
MOST_KINDS = 100_000  # in a column of whole numbers; larger ones are quantities


def infer(dataset: Dataset, data: Sequence[Data], splits: bool) -> Dataset:
    """Return the declaration completed from the graphs; `splits` says whether they have an official split.

    Whole numbers in a single column are classes; zeros and ones in several columns are yes-or-no questions; other
    numbers are regression targets. Labels are those of nodes if each node has one. Features of whole numbers are
    categories. Raises SSTCastError if the graphs have no labels.
    """
    task, usual = (dataset.task, None) if dataset.task else _task(dataset.name, data)
    metric = dataset.metric or usual or METRICS_OF[task][0]
    if metric not in METRICS_OF[task]:
        raise SSTCastError(f"{dataset.name}: metric: {task} is judged by {' or '.join(METRICS_OF[task])}")
    return replace(
        dataset,
        task=task,
        metric=metric,
        split=dataset.split or usual_split(splits),
        node=dataset.node or _kind([d.x for d in data]),
        edge=dataset.edge or _kind([d.edge_attr for d in data]),
    )


def kind_of(name: str, data: Sequence[Data]) -> tuple[str, bool]:
    """Return which defaults suit graphs in memory, and whether rows of a single one are to be normalised.

    Many columns of zeros and ones say which words a node has; rows of few words are normalised. Raises
    SSTCastError if a graph is not usable.
    """
    check_data(data, name)
    task, _ = _task(name, data)
    x, mask = data[0].x, data[0].get("train_mask")
    bag = len(data) == 1 and x is not None and x.is_floating_point() and x.shape[-1] >= MANY_WORDS
    bag = bag and bool(((x == 0) | (x == 1)).all())
    few = bag and mask is not None and mask.double().mean() < FEW
    declared = Dataset(name, "memory", "", {}, task, single=len(data) == 1 and task.startswith("node"), few=few)
    return declared.kind, bag and bool(x.mean() < DENSE)


def check_data(data: Sequence[Data], where: str) -> None:
    """Raise SSTCastError, saying `where` the graphs are from, unless they are PyG's and have edges."""
    for number, one in enumerate(data):
        if not isinstance(one, Data):
            raise SSTCastError(f"{where}: graph {number} is {type(one).__name__}, not torch_geometric.data.Data")
        if one.edge_index is None:
            raise SSTCastError(f"{where}: graph {number} has no edge_index")
    if not data:
        raise SSTCastError(f"{where}: no graphs")


def usual_split(official: bool) -> str:
    """Return the split of data for which none is declared or chosen."""
    return "official" if official else "random:0.8/0.1/0.1"


def _task(name: str, data: Sequence[Data]) -> tuple[TaskName, Metric | None]:
    if (bare := next((i for i, d in enumerate(data) if d.get("y") is None), None)) is not None:
        raise SSTCastError(f"{name}: graph {bare} has no labels; give every graph y")
    labels = [torch.as_tensor(d.y) for d in data]
    of_nodes = all(y.ndim and len(y) == d.num_nodes for y, d in zip(labels, data, strict=True)) and (
        len(data) == 1 or any(d.num_nodes > 1 for d in data)
    )
    y = torch.cat([y.flatten() for y in labels]).double()
    columns = labels[0][0].numel() if of_nodes else labels[0].numel()
    binary = bool(((y == 0) | (y == 1) | y.isnan()).all())
    if columns > 1 and binary:
        return ("node-classification", "roc-auc") if of_nodes else ("multi-label", None)
    if columns > 1 or (labels[0].is_floating_point() and not binary):
        return ("node-regression" if of_nodes else "graph-regression"), None
    return ("node-classification" if of_nodes else "graph-classification"), None


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
