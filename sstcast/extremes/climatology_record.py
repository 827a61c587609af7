"""The record that climatology and thresholds of other days are of, and how the days that both have compare.

A logger's series is often too short for a climatology of its own. That of a longer record, such as the cell of an
analysis, has other means and other extremes, which the lines of `tell_differences` tell.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import shapely
import xarray as xr

from sstcast.config import FieldSource
from sstcast.errors import SSTCastError, counted
from sstcast.extremes.heatwave_record import series_of_places
from sstcast.geo import Axis, Box
from sstcast.log import LOG
from sstcast.names import SEASONS
from sstcast.places.places import Place, Places, kilometres
from sstcast.places.series import series_of
from sstcast.reading.daily_field import source_of
from sstcast.reading.grid import check_places, sorted_eastward
from sstcast.reading.reading import open_sst
from sstcast.reading.sea import judged, sea_of, without_land
from sstcast.reading.xarray_objects import is_object
from sstcast.types import Array

AROUND = 3  # cells around a place, among which that of a place on land is sought
A_YEAR = 365  # common days, fewer of which do not tell the difference of each season
AT = "give the place of the series with --at LAT,LON"


@dataclass(frozen=True)
class ClimatologyRecord:
    """A record of days, a series or a grid, and perhaps where in it a series lies, in degrees."""

    source: FieldSource
    at: tuple[float, float] | None = None

    @property
    def name(self) -> str:
        """The name of the file, for columns and lines."""
        return "an object" if is_object(self.source.source) else Path(self.source.source).name

    @property
    def made_from(self) -> dict[str, str]:
        """The record, and where in it, for recipes."""
        at = {} if self.at is None else {"at": f"{self.at[0]:.12g},{self.at[1]:.12g}"}
        return {"climatology": source_of(self.source.source).identity, **at}

    def of(self, known: xr.DataArray | None, places: Places | None) -> xr.DataArray:
        """Return the days of the record, `sst(time, place)` in degC, for the series `known` or for `places`.

        Of a series, it is that of the same name or the only one. Of a grid, it is the cell of the place (see
        `Places.weights`), and a line says how far away. Missing days stay missing.

        Raises SSTCastError if the record cannot be read, or has nothing for a place.
        """
        record = series_of(self.source)
        if record is not None:
            if self.at is not None:
                raise SSTCastError(f"--at: {self.source.path} is a series, which has no cells; leave it out")
            names = places.names if known is None else known["place"].values.tolist()  # type: ignore[union-attr]
            return self._of_series(record, names)
        if places is None:
            assert known is not None
            places = self._positions(known)
        return self._of_grid(places)

    def _of_series(self, record: xr.DataArray, names: Sequence[str]) -> xr.DataArray:
        held = record["place"].values.tolist()
        if len(held) == 1:
            return record.isel(place=[0] * len(names)).assign_coords(place=[*names])
        if absent := [name for name in names if name not in held]:
            raise SSTCastError(
                f"{self.source.path}: has series of {', '.join(held)}, but none of {absent[0]}; give a record of "
                "one place, or of these"
            )
        return record.sel(place=[*names])

    def _positions(self, known: xr.DataArray) -> Places:
        """Return the places of a series. Raises SSTCastError if one is not known."""
        names, title = known["place"].values.tolist(), str(known.attrs["title"])
        if self.at is not None:
            points = [self.at] * len(names)
        elif "lat" not in known.coords:
            raise SSTCastError(f"{title}: states no lat and lon, by which {self.source.path} has a cell; {AT}")
        else:
            points = [(float(at["lat"]), float(at["lon"])) for at in known["place"]]
        for name, (lat, lon) in zip(names, points, strict=True):
            if not (abs(lat) <= 90 and abs(lon) <= 540):
                raise SSTCastError(f"{title}: states no lat and lon for {name}, or several; {AT}")
        return Places((), tuple(Place(n, shapely.Point(p[1], p[0])) for n, p in zip(names, points, strict=True)))

    def _of_grid(self, places: Places) -> xr.DataArray:
        path, checked = self.source.path, source_of(self.source.source).checked
        with open_sst(self.source) as opened:
            near = _around(check_places(sorted_eastward(opened), str(path)), places, path)
            near = without_land(near, path, checked)
            sea = sea_of(near)
            weights = places.weights(sea.astype(np.float32), sea.values)
            for place, cells in zip(places.places, np.split(weights.indices, weights.indptr[1:-1]), strict=True):
                if not cells.size:
                    lat, lon = place.lat, place.lon
                    raise SSTCastError(
                        f"{path}: has no ocean cell for {place.name} at {lat:g}, {lon:g}; give another record, or "
                        "another place with --at LAT,LON"
                    )
                if place.is_point:
                    cell = np.unravel_index(cells[0], sea.shape)
                    lat, lon = (near[axis].values[at] for axis, at in zip(("lat", "lon"), cell, strict=True))
                    away = kilometres(place.lat, place.lon, np.array([lat]), np.array([lon]))[0]
                    LOG.info(
                        f"{place.name}: its climatology is of {self.name} at {lat:g}, {lon:g}, {away:.0f} km away"
                    )
            used = np.isin(np.arange(sea.size), weights.indices).reshape(sea.shape)
            sst = series_of_places(judged(near, used, path), places, weights)
        days = sst.indexes["time"]
        return sst.reindex(time=pd.date_range(days[0], days[-1], unit="ns"))


def parse_at(text: str | Sequence[float]) -> tuple[float, float]:
    """Read the position `LAT,LON` in degrees. Raises SSTCastError if it is none."""
    try:
        lat, lon = (float(part) for part in (text.split(",") if isinstance(text, str) else text))
        if not (abs(lat) <= 90 and abs(lon) <= 540):
            raise ValueError
    except (TypeError, ValueError):
        raise SSTCastError(
            f"--at {text}: give latitude and longitude in degrees, for instance -42.5,148.1"
        ) from None
    return lat, lon


def _around(sst: xr.DataArray, places: Places, path: Path) -> xr.DataArray:
    """Return the cells of `sst(time, lat, lon)` around places. Raises SSTCastError if a point lies outside."""
    box = Box.of(sst)
    for place in places.places:
        if place.is_point and not box.contains(place.lat, place.lon):
            raise SSTCastError(
                f"{path}: covers {box}, without {place.name} at {place.lat:g}, {place.lon:g}; give another "
                "record, or another place with --at LAT,LON"
            )
    west, south, east, north = shapely.bounds([place.geometry for place in places.places]).T
    middle, half = box.eastward((west + east) / 2), (east - west) / 2
    west, east = (middle - half).min(), (middle + half).max()
    columns = _slice_around(sst["lon"].values, west, east)
    if west < box.west or east > box.east:  # across the end of the axis
        columns = slice(None)
    rows = _slice_around(sst["lat"].values, south.min(), north.max())
    return sst[:, rows, columns].chunk(lat=-1, lon=-1)


def _signed(degrees: float) -> str:
    """Return a difference to a tenth with its sign, of which 0 has `+`."""
    return f"{round(degrees, 1) + 0.0:+.1f}"


def _slice_around(axis: Axis, first: float, last: float) -> slice:
    """Return the part of an ascending axis from `AROUND` cells before a value to as many after another."""
    begin, end = np.searchsorted(axis, [first, last])
    return slice(max(0, int(begin) - AROUND), int(end) + AROUND)


def tell_differences(
    sst: xr.DataArray, base: xr.DataArray, threshold: Array | None, name: str, cold: bool
) -> None:
    """Log by place how `sst(time, place)` differs from the record `base(time, place)` called `name`, in degC.

    These are the mean difference by season on the days that both have, and the share of these days beyond the
    `threshold [day, place]`, if there is one, in both.
    """
    common = sst.indexes["time"].intersection(base.indexes["time"])
    position = sst.indexes["time"].get_indexer(common)
    own, other = (of.sel(time=common).values.astype(np.float64) for of in (sst, base))
    limits = np.full(own.shape, np.nan) if threshold is None else threshold[position]
    seasons = common.month.to_numpy() % 12 // 3
    for number, place in enumerate(sst["place"].values):
        known = np.isfinite(own[:, number] - other[:, number])
        if not known.any():
            LOG.warning(f"{place}: no day in common with {name}, so that nothing tells how the two differ")
            continue
        difference = (own - other)[known, number]
        season = pd.Series(difference).groupby(seasons[known]).mean()
        each = ", ".join(f"{SEASONS[of]} {_signed(mean)}" for of, mean in season.items())
        told = (
            f"{_signed(difference.mean())} degC ({each}) from {name} on {counted(int(known.sum()), 'common day')}"
        )
        limit = limits[:, number]
        if (defined := known & np.isfinite(limit)).any():
            sign = -1 if cold else 1
            shares = ((sign * of[defined, number] > sign * limit[defined]).mean() for of in (own, other))
            of_own, of_other = (f"{share:.0%}".replace("%", " %") for share in shares)
            side = "below" if cold else "above"
            told += f"; {side} the threshold on {of_own} of them, the record on {of_other}"
        LOG.info(f"{place}: {told}")
        if known.sum() < A_YEAR:
            LOG.warning(f"{place}: fewer than {A_YEAR} common days do not tell how the two differ all year")
