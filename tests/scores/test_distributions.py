"""Gaussian distributions and ensembles against integrals, `scores`, and oceans whose spread is known."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scenes import block, observation
from scipy.integrate import quad
from scipy.stats import norm
from scored_runs import configure
from scores.probability import crps_for_ensemble

from sstcast.config import ModelConfig
from sstcast.forecasting.spread import SpreadCalibrator
from sstcast.ocean.prepare import prepare
from sstcast.scores.analysis import Analysis
from sstcast.scores.distributions import ENSEMBLE, Gaussian, Members, crps
from sstcast.scores.kinds.distributions import Distributions, rank_histogram
from sstcast.scores.metrics import statistics_of
from sstcast.scores.scene import Scene
from sstcast.scores.systems import ScoredSystem, baselines, systems_of
from sstcast.scores.verify import verify
from sstcast.training.train import train, training_windows


@pytest.mark.parametrize(("error", "spread"), [(0.0, 1.0), (-1.3, 0.4), (2.0, 3.0)])
def test_crps_is_the_integral_of_the_squared_difference_of_distributions(error: float, spread: float) -> None:
    below, _ = quad(lambda x: norm.cdf(x, error, spread) ** 2, -30, 0)
    above, _ = quad(lambda x: norm.sf(x, error, spread) ** 2, 0, 30)
    found = Gaussian(np.array([error]), np.array([spread])).crps(np.zeros(1))
    assert found == pytest.approx(below + above, rel=1e-6)


@pytest.mark.parametrize("truth", [-2.1, -1.8, -1.5, 0.3])
@pytest.mark.parametrize(("mean", "spread"), [(-1.8, 0.01), (-1.7, 0.5), (0.5, 2.0), (3.0, 0.2)])
def test_crps_of_a_clipped_distribution_is_the_integral(truth: float, mean: float, spread: float) -> None:
    lowest = -1.8

    def difference(x: float) -> float:
        return ((norm.cdf(x, mean, spread) if x >= lowest else 0) - (x >= truth)) ** 2

    parts = sorted({-12, truth, lowest, *(mean + spread * np.arange(-8, 9, 2)), 12})
    expected = sum(quad(difference, *ends)[0] for ends in pairwise(parts))
    floor = np.array([lowest, -np.inf], np.float32)
    arrays = (np.full(2, number, np.float32) for number in (mean, spread))
    found = Gaussian(*arrays, lowest=floor).crps(np.full(2, truth, np.float32))
    assert found[0] == pytest.approx(expected, abs=2e-5)
    assert found[1] == pytest.approx(
        Gaussian(np.array([mean]), np.array([spread])).crps(np.array([truth]))[0], rel=1e-5
    )


def test_truths_drawn_from_a_clipped_distribution_are_calibrated() -> None:
    """The histogram is flat, and intervals hold what the clipped quantiles hold. Three in four cells freeze."""
    random, size, lowest = np.random.default_rng(0), 200_000, np.float32(-1.8)
    mean, spread = (
        random.uniform(-1.8, 0, size).astype(np.float32),
        random.uniform(0.2, 1, size).astype(np.float32),
    )
    truth = np.maximum(random.normal(mean, spread), lowest).astype(np.float32)
    floor = np.where(mean < -0.2, lowest, np.float32(-np.inf))
    truth = np.where(mean < -0.2, truth, random.normal(mean, spread).astype(np.float32))
    assert 0.1 < (truth == lowest).mean() < 0.5
    forecast = Gaussian(mean, spread, lowest=floor)
    filled = forecast.pit(truth, np.full(size, 1 / size))
    np.testing.assert_allclose(filled, 1 / len(filled), atol=0.0015)
    for level in (50, 80):
        low, high = (np.maximum(norm.ppf(0.5 + side * level / 200, mean, spread), floor) for side in (-1, 1))
        inside = ((low - 1e-6 <= truth) & (truth <= high)).mean()
        assert forecast.covers(truth, level).mean() == pytest.approx(inside, abs=5e-3)
    colder = Gaussian(np.array([-1.8]), np.array([0.5]), lowest=np.array([-1.8]))
    assert not colder.covers(np.array([-1.9]), 80)
    assert colder.pit(np.array([-1.9]), np.ones(1))[0] == 1


def test_where_the_truth_lies() -> None:
    error = -norm.ppf([0.01, 0.51, 0.99, 0.985])
    filled = Gaussian(error, np.ones(4)).pit(np.zeros(4), np.array([1, 2, 3, 4]))
    assert filled[[0, 10, 19]].tolist() == [1, 2, 7]
    assert filled.sum() == 10


def drawn(members: int = 5, size: int = 400, spread: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Members and truth drawn about the same unknown value, members with another `spread`."""
    random = np.random.default_rng(0)
    centre = random.normal(size=size)
    return centre + spread * random.normal(size=(members, size)), centre + random.normal(size=size)


@pytest.mark.parametrize("method", ["fair", "ecdf"])
@pytest.mark.parametrize("members", [2, 5])
def test_crps_of_ensembles_against_scores(members: int, method: str) -> None:
    ensemble, truth = drawn(members)
    labelled = xr.DataArray(ensemble, dims=("member", "case")), xr.DataArray(truth, dims="case")
    theirs = crps_for_ensemble(*labelled, "member", method=method, preserve_dims="all")
    np.testing.assert_allclose(crps(ensemble, truth, fair=method == "fair"), theirs, rtol=1e-9)


