"""Opens untrusted files that are pickles or may contain pickles.

A pickle is a program, and a list of allowed functions is not a protection: NumPy's own constructors can read any
memory that a file tells them to. So a pickle is opened only if its SHA-256 is in `configs/benchmarks/sha256.yaml`,
or if the user trusts the file; arrays and tensors are read as data.
"""

import hashlib
import io
import os
import pickle
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import EdgeStorage, GlobalStorage, NodeStorage

from sstcast.errors import SSTCastError, reading
from sstcast.files import packaged
from sstcast.plain_yaml import read_config

REMEDY = "get it again"
TENSORS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"  # an environment variable of torch

# Besides the types that PyG itself adds: what `torch.save` of a list of `Data` contains.
torch.serialization.add_safe_globals([DataEdgeAttr, DataTensorAttr, EdgeStorage, GlobalStorage, NodeStorage])


def unpickle(path: Path, trust: bool, load: Callable[[io.BytesIO], Any] = pickle.load) -> Any:
    """Return `load` of a file that may be a pickle, if it is known or the user trusts it.

    Raises SSTCastError, without executing anything in the file, if it is neither; also if it is damaged.
    """
    with reading(path, REMEDY):
        content = path.read_bytes()  # read once: the bytes that are checked are the bytes that are opened
    _check(path, trust, hashlib.sha256(content).hexdigest())
    with reading(path, REMEDY), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about old names in NumPy and SciPy
        return load(io.BytesIO(content))


def load_torch(path: Path, trust: bool = False) -> Any:
    """Read a `torch.save` file: tensors, containers and PyG's `Data`; other types by the rules of `unpickle`."""
    with reading(path, REMEDY), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about tensor types that torch will change
        with suppress(pickle.UnpicklingError):  # raised if the file needs more types
            # Mapped memory is never larger than the file, whatever sizes the file claims.
            return torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    return unpickle(path, trust, lambda file: torch.load(file, map_location="cpu", weights_only=False))


@contextmanager
def guarded(trust: bool) -> Iterator[None]:
    """Let foreign code open files in the `with` block by the rules of `unpickle`, unless the user trusts them.

    `pickle` then opens only known files (NumPy's arrays of objects are pickles too), and torch only data.
    """
    if trust:
        yield
        return

    def load(file: Any, **options: Any) -> Any:
        content = file.read()  # read once: the bytes that are checked are the bytes that are opened
        _check(Path(str(getattr(file, "name", "a part of a file"))), False, hashlib.sha256(content).hexdigest())
        return pickle.Unpickler(io.BytesIO(content), **options).load()

    kept, before = (pickle.load, pickle.loads), os.environ.get(TENSORS_ONLY)
    pickle.load, pickle.loads = load, lambda content, **options: load(io.BytesIO(content), **options)
    os.environ[TENSORS_ONLY] = "1"
    try:
        yield
    finally:
        pickle.load, pickle.loads = kept
        os.environ.pop(TENSORS_ONLY)
        if before is not None:
            os.environ[TENSORS_ONLY] = before


def _check(path: Path, trust: bool, digest: str) -> None:
    if not trust and digest not in _known():
        raise SSTCastError(
            f"{path}: may run any code, as a pickle does, and is not a known one (SHA-256 {digest}); "
            "if you trust its origin, open it with --trust"
        )


@cache
def _known() -> frozenset[str]:
    return frozenset(map(str, read_config(packaged("configs/benchmarks/sha256.yaml")).values()))
