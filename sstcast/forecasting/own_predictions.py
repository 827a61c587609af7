"""Predictions of an own model for windows of the sea, as forecasts on the map (`sstcast.as_forecasts`)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray

from sstcast._version import __version__
from sstcast.config import DataConfig
from sstcast.errors import SSTCastError
from sstcast.forecasting.fields import FIELD, axes, in_degrees
from sstcast.ocean.prepared import Prepared
from sstcast.ocean.tiles import from_tiles, tile_index, to_tiles
from sstcast.ocean.windows import days_of_split
from sstcast.storage.cf import describe, references


def as_forecasts(data: DataConfig, predictions: Any, split: str, windows: Any = None) -> xr.Dataset:
    """Return predictions for windows of a split as `sst(init_time, lead, lat, lon)` (see `sstcast.as_forecasts`).

    They are in the order of `windows`, by default all of the split. Raises SSTCastError if they do not fit.
    """
    prepared = Prepared.of(data)
    anomalies, cube = prepared.open_anomalies(), prepared.open_cube()
    days = days_of_split(anomalies, data, split)["time"].values
    starts = len(days) - data.history - data.horizon
    shape = anomalies.sizes["lat"], anomalies.sizes["lon"]
    index = tile_index(data.box, shape)
    ocean = to_tiles(anomalies["ocean_mask"].values, index)
    numbers = _numbers(windows, starts * len(index))
    if len(predictions) != len(numbers):
        raise SSTCastError(
            f"predictions: {len(predictions):,} for {len(numbers):,} windows of {split}; give one for each, or "
            "windows=[...], the numbers of theirs"
        )
    dates, rows = np.unique(numbers // len(index), return_inverse=True)
    values = np.full((len(dates), data.horizon, *index.shape), np.nan, np.float32)
    for prediction, number, row in zip(predictions, numbers.tolist(), rows.tolist(), strict=True):
        tile = number % len(index)
        values[row, :, tile, ocean[tile]] = _checked(prediction, number, (int(ocean[tile].sum()), data.horizon))
    coordinates = axes(days[dates + data.history - 1], data.horizon, anomalies)
    maps = xr.DataArray(from_tiles(values, index, shape), coordinates.coords, FIELD)
    sst = in_degrees(maps.expand_dims("member"), anomalies[["climatology", "scale"]])[["sst"]]
    source = str(cube.attrs["source"])
    return describe(
        sst,
        {"sst": "forecast sea surface temperature"},
        summary=f"Daily sea surface temperature of windows of {split}, forecast by a model outside of sstcast; "
        "init_time is the last day of history, lead counts days after it; NaN on land",
        source=f"a model outside of sstcast {__version__}, on {source}",
        **references(source, data.protocol),
    )


def _numbers(windows: Any, count: int) -> NDArray[np.intp]:
    """Return the numbers of windows. Raises SSTCastError if one repeats, or the split of `count` lacks it."""
    if windows is None:
        return np.arange(count)
    parts = windows if isinstance(windows, Sequence) else [windows]
    numbers = np.concatenate([np.atleast_1d(_array(part)) for part in parts]) if len(parts) else np.empty(0, int)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or not len(numbers):
        raise SSTCastError("windows: give the numbers of windows, as in the attribute window of a graph")
    found, times = np.unique(numbers, return_counts=True)
    if len(wrong := found[(found < 0) | (found >= count)]):
        raise SSTCastError(f"windows: no window {wrong[0]}; the split has 0..{count - 1}")
    if (times > 1).any():
        raise SSTCastError(f"windows: {found[times > 1][0]} is there more than once; give one prediction for each")
    return numbers.astype(np.intp)


def _checked(prediction: Any, number: int, shape: tuple[int, int]) -> NDArray[np.float32]:
    """Return a prediction `[n, horizon]`. Raises SSTCastError if it has another shape, or is not finite."""
    values = _array(prediction)
    if values.shape != shape:
        raise SSTCastError(
            f"predictions: that of window {number} is {list(values.shape)}; give {list(shape)}, a row for each "
            "ocean node of its tile and a column for each day"
        )
    if not np.isfinite(values).all():
        raise SSTCastError(f"predictions: that of window {number} is not finite; correct the model")
    return values


def _array(values: Any) -> NDArray[Any]:
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
