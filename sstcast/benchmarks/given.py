"""Graphs that a user gives: PyG's `Data` in memory or in a file, with or without a split of their own."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data
from torch_geometric.data.separate import separate

from sstcast.benchmarks.packed import Split
from sstcast.benchmarks.raw import check_raw, load_plain
from sstcast.benchmarks.splits import ranges, splits_of
from sstcast.errors import SSTCastError, reading

MASKS = ("train_mask", "val_mask", "test_mask")
PARTS = {"train": "train", "valid": "validation", "val": "validation", "validation": "validation", "test": "test"}
FORMS = "give a list of torch_geometric.data.Data, a single one, or a dictionary with train, validation and test"


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
            return _from_mapping(source)
        data = [source] if isinstance(source, Data) else _separated(source)
        index = source.get_idx_split() if hasattr(source, "get_idx_split") else None  # of OGB's classes
        return data, splits_of_parts(index, len(data)) if index else own_splits(data)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        raise SSTCastError(f"{where}: {str(error) or type(error).__name__}; {FORMS}") from error


def read_file(path: Path, trust: bool) -> tuple[list[Data], list[Split]]:
    """Read what `torch.save` wrote of any `source` of `graphs_in`, or a processed `InMemoryDataset`.

    Raises SSTCastError if the file is missing or damaged, or may run code and is not trusted.
    """
    if not path.exists():
        raise SSTCastError(f"{path} is missing")
    if not trust:
        check_raw([path], ())
    with reading(path, "save it with torch.save"):
        raw = torch.load(path, map_location="cpu", weights_only=False) if trust else load_plain(path)
    return graphs_in(raw, str(path))


def own_splits(data: list[Data]) -> list[Split]:
    """Return the splits that the masks of the graphs say; raise ValueError if one mask is missing."""
    if not data or any(not isinstance(one, Data) or one.get("train_mask") is None for one in data):
        return []
    if (lacks := [name for name in MASKS if any(one.get(name) is None for one in data)]) != []:
        return [] if len(lacks) == 2 else _incomplete(lacks[0])
    if len(data) > 1:
        if any(torch.as_tensor(one[name]).numel() != 1 for one in data for name in MASKS):
            return []  # of the nodes of many graphs
        return splits_of([[bool(one[name]) for one in data] for name in MASKS], len(data))
    masks = [data[0][name].numpy() for name in MASKS]
    if data[0].get("stopping_mask") is not None:  # WikiCS: nodes for early stopping are for validation too
        masks[1] = masks[1] | data[0].stopping_mask.numpy()
    return splits_of(masks, int(data[0].num_nodes or 0))


def splits_of_parts(parts: Mapping[str, Any], samples: int) -> list[Split]:
    """Return the split given by indices or masks for `train`, `validation` (or `val`, `valid`) and `test`."""
    named = {PARTS[key]: torch.as_tensor(rows).numpy() for key, rows in parts.items() if key in PARTS}
    if lacks := [name for name in Split._fields if name not in named]:
        raise ValueError(f"no part {lacks[0]!r} in the split")
    return splits_of([named[name] for name in Split._fields], samples)


def _incomplete(missing: str) -> list[Split]:
    raise ValueError(f"train_mask, but no {missing}; add it, or leave all masks out and set split=70/15/15")


def _from_mapping(source: Mapping[str, Any]) -> tuple[list[Data], list[Split]]:
    if "graphs" in source:
        data = _separated(source["graphs"])
        return data, splits_of_parts(source, len(data))
    named = {PARTS[key]: _separated(value) for key, value in source.items() if key in PARTS}
    parts = [named[name] for name in Split._fields]
    return [one for part in parts for one in part], [ranges([len(part) for part in parts])]


def _separated(raw: Iterable[Any]) -> list[Data]:
    if isinstance(raw, Data):
        return [raw]
    if isinstance(raw, tuple) and len(raw) > 1 and isinstance(raw[0], dict):  # what PyG processed
        whole, slices = Data.from_dict(raw[0]), raw[1]
        if not slices:
            return [whole]
        count = len(next(iter(slices.values()))) - 1
        return [separate(Data, whole, i, slices, decrement=False) for i in range(count)]
    return [Data.from_dict(one) if isinstance(one, dict) else one for one in raw]


def check_data(data: Sequence[Data], where: str) -> None:
    """Raise SSTCastError, saying `where` the graphs are from, unless they are PyG's and have edges."""
    for number, one in enumerate(data):
        if not isinstance(one, Data):
            raise SSTCastError(f"{where}: graph {number} is {type(one).__name__}, not torch_geometric.data.Data")
        if one.edge_index is None:
            raise SSTCastError(f"{where}: graph {number} has no edge_index")
    if not data:
        raise SSTCastError(f"{where}: no graphs")
