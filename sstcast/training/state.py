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

    def write_history(self, path: Path) -> None:
        """Write one row an epoch, if one is finished."""
        if not self.history:
            return
        with atomic(path) as temporary, temporary.open("w", newline="") as file:
            writer = csv.DictWriter(file, self.history[-1].keys())
            writer.writeheader()
            writer.writerows(self.history)
