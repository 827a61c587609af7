"""Divides samples into training, validation and test samples."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from sstcast.benchmarks.objectives import TASKS
from sstcast.benchmarks.packed import ConcatenatedGraphs, Graphs, Split
from sstcast.benchmarks.registry import BY_ROWS, Dataset
from sstcast.errors import SSTCastError

NAMES = (("train",), ("validation", "val", "valid"), ("test",))  # of the parts of a split in a user's mapping
MASKS = {part: f"{part}_mask" for part in ("train", "val", "test")}  # of PyG's graphs
NUMBERED = {"train": ("train_idx",), "val": ("val_idx", "valid_idx"), "test": ("test_idx",)}  # of a single graph
OFFICIAL = "", "official"
HELD_OUT = 500, 1000  # validation and test nodes beside N samples per class, as in PyG's Planetoid


def choose_split(
    dataset: Dataset, graphs: Graphs, official: Sequence[Split], seed: int, groups: Tensor | None = None
) -> Split:
    """Return the split for a seed: an official split, a split from N folds, or a random one.

    The seed selects one of several official splits or of N folds. One fold is for testing, the next for validation
    and the rest for training, each with its share of every class. Samples in one of the `groups [samples]` stay in
    one part. Raises SSTCastError if a part is empty, or the split does not fit the samples.
    """
    samples = int(graphs.nodes[0]) if graphs.transductive else len(graphs)
    if dataset.split in ("official", "scaffold"):
        if not official:
            raise SSTCastError(f"{dataset.name}: it has no official split; choose split=70/15/15 or split=folds:N")
        split = official[seed % len(official)]
    else:
        groups = torch.arange(samples) if groups is None or dataset.by_rows else groups
        split = _drawn(dataset, graphs, groups, seed)
    indices = torch.cat(list(split))
    if empty := [part for part, rows in split._asdict().items() if not len(rows)]:
        alone, remedy = "", "choose another split"
        if dataset.split not in ("official", "scaffold") and groups is not None and len(groups.unique()) < samples:
            alone, remedy = ", as equal graphs stay in one part", f"set split={BY_ROWS}{dataset.split}"
        raise SSTCastError(
            f"{dataset.name}: its split puts none of {samples} samples into {empty[0]}{alone}; {remedy}"
        )
    if len(invalid := indices[(indices < 0) | (indices >= samples)]):
        problem = f"has the sample {int(invalid[0])}, but there are 0..{samples - 1}; correct it"
        raise SSTCastError(f"{dataset.name}: its split {problem}")
    if (times := torch.bincount(indices)).max() > 1:
        problem = f"has the sample {int(times.argmax())} more than once; correct it, or set split=70/15/15"
        raise SSTCastError(f"{dataset.name}: its split {problem}")
    return split


def training_share(split: str, official: Sequence[Split], samples: int) -> float:
    """Return the share of the samples that a split of one graph trains on, 0 if it is a number of each class."""
    kind, _, detail = split.removeprefix(BY_ROWS).partition(":")
    if kind == "official":
        return len(official[0].train) / samples if official else 1.0
    if kind == "folds":
        return 1 - 2 / int(detail)
    return 0.0 if detail.endswith("-per-class") else float(detail.partition("/")[0])


def _drawn(dataset: Dataset, graphs: Graphs, groups: Tensor, seed: int) -> Split:
    kind, _, detail = dataset.split.removeprefix(BY_ROWS).partition(":")
    of_samples = TASKS[dataset.task].classes and graphs.y.numel() == len(groups)  # not several labels of a sample
    # An unknown class is -1, or NaN with a rank metric.
    labels = (graphs.y.flatten().nan_to_num(-1) if of_samples else torch.zeros(len(groups))).long()
    if kind == "folds":
        return _fold(dataset.name, int(detail), labels, groups, seed)
    order = torch.randperm(int(groups.max()) + 1, generator=torch.Generator().manual_seed(seed))
    place = order.argsort()[groups]  # of a sample's group
    if not detail.endswith("-per-class"):
        return _shares([float(share) for share in detail.split("/")], place)
    if not of_samples:
        raise SSTCastError(f"{dataset.name}: split: {dataset.split} needs samples of known classes")
    order = place.argsort(stable=True)
    is_first = torch.from_numpy(~pd.Series(groups.numpy()).duplicated().to_numpy())  # of equal graphs
    return _per_class(int(detail.removesuffix("-per-class")), labels, order[is_first[order]])


def _shares(shares: Sequence[float], place: Tensor) -> Split:
    """Divide samples in the order of the `place [samples]` of each one's group, which stays in one part.

    A group belongs to the part in which its middle lies.
    """
    counts, order = place.bincount(), place.argsort(stable=True)
    middle = counts.cumsum(0) - counts / 2.0
    ends = torch.tensor([round(sum(shares[:i]) * len(place)) for i in (1, 2)], dtype=torch.double)
    part = torch.bucketize(middle.double(), ends, right=True)[place[order]]
    return Split(*(order[part == i] for i in range(3)))


def splits_in(parts: Mapping[str, Any], samples: int) -> list[Split]:
    """Return the splits in a mapping from the names in `NAMES` to masks or numbers of samples.

    Masks are `[splits, samples]`, `[samples, splits]` or `[samples]`. Raises ValueError if a part is missing or a
    mask has another length.
    """
    arrays = [np.asarray(part) for part in by_part(parts)]
    rows_by_part = [a.T if a.ndim > 1 and len(a) == samples else np.atleast_2d(a) for a in arrays]
    return [
        Split(*(torch.from_numpy(_numbers_of(a[min(i, len(a) - 1)], samples)) for a in rows_by_part))
        for i in range(len(rows_by_part[0]))
    ]


def by_part(source: Mapping[str, Any]) -> list[Any]:
    """Return the values of a mapping for training, validation and testing. Raises ValueError if one is missing."""
    values = [next((source[name] for name in names if name in source), None) for names in NAMES]
    if missing := [names[0] for names, part in zip(NAMES, values, strict=True) if part is None]:
        raise ValueError(
            f"a split needs train, validation and test, or {', '.join(MASKS.values())}, and has no {missing[0]} "
            "part; add it, or leave the others out and set split=70/15/15"
        )
    return values


def find_splits(split: str, graphs: ConcatenatedGraphs, splits: list[Split]) -> list[Split]:
    """Return the split by scaffold if `split` is `scaffold`, else the given ones, else those in the graphs.

    These are masks, or the numbers of a single graph's nodes in `train_idx` and so on. Training samples alone, as
    in some of PyG's graphs, are not a split. Raises ValueError if `scaffold` has no SMILES to divide. Also raises
    it if `split` needs the masks or numbers and one of the three is missing, if masks divide the nodes of many
    graphs, or if masks and numbers are different splits.
    """
    if split == "scaffold":
        if not isinstance(smiles := graphs.data.get("smiles"), list):
            raise ValueError("split: scaffold is for molecules given as SMILES; choose another")
        return [scaffold_split(smiles)]
    if splits:
        return splits
    masks = _parts(graphs, {part: (name,) for part, name in MASKS.items()}, split)
    numbers = _parts(graphs, NUMBERED if len(graphs.nodes) == 1 else {}, split)
    if len(graphs.nodes) > 1 and any(mask.numel() != graphs.samples for mask in masks.values()):
        if split not in OFFICIAL:
            return []
        raise ValueError("masks of the nodes of many graphs are not a split; set split=70/15/15")
    stopping = graphs.data.get("stopping_mask")  # of WikiCS, also for validation
    if stopping is not None and "val" in masks:
        masks["val"] = masks["val"] | stopping
    found = [splits_in(parts, graphs.samples) for parts in (masks, numbers) if parts]
    if len(found) == 2 and _members(found[0]) != _members(found[1]):
        raise ValueError("train_mask and train_idx are different splits; delete one of them with its like")
    return found[0] if found else []


def _parts(graphs: ConcatenatedGraphs, names: Mapping[str, Sequence[str]], split: str) -> dict[str, Any]:
    """Return the attributes that are parts of a split, without those that are none together."""
    data = graphs.data
    parts = {part: data.get(name) for part, named in names.items() for name in named if data.get(name) is not None}
    is_split = "train" in parts and len(parts) > 1 and (split in OFFICIAL or len(parts) == len(names))
    return parts if is_split else {}


def _members(splits: Sequence[Split]) -> list[list[list[int]]]:
    return [[part.sort().values.tolist() for part in split] for split in splits]


def _numbers_of(part: NDArray[Any], samples: int) -> NDArray[np.int64]:
    # Three or more numbers that are all 0 or 1 must be a mask, as samples do not repeat.
    if part.dtype != bool and (len(part) < 3 or not np.isin(part, (0, 1)).all()):
        if len(part) and part.dtype.kind not in "iu":
            raise ValueError("a part of a split must be whole numbers of samples, or a mask")
        return part.astype(np.int64)
    if len(part) != samples:
        raise ValueError(f"a mask has {len(part)} samples instead of {samples}")
    return np.flatnonzero(part)


def scaffold_split(smiles: Sequence[str]) -> Split:
    """Divide molecules 80/10/10, and keep those with the same ring systems and linkers together.

    The most frequent scaffolds are for training, as in MoleculeNet (Wu et al. 2018, arXiv:1703.00564).
    """
    from rdkit import rdBase
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

    groups: dict[str, list[int]] = {}
    with rdBase.BlockLogs():
        for row, text in enumerate(smiles):
            groups.setdefault(MurckoScaffoldSmiles(smiles=text), []).append(row)
    parts: tuple[list[int], list[int], list[int]] = ([], [], [])
    for group in sorted(groups.values(), key=lambda rows: (-len(rows), rows[0])):
        total = sum(map(len, parts[:2])) + len(group)
        part = 0 if len(parts[0]) + len(group) <= 0.8 * len(smiles) else 1 if total <= 0.9 * len(smiles) else 2
        parts[part].extend(group)
    return Split(*(torch.tensor(part, dtype=torch.long) for part in parts))


def _fold(name: str, count: int, labels: Tensor, groups: Tensor, seed: int) -> Split:
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    if count > np.unique(labels.numpy(), return_counts=True)[1].max():
        raise SSTCastError(f"{name}: no class has {count} samples; choose fewer folds")
    kind = StratifiedKFold if groups.max() + 1 == len(groups) else StratifiedGroupKFold
    folds = kind(count, shuffle=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a class may be too rare for every fold
        parts = [torch.from_numpy(test) for _, test in folds.split(groups, labels.numpy(), groups.numpy())]
    test, validation = parts[seed % count], parts[(seed + 1) % count]
    train_parts = [parts[(seed + i) % count] for i in range(2, count)]
    return Split(torch.cat(train_parts).sort().values, validation, test)


def _per_class(count: int, labels: Tensor, order: Tensor) -> Split:
    """Take the first `count` of each class for training, then 500 for validation and 1000 for testing.

    If too few samples remain, a third of them is for validation.
    """
    train = torch.cat([order[labels[order] == c][:count] for c in labels[labels >= 0].unique()])
    held_out = order[(labels[order] >= 0) & ~torch.isin(order, train)]
    validation = min(HELD_OUT[0], len(held_out) // 3)
    return Split(train, held_out[:validation], held_out[validation : validation + HELD_OUT[1]])
