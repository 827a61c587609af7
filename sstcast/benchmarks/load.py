"""Loads a declared data set or graphs in memory: completes the declaration, and checks and packs the graphs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Dataset as PyGDataset

from sstcast.benchmarks.equal_graphs import equal_graphs
from sstcast.benchmarks.objectives import objective_of
from sstcast.benchmarks.packed import ConcatenatedGraphs, Graphs, Split, digest_tensors, graph_of, narrow, pack
from sstcast.benchmarks.reading import graphs_in, read_class, read_file
from sstcast.benchmarks.registry import Dataset, Kind
from sstcast.benchmarks.sample_keys import sample_keys
from sstcast.benchmarks.splits import find_splits, training_share
from sstcast.benchmarks.tables import read_nodes, read_smiles
from sstcast.config import folder_name
from sstcast.errors import SSTCastError, in_short
from sstcast.graphs.sparse import weights_in
from sstcast.log import LOG

MANY_WORDS = 100  # columns
MAX_WORD_SHARE = 0.2  # of the columns; features of a row divided by more words would be too small to learn from
FEW = 0.1  # of the nodes, for training
MOST_KINDS = 100_000  # categories in a column; larger whole numbers are quantities
MOST_CLASSES = 20  # or a tenth of the samples; labels with more values are classes only if declared


class LoadedDataset(NamedTuple):
    """A data set in memory: graphs, official splits, complete declaration, and digest of graphs and splits.

    `keys` are the `sample_keys`. `groups` holds the number of the group of equal graphs of each graph, if they are
    a user's own.
    """

    graphs: Graphs
    splits: list[Split]
    dataset: Dataset
    digest: str
    keys: Tensor
    groups: Tensor | None = None

    @property
    def grouped(self) -> int:
        """The number of graphs that equal another one and stay in one part of the drawn split with it."""
        if self.groups is None or self.dataset.split in ("official", "scaffold") or self.dataset.by_rows:
            return 0
        return int((self.groups.bincount()[self.groups] > 1).sum())


def load(dataset: Dataset, root: Path, cache: Path, trust: bool = False, source: Any = None) -> LoadedDataset:
    """Read a data set, downloading it below `root` if it is missing. `cache` keeps the features of molecules.

    `source` holds graphs in memory, as `graphs_in` describes them. Their data set gets the source's name and a
    digest of the graphs. Raises SSTCastError if a raw file cannot be downloaded, is damaged or inconsistent, or
    may run code, or if a graph is unusable.
    """
    where = str(dataset.options.get("path", dataset.folder_in(root)))
    if dataset.reader == "memory":
        unnamed = type(source).__name__ if isinstance(source, PyGDataset) else "graphs"
        where = folder_name(str(getattr(source, "name", None) or unnamed), "graphs")
        dataset = replace(dataset, name=where)
        joined, splits = graphs_in(source, where)
    elif dataset.reader == "smiles_csv":
        joined, splits = read_smiles(dataset, root, cache, trust)
    elif dataset.reader == "graph_csv":
        joined, splits = read_nodes(dataset)
    elif dataset.reader == "pyg":
        joined, splits = read_file(dataset.options["path"], trust)
    else:
        joined, splits = read_class(dataset, root, trust)
    try:
        splits = find_splits(dataset.split, joined, splits)
        tables = {name: _table(joined.data.get(name), name) for name in ("x", "edge_attr")}
        dataset = complete(dataset, joined, tables, splits)
        objective = objective_of(dataset)
        for name, kind in (("x", dataset.node), ("edge_attr", dataset.edge)):
            if kind in ("none", "linear") and (table := tables[name]) is not None:
                tables[name] = narrow(table, f"{where}: {name}") if kind == "linear" else None
        weight = _table(weights_in(joined.data) if dataset.own else None, "edge_weight")
        if weight is not None and weight.shape[1] != 1:
            raise ValueError("edge_weight must be one number for each edge, [edges]")
        tables["edge_weight"] = None if weight is None else weight[:, 0].float()
        if weight is not None and "edge_weight" not in joined.counts:
            joined = joined._replace(counts={**joined.counts, "edge_weight": joined.counts["weight"]})
        elif dataset.own and "weight" in joined.data and weight is None:
            LOG.info(f"{where}: weight is not read, as it is not one number for each edge")
        graphs = pack(joined, objective.level, **tables, **objective.labels_of(joined))
    except SSTCastError:
        raise
    except Exception as error:  # whatever a user's graphs hold
        raise SSTCastError(f"{where}: {in_short(error)}") from error
    check_graphs(graphs, dataset, where)
    graphs = replace(graphs, y=objective.shaped(graphs.y))
    parts = {f"split {i} {j}": part for i, split in enumerate(splits) for j, part in enumerate(split)}
    digest = digest_tensors(graphs.tensors() | parts, graphs.level)
    if dataset.reader == "memory":
        dataset = replace(dataset, name=f"{where}-{digest[:8]}")
    many_own = dataset.own and len(graphs) > 1
    groups = equal_graphs(graphs, joined.data.get("smiles"), cache) if many_own else None
    return LoadedDataset(graphs, splits, dataset, digest, sample_keys(graphs), groups)


def _table(values: Any, name: str) -> Tensor | None:
    """Return features as a dense table `[rows, columns]`. Raises ValueError for other types."""
    if values is None:
        return None
    if not isinstance(values, Tensor) or values.is_complex() or values.ndim not in (1, 2):
        raise ValueError(f"{name} must be a tensor [rows, columns] of real numbers, the same kind in each graph")
    table = values.to_dense() if values.layout != torch.strided else values
    return table.view(-1, 1) if table.ndim == 1 else table


def complete(
    dataset: Dataset, joined: ConcatenatedGraphs, tables: Mapping[str, Tensor | None], splits: Sequence[Split]
) -> Dataset:
    """Return the declaration with every field decided.

    `tables` holds the features `x` and `edge_attr`. `splits` are those in the data.

    Whole numbers in a single column are classes, zeros and ones in several columns are binary labels, and
    other numbers are regression targets. If each node has a label, the task is to predict nodes. Features of whole
    numbers are categories. 100 or more columns of zeros and ones stand for the words of a node. Declared fields
    are kept. Raises ValueError if the task cannot be inferred, and SSTCastError for a metric of another task.
    """
    task, usual_metric = (dataset.task, "") if dataset.task else _task(joined)
    dataset = replace(dataset, task=task, metric=dataset.metric or usual_metric)
    objective = objective_of(dataset)
    single = dataset.single or (len(joined.nodes) == 1 and objective.level == "node")
    dataset = replace(
        dataset,
        metric=dataset.metric or next(iter(objective.metrics)),
        split=dataset.split or ("official" if splits else "random:0.8/0.1/0.1"),
        single=single,
    )
    if dataset.own and single and dataset.node in ("", "linear"):
        dataset = _words(dataset, tables["x"], splits, joined.samples)
    return replace(
        dataset,
        node=dataset.node or _kind(tables["x"]),
        edge=dataset.edge or _kind(tables["edge_attr"]),
    )


def check_graphs(graphs: Graphs, dataset: Dataset, where: str) -> None:
    """Raise SSTCastError, naming the graphs' origin `where`, if a label or a feature is unusable."""

    def row_name(element: str, row: int) -> str:
        """Name a row of the packed graphs, nodes or edges as users number it."""
        counts = {"node": graphs.nodes, "edge": graphs.edges}.get(element)
        if counts is None or len(graphs) == 1:
            return f"{where}: {element} {row}"
        graph = graph_of(counts, row)
        return f"{where}: graph {graph}, {element} {row - int(counts[:graph].sum())}"

    def label(row: int, column: int) -> str:
        has_columns = graphs.y.numel() > len(graphs.y)
        return row_name(graphs.level, row) + (f", column {column}" if has_columns else "")

    objective_of(dataset).check(graphs.y, dataset, label)
    for element, kind, features in (("node", dataset.node, graphs.x), ("edge", dataset.edge, graphs.edge_attr)):
        if kind == "none":
            continue
        if features is None:
            raise SSTCastError(f"{where}: no {element} features; declare {element}: none")
        invalid, requirement = ~features.isfinite(), "a finite number"
        if isinstance(kind, tuple):
            if features.shape[1] != len(kind):
                raise SSTCastError(f"{where}: {element} features do not have the {len(kind)} columns declared")
            invalid = (features < 0) | (features != features.floor()) | (features >= torch.tensor(kind))
            requirement = f"a category: below {kind}"
        if invalid.any():
            row, column = invalid.nonzero()[0].tolist()
            value = f"feature {column} is {float(features[row, column]):g}, which is not {requirement}"
            raise SSTCastError(f"{row_name(element, row)}: {value}")


