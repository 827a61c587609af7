"""Which values of a field its file calls data: those in a valid range, of the best quality, and not on land."""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.errors import SSTCastError, counted
from sstcast.log import LOG

QUALITY, BEST = "quality_level", 5  # of GHRSST, if the file does not say which is the best
GOOD = [re.compile(f"{word}(_quality|_data)?", re.I) for word in ("best", "good")]  # meanings of a flag
OF_FLAGS = (" status_flag", " quality_flag")  # ends of the standard names of flags, after that of their field
SEA = {"land_binary_mask": 0, "sea_binary_mask": 1}  # the number of the sea in masks, by standard name
SEA_BY_NAME = {"mask_rho": 1, "tmask": 1, "wet": 1, "lsm": 0}
FLAG_TOLERANCE = 1e-5  # between a value in single precision and a flag
HALF = 0.5  # ECMWF's masks are shares of a cell
RANGES = ("valid_range", "valid_min", "valid_max")  # attributes
VALUES_AT_ONCE = 2**23  # of the first day, read at once

Keeps = Callable[[xr.DataArray], xr.DataArray]  # from flags to whether the values beside them are kept


@dataclass(frozen=True)
class Rule:
    """A rule by which values of a field are kept. `described` names it, at the end of a sentence.

    `keeps` are of the flags in the variable `name`, or of the field itself if it has no such flags.
    """

    described: str
    keeps: Keeps
    name: str = ""

    def __call__(self, values: xr.DataArray, dataset: xr.Dataset) -> xr.DataArray:
        """Return `values`, NaN where they are not kept. The flags in `dataset` lie on the same dimensions."""
        if not self.name:
            return self.keeps(values)
        flags = dataset[self.name]
        flags = flags.drop_vars(flags.coords).squeeze([dim for dim in flags.dims if dim not in values.dims])
        if values.chunks:
            flags = flags.chunk({dim: values.chunksizes[dim] for dim in flags.dims})
        return values.where(self.keeps(flags))


@dataclass
class ValidRange:
    """The range of the valid values of the field `name`, and the number of those outside in each block read."""

    name: str
    low: float
    high: float
    text: str
    outside: dict[tuple[int, ...], int] = field(default_factory=dict)

    def __call__(self, values: xr.DataArray) -> xr.DataArray:
        """Return `values`, NaN outside the range, which are counted if they are computed block by block."""
        kind = np.result_type(values.dtype, np.float32)
        if not values.chunks:
            return values.where((values >= kind.type(self.low)) & (values <= kind.type(self.high)))
        meta, name = np.empty((0,) * values.ndim, kind), f"valid-{uuid4().hex}"
        return values.copy(data=values.data.map_blocks(self._block, dtype=kind, meta=meta, name=name))

    def _block(self, values: NDArray[Any], block_id: tuple[int, ...]) -> NDArray[np.floating]:
        values = values.astype(np.result_type(values.dtype, np.float32), copy=False)
        inside = (values >= values.dtype.type(self.low)) & (values <= values.dtype.type(self.high))
        self.outside[block_id] = int((~inside & ~np.isnan(values)).sum())
        return np.where(inside, values, values.dtype.type(np.nan))


def valid_range(stored: xr.DataArray) -> ValidRange | None:
    """Return the range that the attributes of a variable state (CF conventions, section 2.5.1), if they do.

    A range of the type of packed numbers, or of whole numbers, is one of packed numbers. These are compared by
    their values, with a tolerance of half a step.
    """
    given = {key: np.atleast_1d(stored.attrs[key]) for key in RANGES if key in stored.attrs}
    ends = [-np.inf, np.inf]
    for key, numbers in given.items():
        if numbers.dtype.kind not in "iuf" or numbers.size != (2 if key == "valid_range" else 1):
            return None
        ends = [*map(float, numbers)] if key == "valid_range" else ends
        ends[key == "valid_max"] = float(numbers[0]) if key != "valid_range" else ends[0]
    if not given:
        return None
    low, high = sorted(unpacked(stored, np.concatenate([*given.values()]).dtype, ends))
    near = _half_step(stored)
    return ValidRange(str(stored.name), low - near, high + near, f"{' and '.join(given)} ({low:g}..{high:g})")


