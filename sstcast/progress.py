"""Progress bars with the time left: for downloads in days and MB/s, for dask in tasks."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars


def hides_progress(console: Console) -> bool:
    """Return whether bars are left out: without a terminal, and in a notebook, which would store every frame."""
    return not console.is_terminal or console.is_jupyter


class Progress:
    """Counts days and bytes; its methods may be called from many threads."""

    def __init__(self, bars: Bars, label: str, days: int) -> None:
        self._bars, self._task, self._lock = bars, bars.add_task(label, total=days, rate=""), threading.Lock()
        self._bytes = 0

    def downloaded(self, size: int) -> None:
        """Count `size` bytes."""
        with self._lock:
            self._bytes += size
            elapsed = self._bars.tasks[0].elapsed or 1e-3
            self._bars.update(self._task, rate=f"{self._bytes / 1e6 / elapsed:.1f} MB/s")

    def settled(self, days: int) -> None:
        """Count days that are done, whether they were downloaded or failed."""
        self._bars.advance(self._task, days)


@contextmanager
def days_progress(label: str, days: int) -> Iterator[Progress]:
    """Show a bar on standard error if it is a terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("days"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=console, disable=hides_progress(console)) as bars:
        yield Progress(bars, label, days)


@contextmanager
def dask_progress(label: str) -> Iterator[None]:
    """Show a bar for the tasks of dask's local schedulers, on standard error if it is a terminal."""
    from dask.callbacks import Callback

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bars(*columns, console=console, disable=hides_progress(console), transient=True) as bars:
        task = bars.add_task(label, total=None)

        def start(graph: Any, state: dict[str, Any]) -> None:
            bars.reset(task, total=sum(len(state[kind]) for kind in ("ready", "waiting", "running")))

        with Callback(start_state=start, posttask=lambda *_: bars.advance(task)):
            yield
