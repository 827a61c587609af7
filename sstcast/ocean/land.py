"""Land masks of the 0.25 degree grid: from OISST itself, and from Natural Earth's coastlines."""

import gzip
import json
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sstcast.files import packaged
from sstcast.geo import Box

GLOBE = Box(0, 360, -90, 90)


def land_mask(lat: ArrayLike, lon: ArrayLike, simulated: bool = False) -> NDArray[np.bool_]:
    """Return a mask `[lat, lon]` of the 0.25 degree cells at these coordinates that are land.

    The land mask of OISST never changes, and is the same in version 2.0. On `simulated` days, land is every cell
    whose centre is on land in Natural Earth, 1:50m.
    """
    row = np.clip(np.floor((np.asarray(lat, float) + 90) * 4).astype(int), 0, 719)
    column = np.floor(np.asarray(lon, float) % 360 * 4).astype(int) % 1440
    return (_natural_earth() if simulated else _oisst())[np.ix_(row, column)]


@cache
def _oisst() -> NDArray[np.bool_]:
    bits = np.frombuffer(gzip.decompress(packaged("data/map/oisst_land.gz").read_bytes()), np.uint8)
    return np.unpackbits(bits).astype(bool).reshape(GLOBE.shape)


@cache
def _natural_earth() -> NDArray[np.bool_]:
    import shapely  # slow to load, and only the simulator needs it

    collection = json.loads(gzip.decompress(packaged("data/map/ne_50m_land.geojson.gz").read_bytes()))
    shapes: Any = shapely.from_geojson([json.dumps(feature["geometry"]) for feature in collection["features"]])
    land = shapely.multipolygons(shapely.get_parts(shapes))
    shapely.prepare(land)
    inside: NDArray[np.bool_] = shapely.contains_xy(land, *np.meshgrid((GLOBE.lon + 180) % 360 - 180, GLOBE.lat))
    return inside
