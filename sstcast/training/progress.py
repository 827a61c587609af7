"""The progress bar of a training, with a line per epoch and the time left; and TensorBoard, if installed."""

from pathlib import Path
from types import TracebackType
from typing import Any

from rich import progress as bar
from rich.console import Console

QUICK = 0.5  # seconds


class TrainingProgress:
    """A progress bar over all steps of a training, if `shown`; use it as a context manager.

    In a notebook and where there is no terminal, only the last epoch is printed, at the end. The values of
    each epoch also go to `board`, TensorBoard's writer.
    """

    def __init__(self, steps: int, shown: bool = True, board: Any = None) -> None:
        self.board, self.shown, self.last = board, shown, ""
        self.console = Console(force_jupyter=False)  # plain text in notebooks: widgets do not survive saving
        self.bar = bar.Progress(
            bar.BarColumn(bar_width=None),
            bar.TextColumn("{task.completed:.0f}/{task.total:.0f} "),
            bar.TextColumn("loss {task.fields[loss]}  val {task.fields[validation]}"),
            bar.TimeElapsedColumn(),
            bar.TextColumn("left"),
            bar.TimeRemainingColumn(),
            expand=True,
            disable=not shown or not self.console.is_terminal or Console().is_jupyter,
            console=self.console,
        )
        self.task = self.bar.add_task("training", total=steps, loss="-", validation="-")

    def __enter__(self) -> "TrainingProgress":
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.bar.stop()
        if self.bar.disable and self.shown and self.last:
            self.console.print(self.last, highlight=False)
        if self.board is not None:
            self.board.close()

    def step(self, done: int, loss: float) -> None:
        """Show that `done` steps are done; `loss` is the epoch's mean so far."""
        self.bar.update(self.task, completed=done, loss=f"{loss:.4f}")

    def epoch(self, row: dict[str, Any]) -> None:
        """Print a line for a finished epoch; if epochs are short, only when the score is the best so far."""
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
    """Return TensorBoard's writer, with values from `epoch` on deleted; None if it is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(folder, purge_step=epoch)
