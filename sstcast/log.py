"""The log of sstcast, `logging.getLogger("sstcast")`: lines for each step, and warnings.

Warnings always reach standard error. Lines for each step go to standard output in the command line, unless it is
`--quiet`. In Python only the longest tasks print them, or all after `getLogger("sstcast").setLevel("INFO")`.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from sstcast.errors import printable

LOG = logging.getLogger("sstcast")


class _Printer(logging.Handler):
    """Prints warnings on standard error and other lines on standard output, wherever these point at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the record's message, with unprintable characters escaped."""
        stream = sys.stderr if record.levelno >= logging.WARNING else sys.stdout
        print(printable(record.getMessage()), file=stream, flush=True)


def show(*lines: object) -> None:
    """Print results on standard output, a line each, with unprintable characters escaped."""
    for line in lines:
        print(printable(str(line)))


LOG.addHandler(_Printer())


@contextmanager
def reporting() -> Iterator[None]:
    """Print lines for each step in the `with` block or the decorated function, if nobody has set a level."""
    if LOG.level != logging.NOTSET:
        yield
        return
    with _level(logging.INFO):
        yield


@contextmanager
def silent() -> Iterator[None]:
    """Print nothing but warnings in the `with` block."""
    with _level(logging.WARNING):
        yield


@contextmanager
def _level(level: int) -> Iterator[None]:
    before = LOG.level
    LOG.setLevel(level)
    try:
        yield
    finally:
        LOG.setLevel(before)


warn_once = cache(LOG.warning)
