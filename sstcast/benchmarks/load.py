"""From a declaration and a folder of raw files to `Graphs` and a split, by way of a cache of what was read."""

import hashlib
import json
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold

from sstcast.benchmarks.graphs import Graphs, Loaded, Split
from sstcast.benchmarks.registry import Dataset
from sstcast.errors import SSTCastError
from sstcast.files import alone, atomic

FORMAT = 1
LISTED = 5  # skipped molecules that are printed; all are in a file


def load(dataset: Dataset, root: Path, cache: Path) -> Loaded:
    """Read a data set, or take what was read before from `cache`; nothing is ever written below `root`.

    Raises SSTCastError if a raw file is missing, damaged or holds what does not fit together.
    """
    dataset.check_files(root)
    path = cache / f"{dataset.name}-{_digest(dataset, root)}.pt"
    if not path.exists():
        with alone(path):
            if not path.exists():
                _store(path, _read(dataset, root))
    loaded = _restore(path)
    if loaded.skipped:
        _report_skipped(loaded, path.with_suffix(".skipped.txt"))
    return loaded


def _read(dataset: Dataset, root: Path) -> Loaded:
    reader = import_module(f"sstcast.benchmarks.formats.{dataset.reader}")
    loaded: Loaded = reader.read(root / dataset.folder, dataset)
    check_labels(loaded.graphs, dataset)
    check_categories(loaded.graphs, dataset)
    return loaded._replace(graphs=replace(loaded.graphs, y=_shaped(loaded.graphs.y, dataset)))


def choose_split(dataset: Dataset, loaded: Loaded, seed: int) -> Split:
    """Return the split for a seed: the official one, the seed's of several or of N folds, or one drawn at random.

    Of N folds, one tests, the next validates and the rest train, each with its share of every class.
    """
    if dataset.split == "official":
        if not loaded.splits:
            raise SSTCastError(f"{dataset.name}: its files hold no split; choose split random or folds")
        return loaded.splits[seed % len(loaded.splits)]
    kind, _, detail = dataset.split.partition(":")
    graphs = loaded.graphs
    samples = int(graphs.nodes[0]) if graphs.transductive else len(graphs)
    if kind == "folds":
        count = int(detail)
        labels = graphs.y.flatten()[:samples] if dataset.classes else np.zeros(samples)
        folds = StratifiedKFold(count, shuffle=True, random_state=0)
        parts = [torch.from_numpy(test) for _, test in folds.split(np.zeros(samples), labels)]
        test, validation = parts[seed % count], parts[(seed + 1) % count]
        rest = [parts[(seed + i) % count] for i in range(2, count)]
        return Split(torch.cat(rest).sort().values, validation, test)
    shares = [float(share) for share in detail.split("/")]
    order = torch.randperm(samples, generator=torch.Generator().manual_seed(seed))
    first, second = round(shares[0] * samples), round((shares[0] + shares[1]) * samples)
    split = Split(order[:first], order[first:second], order[second:])
    if not all(len(part) for part in split):
        raise SSTCastError(f"{dataset.name}: {samples} samples are too few for the split {detail}")
    return split


def check_labels(graphs: Graphs, dataset: Dataset) -> None:
    """Raise SSTCastError, naming file and row, if a label is not what the task knows."""
    where, y = next(iter(dataset.files)), graphs.y
    if dataset.classes:
        codes = y.long().flatten()
        classes = dataset.options.get("classes") or int(codes.max()) + 1
        wrong, known = (codes < -1) | (codes >= classes), f"the classes 0..{classes - 1}, or -1"
    elif dataset.task == "next-tokens" or dataset.metric == "mae":
        wrong, known = torch.isinf(y.float()).flatten(1).any(1), "a finite number"
    else:
        answers = y.float().reshape(len(y), -1)
        wrong, known = ~((answers == 0) | (answers == 1) | answers.isnan()).all(1), "0, 1 or missing"
    if wrong.any():
        row = int(wrong.nonzero()[0])
        what = f"{graphs.level} {row}"
        raise SSTCastError(f"{dataset.name}: {where}: {what}: label {_text(y[row])}, which is not {known}")


def check_categories(graphs: Graphs, dataset: Dataset) -> None:
    """Raise SSTCastError if features are not of the declared kind."""
    for what, declared, found in (("node", dataset.node, graphs.x), ("edge", dataset.edge, graphs.edge_attr)):
        if declared == "none":
            continue
        if found is None:
            raise SSTCastError(f"{dataset.name}: no {what} features; declare {what}: none")
        if isinstance(declared, tuple):
            highest = found.amax(0).tolist() if len(found) else []
            lowest = found.amin(0).tolist() if len(found) else []
            if len(found) and (len(highest) != len(declared) or min(lowest) < 0):
                raise SSTCastError(
                    f"{dataset.name}: {what} features do not have the {len(declared)} columns declared"
                )
            for column, (most, size) in enumerate(zip(highest, declared, strict=False)):
                if most >= size:
                    known = f"the {size} categories 0..{size - 1}"
                    raise SSTCastError(
                        f"{dataset.name}: {what} feature {column} is {most} somewhere, beyond {known}"
                    )


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


def _report_skipped(loaded: Loaded, path: Path) -> None:
    with atomic(path) as temporary:
        temporary.write_text("\n".join(loaded.skipped) + "\n")
    total = len(loaded.skipped) + len(loaded.graphs)
    print(f"{len(loaded.skipped):,} of {total:,} molecules cannot be parsed and are left out; all in {path}")
    for line in loaded.skipped[:LISTED]:
        print(f"  {line}")


def _shaped(y: torch.Tensor, dataset: Dataset) -> torch.Tensor:
    """Return classes as `[rows]`, numbers and yes-or-no answers as real `[rows, targets]`."""
    if dataset.task in ("next-tokens", "link-ranking"):
        return y
    return y.flatten() if dataset.classes else y.float().reshape(len(y), -1)


def _text(label: torch.Tensor) -> str:
    return ", ".join(f"{v:g}" for v in label.flatten().tolist())
