"""Probabilities and shares in words: in whole per cent, of which neither 0 nor 1 is certain."""

from collections.abc import Sequence
from typing import Any

import numpy as np

ROUNDING = 6  # decimals that single precision keeps of a share: 0.01 and 0.99 are 1 % and 99 %


def in_percent(shares: Any) -> Any:
    """Round shares to whole per cent. 0.5 and 99.5 stand for those below 1 % and above 99 %.

    0 and 1 themselves are 0 and 100 %, and NaN is kept.
    """
    values = np.round(np.asarray(shares, float), ROUNDING)
    within = np.where((values > 0) & (values < 0.01), 0.5, np.round(100 * values))
    return np.where((values > 0.99) & (values < 1), 99.5, within)


def chance(share: float) -> str:
    """Write a probability or a share in per cent."""
    percent = float(in_percent(share))
    return "< 1 %" if percent < 1 else "> 99 %" if percent > 99 else f"{percent:.0f} %"


def between(ends: Sequence[float]) -> str:
    """Write two ends of an interval of a share, as 7 to 47 %."""
    low, high = map(chance, ends)
    return f"{low.removesuffix(' %')} to {high}"
