"""Loads `Graphs` and official splits from a declaration and a folder of raw files, or from the cache."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

from sstcast.benchmarks.cache import cached, digest_files, digest_tensors
from sstcast.benchmarks.checks import check_graphs
from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.formats.pyg import graphs_of, read_class
from sstcast.benchmarks.infer import usual_split
from sstcast.benchmarks.packed import Graphs, Loaded, Split, compact
from sstcast.errors import SSTCastError, in_short
from sstcast.files import atomic

FORMAT = 6
NOT_READ = {"split", "size", "licence", "files", "trust", "single", "words", "few"}  # keys that readers do not use
INFERRED = ("task", "metric", "node", "edge")  # keys of a declaration that the graphs may complete
MISFITS = (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)
NAMED = 4  # files in a message
LISTED = 5  # skipped molecules that are printed; a file lists all


def load(dataset: Dataset, root: Path, cache: Path) -> Loaded:
    """Read a data set, or take it from `cache` if it was read before; write nothing below `root`.

    Raises SSTCastError if a raw file is missing or damaged, or its content is inconsistent.
    """
    files = digest_files(dataset, root)
    path = cache / f"{dataset.name.replace(':', '-')}-{_key(dataset, files)[:12]}.pt"

    def read() -> tuple[dict[str, torch.Tensor], Any]:
        loaded = _checked(dataset, root / dataset.folder, lambda: _read(dataset, root, cache))
        if digest_files(dataset, root) != files:  # it would be kept as what other files hold
            raise SSTCastError(f"{root / dataset.folder}: changed while it was read; run the command again")
        found = {key: getattr(loaded.dataset or dataset, key) for key in INFERRED}
        return _tensors(loaded), [loaded.graphs.level, list(loaded.skipped), _digest(loaded), found]

    kept = cached(path, read)
    level, skipped, digest, found = kept.rest
    tensors = dict(kept.tensors)
    splits: list[Split] = []
    while f"split {len(splits)} 0" in tensors:
        splits.append(Split(*(tensors.pop(f"split {len(splits)} {j}") for j in range(len(Split._fields)))))
    complete = replace(dataset, **found, split=dataset.split or usual_split(bool(splits)))
    loaded = Loaded(Graphs(level=level, **tensors), splits, tuple(skipped), files, digest, complete)
    if skipped:
        _say_skipped(loaded, path.with_suffix(".skipped.txt"), root / dataset.folder / dataset.names[0])
    return loaded


def load_memory(dataset: Dataset, data: Sequence[Data]) -> Loaded:
    """Check and pack graphs that are in memory; raise SSTCastError if they are inconsistent."""
    loaded = _checked(dataset, Path(dataset.name), lambda: graphs_of(data, dataset, dataset.name))
    return loaded._replace(digest=_digest(loaded))


def _read(dataset: Dataset, root: Path, cache: Path) -> Loaded:
    if dataset.reader == "classes":
        return read_class(dataset, root, cache)
    found: Loaded = import_module(f"sstcast.benchmarks.formats.{dataset.reader}").read(root, dataset)
    return found


def _checked(dataset: Dataset, folder: Path, read: Callable[[], Loaded]) -> Loaded:
    try:
        loaded = read()
        complete = loaded.dataset or dataset
        check_graphs(loaded.graphs, complete, folder)
        graphs = replace(loaded.graphs, y=_shaped(loaded.graphs.y, complete))
        return loaded._replace(graphs=graphs, dataset=complete)
    except MISFITS as error:
        names = ", ".join(dataset.names[:NAMED]) + (", ..." if len(dataset.names) > NAMED else "")
        reason = in_short(error)
        if not names:  # graphs in memory
            raise SSTCastError(f"{dataset.name}: {reason}") from error
        raise SSTCastError(f"{dataset.name}: files in {folder} do not fit together ({names}): {reason}") from error


def _tensors(loaded: Loaded) -> dict[str, torch.Tensor]:
    parts = {f"split {i} {j}": part for i, split in enumerate(loaded.splits) for j, part in enumerate(split)}
    return loaded.graphs.tensors() | parts


def _digest(loaded: Loaded) -> str:
    return digest_tensors(_tensors(loaded), [loaded.graphs.level, list(loaded.skipped)])


def _key(dataset: Dataset, files: Mapping[str, str]) -> str:
    """Return a key that changes with the files or the declaration."""
    declared = {k: v for k, v in asdict(dataset).items() if k not in NOT_READ}
    what = [FORMAT, declared, dict(files), dataset.split == "scaffold"]
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
