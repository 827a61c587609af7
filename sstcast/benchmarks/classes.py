"""Data sets that the classes of PyG and of OGB download, process and cache."""

import contextlib
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
from torch_geometric.utils import remove_self_loops, to_undirected

from sstcast.artefacts import locked
from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.given import check_raw, graphs_in, own_splits
from sstcast.benchmarks.objectives import number_words
from sstcast.benchmarks.packed import Split
from sstcast.benchmarks.splits import ranges, splits_of
from sstcast.errors import SSTCastError, in_short, reading

PARTS = ("train", "val", "test")
SPLITS = "https://github.com/cornell-zhang/Polynormer/raw/main/data/"
DEEPEST = 20  # deeper nodes of a syntax tree count as this deep


def read_class(dataset: Dataset, root: Path, trust: bool) -> tuple[list[Data], list[Split]]:
    """Return the graphs of a set of a class of PyG or OGB, and its official splits.

    The class downloads, processes and caches in the set's folder below `root`; it processes again what is older
    than its raw files. Raises SSTCastError if the class, or a file that was already there, may run code and is not
    trusted; if the download fails, or the class cannot read the files.
    """
    if not (dataset.reviewed or trust):
        raise SSTCastError(
            f"{dataset.name}: PyG's {dataset.of} is not reviewed, and a class may run code that it downloads; "
            "if you trust it, use --trust (trust=True in Python)"
        )
    quiet = io.StringIO()
    with contextlib.ExitStack() as stack:
        with reading(root / dataset.folder, "name another --root"):
            stack.enter_context(locked(root / dataset.name))
            folder = dataset.folder_in(root)
            raw, processed = _files(folder, "raw"), _files(folder, "processed")
        if not raw:
            print(
                f"{dataset.name}: downloading to {folder}: {dataset.size}; licence: {dataset.licence}", flush=True
            )
        elif any(path.stat().st_mtime < max(p.stat().st_mtime for p in raw) for path in processed):
            for path in processed:
                path.unlink()
            processed = []
        if not trust:
            check_raw(raw + processed, dataset.sha256)
        stack.enter_context(contextlib.redirect_stdout(sys.stderr if sys.stderr.isatty() else quiet))
        if not sys.stderr.isatty():
            stack.enter_context(contextlib.redirect_stderr(quiet))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")  # about old names in NumPy and SciPy
        try:
            if dataset.reader == "ogb":
                graphs, splits = _of_ogb(dataset, root)
            else:
                graphs, splits = _of_pyg(dataset, root / dataset.folder)
            for data in graphs:
                _prepare(data, dataset)
        except SSTCastError:
            raise
        except Exception as error:  # whatever a class raises
            there = _files(folder, "raw")
            problem = f"cannot read {folder}" if there else f"cannot download it to {folder}"
            remedy = "delete this folder to download it again" if there else "put its files there"
            raise SSTCastError(
                f"{dataset.name}: its class {problem} ({in_short(error)}); {remedy}, or name another root"
            ) from error
    if (also := dataset.options.get("splits")) is not None:
        splits = _published_splits(root / "splits" / also, int(graphs[0].num_nodes or 0))
    if dataset.options.get("standardise"):
        standardise(graphs)
    return graphs, splits or own_splits(graphs)


def _files(folder: Path, kind: str) -> list[Path]:
    """Return the files in the folders of a set whose names begin with `kind`: raw or processed."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [path for path in files if any(part.startswith(kind) for part in path.relative_to(folder).parts[:-1])]


def _of_pyg(dataset: Dataset, place: Path) -> tuple[list[Data], list[Split]]:
    """Return the graphs, and one split if the class has an argument for its parts."""
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

    def open_(**more: Any) -> InMemoryDataset:
        try:
            return cls(**(arguments | more))
        except ImportError as error:
            raise SSTCastError(f"{dataset.name}: {in_short(error)}; install it with pip") from error

    first = open_()
    split = known.get("split")
    if split is None or split.default not in ("train", None) or len(first.processed_paths) < 2:
        return [first[0].coalesce()] if len(first) == 1 else list(first), []  # the order of edges is the nodes'
    parts = [list(open_(split=part)) for part in PARTS]
    return [data for part in parts for data in part], [ranges([len(part) for part in parts])]


def _of_ogb(dataset: Dataset, root: Path) -> tuple[list[Data], list[Split]]:
    """Return the graphs and the official split of a set of the Open Graph Benchmark (arXiv:2005.00687)."""
    from ogb.graphproppred import PygGraphPropPredDataset
    from ogb.nodeproppred import PygNodePropPredDataset

    release = root / dataset.folder / f"RELEASE_v{dataset.options['version']}.txt"
    if release.parent.is_dir() and not release.exists():
        release.touch()  # without it, the class asks on the terminal whether to delete the files
    cls = PygNodePropPredDataset if dataset.single else PygGraphPropPredDataset
    graphs, splits = graphs_in(cls(dataset.name, root=str(root)), dataset.name)
    if dataset.single:
        ends, _ = remove_self_loops(graphs[0].edge_index)
        graphs[0].edge_index = to_undirected(ends, num_nodes=graphs[0].num_nodes)
    if dataset.task == "next-tokens":
        words = number_words([data.y for data in graphs], [graphs[i].y for i in splits[0].train.tolist()])
        for data, numbers in zip(graphs, words, strict=True):
            _link_tokens(data)
            data.y = numbers
    return graphs, splits


def _link_tokens(data: Data) -> None:
    """Add edges between successive tokens to a syntax tree, both ways, as in ogbg-code2's baselines.

    Edge features are two: whether between tokens, and whether inverse. A node's depth joins its features.
    """
    tree, tokens = data.edge_index, data.node_is_attributed.flatten().nonzero().flatten()  # in depth-first order
    chain = torch.stack([tokens[:-1], tokens[1:]])
    pieces = [tree, tree.flip(0), chain, chain.flip(0)]
    kinds = torch.tensor([(0, 0), (0, 1), (1, 0), (1, 1)])
    data.edge_attr = kinds.repeat_interleave(torch.tensor([piece.shape[1] for piece in pieces]), 0)
    data.edge_index = torch.cat(pieces, dim=1)
    data.x = torch.cat([data.x, data.node_depth.clamp(max=DEEPEST)], dim=1)


def _prepare(data: Data, dataset: Dataset) -> None:
    """Add positions to the features, and remove the features that are declared as none."""
    if dataset.options.get("positions"):  # of superpixels
        data.x = torch.cat([data.x, data.pos], dim=1)
    for name, kind in (("x", dataset.node), ("edge_attr", dataset.edge)):
        if kind == "none":
            setattr(data, name, None)


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


def standardise(graphs: Sequence[Data], names: Sequence[str] = ("x", "edge_attr")) -> None:
    """Give the columns of features that are not all 0 and 1 the mean 0 and the deviation 1, over all graphs."""
    for name in names:
        if graphs[0].get(name) is None:
            continue
        whole = torch.cat([data[name] for data in graphs]).double()
        real = ~((whole == 0) | (whole == 1)).all(0)
        mean, scale = whole.mean(0) * real, torch.where(real, whole.std(0, unbiased=False).clamp(min=1e-6), 1.0)
        for data in graphs:
            data[name] = ((data[name] - mean) / scale).float()
