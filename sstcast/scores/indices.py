"""Means over boxes of the ocean, such as the Niño indices, and terciles of an index."""

from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sstcast.config import load_region
from sstcast.errors import SSTCastError
from sstcast.geo import NINO, Box, area_weights
from sstcast.names import INIT_TIME, THIRDS
from sstcast.predictors.index_series import read_series
from sstcast.predictors.values import marks_missing


def box_of(name: str) -> Box:
    """Return the Niño box or the region of `configs/regions.yaml` with this name.

    Raises SSTCastError if there is none.
    """
    if name in NINO:
        return NINO[name]
    return load_region(name).bounds


def covers(known: xr.DataArray, box: Box) -> bool:
    """Return whether the cells of the mask `known(lat, lon)` cover all of `box`.

    Cells may be centred on the edges of the box. The mean leaves them out.
    """
    if 1 in known.shape:  # the width of the cells is unknown
        return False
    lat, lon = known["lat"], known["lon"]
    height, width = (float(axis[1] - axis[0]) for axis in (lat, lon))
    cells, half = box.contains(lat, lon), 0.49  # of a cell, so that cells beside the box do not count
    wide = Box(
        box.west - half * width, box.east + half * width, box.south - half * height, box.north + half * height
    )
    touched = wide.contains(lat, lon)
    rows, cols = int(touched.any("lon").sum()), int(touched.any("lat").sum())
    enough = rows >= round((box.north - box.south) / height) and cols >= round(box.width / width)
    return bool(enough and (cells & known).sum() == cells.sum() > 0)


def box_mean(field: xr.DataArray, box: str | Box | tuple[float, float, float, float]) -> xr.DataArray:
    """Return the area-weighted mean of `field(..., lat, lon)` over a box, ignoring land (NaN).

    `box` is a name for `box_of`, or west, east, south and north in degrees. Raises SSTCastError if no cell in
    the box has a value.
    """
    bounds = box_of(box) if isinstance(box, str) else box if isinstance(box, Box) else Box(*box)
    cells = field.where(bounds.contains(field["lat"], field["lon"]))
    first = cells.isel({d: 0 for d in field.dims if d not in ("lat", "lon")})
    if not bool(first.notnull().any()):
        raise SSTCastError(f"{box}: no ocean in this box of the forecasts; choose one inside their region")
    return cells.weighted(area_weights(field["lat"])).mean(["lat", "lon"])


def thirds(tables: xr.Dataset, index: str) -> xr.DataArray:
    """Assign each initial date to the lower, middle or upper third of an index, `(init_time)`.

    Args:
        tables: the contents of `scores.nc`. The thirds are those of its initial dates.
        index: a box in `tables` (`region`, `nino34`), indexed by its observed anomaly on the first day forecast,
            or the file of an index (docs/predictors.md). If it has one date a month, its value holds for every day
            of that month, and that of a season for those of its last month.

    Raises SSTCastError if the file cannot be read, or has no value for a date.
    """
    if index in tables["box"]:
        observed = tables["observed_index"].sel(box=index).dropna("lead", how="all").isel(lead=0)
        values = observed.mean({"system"} & {*observed.dims}).values  # systems may have different climatologies
    elif index in NINO:
        raise SSTCastError(f"--index {index}: the scored cells do not cover this box; give a CSV of its values")
    else:
        values = _values(Path(index), pd.DatetimeIndex(tables[INIT_TIME]))
    third = np.searchsorted(np.quantile(values, [1 / 3, 2 / 3]), values)
    return xr.DataArray(np.array(THIRDS)[third], {INIT_TIME: tables[INIT_TIME]}, (INIT_TIME,))


def _values(path: Path, dates: pd.DatetimeIndex) -> NDArray[np.float64]:
    """Return the values of the series in a file on the given dates."""
    try:
        table, _ = read_series(path)
    except SSTCastError as error:
        raise SSTCastError(f"--index {path}: is neither a box of the scores nor an index ({error})") from error
    unit = "M" if table.index.to_period("M").is_unique else "D"
    spans = table.index.to_period(unit)
    if spans.has_duplicates:
        raise SSTCastError(f"--index {path}: holds {spans[spans.duplicated()][0]} twice; keep one value")
    series = table["value"].mask(marks_missing(table["value"].to_numpy())).set_axis(spans)
    values: NDArray[np.float64] = series.reindex(dates.to_period(unit)).to_numpy()
    if np.isnan(values).any():
        raise SSTCastError(f"--index {path}: has no value for {dates[np.isnan(values)][0]:%Y-%m-%d}; add it")
    return values
