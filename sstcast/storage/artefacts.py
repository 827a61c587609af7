"""Output files: atomic writes, locks, and recipes that tell whether a file is up to date.

Every derived file carries a recipe, plain data that determine its content: the file's layout, the input data, the
weights and the options of the command. NetCDF and Zarr store the recipe as JSON in the attribute `recipe`, JSON
files in the key `recipe`, PNG images in a text chunk and HTML pages in a comment on the second line.

A file is up to date if its recipe equals the requested one, and it has not changed since it was written. As in
git's index, `.NAME.note` beside a Zarr store, NetCDF or JSON file keeps recipe, fingerprint, times of change and
digest. Only if the fingerprint or the times differ, as in a copy, is the content compared. A file without a note
counts as a copy, and gets one. HTML and pictures need none, and few CSV files have one.

A link to a store or a folder is followed, if that is missing, empty or sstcast's own. A file that is a link, or a
pipe, counts as absent where it is kept for later, and is replaced wherever it is written: what it leads to is not
touched. Only a file that the user names is written to the end of a link (see `followed`).

Recipes hold the fingerprint of the files that something was made from. Programs can set the time of modification
that it contains, but not the time of change, which the note of what was made keeps as well (see `note_source`).
"""

import errno
import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from sstcast.errors import Outdated, SSTCastError, in_short
from sstcast.log import LOG
from sstcast.storage.paths import open_regular, walk
from sstcast.storage.stores import open_written

if TYPE_CHECKING:
    import xarray as xr

RECIPE = "recipe"
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
LOW_SPACE = 2**20  # bytes; if a write fails with less free space than this, the disk counts as full
DISK_FULL = "no space left on the disk; free some and re-run the command"
NOTED = (".zarr", ".nc", ".json")
MAX_HEADER_BYTES = 2**12  # of a CSV, that tell whose it is
FILES = (  # endings of files, which are no folders
    *(
        ".csv",
        ".geojson",
        ".html",
        ".json",
        ".lock",
        ".nc",
        ".note",
        ".npz",
        ".png",
        ".pt",
        ".txt",
        ".untold",
        ".yaml",
    ),
)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock `path` against other writing processes. If one holds the lock, print a line on stderr and wait.

    `path` may have changed while waiting, so check it inside the `with` block. The kernel releases the lock when
    the process ends. The empty file `.NAME.lock` stays beside `path`. The lock is re-entrant.
    """
    path = _target(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with space_for(path):
        lock_file = path.with_name(f".{path.name}.lock")
        if not is_kept(lock_file):
            if lock_file.is_symlink() or not lock_file.is_dir():
                lock_file.unlink(missing_ok=True)
            lock_file.open("a").close()  # filelock would wait forever if it cannot create the file
        lock = FileLock(lock_file, is_singleton=True)
        try:
            guard = lock.acquire(blocking=False)
        except Timeout:
            LOG.warning(f"{path}: another process is writing it; waiting")
            guard = lock.acquire()
    with guard:
        yield


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` for a file or a folder, and rename it to `path` on success.

    After an error, the temporary is removed and `path` is unchanged. A full disk raises an SSTCastError, and so
    does a folder at `path` that sstcast did not write. If a killed process leaves its temporary behind, the next
    write of the same path removes it. If two processes may write `path`, also use `locked`.
    """
    _check_store(path)
    path = _target(path)
    partial, previous = _beside(path)
    try:
        with space_for(path):
            _check_folder(path)
            was_folder = path.is_dir()
            path.parent.mkdir(parents=True, exist_ok=True)
            remove(partial)
            yield partial
            if not was_folder:  # another program may have made one meanwhile
                _check_folder(path)
            if path.is_dir() and not path.is_symlink():  # a folder cannot be renamed over another one
                remove(previous)
                path.rename(previous)
            partial.replace(path)
    except BaseException:
        _clear(partial)
        raise
    finally:
        remove(previous)


@contextmanager
def noted(path: Path, recipe: Any = None) -> Iterator[Path]:
    """Write a Zarr store, a NetCDF or a JSON file like `atomic`, and keep its note (see `is_up_to_date`)."""
    with atomic(path) as temporary:
        yield temporary
        note = _note(temporary, recipe)
        _place_of_note(path).unlink(missing_ok=True)  # a kill must not leave it beside the new file
    _write_note(path, note | {"changes": change_times(path)})  # renaming changes a file


