"""Scores of ensembles: arrays `members [M, ...]` against `truth [...]`, element by element."""

from collections.abc import Iterator, Mapping

import numpy as np
import xarray as xr
from numpy.typing import NDArray

Array = NDArray[np.floating]


def crps(members: Array, truth: Array, *, fair: bool = False) -> Array:
    """Return the continuous ranked probability score `[...]`, in the units of `truth`.

    `mean |x - truth| - mean |x - x'| / 2` over members x and pairs of members (Gneiting and Raftery 2007,
    JASA 102, eq. 21). The `fair` score leaves the pairs of a member with itself out of the second mean, and so
    rewards no ensemble for its size (Ferro 2014, QJRMS 140); it needs two members. Pairs are counted from the
    sorted members: memory holds M values an element, not M * M.
    """
    count = len(members)
    distance = np.abs(members - truth).mean(0)
    signs = 2 * np.arange(count, dtype=members.dtype) - (count - 1)  # in how many pairs a sorted member is added
    pairs = np.tensordot(signs, np.sort(members, axis=0), 1)
    score: Array = distance - pairs / (count * (count - 1 if fair else count))
    return score


def rank(members: Array, truth: Array) -> NDArray[np.int64]:
    """Return how many members lie below `truth`, 0..M: a reliable ensemble has every rank equally often."""
    return (members < truth).sum(0)


def statistics(members: Array, truth: Array) -> Iterator[tuple[str, Array]]:
    """Yield the name and the values `[...]` of each statistic that `scores` needs; one at a time is in memory."""
    yield "crps", crps(members, truth)
    yield "crps_fair", crps(members, truth, fair=True)
    yield "variance", members.var(0, ddof=1)


def scores(means: Mapping[str, xr.DataArray], members: int) -> dict[str, xr.DataArray]:
    """Return the scores that follow from mean `statistics` and the `mse` of the ensemble mean.

    `spread_skill` is the ratio of spread to error: 1 is reliable, below it overconfident. Its factor
    `(M + 1) / M` makes the two equal for a reliable ensemble of any size (Fortin et al. 2014,
    J. Hydrometeorol. 15).
    """
    variance, mse = means["variance"], means["mse"]
    return {
        "crps": means["crps"],
        "crps_fair": means["crps_fair"],
        "spread": variance**0.5,
        "rmse": mse**0.5,
        "spread_skill": ((members + 1) / members * variance / mse) ** 0.5,
    }
