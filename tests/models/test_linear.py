"""Linear systems against plain NumPy."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
from linear_reference import Inputs
from scipy.ndimage import uniform_filter

from sstcast.models import LINEAR, build_forecaster
from sstcast.models.base import LinearSystem
from sstcast.models.linear import YEAR, Ridge, TrendClimatology
from sstcast.models.modes import LinearInverseModel
from sstcast.ocean.windows import Batch, Windows, unit_vectors
from sstcast.training.forecast_task import fit, samples

ROWS, COLS, HISTORY, HORIZON = 6, 9, 12, 5
BY_CELL = {"trend-climatology", "recent-climatology", "local-ridge"}  # with weights for each cell of one tile
OCEAN = np.ones((ROWS, COLS), bool)
OCEAN[2, 3:6] = OCEAN[0, 0] = False
SHIPPED = Path(__file__).parents[2] / "data/sample/tasman_oisst_daily_1982_2016.nc"


def windows_of(values: np.ndarray, ocean: np.ndarray, history: int, horizon: int, first: str) -> Windows:
    """Make the windows of one tile from `values [T, rows, columns]`, NaN on land."""
    days = np.datetime64(first, "ns") + np.arange(len(values)) * np.timedelta64(1, "D")
    grid = xr.DataArray(
        values, {"lat": np.arange(ocean.shape[0]), "lon": np.arange(ocean.shape[1])}, ("time", "lat", "lon")
    )
    return Windows.daily(
        torch.from_numpy(np.nan_to_num(values).astype(np.float32).reshape(len(values), 1, -1)),
        torch.from_numpy(ocean.reshape(1, -1)),
        days,
        ocean.shape,
        history,
        horizon,
        unit_vectors(grid, np.arange(ocean.size)[None]),
    )


@pytest.fixture(scope="module")
def windows() -> tuple[Windows, Windows, Windows]:
    """Red noise in time and space: training, validation and test days."""
    random = np.random.default_rng(3)
    field = np.zeros((900, ROWS, COLS))
    for day in range(1, 900):
        fresh = uniform_filter(random.normal(size=(ROWS, COLS)), 3, mode="nearest")
        field[day] = 0.95 * uniform_filter(field[day - 1], 3, mode="nearest") + fresh
    field[:, ~OCEAN] = np.nan
    parts = np.split(field, [500, 700])
    return tuple(  # type: ignore[return-value]
        windows_of(part, OCEAN, HISTORY, HORIZON, first)
        for part, first in zip(parts, ("2001-01-01", "2002-05-16", "2002-12-02"), strict=True)
    )


def system(name: str) -> LinearSystem:
    model = build_forecaster(name, history=HISTORY, horizon=HORIZON, shape=(ROWS, COLS))
    assert isinstance(model, LinearSystem)
    return model


def rows(windows: Windows, stride: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield inputs and targets of a multiscale ridge, a row for each cell, in double precision."""
    fields = windows.values.numpy().astype(float).reshape(-1, ROWS, COLS)
    inputs = Inputs(fields, OCEAN, HISTORY)
    for day in range(HISTORY - 1, HISTORY - 1 + windows.starts, stride):
        yield inputs.at(day), fields[day + 1 : day + 1 + HORIZON][:, OCEAN].T


def stacked(windows: Windows, stride: int) -> tuple[np.ndarray, np.ndarray]:
    x, y = zip(*rows(windows, stride), strict=True)
    return np.concatenate(x), np.concatenate(y)


def batches(windows: Windows, stride: int) -> Iterator[Batch]:
    """Yield batches of the windows that start every `stride` days."""
    for part in samples(windows)(stride):
        yield part.batch(torch.arange(len(part)))


def predicted(model: LinearSystem, windows: Windows, stride: int = 1) -> np.ndarray:
    """Forecast on ocean cells, `[starts, cells, horizon]`."""
    with torch.no_grad():
        out = [model(batch.history, batch.graph) for batch in batches(windows, stride)]
    return torch.cat(out).numpy()[:, OCEAN.ravel()]


