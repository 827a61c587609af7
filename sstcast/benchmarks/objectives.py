"""Training losses of the benchmark tasks, and the conversion of a model's outputs for the metrics."""

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.utils import scatter

from sstcast.benchmarks.dataset import END, LENGTH, UNKNOWN, WORDS, Dataset
from sstcast.benchmarks.packed import GraphBatch, Graphs


class Objective:
    """A loss over the known labels; models return `outputs` numbers per row."""

    outputs: int

    def weight(self, batch: GraphBatch) -> Tensor:
        """Return the total weight of the batch's known labels."""
        return (~batch.y.isnan()).sum()

    def loss(self, out: Tensor, batch: GraphBatch) -> Tensor:
        """Return the loss summed over the known labels."""
        raise NotImplementedError

    def judged(self, out: Tensor, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Return predictions and targets for the metric."""
        return out, batch.y


class Regression(Objective):
    """Absolute or squared errors of targets `[targets]`, standardised by the training samples' known labels."""

    def __init__(self, training: Tensor, squared: bool = False) -> None:
        self.squared = squared
        self.outputs = training.shape[1]
        known = ~training.isnan()
        count = known.sum(0).clamp(min=1)
        self.mean = training.nan_to_num().sum(0) / count
        variance = ((training - self.mean).nan_to_num().square() * known).sum(0) / count
        self.scale = variance.sqrt().clamp(min=1e-6)

    def loss(self, out: Tensor, batch: GraphBatch) -> Tensor:
        known = ~batch.y.isnan()
        target = (batch.y - self.mean.to(out.device)) / self.scale.to(out.device)
        error = (out - target)[known]
        return error.square().sum() if self.squared else error.abs().sum()

    def judged(self, out: Tensor, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        return out * self.scale.to(out.device) + self.mean.to(out.device), batch.y


class Binary(Objective):
    """Cross-entropies of yes-or-no questions, `[rows, questions]`, NaN if unknown."""

    def __init__(self, questions: int) -> None:
        self.outputs = questions

    def loss(self, out: Tensor, batch: GraphBatch) -> Tensor:
        known = ~batch.y.isnan()
        return F.binary_cross_entropy_with_logits(out[known], batch.y[known], reduction="sum")


class Classes(Objective):
    """Cross-entropy over classes, weighted by `weights [classes]`."""

    def __init__(self, weights: Tensor) -> None:
        self.outputs, self.weights = len(weights), weights

    def weight(self, batch: GraphBatch) -> Tensor:
        return self.weights.to(batch.y.device)[batch.y[batch.y >= 0]].sum()

    def loss(self, out: Tensor, batch: GraphBatch) -> Tensor:
        weights = self.weights.to(out.device, out.dtype)
        return F.cross_entropy(out, batch.y, weights, ignore_index=-1, reduction="sum")


class Links(Objective):
    """Predicts whether two nodes are linked, from the product of their vectors, the model's outputs.

    For each true link, the metric ranks the second node among all nodes of the graph. It averages over a graph's
    links, then over graphs, as in Dwivedi et al. 2022; half of the tied nodes count as ranked ahead.
    """

    outputs = 64

    def weight(self, batch: GraphBatch) -> Tensor:
        return torch.tensor(len(batch.y))

    def loss(self, out: Tensor, batch: GraphBatch) -> Tensor:
        assert batch.pairs is not None
        scores = (out[batch.pairs[0]] * out[batch.pairs[1]]).sum(1)
        return F.binary_cross_entropy_with_logits(scores, batch.y.to(scores.dtype), reduction="sum")

    def judged(self, out: Tensor, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Return each graph's mean reciprocal rank of its true links (0 if it has none), as both values."""
        assert batch.pairs is not None
        source, target = batch.pairs[:, batch.y > 0]
        nodes, mask = batch.graph.dense(out)
        own = batch.graph.batch
        scores = (nodes[own[source]] @ out[source].unsqueeze(-1)).squeeze(-1)
        true = (out[source] * out[target]).sum(1, keepdim=True)
        others = mask[own[source]].scatter(1, self._place(batch)[target].unsqueeze(1), False)
        ahead = ((scores > true) & others).sum(1)
        level = ((scores == true) & others).sum(1)
        ranks = scatter(1 / (1 + ahead + 0.5 * level), own[source], dim_size=batch.graph.graphs, reduce="mean")
        return ranks, ranks

    @staticmethod
    def _place(batch: GraphBatch) -> Tensor:
        """Return each node's number within its graph."""
        own = batch.graph.batch
        sizes = torch.bincount(own, minlength=batch.graph.graphs)
        return torch.arange(len(own), device=own.device) - (sizes.cumsum(0) - sizes)[own]


class Words(Objective):
    """Cross-entropies of the first `LENGTH` words; rare words are unknown, and an end follows the last word."""

    def __init__(self) -> None:
        self.outputs = LENGTH * (WORDS + 2)

    def weight(self, batch: GraphBatch) -> Tensor:
        return torch.tensor(LENGTH * len(batch.y))

    def loss(self, out: Tensor, batch: GraphBatch) -> Tensor:
        words = F.pad(batch.y, (0, max(LENGTH - batch.y.shape[1], 0)), value=-1)[:, :LENGTH]
        words = words.masked_fill(words >= WORDS, UNKNOWN).masked_fill(words < 0, END)
        return F.cross_entropy(out.view(-1, WORDS + 2), words.flatten(), reduction="sum")

    def judged(self, out: Tensor, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        return out.view(len(out), LENGTH, WORDS + 2).argmax(-1), batch.y


def build_objective(dataset: Dataset, graphs: Graphs, training: Tensor) -> Objective:
    """Return the objective of the data set's task; `training` are the training samples."""
    if dataset.task == "next-tokens":
        return Words()
    if dataset.task == "link-ranking":
        return Links()
    rows = training
    if graphs.level == "node" and not graphs.transductive:
        rows = torch.isin(torch.arange(len(graphs)).repeat_interleave(graphs.nodes), training)
    y = graphs.y[rows]
    if dataset.task.endswith("regression"):
        return Regression(y, squared=dataset.metric == "rmse")
    if not dataset.classes:
        return Binary(graphs.y.shape[1])
    count = dataset.options.get("classes") or int(graphs.y.max()) + 1
    weights = torch.ones(count)
    if dataset.balanced:
        sizes = torch.bincount(y[y >= 0].long(), minlength=count)
        weights = len(y) / (count * sizes.clamp(min=1))
    return Classes(weights)
