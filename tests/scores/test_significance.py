"""Intervals and tests: coverage in a simulation, `scores` and SciPy as second opinions, closed forms."""

import numpy as np
import pytest
import xarray as xr
from scipy import stats
from scores.stats.statistical_tests import diebold_mariano as scores_diebold_mariano

from sstcast.figures.sheets.sheet import marked
from sstcast.names import DAY
from sstcast.scores.comparisons import date_blocks
from sstcast.scores.significance import (
    adjust,
    block_counts,
    correlated_days,
    decimals,
    diebold_mariano,
    ratio,
    sentence,
    verdict,
)


def errors(
    random: np.random.Generator, dates: int, horizon: int, simulations: int, cells: int = 4
) -> tuple[np.ndarray, np.ndarray]:
    """Squared errors `[dates, simulation]` of a model and a reference, correlated over `horizon` days.

    Both err by the same noise and by one of their own; the expected squares are 1 + 0.36 and 1.21 + 0.81.
    They are means over independent `cells`, as a real ocean's are over its patches.
    """
    steps = random.normal(size=(3, dates + horizon, simulations, cells)).cumsum(1)
    common, model, reference = (steps[:, horizon:] - steps[:, :-horizon]) / np.sqrt(horizon)
    squares = (common + 0.6 * model) ** 2, (1.1 * common + 0.9 * reference) ** 2
    return squares[0].mean(-1), squares[1].mean(-1)


@pytest.mark.parametrize(("dates", "horizon"), [(661, 28), (675, 14)])
def test_the_interval_covers_the_true_ratio_about_95_times_in_100(dates: int, horizon: int) -> None:
    model, reference = errors(np.random.default_rng(1), dates, horizon, 1000)
    low, high = ratio(model, reference, 3 * horizon)[1].T
    true = 1.36 / 2.02
    covered = np.mean((low < true) & (true < high))
    assert 0.92 < covered < 0.97
    # Not because intervals are wide: most of them tell this ratio from 1.
    assert np.mean(high < 1) > 0.5


def test_an_interval_lies_about_the_ratio_and_is_the_same_each_time() -> None:
    model, reference = errors(np.random.default_rng(0), 400, 7, 3)
    found, ends = ratio(model, reference, 28)
    np.testing.assert_allclose(found, model.mean(0) / reference.mean(0))
    assert ((ends[:, 0] < found) & (found < ends[:, 1]) & (ends[:, 0] > 0)).all()
    np.testing.assert_array_equal(ratio(model, reference, 28)[1], ends)
    np.testing.assert_allclose(ratio(100 * model, 100 * reference, 28)[1], ends)
    np.testing.assert_allclose(ratio(reference, reference, 28)[1], 1, atol=1e-12)
    assert np.isnan(ratio(0 * model, reference, 28)[1]).all()
    assert np.isnan(ratio(model, reference, 201)[1]).all()  # not two blocks


def test_blocks_are_runs_of_days() -> None:
    counts = block_counts(dates=50, block=10, replicates=4000)
    np.testing.assert_array_equal(counts.sum(1), 50)
    # Day d lies in min(d + 1, 10, 50 - d) of the 41 blocks, and five of them are drawn.
    day = np.arange(50)
    expected = 5 * np.minimum(np.minimum(day + 1, 10), 50 - day) / 41
    np.testing.assert_allclose(counts.mean(0), expected, atol=0.06)
    assert np.corrcoef(counts[:, 20], counts[:, 21])[0, 1] > 0.8


def test_standard_error_against_block_bootstrap_of_scores() -> None:
    from scores.processing import block_bootstrap

    model, reference = (e[:, 0] for e in errors(np.random.default_rng(3), 300, 7, 1))
    pair = [xr.DataArray(e, dims="date") for e in (model, reference)]
    np.random.seed(0)  # noqa: NPY002 (scores draws from this state)
    drawn = block_bootstrap(pair, blocks={"date": 30}, n_iteration=2000, circular=False)
    theirs = np.log(drawn[0].mean("date") / drawn[1].mean("date")).std().item()
    low, high = ratio(model, reference, 30)[1]
    ours = (np.log(high) - np.log(low)) / 2 / stats.t.ppf(0.975, 9) / np.sqrt(10 / 9)
    assert ours == pytest.approx(theirs, rel=0.08)


@pytest.mark.parametrize("lags", [1, 3, 7])
def test_diebold_mariano_against_scores(lags: int) -> None:
    model, reference = errors(np.random.default_rng(2), 300, 7, 6)
    difference = model - reference
    series = xr.DataArray(difference.T, {"h": ("series", [lags] * 6)}, ("series", "date"))
    series = series.assign_coords(series=range(6))
    theirs = scores_diebold_mariano(series, "series", "h", method="HLN", statistic_distribution="t")
    confidence = theirs["confidence_gt_0"].values
    np.testing.assert_allclose(
        diebold_mariano(difference, lags), 2 * np.minimum(confidence, 1 - confidence), rtol=1e-6
    )


def test_diebold_mariano_by_hand() -> None:
    difference = np.array([1.0, 2, 0, 3, 1, 2, 4, 0])
    one_sample = stats.ttest_1samp(difference, 0).pvalue  # what it is when nothing is correlated
    assert diebold_mariano(difference, 1) == pytest.approx(one_sample)
    # One that alternates has negative autocovariances, whose plain sum is no variance.
    alternating = np.tile([1.0, -0.9], 20)
    assert 0 < diebold_mariano(alternating, 2) <= 1
    assert np.isnan(diebold_mariano(np.zeros(20), 3))
    assert diebold_mariano(-difference, 3) == pytest.approx(diebold_mariano(difference, 3))


