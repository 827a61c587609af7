"""The examples in the docstrings of formulas, worked by hand, and that every metric has one."""

import doctest

import pytest

from sstcast.forecasting import spread
from sstcast.scores import cases, distributions, metrics


@pytest.mark.parametrize("module", [metrics, distributions, cases, spread], ids=lambda of: of.__name__)
def test_the_examples_are_right(module) -> None:
    found = doctest.testmod(module)
    assert found.attempted
    assert not found.failed


def test_every_metric_has_an_example() -> None:
    assert all(">>> " in (type(metric).__doc__ or "") for metric in metrics.METRICS.values())
