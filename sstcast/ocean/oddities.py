"""Checks whether a field can be a day of SST, from its land mask, the climatology and the neighbouring days.

A file may be complete and readable and still hold something else: another variable called sst, other units, or a
globe rotated by some degrees.
"""

import datetime as dt
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sstcast.ocean.days import FILL, Packed
from sstcast.ocean.land import land_mask
from sstcast.ocean.simulated_climate import climatology

AROUND = 3  # a day is compared with this many days before and after it
SPARSE = 8  # step in rows and columns for the comparison with the climatology


def oddity(
    field: Packed, lat: NDArray[np.float64], lon: NDArray[np.float64], day: dt.date, simulated: bool
) -> str:
    """Return why `field[lat, lon]`, in hundredths of degC, cannot be a day of SST; "" if it can.

    `lat` and `lon` are centres of 0.25 degree cells in any order. The land mask may differ in 3 cells per thousand
    plus two; a rotation by one column changes 9 per thousand.
    """
    wrong = int(np.count_nonzero((field == FILL) != land_mask(lat, lon, simulated)))
    if wrong > 2 + 0.003 * field.size:
        return f"its land is not the expected mask: {wrong} of {field.size} cells differ"
    some, places = field[::SPARSE, ::SPARSE], (lat[::SPARSE], lon[::SPARSE])
    wet = some != FILL
    if not wet.any():
        return ""
    expected = climatology(day.toordinal() + 365, *places)
    off = float(np.abs(some / 100 - expected)[wet].mean())
    # The climatology is rough: a real day differs from it by 1.2 degC over the globe, by up to 7 in 8 x 8 degrees.
    limit = 4.0 if field.size > 500_000 else 6.0 if field.size > 50_000 else 10.0
    return f"sst differs by {off:.0f} degC from the climatology on average" if off > limit else ""


def contradicted(day: dt.date, field: Packed, others: Mapping[dt.date, Packed]) -> str:
    """Return how `field` differs from most of its neighbouring days in `others`; "" if it does not.

    From one day to the next, OISST changes by at most 0.8 degC averaged over 32 x 32 cells, and by 3 degC in a
    single cell (35 years of the sample); the limits are about three times that.
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
    return f"differs by {changes[worst]:.1f} degC on average from {worst}, which no ocean can do"