@pytest.mark.parametrize("refit", [True, False])
def test_multiscale_ridge_is_the_closed_form(windows: tuple[Windows, Windows, Windows], refit: bool) -> None:
    train, validation, test = windows
    model = system("multiscale-ridge")
    chosen = fit(model, train, validation, refit)
    (x, y), (late_x, late_y) = stacked(train, 7), stacked(validation, 7)

    def weights(x: np.ndarray, y: np.ndarray, penalty: float) -> np.ndarray:
        diagonal = np.append(np.full(x.shape[1] - 1, penalty), 0)
        return np.linalg.solve(x.T @ x + np.diag(diagonal), x.T @ y)

    error = {p: ((late_x @ weights(x, y, p) - late_y) ** 2).mean(0) for p in (1e2, 1e3, 1e4, 1e5)}
    best = [min(error, key=lambda p: error[p][lead]) for lead in range(HORIZON)]
    assert chosen == {"penalty": best}
    learnt = (np.concatenate([x, late_x]), np.concatenate([y, late_y])) if refit else (x, y)
    fitted = np.stack([weights(*learnt, penalty)[:, lead] for lead, penalty in enumerate(best)], 1)
    expected = np.stack([x @ fitted for x, _ in rows(test, 1)])
    np.testing.assert_allclose(predicted(model, test), expected, atol=2e-4)


@pytest.mark.parametrize("name", ["local-ridge", "lim"])
def test_without_a_refit_validation_chooses_and_no_more(
    windows: tuple[Windows, Windows, Windows], name: str
) -> None:
    train, validation, test = windows
    nearly = replace(validation, values=validation.values * 1.001)
    for refit in (True, False):
        models = [system(name), system(name)]
        chosen = [fit(model, train, late, refit) for model, late in zip(models, (validation, nearly), strict=True)]
        assert chosen[0] == chosen[1]
        one, other = (predicted(model, test) for model in models)
        assert np.array_equal(one, other) is not refit


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("every", [1, 3])
def test_all_windows_at_once_are_forecast_like_each(
    name: str, every: int, windows: tuple[Windows, Windows, Windows]
) -> None:
    train, validation, test = windows
    model = system(name)
    fit(model, train, validation)
    with torch.no_grad():
        at_once = torch.cat([model.forecast_windows(part) for part in samples(test)(every)])
    ahead = at_once[:, :, 0].movedim(1, -1).numpy()[:, OCEAN.ravel()]
    each = predicted(model, test, every)
    if isinstance(model, TrendClimatology):  # a window alone does not tell the year
        days = test.thinned(every).init_times[:, None] + np.arange(1, HORIZON + 1) * np.timedelta64(1, "D")
        years = (days - np.datetime64(int(model.last), "D")) / YEAR
        each = each + model.line[1, OCEAN.ravel(), None].numpy() * years[:, None]
    np.testing.assert_allclose(ahead, each, atol=1e-5)
    assert not at_once[..., ~OCEAN.ravel()].any()
    if name not in BY_CELL:
        other, joined = -2 * test.values, torch.cat([test.values, -2 * test.values], 1)
        both = replace(test, values=joined, ocean=test.ocean.expand(2, -1), place=test.place.expand(2, -1, -1))
        several = model.forecast_windows(both.thinned(every))
        assert torch.equal(several[:, :, 0], model.forecast_windows(test.thinned(every))[:, :, 0])
        alone = model.forecast_windows(replace(test.thinned(every), values=other))
        torch.testing.assert_close(several[:, :, 1:], alone)


def test_the_correction_is_a_regression_in_each_cell(windows: tuple[Windows, Windows, Windows]) -> None:
    train, _, test = windows
    model = system("local-ridge")
    fit(model, train, None)
    base = Ridge.forward
    lags = [0, 3, 7]
    patterns = model.patterns.double().numpy()
    np.testing.assert_allclose(patterns @ patterns.T, np.eye(len(patterns)), atol=1e-5)

    def states(windows: Windows, stride: int) -> np.ndarray:
        now = np.arange(0, windows.starts, stride) + HISTORY - 1
        flat = windows.values.numpy()[:, 0].astype(float) @ patterns.T
        angle = 2 * np.pi / 365.2425 * (pd.DatetimeIndex(windows.days[now]).day_of_year.values - 1)
        sine, cosine = np.sin(angle)[:, None], np.cos(angle)[:, None]
        return np.concatenate(
            [*(flat[now - lag] for lag in lags), sine, cosine, flat[now] * sine, flat[now] * cosine], 1
        )

    with torch.no_grad():
        pairs = [(b.target, base(model, b.history, b.graph)) for b in batches(train, 5)]
    rest = torch.cat([target - pooled for target, pooled in pairs]).numpy()[:, OCEAN.ravel()].astype(float)
    x = states(train, 5)
    mean, deviation = x.mean(0), x.std(0)
    x = (x - mean) / deviation
    weights = np.linalg.solve(x.T @ x + 1e4 * np.eye(x.shape[1]), x.T @ rest.reshape(len(x), -1))
    with torch.no_grad():
        pooled = torch.cat([base(model, b.history, b.graph) for b in batches(test, 1)]).numpy()[:, OCEAN.ravel()]
    correction = ((states(test, 1) - mean) / deviation @ weights).reshape(pooled.shape)
    np.testing.assert_allclose(predicted(model, test), pooled + correction, atol=2e-4)
    assert abs(correction).max() > 0.01


