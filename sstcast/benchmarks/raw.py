"""Raw files: which may run code when they are read, and the download of those that PyG has no class for."""

import hashlib
import pickle
import tempfile
import warnings
import zipfile
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import download_url, extract_zip
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import EdgeStorage, GlobalStorage, NodeStorage

from sstcast.benchmarks.dataset import Dataset
from sstcast.errors import SSTCastError, in_short, reading

REMEDY = "get it again"
TEXT = (".txt", ".csv", ".tsv", ".json", ".index", ".edgelist", ".edges", ".gml", ".gz", ".zip", ".md", ".content")

# Besides the types that PyG itself adds: what `torch.save` of a list of `Data` contains.
torch.serialization.add_safe_globals([DataEdgeAttr, DataTensorAttr, EdgeStorage, GlobalStorage, NodeStorage])


def check_raw(paths: Iterable[Path], known: Collection[str]) -> None:
    """Raise SSTCastError, executing nothing, if reading one of the files may run code; `known` are SHA-256."""
    for path in paths:
        with reading(path, REMEDY):
            harmless = path.suffix in TEXT or is_plain(path)
            digest = "" if harmless else hashlib.sha256(path.read_bytes()).hexdigest()
        if not harmless and digest not in known:
            raise SSTCastError(
                f"{path}: may run any code when it is read, as a pickle does, and is not a known one (SHA-256 "
                f"{digest}); if you trust its origin, use --trust (trust=True in Python)"
            )


def is_plain(path: Path) -> bool:
    """Return whether a file of NumPy or torch holds arrays, tensors and PyG's `Data` alone."""
    try:
        if path.suffix in (".npz", ".npy"):
            found = np.load(path, allow_pickle=False)
            for name in found if path.suffix == ".npz" else ():
                found[name]
            return True
        load_plain(path)
    except (pickle.UnpicklingError, ValueError, RuntimeError, EOFError):
        return False
    return True


def load_plain(path: Path) -> Any:
    """Read a file of `torch.save` with `weights_only`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about tensor types that torch will change
        # Mapped memory is never larger than the file, whatever sizes the file claims.
        return torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))


def fetch(dataset: Dataset, root: Path) -> None:
    """Download the missing ones of the data set's `files` below `root`, after printing their size and licence.

    An archive holds the data set's folder. Raises SSTCastError, naming the file, if one cannot be had.
    """
    folder = root / dataset.folder
    missing = {name: address for name, address in dataset.files.items() if not (folder / name).exists()}
    if not missing:
        return
    print(f"{dataset.name}: downloading to {folder}: {dataset.size}; licence: {dataset.licence}", flush=True)
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=root) as scratch:  # what is interrupted leaves nothing
            for name, address in missing.items():
                if not address.endswith(".zip"):
                    download_url(address.replace("*", name), f"{scratch}/{dataset.folder}", filename=name)
                elif not (Path(scratch) / dataset.folder).exists():
                    extract_zip(download_url(address, scratch), scratch)
            for name in missing:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (Path(scratch) / dataset.folder / name).rename(folder / name)
    except Exception as error:  # networks and servers fail in many ways
        raise SSTCastError(
            f"{dataset.name}: {folder / next(iter(missing))} is missing, and the download from "
            f"{', '.join(sorted(set(missing.values())))} failed ({in_short(error)}); put the files there, or name "
            "their --root"
        ) from error
