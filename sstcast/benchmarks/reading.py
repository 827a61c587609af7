"""Reads data sets of PyG and OGB, whose classes download, process and cache them, and a user's own `Data`.

A file that may run code is opened only if its digest is known or the user trusts it.
"""

import hashlib
import io
import math
import pickle
import sys
import warnings
import zipfile
from collections.abc import Collection, Iterable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch_geometric.datasets
from scipy.sparse import coo_matrix, csr_matrix
from torch_geometric.data import Data, InMemoryDataset, download_url, extract_zip
from torch_geometric.data.data import BaseData, DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import EdgeStorage, GlobalStorage, NodeStorage
from torch_geometric.utils import remove_self_loops, to_undirected

from sstcast.benchmarks.edges import listed_edges, sorted_by_node
from sstcast.benchmarks.objectives import number_words
from sstcast.benchmarks.packed import ConcatenatedGraphs, Split
from sstcast.benchmarks.registry import Dataset
from sstcast.benchmarks.splits import MASKS, by_part, splits_in
from sstcast.errors import SSTCastError, reading
from sstcast.log import LOG
from sstcast.storage.artefacts import locked
from sstcast.storage.paths import walk

FORMS = "give a list of torch_geometric.data.Data, a single one, or a dictionary with train, validation and test"
TEXT = (".txt", ".csv", ".tsv", ".json", ".index", ".edgelist", ".edges", ".gml", ".gz", ".zip", ".md", ".content")
CSR = "data", "indices", "indptr", "shape"  # arrays of a sparse matrix
NPZ = "adj", "attr", "labels"
MOST_UNUSED = 100  # times the columns of features that a graph uses; more take memory for nothing
DEEPEST = 20  # deeper nodes of a syntax tree count as this deep

# `torch.save` writes these types for a list of `Data`, besides those that PyG itself adds.
torch.serialization.add_safe_globals([DataEdgeAttr, DataTensorAttr, EdgeStorage, GlobalStorage, NodeStorage])


def read_class(dataset: Dataset, root: Path, trust: bool) -> tuple[ConcatenatedGraphs, list[Split]]:
    """Return the graphs that a class of PyG or OGB reads, and official splits other than masks of the graphs.

    The class downloads, processes and caches the files in the set's folder below `root`. Processed files older
    than a raw file are made again. Raises SSTCastError if the class, or a file that was already there, may run
    code and is not trusted, if the download fails, or if the class cannot read the files.
    """
    dataset.check_reviewed(trust)
    folder = dataset.folder_in(root)
    remedy = (
        f"put the files of {dataset.name} there, name another --root, or delete damaged files to download again"
    )
    files = fetch(dataset, root)
    output = sys.stderr if sys.stderr.isatty() else io.StringIO()  # the output of a class
    with reading(folder, remedy), locked(root / dataset.name):
        raw, processed = _files(folder, "raw"), _files(folder, "processed")
        newest = max((path.stat().st_mtime for path in raw), default=0.0)
        if any(path.stat().st_mtime < newest for path in processed):
            for path in processed:
                path.unlink()
            processed = []
        check_raw(processed, dataset.sha256, trust)
        with redirect_stdout(output), redirect_stderr(output), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about old names in NumPy and SciPy
            reader = _of_ogb if dataset.reader == "ogb" else _of_pyg
            graphs, splits = reader(dataset, root, [] if trust else raw)
            if dataset.options.get("positions"):  # of superpixels
                graphs.data.x = torch.cat([graphs.data.x, graphs.data.pos], dim=1)
    for path in files:  # the splits of a paper
        with reading(path, "get it again"), np.load(path, allow_pickle=False) as file:
            splits = splits_in(file, graphs.samples)
    return graphs, splits


def _files(folder: Path, kind: str) -> list[Path]:
    """Return the files in those folders of a set whose names begin with `kind`, which is raw or processed."""
    files = (directory / name for directory, _, names in walk(folder) for name in names)  # links are followed
    return [path for path in files if any(part.startswith(kind) for part in path.relative_to(folder).parts[:-1])]


