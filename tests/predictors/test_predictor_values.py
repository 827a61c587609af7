"""Which numbers are no values of a predictor."""

import numpy as np
import pytest

from sstcast.predictors.values import extremes, implausible, limits, marks_missing, may_be_missing


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_numbers_that_mark_missing_values(kind: type) -> None:
    marks = [99.9, -99.99, 9.99, 999, -999.9, -9999, 9999.99, 999999, 32767, -32768, 1e20, -9.97e36, np.inf]
    values = [0, 9.9, -9.9, 99, 0.999, 1000, 990, 1e5, 1e6, 99.8, 32766, 1e15, np.nan]
    assert may_be_missing(np.array(marks, kind)).all()
    assert may_be_missing(np.array([-999, 999, -9999], kind) * kind(0.01)).all()  # as of ice with a scale factor
    assert not may_be_missing(np.array(values, kind)).any()


@pytest.mark.parametrize(
    ("values", "missing"),
    [
        ([990, 1030, 999.9, 1000], []),  # hPa
        ([-3.2, 9.9, 2.1], []),  # an SOI
        ([100, 150, 199.5, 99.9], []),
        ([-3.2, 2.1, 99.9, 99.9], [99.9, 99.9]),
        ([0, 0, 0, -9999], [-9999]),
        ([101000, 102000, -9999, 99999], [-9999, 99999]),
        ([999, -9999], [999, -9999]),
        ([-500, 500, 1499, 999], []),
        ([-500, 499, 1500, -9999], [-9999]),
    ],
)
def test_they_are_values_among_values_like_them(values: list[float], missing: list[float]) -> None:
    array = np.array([*values, np.nan])
    assert array[marks_missing(array)].tolist() == missing


def test_limits_lie_a_hundred_times_the_usual_range_away() -> None:
    random = np.random.default_rng(0)
    values = random.permutation(np.linspace(10, 30, 2001))
    np.testing.assert_allclose(limits(values), (11 - 1800, 29 + 1800), rtol=1e-3)
    values[:400] = -9999  # as in a file that does not declare it
    assert 20 * 90 < limits(values)[1] < 2100
    rain = np.where(random.random(50_000) < 0.96, 0, random.gamma(0.3, 20, 50_000))  # a cloudburst is no error
    assert not implausible(rain, extremes(rain[None])[0, 2:], limits(rain[:20_000])).any()
    assert rain.max() > 100
    winds = random.normal(8, 3, 10_000)
    assert not implausible(np.array([80.0]), (0, 80), limits(winds)).any()  # a cyclone
    assert implausible(np.array([-5000.0]), (-5000, 20), limits(winds)).all()
    ice = np.array([0.0] * 50 + [0.8])
    assert limits(ice) == pytest.approx((-80, 80), abs=1)
    assert limits(np.zeros(9)) == (-np.inf, np.inf)


def test_extremes_of_parts_with_what_may_be_missing_and_without() -> None:
    nan = np.nan
    values = np.array([[[1, 2], [-9999, nan]], [[nan, nan], [nan, nan]], [[5, 6], [7, 999]]])
    expected = [[-9999, 2, 1, 2], [nan] * 4, [5, 999, 5, 7]]
    np.testing.assert_array_equal(extremes(values), expected)
