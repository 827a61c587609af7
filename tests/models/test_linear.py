"""Linear systems against scikit-learn and NumPy, with memory and stencil against `linear_reference`."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
from linear_reference import BOXES, Inputs, by_years, cross_validated
from scipy.ndimage import uniform_filter
from sklearn.linear_model import LinearRegression
from sklearn.linear_model import Ridge as PooledRidge

from sstcast.config import Region
from sstcast.errors import SSTCastError
from sstcast.models import LINEAR, build_forecaster, ridge_inputs
from sstcast.models.base import LinearSystem
from sstcast.models.eof_models import LinearInverseModel
from sstcast.models.linear import MultiscaleRidge, Ridge, TrendClimatology
from sstcast.ocean.windows import Batch, Windows, windows_of
from sstcast.training.forecast_task import fit, in_parts

ROWS, COLS, HISTORY, HORIZON = 7, 9, 12, 5
BEFORE = 365 - HISTORY  # days that a memory reads before the history
OCEAN = np.ones((ROWS, COLS), bool)
OCEAN[2, 3:6] = OCEAN[0, 0] = False
DAYS = pd.date_range("2001-01-01", periods=2900)
TRAIN, VALIDATION, TEST = (200, 1900), (1900, 2400), (2400, 2900)
LONG, WIDE = ("memory",), ("stencil",)
BOTH = LONG + WIDE
SYSTEMS = [(name, ()) for name in LINEAR] + [("multiscale-ridge", BOTH), ("local-ridge", BOTH)]
Splits = tuple[Windows, Windows, Windows]  # of the training, validation and test days
BY_CELL = {"trend-climatology", "recent-climatology", "local-ridge"}  # with weights for each cell of one tile


@pytest.fixture(scope="module")
def field() -> np.ndarray:
    """Red noise in time and space plus slow red noise, `[T, rows, columns]`, 0 on land."""
    random = np.random.default_rng(3)
    found, slow = np.zeros((len(DAYS), ROWS, COLS), np.float32), np.zeros((ROWS, COLS))
    for day in range(1, len(DAYS)):
        fresh = uniform_filter(random.normal(size=(2, ROWS, COLS)), (0, 3, 3), mode="nearest")
        slow = 0.995 * slow + 0.05 * fresh[0]
        found[day] = 0.9 * uniform_filter(found[day - 1], 3, mode="nearest") + 0.1 * slow + 0.5 * fresh[1]
    found[:, ~OCEAN] = 0
    return found


def cut(field: np.ndarray, span: tuple[int, int]) -> Windows:
    """Return the windows of a span of days, with the year before it as far as it is in the field."""
    first, stop = span
    axes = {"lat": 0.25 * np.arange(ROWS), "lon": 0.25 * np.arange(COLS)}
    anomaly = xr.DataArray(np.where(OCEAN, field, np.nan), {"time": DAYS, **axes}, ("time", "lat", "lon"))
    anomalies = xr.Dataset({"anomaly": anomaly, "ocean_mask": xr.DataArray(OCEAN, axes, ("lat", "lon"))})
    anomalies = anomalies.isel(time=slice(max(0, first - BEFORE), stop))
    region = Region(lon=(0, 3), lat=(0, 3), tile=(ROWS, COLS))
    return windows_of(anomalies, region, HISTORY, HORIZON, before=BEFORE, absent=max(0, BEFORE - first))


@pytest.fixture(scope="module")
def windows(field: np.ndarray) -> Splits:
    return cut(field, TRAIN), cut(field, VALIDATION), cut(field, TEST)


def system(name: str, groups: tuple[str, ...] = ()) -> LinearSystem:
    options = dict.fromkeys(groups, True)
    model = build_forecaster(name, history=HISTORY, horizon=HORIZON, shape=(ROWS, COLS), **options)
    assert isinstance(model, LinearSystem)
    return model


def initial(span: tuple[int, int], every: int = 1) -> np.ndarray:
    """Return the day numbers of the initial dates of a span's windows."""
    return np.arange(span[0] + HISTORY - 1, span[1] - HORIZON - 1, every)


def batches(windows: Windows, stride: int) -> Iterator[Batch]:
    """Yield batches of the windows that start every `stride` days."""
    for part in in_parts(windows)(stride):
        yield part.batch(torch.arange(len(part)))