def tell_invalid(path: Path, ranges: Iterable[ValidRange | None]) -> None:
    """Log how many values of each field were read that lie outside the valid ranges of its files."""
    counts: dict[tuple[str, str], int] = {}
    for valid in filter(None, ranges):
        counts[valid.name, valid.text] = counts.get((valid.name, valid.text), 0) + sum(valid.outside.values())
    for (name, text), count in counts.items():
        if count:
            LOG.warning(f"{path}: {name} has {counted(count, 'value')} outside its {text}, taken as missing")


def unpacked(stored: xr.DataArray, kind: np.dtype[Any], numbers: list[float]) -> list[float]:
    """Return numbers of an attribute of a type, as values of the variable. Whole numbers are packed as it is."""
    packing = stored.encoding
    packed = np.dtype(packing.get("dtype", stored.dtype))
    if packed.kind in "iu" and str(packing.get("_Unsigned", "")).lower() == "true":
        numbers = [number % 2.0 ** (8 * packed.itemsize) if np.isfinite(number) else number for number in numbers]
    if kind.kind not in "iu" and kind != packed:
        return numbers
    scale, offset = (float(packing.get(key, usual)) for key, usual in (("scale_factor", 1), ("add_offset", 0)))
    return [number * scale + offset for number in numbers]


def _half_step(stored: xr.DataArray) -> float:
    """Return half of the difference between neighbouring packed values, or 0 if values are no whole numbers."""
    is_packed = np.dtype(stored.encoding.get("dtype", stored.dtype)).kind in "iu"
    return abs(float(stored.encoding.get("scale_factor", 1))) / 2 if is_packed else 0.0


def own_flags(stored: xr.DataArray, notes: list[str]) -> Iterator[Rule]:
    """Yield the rule that the values of a field that its own attributes call flags are missing."""
    codes = np.atleast_1d(stored.attrs.get("flag_values", []))
    if not codes.size or codes.dtype.kind not in "iuf":
        return
    numbers, near = unpacked(stored, codes.dtype, codes.tolist()), max(_half_step(stored), FLAG_TOLERANCE)
    told = f"without {', '.join(f'{number:g}' for number in numbers)}, which it calls flags"
    notes.append(told)
    yield Rule(told, partial(_unlike, numbers, near))


def is_flag(stored: xr.DataArray) -> bool:
    """Return whether a variable holds flags, or a mask of land or sea."""
    names = QUALITY, *SEA_BY_NAME
    is_mask = stored.attrs.get("standard_name") in SEA or "flag_meanings" in stored.attrs
    return is_mask or str(stored.name).lower() in names


def flags_beside(dataset: xr.Dataset, name: str, space: set[Hashable], notes: list[str]) -> Iterator[Rule]:
    """Yield the rules of the variables that flag a field called `name`, or mask it.

    Values of the best quality are kept, and those that are not land. If the field names flags of quality (CF
    conventions, section 3.4), only those judge it. One that only another variable names never does. Flags may lack
    dimensions of the field but those of its `space`. Adds to `notes` which variables are used and which are not.
    """
    beside = [variable for key, variable in {**dataset.data_vars, **dataset.coords}.items() if key != name]
    flags = [flag for flag in beside if is_flag(flag)]
    own = _named_by(dataset[name], flags)
    others = {key for variable in beside for key in _named_by(variable, flags)} - own
    if any(str(flag.name) in own and _best(flag) for flag in flags):
        others = {str(flag.name) for flag in flags} - own
    for flag in flags:
        dims = {dim for dim, size in flag.sizes.items() if size > 1 or dim in dataset[name].dims}
        if not space <= dims:  # of days
            continue
        meanings, codes = _meanings(flag)
        code = dict(zip(meanings, codes, strict=False))
        best = [] if str(flag.name) in others else _best(flag)
        sea = SEA.get(str(flag.attrs.get("standard_name")), SEA_BY_NAME.get(str(flag.name).lower()))
        if not dims <= {*dataset[name].dims} or not (best or "land" in code or sea is not None):
            notes.append(f"without regard to the flags in {flag.name}")
            continue
        if best:
            told = f"where {flag.name} is {', '.join(map(str, best))}, the best, alone"
            keeps: Keeps = partial(_is_one_of, best)
        elif "land" in code:
            lakes = [meaning for meaning in meanings if "lake" in meaning.lower()]
            told = f"without land of {flag.name}, whose other flags are not used"
            told += f"; {' and '.join(lakes)} of it stay sea" if lakes else ""
            keeps = partial(_is_not_land, code["land"], "flag_masks" in flag.attrs)
        else:
            by = "standard name" if flag.attrs.get("standard_name") in SEA else "name"
            told = f"where {flag.name} is {sea}, the sea by its {by}, alone"
            keeps = partial(_is_sea, bool(sea))
        notes.append(told)
        yield Rule(told, keeps, str(flag.name))


