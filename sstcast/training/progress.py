"""The bar: epoch by epoch what was learnt, and how long it will still take."""

from types import TracebackType
from typing import Any

from rich import progress as bar


class Progress:
    """A progress bar over all steps of a training; use it as a context manager."""

    def __init__(self, steps: int) -> None:
        self.bar = bar.Progress(
            bar.BarColumn(bar_width=None),
            bar.TextColumn("{task.completed:.0f}/{task.total:.0f} "),
            bar.TextColumn("loss {task.fields[loss]}  val {task.fields[validation]}"),
            bar.TimeElapsedColumn(),
            bar.TextColumn("left"),
            bar.TimeRemainingColumn(),
            expand=True,
        )
        self.task = self.bar.add_task("training", total=steps, loss="-", validation="-")

    def __enter__(self) -> "Progress":
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.bar.stop()

    def step(self, done: int, loss: float) -> None:
        """Move to `done` steps; `loss` is the epoch's mean so far."""
        self.bar.update(self.task, completed=done, loss=f"{loss:.4f}")

    def epoch(self, row: dict[str, Any]) -> None:
        """Print a line for a finished epoch."""
        self.bar.update(self.task, validation=f"{row['validation_mse']:.4f}")
        self.bar.console.print(
            f"epoch {row['epoch'] + 1}: train {row['train_mse']:.4f}  validation {row['validation_mse']:.4f}  "
            f"({row['seconds']:.0f} s)",
            highlight=False,
        )
