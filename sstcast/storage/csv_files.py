"""Reads tables of text, and looks at the first line of a CSV file before the whole is parsed."""

import bz2
import csv
import gzip
import lzma
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

import pandas as pd

from sstcast.errors import SSTCastError

MAX_HEADER = 2**20  # bytes of the line that names the columns; pandas takes a minute for a million columns
SEPARATORS = {b";": "semicolons", b"\t": "tabs"}
ARCHIVES = (".zip", ".tar", ".zst", ".7z")
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
    Names that are repeated or empty are numbered as pandas does, `note.1` and `Unnamed: 1`. `options` are those of
    `pandas.read_csv`. The index counts the rows, of which `line_of` gives the line.

    Raises SSTCastError if a row has further cells that are not empty, a comment below the first line has as many
    cells as a row, or the first line is too long.
    """
    comments: dict[int, str] = {}
    header = ""
    with _opened(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_HEADER + 1), "")):
            if len(line) > MAX_HEADER and not header:
                raise SSTCastError(f"{path}: its first line is longer than 1 MiB; give a line for each row")
            if line.startswith("#"):
                comments[number] = line if header else ""
            elif not header and line.strip():
                header, comments = line, dict.fromkeys(range(number + 1), "")
    separator = _separator(header)
    names = _cells(header, separator)
    named = _filled(names)
    for number, line in comments.items():
        if named > 1 and (len(cells := _cells(line, separator)) == len(names) or _filled(cells) == named):
            raise SSTCastError(
                f"{path}: line {number + 1}: begins with # but has the {named} cells of a row; write a space or "
                "quotes before it, or remove it"
            )
    further = [f" {number}" for number in range(max(FURTHER, len(names) - named))]  # no name begins with a space
    names = _distinct(names[:named])
    table = pd.read_csv(
        path,
        sep=separator,
        decimal="." if separator == "," else ",",
        names=names + further,
        skiprows=[*comments],
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
    return table.loc[is_filled.any(axis=1), names]


def _cells(line: str, separator: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])]


def _filled(cells: Sequence[str]) -> int:
    """Return the number of cells without the empty ones at the end."""
    return next((len(cells) - n for n, cell in enumerate(reversed(cells)) if cell), 0)


def _distinct(names: Sequence[str]) -> list[str]:
    """Return names of columns, of which the empty and the repeated ones are numbered as pandas does."""
    names = [name or f"Unnamed: {number}" for number, name in enumerate(names)]
    taken, counts, found = {*names}, Counter[str](), []
    for name in names:
        free = name
        while counts[name] and free in taken:
            free = f"{name}.{counts[name]}"
            counts[name] += 1
        counts[name] = max(counts[name], 1)
        taken.add(free)
        found.append(free)
    return found


def line_of(path: Path, row: int) -> int:
    """Return the line of a row of `read_table`, from 1."""
    with _opened(path) as file:
        return next(islice(_rows(file), row + 1, None))


def _rows(file: IO[str]) -> Iterator[int]:
    """Yield the numbers of the lines that are neither empty nor comments, the header's first."""
    return (number for number, line in enumerate(file, 1) if line.strip() and not line.startswith("#"))


def _opened(path: Path) -> IO[str]:
    if path.suffix.lower() in ARCHIVES:
        raise SSTCastError(f"{path}: is an archive; unpack it, or compress the table with gzip")
    opener = OPENERS.get(path.suffix.lower(), open)
    return opener(path, "rt", encoding="utf-8-sig", errors="replace")


def _separator(header: str) -> str:
    return next((mark for mark in ";\t" if mark in header and "," not in header), ",")
