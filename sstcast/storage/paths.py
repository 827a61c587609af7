"""Paths: of files that ship with sstcast, of users, of URLs, and of the files in a folder."""

import errno
import os
import re
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path, PosixPath

from sstcast.errors import SSTCastError

PACKAGE = Path(__file__).parents[1]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "sstcast"  # noqa: PTH111 - never fails
URL = re.compile(r"[a-z][a-z0-9+.-]+://|(https?|s3|gs):/")  # pathlib drops the second slash


def packaged(relative: str) -> Path:
    """Return the path of a file that ships with sstcast, for instance ``data/map/ne_50m_land.geojson.gz``.

    An installed wheel carries `data` and `configs` inside the package. In a checkout they lie beside it.
    """
    in_package = PACKAGE / relative
    return in_package if in_package.exists() else PACKAGE.parent / relative


def _check_no_nul(path: os.PathLike[str] | str) -> None:
    if "\0" in os.fspath(path):
        raise SSTCastError(f"{path}: holds a NUL, which no path can; check it")


def expand_user(path: os.PathLike[str] | str) -> Path:
    """Expand a leading `~` or `~user` in a path, unless the user does not exist.

    Raises SSTCastError if the path holds a NUL, which no name of a file can.
    """
    _check_no_nul(path)
    return Path(os.path.expanduser(path))  # noqa: PTH111 - pathlib raises an error for an unknown user


class Address(PosixPath):
    """The URL of a Zarr store, as a path that reads as the URL and that no file has."""

    def __str__(self) -> str:
        scheme, _, location = super().__str__().partition(":")
        return f"{scheme}://{location.lstrip('/')}"


def path_of(source: str) -> Path:
    """Return the path of a source of days, which is an `Address` if the source is a URL.

    Raises SSTCastError if it holds a NUL.
    """
    _check_no_nul(source)
    return Address(source) if is_url(source) else Path(source)


def is_url(source: str) -> bool:
    """Return whether a source is a URL."""
    return URL.match(source) is not None


def open_regular(path: Path, follow: bool = True) -> BufferedReader:
    """Open a file for reading. A pipe, which may never answer, a device or a folder counts as absent.

    So does a link, unless `follow` is set. Raises FileNotFoundError if the file is absent.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link or a loop of them, a socket
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None
        raise
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def read_regular(path: Path) -> bytes:
    """Return the content of a file (see `open_regular`)."""
    with open_regular(path) as file:
        return file.read()


def below(folder: Path, name: str) -> list[Path]:
    """Return the sorted paths of all files called `name` in `folder` and its subfolders, following links.

    Hidden folders are skipped. A folder that several links point to is visited once.
    """
    paths = []
    for parent, folders, files in walk(folder):
        folders[:] = [child for child in folders if not child.startswith(".")]
        if name in files:
            paths.append(parent / name)
    return sorted(paths)


def walk(folder: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Yield a folder and all its subfolders, following links, with the names of the folders and files in each.

    A folder that several links point to is visited once. To skip folders, remove their names from the list.
    """
    inodes = set()
    for subfolder, folders, files in os.walk(folder, followlinks=True):
        status = Path(subfolder).stat()
        if (status.st_dev, status.st_ino) in inodes:
            folders.clear()
            continue
        inodes.add((status.st_dev, status.st_ino))
        folders.sort()
        yield Path(subfolder), folders, sorted(files)
