"""The vocabulary of fetched days: where a day came from, and the block it is kept in."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

from sstcast.ocean.oddities import Packed
from sstcast.sources.sources import FIRST_DAY

BLOCK = 32  # days a chunk, and so a commit
ORIGINS = ("aws", "ncei", "psl", "erddap", "mirror", "sample", "simulator")
STATUS = ("missing", *(name + end for name in ORIGINS for end in ("", "_preliminary")))


@dataclass(frozen=True)
class Day:
    """A day to keep: `field` is `[lat, lon]` in hundredths of degC; `notice` is not empty if simulated."""

    field: Packed
    origin: str
    preliminary: bool
    notice: str = ""

    @property
    def status(self) -> int:
        """The day's number in `STATUS`."""
        return 1 + 2 * ORIGINS.index(self.origin) + self.preliminary


def block_of(day: dt.date) -> int:
    """Return the number of the block of days that `day` is in."""
    return (day - FIRST_DAY).days // BLOCK


def is_final(status: int) -> bool:
    """Return whether a number in `STATUS` stands for a day that will not change."""
    return status % 2 == 1


def day_ranges(days: Mapping[dt.date, str]) -> list[tuple[dt.date, dt.date, str]]:
    """Sum up days as runs (first, last, text) of consecutive days that share a text."""
    runs: list[tuple[dt.date, dt.date, str]] = []
    for day in sorted(days):
        if runs and (day - runs[-1][1]).days == 1 and runs[-1][2] == days[day]:
            runs[-1] = (runs[-1][0], day, days[day])
        else:
            runs.append((day, day, days[day]))
    return runs
