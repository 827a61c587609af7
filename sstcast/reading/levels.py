"""Vertical axes: which axis of a field is one, and which of its levels is at the surface."""

import re

import numpy as np
import xarray as xr

DEPTHS = ("depth", "deptht", "z_l", "st_ocean")  # names that alone tell: down, or up if all values are negative
# Names that alone do not tell which end is the surface.
AMBIGUOUS_LEVELS = ("lev", "level", "olevel", "zlev", "k", "s_rho")
VERTICAL = (*DEPTHS, *AMBIGUOUS_LEVELS[:4])  # names of coordinates
PRESSURES = re.compile("(deci|milli|h|hecto|k|kilo|m|d)?(bars?|pa|pascals?)", re.I)  # units
UP = re.compile("(ocean_.*_coordinate.*|height|altitude)")  # standard names; an s-coordinate is 0 at the surface
DOWN = re.compile("(.*_)?(pressure|depth)(_.*)?")
SURFACE = "take the surface, for instance ds.isel({dim}=0), or of ROMS ds.isel(s_rho=-1), and save it"


def is_vertical(name: str, axis: xr.DataArray) -> bool:
    """Return whether an axis is vertical by its attributes (CF conventions, section 4.3), or else by its name."""
    attributes = axis.attrs
    letters = {str(attributes.get(key, "")) for key in ("axis", "cartesian_axis")}
    standard_name = str(attributes.get("standard_name", ""))
    return (
        name.lower() in (*DEPTHS, *AMBIGUOUS_LEVELS)
        or "Z" in letters
        or str(attributes.get("positive", "")).lower() in ("up", "down")
        or bool(UP.fullmatch(standard_name) or DOWN.fullmatch(standard_name))
        or bool(PRESSURES.fullmatch(str(attributes.get("units", ""))))
    )


def surface(axis: xr.DataArray) -> int | None:
    """Return the index of the level at the surface on a vertical axis, or None if nothing tells it.

    It has the largest value on an axis that is positive up, and the smallest on others. The names of depths alone
    mean down if no value is negative, and up if all are.
    """
    values, standard_name = axis.values, str(axis.attrs.get("standard_name", ""))
    if values.dtype.kind not in "iuf" or not np.isfinite(values).all():
        return None
    by_depth = "down" if (values >= 0).all() else "up" if (values <= 0).all() else ""
    positive = str(axis.attrs.get("positive", "")).lower()
    if positive not in ("up", "down"):
        positive = (
            "up"
            if UP.fullmatch(standard_name)
            else "down"
            if PRESSURES.fullmatch(str(axis.attrs.get("units", ""))) or "pressure" in standard_name
            else by_depth
            if DOWN.fullmatch(standard_name) or str(axis.name).lower() in DEPTHS
            else ""
        )
    if not positive:
        return None
    return int(values.argmax() if positive == "up" else values.argmin())
