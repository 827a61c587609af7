"""Means over boxes of the ocean, the Niño indices among them; cells count by their area."""

import numpy as np
import xarray as xr

from sstcast.config import load_region
from sstcast.errors import SSTCastError
from sstcast.geo import Box, area_weights

# Trenberth (1997), Bull. Amer. Meteor. Soc. 78; NOAA Climate Prediction Center.
NINO: dict[str, Box] = {
    "nino12": Box(270, 280, -10, 0),
    "nino3": Box(210, 270, -5, 5),
    "nino34": Box(190, 240, -5, 5),
    "nino4": Box(160, 210, -5, 5),
}


def box_of(name: str) -> Box:
    """Return a box by name: a Niño box or a region of `configs/regions.yaml`.

    Raises SSTCastError if neither has that name.
    """
    if name in NINO:
        return NINO[name]
    return load_region(name).bounds


def covers(tiled: xr.DataArray, box: Box) -> bool:
    """Return whether the cells of the mask `tiled(lat, lon)` leave no part of `box` out."""
    lat, lon = tiled["lat"], tiled["lon"]
    step_lat, step_lon = (float(axis[1] - axis[0]) if len(axis) > 1 else np.inf for axis in (lat, lon))
    cells = box.contains(lat, lon)
    expected = (box.north - box.south) / step_lat * box.width / step_lon
    return bool((cells & tiled).sum() == cells.sum() >= round(expected))


def box_mean(field: xr.DataArray, box: str | Box | tuple[float, float, float, float]) -> xr.DataArray:
    """Return the area-weighted mean of `field(..., lat, lon)` over the box, land (NaN) left out.

    `box` is a name for `box_of`, or west, east, south and north in degrees. Raises SSTCastError if no cell of
    the box holds a value.
    """
    place = box_of(box) if isinstance(box, str) else box if isinstance(box, Box) else Box(*box)
    cells = field.where(place.contains(field["lat"], field["lon"]))
    first = cells.isel({d: 0 for d in field.dims if d not in ("lat", "lon")})
    if not bool(first.notnull().any()):
        raise SSTCastError(f"{box}: no ocean in this box of the forecasts; choose one inside their region")
    return cells.weighted(area_weights(field["lat"])).mean(["lat", "lon"])
