"""From a declaration and a folder of raw files to `Graphs` and a split, by way of a cache of what was read."""

import hashlib
import json
import warnings
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold

from sstcast.benchmarks.checks import check_graphs, check_split
from sstcast.benchmarks.graphs import Graphs, Loaded, Split, compact
from sstcast.benchmarks.registry import Dataset
from sstcast.errors import SSTCastError
from sstcast.files import alone, atomic

FORMAT = 2
LISTED = 5  # skipped molecules that are printed; all are in a file


def load(dataset: Dataset, root: Path, cache: Path) -> Loaded:
    """Read a data set, or take what was read before from `cache`; nothing is ever written below `root`.

    Raises SSTCastError if a raw file is missing, damaged or holds what does not fit together.
    """
    dataset.check_files(root)
    path = cache / f"{dataset.name}-{_digest(dataset, root)}.pt"
    report = path.with_suffix(".skipped.txt")
    if not path.exists():
        with alone(path):
            if not path.exists():
                loaded = _read(dataset, root)
                if loaded.skipped:
                    with atomic(report) as temporary:
                        temporary.write_text("\n".join(loaded.skipped) + "\n")
                _store(path, loaded)
    loaded = _restore(path)
    if loaded.skipped:
        _say_skipped(loaded, report)
    return loaded


def _read(dataset: Dataset, root: Path) -> Loaded:
    reader = import_module(f"sstcast.benchmarks.formats.{dataset.reader}")
    folder = root / dataset.folder
    try:
        loaded: Loaded = reader.read(folder, dataset)
    except (ValueError, KeyError, IndexError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise SSTCastError(f"{dataset.name}: files in {folder} do not fit together: {reason}") from error
    check_graphs(loaded.graphs, dataset, folder)
    return loaded._replace(graphs=replace(loaded.graphs, y=_shaped(loaded.graphs.y, dataset)))


def choose_split(dataset: Dataset, loaded: Loaded, seed: int) -> Split:
    """Return the split for a seed: the official one, the seed's of several or of N folds, or one drawn at random.

    Of N folds, one tests, the next validates and the rest train, each with its share of every class.
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
            warnings.simplefilter("ignore", UserWarning)  # of a class that is rarer: not in every fold
            parts = [torch.from_numpy(test) for _, test in folds.split(np.zeros(samples), labels)]
        test, validation = parts[seed % count], parts[(seed + 1) % count]
        rest = [parts[(seed + i) % count] for i in range(2, count)]
        return Split(torch.cat(rest).sort().values, validation, test)
    shares = [float(share) for share in detail.split("/")]
    order = torch.randperm(samples, generator=torch.Generator().manual_seed(seed))
    first, second = round(shares[0] * samples), round((shares[0] + shares[1]) * samples)
    return check_split(Split(order[:first], order[first:second], order[second:]), samples, dataset.name)


def _digest(dataset: Dataset, root: Path) -> str:
    """Return what tells whether files or declaration have changed."""
    stats = [(root / dataset.folder / name).stat() for name in dataset.files]
    declared = {k: v for k, v in asdict(dataset).items() if k not in ("split", "size", "licence", "files")}
    what = [FORMAT, declared, list(dataset.files), [(s.st_size, s.st_mtime_ns) for s in stats]]
    return hashlib.sha256(json.dumps(what, default=str, sort_keys=True).encode()).hexdigest()[:12]


def _store(path: Path, loaded: Loaded) -> None:
    splits = [list(split) for split in loaded.splits]
    state = {"level": loaded.graphs.level, "tensors": loaded.graphs.tensors(), "splits": splits}
    with atomic(path) as temporary:
        torch.save(state | {"skipped": list(loaded.skipped)}, temporary)


def _restore(path: Path) -> Loaded:
    state = torch.load(path, weights_only=True, mmap=True)
    graphs = Graphs(level=state["level"], **state["tensors"])
    return Loaded(graphs, [Split(*split) for split in state["splits"]], tuple(state["skipped"]))


def _say_skipped(loaded: Loaded, path: Path) -> None:
    total = len(loaded.skipped) + len(loaded.graphs)
    print(f"{len(loaded.skipped):,} of {total:,} molecules cannot be parsed and are left out; all in {path}")
    for line in loaded.skipped[:LISTED]:
        print(f"  {line}")


def _shaped(y: torch.Tensor, dataset: Dataset) -> torch.Tensor:
    """Return classes as `[rows]`, numbers and yes-or-no answers as real `[rows, targets]`."""
    if dataset.task in ("next-tokens", "link-ranking"):
        return y
    if dataset.classes:
        return compact(y.flatten().nan_to_num(-1).long())
    return y.float().reshape(len(y), -1)
