"""Graphs of PyTorch Geometric: those in memory, files of `torch.save`, and what PyG's own classes read."""

import contextlib
import io
import pickle
import sys
import tempfile
import warnings
from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch_geometric.datasets
from torch_geometric.data import Data, InMemoryDataset
from torch_geometric.data.separate import separate

from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.formats.arrays import ranges, splits_of
from sstcast.benchmarks.formats.smiles import scaffold_split
from sstcast.benchmarks.infer import check_data, infer
from sstcast.benchmarks.packed import Loaded, Split, pack
from sstcast.benchmarks.pickles import REMEDY, guarded, load_torch
from sstcast.errors import SSTCastError, in_short, reading

MASKS = ("train_mask", "val_mask", "test_mask")
PARTS = ("train", "val", "test")


class _Found(Exception):
    """Ends the construction of a PyG data set as soon as its raw files are known."""


def raw_files(source: str, name: str | None, place: Path) -> tuple[Path, list[Path], str]:
    """Return the folder of raw files of PyG's class `source` below its root `place`, the files, and their origin.

    Raises SSTCastError if PyG has no such class, or the class no such set.
    """

    def look(self: Any) -> None:
        raise _Found(Path(self.raw_dir), [Path(path) for path in self.raw_paths])

    try:
        _build(source, name, place, look)
    except _Found as found:
        cls = getattr(torch_geometric.datasets, source)
        known = getattr(cls, "urls", {})
        urls = {str(key).lower(): url for key, url in known.items()} if isinstance(known, dict) else {}
        address = getattr(cls, "url", urls.get(str(name).lower()))
        origin = f", {address.partition('{')[0]}" if isinstance(address, str) else ""
        return (*found.args, f"PyG's {source}{origin}")
    return place, [], f"PyG's {source}"


def download(dataset: Dataset, root: Path) -> None:
    """Let PyG's class download its raw files below `root`."""
    options = dataset.options

    def fetch(self: Any) -> None:
        Path(self.raw_dir).mkdir(parents=True, exist_ok=True)
        self.download()
        raise _Found

    with contextlib.suppress(_Found):
        _build(options["of"], options["set"], root / options["place"], fetch)


def read_class(dataset: Dataset, root: Path, cache: Path) -> Loaded:
    """Read raw files with PyG's class; its processed files go to a temporary folder in `cache`.

    Raises SSTCastError if a raw file may run code and is not known, or the class cannot read the files.
    """
    options, folder = dataset.options, root / dataset.folder
    cache.mkdir(parents=True, exist_ok=True)
    quiet = contextlib.nullcontext() if sys.stderr.isatty() else contextlib.redirect_stderr(io.StringIO())
    with tempfile.TemporaryDirectory(dir=cache) as scratch, guarded(dataset.trust), quiet:
        try:
            parts = _parts(options, root / options["place"], scratch)
        except SSTCastError:
            raise
        except Exception as error:  # whatever a class of PyG raises for damaged files
            reason = f"{folder}: PyG's {options['of']} cannot read the files of {dataset.name}"
            pickled = isinstance(error, pickle.UnpicklingError) or "allow_pickle" in str(error)
            remedy = "if you trust their origin, use --trust" if pickled else REMEDY
            raise SSTCastError(f"{reason} ({in_short(error)}); {remedy}") from error
    official = [ranges([len(part) for part in parts])] if len(parts) > 1 else []
    loaded = graphs_of([data for part in parts for data in part], dataset, str(folder), official)
    if (also := options.get("splits")) is not None:
        with reading(folder / also, REMEDY), np.load(folder / also, allow_pickle=False) as file:
            masks = [file[name] for name in ("train", "valid", "test")]
        loaded = loaded._replace(splits=splits_of(masks, int(loaded.graphs.nodes[0])))
    return loaded


def read(root: Path, dataset: Dataset) -> Loaded:
    """Read a list of `Data` written by `torch.save`, or a processed `InMemoryDataset`."""
    path = root / dataset.folder / dataset.names[0]
    return graphs_of(_separate(load_torch(path, dataset.trust), path), dataset, str(path))


def graphs_of(data: Sequence[Data], dataset: Dataset, where: str, splits: Sequence[Split] = ()) -> Loaded:
    """Pack graphs with their `splits`; a single graph may have the masks `train_mask`, `val_mask` and `test_mask`.

    Raises SSTCastError, saying `where` the graphs are from, if one is not usable.
    """
    check_data(data, where)
    if len(data) == 1 and all(data[0].get(name) is not None for name in MASKS):
        masks = [data[0][name].numpy() for name in MASKS]
        if data[0].get("stopping_mask") is not None:  # WikiCS: nodes for early stopping are for validation too
            masks[1] = masks[1] | data[0].stopping_mask.numpy()
        splits = splits_of(masks, int(data[0].num_nodes or 0))
    elif (
        not dataset.split
        and len(data) == 1
        and all(data[0].get(name) is not None for name in (MASKS[0], MASKS[2]))
    ):
        raise SSTCastError(f"{where}: train_mask and test_mask, but no val_mask; add it, or set split=70/15/15")
    if dataset.split == "scaffold":
        if not all(isinstance(one.get("smiles"), str) for one in data):
            raise SSTCastError(f"{where}: split: scaffold is for molecules given as SMILES; choose another")
        splits = [scaffold_split([one.smiles for one in data])]
    dataset = infer(dataset, data, bool(splits))
    level = "pair" if dataset.task == "link-ranking" else "node" if dataset.of_nodes else "graph"
    graphs = pack([_graph(d, i, level, where, dataset) for i, d in enumerate(data)], level)
    return Loaded(graphs, list(splits), dataset=dataset)


