"""Files that ship with sstcast, writes that are whole or absent, and one process at a time to do them."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

if TYPE_CHECKING:
    import xarray as xr

PACKAGE = Path(__file__).parent
FIRST_PROCESS = os.environ.get("LOCAL_RANK", "0") == "0"  # of those that train together; the others are silent


def packaged(relative: str) -> Path:
    """Return the path of a file that ships with sstcast, for instance ``data/map/ne_50m_land.geojson.gz``.

    An installed wheel carries `data` and `configs` inside the package; in a checkout they lie beside it.
    """
    inside = PACKAGE / relative
    return inside if inside.exists() else PACKAGE.parent / relative


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Be the only process to write `path`; while another one is, say so and wait for its end.

    What the other one leaves is there when this returns, so look at it inside. The lock is the kernel's and ends
    with its process; the empty file `.NAME.lock` beside `path` stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
        held = lock.acquire(blocking=False)
    except Timeout:
        print(f"{path}: another process is writing it; waiting", file=sys.stderr, flush=True)
        held = lock.acquire()
    with held:
        yield


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` to write a file or a folder to; rename it into place on success.

    After an error the temporary is removed and `path` is what it was. A temporary left by a killed process
    is removed by the next write of the same path; where two processes may write it, be `alone`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial, previous = path.with_name(f".{path.name}.partial"), path.with_name(f".{path.name}.previous")
    remove(partial)
    try:
        yield partial
        if path.is_dir():  # a folder cannot be renamed over another one
            remove(previous)
            path.rename(previous)
        partial.replace(path)
    finally:
        remove(partial)
        remove(previous)


def remove(path: Path) -> None:
    """Delete a file or a folder; absence is fine."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_zarr(
    dataset: "xr.Dataset", path: Path, chunks: dict[str, int], keep: tuple[Path, int] | None = None
) -> None:
    """Write `dataset` as a Zarr store that plain `xr.open_zarr` opens; dimensions not in `chunks` stay whole.

    With `keep = (store, n)` the first n chunks along time are linked from a store of the same layout instead
    of being computed. Format 2, because consolidated metadata, which makes a store open in one read, is not
    yet part of 3.
    """
    sizes = {str(d): chunks.get(str(d), n) for d, n in dataset.sizes.items()}
    dataset = dataset.drop_encoding().chunk(sizes)
    if keep is None or not keep[1]:
        dataset.to_zarr(path, zarr_format=2, consolidated=True)
        return
    dataset.to_zarr(path, zarr_format=2, consolidated=True, compute=False)
    store, whole = keep
    fields = [str(name) for name in dataset.data_vars if "time" in dataset[name].dims]
    for name in fields:
        for file in (store / name).glob("[0-9]*"):
            if int(file.name.split(".")[0]) < whole:
                os.link(file, path / name / file.name)
    rest = dataset[fields].isel(time=slice(whole * chunks["time"], None))
    rest.drop_vars([c for c in rest.coords if c != "time"]).to_zarr(path, region="auto")
    dataset.drop_dims("time").to_zarr(path, mode="a")
