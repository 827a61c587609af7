"""The history a forecast is made from: checked, put on the run's grid, standardised as its training days were."""

from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from sstcast.config import DataConfig, Region
from sstcast.errors import SSTCastError
from sstcast.ocean.anomalies import standardise
from sstcast.ocean.fields import PLAUSIBLE, dates, find_field
from sstcast.ocean.grid import at_cells, coarsen, finer_cells, ocean_fraction
from sstcast.ocean.prepared import Prepared
from sstcast.ocean.raw import day_ranges

SAME_SHARE = 1e-4  # of a cell's area


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
        region, share, paper = self.data.box, self.fraction, self.data.protocol == "paper"
        # The statistics of the paper protocol are on the source's cells.
        native = at_cells(sst, self.statistics if paper else finer_cells(share, region.coarsen))
        if native is None and not paper:
            region, share, native = region.model_copy(update={"coarsen": 1}), self.ocean, at_cells(sst, share)
        if native is None:
            axes = (share[axis].values for axis in ("lat", "lon"))
            lat, lon = (f"{axis[0]:g}..{axis[-1]:g} ({axis.size})" for axis in axes)
            remedy = (
                "give the cells of the source, which the paper protocol needs"
                if paper
                else "interpolate it to them"
            )
            raise SSTCastError(f"history: does not hold the run's cells, lat {lat}, lon {lon}; {remedy}")
        ocean = native.notnull().any("time")
        if differ := int((abs(ocean_fraction(ocean, region) - share) > SAME_SHARE).sum()):
            raise SSTCastError(
                f"history: {differ} cells hold values where the run has land, or none where it has ocean; "
                "fill the ocean, and set land to NaN"
            )
        return native, coarsen(native, ocean, region), ocean, region


def checked(history: xr.DataArray, count: int) -> xr.DataArray:
    """Return the last `count` days of a field, as `sst(time, lat, lon)` in degC, loaded, stamped 00:00.

    Axes and units are found as in a file. Raises SSTCastError if they are not, or a day is missing.
    """
    if not isinstance(history, xr.DataArray):
        raise SSTCastError(f"history: is a {type(history).__name__}; give one variable, sst(time, lat, lon)")
    found = find_field(history.to_dataset(name="sst"), Path("history"))
    days = dates(found["time"], Path("history")).normalize()
    found = found.drop_attrs().assign_coords(time=days).assign_attrs(history.attrs)
    if "preliminary" in history.coords:
        found = found.assign_coords(preliminary=("time", history["preliminary"].values))
    if len(days) < count:
        raise SSTCastError(f"history: {len(days)} days; the run needs the last {count}")
    found, days = found[-count:].load(), days[-count:]
    wanted = pd.date_range(end=days[-1], periods=count)
    if not days.equals(wanted):
        absent = wanted.difference(days)
        what = f"{absent[-1]:%Y-%m-%d} is missing" if len(absent) else "they are not in order"
        raise SSTCastError(f"history: its last {count} days must follow one another, but {what}")
    low, high = float(found.min()), float(found.max())
    if not PLAUSIBLE[0] <= low <= high <= PLAUSIBLE[1]:  # nor are NaN
        raise SSTCastError(f"history: values from {low:g} to {high:g} are no sea surface temperatures in degC")
    return found


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


def _check_values(sst: xr.DataArray, ocean: xr.DataArray) -> None:
    held = (sst.notnull() & ocean).sum(("lat", "lon"))
    short = sst["time"].values[held.values < int(ocean.sum())]
    if len(short):
        day = np.datetime_as_string(short[0], unit="D")
        raise SSTCastError(f"history: {len(short)} day(s) lack values at ocean cells, the first {day}; fill them")
