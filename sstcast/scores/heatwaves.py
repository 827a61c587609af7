"""Marine heatwaves as days above a seasonal threshold (Hobday et al. 2016, Prog. Oceanogr. 141).

A day counts when it is warmer than the 90th percentile of its time of the year, alone or as part of a longer
event: whether five in a row follow is not asked, since a forecast of one week cannot know.
"""

from collections.abc import Mapping

import numpy as np
import xarray as xr
from numpy.typing import NDArray

MOST_BINS = 10

Array = NDArray[np.floating]


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
