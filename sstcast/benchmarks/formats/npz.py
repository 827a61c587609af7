"""A graph in one `.npz` file: edges, features, labels, and optionally masks.

`options` names the arrays: `edges`, `features`, `labels`, and, if present, `train`, `validation` and `test`. With
`sparse`, edges and features are the parts of CSR matrices, as in Shchur et al. 2018 (arXiv:1811.05868), and
features only say whether a word is present.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.formats.arrays import splits_of, undirected
from sstcast.benchmarks.packed import Loaded, pack
from sstcast.benchmarks.pickles import load_npz
from sstcast.errors import SSTCastError

DENSE = 2**32  # largest number of entries of a sparse matrix when made dense


def read(folder: Path, dataset: Dataset) -> Loaded:
    """Read the graph; its splits are in the same file, or in a second file that the declaration names."""
    files = [folder / name for name in dataset.names]
    arrays, names = load_npz(files[0], dataset.trust), dataset.options
    labels = _array(arrays, names["labels"], files[0])
    sparse = names.get("sparse")
    if sparse:
        features = (_csr(arrays, "attr", files[0]).toarray() > 0).astype(np.float32)
    else:
        with np.errstate(over="ignore"):  # too large numbers become infinite, and the checks report them
            features = _array(arrays, names["features"], files[0]).astype(np.float32)
    if not len(labels) or len(features) != len(labels):
        raise SSTCastError(
            f"{files[0]}: {len(labels)} labels, {len(features)} rows of features; give one of each to every node"
        )
    if sparse:
        index = np.stack(_csr(arrays, "adj", files[0]).nonzero())
    else:
        index = _edges(_array(arrays, names["edges"], files[0]), names["edges"], len(labels), files[0])
    graph = {"x": features, "edge_index": undirected(index, len(labels)), "y": labels}
    graphs = pack([graph], "node")

    splits = load_npz(files[1], dataset.trust) if len(files) > 1 else arrays
    if names.get("train") not in splits:
        return Loaded(graphs, [])
    masks = (_array(splits, names[part], files[-1]) for part in ("train", "validation", "test"))
    return Loaded(graphs, splits_of(masks, len(labels)))


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


def _csr(arrays: Mapping[str, Any], name: str, file: Path) -> csr_array:
    data, indices, indptr, shape = (
        _array(arrays, f"{name}_{part}", file) for part in ("data", "indices", "indptr", "shape")
    )
    if math.prod(shape.tolist()) > DENSE:
        raise SSTCastError(f"{file}: array '{name}_shape' is {shape.tolist()}, which is too large")
    matrix = csr_array((data, indices, indptr), shape=tuple(shape.tolist()))
    matrix.check_format()
    return matrix
