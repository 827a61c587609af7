"""Raw files: which may run code when they are read, and the download of those that PyG has no class for."""

import hashlib
import pickle
import tempfile
import warnings
import zipfile
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import download_url
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import EdgeStorage, GlobalStorage, NodeStorage

from sstcast.benchmarks.dataset import Dataset
from sstcast.errors import SSTCastError, in_short, reading

REMEDY = "get it again"
TEXT = (".txt", ".csv", ".tsv", ".json", ".index", ".edgelist", ".edges", ".gml", ".gz", ".zip", ".md", ".content")
SMALL, RATIO = 10**8, 100  # bytes that any archive may unpack to, and how many times its size a larger one

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

    Raises SSTCastError, naming the file, if one cannot be had.
    """
    folder = root / dataset.folder
    missing = {name: address for name, address in dataset.files.items() if not (folder / name).exists()}
    if not missing:
        return
    first = f"{dataset.name}: {folder / next(iter(missing))} is missing"
    print(f"{dataset.name}: downloading to {folder}: {dataset.size}; licence: {dataset.licence}", flush=True)
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=root) as scratch:  # what is interrupted leaves nothing
            _get(missing, Path(scratch), str(dataset.options.get("archive", "")))
            for name in missing:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (Path(scratch) / name).rename(folder / name)
    except SSTCastError:
        raise
    except Exception as error:  # networks and servers fail in many ways
        origins = ", ".join(sorted(set(missing.values())))
        raise SSTCastError(
            f"{first}, and the download from {origins} failed ({in_short(error)}); put the files there, or name "
            "their --root"
        ) from error


def _get(missing: Mapping[str, str], folder: Path, inside: str) -> None:
    for address in sorted(set(missing.values())):
        if address.endswith(".zip"):
            unpack(Path(download_url(address, str(folder))), folder)
            unpacked = folder / inside if inside else next(path for path in folder.iterdir() if path.is_dir())
            for name in missing:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (unpacked / name).rename(folder / name)
        else:
            (name,) = (name for name in missing if missing[name] == address)
            download_url(address.replace("*", name), str(folder), filename=name)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive; raise SSTCastError if that would take very much more space than it does."""
    with zipfile.ZipFile(archive) as file:
        size = sum(member.file_size for member in file.infolist())
        if size > max(SMALL, RATIO * archive.stat().st_size):
            raise SSTCastError(
                f"{archive.name}: unpacks to {size / 1e9:,.1f} GB, which no data set of its size does"
            )
        file.extractall(folder)
