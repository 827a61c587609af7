"""A manifest of a Zarr store's files, to detect an absent or damaged chunk before it is read as land."""

import json
import os
from pathlib import Path
from typing import Any

from sstcast.artefacts import digest
from sstcast.errors import SSTCastError

NAME = "manifest.json"

Entry = list[Any]  # size in bytes, modification time in ns, SHA-256 of the content


def write_manifest(store: Path, like: Path | None = None) -> None:
    """List every file of `store` with its size, modification time and SHA-256 in `store/manifest.json`.

    For files that are hard links to files of the store `like`, the SHA-256 is taken from its manifest.
    """
    known = _read(like) if like is not None else None
    entries = {}
    for name in _files(store):
        state = (store / name).stat()
        before = (known or {}).get(name)
        linked = before is not None and before[:2] == [state.st_size, state.st_mtime_ns]
        entries[name] = [
            state.st_size,
            state.st_mtime_ns,
            before[2] if before is not None and linked else digest(store / name),
        ]
    (store / NAME).write_text(json.dumps(entries, indent=0))


def damage(store: Path) -> str | None:
    """Return what is wrong with a store that has a manifest; None if it is unchanged.

    Files with the recorded size and modification time are taken as unchanged; others are read and compared.
    """
    try:
        entries = _read(store)
        if entries is None:
            return f"no {NAME}"
        for name, (size, modified, sha256) in entries.items():
            try:
                state = (store / name).stat()
            except OSError:
                return f"{name} is absent"
            if state.st_size != size:
                return f"{name} is damaged"
            if state.st_mtime_ns != modified and digest(store / name) != sha256:
                return f"{name} is damaged"
    except (OSError, ValueError, TypeError, RecursionError):  # JSON that is not a manifest
        return f"{NAME} is damaged"
    return None


def check_manifest(store: Path, remedy: str) -> None:
    """Raise SSTCastError, naming the store and the `remedy`, if the store is absent or damaged."""
    if not store.exists():
        raise SSTCastError(f"{store}: is not there; {remedy}")
    if found := damage(store):
        raise SSTCastError(f"{store}: {found}; {remedy}")


def _files(store: Path) -> list[str]:
    found = (Path(folder) / name for folder, _, names in os.walk(store) for name in names)
    return sorted(str(file.relative_to(store)) for file in found if file.name != NAME)


def _read(store: Path) -> dict[str, Entry] | None:
    if not (store / NAME).exists():
        return None
    entries = json.loads((store / NAME).read_text())
    if not isinstance(entries, dict) or not entries:
        raise ValueError
    return entries
