"""Means over the known cells of a target, in closed form."""

import numpy as np
import pytest

from sstcast.reading.weights import apply


@pytest.mark.parametrize(("missing", "expected"), [(0, 2.5), (1, 3.0), (2, 3.5), (3, np.nan)])
def test_a_target_that_is_known_for_exactly_the_least_share_has_a_value(missing: int, expected: float) -> None:
    values = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    values.ravel()[:missing] = np.nan
    half = np.full((1, 2), 0.5, np.float32)
    for parts, field in (((half, half), values), (np.full((1, 4), 0.25, np.float32), values.reshape(1, 4)[0])):
        np.testing.assert_allclose(np.ravel(apply(parts, field, 0.5)), [expected])
