"""Lead weeks: days 1 to 7 of a forecast, 8 to 14, and so on."""

import numpy as np
from numpy.typing import NDArray

WEEK = 7  # days


def lead_weeks(leads: NDArray[np.integer]) -> NDArray[np.integer]:
    """Return the week of each lead. Weeks count from 0, leads from 1."""
    return (leads - 1) // WEEK


def week_starts(leads: NDArray[np.integer]) -> NDArray[np.intp]:
    """Return the positions at which lead weeks begin in ascending `leads`, which may omit days."""
    return np.unique(lead_weeks(leads), return_index=True)[1]
