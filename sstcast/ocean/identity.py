"""Identifies data: the state of a source's files, digests of days, and the data that a run was trained on.

A file name is not enough: two files may have the same name, and a file may change in place. Instead, sstcast
compares three things.

- The *fingerprint* of a source: relative name, size and modification time of every file, recursively. If
  fingerprints are equal, nothing has changed, and no file needs to be opened.
- The *state* of each day of a source: a number that changes when the file or chunk that holds the day changes.
- The *digest* of each day: a hash of its values in degC on the run's grid. Only the digest decides whether two
  data sets are the same; the cube stores it as `digest(time)`.
"""

import datetime as dt
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.artefacts import walk
from sstcast.config import DataConfig
from sstcast.errors import SSTCastError
from sstcast.ocean.days import BLOCK, FIRST_DAY
from sstcast.ocean.raw import is_raw_store, open_days
from sstcast.runs import Record as RunRecord
from sstcast.runs import Run


def fingerprint(path: Path) -> str:
    """Return a hash of the names, sizes and modification times of all files at `path` and below, also of links."""
    files = [path]
    if path.is_dir():
        files = [folder / name for folder, _, names in walk(path) for name in names]
    named = sorted(("" if file == path else str(file.relative_to(path)), file) for file in files)
    return _sha256("".join(f"{name}\0{_stamp(file)}\0" for name, file in named).encode())


def states_of_days(path: Path, sst: xr.DataArray) -> NDArray[np.int64]:
    """Return a number for each day of `sst(time, lat, lon)`, opened from `path`; it differs if the day may have
    changed.

    In a store made by `sstcast fetch`, the number changes with the chunk that holds the day. If a coordinate
    `file(time)` names the file of each day, relative to `path`, the number changes with that file; otherwise with
    any file below `path`.
    """
    if is_raw_store(path):
        days = open_days(path)
        since = (days["time"].values.astype("datetime64[D]") - np.datetime64(FIRST_DAY)).astype(int)
        chunks = {block: _stamp(path / "sst" / f"{block}.0.0") for block in np.unique(since // BLOCK).tolist()}
        pairs = zip(since.tolist(), days["status"].values.tolist(), strict=True)
        states = [_number(f"{chunks[day // BLOCK]} {status}") for day, status in pairs]
        held = xr.DataArray(np.array(states, np.int64), {"time": days["time"]}, ("time",))
        return held.reindex(time=sst["time"], fill_value=0).values  # 0 marks a day that was filled in
    if "file" in sst.coords:
        stamps = {name: _number(_stamp(path / name)) for name in np.unique(sst["file"].values).tolist()}
        return np.array([stamps[name] for name in sst["file"].values.tolist()], np.int64)
    return np.full(sst.sizes["time"], _number(fingerprint(path)))


def changed(path: Path, sst: xr.DataArray, cube: xr.Dataset) -> NDArray[np.datetime64]:
    """Return the days in both `sst`, opened from `path`, and `cube` whose file may have changed since."""
    now = xr.DataArray(states_of_days(path, sst), {"time": sst["time"]}, ("time",))
    now, then = xr.align(now, cube["state"], join="inner")
    return now["time"].values[now.values != then.values]


def digests(sst: xr.DataArray) -> xr.DataArray:
    """Return a hash `[time]` of the values of each day of `sst(time, lat, lon)`; lazy if `sst` is lazy."""

    def block(values: NDArray[Any]) -> NDArray[np.int64]:
        plain = np.ascontiguousarray(values, np.float32)
        plain = np.where(np.isnan(plain), np.float32(np.nan), plain)  # one bit pattern for every NaN
        return np.array([_number(day.tobytes()) for day in plain.reshape(-1, *plain.shape[-2:])], np.int64)

    return xr.apply_ufunc(
        block,
        sst,
        input_core_dims=[["lat", "lon"]],
        dask="parallelized",
        output_dtypes=[np.int64],
        dask_gufunc_kwargs={"allow_rechunk": True},
    )


def digest_of(dataset: xr.Dataset) -> str:
    """Return a hash of a dataset's values and coordinates; bounds are left out, as they follow from them."""
    names = sorted(name for name in map(str, dataset.variables) if not name.endswith("_bnds"))
    return _sha256(b"".join(name.encode() + dataset[name].values.tobytes() for name in names))


def digest_of_days(cube: xr.Dataset, first: dt.date, last: dt.date) -> str:
    """Return a hash of the days of a cube from `first` to `last`: their dates and values."""
    days = cube["digest"].sel(time=slice(str(first), str(last)))
    return _sha256(days["time"].values.astype("datetime64[D]").tobytes() + days.values.tobytes())


class Record(RunRecord):
    """The data of a run.

    `cube` is a digest of the days from the first training day to the last test day, `test` a digest of the test
    days alone, and `statistics` a digest of what was fitted to the base period. `source` is `data.source` of the
    configuration.
    """

    source: str
    cube: str
    test: str
    statistics: str

    @classmethod
    def of(cls, data: DataConfig, cube: xr.Dataset, statistics: xr.Dataset) -> "Record":
        """Return the record of opened stores."""
        splits = data.splits
        return cls(
            source=data.source,
            cube=digest_of_days(cube, *splits.whole),
            test=digest_of_days(cube, *splits.test),
            statistics=str(statistics.attrs["digest"]),
        )

    @classmethod
    def read(cls, folder: Path) -> "Record | None":
        """Return the record in a run's folder; None if there is none.

        Raises SSTCastError if the record is damaged.
        """
        path = Run(folder).data
        return cls.load(path, "restore it, or train again under another name") if path.exists() else None

    def write(self, folder: Path) -> None:
        self.save(Run(folder).data)

    def check(self, folder: Path, now: "Record", store: Path) -> None:
        """Raise SSTCastError if `now`, read from `store`, differs from the data of the run in `folder`."""
        for what in ("cube", "statistics"):
            ours, theirs = getattr(self, what), getattr(now, what)
            if ours != theirs:
                done = "trained" if Run(folder).trained.folder == folder else "scored"
                raise SSTCastError(
                    f"{folder}: was {done} on other data than {store} holds: {what} {ours[:12]} of {self.source}, "
                    f"not {theirs[:12]} of {now.source}; restore the source and run `sstcast prepare`, or score "
                    "it again, or train again with --set name=..."
                )


def _stamp(path: Path) -> str:
    try:
        state = path.stat()
    except OSError:  # removed in the meantime, or a broken link
        return "absent"
    return f"{state.st_size} {state.st_mtime_ns}"


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _number(text: str | bytes) -> int:
    content = text.encode() if isinstance(text, str) else text
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little", signed=True)
