"""Units of temperature and of lengths: the spellings that files use, and their conversion to degC and metres."""

import itertools
import unicodedata
from pathlib import Path

from sstcast.errors import SSTCastError

# degC = factor * value + zero
_SCALES = {
    "degC": (1.0, 0.0),
    "K": (1.0, -273.15),
    "mK": (0.001, -273.15),
    "degF": (5 / 9, -160 / 9),
}
_DEGREES = ("", "deg", "degs", "degree", "degrees", "°", "â°")  # the last is ° in UTF-8, read as Latin-1
_NAMES = {
    "degC": ("c", "celsius", "celcius", "centigrade"),
    "K": ("k", "kelvin", "kelvins"),
    "degF": ("f", "fahrenheit", "farenheit"),
}
# Every accepted spelling, as `_plain` leaves it. ITS-90 is the temperature scale in use since 1990.
_SPELLINGS = {
    f"{degrees}{name}{suffix}": scale
    for scale, names in _NAMES.items()
    for degrees, name, suffix in itertools.product(_DEGREES, names, ("", "its-90"))
}
_SPELLINGS |= {
    "cel": "degC",
    "oc": "degC",
    "celsiusdegree": "degC",
    "celsiusdegrees": "degC",
    "celsiusscale": "degC",
}
_SPELLINGS |= {"mk": "mK", "millikelvin": "mK"}

_LENGTHS = {
    f"{prefix}{name}": size for prefix, size in (("", 1.0), ("kilo", 1000.0)) for name in ("meter", "metre")
}
_LENGTHS |= {f"{name}s": size for name, size in _LENGTHS.items()} | {"m": 1.0, "km": 1000.0}


def metres(units: str, path: Path | str, variable: object) -> float:
    """Return the metres in a unit of length, as a file spells it. Raises SSTCastError if it is none."""
    if (size := _LENGTHS.get(_plain(units))) is None:
        raise SSTCastError(
            f"{path}: {units!r} is not a unit of length that sstcast knows, m or km; correct `units` of {variable}"
        )
    return size


def celsius(units: str, path: Path | str, variable: str, key: str = "data.units") -> tuple[float, float]:
    """Return (factor, zero) such that degC = factor * value + zero. Differences have no zero.

    Args:
        units: the units as the file spells them.
        path: the path for messages.
        variable: the variable that has these units, for messages.
        key: the key or option that overrides the units of the file, if any.

    Raises:
        SSTCastError: `units` is not in the table of spellings.
    """
    if (scale := _SPELLINGS.get(_plain(units))) is None:
        override = f"set {key} to degC or K, or " if key else ""
        raise SSTCastError(
            f"{path}: {units!r} is not a unit of temperature; {override}correct the attribute `units` of "
            f"{variable}, for instance with `ncatted -a units,{variable},o,c,degC FILE`"
        )
    return _SCALES[scale]


def is_temperature(units: str) -> bool:
    """Return whether a file's spelling is one of a unit of temperature."""
    return _plain(units) in _SPELLINGS


def _plain(units: str) -> str:
    """Return a spelling in lower case, without blanks, underscores, dots and brackets, and with ° as its sign."""
    sign = units.replace("º", "°").replace("˚", "°")
    text = unicodedata.normalize("NFKC", sign).casefold()  # also turns ℃ into °c
    return text.translate(str.maketrans("", "", " \t\n\xa0_.()[]"))
