"""Variables beside a field that call its values land, or of which quality they are."""

import re
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import xarray as xr

QUALITY, BEST = "quality_level", 5  # of GHRSST, if the file does not say which is the best
GOOD = re.compile("(best|good)(_quality|_data)?", re.I)  # the meaning of a flag

Keeps = Callable[[xr.DataArray], xr.DataArray]  # from flags to whether the values beside them are kept


def is_flag(stored: xr.DataArray) -> bool:
    """Return whether a variable holds flags."""
    return str(stored.name).lower() == QUALITY or "flag_meanings" in stored.attrs


def flags_beside(dataset: xr.Dataset, name: str, notes: list[str]) -> Iterator[tuple[str, Keeps]]:
    """Yield the variables that flag a field called `name`, and which of its values each of them keeps.

    Those of the best quality are kept, and those that are not land. Adds to `notes` which variables are used and
    which are not.
    """
    for flag in filter(is_flag, dataset.data_vars.values()):
        if flag.ndim < 2:  # of days
            continue
        meanings = str(flag.attrs.get("flag_meanings", "")).split()
        bits, values = (np.atleast_1d(flag.attrs.get(key, [])) for key in ("flag_masks", "flag_values"))
        codes = bits if bits.size else values
        code = dict(zip(meanings, codes.tolist(), strict=False)) if codes.dtype.kind in "iuf" else {}
        best = [number for meaning, number in code.items() if GOOD.fullmatch(meaning) and not bits.size]
        best = best or [BEST] * (str(flag.name).lower() == QUALITY)
        if flag.dims != dataset[name].dims or not (best or "land" in code):
            notes.append(f"without regard to the flags in {flag.name}")
        elif best:
            notes.append(f"where {flag.name} is {', '.join(map(str, best))}, the best, alone")
            yield str(flag.name), partial(_is_one_of, best)
        else:
            notes.append(f"without land of {flag.name}, whose other flags are not used")
            yield str(flag.name), partial(_is_not_land, code["land"], bool(bits.size))


def _is_one_of(best: list[float], flags: xr.DataArray) -> xr.DataArray:
    return flags.isin(best)


def _is_not_land(land: int, in_bits: bool, flags: xr.DataArray) -> xr.DataArray:
    return (flags.fillna(0).astype(int) & land) == 0 if in_bits else flags != land
