"""The raw store: downloaded days of 0.25 degree SST in one Zarr store (format 2).

    sst(time, lat, lon)   int16, hundredths of degC, in chunks of CHUNK_DAYS days counted from 1981-09-01
    ice(time, lat, lon)   int16, hundredths, the share of ice, 0 where only `sst` has a value; optional
    err(time, lat, lon)   int16, hundredths of degC, the error of `sst`; optional
    status(time)          the origin of each day; 0 is missing, even numbers are preliminary

A store has its variables from the beginning, and every day has all of them. They are in the name of each origin,
as in `aws+ice+err_preliminary`. The time axis covers every day from 1981-09-01 to the last day ever requested, so
the index of a day never changes.
`sstcast.sources.raw_store` writes the store.
"""

import dataclasses
import datetime as dt
import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.errors import SSTCastError, counted, reading
from sstcast.geo import CELLS_PER_DEGREE, Box
from sstcast.log import LOG
from sstcast.names import ONE_DAY
from sstcast.storage.stores import open_written

Packed = NDArray[np.int16]  # hundredths of degC, of ice hundredths

OPTIONAL = ("ice", "err")  # the variables besides `sst`, in the order in which the name of an origin has them

FILL = -999
FIRST_DAY = dt.date(1981, 9, 1)
CHUNK_DAYS = 32  # days per chunk; one chunk is written at a time
REMEDY = "move the store away and fetch again"

# Names for the status of a day, in the order of their numbers. The first day from a source appends its two names.
STATUS = ("missing",)


@dataclass(frozen=True)
class Day:
    """A downloaded day. `field` is `[lat, lon]` in hundredths of degC.

    `optional` holds the fields of variables in `OPTIONAL` by name, with the same shape and in hundredths.
    """

    field: Packed
    origin: str
    preliminary: bool
    optional: Mapping[str, Packed] = dataclasses.field(default_factory=dict)


def pack(celsius: NDArray[Any]) -> Packed:
    """Convert degC to hundredths of degC in int16; NaN becomes `FILL`."""
    return np.where(np.isnan(celsius), FILL, np.rint(celsius * 100.0)).astype(np.int16)


def block_of(day: dt.date) -> int:
    """Return the number of the block that contains `day`."""
    return (day - FIRST_DAY).days // CHUNK_DAYS


def is_final(status: int) -> bool:
    """Return whether a status number denotes a final day, which will not change."""
    return status % 2 == 1


def day_ranges(days: Mapping[dt.date, str]) -> list[tuple[dt.date, dt.date, str]]:
    """Group consecutive days with the same text into ranges (first, last, text)."""
    runs: list[tuple[dt.date, dt.date, str]] = []
    for day in sorted(days):
        if runs and (day - runs[-1][1]).days == 1 and runs[-1][2] == days[day]:
            runs[-1] = (runs[-1][0], day, days[day])
        else:
            runs.append((day, day, days[day]))
    return runs


