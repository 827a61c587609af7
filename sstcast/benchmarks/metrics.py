"""Scores of predictions over a whole split, as the benchmarks' own evaluators compute them."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn import metrics

from sstcast.benchmarks.dataset import END

Array = NDArray[np.float64]


def mean_absolute_error(prediction: Array, target: Array) -> float:
    """Return the mean absolute error over all known targets."""
    return float(np.nanmean(np.abs(prediction - target)))


def root_mean_squared_error(prediction: Array, target: Array) -> float:
    """Return the root of the mean squared error over all known targets."""
    return float(np.sqrt(np.nanmean((prediction - target) ** 2)))


def accuracy(prediction: Array, target: Array) -> float:
    """Return the fraction of correct classes."""
    known = target >= 0
    return float((prediction.argmax(1) == target)[known].mean())


def balanced_accuracy(prediction: Array, target: Array) -> float:
    """Return the mean of the classes' recalls."""
    known = target >= 0
    return float(metrics.balanced_accuracy_score(target[known], prediction.argmax(1)[known]))


def macro_f1(prediction: Array, target: Array) -> float:
    """Return the mean of the classes' F1."""
    known = target >= 0
    return float(metrics.f1_score(target[known], prediction.argmax(1)[known], average="macro"))


def roc_auc(prediction: Array, target: Array) -> float:
    """Return the mean area under the ROC curve over questions with both answers; NaN if there are none."""
    return _per_question(metrics.roc_auc_score, prediction, target)


def average_precision(prediction: Array, target: Array) -> float:
    """Return the mean average precision over questions with both answers; NaN if there are none."""
    return _per_question(metrics.average_precision_score, prediction, target)


def reciprocal_rank(prediction: Array, target: Array) -> float:
    """Return the mean of the reciprocal ranks in `prediction`."""
    return float(prediction.mean())


def words_f1(prediction: Array, target: Array) -> float:
    """Return the mean over graphs of F1 between the sets of words before the end of each."""
    scores = []
    for guess, truth in zip(prediction, target, strict=True):
        ends = np.flatnonzero(guess == END)
        guessed, right = set(guess[: ends[0] if len(ends) else None]), set(truth[truth >= 0])
        scores.append(2 * len(guessed & right) / max(len(guessed) + len(right), 1))
    return float(np.mean(scores))


def _per_question(score: Callable[[Array, Array], float], prediction: Array, target: Array) -> float:
    found = []
    for guess, truth in zip(prediction.T, target.T, strict=True):
        known = ~np.isnan(truth)
        if len(np.unique(truth[known])) == 2:
            found.append(score(truth[known], guess[known]))
    return float(np.mean(found)) if found else float("nan")


METRICS: dict[str, Callable[[Array, Array], float]] = {
    "mae": mean_absolute_error,
    "rmse": root_mean_squared_error,
    "accuracy": accuracy,
    "balanced-accuracy": balanced_accuracy,
    "macro-f1": macro_f1,
    "roc-auc": roc_auc,
    "ap": average_precision,
    "mrr": reciprocal_rank,
    "f1": words_f1,
}
