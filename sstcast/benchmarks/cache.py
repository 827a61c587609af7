"""A cache of tensors in files, and the SHA-256 by which damage and other raw files are recognised."""

import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sstcast.benchmarks.dataset import Dataset
from sstcast.errors import SSTCastError
from sstcast.files import alone, atomic, digest


class Kept(NamedTuple):
    """Tensors by name, plain data that belong to them, and the SHA-256 of both."""

    tensors: dict[str, Tensor]
    rest: Any
    digest: str


def cached(path: Path, compute: Callable[[], tuple[dict[str, Tensor], Any]]) -> Kept:
    """Return the content of the cache file `path`; if it is absent or damaged, compute and write it."""
    kept = _restore(path)
    if kept is None:
        if path.exists():
            print(f"{path}: damaged; making it again", file=sys.stderr)
        with alone(path):
            kept = _restore(path)  # another process may have made it meanwhile
            if kept is None:
                tensors, rest = compute()
                kept = Kept(tensors, rest, digest_tensors(tensors, rest))
                with atomic(path) as temporary:
                    torch.save({"name": path.name, **kept._asdict()}, temporary)
    return kept


def digest_tensors(tensors: Mapping[str, Tensor], rest: Any) -> str:
    """Return the SHA-256 of tensors, with their names, types and shapes, and of the plain data `rest`."""
    described = {name: [str(tensor.dtype), list(tensor.shape)] for name, tensor in tensors.items()}
    content = hashlib.sha256(json.dumps([described, rest], sort_keys=True).encode())
    for name in sorted(tensors):
        content.update(np.ascontiguousarray(tensors[name].numpy()).reshape(-1).view(np.uint8).data)
    return content.hexdigest()


def digest_files(dataset: Dataset, root: Path) -> dict[str, str]:
    """Return the SHA-256 of each raw file, by its name in the declaration; the files of a folder share one.

    Raises SSTCastError if a file is missing or cannot be read.
    """
    dataset.check_files(root)
    digests = {}
    for name in dataset.names:
        path = root / dataset.folder / name
        try:
            if path.is_dir():
                inside = [file for file in sorted(path.rglob("*")) if file.is_file()]
                parts = [[str(file.relative_to(path)), digest(file)] for file in inside]
                digests[name] = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
            else:
                digests[name] = digest(path)
        except OSError as error:
            raise SSTCastError(f"{path}: cannot be read ({error.strerror})") from error
    return digests


def _restore(path: Path) -> Kept | None:
    try:
        state = torch.load(path, weights_only=True, mmap=True)
        whole = state.pop("name") == path.name and state["digest"] == digest_tensors(
            state["tensors"], state["rest"]
        )
        return Kept(**state) if whole else None
    except Exception:  # a damaged file can raise anything
        return None
