"""Functions that readers share: edges in both directions, splits as masks or lists, numbers in text files."""

import gzip
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.utils import remove_self_loops, to_undirected

from sstcast.benchmarks.packed import Split
from sstcast.benchmarks.pickles import REMEDY
from sstcast.errors import SSTCastError, reading

LARGEST = 2**53  # the largest whole number that a float represents exactly
UNPACKED = 2**32  # bytes that a compressed table may unpack to
SINGLE = float(np.finfo(np.float32).max)


def undirected(index: NDArray[Any], nodes: int) -> Tensor:
    """Return edges `[2, e]` in both directions, each once, without loops."""
    ends, _ = remove_self_loops(torch.from_numpy(np.ascontiguousarray(index.astype(np.int64))))
    return to_undirected(ends, num_nodes=nodes)


def splits_of(parts: Iterable[NDArray[Any]], nodes: int) -> list[Split]:
    """Return the splits given by masks or lists of nodes for training, validation and testing.

    Masks are `[splits, nodes]`, `[nodes, splits]` or `[nodes]`. Raises ValueError if a mask does not have `nodes`
    nodes.
    """
    many = [a.T if a.ndim > 1 and len(a) == nodes else np.atleast_2d(a) for a in parts]
    return [
        Split(*(torch.from_numpy(_rows(a[min(i, len(a) - 1)], nodes)) for a in many)) for i in range(len(many[0]))
    ]


def _rows(part: NDArray[Any], nodes: int) -> NDArray[np.int64]:
    # More than two numbers that are all 0 or 1 cannot be a list of different nodes, so they are a mask.
    if part.dtype != bool and (len(part) < 3 or not np.isin(part, (0, 1)).all()):
        return whole(part).astype(np.int64)
    if len(part) != nodes:
        raise ValueError(f"a mask of {len(part)} nodes, where there are {nodes}")
    return np.flatnonzero(part)


def whole(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return the numbers; raise ValueError if one is not whole."""
    if numbers.dtype.kind == "f" and (numbers != np.floor(numbers)).any():
        raise ValueError(f"{numbers[numbers != np.floor(numbers)][0]} where whole numbers belong")
    return numbers


def ranges(sizes: Sequence[int]) -> Split:
    """Return the split of graphs stored as one part after the other."""
    train, validation, test = torch.arange(sum(sizes)).split(list(sizes))
    return Split(train, validation, test)


def _check_size(path: Path) -> None:
    read = 0
    with gzip.open(path) as file:
        while piece := file.read(2**20):
            read += len(piece)
            if read > UNPACKED:
                raise SSTCastError(f"{path}: unpacks to more than {UNPACKED / 1e9:,.0f} GB; {REMEDY}")


def read_numbers(path: Path, columns: int | None = None) -> NDArray[Any]:
    """Read a text file of comma-separated numbers, `[rows, columns]`, compressed or not.

    Raises SSTCastError, naming file and line, if it is empty or unpacks to too much, or a line does not hold
    `columns` whole numbers. Without `columns`, numbers must be finite, and missing ones are NaN.
    """
    with reading(path, REMEDY):
        if path.suffix == ".gz":
            _check_size(path)
        options = {"header": None, "skipinitialspace": True, "low_memory": False, "index_col": False}
        try:
            table = pd.read_csv(path, skip_blank_lines=columns is None, **options)
        except pd.errors.EmptyDataError as error:
            raise SSTCastError(f"{path}: empty; {REMEDY}") from error
    if columns:  # blank lines count, except at the end
        table = table[: int(np.flatnonzero(table.notna().any(axis=1)).max(initial=-1)) + 1]
        if not len(table):
            raise SSTCastError(f"{path}: empty; {REMEDY}")
    numbers = table.apply(pd.to_numeric, errors="coerce")
    missing = numbers.isna() if columns else numbers.isna() & table.notna()  # a label may be unknown
    missing |= numbers.mod(1).ne(0) | numbers.abs().gt(LARGEST) if columns else numbers.abs().gt(SINGLE)
    if missing.any(axis=None):
        line = int(np.flatnonzero(missing.any(axis=1))[0])
        kind = {None: "only finite numbers", 1: "a whole number"}.get(columns, f"{columns} whole numbers")
        shown = ", ".join(str(v) for v in table.iloc[line])
        raise SSTCastError(f"{path}: line {line + 1}: {shown!r} is not {kind}")
    if columns and numbers.shape[1] != columns:
        raise SSTCastError(f"{path}: line 1: {numbers.shape[1]} numbers where {columns} belong")
    return numbers.to_numpy()
