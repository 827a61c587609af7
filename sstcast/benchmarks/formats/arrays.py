"""What readers share: edges both ways, splits as masks or lists, numbers in text files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from sstcast.benchmarks.graphs import Split
from sstcast.errors import SSTCastError


def undirected(index: NDArray[Any], nodes: int) -> Tensor:
    """Return edges `[2, e]` both ways, each once, without loops; ends outside of 0..nodes - 1 stay as they are."""
    source, target = index.astype(np.int64)
    low = min(int(index.min()), 0) if index.size else 0
    span = max(int(index.max()) + 1 if index.size else 0, nodes) - low
    ends = np.concatenate([source, target]) - low, np.concatenate([target, source]) - low
    keys = np.unique((ends[0] * span + ends[1])[ends[0] != ends[1]])
    return torch.from_numpy(np.stack([keys // span, keys % span]) + low)


def splits_of(train: NDArray[Any], validation: NDArray[Any], test: NDArray[Any]) -> list[Split]:
    """Return the splits that masks `[splits, nodes]` or `[nodes]`, or lists of nodes, describe."""
    if train.ndim > 1:
        many = [np.atleast_2d(a) for a in (train, validation, test)]
        return [_split([a[min(i, len(a) - 1)] for a in many]) for i in range(len(train))]
    return [_split([train, validation, test])]


def _split(parts: Sequence[NDArray[Any]]) -> Split:
    train, validation, test = (
        torch.from_numpy(np.flatnonzero(a) if a.dtype == bool else np.asarray(a, np.int64)) for a in parts
    )
    return Split(train, validation, test)


def ranges(sizes: Sequence[int]) -> Split:
    """Return the split of graphs that come one part after the other."""
    train, validation, test = torch.arange(sum(sizes)).split(list(sizes))
    return Split(train, validation, test)


def read_numbers(path: Path, columns: int | None = None) -> NDArray[Any]:
    """Read a text file of comma-separated numbers, `[rows, columns]`, packed or not.

    Raises SSTCastError, naming file and line, if it is empty or a line is not `columns` numbers.
    """
    try:
        table = pd.read_csv(path, header=None, skipinitialspace=True, low_memory=False)
    except pd.errors.EmptyDataError as error:
        raise SSTCastError(f"{path}: empty; get the file again") from error
    except (pd.errors.ParserError, UnicodeDecodeError, OSError, EOFError) as error:
        raise SSTCastError(f"{path}: {' '.join(str(error).split())}") from error
    numbers = table.apply(pd.to_numeric, errors="coerce")
    missing = numbers.isna() if columns else numbers.isna() & table.notna()  # without: a label may be unknown
    if missing.any(axis=None):
        line = int(np.flatnonzero(missing.any(axis=1))[0])
        raise SSTCastError(f"{path}: line {line + 1}: {_shown(table, line)!r} is not {columns or 'only'} numbers")
    if columns and numbers.shape[1] != columns:
        raise SSTCastError(f"{path}: line 1: {numbers.shape[1]} numbers where {columns} belong")
    return numbers.to_numpy()


def _shown(table: pd.DataFrame, line: int) -> str:
    return ", ".join(str(v) for v in table.iloc[line])
