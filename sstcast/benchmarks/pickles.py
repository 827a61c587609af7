"""Opens untrusted files that are pickles or may contain pickles.

A pickle is a program, and a list of allowed functions is not a protection: NumPy's own constructors can read any
memory that a file tells them to. So arrays are read with `np.load(allow_pickle=False)` and tensors with
`torch.load(weights_only=True)`. A pickle is opened only if its SHA-256 is in `configs/benchmarks/sha256.yaml`, or
if the user trusts the file.
"""

import hashlib
import io
import pickle
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.io import loadmat

from sstcast.errors import SSTCastError, reading
from sstcast.files import packaged
from sstcast.plain_yaml import read_config

REMEDY = "get it again"
UNPACKED = 2**32  # bytes that any archive may unpack to
RATIO = 20  # a larger archive may unpack to this many times its own size


def load_pickle(path: Path, trust: bool = False, encoding: str = "ASCII") -> Any:
    """Unpickle a file that is known, or that the user trusts; `encoding="latin1"` reads files from Python 2.

    Raises SSTCastError, without executing anything in the file, if it is neither; also if it is damaged.
    """
    return _unpickle(path, trust, lambda file: pickle.load(file, encoding=encoding))


def load_torch(path: Path, trust: bool = False) -> Any:
    """Read a `torch.save` file: tensors, containers and PyG's `Data`; other types by the rules of `load_pickle`.

    Raises SSTCastError as `load_pickle` does.
    """
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import EdgeStorage, GlobalStorage, NodeStorage

    kinds = [Data, DataEdgeAttr, DataTensorAttr, EdgeStorage, GlobalStorage, NodeStorage]
    with reading(path, REMEDY), suppress(pickle.UnpicklingError):  # raised if the file needs more types
        if zipfile.is_zipfile(path):
            with torch.serialization.safe_globals(kinds), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about tensor types that torch will change
                # Mapped memory is never larger than the file, whatever sizes the file claims.
                return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    return _unpickle(path, trust, lambda file: torch.load(file, map_location="cpu", weights_only=False))


def load_npz(path: Path, trust: bool = False) -> Mapping[str, Any]:
    """Open a `.npz` file; arrays are read on access, arrays of objects by the rules of `load_pickle`.

    Raises SSTCastError, here or on access, as `load_pickle` does, and if the file unpacks to too much.
    """
    return _Arrays(path, trust)


def load_npy(path: Path, trust: bool = False) -> Any:
    """Read a `.npy` file by the rules of `load_npz`."""
    with reading(path, REMEDY), path.open("rb") as file:
        if not _of_objects(file):
            file.seek(0)
            return np.lib.format.read_array(file, allow_pickle=False)
    return _unpickle(path, trust, lambda file: np.load(file, allow_pickle=True))


def load_mat(path: Path, trust: bool = False) -> dict[str, Any]:
    """Read a MATLAB file by the rules of `load_pickle`, because some damaged files crash SciPy's reader."""
    kind = "a MATLAB file, which may crash its reader"
    found: dict[str, Any] = _unpickle(path, trust, loadmat, kind)
    return found


class _Arrays(Mapping[str, Any]):
    def __init__(self, path: Path, trust: bool) -> None:
        self.path, self.trust = path, trust
        with reading(path, REMEDY), zipfile.ZipFile(path) as archive:
            self.members = {file.filename.removesuffix(".npy"): file for file in archive.infolist()}
        size = sum(file.file_size for file in self.members.values())
        if size > max(UNPACKED, RATIO * path.stat().st_size):
            raise SSTCastError(
                f"{path}: unpacks to {size / 1e9:,.0f} GB; save it with np.savez, which packs nothing"
            )

    def __contains__(self, name: object) -> bool:
        return name in self.members

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        with reading(self.path, REMEDY), zipfile.ZipFile(self.path) as archive:
            with archive.open(self.members[name]) as file:
                of_objects = _of_objects(file)
            if not of_objects:
                with archive.open(self.members[name]) as file:
                    return np.lib.format.read_array(file, allow_pickle=False)
        return _unpickle(self.path, self.trust, lambda file: np.load(file, allow_pickle=True)[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)


def _of_objects(file: Any) -> bool:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return bool(read(file)[2].hasobject)


def _unpickle(
    path: Path, trust: bool, load: Callable[[io.BytesIO], Any], kind: str = "a pickle, which may run any code"
) -> Any:
    with reading(path, REMEDY):
        content = path.read_bytes()  # read once: the bytes that are checked are the bytes that are opened
    digest = hashlib.sha256(content).hexdigest()
    if not trust and digest not in _known():
        raise SSTCastError(
            f"{path}: {kind}, and not a known one (SHA-256 {digest}, "
            f"{len(content):,} bytes); if you trust its origin, open it with --trust"
        )
    with reading(path, REMEDY), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about old names in NumPy and SciPy
        return load(io.BytesIO(content))


@cache
def _known() -> frozenset[str]:
    return frozenset(map(str, read_config(packaged("configs/benchmarks/sha256.yaml")).values()))
