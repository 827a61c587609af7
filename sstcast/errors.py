"""The exception for errors that users can fix, and helpers for its one-line message."""

import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

MAX_LIBRARY_CHARS = 300  # characters of a library's message
OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory")  # in PyTorch's messages
LESS_MEMORY = "choose a linear model or attention, a smaller training.batch_size, or smaller graphs or regions"


class SSTCastError(Exception):
    """An error that the user can fix. Its message is one line with the file or key and the remedy.

    The command line prints the message on stderr and exits with code 2.
    """


class Outdated(SSTCastError):
    """A store is absent, or was not made from what is asked for now."""


class Interrupted(Exception):
    """A signal, with the number `signal`, stopped training after a checkpoint was saved."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = number


def check_no_pipe(path: Path) -> None:
    """Raise ValueError if a path is a pipe or a device, which may never answer or never end."""
    with suppress(OSError):
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise ValueError("a pipe or a device, not a file")


@contextmanager
def reading(path: Path, remedy: str) -> Iterator[None]:
    """Convert any error in the `with` block to an SSTCastError that says the file `path` cannot be read.

    Wrap only code that reads the file, so that bugs in sstcast are not reported as damaged files. A pipe or a
    device is an error before the block.
    """
    try:
        check_no_pipe(path)
        yield
    except SSTCastError:
        raise
    except Exception as error:  # parsers of outside files can raise anything
        raise SSTCastError(f"{path}: cannot be read ({in_short(error)}); {remedy}") from error


@contextmanager
def reworded(pattern: str, words: str) -> Iterator[None]:
    """Replace what matches a `pattern` in messages of errors by `words`, such as keys by options."""
    try:
        yield
    except SSTCastError as error:
        raise type(error)(re.sub(pattern, words, str(error))) from error


def lacks_memory(error: BaseException) -> bool:
    """Return whether memory ran out, of which PyTorch tells by a RuntimeError."""
    torch_ran_out = isinstance(error, RuntimeError) and any(words in str(error) for words in OUT_OF_MEMORY)
    return torch_ran_out or isinstance(error, MemoryError)


def message_of(error: Exception) -> str:
    """Return the message of an error that ends one of several runs. Raise any other, which ends all."""
    if isinstance(error, SSTCastError) or lacks_memory(error):
        return in_short(error)
    raise error


def in_short(error: BaseException) -> str:
    """Return the first line of an error's message, or the error's type if there is no message."""
    reason = getattr(error, "strerror", None) or str(error)
    lines = [line.strip() for line in str(reason).splitlines() if line.strip()]
    return shorten(lines[0]) if lines else type(error).__name__


def shorten(text: str, length: int = MAX_LIBRARY_CHARS) -> str:
    """Truncate a text to `length` characters and mark the cut with an ellipsis."""
    return text if len(text) <= length else f"{text[:length]}..."


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def named(names: Sequence[str], most: int) -> str:
    """Return names as text, the first ones and the number of the others if there are more than `most`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a line of text per row, with columns as wide as their longest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def printable(text: str) -> str:
    """Escape control characters, line breaks and surrogates, which terminals interpret or reject."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
