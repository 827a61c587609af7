"""Checks that every data set must pass before a model uses it, whichever reader read it."""

from pathlib import Path

import torch
from torch import Tensor

from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.packed import Graphs, Split
from sstcast.errors import SSTCastError


def check_graphs(graphs: Graphs, dataset: Dataset, folder: Path) -> None:
    """Raise SSTCastError if edges, features or labels do not match each other or the declaration."""
    path = folder / dataset.names[0] if dataset.names else folder
    _check_lengths(graphs, path)
    check_edges(graphs, path, keep_edgeless=dataset.options.get("edgeless", True))
    labelled = next((name for name in dataset.names if "label" in name or "attributes" in name), "")
    check_labels(graphs, dataset, folder / labelled if labelled else path)
    check_features(graphs, dataset, path)


def check_edges(graphs: Graphs, path: Path, keep_edgeless: bool = True) -> None:
    """Raise SSTCastError, naming the graph and the edge, if an edge points outside its graph.

    Also raise it if a graph has no nodes or, unless `keep_edgeless`, no edges.
    """
    nodes = graphs.nodes.repeat_interleave(graphs.edges)
    outside = ((graphs.edge_index < 0) | (graphs.edge_index >= nodes)).any(0).nonzero()
    if len(outside):
        row = int(outside[0])
        source, target = graphs.edge_index[:, row].tolist()
        raise SSTCastError(
            f"{path}: {_place(graphs, 'edge', row)}: {source} - {target} points outside; "
            f"its nodes are 0..{int(nodes[row]) - 1}"
        )
    for counts, what in ((graphs.nodes, "nodes"), (graphs.edges, "edges")):
        empty = (counts == 0).nonzero()
        if len(empty) and (what == "nodes" or not keep_edgeless):
            raise SSTCastError(f"{path}: graph {int(empty[0])} has no {what}; give it some or leave it out")


def check_split(split: Split, samples: int, name: str) -> Split:
    """Return the split; raise SSTCastError if a part is empty, or a sample is in it twice or does not exist."""
    every = torch.cat(list(split))
    empty = next((part for part, rows in zip(Split._fields, split, strict=True) if not len(rows)), None)
    if empty is not None:
        raise SSTCastError(f"{name}: of its {samples} samples none is for {empty}; choose another split")
    outside = every[(every < 0) | (every >= samples)]
    if len(outside):
        raise SSTCastError(f"{name}: its split has the sample {int(outside[0])}; there are 0..{samples - 1}")
    times = torch.bincount(every, minlength=samples)
    if times.max() > 1:
        raise SSTCastError(f"{name}: its split has the sample {int(times.argmax())} more than once")
    return split


def check_labels(graphs: Graphs, dataset: Dataset, path: Path) -> None:
    """Raise SSTCastError, naming file and row, if the task cannot use a label."""
    y = graphs.y
    rows = {"graph": len(graphs), "node": int(graphs.nodes.sum()), "pair": len(y)}[graphs.level]
    if len(y) != rows or (dataset.classes and y.numel() != rows):
        raise SSTCastError(f"{path}: {y.numel()} labels for {rows} {graphs.level}s")
    values = y.double().reshape(rows, -1)
    if dataset.classes:
        declared = dataset.options.get("classes")
        classes = declared or int(values.nan_to_num(-1, posinf=-1).max()) + 1
        if not 1 <= classes <= max(rows, declared or 0):
            problem = "no label is known" if classes < 1 else f"{classes} classes among {rows} {graphs.level}s"
            raise SSTCastError(f"{path}: {problem}; give the classes the numbers 0, 1, ...")
    if found := wrong_label(values, dataset):
        row, column, problem = found
        line = dataset.reader in ("tudataset", "ogb")  # one label per line, without a header
        where = f"line {row + 1}" if line else _place(graphs, graphs.level, row)
        where += f", column {column}" if values.shape[1] > 1 else ""
        raise SSTCastError(f"{path}: {where}: {problem}")