def rules_of(dataset: xr.Dataset, name: str, space: set[Hashable], notes: list[str]) -> list[Rule]:
    """Return all rules by which values of a field called `name` are kept (see `flags_beside`)."""
    valid = valid_range(dataset[name])
    rules = [Rule(f"in its {valid.text}", valid)] if valid else []
    return [*rules, *own_flags(dataset[name], notes), *flags_beside(dataset, name, space, notes)]


def _meanings(flag: xr.DataArray) -> tuple[list[str], list[Any]]:
    """Return the meanings of flags, and their bits or numbers."""
    codes = np.atleast_1d(flag.attrs.get("flag_masks", flag.attrs.get("flag_values", [])))
    return str(flag.attrs.get("flag_meanings", "")).split(), codes.tolist() if codes.dtype.kind in "iuf" else []


def _best(flag: xr.DataArray) -> list[Any]:
    """Return the numbers of the best quality, if a variable has them."""
    if "flag_masks" not in flag.attrs:
        code = [*zip(*_meanings(flag), strict=False)]
        for good in GOOD:
            if best := [number for meaning, number in code if good.fullmatch(meaning)]:
                return best
    return [BEST] * (str(flag.name).lower() == QUALITY)


def _named_by(variable: xr.DataArray, flags: Iterable[xr.DataArray]) -> set[str]:
    """Return the names of the flags that are a variable's own by its attributes or their standard names."""
    stated = str({**variable.encoding, **variable.attrs}.get("ancillary_variables", "")).split()
    kind = variable.attrs.get("standard_name", "")
    of_kind = {f"{kind}{end}" for end in OF_FLAGS} if kind else set()
    return {str(flag.name) for flag in flags if flag.name in stated or flag.attrs.get("standard_name") in of_kind}


def check_some_left(
    rule: Rule, stored: xr.DataArray, dataset: xr.Dataset, space: set[Hashable], path: Path
) -> None:
    """Raise SSTCastError if a `rule` keeps no value of the first day of a field, which is read in parts."""
    dims = [dim for dim in stored.dims if dim in space]
    first = dict.fromkeys([dim for dim in stored.dims if dim not in space], 0)
    rows = max(1, VALUES_AT_ONCE * stored.sizes[dims[0]] // max(1, int(np.prod([stored.sizes[d] for d in dims]))))
    had_values = False
    for begin in range(0, stored.sizes[dims[0]], rows):
        part = first | {dims[0]: slice(begin, begin + rows)}
        values = stored.isel(part).load()
        beside = dataset[[rule.name]].isel(part, missing_dims="ignore").load() if rule.name else dataset
        if bool(rule(values, beside).notnull().any()):
            return
        had_values |= bool(values.notnull().any())
    if had_values:
        raise SSTCastError(
            f"{path}: {stored.name} has no value on its first day if it is read {rule.described}; correct the file"
        )


def _unlike(numbers: list[float], near: float, values: xr.DataArray) -> xr.DataArray:
    for number in numbers:
        values = values.where(abs(values - number) > near)
    return values


def _is_one_of(best: list[float], flags: xr.DataArray) -> xr.DataArray:
    return flags.isin(best)


def _is_not_land(land: int, in_bits: bool, flags: xr.DataArray) -> xr.DataArray:
    return (flags.fillna(0).astype(int) & land) == 0 if in_bits else flags != land


def _is_sea(sea: bool, mask: xr.DataArray) -> xr.DataArray:
    return (mask > HALF) == sea
