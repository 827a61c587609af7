"""A graph in one `.npz` file: edges, features, labels, and optionally masks.

`options` names the arrays: `edges`, `features`, `labels`, and, if present, `edge_features`, `train`, `validation`
and `test`. With `directed`, edges have the direction that they are given in.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.utils import coalesce, remove_self_loops, to_undirected

from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.formats.arrays import splits_of
from sstcast.benchmarks.packed import Loaded, pack
from sstcast.errors import SSTCastError, reading


def read(root: Path, dataset: Dataset) -> Loaded:
    """Read the graph and its split, if the file has masks."""
    path, names = root / dataset.folder / dataset.names[0], dataset.options
    with reading(path, "save it with np.savez"), np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] if name in names.values() else None for name in file}
    labels = _array(arrays, names["labels"], path)
    with np.errstate(over="ignore"):  # too large numbers become infinite, and the checks report them
        features = _array(arrays, names["features"], path).astype(np.float32)
    if not len(labels) or len(features) != len(labels):
        raise SSTCastError(
            f"{path}: {len(labels)} labels, {len(features)} rows of features; give one of each to every node"
        )
    index = _edges(_array(arrays, names["edges"], path), names["edges"], len(labels), path)
    graph = {"x": features, "y": labels} | _linked(arrays, index, len(labels), names, path)
    parts = (names["train"], names["validation"], names["test"])
    masks = [_array(arrays, name, path) for name in parts] if names["train"] in arrays else None
    graphs = pack([graph], "node")
    return Loaded(graphs, [] if masks is None else splits_of(masks, len(labels)))


def _linked(arrays: Any, index: Any, nodes: int, names: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return edges both ways unless `directed`, without loops; the features of repeated edges are averaged."""
    attributes = None
    if names.get("edge_features"):
        attributes = torch.from_numpy(_array(arrays, names["edge_features"], path).astype(np.float32))
        if len(attributes) != index.shape[1]:
            count = f"{len(attributes)} rows of {names['edge_features']!r} for {index.shape[1]} edges"
            raise SSTCastError(f"{path}: {count}; give one to every edge")
        attributes = attributes.reshape(len(attributes), -1)
        if len(wrong := (~attributes.isfinite()).nonzero()):  # here, as edges are sorted below
            row, column = wrong[0].tolist()
            place = f"array {names['edge_features']!r}, row {row}, column {column}"
            raise SSTCastError(f"{path}: {place}: {float(attributes[row, column])}, which is no finite number")
    ends, attributes = remove_self_loops(torch.from_numpy(index.astype(np.int64)), attributes)
    join = coalesce if names.get("directed") else to_undirected
    if attributes is None:
        return {"edge_index": join(ends, num_nodes=nodes)}
    ends, attributes = join(ends, attributes, num_nodes=nodes, reduce="mean")
    return {"edge_index": ends, "edge_attr": attributes}


def _array(arrays: Mapping[str, Any], name: str, file: Path) -> Any:
    if name not in arrays:
        raise SSTCastError(f"{file}: no array {name!r}; it has {', '.join(arrays)}")
    found = np.asarray(arrays[name])
    if found.dtype.kind not in "biuf" or not found.ndim:
        raise SSTCastError(f"{file}: array {name!r} is {found.dtype} {found.shape}; give numbers")
    return found.astype(np.int64) if found.dtype.kind == "u" else found


def _edges(index: Any, name: str, nodes: int, file: Path) -> Any:
    if index.ndim != 2 or 2 not in index.shape:
        raise SSTCastError(f"{file}: {name} have the shape {index.shape}; give [edges, 2] or [2, edges]")
    by_row = index.shape[1] == 2
    ends = index.T if by_row else index
    wrong = np.flatnonzero(~((ends >= 0) & (ends < nodes) & (ends == np.floor(ends))).all(0))
    if len(wrong):
        place = f"array {name!r}, {'row' if by_row else 'column'} {wrong[0]}"
        source, target = ends[:, wrong[0]].tolist()
        raise SSTCastError(
            f"{file}: {place}: {source} - {target} points outside; nodes are whole numbers, 0..{nodes - 1}"
        )
    return ends
