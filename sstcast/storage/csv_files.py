"""Looks at the first line of a CSV file before the whole is parsed."""

from pathlib import Path

from sstcast.errors import SSTCastError

MAX_HEADER = 2**20  # bytes of the line that names the columns; pandas takes a minute for a million columns
SEPARATORS = {b";": "semicolons", b"\t": "tabs"}


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
