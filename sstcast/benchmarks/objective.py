"""`Objective`: the base class of a benchmark's tasks, with the loss, the outputs, the metrics and the labels."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.packed import GraphBatch
from sstcast.errors import SSTCastError

Array = NDArray[np.float64]
Score = Callable[[Array, Array], float]  # of predictions and targets


class Objective:
    """A task: what is learnt and judged. To add one, write a subclass and list it in `objectives.TASKS`.

    Labels are `y [rows, ...]`, one row per graph, node or pair, depending on `level`; `training` are those of the
    training samples. A model returns `outputs` numbers per row.
    """

    level: ClassVar[str] = "graph"  # graph, node, or pair: of nodes whose link is to be predicted
    metrics: ClassVar[Mapping[str, Score]]  # by name, the usual one first
    classes: ClassVar[bool] = False  # whether labels are whole numbers `[rows]`, one class each
    lower_is_better: ClassVar[bool] = False
    outputs: int

    def __init__(self, y: Tensor, training: Tensor, dataset: Dataset) -> None:
        raise NotImplementedError

    @classmethod
    def judged_by(cls, metric: str) -> "type[Objective]":
        """Return the class for a metric, where the labels mean something else with it."""
        return cls

    @classmethod
    def wrong(cls, values: Tensor, dataset: Dataset) -> tuple[Tensor, str]:
        """Return which of the labels `[rows, labels]` cannot be used, and what they are not, in words."""
        raise NotImplementedError

    @classmethod
    def shaped(cls, y: Tensor) -> Tensor:
        """Return the labels `[rows, ...]` as the loss takes them."""
        return y.float().reshape(len(y), -1)

    @classmethod
    def labels_of(cls, data: Any, nodes: int) -> dict[str, Tensor]:
        """Return the labels `y` of one graph of PyG; raise ValueError if there are not as many as it has rows."""
        y, rows = torch.as_tensor(data.y), nodes if cls.level == "node" else 1
        if y.numel() % max(rows, 1) or (cls.classes and y.numel() != rows):
            raise ValueError(f"{y.numel()} labels for {rows} {cls.level}s")
        return {"y": y.reshape(-1) if cls.classes else y.reshape(rows, -1).float()}

    @classmethod
    def check(cls, y: Tensor, dataset: Dataset, where: Callable[[int, int], str]) -> None:
        """Raise SSTCastError if a label cannot be used; `where` says in words where row and column are."""
        values = y.double().reshape(len(y), -1)
        wrong, known = cls.wrong(values, dataset)
        if wrong.any():
            row, column = wrong.nonzero()[0].tolist()
            label = f"label {float(values[row, column]):g}, which is not {known}"
            raise SSTCastError(f"{where(row, column)}: {label}")

    def weight(self, batch: GraphBatch) -> Tensor:
        """Return the total weight of the batch's known labels."""
        return (~batch.y.isnan()).sum()

    def loss(self, out: Tensor, batch: GraphBatch) -> Tensor:
        """Return the loss summed over the known labels."""
        raise NotImplementedError

    def judged(self, out: Tensor, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Return predictions and targets for the metric."""
        return out, batch.y
