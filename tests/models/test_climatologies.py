"""Climatologies of a warming ocean against NumPy's polynomial fit and mean."""

import numpy as np
import torch

from sstcast.models import build_forecaster
from sstcast.models.linear import TrendClimatology
from sstcast.ocean.windows import Windows
from sstcast.training.forecast_task import fit

HISTORY, HORIZON = 10, 8


def warming() -> Windows:
    """Return twenty years of noise around a linear trend, which differs in each cell."""
    random = np.random.default_rng(0)
    days = np.datetime64("1990-01-01") + np.arange(20 * 365)
    slopes = np.array([0.1, -0.1, 0.3, 0])
    values = np.arange(len(days))[:, None] / 365.2425 * slopes + random.normal(0, 0.3, (len(days), 4))
    field = torch.from_numpy(values.astype(np.float32)[:, None])
    ocean, place = torch.ones(1, 4, dtype=torch.bool), torch.zeros(1, 4, 3)
    return Windows.daily(field, ocean, days, (2, 2), HISTORY, HORIZON, place)


def fitted(name: str, windows: Windows) -> TrendClimatology:
    model = build_forecaster(name, history=HISTORY, horizon=HORIZON, shape=(2, 2))
    assert isinstance(model, TrendClimatology)
    fit(model, windows, None)
    return model


def test_a_trend_is_the_least_squares_line_on_the_days_ahead() -> None:
    windows = warming()
    ahead = fitted("trend-climatology", windows).forecast_windows(windows).numpy()
    last = windows.at + HISTORY - 1
    used, values = last[::7], windows.values[:, 0].numpy().astype(float)
    for cell in range(4):
        line = np.polynomial.Polynomial.fit(used, values[used, cell], 1)
        np.testing.assert_allclose(ahead[-1, :, 0, cell], line(last[-1] + np.arange(1, 9)), atol=1e-4)


def test_the_recent_climatology_is_the_mean_of_the_last_ten_years() -> None:
    windows = warming()
    ahead = fitted("recent-climatology", windows).forecast_windows(windows).numpy()
    used = (windows.at + HISTORY - 1)[::7]
    recent = used[used > used[-1] - 3652]
    expected = windows.values[recent, 0].numpy().mean(0)
    np.testing.assert_allclose(ahead[0, :, 0], np.tile(expected, (8, 1)), atol=1e-4)
