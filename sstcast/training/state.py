"""Where a training stands."""

import csv
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sstcast.files import atomic


@dataclass
class State:
    """Where training stands; everything in it is plain, so it goes into a checkpoint as it is."""

    epoch: int = 0
    step: int = 0  # steps done in this epoch
    loss: float = 0.0  # their summed loss
    weight: float = 0.0  # and over how many elements
    skipped: int = 0
    seconds: float = 0.0
    best: float = math.inf  # score to be minimised
    best_loss: float = math.inf  # decides between equal scores
    best_epoch: int = -1
    history: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Raise TypeError if a checkpoint holds something else."""
        counts, times = (
            (self.epoch, self.step, self.skipped, self.best_epoch),
            (self.loss, self.weight, self.seconds),
        )
        if not (all(type(n) is int for n in counts) and all(isinstance(n, (int, float)) for n in times)):
            raise TypeError("where it stands is not told in numbers")
        if not all(isinstance(row, dict) and row for row in self.history):
            raise TypeError("its history is none")

    def write_history(self, path: Path) -> None:
        """Write one row an epoch, if one is finished."""
        if not self.history:
            return
        with atomic(path) as temporary, temporary.open("w", newline="") as file:
            writer = csv.DictWriter(file, self.history[-1].keys())
            writer.writeheader()
            writer.writerows(self.history)
