"""The history a forecast is made from: checked, put on the run's grid, standardised as its training days were."""

import numpy as np
import pandas as pd
import xarray as xr

from sstcast.config import DataConfig, Region
from sstcast.errors import SSTCastError
from sstcast.ocean.anomalies import standardise
from sstcast.ocean.cube import coarsen, ocean_fraction
from sstcast.ocean.days import day_ranges
from sstcast.ocean.prepared import Prepared

SAME_SHARE = 1e-4  # of a cell's area
DEGREES_APART = 1e-3  # coordinates that differ by less are the same
KEPT = ("time", "lat", "lon", "preliminary")
PLAUSIBLE = (-5.0, 50.0)  # degC

Grid = xr.DataArray | xr.Dataset


class Normals:
    """What `prepare` learnt of a region's training days: its grid, land, climatology and scale."""

    def __init__(self, data: DataConfig) -> None:
        """Open the stores; raise SSTCastError if they are not there, or damaged."""
        cube, self.statistics = Prepared.of(data).open_statistics()
        self.data, self.source = data, str(cube.attrs["source"])
        self.fraction, self.ocean = cube["ocean_fraction"].load(), cube["ocean_mask"].load()

    def standardise(self, history: xr.DataArray) -> xr.Dataset:
        """Return `anomaly(time, lat, lon)`, `climatology`, `scale` and `ocean_mask` as `prepare` would.

        `history(time, lat, lon)` in degC, is on the run's grid, or on the cells that were averaged to make it:
        the `paper` protocol standardises those, so it must have them. Raises SSTCastError if it lies elsewhere,
        or lacks values over the ocean.
        """
        native, coarse, ocean, region = self._averaged(history)
        _check_values(coarse.where(self.ocean), self.ocean)
        data = self.data.model_copy(update={"region": region})
        return standardise(native, coarse, ocean, self.statistics, data)

    def on_grid(self, sst: xr.DataArray) -> xr.DataArray:
        """Return `sst(time, lat, lon)`, on such cells as `standardise` takes, on the run's grid; NaN on land."""
        return self._averaged(sst)[1].where(self.ocean)

    def _averaged(self, sst: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray, xr.DataArray, Region]:
        """Return `sst` as it is, on the run's grid, which of its own cells are ocean, and the region of these."""
        region, share = self.data.box, self.fraction
        native = self._finer(sst)
        if native is None:
            region, share = region.model_copy(update={"coarsen": 1}), self.ocean
            native = self._coarse(sst)
        ocean = native.notnull().any("time")
        if differ := int((abs(ocean_fraction(ocean, region) - share) > SAME_SHARE).sum()):
            raise SSTCastError(
                f"history: {differ} cells hold values where the run has land, or none where it has ocean; "
                "fill the ocean, and set land to NaN"
            )
        return native, coarsen(native, ocean, region), ocean, region

    def _coarse(self, history: xr.DataArray) -> xr.DataArray:
        coarse, n = at_cells(history, self.fraction), self.data.box.coarsen
        if coarse is None:
            lat, lon = (
                f"{axis[0]:g}..{axis[-1]:g} ({axis.size})"
                for axis in (self.fraction["lat"].values, self.fraction["lon"].values)
            )
            raise SSTCastError(
                f"history: does not hold the run's cells, lat {lat}, lon {lon}; interpolate it to them"
            )
        if self.data.protocol == "paper" and n > 1:
            raise SSTCastError(
                f"history: the paper protocol standardises cells before it averages {n} x {n} of them; "
                "give the cells of the source"
            )
        return coarse

    def _finer(self, history: xr.DataArray) -> xr.DataArray | None:
        """Return the cells of `history` that average to the run's grid, if it has them."""
        if self.data.protocol == "paper":
            return at_cells(history, self.statistics)  # which are of the source's cells
        return at_cells(history, finer_cells(self.fraction, self.data.box.coarsen))