def clear_leftovers(path: Path) -> None:
    """Delete temporaries that a killed write of `path` left behind. Call it inside `locked`."""
    for leftover in _beside(_target(path)):
        remove(leftover)


@contextmanager
def space_for(path: Path) -> Iterator[None]:
    """Raise SSTCastError if the `with` block fails because the disk of `path` is full, or its folder read-only."""
    try:
        yield
    except SSTCastError:
        raise
    except Exception as error:
        if is_full(error, path):
            raise SSTCastError(f"{path}: {DISK_FULL}") from error
        if isinstance(error, RuntimeError) and str(error).startswith("NetCDF:"):  # netCDF gives no reason
            raise SSTCastError(
                f"{path}: cannot be written ({error}); check whether its disk or quota is full"
            ) from error
        if f"{os.sep}.{path.name}." in f"{os.sep}{getattr(error, 'filename', '')}":  # a hidden file beside it
            raise SSTCastError(f"{path}: cannot be written ({in_short(error)}); choose another folder") from error
        raise


def is_full(error: BaseException, path: Path | None = None) -> bool:
    """Return whether `error` means that a disk or quota is full, or a file is too large for its file system.

    PyTorch and HDF5 report only that a write failed. The free space beside `path` then decides.
    """
    if getattr(error, "errno", None) in NO_SPACE or os.strerror(errno.ENOSPC) in str(error):
        return True
    if path is None or not isinstance(error, (OSError, RuntimeError)):
        return False
    with suppress(OSError):
        disk = shutil.disk_usage(path.parent)
        return disk.free < LOW_SPACE < disk.total
    return False


def remove(path: Path) -> None:
    """Delete a file, a folder or a link, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def remove_noted(path: Path) -> None:
    """Delete a file and its note, if they exist. Raises OSError if it is a folder."""
    path.unlink(missing_ok=True)
    _place_of_note(path).unlink(missing_ok=True)


def is_kept(path: Path) -> bool:
    """Return whether a path is a file, and no link to one."""
    with suppress(OSError):
        return stat.S_ISREG(path.lstat().st_mode)
    return False


def followed(path: Path) -> Path:
    """Return where a file that the user names is to be written: the end of a link, if it is one.

    Raises SSTCastError if the link leads back to itself. Check what is there before it is replaced.
    """
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    if target.is_symlink():
        raise SSTCastError(f"{path}: is a link that leads back to itself; delete it")
    return target


def unlinked(path: Path) -> Path:
    """Return where a file that sstcast names is to be written, after deleting a link of this name.

    Whoever planted the link chose where it leads. Only names that users give are `followed`.
    """
    if path.is_symlink():
        path.unlink()
    return path


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, or of the names and contents of all files in a folder. Pipes have none."""
    if path.is_dir():
        lines = sorted(f"{file.relative_to(path)}\0{digest(file)}" for file in _files(path))
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()
    with suppress(FileNotFoundError), open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
    return ""


def fingerprint(path: Path) -> str:
    """Return a hash of the names, sizes and modification times of all files in `path`, following links.

    `path` is a file or a folder. Equal fingerprints mean that nothing has changed, so no file needs to be opened.
    """
    return _hash_of_files(path, lambda state: f"{state.st_size}\0{state.st_mtime_ns}")


def change_times(path: Path) -> str:
    """Return a hash of the names of all files in `path` and of the times at which content or status last changed.

    Unlike times of modification, no program can set these, so each file that was replaced or copied has another.
    """
    return _hash_of_files(path, lambda state: str(state.st_ctime_ns))


def changed_after(path: Path, other: Path) -> bool:
    """Return whether a file in `path` has changed since the file `other` was written."""
    return max(file.stat().st_ctime_ns for file in _files(path)) > other.stat().st_mtime_ns


def _hash_of_files(path: Path, describe: Callable[[os.stat_result], str]) -> str:
    lines = []
    for file in _files(path):
        with suppress(OSError):  # a file removed meanwhile, or a broken link
            lines.append(f"{file.relative_to(path)}\0{describe(file.stat())}")
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def _files(path: Path) -> list[Path]:
    return [folder / name for folder, _, names in walk(path) for name in names] if path.is_dir() else [path]


