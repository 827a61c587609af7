"""The command `status`: summarises the days on disk."""

import datetime as dt
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from sstcast.errors import SSTCastError
from sstcast.ocean.raw import FIRST_DAY, day_ranges, is_raw_store, open_raw_store


@dataclass(frozen=True)
class StoreStatus:
    """The contents of a raw store: the `origin` of each day in order, such as `aws` or `aws_preliminary`.

    `title` tells whether the data are observed or simulated, and `size` is in bytes.
    """

    path: Path
    title: str
    origin: dict[dt.date, str]
    size: int

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
        return [(a[1] + _DAY, b[0] - _DAY) for a, b in pairwise(runs)]

    def lines(self) -> list[str]:
        """Format the description as lines of text."""
        if not self.origin:
            return [f"{self.path}: no days"]
        first, *_, last = [*self.origin, *self.origin]
        lines = [
            f"{self.path}: {len(self.origin)} days, {first}..{last}, {self.size / 1e6:.1f} MB",
            f"  {self.title}",
            "  source: " + ", ".join(f"{name} {count}" for name, count in self.sources.items()),
            "  year: " + ", ".join(f"{year} {count}" for year, count in self.years.items()),
        ]
        lines += [f"  gap: {a}..{b} ({(b - a).days + 1} days)" for a, b in self.gaps]
        for a, b, _ in day_ranges(dict.fromkeys(self.preliminary, "")):
            lines.append(f"  preliminary: {a}..{b} ({(b - a).days + 1} days)")
        return lines


_DAY = dt.timedelta(days=1)


def status(directory: Path, complain: Callable[[str], object] = print) -> list[StoreStatus]:
    """Describe `directory` if it is a raw store, otherwise all raw stores directly inside it, in order of name.

    Damaged stores inside `directory` are skipped and reported to `complain`. Raises SSTCastError if the folder
    does not exist or is a damaged store.
    """
    if not directory.is_dir():
        raise SSTCastError(f"{directory}: no such folder; give a folder that `sstcast fetch` wrote to")
    if is_raw_store(directory):
        return [_describe(directory)]
    found = []
    for path in sorted(directory.glob("*/")):
        if is_raw_store(path) and not path.name.startswith("."):
            try:
                found.append(_describe(path))
            except SSTCastError as error:
                complain(str(error))
    return found


def _describe(path: Path) -> StoreStatus:
    held = open_raw_store(path)
    origin = {FIRST_DAY + int(i) * _DAY: held.words[held.status[i]] for i in np.flatnonzero(held.status)}
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return StoreStatus(path, held.title, origin, size)