def checked(history: xr.DataArray, count: int) -> xr.DataArray:
    """Return the last `count` days of `history(time, lat, lon)`, loaded, stamped 00:00.

    Raises SSTCastError if it is no such field in degC, is shorter, or lacks a day.
    """
    if not isinstance(history, xr.DataArray):
        raise SSTCastError(f"history: is a {type(history).__name__}; give one variable, sst(time, lat, lon)")
    if set(history.dims) != {"time", "lat", "lon"}:
        raise SSTCastError(f"history: has dimensions {tuple(history.dims)}; give sst(time, lat, lon)")
    for axis in ("time", "lat", "lon"):
        if axis not in history.coords:
            raise SSTCastError(f"history: has no coordinate {axis!r}; assign it")
    history = history.drop_vars([name for name in history.coords if name not in KEPT])
    time = history.indexes["time"]
    if not isinstance(time, pd.DatetimeIndex):
        raise SSTCastError(f"history: time is {time.dtype}, not dates; decode it to datetime64")
    if len(time) < count:
        raise SSTCastError(f"history: {len(time)} days; the run needs the last {count}")
    history = (
        history.transpose("time", "lat", "lon").assign_coords(time=time.normalize()).isel(time=slice(-count, None))
    )
    days = history.indexes["time"]
    wanted = pd.date_range(end=days[-1], periods=count)
    if not days.equals(wanted):
        absent = wanted.difference(days)
        what = f"{absent[-1]:%Y-%m-%d} is missing" if len(absent) else "they are not in order"
        raise SSTCastError(f"history: its last {count} days must follow one another, but {what}")
    history = history.astype("float32").load()
    low, high = float(history.min()), float(history.max())
    if not PLAUSIBLE[0] <= low <= high <= PLAUSIBLE[1]:  # nor are NaN
        raise SSTCastError(f"history: values from {low:g} to {high:g} are no sea surface temperatures in degC")
    return history


def in_words(history: xr.DataArray) -> str:
    """Say which days `history` holds, and which of them are preliminary."""
    days = [day.item() for day in history["time"].values.astype("datetime64[D]")]
    text = f"{history.attrs.get('title', 'daily SST')}; history {days[0]}..{days[-1]} ({len(days)} days)"
    if "preliminary" not in history.coords:
        return f"{text}; not known which days are preliminary"
    marked = dict.fromkeys(
        (day for day, mark in zip(days, history["preliminary"].values, strict=True) if mark), ""
    )
    ranges = [f"{a}..{b}" if a != b else f"{a}" for a, b, _ in day_ranges(marked)]
    return f"{text}; preliminary days: {', '.join(ranges) or 'none'}"


def finer_cells(grid: Grid, n: int) -> xr.Dataset:
    """Return the cells `n` x `n` of which are averaged to each of `grid`, as coordinates `lat` and `lon`."""
    axes = {}
    for axis in ("lat", "lon"):
        centres = grid[axis].values
        width = (centres[-1] - centres[0]) / max(centres.size - 1, 1) / n
        axes[axis] = (centres[:, None] + width * (np.arange(n) - (n - 1) / 2)).ravel()
    return xr.Dataset(coords=axes)


def at_cells(field: xr.DataArray, grid: Grid) -> xr.DataArray | None:
    """Return `field` at the cells of `grid`, in either convention of longitude; None if it lacks some."""
    west = float(grid["lon"][0]) - DEGREES_APART
    eastward = field.assign_coords(lon=west + (field["lon"] - west) % 360).sortby("lon").sortby("lat")
    try:
        found = eastward.sel(lat=grid["lat"], lon=grid["lon"], method="nearest", tolerance=DEGREES_APART)
    except (KeyError, pd.errors.InvalidIndexError):  # cells missing, cells twice
        return None
    return found.assign_coords(lat=grid["lat"], lon=grid["lon"])


def _check_values(sst: xr.DataArray, ocean: xr.DataArray) -> None:
    held = (sst.notnull() & ocean).sum(("lat", "lon"))
    short = sst["time"].values[held.values < int(ocean.sum())]
    if len(short):
        day = np.datetime_as_string(short[0], unit="D")
        raise SSTCastError(f"history: {len(short)} day(s) lack values at ocean cells, the first {day}; fill them")
