"""Days with filled gaps: they hold values from their future, so forecasts do not begin on them."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sstcast.config import DataConfig
from sstcast.errors import SSTCastError
from sstcast.ocean.prepared import Prepared
from sstcast.ocean.splits import starts_of
from sstcast.reading.gaps import filled_shares

MOST_FILLED = 1e-3  # largest share of the sea that may be filled on an initial date that is scored

Days = NDArray[np.datetime64]


def shares_on(prepared: Prepared, days: Days) -> NDArray[np.float64]:
    """Return the share of the sea's cells that were filled on each of some days of the record."""
    if not prepared.data.gaps:
        return np.zeros(days.shape)
    shares: NDArray[np.float64] = filled_shares(prepared.open_cube()).to_series().reindex(days.ravel()).values
    return shares.reshape(days.shape)


def may_begin(shares: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return on which days a forecast may begin, by the share of the sea that was filled on each."""
    return shares <= MOST_FILLED


def is_known(prepared: Prepared, dates: Days) -> NDArray[np.bool_]:
    """Return on which `dates` of the record forecasts may begin, so that those from them are scored."""
    return may_begin(shares_on(prepared, dates))


def check_test_dates(prepared: Prepared, every: int = 1) -> None:
    """Raise SSTCastError if no initial date `every` days apart of the test days would be scored."""
    if not is_known(prepared, _test_dates(prepared.data, every)).any():
        first, last = prepared.data.splits.test
        raise SSTCastError(
            f"data.gaps: on all initial dates in {first}..{last}, more than {MOST_FILLED:.1%} of the sea was "
            "filled, so no forecast could be scored; choose other test days, or add the missing ones"
        )


def left_out(prepared: Prepared, every: int = 1) -> int:
    """Return how many initial dates `every` days apart of the test days are not scored."""
    return int((~is_known(prepared, _test_dates(prepared.data, every))).sum())


def _test_dates(data: DataConfig, every: int) -> Days:
    """Return the initial dates of the test days, of windows that `cut_windows` makes."""
    days = pd.date_range(*data.splits.test).values
    return days[starts_of(len(days), data.history, data.horizon)[::every] + data.history - 1]