def _beside(path: Path) -> tuple[Path, Path]:
    """Return the temporary path that `atomic` writes to, and the path that it moves an existing folder to."""
    return path.with_name(f".{path.name}.partial"), path.with_name(f".{path.name}.previous")


def _target(path: Path) -> Path:
    """Return where a store or a folder lies, following links. A file is where its name is, if a link or not."""
    return path if path.suffix in FILES else followed(path)


def _check_folder(path: Path) -> None:
    """Raise SSTCastError if a path is a folder that is not empty and that sstcast did not write."""
    if path.is_dir() and not (path.suffix in FILES and path.is_symlink()) and not _is_own_folder(path):
        raise SSTCastError(f"{path}: is a folder that sstcast did not write; rename or delete it")


def _check_store(path: Path) -> None:
    """Raise SSTCastError if a path names a store but is a file, or a link to one."""
    if path.suffix == ".zarr" and path.exists() and not path.is_dir():
        raise SSTCastError(f"{path}: is a file where a store belongs; rename or delete it")


def _is_own_folder(path: Path) -> bool:
    """Return whether a folder is empty, a run, a store with a recipe, or a damaged one with a note."""
    names = {file.name for file in path.iterdir()}
    if not names or "provenance.json" in names:
        return True
    with suppress(OSError, ValueError), open_regular(path / ".zattrs") as file:
        if RECIPE in json.load(file):
            return True
    return _read_note(path) is not None and not names.isdisjoint((".zattrs", ".zgroup", ".zmetadata"))


def _clear(partial: Path) -> None:
    """Delete an unfinished write, retrying while other threads still write to it."""
    times_absent = 0
    for _ in range(100):
        with suppress(OSError):
            remove(partial)
        times_absent = 0 if partial.exists() else times_absent + 1
        if times_absent > 2:
            return
        time.sleep(0.02)


def as_text(recipe: Any) -> str:
    """Serialise a recipe as JSON with sorted keys."""
    return json.dumps(recipe, sort_keys=True)


def read_recipe(path: Path) -> Any:
    """Return the recipe of a derived file, or None if the file is absent, unreadable or has no recipe."""
    try:
        return json.loads(_embedded_recipe(path))
    except (OSError, ValueError, LookupError, TypeError, SSTCastError, RuntimeError):
        return None


def is_up_to_date(path: Path, recipe: Any, strictly: bool = False) -> bool:
    """Return whether a file is intact and was made from `recipe`. With `strictly`, its note must say so."""
    expected_recipe = json.loads(as_text(recipe))
    if (note := _read_note(path)) is not None:
        return bool(note[RECIPE] == expected_recipe) and is_intact(path, strictly)
    if strictly or not path.exists() or read_recipe(path) != expected_recipe:
        return False
    if path.suffix in NOTED:
        _write_note(path, _note(path, recipe))
    return True


def is_intact(path: Path, strictly: bool = False) -> bool:
    """Return whether a file exists and is the one that was written.

    Without a note, it is taken to be, unless `strictly` is set.
    """
    if strictly and not is_kept(path) and not path.is_dir():
        return False
    if (note := _read_note(path)) is None or not path.exists():
        return path.exists() and not strictly
    if note["fingerprint"] == fingerprint(path) and note["changes"] == change_times(path):
        return True
    renewed = _note(path, note[RECIPE])
    if note["digest"] != renewed["digest"]:
        return False
    _write_note(path, note | renewed)
    return True


def note_source(path: Path, changes: str, content: str = "") -> None:
    """Note the `change_times` of the source with whose `content` a file was made, or was found to agree.

    `content` is the digest of the source, for files that cannot be compared with it otherwise.
    """
    note = _read_note(path) or _note(path, read_recipe(path))
    _write_note(path, note | {"source": {"changes": changes, "digest": content}})


def noted_source(path: Path) -> tuple[str, str]:
    """Return the arguments of the last `note_source` of a file, which are empty if there was none."""
    source = (_read_note(path) or {}).get("source") or {}
    return source.get("changes", ""), source.get("digest", "")


def check_own(path: Path, remedy: str, *headers: str) -> None:
    """Raise SSTCastError, ending in `remedy`, if a file exists that sstcast did not write.

    Its own files have a recipe or a note, and its CSV files a first line that begins with one of the `headers`.
    """
    if not path.exists():
        return
    if headers:
        own = False
        with suppress(FileNotFoundError), open_regular(path) as file:
            own = file.readline(MAX_HEADER_BYTES).startswith(tuple(header.encode() for header in headers))
    else:
        own = _read_note(path) is not None or read_recipe(path) is not None
    if not own:
        raise SSTCastError(f"{path}: exists and is not a file of sstcast; {remedy}")


