"""The command `status`: summarises the days on disk."""

from collections.abc import Callable
from pathlib import Path

from sstcast.errors import SSTCastError
from sstcast.ocean.raw import RawContents, is_raw_store, open_raw_store


def status(directory: Path, complain: Callable[[str], object] = print) -> list[RawContents]:
    """Describe `directory` if it is a raw store, otherwise all raw stores directly inside it, in order of name.

    Damaged stores inside `directory` are skipped and reported to `complain`. Raises SSTCastError if the folder
    does not exist or is a damaged store.
    """
    if not directory.is_dir():
        raise SSTCastError(f"{directory}: no such folder; give a folder that `sstcast fetch` wrote to")
    if is_raw_store(directory):
        return [open_raw_store(directory)]
    found = []
    for path in sorted(directory.glob("*/")):
        if is_raw_store(path) and not path.name.startswith("."):
            try:
                found.append(open_raw_store(path))
            except SSTCastError as error:
                complain(str(error))
    return found
