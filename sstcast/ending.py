"""Exit codes of commands, and the line on stderr that says why a command failed."""

import os
import sys
from contextlib import suppress

from sstcast.artefacts import FIRST_PROCESS, FULL, is_full
from sstcast.errors import SSTCastError, in_short, printable, shorten
from sstcast.training.interrupt import Interrupted

MENDABLE, BUG, INTERRUPTED = 2, 70, 130
LONGEST = 2000  # characters of a line
OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory")


def explain(error: BaseException) -> tuple[int, str]:
    """Return the exit code for an error and the line to print; the line is empty if there is nothing to print."""
    code, text = _explain(error)
    return code, shorten(printable(" ".join(text.split())), LONGEST)


def _explain(error: BaseException) -> tuple[int, str]:
    if usage := getattr(error, "format_message", None):  # wrong arguments, in Typer's own words
        text = usage()
        return MENDABLE, f"{text}; see sstcast --help" if text else ""  # without arguments, help has been printed
    if isinstance(error, SSTCastError):
        return MENDABLE, str(error)
    if isinstance(error, Interrupted):
        # Fabric kills the first process at once when another process fails.
        return 128 + error.signal if FIRST_PROCESS else 0, "interrupted and saved; re-run the command to resume"
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, "interrupted; re-run the command to do the rest"
    if isinstance(error, BrokenPipeError):  # the reader of the output has closed it, as `| head` does
        return 1, ""
    if isinstance(error, OSError):
        named = f"{error.filename}: " if error.filename is not None else ""
        if is_full(error):
            return (
                MENDABLE,
                f"{named}{FULL if named else 'no space left on a disk; free some and re-run the command'}",
            )
        return MENDABLE, named + in_short(error)
    no_memory = isinstance(error, RuntimeError) and any(words in str(error) for words in OUT_OF_MEMORY)
    if isinstance(error, MemoryError) or no_memory:  # the second of PyTorch
        return MENDABLE, (
            f"not enough memory ({in_short(error)}); choose a smaller region, model or training.batch_size"
        )
    return BUG, f"{type(error).__name__}: {in_short(error)}; this is a bug: run with --debug and report it"


def flush() -> None:
    """Flush stdout; if nobody reads it any more, keep Python from reporting that at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
