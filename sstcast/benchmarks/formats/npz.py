"""A graph in one `.npz` file: edges, features, labels, and perhaps masks.

`options` names the arrays: `edges`, `features`, `labels`, and where there are such `train`, `validation`,
`test`. With `sparse`, edges and features are the parts of CSR matrices, as in Shchur et al. 2018
(arXiv:1811.05868), and features count only whether a word is there.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from sstcast.benchmarks.formats.arrays import splits_of, undirected, whole
from sstcast.benchmarks.graphs import Loaded, pack
from sstcast.benchmarks.pickles import load_npz
from sstcast.errors import SSTCastError

if TYPE_CHECKING:
    from sstcast.benchmarks.registry import Dataset


def read(folder: Path, dataset: "Dataset") -> Loaded:
    """Read the graph; its splits are in it, or in a second file that the declaration names."""
    files = [folder / name for name in dataset.names]
    arrays, names = load_npz(files[0]), dataset.options
    if names.get("sparse"):
        index = np.stack(_csr(arrays, "adj").nonzero())
        features = (_csr(arrays, "attr").toarray() > 0).astype(np.float32)
    else:
        index = _edges(_array(arrays, names["edges"], files[0]), files[0])
        features = _array(arrays, names["features"], files[0]).astype(np.float32)
    labels = _array(arrays, names["labels"], files[0])
    for what, found in (("labels", labels), ("features", features)):
        if not len(found) or len(found) != len(labels):
            raise SSTCastError(
                f"{files[0]}: {len(labels)} labels, {len(features)} rows of {what}; give one of each to every node"
            )
    graph = {"x": features, "edge_index": undirected(index, len(labels)), "y": labels}
    graphs = pack([graph], "node")

    splits = load_npz(files[1]) if len(files) > 1 else arrays
    if names.get("train") not in splits:
        return Loaded(graphs, [])
    masks = (_array(splits, names[part], files[-1]) for part in ("train", "validation", "test"))
    return Loaded(graphs, splits_of(masks, len(labels)))


def _array(arrays: dict[str, Any], name: str, file: Path) -> Any:
    if name not in arrays:
        raise SSTCastError(f"{file}: no array {name!r}; it has {', '.join(arrays)}")
    found = np.asarray(arrays[name])
    if found.dtype.kind not in "biuf" or not found.ndim:
        raise SSTCastError(f"{file}: array {name!r} is {found.dtype} {found.shape}; give numbers")
    return found.astype(np.int64) if found.dtype.kind == "u" else found


def _edges(index: Any, file: Path) -> Any:
    if index.ndim != 2 or 2 not in index.shape:
        raise SSTCastError(f"{file}: edges have the shape {index.shape}; give [edges, 2] or [2, edges]")
    return whole(index.T if index.shape[1] == 2 else index)


def _csr(arrays: dict[str, Any], name: str) -> csr_array:
    parts = tuple(arrays[f"{name}_{part}"] for part in ("data", "indices", "indptr"))
    matrix = csr_array(parts, shape=tuple(arrays[f"{name}_shape"]))
    matrix.check_format()
    return matrix
