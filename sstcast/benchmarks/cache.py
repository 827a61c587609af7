"""A cache of tensors in files, and the digest by which a run recognises its data."""

import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sstcast.files import alone, atomic

Content = tuple[dict[str, Tensor], Any]  # tensors by name, and plain data that belong to them


def cached(path: Path, compute: Callable[[], Content]) -> Content:
    """Return the content of the cache file `path`; if it is absent or damaged, compute and write it."""
    kept = _restore(path)
    if kept is None:
        if path.exists():
            print(f"{path}: damaged; making it again", file=sys.stderr)
        with alone(path):
            kept = _restore(path)  # another process may have made it meanwhile
            if kept is None:
                kept = compute()
                with atomic(path) as temporary:
                    torch.save([*kept, digest_tensors(*kept)], temporary)
    return kept


def digest_tensors(tensors: Mapping[str, Tensor], rest: Any) -> str:
    """Return the SHA-256 of tensors, with their names, types and shapes, and of the plain data `rest`."""
    described = {name: [str(tensor.dtype), list(tensor.shape)] for name, tensor in tensors.items()}
    content = hashlib.sha256(json.dumps([described, rest], sort_keys=True).encode())
    for name in sorted(tensors):
        content.update(np.ascontiguousarray(tensors[name].numpy()).reshape(-1).view(np.uint8).data)
    return content.hexdigest()


def _restore(path: Path) -> Content | None:
    try:
        tensors, rest, digest = torch.load(path, weights_only=True, mmap=True)
        return (tensors, rest) if digest == digest_tensors(tensors, rest) else None
    except Exception:  # a damaged file can raise anything
        return None