def _checking(cls: Any, raw: list[Path], digests: Collection[str]) -> Any:
    """Return a subclass that checks the raw files before it processes them. It reads them only then."""

    def process(self: Any) -> None:
        check_raw(raw, digests)
        cls.process(self)

    return type(cls.__name__, (cls,), {"process": process})


def _of_pyg(dataset: Dataset, root: Path, raw: list[Path]) -> tuple[ConcatenatedGraphs, list[Split]]:
    """Return the graphs, and one split if the class reads its parts separately."""
    cls = getattr(torch_geometric.datasets, dataset.reader)
    parameters = signature(cls).parameters
    cls = _checking(cls, raw, dataset.sha256) if "root" in parameters else cls  # others have no files
    arguments: dict[str, Any] = {"root": str(root / dataset.folder)} if "root" in parameters else {}
    arguments |= {"name": dataset.part} if dataset.part is not None else {}
    arguments |= dataset.options.get("arguments", {})
    first = cls(**arguments)
    split = parameters.get("split")
    if split is None or split.default not in ("train", None) or len(first.processed_paths) < 2:
        # The edges of a single graph are sorted by node, whatever order a class gives them. None are merged.
        return join([sorted_by_node(first[0])] if len(first) == 1 else first), []
    return _join_parts([cls(**arguments, split=part) for part in ("train", "val", "test")])


def _of_ogb(dataset: Dataset, root: Path, raw: list[Path]) -> tuple[ConcatenatedGraphs, list[Split]]:
    """Return the graphs and the official split of a set of the Open Graph Benchmark (arXiv:2005.00687)."""
    from ogb.graphproppred import PygGraphPropPredDataset
    from ogb.nodeproppred import PygNodePropPredDataset

    release = root / dataset.folder / f"RELEASE_v{dataset.options['version']}.txt"
    if release.parent.is_dir() and not release.exists():
        release.touch()  # without it, the class asks on the terminal whether to delete the files
    cls = PygNodePropPredDataset if dataset.single else PygGraphPropPredDataset
    source = _checking(cls, raw, dataset.sha256)(dataset.name, root=str(root))
    rows = source.get_idx_split()
    if dataset.single:
        ends, _ = remove_self_loops(source[0].edge_index)
        ends = to_undirected(ends, num_nodes=source[0].num_nodes)
        graphs = join([source[0].update({"edge_index": ends, "edge_attr": None})])
    elif dataset.task == "next-tokens":
        trees = list(source)
        graphs = join([_link_tokens(tree) for tree in trees])
        graphs.data.y = number_words([tree.y for tree in trees], [trees[i].y for i in rows["train"].tolist()])
    else:
        graphs = join(source)
    return graphs, splits_in(rows, graphs.samples)


def _link_tokens(tree: Data) -> Data:
    """Add edges both ways between successive tokens of a syntax tree, as ogbg-code2's baselines do.

    Edges have two features of 0 or 1: between tokens, and inverse. The depth of a node becomes a feature.
    """
    edges, tokens = tree.edge_index, tree.node_is_attributed.flatten().nonzero().flatten()  # in depth-first order
    chain = torch.stack([tokens[:-1], tokens[1:]])
    pieces = [edges, edges.flip(0), chain, chain.flip(0)]
    kinds = torch.tensor([(0, 0), (0, 1), (1, 0), (1, 1)])
    attr = kinds.repeat_interleave(torch.tensor([piece.shape[1] for piece in pieces]), 0)
    x = torch.cat([tree.x, tree.node_depth.clamp(max=DEEPEST)], dim=1)
    return Data(x=x, edge_index=torch.cat(pieces, dim=1), edge_attr=attr, y=0)


