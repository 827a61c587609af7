"""Temperatures above which days are forecast and verified."""

import math
from collections.abc import Sequence

import numpy as np

from sstcast.errors import SSTCastError

LOWEST, HIGHEST = -2.0, 45.0  # degC


def temperatures(text: str | float | Sequence[float] | None) -> tuple[float, ...]:
    """Read temperatures in degC, numbers or a text with commas between them, and return each once, in order.

    Raises SSTCastError if one is no number from `LOWEST` to `HIGHEST`.
    """
    if text is None or (isinstance(text, tuple) and not text):
        return ()
    try:
        values = [float(part) for part in (text.split(",") if isinstance(text, str) else np.ravel(text))]
    except (TypeError, ValueError):
        values = [math.nan]
    if not values or not all(LOWEST <= value <= HIGHEST for value in values):
        raise SSTCastError(
            f"--above {text}: give temperatures from {LOWEST:g} to {HIGHEST:g} degC, separated by commas"
        )
    return tuple(sorted({value + 0.0 for value in values}))  # one zero
