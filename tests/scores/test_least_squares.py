"""Weights of least squares against other solvers, and of systems whose weights are known."""

import numpy as np
import pytest
from scipy.optimize import minimize, nnls

from sstcast.scores.combine import least_squares


@pytest.mark.parametrize("count", [2, 3, 7])
def test_weights_are_those_of_other_solvers(count: int) -> None:
    chance = np.random.default_rng(count)
    errors = chance.normal(size=(200, 1)) + chance.normal(size=(200, count)) * chance.uniform(0.3, 2, count)
    products = errors.T @ errors / 200
    found = least_squares(products)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1)
    sum_to_1 = {"type": "eq", "fun": lambda w: w.sum() - 1}
    slow = minimize(
        lambda w: w @ products @ w,
        np.full(count, 1 / count),
        method="SLSQP",
        jac=lambda w: 2 * products @ w,
        bounds=[(0, None)] * count,
        constraints=sum_to_1,
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(found, slow.x, atol=1e-5)
    assert found @ products @ found <= slow.fun + 1e-12
    # Of the errors themselves, with the sum held by a row of great weight.
    held, _ = nnls(np.vstack([errors, np.full(count, 1e6)]), np.append(np.zeros(200), 1e6))
    np.testing.assert_allclose(found, held, atol=1e-5)


def test_weights_of_two_known_systems() -> None:
    """Independent errors: weights go as 1 / variance. A system worse than another in all it does has none."""
    np.testing.assert_allclose(least_squares(np.diag([1.0, 4.0])), [0.8, 0.2])
    np.testing.assert_allclose(least_squares(np.array([[1.0, 1.0], [1.0, 2.0]])), [1, 0], atol=1e-12)
    np.testing.assert_allclose(least_squares(np.ones((2, 2))).sum(), 1)  # twice the same
    np.testing.assert_allclose(least_squares(np.diag([0.0, 1.0])), [1, 0], atol=1e-12)  # a perfect one
