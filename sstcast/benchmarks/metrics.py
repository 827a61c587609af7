"""Scores of predictions over a whole split, as the benchmarks' own evaluators compute them.

Targets that are NaN, and classes below 0, are unknown. Predictions of classes are `[rows, classes]`.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn import metrics

from sstcast.benchmarks.dataset import END

Array = NDArray[np.float64]
Score = Callable[[Array, Array], float]  # of predictions and targets


def of_classes(score: Score) -> Score:
    """Return a score of the most likely classes, from one of true and predicted classes."""
    return lambda prediction, target: float(score(target[target >= 0], prediction.argmax(1)[target >= 0]))


def of_questions(score: Score) -> Score:
    """Return the mean of a score over questions with both answers, NaN if there are none."""

    def mean(prediction: Array, target: Array) -> float:
        found = []
        for guess, truth in zip(prediction.T, target.T, strict=True):
            known = ~np.isnan(truth)
            if len(np.unique(truth[known])) == 2:
                found.append(score(truth[known], guess[known]))
        return float(np.mean(found)) if found else float("nan")

    return mean


def words_f1(prediction: Array, target: Array) -> float:
    """Return the mean over graphs of F1 between the sets of words before the end of each."""
    scores = []
    for guess, truth in zip(prediction, target, strict=True):
        ends = np.flatnonzero(guess == END)
        guessed, right = set(guess[: ends[0] if len(ends) else None]), set(truth[truth >= 0])
        scores.append(2 * len(guessed & right) / max(len(guessed) + len(right), 1))
    return float(np.mean(scores))


METRICS: dict[str, Score] = {
    "mae": lambda prediction, target: float(np.nanmean(np.abs(prediction - target))),
    "rmse": lambda prediction, target: float(np.sqrt(np.nanmean((prediction - target) ** 2))),
    "accuracy": of_classes(lambda target, guess: (guess == target).mean()),
    "balanced-accuracy": of_classes(metrics.balanced_accuracy_score),
    "macro-f1": of_classes(lambda target, guess: metrics.f1_score(target, guess, average="macro")),
    "roc-auc": of_questions(metrics.roc_auc_score),
    "ap": of_questions(metrics.average_precision_score),
    "mrr": lambda prediction, target: float(prediction.mean()),  # a graph's mean reciprocal ranks
    "f1": words_f1,
}
