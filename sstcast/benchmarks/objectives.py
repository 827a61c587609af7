"""The tasks by name: regression, classes, and questions with the answers yes and no."""

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.links import Links
from sstcast.benchmarks.objective import Array, Objective, Score
from sstcast.benchmarks.packed import GraphBatch, compact
from sstcast.benchmarks.words import Words
from sstcast.errors import SSTCastError

RANKS = ("roc-auc", "ap")


def of_classes(score: Score) -> Score:
    """Return a score of the most likely classes, from one of true and predicted classes; -1 is unknown."""
    return lambda prediction, target: float(score(target[target >= 0], prediction.argmax(1)[target >= 0]))


def of_questions(name: str) -> Score:
    """Return the mean of a score of scikit-learn over questions with both answers, NaN if there are none."""

    def mean(prediction: Array, target: Array) -> float:
        score, found = _sklearn(name), []
        for guess, truth in zip(prediction.T, target.T, strict=True):
            known = ~np.isnan(truth)
            if len(np.unique(truth[known])) == 2:
                found.append(score(truth[known], guess[known]))
        return float(np.mean(found)) if found else float("nan")

    return mean


def _sklearn(name: str) -> Callable[..., float]:
    from sklearn import metrics  # which takes a second

    score: Callable[..., float] = getattr(metrics, name)
    return score


class Regression(Objective):
    """Absolute or squared errors of targets `[targets]`, standardised by the training samples' known labels."""

    metrics: ClassVar = {
        "mae": lambda prediction, target: float(np.nanmean(np.abs(prediction - target))),
        "rmse": lambda prediction, target: float(np.sqrt(np.nanmean((prediction - target) ** 2))),
    }
    lower_is_better = True

    def __init__(self, y: Tensor, training: Tensor, dataset: Dataset) -> None:
        self.squared = dataset.metric == "rmse"
        self.outputs = training.shape[1]
        known = ~training.isnan()
        count = known.sum(0).clamp(min=1)
        self.mean = training.nan_to_num().sum(0) / count
        variance = ((training - self.mean).nan_to_num().square() * known).sum(0) / count
        self.scale = variance.sqrt().clamp(min=1e-6)

    @classmethod
    def wrong(cls, values: Tensor, dataset: Dataset) -> tuple[Tensor, str]:
        return values.abs() > torch.finfo(torch.float32).max, "a finite number"

    def loss(self, out: Tensor, batch: GraphBatch) -> Tensor:
        known = ~batch.y.isnan()
        target = (batch.y - self.mean.to(out.device)) / self.scale.to(out.device)
        error = (out - target)[known]
        return error.square().sum() if self.squared else error.abs().sum()

    def judged(self, out: Tensor, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        return out * self.scale.to(out.device) + self.mean.to(out.device), batch.y


class Questions(Objective):
    """Cross-entropies of yes-or-no questions, `[rows, questions]`, NaN if unknown."""

    metrics: ClassVar = {"ap": of_questions("average_precision_score"), "roc-auc": of_questions("roc_auc_score")}

    def __init__(self, y: Tensor, training: Tensor, dataset: Dataset) -> None:
        self.outputs = y.shape[1]

    @classmethod
    def wrong(cls, values: Tensor, dataset: Dataset) -> tuple[Tensor, str]:
        return ~((values == 0) | (values == 1) | values.isnan()), "0, 1 or missing"

    def loss(self, out: Tensor, batch: GraphBatch) -> Tensor:
        known = ~batch.y.isnan()
        return F.binary_cross_entropy_with_logits(out[known], batch.y[known], reduction="sum")


class Classes(Objective):
    """Cross-entropy over classes 0, 1, ...; -1 is unknown. With `balanced`, all classes weigh the same."""

    metrics: ClassVar = {
        "accuracy": of_classes(lambda target, guess: (guess == target).mean()),
        "balanced-accuracy": of_classes(lambda *both: _sklearn("balanced_accuracy_score")(*both)),
        "macro-f1": of_classes(lambda *both: _sklearn("f1_score")(*both, average="macro")),
        **{name: Questions.metrics[name] for name in reversed(Questions.metrics)},
    }
    classes = True

    def __init__(self, y: Tensor, training: Tensor, dataset: Dataset) -> None:
        self.outputs = dataset.options.get("classes") or int(y.max()) + 1
        self.weights = torch.ones(self.outputs)
        if dataset.balanced:
            sizes = torch.bincount(training[training >= 0].long(), minlength=self.outputs)
            self.weights = len(training) / (self.outputs * sizes.clamp(min=1))

    @classmethod
    def judged_by(cls, metric: str) -> type[Objective]:
        return {"node": NodeQuestions, "graph": Questions}[cls.level] if metric in RANKS else cls

    @classmethod
    def wrong(cls, values: Tensor, dataset: Dataset) -> tuple[Tensor, str]:
        values = values.nan_to_num(-1, posinf=torch.inf, neginf=-torch.inf)
        classes = dataset.options.get("classes") or torch.inf
        known = f"a class: 0..{classes - 1}, or -1" if classes < torch.inf else "a class: 0, 1, ..., or -1"
        hint = f"{known}; for numbers, set task={cls.level}-regression"
        return (values != values.floor()) | (values < -1) | (values >= classes), hint

    @classmethod
    def shaped(cls, y: Tensor) -> Tensor:
        return compact(y.flatten().nan_to_num(-1).long())

    @classmethod
    def check(cls, y: Tensor, dataset: Dataset, where: Callable[[int, int], str]) -> None:
        super().check(y, dataset, where)
        declared, rows = dataset.options.get("classes"), len(y)
        classes = declared or int(y.double().nan_to_num(-1).max()) + 1
        if not 1 <= classes <= max(rows, declared or 0):
            problem = "no label is known" if classes < 1 else f"{classes} classes among {rows} {cls.level}s"
            raise SSTCastError(
                f"{dataset.name}: {problem}; give the classes the numbers 0, 1, ..., or, for numbers, set "
                f"task={cls.level}-regression"
            )

    def weight(self, batch: GraphBatch) -> Tensor:
        return self.weights.to(batch.y.device)[batch.y[batch.y >= 0]].sum()

    def loss(self, out: Tensor, batch: GraphBatch) -> Tensor:
        weights = self.weights.to(out.device, out.dtype)
        return F.cross_entropy(out, batch.y, weights, ignore_index=-1, reduction="sum")


class NodeRegression(Regression):
    level = "node"


class NodeQuestions(Questions):
    level = "node"


class NodeClasses(Classes):
    level = "node"


TASKS: dict[str, type[Objective]] = {
    "graph-regression": Regression,
    "graph-classification": Classes,
    "multi-label": Questions,
    "node-regression": NodeRegression,
    "node-classification": NodeClasses,
    "link-ranking": Links,
    "next-tokens": Words,
}


def check_task(task: str, metric: str) -> None:
    """Raise ValueError if there is no such task, or it is not judged by the metric; empty ones are unknown yet."""
    if task and task not in TASKS:
        raise ValueError(f"task: no {task!r}; known: {', '.join(TASKS)}")
    if task and metric and metric not in TASKS[task].metrics:
        raise ValueError(f"metric: {task} is judged by {' or '.join(TASKS[task].metrics)}")
