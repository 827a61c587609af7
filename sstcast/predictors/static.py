"""Predictors of `kind: static`, a field that does not change, such as depth or the distance to the coast.

predictor-NAME-HASH.zarr    value(lat, lon), NaN on land
"""

import datetime as dt
import hashlib
import re
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import xarray as xr

from sstcast.config import COAST_DISTANCE
from sstcast.errors import SSTCastError, counted
from sstcast.geo import EARTH_RADIUS
from sstcast.log import LOG
from sstcast.predictors.field import FieldPredictor
from sstcast.predictors.store import Days, scale_of
from sstcast.predictors.values import extremes, limits
from sstcast.reading.daily_field import read_parts
from sstcast.reading.digests import digest_of
from sstcast.reading.fields import CELLS, Found, find_field
from sstcast.reading.flags import tell_invalid
from sstcast.reading.reading import placed
from sstcast.storage.cf import rounded

# Standard and other names of a height of the ground or a depth of the sea, but not of the height of a wave.
HEIGHT = re.compile(
    r"((surface|bedrock|ground_level|sea_floor)_)?(altitude|height|depth)(_(above|below)_\w+)?"
    r"|elev(ation)?|topo(graphy)?|bathy(metry)?|deptho",
    re.I,
)
UNNAMED_HEIGHTS = ("z", "band1", "bed")  # names of heights in files of GMT, GDAL and BedMachine, and of others
ANY_DAY = np.datetime64("2000-01-01", "ns")  # of a field that has no time


class StaticPredictor(FieldPredictor):
    """A field that does not change. Its values are standardised over the ocean cells of the run."""

    def write(self, cube: xr.Dataset, recipe: dict[str, Any]) -> None:
        values = self._field(cube)
        dataset = xr.Dataset({"value": values, "ocean_mask": cube["ocean_mask"]})
        dataset.attrs = {key: values.attrs[key] for key in ("units", "method")}
        self.save(dataset, self.path, recipe, {})
        lacking = int((values.isnull() & cube["ocean_mask"]).sum())
        told = f", not known in {lacking} cells, which read the mean" if lacking else ""
        LOG.info(f"{self.path}: {self.name} written; {values.attrs['method']}{told}")

    def _field(self, cells: xr.Dataset) -> xr.DataArray:
        """Read or compute the field on `cells`, as `value(lat, lon)`. Raises SSTCastError if it is not one."""
        if self.config.source == COAST_DISTANCE:
            try:
                return distance_to_coast(cells["ocean_mask"]).rename("value")
            except SSTCastError as error:
                raise SSTCastError(f"{self.key}: {error}") from error
        with self.naming_keys():
            options = {"variable": self.config.variable, "units": self.config.units, "any_grid": True}
            read = partial(_static_field, options=options)
            first, *others = read_parts(self.config.path, read)
            if others or first.field.sizes["time"] > 1:
                raise SSTCastError(f"{self.config.path}: holds several days; give one field, or use kind: grid")
            field = placed(first.field.drop_vars("time"), first.field.attrs.get(CELLS))
            field = field.assign_attrs(units=first.units)
            weights, on_land = self.weights(field, cells), 0
            source = self.read_by(field, weights, cells).load()
            tell_invalid(self.config.path, field.name, [first.valid] if first.valid else [])
            self.check(source, extremes(source.values), limits(source.values), self.config.path)
            is_mixed = weights.is_mean or CELLS in field.attrs  # on axes, depths between centres keep their land
            if is_mixed and (side := sea_side(_height_names(first.stored), source.values)):
                field, on_land = field.where(field * side > 0), int((source * side <= 0).sum())
            values = self.on_cells(field.isel(time=0), weights, cells).load()
            if on_land:
                values.attrs["method"] += (
                    f"; without {counted(on_land, 'cell')} of the source on the land side of 0"
                )
            return values

    def source_state(self, cells: xr.Dataset) -> str:
        return "" if self.config.source == COAST_DISTANCE else super().source_state(cells)

    def known(self, days: Days, given: xr.DataArray | None = None) -> xr.DataArray:
        """Return the standardised field on each day, `(time, lat, lon)`, lazily."""
        values = rounded(self.open())["value"].load()
        scale = scale_of(float(values.std()), float(abs(values).max()))
        standard = ((values - values.mean()) / scale).astype(np.float32)
        field = da.from_array(standard.values)
        data = da.broadcast_to(field, (len(days), *field.shape), chunks=(self.CHUNK, *field.shape))
        return xr.DataArray(data, {"time": days, **standard.coords}, ("time", "lat", "lon"))

    def digest(self, first: dt.date, last: dt.date) -> str:
        return hashlib.sha256(f"{self.units}\n{digest_of(self.open()[['value']])}".encode()).hexdigest()

    def compare(self, whole: bool = False) -> tuple[str, bool]:
        store = self.open()
        now = self._field(store)
        return str(now.attrs["units"]), digest_of(now.to_dataset()) == digest_of(store[["value"]])

    def missing(self, day: np.datetime64, given: xr.DataArray | None = None) -> str:
        return ""

    def given(self, values: Any) -> xr.DataArray:
        raise SSTCastError(f"predictors: {self.name} does not change; leave it out")


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