@pytest.mark.parametrize("spread", [1.0, 0.5, 2.0])
def test_spread_matches_the_error_of_a_reliable_ensemble_only(spread: float) -> None:
    ensemble, truth = drawn(members=4, size=100_000, spread=spread)
    means = {name: one.function(ensemble, truth).mean() for name, one in statistics_of(ENSEMBLE).items()}
    closed = np.sqrt(5 / 4 * spread**2 / (1 + spread**2 / 4))
    assert ENSEMBLE["spread_skill"].from_means(means) == pytest.approx(closed, rel=0.02)


def test_intervals_of_a_gaussian_ocean_hold_what_they_promise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells of different variance forget independently of each other: over a year the share is nearly exact."""
    random, time = np.random.default_rng(0), pd.date_range("2001-01-01", "2012-12-31")
    shocks = random.normal(size=(len(time), 8, 12)).astype("float32")
    sst = np.zeros_like(shocks)
    for day in range(1, len(time)):
        sst[day] = 0.6 * sst[day - 1] + shocks[day]
    sst = 15 + sst * np.linspace(0.3, 1.2, 12, dtype="float32")
    axes = {"time": time, "lat": -11.875 + 0.25 * np.arange(8), "lon": 170.125 + 0.25 * np.arange(12)}
    data = xr.Dataset({"sst": (("time", "lat", "lon"), sst, {"units": "Celsius"})}, axes)
    data.to_netcdf(tmp_path / "small.nc", engine="netcdf4")
    splits = {"train": [2001, 2010], "validation": [2011, 2011], "test": [2012, 2012]}
    config = configure(tmp_path, tmp_path / "small.nc", splits=splits)
    config = config.model_copy(update={"model": ModelConfig(name="damped-persistence")})
    prepare(config.data)
    run, _ = train(config, training_windows(config))
    truth = Analysis.of(run)
    days = SpreadCalibrator(truth.prepared)
    monkeypatch.setattr("sstcast.scores.verify.KINDS", (Distributions,))
    tables = verify(Scene(truth, systems_of(run, days) | baselines(days)))
    found = Distributions.section(Distributions.finish(tables, [], []), "climatology")["probabilities"]
    for method in ("model", "persistence", "climatology", "multiscale ridge"):
        scores = found[method]
        for level in (50, 80, 95):
            assert scores[f"covered_{level}"] == pytest.approx(level / 100, abs=0.015), (method, level)
        assert scores["spread_skill"] == pytest.approx(1, abs=0.03)
        assert scores["pit"] == pytest.approx([0.05] * 20, abs=0.008)
    # Persistence has twice the variance of the climatology, less what is remembered.
    remembered = 0.6 ** np.arange(1, 9)
    ratio = np.sqrt(2 * (1 - remembered))
    by_lead = np.divide(found["persistence"]["by_lead"]["spread"], found["climatology"]["by_lead"]["spread"])
    np.testing.assert_allclose(by_lead, ratio, rtol=0.05)


def test_ties_are_spread_over_the_ranks_that_they_may_take() -> None:
    """As in a frozen sea, where observations are rounded to the freezing point, and members raised to it."""
    lowest = np.full((1, 1, 4), -1.8, np.float32)
    truth = np.array([-1.796, -1.804, 0.0, 0.1], np.float32).reshape(1, 1, 4)
    members = np.array([[-1.8, -1.8, 0, 1], [-1.8, -1.8, 0, 2], [-1.8, 0, 1, 3]], np.float32).reshape(3, 1, 1, 4)
    area = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    of_three, of_four = (0.2 + 0.3) / 3, 0.1 / 4
    expected = [of_four + of_three + 0.4, of_four + of_three, of_four + of_three, of_four]
    np.testing.assert_allclose(rank_histogram(members, truth, area, lowest), expected, rtol=1e-6)
    members[0, ..., 0] = -1.85  # below the truth
    np.testing.assert_allclose(rank_histogram(members, truth, area, None).sum(), 1, rtol=1e-6)
    found = rank_histogram(members[:, ..., :1], truth[..., :1], area[:1], lowest[..., :1])
    np.testing.assert_allclose(found, [0, 0.1 / 3, 0.1 / 3, 0.1 / 3], rtol=1e-6)


def test_a_kind_need_not_know_what_a_system_forecasts() -> None:
    """A spread, two members, the only member of a file, and one of several on a date that lacks the others."""
    random = np.random.default_rng(0)
    members, limit = random.normal(size=(2, 3, 4, 1, 5)).astype(np.float32), random.normal(size=(3, 4, 1, 5))
    seen, spread = observation(slice(0, 3), np.zeros_like(members[0])), np.full_like(members[0], 0.7)
    systems = {name: ScoredSystem(None, members=size) for name, size in (("two", 2), ("one", 1))}
    systems["none"] = ScoredSystem(None, has_probabilities=False)
    stage = Scene(None, systems)
    gaussian = stage.distribution(block("one", seen, members[:1], spread))
    assert isinstance(gaussian, Gaussian)
    assert gaussian.shares == 1
    np.testing.assert_allclose(gaussian.chance_above(limit), norm.sf(limit, members[0], 0.7), atol=1e-6)
    shares = {"two": (members > limit).mean(0), "one": members[0] > limit}
    for name, share in shares.items():
        found = stage.distribution(block(name, seen, members[: systems[name].members]))
        assert isinstance(found, Members)
        assert found.shares == systems[name].members
        np.testing.assert_array_equal(found.chance_above(limit), share)
        assert np.isnan(crps(found.values, limit, fair=True)).all() == (name == "one")
    assert stage.distribution(block("two", seen, members[:1])) is None
    assert stage.distribution(block("none", seen, members[:1])) is None


def test_events_are_defined_where_there_is_a_threshold() -> None:
    seen = observation(slice(0, 1), np.zeros((1, 2, 1, 3)), [0.4, np.nan, -1.0])
    assert seen.defined.tolist() == [[[[True, False, True]]] * 2]
