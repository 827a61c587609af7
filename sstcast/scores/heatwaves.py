"""Marine heatwaves as days above a seasonal threshold (Hobday et al. 2016, Prog. Oceanogr. 141).

A day counts when it is warmer than the 90th percentile of its time of the year, alone or as part of a longer
event: whether five in a row follow is not asked, since a forecast of one week cannot know.
"""

from collections.abc import Mapping

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter1d

from sstcast.ocean.anomalies import DAYS_OF_YEAR

PERCENTILE = 90
WINDOW = 11  # days of the year around each that its percentile is taken of
SMOOTHING = 31  # days of the running mean over the percentiles
MOST_BINS = 10
CELLS_AT_ONCE = 256  # whose values fit the cache

Array = NDArray[np.floating]


def threshold(sst: xr.DataArray) -> xr.DataArray:
    """Return the 90th percentile `(dayofyear, ...)` of `sst(time, ...)`, in its units; NaN where it is ever NaN.

    For days 1..366, of all years' days within 5 of it, smoothed over 31 days, both around the turn of the year.
    """
    sst = sst.transpose("time", ...)
    apart = np.abs(sst["time"].dt.dayofyear.values - DAYS_OF_YEAR[:, None])
    near = [np.flatnonzero(days <= WINDOW // 2) for days in np.minimum(apart, len(DAYS_OF_YEAR) - apart)]
    cells = sst.values.reshape(sst.sizes["time"], -1)
    result = np.full((len(DAYS_OF_YEAR), cells.shape[1]), np.nan, np.float32)
    for start in range(0, cells.shape[1], CELLS_AT_ONCE):
        values = np.ascontiguousarray(cells[:, start : start + CELLS_AT_ONCE])
        percentiles = np.stack([_percentile(values[days]) for days in near])
        part = uniform_filter1d(percentiles, SMOOTHING, axis=0, mode="wrap")
        result[:, start : start + CELLS_AT_ONCE] = np.where(np.isnan(values).any(0), np.nan, part)
    axes = {name: axis for name, axis in sst.coords.items() if "time" not in axis.dims}
    shape = (len(DAYS_OF_YEAR), *sst.shape[1:])
    return xr.DataArray(result.reshape(shape), {"dayofyear": DAYS_OF_YEAR, **axes}, ("dayofyear", *sst.dims[1:]))


def _percentile(values: Array) -> Array:
    """Return the 90th percentile along axis 0, interpolated linearly; a partial sort takes half NumPy's time."""
    position = (len(values) - 1) * PERCENTILE / 100
    largest = torch.topk(torch.from_numpy(values), len(values) - int(position), dim=0).values[-2:].numpy()
    if len(largest) == 1:
        return largest[0]
    return largest[1] + np.float32(position % 1) * (largest[0] - largest[1])


def contingency(probability: Array, observed: NDArray[np.bool_]) -> dict[str, Array]:
    """Return, element by element as 0 or 1, `warned`, `observed` and `hit`, and the `brier` score.

    A heatwave is warned of where its forecast `probability` is at least one half.
    """
    warned = probability >= 0.5
    fields = {"warned": warned, "observed": observed, "hit": warned & observed}
    return {
        **{name: field.astype(np.float32) for name, field in fields.items()},
        "brier": (probability - observed) ** 2,
    }


def rates(means: Mapping[str, xr.DataArray]) -> dict[str, xr.DataArray]:
    """Return the scores of mean `contingency` entries; NaN where nothing was observed, or warned of."""
    hit, observed, warned = (means[name] for name in ("hit", "observed", "warned"))
    return {
        "observed": observed,
        "hit_rate": hit / observed.where(observed > 0),
        "false_alarm_ratio": 1 - hit / warned.where(warned > 0),
        "brier": means["brier"],
    }


def probability_bins(members: int) -> int:
    """Return how many bins a reliability diagram of `members` has: one a probability, or ten."""
    return min(members + 1, MOST_BINS)


def reliability(probability: Array, observed: NDArray[np.bool_], weights: Array, bins: int) -> Array:
    """Return `[3, bins]`: the sums of weights, of weighted probabilities and of weighted events in each bin.

    Bins are of equal width in 0..1, and `weights` broadcast to the other arguments. Sums of parts add up.
    """
    bin_ = np.minimum((probability * bins).astype(np.int64), bins - 1).ravel()
    weights = np.broadcast_to(weights, probability.shape)
    parts = (weights, weights * probability, weights * observed)
    return np.stack([np.bincount(bin_, part.ravel(), bins) for part in parts])