def test_equal_forecasts_are_told_apart_about_as_often_as_promised() -> None:
    random = np.random.default_rng(4)
    _, one = errors(random, 661, 28, 1500)
    _, other = errors(random, 661, 28, 1500)
    assert 0.03 < np.mean(diebold_mariano(one - other, correlated_days(28)) < 0.05) < 0.09


def test_adjusted_p_values_against_scipy() -> None:
    p_values = np.random.default_rng(5).uniform(size=(20, 30)) ** 3
    land = np.random.default_rng(6).random(p_values.shape) < 0.2
    found = adjust(np.where(land, np.nan, p_values))
    np.testing.assert_allclose(found[~land], stats.false_discovery_control(p_values[~land]))
    assert np.isnan(found[land]).all()
    assert np.isnan(adjust(np.full(3, np.nan))).all()


def test_neither_blocks_nor_lags_reach_from_one_part_into_the_next() -> None:
    # Where parts are as long as a block, each is drawn as a whole or not at all.
    counts = block_counts(dates=30, block=10, replicates=500, parts=(10, 10, 10))
    for start in (0, 10, 20):
        assert (counts[:, start : start + 10] == counts[:, [start]]).all()
    assert (counts.sum(1) == 30).all()
    assert set(np.unique(counts)) == {0, 1, 2, 3}
    random = np.random.default_rng(6)
    difference = random.normal(0.2, 1, 40)
    parts, lags = (25, 15), 4
    deviation = difference - difference.mean()
    pairs = [(i, i + lag) for lag in range(1, lags) for i in range(40 - lag) if (i < 25) == (i + lag < 25)]
    variance = (deviation**2).mean() + 2 * sum(deviation[i] * deviation[j] for i, j in pairs) / 40
    statistic = difference.mean() / np.sqrt(variance / 40) * np.sqrt((41 - 2 * lags + lags * (lags - 1) / 40) / 40)
    assert diebold_mariano(difference, lags, parts) == pytest.approx(2 * stats.t.sf(abs(statistic), 39))
    np.testing.assert_array_equal(
        ratio(difference**2, deviation**2, 5, (40,))[1], ratio(difference**2, deviation**2, 5)[1]
    )


def test_seasons_are_segments_and_one_shorter_than_a_block_is_drawn_whole() -> None:
    days = np.concatenate([first + np.arange(0, 90, 7) for first in (0, 365, 730)] + [[1095, 1102]])
    dates = np.datetime64("2001-01-01", "ns") + np.sort(days) * DAY
    fold = xr.DataArray([1] * 13 + [2] * 15 + [2] * 13, {"init_time": dates}, ("init_time",))
    tables = xr.DataArray(np.zeros((41, 14)), {"init_time": dates, "fold": fold}, ("init_time", "lead"))
    assert date_blocks(tables.assign_coords(lead=np.arange(14)), 42)[::2] == (6, (13, 13, 13, 2))
    assert date_blocks(tables[:20], 420).segments == (13, 7)  # only the fold tells
    counts = block_counts(41, 6, parts=(13, 13, 13, 2))
    assert (counts.sum(1) == 41).all()
    assert (counts[:, 39] <= counts[:, 40] + 1).all()  # drawn together, unless the last block is truncated
    assert (counts[:, 40] <= counts[:, 39]).all()
    assert counts.mean(0).min() > 0.2


@pytest.mark.parametrize(
    ("over_dates", "of_folds", "expected"),
    [
        ([0.8, 0.9], None, "better"),
        ([1.1, 1.2], None, "worse"),
        ([0.9, 1.0], None, "not distinguishable"),
        ([0.8, 0.9], [0.7, 0.99], "better"),
        ([0.8, 0.9], [0.7, 1.01], "not distinguishable"),
        ([0.9, 1.1], [0.8, 0.9], "not distinguishable"),
        ([1.1, 1.2], [0.99, 1.3], "not distinguishable"),
        ([0.8, 0.9], [1.1, 1.2], "not distinguishable"),
        ([0.8, 0.9], [None, None], "better"),
        ([None, None], [0.8, 0.9], "too few dates"),
    ],
)
def test_one_verdict_decides_asterisks_and_sentences(
    over_dates: list[float | None], of_folds: list[float | None] | None, expected: str
) -> None:
    folds = of_folds and {"interval": of_folds, "p_value": 0.2}
    compared = {"ratio": 0.9, "interval": over_dates, "over_folds": folds}
    assert verdict(compared) == expected
    assert marked(compared).endswith("*") is (expected in ("better", "worse"))
    text = sentence(compared, "a", "b", "error")
    assert (f"a is {expected} " in text) is (expected != "too few dates")
    assert ("too few dates" in text) is (expected == "too few dates")
    if of_folds is None:  # as a part of a run's comparison, which has no folds
        del compared["over_folds"]
        assert verdict(compared) == expected


def test_a_verdict_has_digits_that_tell() -> None:
    """Better by a hair: neither the ratio nor the end of an interval is written as 1."""
    compared = {"ratio": 0.99966, "interval": [0.99935, 0.99998], "over_folds": None}
    text = sentence(compared, "a", "b", "error")
    assert text == "a is better than b: 0.99966 times the error (95 % interval 0.99935 to 0.99998 over dates)."
    folds = {"interval": [0.99912, 0.999998], "p_value": 0.04}
    assert "0.999660 times" in sentence(compared | {"over_folds": folds}, "a", "b", "error")
    assert "0.999120 to 0.999998 over folds" in sentence(compared | {"over_folds": folds}, "a", "b", "error")
    same = compared | {"interval": [0.9993, 1.0]}
    assert sentence(same, "a", "b", "error").startswith("a is not distinguishable from b: 1.000 times")
    assert [decimals(of) for of in (1.2, 0.9994, 1.0004, 1.00004, 0.999998)] == [3, 3, 4, 5, 6]
