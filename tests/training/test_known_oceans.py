"""Networks on a linear base in oceans with known dynamics: advection and diffusion driven by noise.

In the linear ocean no forecast beats the best linear map, so a network that seems to beat its base has seen test
days. In the other ocean, anomalies fall into one of two states, which only a network can learn.
"""

import numpy as np
import pytest
import scipy.stats
import torch

from sstcast.models import build_forecaster
from sstcast.models.base import ForecastModel
from sstcast.ocean.windows import Windows
from sstcast.training.cross_fitting import blocks_of_years, supported_share
from sstcast.training.forecast_task import fit

ROWS, COLS, HISTORY, HORIZON, YEARS = 5, 6, 5, 4, 10
STEPS, BATCH, LEARNING_RATE = 80, 16, 3e-3
BASE = {"name": "linear", "stencil": True}  # with penalties from cross-validation
FOLDS = (4, 6, 8)  # training years, after which two years are forecast


def simulate(two_states: bool) -> np.ndarray:
    """Return anomalies `[T, cells]`, which decay by 3 % a day, or fall into one of two states, -1 and 1."""
    random, field = np.random.default_rng(5), np.zeros((ROWS, COLS))
    days = np.empty((365 * YEARS, ROWS * COLS), np.float32)
    for day in range(len(days)):
        moved = 0.9 * field + 0.07 * np.roll(field, 1, 1) + 0.03 * np.roll(field, 1, 0)
        change = 0.25 * (moved - moved**3) if two_states else -0.03 * moved
        field = moved + change + random.normal(0, 0.35, field.shape)
        days[day] = field.ravel()
    return (days - days.mean()) / days.std()


def cut(values: np.ndarray, first: int, last: int) -> Windows:
    """Return the windows of some years, counted from 0."""
    part = slice(365 * first, 365 * last)
    days = np.datetime64("2001-01-01", "ns") + np.arange(len(values)) * np.timedelta64(1, "D")
    ocean, place = torch.ones(1, ROWS * COLS, dtype=torch.bool), torch.zeros(1, ROWS * COLS, 3)
    tiles = torch.from_numpy(values[part, None])
    return Windows(tiles, ocean, days[part], (ROWS, COLS), HISTORY, HORIZON, place)


def trained(windows: Windows) -> ForecastModel:
    """Fit a base to windows and train a small network on it."""
    torch.manual_seed(0)
    sizes = {"history": HISTORY, "horizon": HORIZON, "shape": (ROWS, COLS)}
    model = build_forecaster("mlp-pointwise", **sizes, width=16, layers=2, base=BASE, shared=True)
    assert model.linear is not None
    fit(model.linear, windows, None)
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE)
    for _ in range(STEPS):
        batch = windows.batch(torch.randint(len(windows), (BATCH,)))
        optimizer.zero_grad()
        (model(batch.history, batch.graph) - batch.target).square().mean().backward()
        optimizer.step()
    return model.eval()


def ratios(values: np.ndarray) -> np.ndarray:
    """Return the network's error over its base's in each fold, with the share that cross-fitting finds."""
    found = []
    for years in FOLDS:
        train, test = cut(values, 0, years), cut(values, years, years + 2).thinned(3)
        pairs = ((trained(others), block) for others, block in blocks_of_years(train, 2))
        share = supported_share(pairs, HORIZON)
        model, batch = trained(train), test.batch(torch.arange(len(test)))
        assert model.share is not None
        assert model.linear is not None
        model.share.copy_(share)
        with torch.no_grad():
            errors = [
                float((one(batch.history, batch.graph) - batch.target).square().mean())
                for one in (model, model.linear)
            ]
        found.append(errors[0] / errors[1])
    return np.array(found)


@pytest.mark.parametrize("two_states", [False, True], ids=["linear", "nonlinear"])
def test_a_network_gains_where_there_is_something_to_gain(two_states: bool) -> None:
    found = ratios(simulate(two_states))
    _, high = scipy.stats.t.interval(0.95, len(found) - 1, found.mean(), scipy.stats.sem(found))
    assert (high < 1) == two_states, found
    assert found.max() < 1.01  # a share that cross-fitting finds does no harm
