"""Reads tables of text, and looks at the first line of a CSV file before the whole is parsed."""

import bz2
import csv
import gzip
import lzma
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

import pandas as pd

from sstcast.errors import SSTCastError

MAX_HEADER = 2**20  # bytes of the line that names the columns; pandas takes a minute for a million columns
SEPARATORS = {b";": "semicolons", b"\t": "tabs"}
OPENERS: dict[str, Callable[..., IO[str]]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
FURTHER = 8  # columns beyond the named ones that rows may have, if they are empty


def check_csv(path: Path) -> None:
    """Raise SSTCastError if the line that names the columns has no commas but other separators, or is too long.

    Comments before it and compressed files are passed over. Raises OSError if the file cannot be read.
    """
    with path.open("rb") as file:
        while (header := file.readline(MAX_HEADER + 1)).startswith(b"#"):
            pass
    if b"\0" in header:
        return
    if len(header) > MAX_HEADER:
        raise SSTCastError(f"{path}: its first line is longer than 1 MiB; give a line for each row")
    for separator, name in SEPARATORS.items():
        if separator in header and b"," not in header:
            raise SSTCastError(
                f"{path}: separated by {name}; save it with commas between columns and decimal points"
            )


def read_table(path: Path, **options: Any) -> pd.DataFrame:
    """Read a table whose first line names the columns, with commas, semicolons or tabs between them.

    With semicolons and tabs, numbers may have decimal commas. Lines that begin with `#` are comments, and rows
    without a value are left out. A row may end with empty cells that have no name, as spreadsheets write them.
    `options` are those of `pandas.read_csv`. The index counts the rows, of which `line_of` gives the line.

    Raises SSTCastError if a row has further cells that are not empty, or the first line is too long.
    """
    comments, header = [], ""
    with _opened(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_HEADER + 1), "")):
            if len(line) > MAX_HEADER and not header:
                raise SSTCastError(f"{path}: its first line is longer than 1 MiB; give a line for each row")
            if line.startswith("#"):
                comments.append(number)
            elif not header and line.strip():
                header, comments = line, [*range(number + 1)]
    separator = _separator(header)
    names = [name.strip() for name in next(csv.reader([header], delimiter=separator, skipinitialspace=True), [])]
    named = len(names) - next((n for n, name in enumerate(reversed(names)) if name), len(names))
    further = [f"further {number}" for number in range(max(FURTHER, len(names) - named))]
    table = pd.read_csv(
        path,
        sep=separator,
        decimal="." if separator == "," else ",",
        names=names[:named] + further,
        skiprows=comments,
        index_col=False,
        skipinitialspace=True,
        low_memory=False,
        encoding="utf-8-sig",
        **options,
    )
    is_filled = table.notna() & (table != "")
    if (beyond := is_filled[further].any(axis=1)).any():
        row = int(beyond.idxmax())
        raise SSTCastError(
            f"{path}: line {line_of(path, row)}: has more cells than the {named} columns; write decimal points, "
            "and quotes around text with commas"
        )
    return table.loc[is_filled.any(axis=1), names[:named]]


def line_of(path: Path, row: int) -> int:
    """Return the line of a row of `read_table`, from 1."""
    with _opened(path) as file:
        return next(islice(_rows(file), row + 1, None))


def _rows(file: IO[str]) -> Iterator[int]:
    """Yield the numbers of the lines that are neither empty nor comments, the header's first."""
    return (number for number, line in enumerate(file, 1) if line.strip() and not line.startswith("#"))


def _opened(path: Path) -> IO[str]:
    opener = OPENERS.get(path.suffix.lower(), open)
    return opener(path, "rt", encoding="utf-8-sig", errors="replace")


def _separator(header: str) -> str:
    return next((mark for mark in ";\t" if mark in header and "," not in header), ",")
