"""Loads `Graphs` and a split from a declaration and a folder of raw files, or from the cache."""

import hashlib
import json
import warnings
from collections.abc import Mapping
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold

from sstcast.benchmarks.cache import cached
from sstcast.benchmarks.checks import check_graphs, check_split
from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.digests import digest_files
from sstcast.benchmarks.packed import Graphs, Loaded, Split, compact
from sstcast.errors import SSTCastError, in_short
from sstcast.files import atomic

FORMAT = 4
NOT_READ = (
    "split",
    "size",
    "licence",
    "files",
    "trust",
    "single",
    "words",
)  # keys of a declaration that readers do not use
MISFITS = (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)
NAMED = 4  # files in a message
LISTED = 5  # skipped molecules that are printed; a file lists all


def load(dataset: Dataset, root: Path, cache: Path) -> Loaded:
    """Read a data set, or take it from `cache` if it was read before; write nothing below `root`.

    Raises SSTCastError if a raw file is missing or damaged, or its content is inconsistent.
    """
    files = digest_files(dataset, root, cache)
    path = cache / f"{dataset.name}-{_key(dataset, files)[:12]}.pt"

    def read() -> tuple[dict[str, torch.Tensor], Any]:
        loaded = _read(dataset, root)
        if digest_files(dataset, root, cache) != files:
            raise SSTCastError(f"{root / dataset.folder}: changed while it was read; run the command again")
        parts = {f"split {i} {j}": part for i, split in enumerate(loaded.splits) for j, part in enumerate(split)}
        return loaded.graphs.tensors() | parts, [loaded.graphs.level, list(loaded.skipped)]

    kept = cached(path, read)
    level, skipped = kept.rest
    tensors = dict(kept.tensors)
    splits: list[Split] = []
    while f"split {len(splits)} 0" in tensors:
        splits.append(Split(*(tensors.pop(f"split {len(splits)} {j}") for j in range(len(Split._fields)))))
    loaded = Loaded(Graphs(level=level, **tensors), splits, tuple(skipped), files, kept.digest)
    if skipped:
        _say_skipped(loaded, path.with_suffix(".skipped.txt"), root / dataset.folder / dataset.names[0])
    return loaded


def _read(dataset: Dataset, root: Path) -> Loaded:
    reader = import_module(f"sstcast.benchmarks.formats.{dataset.reader}")
    folder = root / dataset.folder
    try:
        loaded: Loaded = reader.read(folder, dataset)
        check_graphs(loaded.graphs, dataset, folder)
        return loaded._replace(graphs=replace(loaded.graphs, y=_shaped(loaded.graphs.y, dataset)))
    except MISFITS as error:
        names = ", ".join(dataset.names[:NAMED]) + (", ..." if len(dataset.names) > NAMED else "")
        reason = in_short(error)
        raise SSTCastError(f"{dataset.name}: files in {folder} do not fit together ({names}): {reason}") from error


def choose_split(dataset: Dataset, loaded: Loaded, seed: int) -> Split:
    """Return the split for a seed: an official split, a split from N folds, or a random one.

    Of several official splits or N folds, the seed selects one. Of the folds, one is for testing, the next for
    validation and the rest for training, each with its share of every class.
    """
    graphs = loaded.graphs
    samples = int(graphs.nodes[0]) if graphs.transductive else len(graphs)
    if dataset.split == "official":
        if not loaded.splits:
            raise SSTCastError(f"{dataset.name}: its files hold no split; choose split random or folds")
        return check_split(loaded.splits[seed % len(loaded.splits)], samples, dataset.name)
    kind, _, detail = dataset.split.partition(":")
    if kind == "folds":
        count = int(detail)
        of_samples = dataset.classes and len(graphs.y) == samples
        labels = graphs.y.flatten().numpy() if of_samples else np.zeros(samples, int)
        if count > np.unique(labels, return_counts=True)[1].max():
            raise SSTCastError(f"{dataset.name}: no class has {count} samples; choose fewer folds")
        folds = StratifiedKFold(count, shuffle=True, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about a class that is too rare to be in every fold
            parts = [torch.from_numpy(test) for _, test in folds.split(np.zeros(samples), labels)]
        test, validation = parts[seed % count], parts[(seed + 1) % count]
        rest = [parts[(seed + i) % count] for i in range(2, count)]
        return Split(torch.cat(rest).sort().values, validation, test)
    shares = [float(share) for share in detail.split("/")]
    order = torch.randperm(samples, generator=torch.Generator().manual_seed(seed))
    first, second = round(shares[0] * samples), round((shares[0] + shares[1]) * samples)
    return check_split(Split(order[:first], order[first:second], order[second:]), samples, dataset.name)


def _key(dataset: Dataset, files: Mapping[str, str]) -> str:
    """Return a key that changes with the files or the declaration."""
    declared = {k: v for k, v in asdict(dataset).items() if k not in NOT_READ}
    what = [FORMAT, declared, dict(files)]
    return hashlib.sha256(json.dumps(what, default=str, sort_keys=True).encode()).hexdigest()


def _say_skipped(loaded: Loaded, report: Path, raw: Path) -> None:
    if not report.exists():
        with atomic(report) as temporary:
            temporary.write_text("".join(f"{raw}: {line}\n" for line in loaded.skipped))
    total = len(loaded.skipped) + len(loaded.graphs)
    print(f"{len(loaded.skipped):,} of {total:,} molecules cannot be parsed and are left out; all in {report}")
    for line in loaded.skipped[:LISTED]:
        print(f"  {line}")


def _shaped(y: torch.Tensor, dataset: Dataset) -> torch.Tensor:
    """Return classes as `[rows]`; numbers and yes-or-no answers as real numbers `[rows, targets]`."""
    if dataset.task in ("next-tokens", "link-ranking"):
        return y
    if dataset.classes:
        return compact(y.flatten().nan_to_num(-1).long())
    return y.float().reshape(len(y), -1)
