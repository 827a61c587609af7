"""The exception for errors that users can fix, and helpers that make one line of it."""

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

READERS = {"zarr", "numcodecs", "netCDF4", "_netCDF4", "h5py", "backends"}  # the last is a folder of xarray
LONGEST = 300  # characters of a library's message that are passed on


class SSTCastError(Exception):
    """An error that the user can fix: its text is one line that names the file or key and the remedy.

    The command line prints it on stderr and exits with code 2.
    """


class Interrupted(Exception):
    """Training was stopped by a signal and saved; `signal` is its number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = number


@contextmanager
def reading(path: Path, remedy: str) -> Iterator[None]:
    """Turn any error in the `with` block, which reads the file `path`, into an SSTCastError that names the file.

    Use it only around code that reads, so that a bug of sstcast is not reported as damage.
    """
    try:
        yield
    except SSTCastError:
        raise
    except Exception as error:  # parsers of outside files can raise anything
        raise SSTCastError(f"{path}: cannot be read ({in_short(error)}); {remedy}") from error


@contextmanager
def reading_later(path: Path, remedy: str) -> Iterator[None]:
    """Turn errors of the libraries that lazily read the source `path` into an SSTCastError that names it.

    Errors from other code are passed on, because they are bugs of sstcast.
    """
    try:
        yield
    except SSTCastError:
        raise
    except Exception as error:
        frames = [Path(frame.filename).parts for frame in traceback.extract_tb(error.__traceback__)]
        if not any(READERS & {part.removesuffix(".pyx") for part in parts} for parts in frames[-4:]):
            raise
        raise SSTCastError(f"{path}: cannot be read ({in_short(error)}); {remedy}") from error


def in_short(error: BaseException) -> str:
    """Return the first line of an error's text, or its type if it has no text."""
    reason = getattr(error, "strerror", None) or str(error)
    lines = [line.strip() for line in str(reason).splitlines() if line.strip()]
    return shorten(lines[0]) if lines else type(error).__name__


def shorten(text: str, length: int = LONGEST) -> str:
    """Truncate a text to `length` characters."""
    return text if len(text) <= length else f"{text[:length]}..."


def printable(text: str) -> str:
    """Escape control characters, line breaks and surrogates, which a terminal would interpret or refuse."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def warn(text: str) -> None:
    """Print a line on stderr."""
    print(printable(text), file=sys.stderr, flush=True)