def graphs_in(source: Any, where: str) -> tuple[ConcatenatedGraphs, list[Split]]:
    """Return the graphs in `source`, and the splits in it that are not masks of the graphs.

    `source` is one `Data`, several, or a data set of PyG or OGB. It may also be a dictionary of `graphs` with the
    numbers of graphs, or masks, for `train`, `validation` and `test`, or a dictionary of a list of graphs for each
    of the three. A single graph may have the masks `train_mask`, `val_mask` and `test_mask` of its nodes. Each of
    several graphs may hold each of these as one boolean. Raises SSTCastError, naming the origin `where`, for
    anything else.
    """
    with reading(Path(where), FORMS):
        rows: Any = source if isinstance(source, Mapping) else {}
        if rows and "graphs" not in rows:
            return _join_parts(by_part(rows))
        if hasattr(source, "get_idx_split"):  # of OGB's classes
            rows = source.get_idx_split()
        graphs = join(source["graphs"] if isinstance(source, Mapping) else source)
        return graphs, splits_in(rows, graphs.samples) if rows else []


def _join_parts(sources: Iterable[Any]) -> tuple[ConcatenatedGraphs, list[Split]]:
    """Join the graphs for training, validation and testing. Return them and their split."""
    parts = [join(source) for source in sources]
    sizes = [len(part.nodes) for part in parts]
    return ConcatenatedGraphs.of_parts(parts), [Split(*torch.arange(sum(sizes)).split(sizes))]


def join(source: Any) -> ConcatenatedGraphs:
    """Join one `Data`, several, a data set of PyG, or the content of a file of `InMemoryDataset.save`."""
    if isinstance(source, BaseData):  # also of a kind that is refused
        return ConcatenatedGraphs.of_list([source])
    if isinstance(source, tuple) and len(source) > 1 and isinstance(source[0], dict):
        return ConcatenatedGraphs.of_slices(Data.from_dict(source[0]), source[1])
    stored = isinstance(source, InMemoryDataset) and type(source).get is InMemoryDataset.get
    if stored and source.transform is None and source._indices is None:
        return ConcatenatedGraphs.of_slices(source._data, source.slices)
    return ConcatenatedGraphs.of_list(list(source))


def read_file(path: Path, trust: bool) -> tuple[ConcatenatedGraphs, list[Split]]:
    """Read a file of `torch.save` with any `source` of `graphs_in`, a processed `InMemoryDataset`, or an npz.

    Raises SSTCastError if the file is missing or damaged, or may run code and is not trusted.
    """
    if path.suffix == ".npz":
        return graphs_in(_read_npz(path), str(path))
    check_raw([path], (), trust)
    with reading(path, "save it with torch.save"):
        raw = torch.load(path, map_location="cpu", weights_only=False) if trust else _load_plain(path)
    return graphs_in(raw, str(path))


def _read_npz(path: Path) -> Data:
    """Read one graph from the matrices in CSR form of Shchur et al. (2018, arXiv:1811.05868), as in DGL.

    Edges go both ways, and their values, if they differ from 1, are weights.
    """
    names = [*(f"adj_{part}" for part in CSR), "labels"]
    with reading(path, f"give {', '.join(names)}, and attr_matrix or {', '.join(f'attr_{part}' for part in CSR)}"):
        _check_claims(path)
        with np.load(path, allow_pickle=False) as file:  # names of nodes may be pickles, and are not read
            arrays = {name: file[name] for name in file.files if name.startswith((*NPZ, *MASKS.values()))}
        adjacency, features = (
            arrays[f"{kind}_matrix"]
            if f"{kind}_matrix" in arrays
            else csr_matrix(tuple(arrays[f"{kind}_{part}"] for part in CSR[:3]), arrays[f"{kind}_shape"])
            for kind in NPZ[:2]
        )
        for kind, matrix in (("adj", adjacency), ("attr", features)):
            if len(arrays["labels"]) != matrix.shape[0]:
                raise ValueError(f"{kind} has {matrix.shape[0]} rows, and labels {len(arrays['labels'])}")
        if not isinstance(features, np.ndarray) and features.shape[1] > MOST_UNUSED * (
            1 + features.indices.max(initial=0)
        ):
            raise ValueError(
                f"attr claims {features.shape[1]} columns, of which it uses {1 + features.indices.max(initial=0)}"
            )
        edges = coo_matrix(adjacency)
        ends, values = torch.tensor(np.stack([edges.row, edges.col])).long(), torch.tensor(edges.data).double()
        index, values = listed_edges(ends, values[:, None], len(arrays["labels"]), directed=False, where=path)
        weight = values[:, 0]
        x = features if isinstance(features, np.ndarray) else features.toarray()
        data = Data(torch.from_numpy(x), index, y=torch.from_numpy(arrays["labels"]))
        data.update({name: torch.from_numpy(arrays[name]) for name in MASKS.values() if name in arrays})
        return data if (weight == 1).all() else data.update({"edge_weight": weight})


