"""Predictors of `kind: static`, a field that does not change, such as depth or the distance to the coast.

A store has it on one day, which stands for all.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.config import COAST_DISTANCE
from sstcast.errors import SSTCastError, counted
from sstcast.geo import EARTH_RADIUS
from sstcast.predictors import grid
from sstcast.predictors.newest import Days, Places
from sstcast.predictors.predictor import Kind, Predictor
from sstcast.predictors.values import scale_of
from sstcast.reading.any_grid import LEAST_KNOWN
from sstcast.reading.daily_field import read_parts
from sstcast.reading.fields import CELLS, Found, find_field
from sstcast.reading.flags import tell_invalid
from sstcast.reading.reading import placed

# Standard and other names of a height of the ground or a depth of the sea, but not of the height of a wave.
HEIGHT = re.compile(
    r"((surface|bedrock|ground_level|sea_floor)_)?(altitude|height|depth)(_(above|below)_\w+)?"
    r"|elev(ation)?|topo(graphy)?|bathy(metry)?|deptho",
    re.I,
)
UNNAMED_HEIGHTS = ("z", "band1", "bed")  # names of heights in files of GMT, GDAL and BedMachine, and of others
ANY_DAY = np.datetime64("2000-01-01", "ns")  # of a field that has no time


@contextmanager
def read(predictor: Predictor, cells: xr.Dataset, given: Any) -> Iterator[tuple[xr.DataArray, xr.DataArray]]:
    """Read or compute a field that does not change (see `Kind.read`). Raises SSTCastError if it does."""
    path, days = predictor.config.path, predictor.config
    if given is not None:
        raise SSTCastError(f"predictors: {predictor.name} does not change; leave it out")
    if days.source == COAST_DISTANCE:
        try:
            distance = distance_to_coast(cells["ocean_mask"]).rename("value")
        except SSTCastError as error:
            raise SSTCastError(f"{predictor.key}: {error}") from error
        values = distance.expand_dims(time=[ANY_DAY])
        yield values, values
        return
    options = {"variable": days.variable, "units": days.units, "any_grid": True}
    first, *others = read_parts(path, partial(_static_field, options=options))
    if others or first.field.sizes["time"] > 1:
        raise SSTCastError(f"{path}: holds several days; give one field, or use kind: grid")
    field = placed(first.field, first.field.attrs.get(CELLS)).assign_attrs(units=first.units)
    weights = grid.weights_to(predictor, field, cells)
    source = grid.read_by(field, weights, cells).load()
    tell_invalid(path, [first.valid])
    if weights.parts is not None and (side := sea_side(_height_names(first.stored), source.values)):
        # Between coarser cells too, a value of the sea needs half of its weights, as on any grid.
        weights = replace(weights, least=np.minimum(weights.least, LEAST_KNOWN))
        field, on_land = field.where(field * side > 0), int((source * side <= 0).sum())
        if on_land:
            told = f"without {counted(on_land, 'cell')} of the source on the land side of 0"
            weights = replace(weights, method=f"{weights.method}; {told}")
    yield grid.on_cells(field, weights, cells).load(), source


def places(predictor: Predictor, values: xr.DataArray, days: Days) -> Places:
    """Return the place of the one field on each day (see `Kind.places`)."""
    return (np.zeros((len(days), 1), np.intp),)


def basis(days: Days) -> NDArray[np.float64]:
    """Return 1, as the climatology is a mean (see `Kind.basis`)."""
    return np.ones((len(days), 1))


def fit(predictor: Predictor, values: xr.DataArray) -> xr.Dataset:
    """Return the mean and the deviation of a field over the ocean cells of the run (see `Kind.fit`)."""
    deviation = scale_of(float(values.std()), float(abs(values).max()))
    means = np.full(values.shape, float(values.mean()))
    return xr.Dataset({"terms": (("term", "lat", "lon"), means), "deviation": deviation})


def distance_to_coast(ocean: xr.DataArray) -> xr.DataArray:
    """Return the distance in km from each ocean cell of `ocean(lat, lon)` to the nearest land cell, NaN on land.

    It is the length of the great circle between the centres of the cells. Raises SSTCastError without land.
    """
    from scipy.spatial import KDTree  # imported late: it takes 0.2 s

    lat, lon = np.meshgrid(np.deg2rad(ocean["lat"]), np.deg2rad(ocean["lon"]), indexing="ij")
    place, sea = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], -1), ocean.values
    if sea.all():
        raise SSTCastError("the region has no land, so no coast; choose a larger region, or give a file")
    chord, _ = KDTree(place[~sea]).query(place[sea])
    distance = np.full(sea.shape, np.nan)
    distance[sea] = 2 * EARTH_RADIUS * np.arcsin(chord / 2)
    attributes = {"units": "km", "method": "great circles to the nearest land cell of the region"}
    return ocean.copy(data=distance).assign_attrs(attributes)


def _static_field(path: Path, dataset: xr.Dataset, options: dict[str, Any]) -> Found:
    """Return a field without time as `(time, lat, lon)`, with any day, found with `options` of `find_field`."""
    if "time" not in dataset.dims:
        dataset = dataset.drop_vars("time", errors="ignore").expand_dims(time=[ANY_DAY])
    return find_field(dataset, path, is_sst=False, **options)


def _height_names(stored: xr.DataArray) -> str:
    """Return the names of a field that is a height or depth, and where it is positive, or "" if it is neither."""
    attributes = stored.attrs
    names = [name for name in (attributes.get("standard_name", ""), str(stored.name)) if HEIGHT.fullmatch(name)]
    if "standard_name" not in attributes and str(stored.name).lower() in UNNAMED_HEIGHTS:
        names = [str(stored.name)]
    return " ".join([*names, attributes.get("positive", "")]).lower() if names else ""


def sea_side(names: str, values: np.ndarray) -> int:
    """Return the sign of a height or depth below the sea, or 0 if `names` are not those of either.

    A depth is positive and a height negative. Of a bathymetry, it is the sign of most `values`. The attribute
    `positive` may say otherwise, and so may values that all have the other sign. A field that is only called `z`
    or the like is a height if its values have both signs.
    """
    if not names or (names.split()[0] in UNNAMED_HEIGHTS and not ((values > 0).any() and (values < 0).any())):
        return 0
    usual = int(np.sign(np.nansum(np.sign(values)))) if "bathy" in names else 1 if "depth" in names else -1
    side = {"up": -1, "down": 1}.get(names.split()[-1], usual)
    return side if (values * side > 0).any() else -side


STATIC = Kind("field", ("time", "lat", "lon"), read, places, basis, fit, grid.newest)
