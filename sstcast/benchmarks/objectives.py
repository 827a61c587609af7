"""The tasks by name, with their labels, losses and metrics."""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.utils import scatter

from sstcast.benchmarks.packed import ROUNDING, ConcatenatedGraphs, GraphBatch, compact, loses_digits
from sstcast.benchmarks.registry import Dataset
from sstcast.errors import SSTCastError
from sstcast.types import Array

Score = Callable[[Array, Array], float]  # of predictions and targets


class Metric(NamedTuple):
    """A function of predictions and targets, and whether a lower value is better."""

    score: Score
    lower_is_better: bool = False


class Objective:
    """A task with its labels, loss and metrics. To add one, write a subclass and list it in `objectives.TASKS`.

    Labels are `y [rows, ...]`, one row per graph, node or pair, depending on `level`. `training` holds the labels
    of the training samples. A model returns `outputs` numbers per row.
    """

    level: ClassVar[str] = "graph"  # graph, node, or pair: of nodes whose link is to be predicted
    metrics: ClassVar[Mapping[str, Metric]]  # by name, the default first
    classes: ClassVar[bool] = False  # whether labels are whole numbers `[rows]`, one class each
    outputs: int

    def __init__(self, y: Tensor, training: Tensor, dataset: Dataset) -> None:
        """Set `outputs`, unless the class does, and everything else that depends on the labels."""

    @cached_property
    def constant(self) -> Tensor:
        """The output `[outputs]` of the best model that reads nothing. All constants rank samples equally."""
        return torch.zeros(self.outputs)

    @classmethod
    def wrong(cls, values: Tensor, dataset: Dataset) -> tuple[Tensor, str]:
        """Return a mask of the unusable labels in `values [rows, labels]`, and a description of a usable label."""
        return values.abs() > torch.finfo(torch.float32).max, "a finite number"

    @classmethod
    def shaped(cls, y: Tensor) -> Tensor:
        """Return the checked labels of `labels_of` in the form that the loss needs."""
        return y

    @classmethod
    def labels_of(cls, graphs: ConcatenatedGraphs) -> dict[str, Tensor]:
        """Return the labels `y`. Raises ValueError, naming the graph, if it has too many or too few."""
        y = graphs.labels
        rows = graphs.nodes if cls.level == "node" else torch.ones_like(graphs.nodes)
        counts, total = graphs.counts["y"] * (y.numel() // max(len(y), 1)), int(rows.sum())
        columns = 1 if cls.classes else max(y.numel() // total, 1)
        if len(mismatches := (counts != rows * columns).nonzero()):
            graph = int(mismatches[0])
            raise ValueError(f"graph {graph}: {int(counts[graph])} labels for {int(rows[graph])} {cls.level}s")
        if cls.classes:
            return {"y": y.flatten()}
        table = y.reshape(total, -1)
        return {"y": table.double() if loses_digits(table).any() else table.float()}

    @classmethod
    def check(cls, y: Tensor, dataset: Dataset, where: Callable[[int, int], str]) -> None:
        """Raise SSTCastError if a label is unusable. `where` describes the place of a row and column."""
        values = y.double().reshape(len(y), -1)
        labels = values[cls.known(values)]
        if cls.classes and len(labels) > 1 and (labels == labels[0]).all():  # such as labels -1 and 1
            raise SSTCastError(
                f"{dataset.name}: all known labels are {labels[0]:g}; number the classes from 0, as -1 is unknown"
            )
        invalid, requirement = cls.wrong(values, dataset)
        if invalid.any():
            row, column = invalid.nonzero()[0].tolist()
            label = f"label {float(values[row, column]):g}, which is not {requirement}"
            raise SSTCastError(f"{where(row, column)}: {label}")

    @classmethod
    def known(cls, y: Tensor) -> Tensor:
        """Return a mask of the known labels: unknown classes are -1, other unknown labels NaN."""
        return ~(y.isnan() | (y == -1 if cls.classes else False))

    def weight(self, batch: GraphBatch) -> Tensor:
        """Return the total weight of the batch's known labels."""
        return self.known(batch.y).sum()

    def loss(self, out: Tensor, batch: GraphBatch) -> Tensor:
        """Return the loss summed over the known labels."""
        raise NotImplementedError

    def scored_values(self, out: Tensor, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Return predictions and targets for the metric."""
        return out, batch.y


def of_classes(name: str, **options: str) -> Metric:
    """Return scikit-learn's score `name` of the most likely classes, which is NaN if all targets are -1."""

    def score(prediction: Array, target: Array) -> float:
        from sklearn import metrics  # which takes a second

        is_known = target >= 0
        labels = target[is_known], prediction.argmax(1)[is_known]
        return float(getattr(metrics, name)(*labels, **options)) if is_known.any() else float("nan")

    return Metric(score)


def of_binary_labels(name: str) -> Metric:
    """Return the mean of scikit-learn's score `name` over the labels that have both values, NaN without any."""

    def mean(prediction: Array, target: Array) -> float:
        from sklearn import metrics

        score, scores = getattr(metrics, name), []
        for guess, truth in zip(prediction.T, target.T, strict=True):
            is_known = ~np.isnan(truth)
            if len(np.unique(truth[is_known])) == 2:
                scores.append(score(truth[is_known], guess[is_known]))
        return float(np.mean(scores)) if scores else float("nan")

    return Metric(mean)


def mean_absolute_error(prediction: Array, target: Array) -> float:
    """Return the mean absolute error over the known targets."""
    return float(np.nanmean(np.abs(prediction - target)))


def root_mean_square_error(prediction: Array, target: Array) -> float:
    """Return the root of the mean squared error over the known targets."""
    return float(np.sqrt(np.nanmean((prediction - target) ** 2)))


LEAST_SCALE = 1e-6  # of targets that are all equal but for rounding


class Regression(Objective):
    """Absolute or squared errors of targets `[targets]`, standardised by the training samples' known labels."""

    metrics: ClassVar = {
        "mae": Metric(mean_absolute_error, lower_is_better=True),
        "rmse": Metric(root_mean_square_error, lower_is_better=True),
    }

    def __init__(self, y: Tensor, training: Tensor, dataset: Dataset) -> None:
        self.squared = dataset.metric == "rmse"
        self.outputs = training.shape[1]
        self.mean = training.nanmean(0).nan_to_num()  # 0 where no label is known
        variance = (training - self.mean).square().nanmean(0).nan_to_num()
        self.scale = variance.sqrt().clamp(min=LEAST_SCALE)
        exact = training.double()
        deviation = (exact - exact.nanmean(0)).square().nanmean(0).sqrt()
        small = (deviation < LEAST_SCALE) & (deviation > ROUNDING * self.mean.abs())
        if small.any():
            self.scale = torch.where(small, deviation, self.scale)
        centre = self.mean if self.squared else training.nanmedian(0).values.nan_to_num()
        self.constant = (centre - self.mean) / self.scale

    def loss(self, out: Tensor, batch: GraphBatch) -> Tensor:
        is_known = ~batch.y.isnan()
        target = (batch.y - self.mean.to(out.device)) / self.scale.to(out.device)
        error = (out - target.to(torch.promote_types(out.dtype, torch.float32)))[is_known]
        return error.square().sum() if self.squared else error.abs().sum()

    def scored_values(self, out: Tensor, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        return out * self.scale.to(out.device) + self.mean.to(out.device), batch.y


class BinaryLabels(Objective):
    """Cross-entropies of binary labels, `[rows, labels]`, NaN if unknown."""

    metrics: ClassVar = {
        "ap": of_binary_labels("average_precision_score"),
        "roc-auc": of_binary_labels("roc_auc_score"),
    }

    def __init__(self, y: Tensor, training: Tensor, dataset: Dataset) -> None:
        self.outputs = y.shape[1]

    @classmethod
    def wrong(cls, values: Tensor, dataset: Dataset) -> tuple[Tensor, str]:
        return ~((values == 0) | (values == 1) | values.isnan()), "0, 1 or missing"

    def loss(self, out: Tensor, batch: GraphBatch) -> Tensor:
        is_known = ~batch.y.isnan()
        return F.binary_cross_entropy_with_logits(out[is_known], batch.y[is_known], reduction="sum")


class Classes(Objective):
    """Cross-entropy over classes 0, 1, ..., where -1 is unknown. With `balanced`, all classes weigh the same."""

    metrics: ClassVar = {
        "accuracy": of_classes("accuracy_score"),
        "balanced-accuracy": of_classes("balanced_accuracy_score"),
        "macro-f1": of_classes("f1_score", average="macro"),
        **{name: BinaryLabels.metrics[name] for name in reversed(BinaryLabels.metrics)},
    }
    classes = True

    def __init__(self, y: Tensor, training: Tensor, dataset: Dataset) -> None:
        self.outputs = dataset.options.get("classes") or int(y.max()) + 1
        self.weights = torch.ones(self.outputs)
        sizes = torch.bincount(training[training >= 0].long(), minlength=self.outputs)
        if dataset.balanced:
            self.weights = len(training) / (self.outputs * sizes.clamp(min=1))
        self.constant = F.one_hot(sizes.argmax(), self.outputs)

    @classmethod
    def wrong(cls, values: Tensor, dataset: Dataset) -> tuple[Tensor, str]:
        values = values.nan_to_num(-1, posinf=torch.inf, neginf=-torch.inf)
        classes = dataset.options.get("classes") or len(values)  # n samples have n classes at most
        usable = f"a class: 0..{classes - 1}, or -1 if unknown"
        remedy = f"number the classes from 0, or set data.task={cls.level}-regression"
        return (values != values.floor()) | (values < -1) | (values >= classes), f"{usable}; {remedy}"

    @classmethod
    def shaped(cls, y: Tensor) -> Tensor:
        return compact(y.flatten().nan_to_num(-1).long())

    def weight(self, batch: GraphBatch) -> Tensor:
        return self.weights.to(batch.y.device)[batch.y[batch.y >= 0]].sum()

    def loss(self, out: Tensor, batch: GraphBatch) -> Tensor:
        weights = self.weights.to(out.device, out.dtype)
        return F.cross_entropy(out, batch.y, weights, ignore_index=-1, reduction="sum")


class Links(Objective):
    """Predicts whether two nodes are linked, from the dot product of their vectors, which the model outputs.

    For each true link, the metric ranks the second node among all nodes of the graph. It averages over a graph's
    links, then over graphs, as in Dwivedi et al. 2022. Half of the tied nodes count as ranked ahead.
    """

    level = "pair"
    metrics: ClassVar = {
        "mrr": Metric(lambda prediction, target: float(prediction.mean()))
    }  # of the graphs' means
    outputs = 64

    @classmethod
    def wrong(cls, values: Tensor, dataset: Dataset) -> tuple[Tensor, str]:
        return ~((values == 0) | (values == 1)), "0 or 1"

    @classmethod
    def labels_of(cls, graphs: ConcatenatedGraphs) -> dict[str, Tensor]:
        pairs, y = graphs.data.get("edge_label_index"), graphs.data.get("edge_label")
        if pairs is None or y is None:
            raise ValueError("no edge_label_index or no edge_label")
        return {"pairs": pairs, "pair_counts": graphs.counts["edge_label_index"], "y": y.float()}

    def loss(self, out: Tensor, batch: GraphBatch) -> Tensor:
        assert batch.pairs is not None
        scores = (out[batch.pairs[0]] * out[batch.pairs[1]]).sum(1)
        return F.binary_cross_entropy_with_logits(scores, batch.y.to(scores.dtype), reduction="sum")

    def scored_values(self, out: Tensor, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Return each graph's mean reciprocal rank of its true links (0 if it has none), as both values."""
        assert batch.pairs is not None
        source, target = batch.pairs[:, batch.y > 0]
        nodes, mask = batch.graph.dense(out)
        graphs = batch.graph.batch
        scores = (nodes[graphs[source]] @ out[source].unsqueeze(-1)).squeeze(-1)
        position = mask.nonzero()[:, 1][target].unsqueeze(1)  # of the second node in its graph
        true = scores.gather(1, position)  # summed in the same order as the others, so that ties are ties
        candidates = mask[graphs[source]].scatter(1, position, False)
        higher = ((scores > true) & candidates).sum(1)
        ties = ((scores == true) & candidates).sum(1)
        ranks = scatter(1 / (1 + higher + 0.5 * ties), graphs[source], dim_size=batch.graph.graphs, reduce="mean")
        return ranks, ranks


# The vocabulary of a model, and the number of words it predicts, as in the authors' baselines.
VOCABULARY_SIZE = 5000
UNKNOWN_WORD, END_WORD = VOCABULARY_SIZE, VOCABULARY_SIZE + 1
PREDICTED_WORDS = 5


def words_f1(prediction: Array, target: Array) -> float:
    """Return the mean over graphs of the F1 between predicted and true words, as sets, up to the first end."""
    scores = []
    for guess, truth in zip(prediction, target, strict=True):
        ends = np.flatnonzero(guess == END_WORD)
        guessed_words, true_words = set(guess[: ends[0] if len(ends) else None]), set(truth[truth >= 0])
        scores.append(2 * len(guessed_words & true_words) / max(len(guessed_words) + len(true_words), 1))
    return float(np.mean(scores))


class Words(Objective):
    """Cross-entropies of `PREDICTED_WORDS` words. Rare words are unknown, and an end follows the last word."""

    metrics: ClassVar = {"f1": Metric(words_f1)}
    outputs = PREDICTED_WORDS * (VOCABULARY_SIZE + 2)

    @classmethod
    def labels_of(cls, graphs: ConcatenatedGraphs) -> dict[str, Tensor]:
        return {"y": graphs.labels.reshape(len(graphs.nodes), -1)}

    def weight(self, batch: GraphBatch) -> Tensor:
        return torch.tensor(PREDICTED_WORDS * len(batch.y))

    def loss(self, out: Tensor, batch: GraphBatch) -> Tensor:
        words = F.pad(batch.y, (0, max(PREDICTED_WORDS - batch.y.shape[1], 0)), value=-1)[:, :PREDICTED_WORDS]
        words = words.masked_fill(words >= VOCABULARY_SIZE, UNKNOWN_WORD).masked_fill(words < 0, END_WORD)
        return F.cross_entropy(out.view(-1, VOCABULARY_SIZE + 2), words.flatten().long(), reduction="sum")

    def scored_values(self, out: Tensor, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        return out.view(len(out), PREDICTED_WORDS, VOCABULARY_SIZE + 2).argmax(-1), batch.y


def number_words(lines: list[list[str]], training: list[list[str]]) -> Tensor:
    """Number the words of each line, `[lines, longest]`, with -1 after its end.

    The `VOCABULARY_SIZE` most frequent words of the training lines come first. Rarer words are unknown to the
    model and get numbers from `VOCABULARY_SIZE` on, so that the metric tells them apart.
    """
    frequent = [word for word, _ in Counter(w for line in training for w in line).most_common(VOCABULARY_SIZE)]
    number = {word: i for i, word in enumerate(frequent)}
    for line in lines:
        for word in line:
            number.setdefault(word, VOCABULARY_SIZE + len(number))
    numbered = torch.full((len(lines), max(map(len, lines))), -1)
    for row, line in zip(numbered, lines, strict=True):
        row[: len(line)] = torch.tensor([number[word] for word in line])
    return numbered


class NodeRegression(Regression):
    level = "node"


class NodeBinaryLabels(BinaryLabels):
    level = "node"


class NodeClasses(Classes):
    level = "node"


TASKS: dict[str, type[Objective]] = {
    "graph-regression": Regression,
    "graph-classification": Classes,
    "multi-label": BinaryLabels,
    "node-regression": NodeRegression,
    "node-classification": NodeClasses,
    "link-ranking": Links,
    "next-tokens": Words,
}


def lower_is_better(metric: str) -> bool:
    """Return whether a lower value of a task's metric is better."""
    return any(task.metrics[metric].lower_is_better for task in TASKS.values() if metric in task.metrics)


def objective_of(dataset: Dataset) -> type[Objective]:
    """Return the class of a declared task. With a rank metric, classes are binary labels.

    Raises SSTCastError if the task is unknown, or the declared metric is not one of the task's.
    """
    if dataset.task not in TASKS:
        raise SSTCastError(f"{dataset.name}: task: no {dataset.task!r}; known: {', '.join(TASKS)}")
    task = TASKS[dataset.task]
    if dataset.metric and dataset.metric not in task.metrics:
        raise SSTCastError(f"{dataset.name}: metric: {dataset.task} is judged by {' or '.join(task.metrics)}")
    if issubclass(task, Classes) and dataset.metric in BinaryLabels.metrics:
        return NodeBinaryLabels if task.level == "node" else BinaryLabels
    return task
