"""The progress of a training."""

import csv
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sstcast.files import atomic


@dataclass
class State:
    """The progress of a training; it holds only plain values, so that a checkpoint can store it unchanged."""

    epoch: int = 0
    step: int = 0  # steps done in this epoch
    loss: float = 0.0  # their summed loss
    weight: float = 0.0  # number of elements in that sum
    seconds: float = 0.0
    best: float = math.inf  # score to be minimised
    best_loss: float = math.inf  # decides between equal scores
    best_epoch: int = -1
    history: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Raise TypeError if values, as read from a checkpoint, have wrong types."""
        counts, times = (
            (self.epoch, self.step, self.best_epoch),
            (self.loss, self.weight, self.seconds),
        )
        if not (all(type(n) is int for n in counts) and all(isinstance(n, (int, float)) for n in times)):
            raise TypeError("its progress is not given in numbers")
        if not all(isinstance(row, dict) and row for row in self.history):
            raise TypeError("its history is not valid")

    @property
    def mean_loss(self) -> float:
        """The loss per element over the steps done in this epoch."""
        return self.loss / max(self.weight, 1.0)

    def close_epoch(self, learning_rate: float, scores: dict[str, float], better: bool) -> None:
        """Add an epoch to the history and begin the next."""
        row = {"epoch": self.epoch, "train_loss": self.mean_loss, "learning_rate": learning_rate}
        row |= {f"validation_{name}": value for name, value in scores.items()}
        self.history.append(row | {"best": better, "seconds": self.seconds})
        self.epoch, self.step, self.loss, self.weight = self.epoch + 1, 0, 0.0, 0.0

    def write_history(self, path: Path) -> None:
        """Write one row per finished epoch, if there is any."""
        if not self.history:
            return
        with atomic(path) as temporary, temporary.open("w", newline="") as file:
            writer = csv.DictWriter(file, self.history[-1].keys())
            writer.writeheader()
            writer.writerows(self.history)
