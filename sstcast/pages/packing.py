"""Fields packed for a web page: ocean cells only, as steps of a fixed size, deflated and written as text."""

import base64
import zlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MISSING = np.iinfo(np.int16).min
LARGEST = np.iinfo(np.int16).max


class Packed(NamedTuple):
    """An array as `parts.js` unpacks it: `step` is the difference between two neighbouring values."""

    rows: int
    columns: int
    step: float
    text: str


def pack(values: NDArray[Any], step: float) -> Packed:
    """Pack `values[row, column]`, rounded to multiples of `step`; NaN is kept, values too large are cut off.

    Neighbouring rows (days) differ little. So the differences of rows are stored, wrapped around at 16 bits, all
    their low bytes before all their high bytes: this deflates to less than half of the values themselves.
    """
    counts = np.clip(np.round(np.nan_to_num(values / step, posinf=LARGEST, neginf=-LARGEST)), -LARGEST, LARGEST)
    whole = np.where(np.isnan(values), MISSING, counts).astype("<i2").view("<u2")
    whole[1:] -= whole[:-1].copy()
    halves = np.ascontiguousarray(whole).view(np.uint8).reshape(-1, 2).T.tobytes()
    rows, columns = values.shape
    return Packed(rows, columns, step, base64.b64encode(zlib.compress(halves)).decode())
