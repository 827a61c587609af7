"""Loads a declared data set, or graphs in memory, into packed tensors."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch_geometric.data import Data
from torch_geometric.data import Dataset as PyGDataset

from sstcast.benchmarks.cache import digest_tensors
from sstcast.benchmarks.classes import read_class
from sstcast.benchmarks.complete import check_graphs, complete
from sstcast.benchmarks.dataset import Dataset, Memory
from sstcast.benchmarks.given import check_data, graphs_in, read_file
from sstcast.benchmarks.objectives import check_task, objective_of
from sstcast.benchmarks.packed import Graphs, Split, pack
from sstcast.benchmarks.splits import scaffold_split
from sstcast.benchmarks.tables import read_nodes, read_smiles
from sstcast.errors import SSTCastError, in_short
from sstcast.yaml_files import apply_overrides, validate

MISFITS = (ArithmeticError, AttributeError, LookupError, MemoryError, OSError, RuntimeError, TypeError, ValueError)
SHOWN = 8  # digits of the digest in the name of graphs in memory


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
    except MISFITS as error:
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
