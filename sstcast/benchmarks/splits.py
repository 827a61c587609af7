"""Divides samples into training, validation and test samples."""

import re
import warnings
from typing import Annotated

import numpy as np
import torch
from pydantic import AfterValidator
from sklearn.model_selection import StratifiedKFold
from torch import Tensor

from sstcast.benchmarks.checks import check_split
from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.packed import Loaded, Split
from sstcast.errors import SSTCastError

HELD_OUT = 500, 1000  # validation and test nodes of a split with N samples per class, as PyG's Planetoid has them
MOLECULES = "smiles", "classes", "pyg", "memory"  # readers that find the scaffolds of data with SMILES


def parse_split(text: str) -> str:
    """Return the split that `text` names, as a declaration has it; raise ValueError if it names none.

    `public` is `official`, and `70/15/15` is `random:0.7/0.15/0.15`.
    """
    if text in ("official", "public"):
        return "official"
    if re.fullmatch(r"scaffold|folds:([3-9]|[1-9]\d{1,5})|random:[1-9]\d{0,5}-per-class", text):
        return text
    shares = [float(s) for s in text.removeprefix("random:").split("/") if re.fullmatch(r"\d{0,9}\.?\d{1,9}", s)]
    whole = 100 if sum(shares) > 1.5 else 1
    if len(shares) != 3 or text.count("/") != 2 or abs(sum(shares) / whole - 1) > 1e-6 or min(shares) <= 0:
        raise ValueError(
            "write official, scaffold, folds:N (3 or more), random:N-per-class or random:0.8/0.1/0.1, "
            "where the three shares must be above 0 and add up to 1"
        )
    return (
        text
        if text.startswith("random:") and whole == 1
        else f"random:{'/'.join(f'{s / whole:g}' for s in shares)}"
    )


SplitName = Annotated[str, AfterValidator(parse_split)]


def choose_split(dataset: Dataset, loaded: Loaded, seed: int) -> Split:
    """Return the split for a seed: an official split, a split from N folds, or a random one.

    Of several official splits or N folds, the seed selects one. Of the folds, one is for testing, the next for
    validation and the rest for training, each with its share of every class.
    """
    graphs = loaded.graphs
    samples = int(graphs.nodes[0]) if graphs.transductive else len(graphs)
    if dataset.split == "scaffold" and dataset.reader not in MOLECULES:
        raise SSTCastError(f"{dataset.name}: split: scaffold is for molecules given as SMILES; choose another")
    if dataset.split in ("official", "scaffold"):
        if not loaded.splits:
            raise SSTCastError(f"{dataset.name}: its files hold no split; choose split random or folds")
        return check_split(loaded.splits[seed % len(loaded.splits)], samples, dataset.name)
    kind, _, detail = dataset.split.partition(":")
    of_samples = dataset.classes and len(graphs.y) == samples
    labels = graphs.y.flatten().long() if of_samples else torch.zeros(samples, dtype=torch.long)
    if kind == "folds":
        return _fold(dataset.name, int(detail), labels, seed)
    order = torch.randperm(samples, generator=torch.Generator().manual_seed(seed))
    if detail.endswith("-per-class"):
        if not of_samples:
            raise SSTCastError(f"{dataset.name}: split: {dataset.split} needs samples of known classes")
        return check_split(
            _per_class(int(detail.removesuffix("-per-class")), labels, order), samples, dataset.name
        )
    shares = [float(share) for share in detail.split("/")]
    first, second = round(shares[0] * samples), round((shares[0] + shares[1]) * samples)
    return check_split(Split(order[:first], order[first:second], order[second:]), samples, dataset.name)


def _fold(name: str, count: int, labels: Tensor, seed: int) -> Split:
    if count > np.unique(labels.numpy(), return_counts=True)[1].max():
        raise SSTCastError(f"{name}: no class has {count} samples; choose fewer folds")
    folds = StratifiedKFold(count, shuffle=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about a class that is too rare to be in every fold
        parts = [torch.from_numpy(test) for _, test in folds.split(np.zeros(len(labels)), labels.numpy())]
    test, validation = parts[seed % count], parts[(seed + 1) % count]
    rest = [parts[(seed + i) % count] for i in range(2, count)]
    return Split(torch.cat(rest).sort().values, validation, test)


def _per_class(count: int, labels: Tensor, order: Tensor) -> Split:
    """Take the first `count` of each class for training, then 500 for validation and 1000 for testing.

    Of fewer samples, a third of the rest is for validation.
    """
    train = torch.cat([order[labels[order] == c][:count] for c in labels[labels >= 0].unique()])
    rest = order[(labels[order] >= 0) & ~torch.isin(order, train)]
    validation = min(HELD_OUT[0], len(rest) // 3)
    return Split(train, rest[:validation], rest[validation : validation + HELD_OUT[1]])
