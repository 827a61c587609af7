"""The task `next-tokens`: the words of a method's name, from its syntax tree (ogbg-code2)."""

from collections import Counter
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.objective import Array, Objective
from sstcast.benchmarks.packed import GraphBatch

# How many words a model knows, and how many it predicts, as in the authors' baselines.
WORDS = 5000
UNKNOWN, END = WORDS, WORDS + 1
LENGTH = 5


def words_f1(prediction: Array, target: Array) -> float:
    """Return the mean over graphs of F1 between the sets of words before the end of each."""
    scores = []
    for guess, truth in zip(prediction, target, strict=True):
        ends = np.flatnonzero(guess == END)
        guessed, right = set(guess[: ends[0] if len(ends) else None]), set(truth[truth >= 0])
        scores.append(2 * len(guessed & right) / max(len(guessed) + len(right), 1))
    return float(np.mean(scores))


class Words(Objective):
    """Cross-entropies of the first `LENGTH` words; rare words are unknown, and an end follows the last word."""

    metrics: ClassVar = {"f1": words_f1}

    def __init__(self, y: Tensor, training: Tensor, dataset: Dataset) -> None:
        self.outputs = LENGTH * (WORDS + 2)

    @classmethod
    def wrong(cls, values: Tensor, dataset: Dataset) -> tuple[Tensor, str]:
        return values < -1, "the number of a word"

    @classmethod
    def shaped(cls, y: Tensor) -> Tensor:
        return y

    def weight(self, batch: GraphBatch) -> Tensor:
        return torch.tensor(LENGTH * len(batch.y))

    def loss(self, out: Tensor, batch: GraphBatch) -> Tensor:
        words = F.pad(batch.y, (0, max(LENGTH - batch.y.shape[1], 0)), value=-1)[:, :LENGTH]
        words = words.masked_fill(words >= WORDS, UNKNOWN).masked_fill(words < 0, END)
        return F.cross_entropy(out.view(-1, WORDS + 2), words.flatten(), reduction="sum")

    def judged(self, out: Tensor, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        return out.view(len(out), LENGTH, WORDS + 2).argmax(-1), batch.y


def number_words(lines: list[list[str]], training: list[list[str]]) -> Tensor:
    """Number the words, `[lines, longest]`, -1 after the end; the `WORDS` most frequent in training come first.

    Words that count as unknown get numbers from `WORDS` on, so that different unknown words stay different in the
    reference.
    """
    frequent = [word for word, _ in Counter(w for line in training for w in line).most_common(WORDS)]
    number = {word: i for i, word in enumerate(frequent)}
    for line in lines:
        for word in line:
            number.setdefault(word, WORDS + len(number))
    numbered = torch.full((len(lines), max(map(len, lines))), -1)
    for row, line in zip(numbered, lines, strict=True):
        row[: len(line)] = torch.tensor([number[word] for word in line])
    return numbered
