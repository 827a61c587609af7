"""Temperatures above or below which days are forecast and verified."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sstcast.errors import SSTCastError
from sstcast.types import Array, Mask

ABOVE, BELOW = SIDES = ("above", "below")  # the sides of a temperature, which begin the names of fields
LOWEST, HIGHEST = -2.0, 45.0  # degC
EQUAL_DEGREES = np.float32(1e-4)  # by which equal temperatures differ, as they were computed or their unit changed


class Temperatures(NamedTuple):
    """The temperatures in degC above and below which days are forecast."""

    above: tuple[float, ...] = ()
    below: tuple[float, ...] = ()


def exceeds(temperature: Array, limit: Array | np.float32) -> Mask:
    """Return whether temperatures exceed a limit, by more than `EQUAL_DEGREES`. Both are in the same unit."""
    above: Mask = temperature > limit + EQUAL_DEGREES
    return above


def temperatures(text: str | float | Sequence[float] | None, option: str = "--above") -> tuple[float, ...]:
    """Read temperatures in degC, numbers or a text with commas between them, and return each once, in order.

    `option` is named in errors.

    Raises SSTCastError if one is no number from `LOWEST` to `HIGHEST`, or two differ by `EQUAL_DEGREES` or less.
    """
    if text is None or (not isinstance(text, str) and np.size(text) == 0):
        return ()
    try:
        values = [float(part) for part in (text.split(",") if isinstance(text, str) else np.ravel(text))]
    except (TypeError, ValueError):
        values = [math.nan]
    if not values or not all(LOWEST <= value <= HIGHEST for value in values):
        raise SSTCastError(
            f"{option} {text}: give temperatures from {LOWEST:g} to {HIGHEST:g} degC, separated by commas"
        )
    found = sorted({value + 0.0 for value in values})  # one zero
    for value, after in pairwise(found):
        if after - value <= EQUAL_DEGREES or f"{value:g}" == f"{after:g}":  # by which scores and layers name them
            raise SSTCastError(f"{option} {text}: {value} and {after} cannot be told apart; give one of them")
    return tuple(found)
