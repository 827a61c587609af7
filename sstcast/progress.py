"""Progress bars for downloads and long computations, and TensorBoard logging if it is installed."""

import multiprocessing
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars

SHORT = 1  # seconds; shorter computations show no bar
PER_SECOND = 4  # drawings of the bars
SLOWEST = 36_000  # seconds of a step that still tells the time left
Item = TypeVar("Item")
QUICK = 0.5  # seconds; if epochs are shorter, only those with the best score so far are printed


def hides_progress(console: Console) -> bool:
    """Return True without a terminal, in notebooks, which would store every frame of a bar, and in workers."""
    return not console.is_terminal or console.is_jupyter or multiprocessing.parent_process() is not None


class _Display(Bars):
    """The bars of all that is being computed, outer loops first: a terminal can show only one display."""

    current: "_Display | None" = None
    lock = threading.Lock()

    def get_renderables(self) -> Iterable[RenderableType]:
        """Draw the bars of all but the short computations."""
        yield self.make_tasks_table([task for task in self.tasks if (task.elapsed or 0) > SHORT])


class _Count(Protocol):
    def __call__(self, steps: int = 1, note: str = "") -> None:
        """Count steps as done, and show a note beside the bar."""


@contextmanager
def _bar(label: str, total: int | None, done: int = 0) -> Iterator[_Count]:
    """Show a bar below those already shown, on standard error if it is a terminal. Yields what counts steps.

    `done` of the `total` steps were done before, and tell nothing of the time left.
    """
    console = Console(stderr=True)
    if hides_progress(console):
        yield lambda steps=1, note="": None
        return
    with _Display.lock:
        if _Display.current is None:
            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=20),
                TaskProgressColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.fields[left]}"),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}", markup=False),
            )
            _Display.current = _Display(
                *columns,
                console=console,
                transient=True,
                refresh_per_second=PER_SECOND,
                speed_estimate_period=SLOWEST,
                redirect_stdout=sys.stdout.isatty(),  # lines for a file or a pipe must not go to the terminal
            )
            _Display.current.start()
        display = _Display.current
        left = "" if total is None else "left"
        task = display.add_task(label, total=total, completed=done, left=left, note="")
        start = display.get_time()
        display.advance(task, 0)  # from now on; without it, the first step would not tell the time left

    def count(steps: int = 1, note: str = "") -> None:
        display.update(task, note=note)
        display.advance(task, steps)

    try:
        yield count
        if display.get_time() - start > SHORT:
            display.refresh()
    finally:
        with _Display.lock:
            display.remove_task(task)
            if not display.tasks:
                _stop(display)


def tracked(items: Iterable[Item], label: str, total: int | None = None) -> Iterable[Item]:
    """Yield `items`, of which there are `total`, and show a bar with the time left if this takes long.

    Bars are shown on standard error if it is a terminal. A loop within another has a bar below the other's.
    """
    if hides_progress(Console(stderr=True)):
        return items
    return _tracked(items, label, len(items) if total is None and isinstance(items, Sized) else total)


def _tracked(items: Iterable[Item], label: str, total: int | None) -> Iterator[Item]:
    with _bar(label, total) as count:
        for item in items:
            yield item
            count()


def waiting(label: str) -> AbstractContextManager[object]:
    """Show a computation whose steps cannot be counted, like a loop that is `tracked` but without time left."""
    return _bar(label, None)


def stop_bars() -> None:
    """Remove all bars, which a loop that an error has left may still show."""
    with _Display.lock:
        if _Display.current is not None:
            _stop(_Display.current)


def _stop(display: _Display) -> None:
    display.stop()
    if _Display.current is display:
        _Display.current = None


class Progress:
    """Counts finished days and downloaded bytes. The methods are thread-safe."""

    def __init__(self, count: _Count, days: int) -> None:
        self._count, self._days, self._lock = count, days, threading.Lock()
        self._done, self._bytes, self._start = 0, 0, time.monotonic()

    def downloaded(self, size: int) -> None:
        """Add `size` bytes and update the rate."""
        self._add(size=size)

    def settled(self, days: int) -> None:
        """Count days as done, whether they were downloaded or failed."""
        self._add(days)

    def _add(self, days: int = 0, size: int = 0) -> None:
        with self._lock:
            self._done, self._bytes = self._done + days, self._bytes + size
            rate = self._bytes / 1e6 / max(time.monotonic() - self._start, 1e-3)
            self._count(days, f"{self._done}/{self._days} days" + (f"  {rate:.1f} MB/s" if self._bytes else ""))


