"""Data sets that the classes of PyG and of OGB download, process and cache."""

import io
import sys
import warnings
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch_geometric.datasets
from torch_geometric.data import Data
from torch_geometric.utils import remove_self_loops, to_undirected

from sstcast.artefacts import locked
from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.given import check_raw, graphs_in, own_splits
from sstcast.benchmarks.objectives import number_words
from sstcast.benchmarks.packed import Split
from sstcast.benchmarks.splits import ranges, splits_of
from sstcast.benchmarks.tables import download
from sstcast.errors import SSTCastError, reading

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
    folder = dataset.folder_in(root)
    remedy = f"delete this folder to download {dataset.name} again, put its files there, or name another --root"
    shown = sys.stderr if sys.stderr.isatty() else io.StringIO()  # what a class prints
    with reading(folder, remedy), locked(root / dataset.name):
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
        with redirect_stdout(shown), redirect_stderr(shown), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about old names in NumPy and SciPy
            of_class = _of_ogb if dataset.reader == "ogb" else _of_pyg
            graphs, splits = of_class(dataset, root)
            for data in graphs:
                _prepare(data, dataset)
    if (also := dataset.options.get("splits")) is not None:
        path = root / "splits" / also
        download(SPLITS + also, path)
        with reading(path, "get it again"), np.load(path, allow_pickle=False) as file:
            splits = splits_of([file[name] for name in ("train", "valid", "test")], int(graphs[0].num_nodes or 0))
    if dataset.options.get("standardise"):
        standardise(graphs)
    return graphs, splits or own_splits(graphs)


def _files(folder: Path, kind: str) -> list[Path]:
    """Return the files in the folders of a set whose names begin with `kind`: raw or processed."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [path for path in files if any(part.startswith(kind) for part in path.relative_to(folder).parts[:-1])]


def _of_pyg(dataset: Dataset, root: Path) -> tuple[list[Data], list[Split]]:
    """Return the graphs, and one split if the class has an argument for its parts."""
    cls = getattr(torch_geometric.datasets, dataset.of)
    known = signature(cls).parameters
    arguments: dict[str, Any] = {"root": str(root / dataset.folder)} if "root" in known else {}
    arguments |= {"name": dataset.part} if dataset.part is not None else {}
    arguments |= dataset.options.get("arguments", {})
    first = cls(**arguments)
    split = known.get("split")
    if split is None or split.default not in ("train", None) or len(first.processed_paths) < 2:
        return [first[0].coalesce()] if len(first) == 1 else list(first), []  # the order of edges is the nodes'
    parts = [list(cls(**arguments, split=part)) for part in PARTS]
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
