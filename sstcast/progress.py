"""Progress bars for downloads, dask and training, and TensorBoard logging if it is installed."""

import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn, track
from rich.progress import Progress as Bars

SHORT = 1  # seconds; shorter computations show no bar
Item = TypeVar("Item")
QUICK = 0.5  # seconds; if epochs are shorter, only those with the best score so far are printed


def hides_progress(console: Console) -> bool:
    """Return True without a terminal, and in notebooks, which would store every frame of a bar."""
    return not console.is_terminal or console.is_jupyter


def tracked(items: Sequence[Item], label: str) -> Iterable[Item]:
    """Yield `items`, with a bar on standard error until the last one if that is a terminal."""
    console = Console(stderr=True)
    return track(items, label, console=console, disable=hides_progress(console), transient=True)


class Progress:
    """Counts finished days and downloaded bytes. The methods are thread-safe."""

    def __init__(self, bars: Bars, label: str, days: int) -> None:
        self._bars, self._task, self._lock = bars, bars.add_task(label, total=days, rate=""), threading.Lock()
        self._bytes = 0

    def downloaded(self, size: int) -> None:
        """Add `size` bytes and update the rate."""
        with self._lock:
            self._bytes += size
            elapsed = self._bars.tasks[0].elapsed or 1e-3
            self._bars.update(self._task, rate=f"{self._bytes / 1e6 / elapsed:.1f} MB/s")

    def settled(self, days: int) -> None:
        """Count days as done, whether they were downloaded or failed."""
        self._bars.advance(self._task, days)


@contextmanager
def days_progress(label: str, days: int) -> Iterator[Progress]:
    """Show a bar of `days` steps on standard error if it is a terminal. Yields the counter."""
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


def dask_progress() -> AbstractContextManager[object]:
    """Show a bar for the tasks of dask's local schedulers on standard error if it is a terminal."""
    from dask.diagnostics.progress import ProgressBar

    return nullcontext() if hides_progress(Console(stderr=True)) else ProgressBar(minimum=SHORT, out=sys.stderr)


def waiting(text: str) -> AbstractContextManager[object]:
    """Show `text` during a computation of unknown length on standard error if it is a terminal."""
    console = Console(stderr=True)
    return nullcontext() if hides_progress(console) else console.status(text)


class TrainingProgress:
    """Shows a progress bar over all training steps, if `shown`. Use it as a context manager.

    In notebooks and without a terminal, only the last epoch is printed, at the end. The values of each epoch also
    go to `board`, a TensorBoard writer.
    """

    def __init__(self, steps: int, shown: bool = True, board: Any = None) -> None:
        self.board, self.shown, self.last = board, shown, ""
        self.console = Console(force_jupyter=False)  # notebooks get plain text, because they do not save widgets
        self.bar = Bars(
            BarColumn(bar_width=None),
            TextColumn("{task.completed:.0f}/{task.total:.0f} "),
            TextColumn("loss {task.fields[loss]}  val {task.fields[validation]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            expand=True,
            disable=not shown or hides_progress(Console()),
            console=self.console,
        )
        self.task = self.bar.add_task("training", total=steps, loss="-", validation="-")

    def __enter__(self) -> "TrainingProgress":
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()
        if self.bar.disable and self.shown and self.last:
            self.console.print(self.last, highlight=False)
        if self.board is not None:
            self.board.close()

    def step(self, steps: int, loss: float) -> None:
        """Show the number of finished steps and `loss`, the mean over the epoch so far."""
        self.bar.update(self.task, completed=steps, loss=f"{loss:.4f}")

    def epoch(self, row: dict[str, Any]) -> None:
        """Print a line for a finished epoch. If epochs are short, print only those with the best score so far."""
        for key, value in row.items() if self.board is not None else ():
            self.board.add_scalar(key, value, row["epoch"])
        name, score = next((key, value) for key, value in row.items() if key.startswith("validation_"))
        self.bar.update(self.task, validation=f"{score:.4f}")
        self.last = (
            f"epoch {row['epoch'] + 1}: train {row['train_loss']:.4f}  {name.replace('_', ' ')} {score:.4f}  "
            f"({row['seconds']:.0f} s)"
        )
        quick = row["seconds"] < QUICK * row["epoch"]
        if not self.bar.disable and (row["best"] or not quick):
            self.console.print(self.last, highlight=False)


def open_board(folder: Path, epoch: int) -> Any:
    """Open a TensorBoard writer, if it is installed, that discards earlier values from `epoch` on."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(folder, purge_step=epoch)
