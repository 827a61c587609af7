"""Ways to damage a file."""

import contextlib
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

Change = Callable[[bytes, random.Random], bytes]


def flip(content: bytes, chance: random.Random) -> bytes:
    """Change one to three bytes."""
    changed = bytearray(content or b"\0")
    for _ in range(chance.randint(1, 3)):
        changed[chance.randrange(len(changed))] ^= chance.randint(1, 255)
    return bytes(changed)


def cut(content: bytes, chance: random.Random) -> bytes:
    """Keep the beginning, as a download that broke off."""
    return content[: chance.randrange(len(content) or 1)]


def overwrite(content: bytes, chance: random.Random) -> bytes:
    """Replace a stretch by zeros, as a crash of a file system does."""
    first = chance.randrange(len(content) or 1)
    length = chance.randint(1, max(len(content) // 4, 1))
    return content[:first] + b"\0" * len(content[first : first + length]) + content[first + length :]


def page(content: bytes, chance: random.Random) -> bytes:
    """Replace everything by a server's answer."""
    return b"<!DOCTYPE html><title>404</title>"


CHANGES: dict[str, Change] = {change.__name__: change for change in (flip, cut, overwrite, page)}


@contextlib.contextmanager
def changed(path: Path, content: bytes, folder: Path | None = None) -> Iterator[None]:
    """Have `content` in a file's place; put all of `folder` back afterwards."""
    folder = folder or path.parent
    kept = folder.with_name(f"{folder.name}-kept")
    shutil.copytree(folder, kept, symlinks=True)
    try:
        path.write_bytes(content)
        yield
    finally:
        shutil.rmtree(folder)
        kept.rename(folder)
