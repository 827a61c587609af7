"""Systems on principal components where a region has fewer of them than they would read."""

import numpy as np
import pytest
import torch

from sstcast.errors import SSTCastError
from sstcast.models import build_forecaster
from sstcast.models.base import LinearSystem
from sstcast.models.eof_models import MOST_VARIANCE, LinearInverseModel, LocalRidge, Moments
from sstcast.ocean.windows import Windows
from sstcast.training.forecast_task import fit, in_parts

HISTORY, HORIZON, DAYS = 10, 8, 1500
NAMES = ("lim", "local-ridge")


def red_noise(series: int, persistence: float = 0.95) -> np.ndarray:
    """Return independent series of red noise, `[DAYS, series]`."""
    random, found = np.random.default_rng(2), np.zeros((DAYS, series))
    for day in range(1, DAYS):
        found[day] = persistence * found[day - 1] + random.normal(size=series)
    return found


def windows_of(values: np.ndarray, ocean: np.ndarray, first: int = 0, stop: int = DAYS) -> Windows:
    """Return the windows of a tile, whose `values [T, cells]` are on the `ocean [rows, columns]`."""
    days = np.datetime64("2001-01-01") + np.arange(first, stop)
    tile = np.zeros((stop - first, ocean.size), np.float32)
    tile[:, ocean.ravel()] = values[first:stop]
    place = torch.zeros(1, ocean.size, 3)
    mask = torch.from_numpy(ocean.ravel()[None])
    return Windows(torch.from_numpy(tile)[:, None], mask, days, ocean.shape, HISTORY, HORIZON, place)


def fitted(name: str, values: np.ndarray, ocean: np.ndarray, refit: bool = True) -> tuple[LinearSystem, Windows]:
    """Fit a system to two thirds of the days, and return it with the windows of all."""
    model = build_forecaster(name, history=HISTORY, horizon=HORIZON, shape=ocean.shape)
    assert isinstance(model, LinearSystem)
    fit(model, windows_of(values, ocean, stop=1000), windows_of(values, ocean, 1000), refit)
    return model, windows_of(values, ocean)


def ahead(model: LinearSystem, windows: Windows) -> np.ndarray:
    """Forecast on ocean cells, `[starts, horizon, cells]`."""
    with torch.no_grad():
        forecast = torch.cat([model.forecast_windows(part) for part in in_parts(windows)(1)])
    return forecast[:, :, 0, windows.ocean[0]].numpy()


@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_land_around_few_cells_changes_nothing(name: str, refit: bool) -> None:
    """Neither the count of land cells nor rounding noise in place of EOFs does."""
    coast = np.zeros((4, 6), bool)
    coast[:2, :4] = True
    values = red_noise(8) @ np.random.default_rng(0).normal(size=(8, 8))
    alone, with_land = (ahead(*fitted(name, values, ocean, refit)) for ocean in (np.ones((2, 4), bool), coast))
    np.testing.assert_allclose(with_land, alone, atol=1e-3 * values.std())
    assert alone.var(0).max() < 1.1 * values.var(0).max()


def test_cells_that_vary_as_one_have_few_modes_and_no_rest() -> None:
    """Eight cells that two series make: the two EOFs, or the first alone, are the candidates."""
    ocean = np.ones((2, 4), bool)
    values = red_noise(2) @ np.random.default_rng(1).normal(size=(2, 8))
    model, windows = fitted("lim", values, ocean)
    assert isinstance(model, LinearInverseModel)
    assert model.patterns.any(1).sum() == 2
    assert not model.damping.any()
    forecast = ahead(model, windows)
    for lead in range(HORIZON):  # the best forecast of red noise is a multiple of the last day
        last = values[HISTORY - 1 : HISTORY - 1 + len(forecast)]
        error = forecast[:, lead] - 0.95 ** (lead + 1) * last
        assert error.var() < 0.02 * last.var()
    local, _ = fitted("local-ridge", values, ocean)
    assert isinstance(local, LocalRidge)
    components = local.local[: len(local.lags) * local.modes].unflatten(0, (-1, local.modes))
    assert components[:, :2].any()
    assert not components[:, 2:].any()


def moments_of(growth: float) -> Moments:
    """Return the moments of one component that is `growth` times as large after each day."""
    moments = Moments(1, HORIZON)
    now = torch.ones(10, 1)
    moments.add(now, torch.stack([now * growth ** (lead + 1) for lead in range(HORIZON)], 1), torch.ones(1, 1))
    return moments


def test_more_variance_than_the_days_have_is_not_stable() -> None:
    most = MOST_VARIANCE ** (1 / 2 / HORIZON)
    for growth, stable in ((0.9, True), (0.999 * most, True), (1.001 * most, False), (5.0, False)):
        assert moments_of(growth).is_stable(1, 1) is stable
    assert not moments_of(0.9).is_stable(2, 1)  # there is but one
    assert not moments_of(float("nan")).is_stable(1, 1)


@pytest.mark.parametrize("refit", [True, False])
def test_a_system_that_only_grows_is_refused(refit: bool) -> None:
    values = 1.02 ** np.arange(DAYS)[:, None] * np.ones(8) * 1e-6
    with pytest.raises(SSTCastError, match="grows without bounds"):
        fitted("lim", values, np.ones((2, 4), bool), refit)


def test_what_is_unstable_on_all_days_is_left_out_after_the_refit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The candidate that is best on the validation days may grow on both splits together."""
    values = red_noise(8)
    ocean = np.ones((2, 4), bool)
    best = build_forecaster("lim", history=HISTORY, horizon=HORIZON, shape=ocean.shape)
    chosen = fit(best, windows_of(values, ocean, stop=1000), windows_of(values, ocean, 1000))
    is_stable, calls = Moments.is_stable, []

    def unless_best(moments: Moments, modes: int, lag: int) -> bool:
        calls.append((modes, lag))
        again = calls.count((modes, lag)) > 1  # after the refit
        return is_stable(moments, modes, lag) and not (again and (modes, lag) == (chosen["modes"], chosen["lag"]))

    monkeypatch.setattr(Moments, "is_stable", unless_best)
    other = fit(best, windows_of(values, ocean, stop=1000), windows_of(values, ocean, 1000))
    assert other != chosen
