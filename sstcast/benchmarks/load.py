"""Loads a declared data set, or graphs in memory, into packed tensors."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

from sstcast.benchmarks.cache import Content, cached, digest_tensors
from sstcast.benchmarks.checks import check_graphs
from sstcast.benchmarks.classes import folder_of, read_class, standardised
from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.given import own_splits, read_file
from sstcast.benchmarks.infer import check_data, complete
from sstcast.benchmarks.ogb import read_ogb
from sstcast.benchmarks.packed import Graphs, Loaded, Split, pack
from sstcast.benchmarks.raw import fetch
from sstcast.benchmarks.splits import scaffold_split
from sstcast.benchmarks.tables import read_nodes, read_smiles
from sstcast.errors import SSTCastError, in_short
from sstcast.files import atomic, digest

FORMAT = 7
MISFITS = (ArithmeticError, AttributeError, LookupError, MemoryError, OSError, RuntimeError, TypeError, ValueError)
LISTED = 5  # skipped molecules that are printed; a file lists all


def load(dataset: Dataset, root: Path, cache: Path, trust: bool = False) -> Loaded:
    """Read a data set, downloaded below `root` if it is missing; what took long is kept in `cache`.

    Raises SSTCastError if a raw file cannot be had, is damaged or may run code, or its content is inconsistent.
    """
    where = str(dataset.options.get("path") or root / dataset.folder)
    if dataset.reader == "class":
        data, splits = read_class(dataset, root, cache, trust)
        if dataset.options.get("standardise"):
            standardised(data)
        return pack_given(dataset, data, splits or own_splits(data), str(folder_of(dataset, root)))
    if dataset.reader == "file":
        return pack_given(dataset, *read_file(dataset.options["path"], trust), where)
    if dataset.reader == "nodes":
        data_of_one, splits = read_nodes(dataset)
        return pack_given(dataset, [data_of_one], splits, where)
    fetch(dataset, root)
    try:
        return _load_tables(dataset, root, cache, trust, where)
    except SSTCastError:
        raise
    except Exception as error:  # parsers of outside files can raise anything
        raise SSTCastError(
            f"{dataset.name}: the files in {where} cannot be read or do not fit together ({in_short(error)}); "
            "get them again"
        ) from error


def pack_given(dataset: Dataset, data: Sequence[Data], splits: Sequence[Split], where: str) -> Loaded:
    """Check, complete and pack graphs of PyG; raise SSTCastError, saying `where` they are from, if one is bad."""
    check_data(data, where)
    if dataset.split == "scaffold":
        if not all(isinstance(one.get("smiles"), str) for one in data):
            raise SSTCastError(f"{where}: split: scaffold is for molecules given as SMILES; choose another")
        splits = [scaffold_split([one.smiles for one in data])]
    dataset = complete(dataset, data, bool(splits))
    try:
        graphs = pack([_graph(one, i, dataset) for i, one in enumerate(data)], dataset.objective.level)
    except MISFITS as error:
        raise SSTCastError(f"{where}: {in_short(error)}") from error
    return _checked(dataset, graphs, splits, where)


def _load_tables(dataset: Dataset, root: Path, cache: Path, trust: bool, where: str) -> Loaded:
    """Load what the readers of OGB's and of SMILES files read, or kept in the cache."""
    digests = [digest(root / dataset.folder / name) for name in dataset.files]
    declared = {
        key: value for key, value in asdict(dataset).items() if key in ("name", "task", "options", "metric")
    }
    key = json.dumps([FORMAT, declared, digests, dataset.split == "scaffold"], default=str, sort_keys=True)
    path = cache / f"{dataset.name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.pt"

    def read() -> Content:
        skipped: list[str] = []
        if dataset.reader == "ogb":
            graphs, splits = read_ogb(dataset, root)
        else:
            graphs, splits, skipped = read_smiles(dataset, root, trust)
        parts = {f"split {i} {j}": part for i, split in enumerate(splits) for j, part in enumerate(split)}
        return graphs.tensors() | parts, [graphs.level, skipped]

    tensors, (level, skipped) = cached(path, read)
    tensors = dict(tensors)
    splits: list[Split] = []
    while f"split {len(splits)} 0" in tensors:
        splits.append(Split(*(tensors.pop(f"split {len(splits)} {j}") for j in range(len(Split._fields)))))
    loaded = _checked(complete(dataset, [], bool(splits)), Graphs(level=level, **tensors), splits, where)
    if skipped:
        _say_skipped(skipped, len(loaded.graphs), path.with_suffix(".skipped.txt"), where)
    return loaded


def _graph(data: Data, number: int, dataset: Dataset) -> dict[str, Any]:
    """Return the parts of a graph by name; raise ValueError, naming the graph, if its labels do not fit."""
    nodes = int(data.num_nodes or 0)
    try:
        found: dict[str, Any] = dataset.objective.labels_of(data, nodes)
    except ValueError as error:
        raise ValueError(f"graph {number}: {error}") from error
    for name, kind in (("x", dataset.node), ("edge_attr", dataset.edge)):
        if (table := data.get(name)) is not None and kind != "none":
            table = table.to_dense() if table.layout != torch.strided else table
            table = table.view(-1, 1) if table.ndim == 1 else table
            found[name] = table.float() if kind == "linear" else table
    return found | {"num_nodes": nodes, "edge_index": data.edge_index}


def _checked(dataset: Dataset, graphs: Graphs, splits: Sequence[Split], where: str) -> Loaded:
    check_graphs(graphs, dataset, where)
    graphs = replace(graphs, y=dataset.objective.shaped(graphs.y))
    parts = {f"split {i} {j}": part for i, split in enumerate(splits) for j, part in enumerate(split)}
    return Loaded(graphs, list(splits), dataset, digest_tensors(graphs.tensors() | parts, graphs.level))


def _say_skipped(skipped: list[str], kept: int, report: Path, where: str) -> None:
    if not report.exists():
        with atomic(report) as temporary:
            temporary.write_text("".join(f"{where}: {line}\n" for line in skipped))
    total = len(skipped) + kept
    print(f"{len(skipped):,} of {total:,} molecules cannot be parsed and are left out; all in {report}")
    for line in skipped[:LISTED]:
        print(f"  {line}")
