"""Scores against `scores`, reliability by hand."""

import numpy as np
import pytest
import xarray as xr
from scores.categorical import BinaryContingencyManager
from scores.probability import brier_score

from sstcast.scores.heatwaves import contingency, probability_bins, rates, reliability


def test_scores_against_another_library() -> None:
    random = np.random.default_rng(1)
    probability, observed = random.integers(0, 5, 500) / 4, random.random(500) < 0.3
    entries = {name: xr.DataArray(v).mean() for name, v in contingency(probability, observed).items()}
    found = rates(entries)
    counts = BinaryContingencyManager(xr.DataArray(probability >= 0.5) * 1.0, xr.DataArray(observed) * 1.0)
    table = counts.transform()
    assert float(found["hit_rate"]) == pytest.approx(float(table.hit_rate()))
    assert float(found["false_alarm_ratio"]) == pytest.approx(float(table.false_alarm_ratio()))
    brier = brier_score(xr.DataArray(probability), xr.DataArray(observed * 1.0))
    assert float(found["brier"]) == pytest.approx(float(brier))
    assert float(found["observed"]) == pytest.approx(observed.mean())


@pytest.mark.parametrize(
    ("warned", "expected"),
    [("right", (1, 0, 0)), ("wrong", (0, 1, 1)), ("always", (1, 0.75, 0.75)), ("never", (0, np.nan, 0.25))],
)
def test_perfect_wrong_and_constant_warnings(warned: str, expected: tuple[float, ...]) -> None:
    observed = np.array([True, False, False, False] * 3)
    probability = {"right": observed, "wrong": ~observed, "always": observed | True, "never": observed & False}
    entries = contingency(probability[warned].astype(float), observed)
    found = rates({name: xr.DataArray(values).mean() for name, values in entries.items()})
    values = [float(found[name]) for name in ("hit_rate", "false_alarm_ratio", "brier")]
    np.testing.assert_allclose(values, expected)


def test_reliability_by_hand() -> None:
    probability = np.array([0, 0, 0.5, 0.5, 1, 1])
    observed = np.array([False, True, True, False, True, True])
    weights = np.array([1.0, 1, 2, 1, 1, 0])
    bins = probability_bins(members=2)
    assert bins == 3
    weight, mean, event = reliability(probability, observed, weights, bins)
    np.testing.assert_allclose(weight, [2, 3, 1])
    np.testing.assert_allclose(mean / weight, [0, 0.5, 1])
    np.testing.assert_allclose(event / weight, [0.5, 2 / 3, 1])
    halves = [
        reliability(p, o, w, bins)
        for p, o, w in zip(*(np.split(a, 2) for a in (probability, observed, weights)), strict=True)
    ]
    np.testing.assert_allclose(sum(halves), [weight, mean, event])


def test_a_calibrated_forecast_is_reliable() -> None:
    random = np.random.default_rng(2)
    probability = random.random(200_000).astype(np.float32)
    weight, mean, event = reliability(probability, random.random(200_000) < probability, np.ones(()), 10)
    np.testing.assert_allclose(event / weight, mean / weight, atol=0.02)
    np.testing.assert_allclose(weight, 20_000, rtol=0.05)
