"""Graphs that a user gives as PyG's `Data`, in memory or in a file, with or without a split of their own."""

import hashlib
import pickle
import warnings
import zipfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.separate import separate
from torch_geometric.data.storage import EdgeStorage, GlobalStorage, NodeStorage

from sstcast.benchmarks.packed import Split
from sstcast.benchmarks.splits import ranges, splits_of
from sstcast.errors import SSTCastError, in_short, reading

MASKS = ("train_mask", "val_mask", "test_mask")
PARTS = {"train": "train", "valid": "validation", "val": "validation", "validation": "validation", "test": "test"}
FORMS = "give a list of torch_geometric.data.Data, a single one, or a dictionary with train, validation and test"
TEXT = (".txt", ".csv", ".tsv", ".json", ".index", ".edgelist", ".edges", ".gml", ".gz", ".zip", ".md", ".content")

# Besides the types that PyG itself adds: what `torch.save` of a list of `Data` contains.
torch.serialization.add_safe_globals([DataEdgeAttr, DataTensorAttr, EdgeStorage, GlobalStorage, NodeStorage])


def graphs_in(source: Any, where: str) -> tuple[list[Data], list[Split]]:
    """Return the graphs in `source`, and their own splits.

    `source` is one `Data`, several, or a data set of PyG or OGB; or a dictionary with `graphs` and with the
    numbers of those for `train`, `validation` and `test`, or masks; or one with a list of graphs for each of the
    three.
    A single graph may have the masks `train_mask`, `val_mask` and `test_mask` of its nodes; several may each have
    these as a single truth value. Raises SSTCastError, saying `where` the source is from, for anything else.
    """
    try:
        if isinstance(source, Mapping):
            if "graphs" not in source:
                lists = [separated(part) for part in _by_part(source)]
                return [one for part in lists for one in part], [ranges([len(part) for part in lists])]
            data, rows = separated(source["graphs"]), source
        else:
            data = separated(source)
            rows = source.get_idx_split() if hasattr(source, "get_idx_split") else {}  # of OGB's classes
        return data, splits_of(_by_part(rows), len(data)) if rows else own_splits(data)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        raise SSTCastError(f"{where}: {str(error) or type(error).__name__}; {FORMS}") from error


def read_file(path: Path, trust: bool) -> tuple[list[Data], list[Split]]:
    """Read what `torch.save` wrote of any `source` of `graphs_in`, or a processed `InMemoryDataset`.

    Raises SSTCastError if the file is missing or damaged, or may run code and is not trusted.
    """
    if not trust:
        check_raw([path], ())
    with reading(path, "save it with torch.save"):
        raw = torch.load(path, map_location="cpu", weights_only=False) if trust else _load_plain(path)
    return graphs_in(raw, str(path))


def own_splits(data: Sequence[Data]) -> list[Split]:
    """Return the splits that the masks of the graphs say; raise ValueError if one mask is missing."""
    if not data or any(not isinstance(one, Data) or one.get("train_mask") is None for one in data):
        return []
    if missing := [name for name in MASKS if any(one.get(name) is None for one in data)]:
        if len(missing) == 2:  # a training mask alone, as some of PyG's graphs have, is no split
            return []
        raise ValueError(f"train_mask, but no {missing[0]}; add it, or leave out all masks and set split=70/15/15")
    if len(data) > 1:
        if any(torch.as_tensor(one[name]).numel() != 1 for one in data for name in MASKS):
            return []  # of the nodes of many graphs
        return splits_of([[bool(one[name]) for one in data] for name in MASKS], len(data))
    masks = [data[0][name].numpy() for name in MASKS]
    if data[0].get("stopping_mask") is not None:  # WikiCS: nodes for early stopping are for validation too
        masks[1] = masks[1] | data[0].stopping_mask.numpy()
    return splits_of(masks, int(data[0].num_nodes or 0))


def check_raw(paths: Iterable[Path], known: Collection[str]) -> None:
    """Raise SSTCastError, executing nothing, if reading one of the files may run code; `known` are SHA-256."""
    for path in paths:
        with reading(path, "get it again"):
            harmless = path.suffix in TEXT or _is_plain(path)
            digest = "" if harmless else hashlib.sha256(path.read_bytes()).hexdigest()
        if not harmless and digest not in known:
            raise SSTCastError(
                f"{path}: may run any code when it is read, as a pickle does, and is not a known one (SHA-256 "
                f"{digest}); if you trust its origin, use --trust (trust=True in Python)"
            )


def _is_plain(path: Path) -> bool:
    """Return whether a file of NumPy or torch holds arrays, tensors and PyG's `Data` alone."""
    try:
        if path.suffix in (".npz", ".npy"):
            found = np.load(path, allow_pickle=False)
            for name in found if path.suffix == ".npz" else ():
                found[name]
        else:
            _load_plain(path)
    except (pickle.UnpicklingError, ValueError, RuntimeError, EOFError):
        return False
    return True


def _load_plain(path: Path) -> Any:
    """Read a file of `torch.save` with `weights_only`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about tensor types that torch will change
        # Mapped memory is never larger than the file, whatever sizes the file claims.
        return torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))


def check_data(data: Sequence[Data], where: str) -> None:
    """Raise SSTCastError, saying `where` the graphs are from, unless they are PyG's and have edges."""
    if not data:
        raise SSTCastError(f"{where}: no graphs")
    for number, one in enumerate(data):
        graph = f"{where}: graph {number}"
        if not isinstance(one, Data):
            raise SSTCastError(f"{graph} is {type(one).__name__}, not torch_geometric.data.Data")
        edges = one.edge_index
        if not isinstance(edges, torch.Tensor) or edges.layout != torch.strided or edges.is_floating_point():
            raise SSTCastError(f"{graph}: edge_index must be a dense tensor [2, edges] of whole numbers")
        try:
            Data.validate(one)  # an Explanation has masks of its own, which do not matter here
        except ValueError as error:
            raise SSTCastError(f"{graph}: {in_short(error)}") from error
        if not one.num_nodes:
            raise SSTCastError(f"{graph} has no nodes; give it some or leave it out")


def _by_part(source: Mapping[str, Any]) -> list[Any]:
    """Return what a mapping has for training, validation (or `val`, `valid`) and testing."""
    named = {PARTS[key]: value for key, value in source.items() if key in PARTS}
    if missing := [name for name in Split._fields if name not in named]:
        raise ValueError(f"no part {missing[0]!r} in the split")
    return [named[name] for name in Split._fields]


def separated(raw: Iterable[Any]) -> list[Data]:
    if isinstance(raw, Data):
        return [raw]
    if isinstance(raw, tuple) and len(raw) > 1 and isinstance(raw[0], dict):  # as InMemoryDataset saves it
        whole, slices = Data.from_dict(raw[0]), raw[1]
        if not slices:
            return [whole]
        count = len(next(iter(slices.values()))) - 1
        return [separate(Data, whole, i, slices, decrement=False) for i in range(count)]
    return [Data.from_dict(one) if isinstance(one, dict) else one for one in raw]
