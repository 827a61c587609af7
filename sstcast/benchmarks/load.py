"""Loads a declared data set, or graphs in memory: decides what its declaration leaves open, checks, and packs."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data import Dataset as PyGDataset

from sstcast.benchmarks.cache import digest_tensors
from sstcast.benchmarks.classes import read_class
from sstcast.benchmarks.dataset import Dataset, Kind, Memory
from sstcast.benchmarks.given import check_data, graphs_in, read_file
from sstcast.benchmarks.objectives import check_task, objective_of
from sstcast.benchmarks.packed import Graphs, Split, pack
from sstcast.benchmarks.splits import scaffold_split
from sstcast.benchmarks.tables import read_nodes, read_smiles
from sstcast.errors import SSTCastError, in_short
from sstcast.yaml_files import apply_overrides, validate

SHOWN = 8  # digits of the digest in the name of graphs in memory
MANY_WORDS = 100  # columns
DENSE = 0.2  # of them in a row: divided by their number, so many are too small to learn from
FEW = 0.1  # of the nodes
MOST_KINDS = 100_000  # in a column of whole numbers; larger ones are quantities
MOST_CLASSES = 20  # more different whole numbers in a tenth of the samples are no classes, unless declared


class Loaded(NamedTuple):
    """A data set in memory: its graphs, the splits of its own, its complete declaration, and a digest of these."""

    graphs: Graphs
    splits: list[Split]
    dataset: Dataset
    digest: str


def load(dataset: Dataset, root: Path, cache: Path, trust: bool = False) -> Loaded:
    """Read a data set, downloaded below `root` if it is missing; the features of molecules are kept in `cache`.

    Raises SSTCastError if a raw file cannot be had, is damaged or may run code, or its content is inconsistent.
    """
    check_task(dataset)
    if dataset.reader in ("class", "ogb"):
        return pack_given(dataset, *read_class(dataset, root, trust), str(dataset.folder_in(root)))
    if dataset.reader == "smiles_csv":
        return pack_given(dataset, *read_smiles(dataset, root, cache, trust), dataset.name)
    path: Path = dataset.options["path"]
    given = read_nodes(dataset) if dataset.reader == "graph_csv" else read_file(path, trust)
    return pack_given(dataset, *given, str(path))


def load_memory(source: Any, overrides: list[str]) -> Loaded:
    """Check, complete and pack the graphs in `source`, as `graphs_in` describes it.

    `overrides` may hold `data.task=...` and the like, and `split=...`. The data set is called by the name that the
    source has, if any, and by a digest of the graphs. Raises SSTCastError if a graph or an override is wrong.
    """
    kind = type(source).__name__ if isinstance(source, PyGDataset) else "graphs"
    name = str(getattr(source, "name", None) or kind)
    raw: dict[str, Any] = {"data": {"kind": "memory"}}
    apply_overrides(raw, overrides)
    split = {"split": raw["split"]} if isinstance(raw.get("split"), str) else {}
    declared = validate(Memory, raw["data"] | split, "overrides").declare(name)
    check_task(declared)
    loaded = pack_given(declared, *graphs_in(source, name), name)
    return loaded._replace(dataset=replace(loaded.dataset, name=f"{name}-{loaded.digest[:SHOWN]}"))


def pack_given(dataset: Dataset, data: Sequence[Data], splits: Sequence[Split], where: str) -> Loaded:
    """Check, complete and pack graphs of PyG; raise SSTCastError, saying `where` they are from, if one is bad."""
    check_data(data, where)
    if dataset.split == "scaffold":
        if not all(isinstance(one.get("smiles"), str) for one in data):
            raise SSTCastError(f"{where}: split: scaffold is for molecules given as SMILES; choose another")
        splits = [scaffold_split([one.smiles for one in data])]
    dataset = complete(dataset, data, bool(splits))
    try:
        graphs = pack([_graph(one, i, dataset) for i, one in enumerate(data)], objective_of(dataset).level)
    except Exception as error:  # whatever a user's graphs hold
        raise SSTCastError(f"{where}: {in_short(error)}") from error
    check_graphs(graphs, dataset, where)
    graphs = replace(graphs, y=objective_of(dataset).shaped(graphs.y))
    parts = {f"split {i} {j}": part for i, split in enumerate(splits) for j, part in enumerate(split)}
    return Loaded(graphs, list(splits), dataset, digest_tensors(graphs.tensors() | parts, graphs.level))


def _graph(data: Data, number: int, dataset: Dataset) -> dict[str, Any]:
    """Return the parts of a graph by name; raise ValueError, naming the graph, if its labels do not fit."""
    nodes = int(data.num_nodes or 0)
    try:
        found: dict[str, Any] = objective_of(dataset).labels_of(data, nodes)
    except ValueError as error:
        raise ValueError(f"graph {number}: {error}") from error
    for name, kind in (("x", dataset.node), ("edge_attr", dataset.edge)):
        if (table := data.get(name)) is not None and kind != "none":
            table = table.to_dense() if table.layout != torch.strided else table
            table = table.view(-1, 1) if table.ndim == 1 else table
            found[name] = table.float() if kind == "linear" else table
    return found | {"num_nodes": nodes, "edge_index": data.edge_index}


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
    if dataset.reader == "memory" and single:
        dataset = _words(dataset, data[0])
    return replace(
        dataset,
        metric=dataset.metric or next(iter(objective.metrics)),
        split=dataset.split or ("official" if official else "random:0.8/0.1/0.1"),
        node=dataset.node or _kind([d.x for d in data]),
        edge=dataset.edge or _kind([d.edge_attr for d in data]),
        single=single,
    )


def check_graphs(graphs: Graphs, dataset: Dataset, where: str) -> None:
    """Raise SSTCastError, saying `where` the graphs are from, if their parts do not fit or a value is unusable."""

    def place(row: int, column: int) -> str:
        labels = graphs.y.numel() // max(len(graphs.y), 1)
        return f"{where}: {_place(graphs, graphs.level, row)}" + (f", column {column}" if labels > 1 else "")

    objective_of(dataset).check(graphs.y, dataset, place)
    _check_features(graphs, "node", dataset.node, graphs.x, where)
    _check_features(graphs, "edge", dataset.edge, graphs.edge_attr, where)


def _words(dataset: Dataset, data: Data) -> Dataset:
    """Say whether rows of words are to be divided by their sum, and whether few nodes have labels to learn."""
    x, mask = data.x, data.get("train_mask")
    bag = x is not None and x.is_floating_point() and x.shape[-1] >= MANY_WORDS
    bag = bag and bool(((x == 0) | (x == 1)).all())
    few = bag and mask is not None and mask.double().mean() < FEW
    return replace(dataset, words=bag and bool(x.mean() < DENSE), few=bool(few))


def _task(name: str, data: Sequence[Data]) -> tuple[str, str]:
    """Return the task, and the metric if the task's usual one does not suit."""
    try:
        labels = [torch.as_tensor(d.y) for d in data]
        y = torch.cat([y.flatten() for y in labels]).double()
    except (TypeError, ValueError, RuntimeError) as error:
        raise SSTCastError(
            f"{name}: every graph must have labels y, which are numbers ({in_short(error)})"
        ) from error
    y = y[~y.isnan()]
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