def wrong_label(values: Tensor, dataset: Dataset) -> tuple[int, int, str] | None:
    """Return row and column of the first of `values [rows, labels]` that the task cannot use, and why, or None."""
    if dataset.classes:
        values = values.nan_to_num(-1, posinf=torch.inf, neginf=-torch.inf)
        classes = dataset.options.get("classes") or torch.inf
        wrong = (values != values.floor()) | (values < -1) | (values >= classes)
        known = f"a class: 0..{classes - 1}, or -1" if classes < torch.inf else "a class: 0, 1, ..., or -1"
    elif dataset.task == "next-tokens" or dataset.task.endswith("regression"):
        wrong, known = values.abs() > torch.finfo(torch.float32).max, "a finite number"
    else:
        wrong, known = ~((values == 0) | (values == 1) | values.isnan()), "0, 1 or missing"
    if not wrong.any():
        return None
    row, column = wrong.nonzero()[0].tolist()
    return row, column, f"label {float(values[row, column]):g}, which is not {known}"


def _place(graphs: Graphs, what: str, row: int) -> str:
    """Describe a row of the packed graphs, nodes or edges as users number it."""
    counts = {"node": graphs.nodes, "edge": graphs.edges}.get(what)
    if counts is None or len(graphs) == 1:
        return f"{what} {row}"
    ends = counts.cumsum(0)
    graph = int(torch.searchsorted(ends, row, right=True))
    return f"graph {graph}, {what} {row - int(ends[graph] - counts[graph])}"


def check_features(graphs: Graphs, dataset: Dataset, path: Path) -> None:
    """Raise SSTCastError if features are not finite numbers or not of the declared kind."""
    for what, declared, found in (("node", dataset.node, graphs.x), ("edge", dataset.edge, graphs.edge_attr)):
        if declared == "none":
            continue
        if found is None:
            raise SSTCastError(f"{path}: no {what} features; declare {what}: none")
        if not len(found):
            continue
        if isinstance(declared, tuple):
            if found.shape[1] != len(declared):
                raise SSTCastError(f"{path}: {what} features do not have the {len(declared)} columns declared")
            if wrong := ((found < 0) | (found != found.floor())).nonzero().tolist():
                row, column = wrong[0]
                value = float(found[row, column])
                where = _place(graphs, what, row)
                raise SSTCastError(f"{path}: {where}: feature {column} is {value:g}, which is no category")
            for column, (most, size) in enumerate(zip(found.amax(0).tolist(), declared, strict=True)):
                if most >= size:
                    known = f"the {size} categories 0..{size - 1}"
                    where = _place(graphs, what, int(found[:, column].argmax()))
                    raise SSTCastError(f"{path}: {where}: feature {column} is {most:g}, beyond {known}")
        elif not found.isfinite().all():
            row, column = (~found.isfinite()).nonzero()[0].tolist()
            where = _place(graphs, what, row)
            raise SSTCastError(f"{path}: {where}: feature {column} is {float(found[row, column])}")


def _check_lengths(graphs: Graphs, path: Path) -> None:
    if min(int(graphs.nodes.min()), int(graphs.edges.min())) < 0:
        raise SSTCastError(f"{path}: a number of nodes or edges is negative")
    nodes, edges = int(graphs.nodes.sum()), int(graphs.edges.sum())
    wanted: dict[str, tuple[Tensor | None, int]] = {
        "edges": (graphs.edge_index.T, edges),
        "rows of node features": (graphs.x, nodes),
        "rows of edge features": (graphs.edge_attr, edges),
    }
    for what, (found, rows) in wanted.items():
        if found is not None and (found.ndim != 2 or len(found) != rows):
            raise SSTCastError(f"{path}: {what}: shape {list(found.shape)}, where {rows} rows belong")
    if graphs.edge_index.is_floating_point() or len(graphs.edge_index) != 2:
        raise SSTCastError(f"{path}: edges must be two rows of whole numbers")
