"""Benchmarks as tasks for the trainer, with the samples of each step and the score of a split."""

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from numpy.typing import NDArray
from torch import Tensor, nn

from sstcast.benchmarks.objectives import Objective
from sstcast.benchmarks.packed import GraphBatch, Graphs, Split
from sstcast.benchmarks.registry import Dataset
from sstcast.errors import SSTCastError
from sstcast.training.task import seed_of

LISTED = 5  # samples or classes listed in a line


class BenchmarkTask:
    """Mini-batches of many graphs, their loss and their scores."""

    def __init__(
        self, dataset: Dataset, graphs: Graphs, split: Split, objective: Objective, batch_size: int, fabric: Fabric
    ) -> None:
        self.dataset, self.graphs, self.split = dataset, graphs.to(fabric.device), split
        self.objective, self.batch_size, self.fabric = objective, batch_size, fabric
        self.lower_is_better = objective.metrics[dataset.metric].lower_is_better
        self.static = False  # batches of graphs differ in size
        self.learnt: Tensor | None = None

    def order(self, seed: int, epoch: int) -> list[Tensor]:
        return list(shuffled(self.split.train, seed, epoch).split(self.batch_size))

    def batch(self, index: Tensor) -> GraphBatch:
        return self.graphs.batch(index)

    def batches(self, samples: Tensor) -> Iterable[GraphBatch]:
        """Yield batches for scoring, with graphs sorted by size, because their order does not change scores."""
        return map(self.batch, self.ordered(samples).split(self.batch_size))

    def ordered(self, samples: Tensor) -> Tensor:
        """Return the samples in the order of `batches`."""
        return samples[self.graphs.nodes[samples].argsort(stable=True)]

    def weight(self, batch: GraphBatch) -> Tensor:
        return self.objective.weight(batch)

    def loss(self, model: nn.Module, batch: GraphBatch) -> Tensor:
        return self.objective.loss(model(batch), batch)

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Return the score and the mean loss of the validation samples."""
        score, loss, _ = self._judge(model, self.split.validation)
        return {self.dataset.metric: score, "loss": loss}

    def predict(self, model: nn.Module, samples: Tensor) -> tuple[float, dict[str, NDArray[Any]]]:
        """Return the score, and each row's `prediction`, `target` and sample (`index`).

        Raises SSTCastError if the score is undefined, such as the ROC-AUC of a single answer.
        """
        score, _, outputs = self._judge(model, samples)
        index = self.ordered(samples)
        if len(outputs["prediction"]) != len(index):  # the nodes of many graphs
            index = index.repeat_interleave(self.graphs.nodes[index])
        return score, outputs | {"index": index.numpy()}

    def labelled(self, samples: Tensor) -> int:
        """Return how many of the samples have a known label."""
        graphs = self.graphs
        known = self.objective.known(graphs.y.cpu()).reshape(len(graphs.y), -1).any(1)
        counts = {"node": graphs.nodes, "pair": graphs.pair_counts}.get(graphs.level)
        if counts is not None and not graphs.transductive:
            known = torch.arange(len(graphs)).repeat_interleave(counts)[known].unique()
            return int(torch.isin(samples, known).sum())
        return int(known[samples].sum())

    def constant_score(self) -> float:
        """Return the score on the test samples of the best constant for the training labels."""

        def constant(batch: GraphBatch) -> Tensor:
            rows = len(batch.graph.batch) if self.objective.level == "pair" else len(batch.y)
            return self.objective.constant.to(self.graphs.y.device, torch.float32).repeat(rows, 1)

        return self._judge(constant, self.split.test)[0]

    @torch.no_grad()
    def _judge(
        self, model: Callable[[GraphBatch], Tensor], samples: Tensor
    ) -> tuple[float, float, dict[str, NDArray[Any]]]:
        judged, loss, weight = [], 0.0, 0.0
        for batch in self.batches(samples):
            with self.fabric.autocast():
                out = model(batch)
            judged.append([part.cpu() for part in self.objective.scored_values(out.float(), batch)])
            loss += float(self.objective.loss(out.float(), batch))
            weight += float(self.objective.weight(batch))
        prediction, target = (torch.cat(parts).numpy() for parts in zip(*judged, strict=True))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # undefined values are reported below
            not_finite = not np.isfinite(prediction).all()  # argmax of NaN would return the first class
            metric = self.objective.metrics[self.dataset.metric]
            score = float("nan") if not_finite else metric.score(prediction, target)
        if score != score:
            part = next((name for name, part in self.split._asdict().items() if part is samples), "a")
            reason = "the split lacks one of the answers; choose another split or metric"
            if not_finite:
                reason = "the model's outputs are not finite; set a lower training.learning_rate, or training.clip"
            raise SSTCastError(
                f"{self.dataset.name}: {self.dataset.metric} of the {part} split is not defined: {reason}"
            )
        return score, loss / max(weight, 1e-12), {"prediction": prediction, "target": target}

    def describe(self, index: Tensor) -> str:
        unit = "nodes" if self.graphs.transductive else "graphs"
        remainder = f" and {len(index) - LISTED} more" if len(index) > LISTED else ""
        return f"{unit} {', '.join(str(int(i)) for i in index[:LISTED])}{remainder} of {self.dataset.name}"


def shuffled(samples: Tensor, seed: int, epoch: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed_of(seed, epoch))
    return samples[torch.randperm(len(samples), generator=generator)]


class OneGraph(BenchmarkTask):
    """The nodes of one graph: an epoch is one step on the whole graph."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.whole = self.graphs.batch(torch.tensor([0]))

    def order(self, seed: int, epoch: int) -> list[Tensor]:
        return [self.split.train]

    def batch(self, index: Tensor) -> GraphBatch:
        rows = index.to(self.fabric.device)
        return self.whole._replace(rows=rows, y=self.whole.y[rows])

    def batches(self, samples: Tensor) -> Iterable[GraphBatch]:
        return [OneGraph.batch(self, samples)]

    def ordered(self, samples: Tensor) -> Tensor:
        return samples


class PartsOfOneGraph(OneGraph):
    """Random parts of a graph that is too large for memory. Scores use the whole graph.

    Each epoch divides the nodes into new parts of `batch_size` and drops the edges between parts, as Polynormer
    does for ogbn-products and pokec.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.training = torch.zeros(int(self.graphs.nodes[0]), dtype=torch.bool, device=self.fabric.device)
        self.training[self.split.train.to(self.fabric.device)] = True

    def order(self, seed: int, epoch: int) -> list[Tensor]:
        return list(shuffled(torch.arange(len(self.training)), seed, epoch).split(self.batch_size))

    def batch(self, index: Tensor) -> GraphBatch:
        return self.graphs.part(index.to(self.fabric.device), self.training)