@contextmanager
def days_progress(label: str, days: int) -> Iterator[Progress]:
    """Show a bar of `days` steps, like that of a loop that is `tracked`. Yields the counter."""
    with _bar(label, days) as count:
        yield Progress(count, days)


def dask_progress(label: str) -> AbstractContextManager[object]:
    """Show a bar for each computation of dask's local schedulers, like that of a loop that is `tracked`."""
    if hides_progress(Console(stderr=True)):
        return nullcontext()
    from dask.callbacks import Callback

    class TaskBars(Callback):
        """Bars of the computations that are running, by their state."""

        def __init__(self) -> None:
            super().__init__()
            self.shown: dict[int, tuple[ExitStack, _Count]] = {}

        def _start_state(self, dsk: Any, state: Any) -> None:
            stack, count = ExitStack(), sum(len(state[kind]) for kind in ("ready", "waiting", "running"))
            self.shown[id(state)] = stack, stack.enter_context(_bar(label, count))

        def _posttask(self, key: Any, result: Any, dsk: Any, state: Any, worker: Any) -> None:
            self.shown[id(state)][1]()

        def _finish(self, dsk: Any, state: Any, errored: bool) -> None:
            if id(state) in self.shown:  # else dask failed before the first task
                self.shown.pop(id(state))[0].close()

    bars: AbstractContextManager[object] = TaskBars()
    return bars


class TrainingProgress:
    """Shows a bar over all training steps, of which some may be `done`, if `shown`. Use it as a context manager.

    In notebooks and without a terminal, only the last epoch is printed, at the end. The values of each epoch also
    go to `board`, a TensorBoard writer.
    """

    def __init__(self, steps: int, done: int = 0, shown: bool = True, board: Any = None) -> None:
        self.steps, self.done, self.shown, self.board = steps, done, shown, board
        self.last, self.validation = "", "-"
        self.console = Console(force_jupyter=False)  # notebooks get plain text, because they do not save widgets
        self.tells_epochs = shown and not hides_progress(Console())
        self.stack = ExitStack()
        self.count: _Count | None = None

    def __enter__(self) -> "TrainingProgress":
        if self.shown:
            self.count = self.stack.enter_context(_bar("training", self.steps, self.done))
        return self

    def __exit__(self, *error: object) -> None:
        self.stack.close()
        if self.shown and not self.tells_epochs and self.last:
            self.console.print(self.last, highlight=False)
        if self.board is not None:
            self.board.close()

    def step(self, steps: int, loss: float) -> None:
        """Show the number of finished steps and `loss`, the mean over the epoch so far."""
        if self.count is not None:
            self.count(steps - self.done, f"{steps}/{self.steps}  loss {loss:.4f}  val {self.validation}")
        self.done = steps

    def epoch(self, row: dict[str, Any]) -> None:
        """Print a line for a finished epoch. If epochs are short, print only those with the best score so far."""
        for key, value in row.items() if self.board is not None else ():
            self.board.add_scalar(key, value, row["epoch"])
        name, score = next((key, value) for key, value in row.items() if key.startswith("validation_"))
        self.validation = f"{score:.4f}"
        self.last = (
            f"epoch {row['epoch'] + 1}: train {row['train_loss']:.4f}  {name.replace('_', ' ')} {score:.4f}  "
            f"({row['seconds']:.0f} s)"
        )
        quick = row["seconds"] < QUICK * row["epoch"]
        if self.tells_epochs and (row["best"] or not quick):
            self.console.print(self.last, highlight=False)


def open_board(folder: Path, epoch: int) -> Any:
    """Open a TensorBoard writer, if it is installed, that discards earlier values from `epoch` on."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(folder, purge_step=epoch)