def _check_claims(path: Path) -> None:
    """Raise ValueError if an array in an npz claims more bytes than its file in the archive."""
    with zipfile.ZipFile(path) as archive:
        for info in (info for info in archive.infolist() if info.filename.endswith(".npy")):
            with archive.open(info) as file:
                version = np.lib.format.read_magic(file)
                header = (
                    np.lib.format.read_array_header_1_0
                    if version == (1, 0)
                    else np.lib.format.read_array_header_2_0
                )
                shape, _, kind = header(file)
            if not kind.hasobject and math.prod(shape) * kind.itemsize > info.file_size:
                raise ValueError(f"{info.filename} claims {math.prod(shape):,} values and holds fewer")


def fetch(dataset: Dataset, root: Path) -> list[Path]:
    """Return the paths of the data set's `files`, after downloading the missing ones.

    If the set has no folder below `root` yet, print its size and its licence first. Raises SSTCastError if a
    download fails.
    """
    folder, paths = dataset.folder_in(root), [root / name for name in dataset.files]
    if not folder.is_dir():
        LOG.info(f"{dataset.name}: downloading to {folder}: {dataset.size}; licence: {dataset.licence}")
    for path, address in zip(paths, dataset.files.values(), strict=True):
        if path.exists():
            continue
        with reading(path, f"download {address} and put it there, or name another --root"):
            if address.endswith(".zip"):  # it holds the folder in which `path` is
                extract_zip(download_url(address, str(root)), str(root))
            else:
                download_url(address, str(path.parent), filename=path.name)
    return paths


def check_raw(paths: Iterable[Path], digests: Collection[str], trust: bool = False) -> None:
    """Raise SSTCastError if a file may run code, unless its SHA-256 is in `digests` or the user trusts all."""
    for path in () if trust else paths:
        with reading(path, "check its path, or get it again"):
            harmless = path.suffix in TEXT or _is_plain(path)
            digest = "" if harmless else hashlib.sha256(path.read_bytes()).hexdigest()
        if not harmless and digest not in digests:
            raise SSTCastError(
                f"{path}: damaged, or a pickle, which may run any code when it is read, and not a known one "
                f"(SHA-256 {digest}); delete it, or use --trust (trust=True in Python) if you trust its origin"
            )


def _is_plain(path: Path) -> bool:
    """Return whether a file of NumPy or torch holds nothing but arrays, tensors and PyG's `Data`."""
    try:
        if path.suffix in (".npz", ".npy"):
            if path.suffix == ".npz":
                _check_claims(path)
            arrays = np.load(path, allow_pickle=False)
            for name in arrays if path.suffix == ".npz" else ():
                arrays[name]
        else:
            _load_plain(path)
    except (pickle.UnpicklingError, zipfile.BadZipFile, ValueError, RuntimeError, EOFError):
        return False
    return True


def _load_plain(path: Path) -> Any:
    """Read a file of `torch.save` with `weights_only`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about future types of tensors
        # Mapped memory is never larger than the file, whatever sizes the file claims.
        return torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
