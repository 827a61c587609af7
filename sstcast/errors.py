"""The one exception users meet, and what makes one line of it."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

READERS = {"zarr", "numcodecs", "netCDF4", "_netCDF4", "h5py", "backends"}  # the last is a folder of xarray
LONGEST = 300  # characters of a library's message that are passed on


class SSTCastError(Exception):
    """Something the user can mend: its text is one line naming the file or key, and the remedy.

    The command line prints it on stderr and exits with code 2.
    """


@contextmanager
def reading(path: Path, remedy: str) -> Iterator[None]:
    """Read the file `path` within: whatever a damaged one makes its reader raise becomes one line that names it.

    Use it around the reading alone, so that no mistake of ours passes for damage.
    """
    try:
        yield
    except SSTCastError:
        raise
    except Exception as error:  # parsers of outside files can raise anything
        raise SSTCastError(f"{path}: cannot be read ({in_short(error)}); {remedy}") from error


@contextmanager
def reading_later(path: Path, remedy: str) -> Iterator[None]:
    """Compute within what reads the source `path` lazily: what its readers raise becomes one line that names it.

    Errors that come from anywhere else pass, as they are mistakes of ours.
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
    """Return the first line of an error's text, or its type where there is none."""
    reason = getattr(error, "strerror", None) or str(error)
    lines = [line.strip() for line in str(reason).splitlines() if line.strip()]
    return shorten(lines[0]) if lines else type(error).__name__


def shorten(text: str, length: int = LONGEST) -> str:
    """Cut a text that is too long to be read."""
    return text if len(text) <= length else f"{text[:length]}..."


def printable(text: str) -> str:
    """Spell out what a terminal would not show but obey: escape sequences, line breaks, bare surrogates."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
