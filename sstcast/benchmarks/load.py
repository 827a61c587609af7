"""Loads a declared data set, or graphs in memory, into packed tensors."""

import hashlib
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data import Dataset as PyGDataset

from sstcast.artefacts import atomic, digest, locked
from sstcast.benchmarks.classes import read_class
from sstcast.benchmarks.complete import check_graphs, complete
from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.given import check_data, graphs_in, read_file
from sstcast.benchmarks.own import Memory
from sstcast.benchmarks.packed import Graphs, Loaded, Split, pack
from sstcast.benchmarks.raw import fetch
from sstcast.benchmarks.splits import scaffold_split
from sstcast.benchmarks.tables import read_nodes, read_smiles
from sstcast.errors import SSTCastError, in_short, reading, warn
from sstcast.yaml_files import apply_overrides, validate

FORMAT = 8
MISFITS = (ArithmeticError, AttributeError, LookupError, MemoryError, OSError, RuntimeError, TypeError, ValueError)
LISTED = 5  # skipped molecules that are printed; a file lists all
SHOWN = 8  # digits of the digest in the name of graphs in memory


def load(dataset: Dataset, root: Path, cache: Path, trust: bool = False) -> Loaded:
    """Read a data set, downloaded below `root` if it is missing; what took long is kept in `cache`.

    Raises SSTCastError if a raw file cannot be had, is damaged or may run code, or its content is inconsistent.
    """
    if dataset.reader in ("class", "ogb"):
        return pack_given(dataset, *read_class(dataset, root, cache, trust), str(dataset.below(root)))
    if dataset.reader == "smiles_csv":
        return _load_smiles(dataset, root, cache, trust)
    path: Path = dataset.options["path"]
    given = read_nodes(dataset) if dataset.reader == "graph_csv" else read_file(path, trust)
    return pack_given(dataset, *given, str(path))


def load_memory(source: Any, overrides: list[str]) -> Loaded:
    """Check, complete and pack the graphs in `source`, as `given.graphs_in` describes it.

    `overrides` may hold `data.task=...` and the like, and `split=...`. The data set is called by the name that the
    source has, if any, and by a digest of the graphs. Raises SSTCastError if a graph or an override is wrong.
    """
    kind = type(source).__name__ if isinstance(source, PyGDataset) else "graphs"
    name = str(getattr(source, "name", None) or kind)
    raw: dict[str, Any] = {"data": {"kind": "memory"}}
    apply_overrides(raw, overrides)
    split = {"split": raw["split"]} if isinstance(raw.get("split"), str) else {}
    declared = validate(Memory, raw["data"] | split, "overrides").declare(name)
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
        graphs = pack([_graph(one, i, dataset) for i, one in enumerate(data)], dataset.objective.level)
    except MISFITS as error:
        raise SSTCastError(f"{where}: {in_short(error)}") from error
    check_graphs(graphs, dataset, where)
    graphs = replace(graphs, y=dataset.objective.shaped(graphs.y))
    parts = {f"split {i} {j}": part for i, split in enumerate(splits) for j, part in enumerate(split)}
    return Loaded(graphs, list(splits), dataset, digest_tensors(graphs.tensors() | parts, graphs.level))


def cached(path: Path, compute: Callable[[], Any]) -> Any:
    """Return what the cache file `path` holds: tensors and plain data.

    If it is absent or damaged, compute and write it.
    """
    with locked(path):
        if path.exists():
            try:
                if zipfile.ZipFile(path).testzip() is None:  # checksums, which torch.load does not compare
                    return torch.load(path, weights_only=True)
            except Exception:  # a damaged file can raise anything
                pass
            warn(f"{path}: damaged; making it again")
        content = compute()
        with atomic(path) as temporary:
            torch.save(content, temporary)
    return content


def digest_tensors(tensors: Mapping[str, Tensor], rest: Any) -> str:
    """Return the SHA-256 of tensors, with their names, types and shapes, and of the plain data `rest`."""
    described = {name: [str(tensor.dtype), list(tensor.shape)] for name, tensor in tensors.items()}
    content = hashlib.sha256(json.dumps([described, rest], sort_keys=True).encode())
    for name in sorted(tensors):
        content.update(np.ascontiguousarray(tensors[name].numpy()).reshape(-1).view(np.uint8).data)
    return content.hexdigest()


def _load_smiles(dataset: Dataset, root: Path, cache: Path, trust: bool) -> Loaded:
    """Load molecules from the cache, or read them from their CSV."""
    fetch(dataset, root)
    own = dataset.options.get("path")
    paths = [own] if own else [root / dataset.folder / name for name in dataset.files]
    digests = [digest(path) if path.exists() else "" for path in paths]
    declared = [dataset.name, dataset.task, dataset.options, dataset.metric, dataset.split == "scaffold"]
    key = json.dumps([FORMAT, declared, digests], default=str, sort_keys=True)
    path = cache / f"{dataset.name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.pt"

    def read() -> list[Any]:
        with reading(paths[-1], "get it again"):
            data, splits, skipped = read_smiles(dataset, paths, trust)
        made = pack_given(dataset, data, splits, str(paths[0]))
        return [made.graphs.tensors(), [list(split) for split in made.splits], made.digest, skipped]

    tensors, splits, identity, skipped = cached(path, read)
    graphs = Graphs(level="graph", **tensors)
    if skipped:
        _say_skipped(skipped, len(graphs), path.with_suffix(".skipped.txt"), str(paths[0]))
    return Loaded(graphs, [Split(*split) for split in splits], complete(dataset, [], bool(splits)), identity)


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


def _say_skipped(skipped: list[str], kept: int, report: Path, where: str) -> None:
    with atomic(report) as temporary:
        temporary.write_text("".join(f"{where}: {line}\n" for line in skipped))
    print(
        f"{len(skipped):,} of {len(skipped) + kept:,} molecules cannot be parsed and are left out; all in {report}"
    )
    print("".join(f"  {line}\n" for line in skipped[:LISTED]), end="")
