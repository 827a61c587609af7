"""Ensemble scores against `scores`, against every pair, and on ensembles of known quality."""

import numpy as np
import pytest
import xarray as xr
from scores.probability import crps_for_ensemble, rank_histogram

from sstcast.scores.ensembles import crps, rank, scores


def drawn(members: int = 5, size: int = 400, spread: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Members and truth drawn about the same unknown value, members with another `spread`."""
    random = np.random.default_rng(0)
    centre = random.normal(size=size)
    return centre + spread * random.normal(size=(members, size)), centre + random.normal(size=size)


@pytest.mark.parametrize("fair", [False, True])
@pytest.mark.parametrize("members", [2, 5])
def test_crps_against_scores_and_against_every_pair(members: int, fair: bool) -> None:
    ensemble, truth = drawn(members)
    found = crps(ensemble, truth, fair=fair)
    method = "fair" if fair else "ecdf"
    labelled = xr.DataArray(ensemble, dims=("member", "case")), xr.DataArray(truth, dims="case")
    theirs = crps_for_ensemble(*labelled, "member", method=method, preserve_dims="all")
    np.testing.assert_allclose(found, theirs, rtol=1e-9)
    pairs = np.abs(ensemble[:, None] - ensemble[None]).sum((0, 1)) / (members * (members - 1 if fair else members))
    np.testing.assert_allclose(found, np.abs(ensemble - truth).mean(0) - pairs / 2, rtol=1e-9)


def test_crps_of_one_member_is_its_absolute_error_and_of_a_perfect_ensemble_nothing() -> None:
    ensemble, truth = drawn()
    np.testing.assert_allclose(crps(ensemble[:1], truth), np.abs(ensemble[0] - truth))
    np.testing.assert_allclose(crps(np.stack([truth] * 4), truth), 0, atol=1e-12)


def test_ranks_against_scores() -> None:
    ensemble, truth = drawn()
    counts = np.bincount(rank(ensemble, truth), minlength=6)
    labelled = xr.DataArray(ensemble, dims=("member", "case")), xr.DataArray(truth, dims="case")
    theirs = rank_histogram(*labelled, "member")
    np.testing.assert_allclose(counts / counts.sum(), theirs.values)


@pytest.mark.parametrize(("spread", "expected"), [(1.0, 1.0), (0.5, 0.55), (2.0, 1.6)])
def test_spread_matches_the_error_of_a_reliable_ensemble_only(spread: float, expected: float) -> None:
    ensemble, truth = drawn(members=4, size=100_000, spread=spread)
    means = {name: ensemble.mean() for name in ("crps", "crps_fair")}
    means |= {"variance": ensemble.var(0, ddof=1).mean(), "mse": ((ensemble.mean(0) - truth) ** 2).mean()}
    closed = np.sqrt(5 / 4 * spread**2 / (1 + spread**2 / 4))
    assert scores(means, 4)["spread_skill"] == pytest.approx(closed, rel=0.02)
    assert closed == pytest.approx(expected, abs=0.03)
    counts = np.bincount(rank(ensemble, truth), minlength=5) / 100_000
    if spread == 1:
        np.testing.assert_allclose(counts, 0.2, atol=0.01)
    else:  # too narrow: truth falls outside too often; too wide: too seldom
        assert (counts[0] > 0.22) == (counts[-1] > 0.22) == (spread < 1)
