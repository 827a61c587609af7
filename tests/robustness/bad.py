"""Bad inputs by the dozen: how a file is damaged, how a command line is run, and what must come of it."""

import contextlib
import io
import random
import shutil
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sstcast import cli

Change = Callable[[bytes, random.Random], bytes]


def run(*arguments: object) -> tuple[int, str, str]:
    """Run a command line in this process; return exit code, stdout and stderr."""
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["sstcast", *map(str, arguments)]
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            warnings.catch_warnings(),
            pytest.raises(SystemExit) as end,
        ):
            warnings.simplefilter("ignore")  # a damaged file may well make a library wonder
            cli.main()
    finally:
        sys.argv = before
    return int(end.value.code or 0), out.getvalue(), err.getvalue()


@dataclass
class Family:
    """Cases of one kind, and what became of them."""

    name: str
    folder: Path  # in which nothing half-written may remain
    codes: Counter[int] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def try_out(self, case: str, words: tuple[object, ...], *arguments: object) -> None:
        """Run a command line; a refusal must be one line that has one of `words`, a file's name or a key."""
        code, _, err = run(*arguments)
        self.codes[code] += 1
        problems = []
        if code not in {0, 2, 3}:
            problems.append(f"exit code {code}")
        if "Traceback" in err:
            problems.append("traceback")
        lines = [line for line in err.splitlines() if ": skipped, because" not in line]  # a warning, not an error
        if code == 2 and len(lines) != 1:
            problems.append(f"{len(lines)} lines")
        if code == 2 and not any(str(word) in err for word in words):
            problems.append("names neither file nor key")
        for half in self.folder.rglob("*.partial"):
            problems.append(f"left {half.name}")
            shutil.rmtree(half) if half.is_dir() else half.unlink()
        if problems:
            self.failures.append(f"{case} [{' '.join(map(str, arguments))[:120]}]: {problems}: {err[-300:]!r}")

    def close(self) -> None:
        """Print what there was, and fail if any case did."""
        total = sum(self.codes.values())
        print(f"{self.name}: {total} cases, {dict(sorted(self.codes.items()))}, {len(self.failures)} wrong")
        assert total
        assert not self.failures, "\n".join([f"{len(self.failures)} of {total}:", *self.failures])


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


def empty(content: bytes, chance: random.Random) -> bytes:
    """Leave nothing."""
    return b""


def page(content: bytes, chance: random.Random) -> bytes:
    """Replace everything by a server's answer."""
    return b"<!DOCTYPE html><title>404</title>"


CHANGES: dict[str, Change] = {change.__name__: change for change in (flip, cut, overwrite, empty, page)}


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
