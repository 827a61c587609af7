"""Folders in the form of TUDataset (Morris et al. 2020, arXiv:2007.08663): `NAME_A.txt` and its companions.

Labels of nodes and edges become indicator columns; attributes are standardised and come first. Classes are
numbered in ascending order; -1 together with 1 is an ordinary class.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.formats.arrays import read_numbers
from sstcast.benchmarks.packed import Graphs, Loaded, compact
from sstcast.errors import SSTCastError


def with_features(dataset: Dataset, folder: Path) -> Dataset:
    """Return the declaration with the files of features that are in the folder."""
    prefix = dataset.names[0].removesuffix("_A.txt")
    files, kinds = dict(dataset.files), dict.fromkeys(("node", "edge"), "none")
    for of, kind in ((of, kind) for of in kinds for kind in ("labels", "attributes")):
        if (folder / f"{prefix}_{of}_{kind}.txt").exists():
            files[f"{prefix}_{of}_{kind}.txt"], kinds[of] = "", "linear"
    return replace(dataset, files=files, **kinds)  # type: ignore[arg-type]


def read(root: Path, dataset: Dataset) -> Loaded:
    """Read the graphs; there is no official split."""
    folder = root / dataset.folder
    prefix = dataset.names[0].removesuffix("_A.txt")
    owner = read_numbers(folder / f"{prefix}_graph_indicator.txt", 1)[:, 0].astype(np.int64) - 1
    ends = read_numbers(folder / dataset.names[0], 2).astype(np.int64) - 1
    targets = _targets(folder, prefix, dataset)
    _check(folder, prefix, owner, ends, len(targets), dataset)

    nodes = np.bincount(owner, minlength=len(targets))
    graph_of = owner[ends[:, 0]]
    _, kept = np.unique(ends[:, 0] * len(owner) + ends[:, 1], return_index=True)
    kept = np.sort(kept[ends[kept, 0] != ends[kept, 1]])  # no loops and no duplicates
    kept = kept[np.argsort(graph_of[kept], kind="stable")]
    index = (ends[kept] - (nodes.cumsum() - nodes)[graph_of[kept], None]).T
    edge_attr = _features(folder, f"{prefix}_edge", len(ends))
    x = _features(folder, f"{prefix}_node", len(owner))
    graphs = Graphs(
        level="graph",
        nodes=torch.from_numpy(nodes),
        edges=torch.from_numpy(np.bincount(graph_of[kept], minlength=len(targets))),
        edge_index=compact(torch.from_numpy(np.ascontiguousarray(index))),
        y=torch.from_numpy(targets),
        x=None if x is None else torch.from_numpy(x),
        edge_attr=None if edge_attr is None else torch.from_numpy(edge_attr[kept]),
    )
    return Loaded(graphs, [])


def _targets(folder: Path, prefix: str, dataset: Dataset) -> NDArray[Any]:
    if dataset.task == "graph-regression":
        return read_numbers(folder / f"{prefix}_graph_attributes.txt").astype(np.float32)
    path = folder / f"{prefix}_graph_labels.txt"
    if not dataset.classes:
        return read_numbers(path).astype(np.float32)
    labels = read_numbers(path, 1)[:, 0]
    known, numbered = np.unique(labels, return_inverse=True)
    # Two classes are often called -1 and 1; any other negative number is not a class.
    if known[0] < 0 and known.tolist() != [-1, 1]:
        line = int(np.flatnonzero(labels < 0)[0])
        remedy = "classes are whole numbers from 0 on, or -1 and 1"
        raise SSTCastError(f"{path}: line {line + 1}: label {labels[line]}; {remedy}")
    return numbered.astype(np.int64)


def _check(
    folder: Path, prefix: str, owner: NDArray[Any], ends: NDArray[Any], graphs: int, dataset: Dataset
) -> None:
    indicator, adjacency = folder / f"{prefix}_graph_indicator.txt", folder / f"{prefix}_A.txt"
    falls = np.flatnonzero(np.diff(owner) < 0)
    if len(falls):
        raise SSTCastError(f"{indicator}: line {falls[0] + 2}: nodes of one graph must follow one another")
    out = np.flatnonzero((owner < 0) | (owner >= graphs))
    if len(out):
        line = int(out[0])
        raise SSTCastError(
            f"{indicator}: line {line + 1}: graph {owner[line] + 1}, but {graphs} graphs have labels"
        )
    outside = np.flatnonzero(((ends < 0) | (ends >= len(owner))).any(1))
    if not len(outside):
        outside = np.flatnonzero(owner[ends[:, 0]] != owner[ends[:, 1]])
    if len(outside):
        line, pair = int(outside[0]), ends[outside[0]] + 1
        raise SSTCastError(f"{adjacency}: line {line + 1}: edge {pair[0]}, {pair[1]} points outside of its graph")
    for of, file, what in ((owner, indicator, "nodes"), (owner[ends[:, 0]], adjacency, "edges")):
        empty = np.flatnonzero(np.bincount(of, minlength=graphs) == 0)
        if len(empty) and (what == "nodes" or not dataset.options.get("edgeless")):
            raise SSTCastError(f"{file}: graph {empty[0] + 1} has no {what}; leave it out, label and all")


def _features(folder: Path, prefix: str, rows: int) -> NDArray[np.float32] | None:
    found = []
    for kind in ("attributes", "labels"):
        path = folder / f"{prefix}_{kind}.txt"
        if not path.exists():
            continue
        values = read_numbers(path)
        if len(values) != rows:
            raise SSTCastError(f"{path}: {len(values)} lines where {rows} belong")
        if (missing := np.isnan(values)).any():
            line, column = np.argwhere(missing)[0]
            raise SSTCastError(f"{path}: line {line + 1}: column {column + 1} is no number")
        if kind == "attributes":
            found.append((values - values.mean(0)) / np.maximum(values.std(0), 1e-6))
        else:
            found += [column[:, None] == np.unique(column) for column in values.T]
    return np.concatenate(found, axis=1).astype(np.float32) if found else None