def ahead(model: LinearSystem, windows: Windows) -> np.ndarray:
    """Forecast on ocean cells, `[starts, horizon, cells]`."""
    with torch.no_grad():
        parts = [model.forecast_windows(part) for part in in_parts(windows)(1)]
    return torch.cat(parts).numpy()[:, :, 0, OCEAN.ravel()]


def stacked(field: np.ndarray, span: tuple[int, int], boxes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the histories of so many boxes and the days ahead, a row for each date and cell."""
    inputs, cells = Inputs(field.astype(float), OCEAN, HISTORY), field[:, OCEAN].astype(float)
    dates = initial(span, 7)
    x = np.concatenate([inputs.at(day)[:, : boxes * HISTORY] for day in dates])
    return x, np.concatenate([cells[day + 1 : day + 1 + HORIZON].T for day in dates])


@pytest.mark.parametrize("refit", [True, False])
def test_ridges_are_those_of_scikit_learn(field: np.ndarray, windows: Splits, refit: bool) -> None:
    """The penalty of each lead is the best on the validation days. A ridge on the cell alone has a fixed one."""
    train, validation, _ = windows
    for name, boxes, penalties in (("ridge", 1, (10.0,)), ("multiscale-ridge", len(BOXES), (1e2, 1e3, 1e4, 1e5))):
        model = system(name)
        chosen = fit(model, train, validation, refit)
        (x, y), (late_x, late_y) = (stacked(field, span, boxes) for span in (TRAIN, VALIDATION))
        errors = [((PooledRidge(p).fit(x, y).predict(late_x) - late_y) ** 2).mean(0) for p in penalties]
        best = [penalties[choice] for choice in np.argmin(errors, axis=0)]
        assert chosen == ({"penalty": best} if boxes > 1 else {})
        if refit and boxes > 1:
            x, y = np.concatenate([x, late_x]), np.concatenate([y, late_y])
        for lead, penalty in enumerate(best):
            theirs = PooledRidge(penalty).fit(x, y[:, lead])
            np.testing.assert_allclose(model.weight[:, lead], [*theirs.coef_, theirs.intercept_], atol=1e-4)


def test_damping_is_least_squares(field: np.ndarray, windows: Splits) -> None:
    model = system("damped-persistence")
    fit(model, windows[0], None)
    cells, dates = field[:, OCEAN].astype(float), initial(TRAIN)
    last = cells[dates].reshape(-1, 1)
    ahead = np.stack([cells[dates + lead].ravel() for lead in range(1, HORIZON + 1)], 1)
    expected = LinearRegression(fit_intercept=False).fit(last, ahead).coef_[:, 0]
    np.testing.assert_allclose(model.damping, expected, rtol=1e-4)


@pytest.mark.parametrize("groups", [LONG, WIDE, BOTH])
def test_a_ridge_with_groups_is_the_reference(field: np.ndarray, windows: Splits, groups: tuple[str, ...]) -> None:
    model = system("multiscale-ridge", groups)
    chosen = fit(model, *windows[:2])
    dates = np.concatenate([initial(TRAIN, 7), initial(VALIDATION, 7)])
    inputs, cells = Inputs(field.astype(float), OCEAN, HISTORY, groups), field[:, OCEAN].astype(float)
    blocks = [inputs.sums_of(cells, block, HORIZON) for block in by_years(dates.tolist(), DAYS.year.values)]
    weights, pairs = cross_validated(blocks, len(BOXES) * HISTORY)
    assert chosen == {"penalty": [list(pair) for pair in pairs]}
    np.testing.assert_allclose(model.weight, weights, atol=1e-6)
    expected = np.stack([(inputs.at(day) @ weights).T for day in initial(TEST)])
    np.testing.assert_allclose(ahead(model, windows[2]), expected, atol=1e-5)
    assert len(weights) == len(BOXES) * HISTORY + 12 * ("memory" in groups) + 24 * ("stencil" in groups) + 1


@pytest.mark.parametrize("name", ["local-ridge", "lim"])
def test_without_a_refit_validation_chooses_and_no_more(windows: Splits, name: str) -> None:
    train, validation, test = windows
    nearly = replace(validation, values=validation.values * 1.001)
    for refit in (True, False):
        models = [system(name), system(name)]
        chosen = [fit(model, train, late, refit) for model, late in zip(models, (validation, nearly), strict=True)]
        assert chosen[0] == chosen[1]
        one, other = (ahead(model, test) for model in models)
        assert np.array_equal(one, other) is not refit


@pytest.mark.parametrize(("name", "groups"), SYSTEMS)
def test_all_windows_at_once_are_forecast_like_each(windows: Splits, name: str, groups: tuple[str, ...]) -> None:
    """Land gets 0, and what a tile gets does not depend on others beside it."""
    model = system(name, groups)
    fit(model, *windows[:2])
    for test in (windows[2], windows[2].thinned(3)):
        batch, at_once = test.batch(torch.arange(len(test))), model.forecast_windows(test)
        assert not at_once[..., ~OCEAN.ravel()].any()
        if name == "trend-climatology":
            with pytest.raises(SSTCastError, match="needs the day"):
                model(batch.history, batch.graph)
            continue
        with torch.no_grad():
            each = model(batch.history, batch.graph)
        torch.testing.assert_close(at_once[:, :, 0], each.transpose(1, 2), atol=1e-5, rtol=0)
        if name not in BY_CELL:
            joined = torch.cat([test.values, -2 * test.values], 1)
            both = replace(test, values=joined, ocean=test.ocean.expand(2, -1), place=test.place.expand(2, -1, -1))
            one, other = model.forecast_windows(both).split(1, dim=2)
            assert torch.equal(one, at_once)
            torch.testing.assert_close(other, model.forecast_windows(replace(test, values=-2 * test.values)))


@pytest.mark.parametrize("name", ["multiscale-ridge", "local-ridge"])
def test_no_later_day_changes_a_fit_or_a_forecast(field: np.ndarray, name: str) -> None:
    jump = field.copy()
    jump[TEST[0] :] += 5
    found = []
    for values in (field, jump):
        model = system(name, BOTH)
        chosen = fit(model, cut(values, TRAIN), cut(values, VALIDATION))
        found.append((chosen, model.state_dict(), ahead(model, cut(values, (1950, TEST[0] + HORIZON + 1)))))
    (chosen, state, forecast), (other_chosen, other_state, other) = found
    assert chosen == other_chosen
    assert all(torch.equal(value, other_state[key]) for key, value in state.items())
    last = TEST[0] - 1950 - HISTORY + 1  # initial dates before the jump
    np.testing.assert_array_equal(forecast[:last], other[:last])


def test_the_memory_of_few_dates_at_a_time_is_the_same(windows: Splits, monkeypatch: pytest.MonkeyPatch) -> None:
    train = windows[0].thinned(7)
    together = ridge_inputs._period_means(train)
    monkeypatch.setattr(ridge_inputs, "DATES_AT_ONCE", 5)
    torch.testing.assert_close(ridge_inputs._period_means(train), together, rtol=0, atol=1e-6)
    values = (train.values * train.ocean).flatten(1).numpy()
    last = BEFORE + HISTORY - 1 + 7 * (train.starts - 1)
    means = [values[last - b + 1 : last - a + 1].mean(0) for a, b in ridge_inputs.PERIODS]
    np.testing.assert_allclose(together[-len(means) :], means, atol=1e-5)


def test_without_a_year_before_the_windows_the_memory_is_left_out(windows: Splits) -> None:
    def alone(windows: Windows) -> Windows:
        at = windows.at - BEFORE
        return replace(windows, values=windows.values[BEFORE:], days=windows.days[BEFORE:], at=at, before=0)

    train, _, test = windows
    both, only = system("multiscale-ridge", BOTH), system("multiscale-ridge", WIDE)
    chosen = fit(both, alone(train), None)
    assert both.before == 0
    assert fit(only, alone(train), None) == chosen
    np.testing.assert_allclose(ahead(both, alone(test)), ahead(only, alone(test)), atol=1e-6)
    assert isinstance(both, MultiscaleRidge)
    fit(both, train, None)
    assert both.before == BEFORE
    batch = alone(test).batch(torch.arange(1))
    with pytest.raises(SSTCastError, match="365 days up to the initial date, there are 12"):
        both(batch.history, batch.graph)
    with pytest.raises(SSTCastError, match="365 days"):
        both.forecast_windows(alone(test))


def test_the_correction_is_a_regression_in_each_cell(windows: Splits) -> None:
    train, _, test = windows
    model = system("local-ridge")
    fit(model, train, None)
    lags = [0, 3, 7]
    patterns = model.patterns.double().numpy()
    np.testing.assert_allclose(patterns @ patterns.T, np.eye(len(patterns)), atol=1e-5)

    def states(windows: Windows, stride: int) -> np.ndarray:
        now = windows.at[::stride] + HISTORY - 1
        flat = windows.values.numpy()[:, 0].astype(float) @ patterns.T
        angle = 2 * np.pi / 365.2425 * (pd.DatetimeIndex(windows.days[now]).day_of_year.values - 1)
        sine, cosine = np.sin(angle)[:, None], np.cos(angle)[:, None]
        return np.concatenate(
            [*(flat[now - lag] for lag in lags), sine, cosine, flat[now] * sine, flat[now] * cosine], 1
        )

    def pooled(windows: Windows, stride: int) -> tuple[np.ndarray, np.ndarray]:
        with torch.no_grad():
            parts = [(Ridge.forward(model, b.history, b.graph), b.target) for b in batches(windows, stride)]
        forecast, target = (torch.cat(part).numpy()[:, OCEAN.ravel()] for part in zip(*parts, strict=True))
        return forecast, target

    forecast, target = pooled(train, 5)
    x = states(train, 5)
    mean, deviation = x.mean(0), x.std(0)
    local = PooledRidge(1e4, fit_intercept=False).fit(
        (x - mean) / deviation, (target - forecast).reshape(len(x), -1)
    )
    forecast, _ = pooled(test, 1)
    correction = local.predict((states(test, 1) - mean) / deviation).reshape(forecast.shape)
    np.testing.assert_allclose(ahead(model, test).swapaxes(1, 2), forecast + correction, atol=2e-4)
    assert abs(correction).max() > 0.01


def test_a_linear_inverse_model(windows: Splits, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LinearInverseModel, "MODES", (4,))
    train, validation, _ = windows
    model = system("lim")
    assert isinstance(model, LinearInverseModel)
    chosen = fit(model, train, None)
    assert chosen == {"modes": 4, "lag": 5}  # the longest lag within the horizon
    first, then = [], []
    for batch in batches(train, 3):
        first.append(batch.history[..., -1] @ model.patterns.T)
        then.append(batch.target[..., 4] @ model.patterns.T)
    x, y = (torch.cat(part).double().numpy() for part in (first, then))
    propagator = LinearRegression(fit_intercept=False).fit(x, y).coef_
    np.testing.assert_allclose(model.propagators[4], propagator, atol=1e-4)
    one = model.propagators[0].double().numpy()
    np.testing.assert_allclose(np.linalg.matrix_power(one, 5), propagator, atol=1e-4)
    moments = model._moments(in_parts(validation), in_parts(train))
    error = moments.error(model.propagators.double().numpy(), model.damping.double().numpy())
    came = torch.cat([batch.target for batch in batches(validation, 3)]).numpy()[:, OCEAN.ravel()]
    direct = ((ahead(model, validation.thinned(3)).swapaxes(1, 2) - came) ** 2).sum(dtype=float)
    assert error == pytest.approx(direct, rel=1e-4)


@pytest.mark.parametrize("name", ["trend-climatology", "recent-climatology"])
def test_climatologies_of_a_warming_ocean(name: str) -> None:
    """The least-squares line of each cell goes on, or the mean of the last ten years stays."""
    days = np.datetime64("1990-01-01") + np.arange(20 * 365)
    slopes = np.array([0.1, -0.1, 0.3, 0])
    noise = np.random.default_rng(0).normal(0, 0.3, (len(days), 4))
    values = torch.from_numpy(np.arange(len(days))[:, None] / 365.2425 * slopes + noise).float()
    ocean, place = torch.ones(1, 4, dtype=torch.bool), torch.zeros(1, 4, 3)
    windows = Windows(values[:, None], ocean, days, (2, 2), 10, 8, place)
    model = build_forecaster(name, history=10, horizon=8, shape=(2, 2))
    assert isinstance(model, TrendClimatology)
    fit(model, windows, None)
    found, used = model.forecast_windows(windows).numpy(), (windows.at + 9)[::7]
    if name == "recent-climatology":
        recent = values[used[used > used[-1] - 3652]].numpy().mean(0)
        np.testing.assert_allclose(found[0, :, 0], np.tile(recent, (8, 1)), atol=1e-4)
        return
    for cell in range(4):
        line = np.polynomial.Polynomial.fit(used, values[used, cell], 1)
        np.testing.assert_allclose(found[-1, :, 0, cell], line(windows.at[-1] + 9 + np.arange(1, 9)), atol=1e-4)
