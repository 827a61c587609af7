"""Conventions for downloaded days: how values are packed, where they came from, which block they belong to."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Packed = NDArray[np.int16]  # hundredths of degC

FILL = -999
FIRST_DAY = dt.date(1981, 9, 1)
BLOCK = 32  # days per chunk; the store is written one chunk at a time

# Names for the status of a day, in the order of their numbers. Every store begins with these, also `simulator`,
# which is no source any more; another source appends its two names to the stores that hold its days.
STATUS = (
    "missing",
    *(
        f"{name}{end}"
        for name in ("aws", "ncei", "psl", "erddap", "mirror", "sample", "simulator")
        for end in ("", "_preliminary")
    ),
)


@dataclass(frozen=True)
class Day:
    """A day to store: `field` is `[lat, lon]` in hundredths of degC; `notice` is empty unless simulated."""

    field: Packed
    origin: str
    preliminary: bool
    notice: str = ""


def pack(celsius: NDArray[Any]) -> Packed:
    """Round degC to hundredths; NaN becomes `FILL`."""
    return np.where(np.isnan(celsius), FILL, np.rint(celsius * 100.0)).astype(np.int16)


def block_of(day: dt.date) -> int:
    """Return the number of the block that contains `day`."""
    return (day - FIRST_DAY).days // BLOCK


def is_final(status: int) -> bool:
    """Return whether a status number stands for a final day, one that will not change."""
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
