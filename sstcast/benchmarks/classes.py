"""Data sets that PyG's own classes download, process and cache."""

import contextlib
import hashlib
import io
import sys
import warnings
from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch_geometric.datasets
from torch_geometric.data import Data, InMemoryDataset, download_url

from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.packed import Split
from sstcast.benchmarks.raw import check_raw, is_plain
from sstcast.benchmarks.splits import ranges, splits_of
from sstcast.errors import SSTCastError, in_short, reading
from sstcast.files import alone

PARTS = ("train", "val", "test")
SPLITS = "https://github.com/cornell-zhang/Polynormer/raw/main/data/"


def folder_of(dataset: Dataset, root: Path) -> Path:
    """Return the folder of a set of a class of PyG, which holds its folders `raw` and `processed`."""
    return _inside(root / dataset.folder, dataset.part)


def _inside(place: Path, part: str | None) -> Path:
    if part is None:
        return place
    name = part.lower().replace("-", "_")
    inside = sorted(place.iterdir()) if place.is_dir() else []
    return next((p for p in inside if p.name.lower().replace("-", "_") == name), place / part)


def raw_files(folder: Path) -> list[Path]:
    """Return the raw files in the folder of a set."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [path for path in files if "raw" in path.relative_to(folder).parts[:-1]]


def read_class(dataset: Dataset, root: Path, cache: Path, trust: bool) -> tuple[list[Data], list[Split]]:
    """Return the graphs of a set of PyG's class, and its official splits.

    PyG downloads below `root`; what it processes from raw files that are there already goes to `cache`. Raises
    SSTCastError if the class, or a raw file that was already there, may run code and is not trusted; if the
    download fails, or the class cannot read the files.
    """
    if not (dataset.reviewed or trust):
        raise SSTCastError(
            f"{dataset.name}: PyG's {dataset.of} is not reviewed, and a class may run code that it downloads; "
            "if you trust it, use --trust (trust=True in Python)"
        )
    with reading(root / dataset.folder, "name another --root"):
        folder = folder_of(dataset, root)
        there = raw_files(folder)
    if not trust:
        check_raw(there, dataset.sha256)
    place = root / dataset.folder
    if there and (not list(folder.rglob("processed*/*.pt")) or _outdated(folder, there)):
        own = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:12]
        place = _linked(folder, place, cache / "pyg" / f"{dataset.of}-{own}")
    if not there:
        print(f"{dataset.name}: PyG puts it into {place}: {dataset.size}; licence: {dataset.licence}", flush=True)
    quiet = contextlib.nullcontext() if sys.stderr.isatty() else contextlib.redirect_stderr(io.StringIO())
    with alone(cache / "pyg" / dataset.of), quiet:
        try:
            parts = _parts(dataset, place, there)
            graphs = [_prepared(data, dataset) for part in parts for data in part]
        except SSTCastError:
            raise
        except Exception as error:  # whatever a class of PyG raises
            problem = f"cannot read {folder}" if raw_files(folder) else f"cannot download it to {folder}"
            remedy = "delete this folder to download it again" if raw_files(folder) else "put its files there"
            raise SSTCastError(
                f"{dataset.name}: PyG's {dataset.of} {problem} ({in_short(error)}); {remedy}, or name another root"
            ) from error
    splits = [ranges([len(part) for part in parts])] if len(parts) > 1 else []
    if (also := dataset.options.get("splits")) is not None:
        splits = _published_splits(root / "splits" / also, int(parts[0][0].num_nodes or 0))
    return graphs, splits


def _parts(dataset: Dataset, place: Path, there: list[Path]) -> list[list[Data]]:
    """Return the graphs, in three parts if the class has an argument for them."""
    cls = getattr(torch_geometric.datasets, dataset.of)
    known = signature(cls).parameters
    arguments: dict[str, Any] = {"root": str(place)} if "root" in known else {}
    arguments |= {"name": dataset.part} if dataset.part is not None else {}
    arguments |= dataset.options.get("arguments", {})
    empty = [
        k for k, p in known.items() if p.default is p.empty and p.kind != p.VAR_KEYWORD and k not in arguments
    ]
    if empty:
        raise SSTCastError(
            f"{dataset.name}: {dataset.of} also needs {', '.join(empty)}; build it in Python and give it to "
            "sstcast.benchmark"
        )
    renewed = (
        {"force_reload": True}
        if "force_reload" in known and _outdated(_inside(place, dataset.part), there)
        else {}
    )

    def open_(**more: Any) -> InMemoryDataset:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about old names in NumPy and SciPy
                return cls(**(arguments | more))
        except ImportError as error:
            raise SSTCastError(f"{dataset.name}: {in_short(error)}; install it with pip") from error

    first = open_(**renewed)
    split = known.get("split")
    if split is None or split.default not in ("train", None) or len(first.processed_paths) < 2:
        return [[first[0].coalesce()] if len(first) == 1 else list(first)]  # the order of edges is the nodes'
    return [list(open_(split=part)) for part in PARTS]


def _outdated(folder: Path, raw: list[Path]) -> bool:
    """Return whether processed files in `folder` are older than the raw ones, or hold more than data."""
    processed = list(folder.rglob("processed*/*.pt"))
    if not processed:
        return False
    oldest = min(path.stat().st_mtime for path in processed)
    changed = max((path.stat().st_ctime for path in raw), default=0.0)
    return changed > oldest or not all(is_plain(path) for path in processed)


def _linked(folder: Path, place: Path, instead: Path) -> Path:
    """Return the folder `instead` of `place`; all of `folder` is linked in it but for the processed files."""
    ours = instead / folder.relative_to(place)
    ours.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        link = ours / path.name
        if path.name.startswith("processed"):
            continue
        if link.is_symlink():
            link.unlink()
        link.symlink_to(path.resolve())
    return instead


def _prepared(data: Data, dataset: Dataset) -> Data:
    """Return a graph with positions among its features, or without the edge features that are declared as none."""
    if dataset.options.get("positions"):  # of superpixels
        data.x = torch.cat([data.x, data.pos], dim=1)
    for name, kind in (("x", dataset.node), ("edge_attr", dataset.edge)):
        if kind == "none":
            setattr(data, name, None)
    return data


def _published_splits(path: Path, nodes: int) -> list[Split]:
    if not path.exists():
        try:
            download_url(SPLITS + path.name, str(path.parent))
        except Exception as error:  # networks and servers fail in many ways
            raise SSTCastError(
                f"{path} is missing, and its download failed ({in_short(error)}); put it there"
            ) from error
    with reading(path, "get it again"), np.load(path, allow_pickle=False) as file:
        return splits_of([file[name] for name in ("train", "valid", "test")], nodes)


def standardised(graphs: Sequence[Data], names: Sequence[str] = ("x", "edge_attr")) -> None:
    """Give the columns of features that are not all 0 and 1 the mean 0 and the deviation 1, over all graphs."""
    for name in names:
        if graphs[0].get(name) is None:
            continue
        whole = torch.cat([data[name] for data in graphs]).double()
        real = ~((whole == 0) | (whole == 1)).all(0)
        mean, scale = whole.mean(0) * real, torch.where(real, whole.std(0, unbiased=False).clamp(min=1e-6), 1.0)
        for data in graphs:
            data[name] = ((data[name] - mean) / scale).float()
