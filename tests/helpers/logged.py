"""The lines that sstcast logs."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from sstcast.log import LOG


class _Collector(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self.lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the record's message."""
        self.lines.append(record.getMessage())


@contextmanager
def logged() -> Iterator[list[str]]:
    """Collect the lines logged in the `with` block."""
    lines: list[str] = []
    collector, level = _Collector(lines), LOG.level
    LOG.addHandler(collector)
    LOG.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        LOG.setLevel(level)
        LOG.removeHandler(collector)
