"""Whether a field can be a day of sea surface temperature: by its land, the climate, and the days around it.

A file may be whole and readable and yet hold something else: another variable called sst, other units, or the
globe turned by some degrees.
"""

import datetime as dt
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sstcast.ocean.days import FILL, Packed
from sstcast.ocean.land import land_mask
from sstcast.ocean.simulated_climate import climatology

AROUND = 3  # days before and after that a day is compared with
SPARSE = 8  # every so many rows and columns are enough to compare with the climate


def oddity(
    field: Packed, lat: NDArray[np.float64], lon: NDArray[np.float64], day: dt.date, simulated: bool
) -> str:
    """Return what tells that `field[lat, lon]`, in hundredths of degC, is no day of the ocean; "" if nothing.

    `lat` and `lon` are centres of 0.25 degree cells in any order. Of the land 3 cells in a thousand and two more
    may differ; a turn by one column moves 9.
    """
    wrong = int(np.count_nonzero((field == FILL) != land_mask(lat, lon, simulated)))
    if wrong > 2 + 0.003 * field.size:
        return f"its land is not that of the ocean's grid: {wrong} of {field.size} cells differ"
    some, places = field[::SPARSE, ::SPARSE], (lat[::SPARSE], lon[::SPARSE])
    wet = some != FILL
    if not wet.any():
        return ""
    expected = climatology(day.toordinal() + 365, *places)
    off = float(np.abs(some / 100 - expected)[wet].mean())
    # The climate is roughly drawn: a real day is off by 1.2 degC over the globe, by up to 7 over 8 x 8 degrees.
    limit = 4.0 if field.size > 500_000 else 6.0 if field.size > 50_000 else 10.0
    return f"sst is {off:.0f} degC from the climate on average" if off > limit else ""


def contradicted(day: dt.date, field: Packed, others: Mapping[dt.date, Packed]) -> str:
    """Return how `field` differs from most of the days around it among `others`; "" if it does not.

    From one day to the next OISST changes by 0.8 degC at most on average over 32 x 32 cells, and by 3 degC in
    a single cell (35 years of the sample); limits are about three times that.
    """
    changes: dict[dt.date, float] = {}
    near = [other for other in others if other != day and abs((other - day).days) <= AROUND]
    for other in near:
        wet = (field != FILL) & (others[other] != FILL)
        if (count := int(wet.sum())) == 0:
            continue
        change = np.abs(field[wet].astype(np.float32) - others[other][wet]).mean() / 100
        if change > 1.0 + abs((other - day).days) + 6 / np.sqrt(count):
            changes[other] = float(change)
    if 2 * len(changes) <= len(near):
        return ""
    worst = max(changes, key=changes.__getitem__)
    return f"differs by {changes[worst]:.1f} degC on average from {worst}, which is no ocean"
