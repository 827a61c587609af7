"""Reads tables of text, and looks at the first line of a CSV file before the whole is parsed."""

import bz2
import csv
import gzip
import lzma
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from io import StringIO
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
    `pandas.read_csv`. The index counts the rows, of which `lines_of` gives the lines.

    Raises SSTCastError if a row has further cells that are not empty, a comment below the first line has as many
    cells as a row, or the first line is too long.
    """
    comments: dict[int, str] = {}  # below the first line that is none, by number
    header, above = "", 0
    with opened(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_HEADER + 1), "")):
            if len(line) > MAX_HEADER and not header:
                raise SSTCastError(f"{path}: its first line is longer than 1 MiB; give a line for each row")
            if not header:
                header, above = ("" if line.startswith("#") else line.strip()), number + 1
            elif line.startswith("#"):
                comments[number] = line
    separator = _separator(header)
    names = _cells(header, separator)
    named = _filled(names)
    further = [f" {number}" for number in range(max(FURTHER, len(names) - named))]  # no name begins with a space
    rows: IO[str]
    with opened(path, errors="strict") as file:
        for _ in range(above):
            file.readline()
        if comments:
            kept = dict(_lines(file, separator, above))
            rows = StringIO("".join(kept.values()))
            comments = {number: line for number, line in comments.items() if number not in kept}
        else:
            rows = file
        table = pd.read_csv(
            rows,
            sep=separator,
            decimal="." if separator == "," else ",",
            names=_distinct(names[:named]) + further,
            index_col=False,
            skipinitialspace=True,
            low_memory=False,
            **options,
        )
    for number, line in comments.items():
        if named > 1 and (len(cells := _cells(line, separator)) == len(names) or _filled(cells) == named):
            raise SSTCastError(
                f"{path}: line {number + 1}: begins with # but has the {named} cells of a row; write a space or "
                "quotes before it, or remove it"
            )
    is_filled = table.notna() & (table != "")
    if (beyond := is_filled[further].any(axis=1)).any():
        row = int(beyond.idxmax())
        raise SSTCastError(
            f"{path}: line {lines_of(path)[row]}: has more cells than the {named} columns; write decimal points, "
            "and quotes around text with commas"
        )
    return table.loc[is_filled.any(axis=1), _distinct(names[:named])]


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


def check_not_repeated(path: Path, columns: Iterable[Any], *used: str) -> None:
    """Raise SSTCastError if several columns have one of the `used` names, case and a number at its end apart."""
    for name in used:
        pattern = re.compile(rf"{re.escape(name.strip())}(\.\d+)?", re.IGNORECASE)
        if len(alike := [str(column) for column in columns if pattern.fullmatch(str(column).strip())]) > 1:
            raise SSTCastError(f"{path}: has {len(alike)} columns called {name}; rename or remove all but one")


def lines_of(path: Path) -> list[int]:
    """Return the line of each row of `read_table`, from 1."""
    with opened(path) as file:
        first = next(line for line in iter(file.readline, "") if line.strip() and not line.startswith("#"))
        file.seek(0)
        separator = _separator(first)
        return [number for number, line in _lines(file, separator, 1, False) if line.strip()][1:]


def _lines(file: IO[str], separator: str, first: int, continued: bool = True) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line that is no comment, from number `first` on.

    A line that begins with `#` within the quotes of a cell is none. Lines that continue a cell are left out unless
    `continued` is set.
    """
    state = Cell.START
    for number, line in enumerate(file, first):
        inside = state is Cell.QUOTED
        if inside or not line.startswith("#"):
            if continued or not inside:
                yield number, line
            state = _state_after(line, separator, state)


class Cell(Enum):
    """Where in a cell a line ends: before it, in text without quotes, within quotes or after these."""

    START, PLAIN, QUOTED, CLOSED = range(4)


def _state_after(line: str, separator: str, state: Cell) -> Cell:
    """Return whether a line ends within quotes, which only the first character of a cell can open."""
    if '"' not in line:
        return state if state is Cell.QUOTED else Cell.START
    for char in line:
        if state is Cell.QUOTED:
            state = Cell.CLOSED if char == '"' else state
        elif char == '"' and state in (Cell.START, Cell.CLOSED):
            state = Cell.QUOTED
        elif char == separator:
            state = Cell.START
        elif not (state is Cell.START and char == " "):
            state = Cell.PLAIN
    return state if state is Cell.QUOTED else Cell.START


def opened(path: Path, errors: str = "replace") -> IO[str]:
    """Open a table of text, compressed or not. Raises SSTCastError if it is an archive."""
    if path.suffix.lower() in ARCHIVES:
        raise SSTCastError(f"{path}: is an archive; unpack it, or compress the table with gzip")
    opener = OPENERS.get(path.suffix.lower(), open)
    return opener(path, "rt", encoding="utf-8-sig", errors=errors)


def uncompressed(path: Path) -> Path:
    """Return the path of a table without the suffix of its compression, if it has one."""
    return path.with_suffix("") if path.suffix.lower() in OPENERS else path


def _separator(header: str) -> str:
    return next((mark for mark in ";\t" if mark in header and "," not in header), ",")
