"""SHA-256 of raw files and of the graphs read from them, with which a run recognises its data."""

import hashlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from sstcast.benchmarks.dataset import Dataset
from sstcast.errors import SSTCastError
from sstcast.files import alone, atomic

SETTLED = 2.0  # seconds after which a further change gives a file another modification time


def digest_files(dataset: Dataset, root: Path, cache: Path) -> dict[str, str]:
    """Return the SHA-256 of each raw file, by its name in the declaration; the files of a folder share one.

    A file is read again only if its size, times or inode have changed; `cache` keeps the digests.
    Raises SSTCastError if a file is missing or cannot be read.
    """
    dataset.check_files(root)
    folder, store = root / dataset.folder, cache / "digests.json"
    known = _read(store)
    seen = dict(known)
    digests = {}
    for path in (folder / name for name in dataset.names):
        name = str(path.relative_to(folder))
        if path.is_dir():
            inside = [file for file in sorted(path.rglob("*")) if file.is_file()]
            parts = [[str(file.relative_to(path)), _digest(file, known, seen)] for file in inside]
            digests[name] = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        else:
            digests[name] = _digest(path, known, seen)
    if seen != known:
        with alone(store), atomic(store) as temporary:
            temporary.write_text(json.dumps(_read(store) | seen))
    return digests


def digest_tensors(tensors: Mapping[str, Tensor], rest: Any) -> str:
    """Return the SHA-256 of tensors, with their names, types and shapes, and of the plain data `rest`."""
    described = {name: [str(tensor.dtype), list(tensor.shape)] for name, tensor in tensors.items()}
    content = hashlib.sha256(json.dumps([described, rest], sort_keys=True).encode())
    for name in sorted(tensors):
        content.update(np.ascontiguousarray(tensors[name].numpy()).reshape(-1).view(np.uint8).data)
    return content.hexdigest()


def _digest(path: Path, known: Mapping[str, Any], seen: dict[str, Any]) -> str:
    name = str(path.absolute())
    try:
        with path.open("rb") as file:
            state = _state(path)
            entry = known.get(name)
            if isinstance(entry, list) and entry[:-1] == state:
                return str(entry[-1])
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            settled = time.time() - path.stat().st_ctime > SETTLED
    except OSError as error:
        raise SSTCastError(f"{path}: cannot be read ({error.strerror})") from error
    seen.pop(name, None)
    if settled and _state(path) == state:
        seen[name] = [*state, digest]
    return digest


def _state(path: Path) -> list[int]:
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]


def _read(store: Path) -> dict[str, Any]:
    """Return the known digests; empty if the file is absent or damaged, since they only save time."""
    try:
        known = json.loads(store.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return known if isinstance(known, dict) else {}
