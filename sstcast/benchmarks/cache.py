"""A cache of tensors in files, with digests to detect damage."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sstcast.benchmarks.digests import digest_tensors
from sstcast.files import alone, atomic


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


def _restore(path: Path) -> Kept | None:
    try:
        state = torch.load(path, weights_only=True, mmap=True)
        whole = state.pop("name") == path.name and state["digest"] == digest_tensors(
            state["tensors"], state["rest"]
        )
        return Kept(**state) if whole else None
    except Exception:  # a damaged file can raise anything
        return None