def test_a_linear_inverse_model_finds_the_propagator_and_its_own_error(
    windows: tuple[Windows, Windows, Windows], monkeypatch: pytest.MonkeyPatch
) -> None:
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
    propagator = (y.T @ x) @ np.linalg.inv(x.T @ x)
    np.testing.assert_allclose(model.propagators[4], propagator, atol=1e-4)
    one = model.propagators[0].double().numpy()
    np.testing.assert_allclose(np.linalg.matrix_power(one, 5), propagator, atol=1e-4)
    moments = model._moments(samples(validation), samples(train))
    error = moments.error(model.propagators.double().numpy(), model.damping.double().numpy())
    came = torch.cat([batch.target for batch in batches(validation, 3)]).numpy()[:, OCEAN.ravel()]
    direct = ((predicted(model, validation, 3) - came) ** 2).sum(dtype=float)
    assert error == pytest.approx(direct, rel=1e-4)


@pytest.mark.parametrize("name", LINEAR)
def test_land_says_nothing_and_no_forecast_explodes(name: str, windows: tuple[Windows, Windows, Windows]) -> None:
    train, validation, test = windows
    model = system(name)
    fit(model, train, validation)
    batch = next(batches(test, 1))
    with torch.no_grad():
        out = model(batch.history, batch.graph)
    assert not out[:, ~OCEAN.ravel()].any()
    came = batch.target[:, OCEAN.ravel()]
    assert float((out[:, OCEAN.ravel()] - came).square().mean()) < 2 * float(came.square().mean())


def test_reference_of_one_fold_of_the_shipped_ocean() -> None:
    """Mean squared errors of 1997-2000 in degC, computed independently, with training windows from 1984."""
    sst = xr.open_dataset(SHIPPED, engine="netcdf4")["sst"][:, 1:31, 1:31].sel(time=slice("1982", "2000"))
    days, ocean = sst.indexes["time"], sst.notnull().all("time").values
    angle = 2 * np.pi / 365.25 * np.outer(days.day_of_year, [1, 2, 3])
    season, known = np.hstack([np.ones((len(days), 1)), np.sin(angle), np.cos(angle)]), days.year < 1997
    cells = sst.values[:, ocean].astype(float)
    anomaly = cells - season @ np.linalg.lstsq(season[known], cells[known], rcond=None)[0]
    scale = anomaly[known].std()
    field = np.full(sst.shape, np.nan)
    field[:, ocean] = anomaly / scale

    def between(first: int, last: int) -> Windows:
        years = (days.year >= first) & (days.year <= last)
        return windows_of(field[years], ocean, 42, 28, f"{first}-01-01")

    train, validation, test = between(1984, 1994), between(1995, 1996), between(1997, 2000)
    for name, expected in {
        "climatology": 1.1498,
        "persistence": 0.7115,
        "multiscale-ridge": 0.5860,
    }.items():
        model = build_forecaster(name, history=42, horizon=28, shape=ocean.shape)
        assert isinstance(model, LinearSystem)
        fit(model, train, validation)
        total, count = 0.0, 0
        with torch.no_grad():
            for batch in batches(test, 3):
                error = ((model(batch.history, batch.graph) - batch.target) * scale)[:, ocean.ravel()]
                total, count = total + float(error.double().square().sum()), count + error.numel()
        assert total / count == pytest.approx(expected, rel=0.005), name