def _build(
    source: str, name: str | None, place: Path, fetch: Any, scratch: str | None = None, **arguments: Any
) -> InMemoryDataset:
    """Build PyG's class with `fetch` in place of its download, and `scratch` as its folder of processed files."""
    cls = getattr(torch_geometric.datasets, source)
    changed: dict[str, Any] = {"_download": fetch, "_process": fetch}
    if scratch is not None:
        changed = {"_download": fetch, "processed_dir": property(lambda _: scratch)}
    known, own = signature(cls).parameters, type(source, (cls,), changed)
    needed = {
        key for key, value in known.items() if value.default is value.empty and value.kind != value.VAR_KEYWORD
    }
    if more := needed - {"root", "name", *arguments}:
        raise SSTCastError(
            f"no data set {source!r} by name alone: it also needs {', '.join(sorted(more))}; "
            "build it in Python and give it to sstcast.benchmark"
        )
    if ("name" in known) != (name is not None):
        example = f"{source}:NAME" if "name" in known else source
        raise SSTCastError(f"no data set {source}{'' if name is None else ':' + name}: write {example}")
    arguments |= {"root": str(place)} if "root" in known else {}
    arguments |= {} if name is None else {"name": name}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return own(**arguments)
    except ImportError as error:
        raise SSTCastError(f"{source}: {in_short(error)}; install it with pip") from error
    except (AssertionError, KeyError, NotImplementedError) as error:
        if scratch is not None:
            raise
        raise SSTCastError(f"no data set {name!r} in torch_geometric.datasets.{source}") from error


def _parts(options: Any, place: Path, scratch: str) -> list[list[Data]]:
    """Return the graphs, in three parts if the class has an argument for them."""

    def open_(**arguments: Any) -> InMemoryDataset:
        more = dict(options.get("arguments", {})) | arguments
        return _build(options["of"], options["set"], place, lambda _: None, scratch, **more)

    first = open_()
    split = signature(getattr(torch_geometric.datasets, options["of"])).parameters.get("split")
    if split is None or split.default not in ("train", None) or len(first.processed_paths) < 2:
        return [[first[0].coalesce()] if len(first) == 1 else list(first)]  # the order of edges is the nodes'
    return [list(open_(split=part)) for part in PARTS]


def _separate(raw: Any, path: Path) -> list[Data]:
    if isinstance(raw, Data):
        return [raw]
    if isinstance(raw, tuple) and len(raw) > 1 and isinstance(raw[0], dict):  # (fields, slices, ...)
        whole, slices = Data.from_dict(raw[0]), raw[1]
        if not slices:
            return [whole]
        count = len(next(iter(slices.values()))) - 1
        return [separate(Data, whole, i, slices, decrement=False) for i in range(count)]
    if isinstance(raw, list) and raw and all(isinstance(d, (Data, dict)) for d in raw):
        return [d if isinstance(d, Data) else Data.from_dict(d) for d in raw]
    raise SSTCastError(f"{path}: holds {type(raw).__name__}; torch.save a list of torch_geometric.data.Data")


def _graph(data: Data, number: int, level: str, where: str, dataset: Dataset) -> dict[str, Any]:
    found: dict[str, Any] = {"x": data.x, "edge_attr": data.edge_attr}
    if dataset.options.get("positions"):  # of superpixels
        found["x"] = torch.cat([data.x, data.pos], dim=1)
    nodes = int(data.num_nodes or 0)
    if level == "pair":
        found |= {"pairs": data.edge_label_index, "y": data.edge_label.float()}
    else:
        if data.y is None:
            raise SSTCastError(f"{where}: graph {number} has no y")
        y, rows = torch.as_tensor(data.y), nodes if level == "node" else 1
        if y.numel() % max(rows, 1) or (dataset.classes and y.numel() != rows):
            raise SSTCastError(f"{where}: graph {number}: {y.numel()} labels for {rows} {level}s")
        found["y"] = y.reshape(-1) if dataset.classes else y.reshape(rows, -1).float()
    for name, kind in (("x", dataset.node), ("edge_attr", dataset.edge)):
        if found[name] is None or (kind == "none" and dataset.reader == "classes"):
            del found[name]
        else:
            table = found[name].to_dense() if found[name].layout != torch.strided else found[name]
            table = table.view(-1, 1) if table.ndim == 1 else table
            found[name] = table.float() if kind == "linear" else table
    return found | {"num_nodes": nodes, "edge_index": data.edge_index}