def check_intact(path: Path, remedy: str) -> None:
    """Raise SSTCastError, ending in `remedy`, if a file exists and is not the one that was written."""
    if path.exists() and not is_intact(path):
        raise SSTCastError(f"{path}: has changed since it was written; {remedy}")


def open_intact(path: Path, remedy: str, recipe: dict[str, Any]) -> "xr.Dataset":
    """Open a Zarr store like `stores.open_written`.

    Raises SSTCastError, ending in `remedy`, also if it is not the one that was written, and Outdated if it was not
    made from the `recipe` (see `check_recipe`).
    """
    check_intact(path, remedy)
    dataset = open_written(path, remedy)
    check_recipe(path, dataset, recipe, remedy)
    return dataset


def check_recipe(path: Path, dataset: "xr.Dataset", recipe: dict[str, Any], remedy: str) -> None:
    """Raise Outdated, ending in `remedy`, unless the recipe of an opened file has all entries of `recipe`."""
    made, asked = json.loads(dataset.attrs[RECIPE]), json.loads(as_text(recipe))
    if differing := [key for key in asked if made.get(key) != asked[key]]:
        how = f"with another data.{differing[0]}"
        if {"base_days", "days", "cells"} & {*differing}:
            how = "from other days or cells than those prepared now, as if `sstcast prepare` had not ended"
        how = "by another version of sstcast" if "layout" in differing else how
        raise Outdated(f"{path}: was made {how}; {remedy}")


def _place_of_note(path: Path) -> Path:
    path = _target(path)
    return path.with_name(f".{path.name}.note")


def _note(path: Path, recipe: Any) -> dict[str, Any]:
    states = {"fingerprint": fingerprint(path), "changes": change_times(path)}  # before the content is read
    return {RECIPE: recipe, **states, "digest": digest(path)}


def _read_note(path: Path) -> dict[str, Any] | None:
    """Return the note of a file, or None if there is none or it is damaged."""
    try:
        with open_regular(_place_of_note(path), follow=False) as file:
            note: dict[str, Any] = json.load(file)
        return note if {RECIPE, "fingerprint", "changes", "digest"} <= note.keys() else None
    except (OSError, ValueError, AttributeError, RecursionError):
        return None


def _write_note(path: Path, note: dict[str, Any]) -> None:
    """Write the note of a file, unless its folder is read-only or its disk is full."""
    note_path = _place_of_note(path)
    with suppress(OSError, SSTCastError), atomic(note_path) as temporary:
        temporary.write_text(as_text(note))


def _embedded_recipe(path: Path) -> str:
    """Return the text of a file's recipe."""
    if path.suffix == ".csv":  # which holds no recipe, so that its note does
        return as_text((_read_note(path) or {})[RECIPE])
    if path.suffix in (".json", ".html", ".png"):
        with open_regular(path) as file:
            if path.suffix == ".json":
                return as_text(json.load(file)[RECIPE])
            if path.suffix == ".html":
                file.readline()
                return file.readline().decode().strip().removeprefix("<!-- recipe ").removesuffix(" -->")
            from PIL import Image

            with Image.open(file) as image:
                return str(image.info[RECIPE])
    if path.suffix == ".zarr":
        with open_written(path, "delete it") as dataset:
            return str(dataset.attrs[RECIPE])
    import h5py

    with open_regular(path) as file, h5py.File(file, "r") as opened:  # without its many variables
        text = opened.attrs[RECIPE]
        return text.decode() if isinstance(text, bytes) else str(text)


def write_json(path: Path, content: Any) -> None:
    """Write plain data as JSON, atomically and with a note of their recipe, if they have one.

    Each entry of the top level has a line. Indentation would be two thirds of large files, and slow to write.
    """
    with noted(path, content.get(RECIPE)) as temporary:
        values = ((key, json.dumps(value, separators=(",", ":"))) for key, value in content.items())
        temporary.write_text("{\n" + ",\n".join(f"{json.dumps(key)}: {value}" for key, value in values) + "\n}\n")