@dataclass(frozen=True, eq=False)
class RawContents:
    """An open raw store: the lazy `dataset`, and `status[time]`, the index of each day's origin in `words`.

    `title` tells whether the data are observed or simulated.
    """

    path: Path
    dataset: xr.Dataset
    status: NDArray[np.uint8]
    words: tuple[str, ...]
    title: str

    @property
    def box(self) -> Box:
        """The box bounded by the outer cell edges."""
        half = 0.5 / CELLS_PER_DEGREE
        lat, lon = (self.dataset[axis].values[[0, -1]] + (-half, half) for axis in ("lat", "lon"))
        return Box(*lon, *lat)

    @cached_property
    def origin(self) -> dict[dt.date, str]:
        """The origin of each day in order, such as `aws` or `aws_preliminary`."""
        names = [word.replace("+".join(("", *self.variables)), "") for word in self.words]
        return {FIRST_DAY + int(i) * ONE_DAY: names[self.status[i]] for i in np.flatnonzero(self.status)}

    @property
    def variables(self) -> tuple[str, ...]:
        """The optional variables that the store has."""
        return tuple(name for name in OPTIONAL if name in self.dataset)

    @property
    def sources(self) -> dict[str, int]:
        """Number of days from each source, including preliminary days."""
        return dict(Counter(origin.removesuffix("_preliminary") for origin in self.origin.values()))

    @property
    def years(self) -> dict[int, int]:
        """Number of days in each year."""
        return dict(Counter(day.year for day in self.origin))

    @property
    def preliminary(self) -> list[dt.date]:
        """Days that NOAA will still replace."""
        return [day for day, origin in self.origin.items() if origin.endswith("_preliminary")]

    @property
    def gaps(self) -> list[tuple[dt.date, dt.date]]:
        """First and last missing day of each gap."""
        runs = day_ranges(dict.fromkeys(self.origin, ""))
        return [(a[1] + ONE_DAY, b[0] - ONE_DAY) for a, b in itertools.pairwise(runs)]

    def lines(self) -> list[str]:
        """Describe the days, their origin and size in lines of text."""
        if not self.origin:
            return [f"{self.path}: no days"]
        first, *_, last = [*self.origin, *self.origin]
        size = sum(file.stat().st_size for file in self.path.rglob("*") if file.is_file())
        lines = [
            f"{self.path}: {len(self.origin)} days, {first}..{last}, {size / 1e6:.1f} MB",
            f"  {self.title}",
            "  source: " + ", ".join(f"{name} {count}" for name, count in self.sources.items()),
            "  year: " + ", ".join(f"{year} {count}" for year, count in self.years.items()),
        ]
        lines += [f"  gap: {a}..{b} ({counted((b - a).days + 1, 'day')})" for a, b in self.gaps]
        for a, b, _ in day_ranges(dict.fromkeys(self.preliminary, "")):
            lines.append(f"  preliminary: {a}..{b} ({counted((b - a).days + 1, 'day')})")
        return lines


def is_raw_store(path: Path) -> bool:
    """Return whether `path` was made by `sstcast fetch`."""
    return (path / "status" / ".zarray").exists() and (path / "sst" / ".zarray").exists()


def open_raw_store(path: Path) -> RawContents:
    """Open a raw store.

    Raises SSTCastError if it is damaged, now or when values are computed, or its days differ in their variables.
    """
    dataset = open_written(path, REMEDY, sparse=("sst", *OPTIONAL))
    with reading(path, REMEDY):
        status, attributes = dataset["status"].load(), dataset.attrs
        status_names = tuple(status.flag_meanings.split())
        if status.values.max(initial=0) >= len(status_names):
            raise ValueError(f"a day has the status {status.values.max()}, which has no meaning")
        contents = RawContents(path, dataset, status.values, status_names, attributes["title"])
        for number in np.unique(status.values[status.values > 0]):
            _, *optional = status_names[number].removesuffix("_preliminary").split("+")
            if tuple(optional) != contents.variables:
                raise SSTCastError(
                    f"{path}: not all of its days have the same variables; fetch them again, into another --out"
                )
        blocks = np.unique(np.flatnonzero(status.values) // CHUNK_DAYS)
        for name, block in itertools.product(("sst", *contents.variables), blocks):
            if not (path / name / f"{block}.0.0").is_file():
                raise ValueError(f"its file {name}/{block}.0.0 is missing")
        return contents


def raw_stores(folder: Path) -> list[RawContents]:
    """Open `folder` if it is a raw store, otherwise all raw stores directly inside it, in order of name.

    Damaged stores inside `folder` are skipped with a warning. Raises SSTCastError if the folder does not exist or
    is a damaged store.
    """
    if not folder.is_dir():
        raise SSTCastError(f"{folder}: no such folder; give a folder that `sstcast fetch` wrote to")
    if is_raw_store(folder):
        return [open_raw_store(folder)]
    stores = []
    for path in sorted(folder.glob("[!.]*/")):
        if is_raw_store(path):
            try:
                stores.append(open_raw_store(path))
            except SSTCastError as error:
                LOG.warning(str(error))
    return stores


def open_days(path: Path) -> xr.Dataset:
    """Open the days present in a raw store lazily, as `sst(time, lat, lon)` in degC and `status(time)`.

    Raises SSTCastError if the store is damaged, now or when values are computed.
    """
    contents = open_raw_store(path)
    day_indices = np.flatnonzero(contents.status)
    is_contiguous = day_indices.size and day_indices[-1] - day_indices[0] + 1 == day_indices.size
    # A slice keeps dask's chunks, but an index array would split them.
    return contents.dataset.isel(
        time=slice(int(day_indices[0]), int(day_indices[-1]) + 1) if is_contiguous else day_indices
    )