def _words(dataset: Dataset, x: Tensor | None, splits: Sequence[Split], nodes: int) -> Dataset:
    """Set `words` if each node has few words of many, and `few` if the split trains on few nodes.

    Words are real-valued features, whatever their dtype.
    """
    if x is None or x.shape[1] < MANY_WORDS or not ((x == 0) | (x == 1)).all():
        return dataset
    words = bool(x.double().mean() <= MAX_WORD_SHARE)
    few = training_share(dataset.split, splits, nodes) < FEW
    return replace(dataset, words=words, few=few, node="linear" if words else dataset.node)


def _task(joined: ConcatenatedGraphs) -> tuple[str, str]:
    """Infer the task, and the metric unless the task's usual one applies."""
    labels = joined.labels
    y = labels.flatten().double()
    known_labels = y[~y.isnan()]
    many_graphs, nodes = len(joined.nodes) > 1, joined.nodes
    per_node = torch.equal(joined.counts["y"], nodes) and (not many_graphs or bool((nodes > 1).any()))
    level = "node" if per_node else "graph"
    if not (many_graphs or per_node):
        rows = int(joined.counts["y"].sum())
        raise ValueError(
            f"a single graph needs a label for each of its {int(nodes[0])} nodes, and y has {rows}; set num_nodes "
            "if some nodes have no edges"
        )
    if per_node and many_graphs and labels.ndim == 1 and (nodes == nodes[0]).all():
        raise ValueError(
            f"each graph has {int(nodes[0])} nodes and as many labels: set data.task=graph-regression or "
            "graph-classification if these are of the graph, else node-regression or node-classification"
        )
    columns = len(y) // max(int(nodes.sum()) if per_node else len(nodes), 1)
    binary = bool(((known_labels == 0) | (known_labels == 1)).all())
    if columns > 1 and binary:
        return ("node-classification", "roc-auc") if per_node else ("multi-label", "")
    if columns > 1 or (labels.is_floating_point() and not binary):
        return f"{level}-regression", ""
    if (kinds := len(known_labels.unique())) > max(MOST_CLASSES, len(known_labels) / 10):
        raise ValueError(
            f"y has {kinds} different whole numbers; did you mean data.task={level}-regression? "
            f"If they are classes, set data.task={level}-classification"
        )
    return f"{level}-classification", ""


def _kind(table: Tensor | None) -> Kind:
    if table is None:
        return "none"
    if table.is_floating_point() or table.dtype == torch.bool or not len(table):
        return "linear"
    sizes = table.amax(0) + 1
    return tuple(sizes.tolist()) if table.min() >= 0 and sizes.max() <= MOST_KINDS else "linear"
