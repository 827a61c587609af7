"""Linear systems with memory and stencil against plain NumPy (`linear_reference`)."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
from linear_reference import Inputs, by_years, cross_validated
from scipy.ndimage import uniform_filter

from sstcast.config import Region
from sstcast.errors import SSTCastError
from sstcast.models import build_forecaster
from sstcast.models.base import LinearSystem
from sstcast.models.linear import MultiscaleRidge
from sstcast.ocean.windows import Windows, windows_of
from sstcast.training.forecast_task import fit, samples

ROWS, COLS, HISTORY, HORIZON = 7, 9, 12, 4
BEFORE = 365 - HISTORY
TRAINED, LAST = 1900, 2900  # days
OCEAN = np.ones((ROWS, COLS), bool)
OCEAN[2, 3:6] = OCEAN[0, 0] = False
GROUPS = [("memory",), ("stencil",), ("memory", "stencil")]


@pytest.fixture(scope="module")
def field() -> np.ndarray:
    """Red noise in time and space plus slow red noise, `[T, rows, columns]`, 0 on land."""
    random = np.random.default_rng(3)
    found, slow = np.zeros((LAST, ROWS, COLS), np.float32), np.zeros((ROWS, COLS))
    for day in range(1, LAST):
        fresh = uniform_filter(random.normal(size=(2, ROWS, COLS)), (0, 3, 3), mode="nearest")
        slow = 0.995 * slow + 0.05 * fresh[0]
        found[day] = 0.9 * uniform_filter(found[day - 1], 3, mode="nearest") + 0.1 * slow + 0.5 * fresh[1]
    found[:, ~OCEAN] = 0
    return found


def days(field: np.ndarray, first: int, stop: int) -> Windows:
    """Return the windows of days `first` to `stop`, with the year before them as far as it is in the field."""
    axes = {"lat": 0.25 * np.arange(ROWS), "lon": 0.25 * np.arange(COLS)}
    whole = {"time": pd.date_range("2001-01-01", periods=LAST), **axes}
    anomalies = xr.Dataset(
        {
            "anomaly": xr.DataArray(np.where(OCEAN, field, np.nan), whole, ("time", "lat", "lon")),
            "ocean_mask": xr.DataArray(OCEAN, axes, ("lat", "lon")),
        }
    ).isel(time=slice(max(0, first - BEFORE), stop))
    region = Region(lon=(0, 3), lat=(0, 3), tile=(ROWS, COLS))
    return windows_of(anomalies, region, HISTORY, HORIZON, before=BEFORE, absent=max(0, BEFORE - first))


def system(name: str, groups: tuple[str, ...]) -> LinearSystem:
    options = dict.fromkeys(groups, True)
    model = build_forecaster(name, history=HISTORY, horizon=HORIZON, shape=(ROWS, COLS), **options)
    assert isinstance(model, LinearSystem)
    return model


def initial(windows: Windows, first: int, every: int = 1) -> np.ndarray:
    """Return the day numbers of the initial dates of `windows`, whose first day is `first`."""
    return first + HISTORY - 1 + every * np.arange(windows.thinned(every).starts)


def ahead(model: LinearSystem, windows: Windows) -> np.ndarray:
    """Forecast on ocean cells, `[starts, horizon, cells]`."""
    with torch.no_grad():
        return torch.cat([model.forecast_windows(part) for part in samples(windows)(1)]).numpy()[
            :, :, 0, OCEAN.ravel()
        ]


@pytest.mark.parametrize("groups", GROUPS)
def test_a_ridge_with_groups_is_the_reference(field: np.ndarray, groups: tuple[str, ...]) -> None:
    train, validation, test = (days(field, *span) for span in ((200, TRAINED), (TRAINED, 2400), (2400, LAST)))
    model = system("multiscale-ridge", groups)
    chosen = fit(model, train, validation)
    dates = np.concatenate([initial(train, 200, 7), initial(validation, TRAINED, 7)])
    years = (np.datetime64("2001-01-01") + np.arange(LAST)).astype("datetime64[Y]").astype(int)
    inputs, cells = Inputs(field.astype(float), OCEAN, HISTORY, groups), field[:, OCEAN].astype(float)
    blocks = [inputs.sums_of(cells, block, HORIZON) for block in by_years(dates.tolist(), years)]
    weights, pairs = cross_validated(blocks, 5 * HISTORY)
    assert chosen == {"penalty": [list(pair) for pair in pairs]}
    np.testing.assert_allclose(model.weight, weights, atol=1e-6)
    expected = np.stack([(inputs.at(day) @ weights).T for day in initial(test, 2400)])
    np.testing.assert_allclose(ahead(model, test), expected, atol=1e-5)
    assert len(weights) == 5 * HISTORY + 12 * ("memory" in groups) + 24 * ("stencil" in groups) + 1


@pytest.mark.parametrize("name", ["multiscale-ridge", "local-ridge"])
@pytest.mark.parametrize("every", [1, 3])
def test_all_windows_at_once_are_forecast_like_each(field: np.ndarray, name: str, every: int) -> None:
    train, test = days(field, 400, TRAINED), days(field, 2400, LAST).thinned(every)
    model = system(name, ("memory", "stencil"))
    fit(model, train, None)
    batch = test.batch(torch.arange(len(test)))
    with torch.no_grad():
        each, at_once = model(batch.history, batch.graph), model.forecast_windows(test)
    torch.testing.assert_close(at_once[:, :, 0], each.transpose(1, 2), atol=1e-5, rtol=0)
    assert not at_once[..., ~OCEAN.ravel()].any()


@pytest.mark.parametrize("name", ["multiscale-ridge", "local-ridge"])
def test_no_later_day_changes_a_fit_or_a_forecast(field: np.ndarray, name: str) -> None:
    jump = field.copy()
    jump[2400:] += 5
    found = []
    for values in (field, jump):
        model = system(name, ("memory", "stencil"))
        chosen = fit(model, days(values, 400, TRAINED), days(values, TRAINED, 2400))
        found.append((chosen, model.state_dict(), ahead(model, days(values, 1950, 2400 + HORIZON + 1))))
    (chosen, state, forecast), (other_chosen, other_state, other) = found
    assert chosen == other_chosen
    assert all(torch.equal(value, other_state[key]) for key, value in state.items())
    last = 2400 - 1950 - HISTORY + 1  # initial dates before the jump
    np.testing.assert_array_equal(forecast[:last], other[:last])


def test_without_a_year_before_the_windows_the_memory_is_left_out_and_refused(field: np.ndarray) -> None:
    train, test = days(field, 400, TRAINED), days(field, 2400, LAST)

    def cut(windows: Windows) -> Windows:
        at = windows.at - BEFORE
        return replace(windows, values=windows.values[BEFORE:], days=windows.days[BEFORE:], at=at, before=0)

    both, only = system("multiscale-ridge", ("memory", "stencil")), system("multiscale-ridge", ("stencil",))
    chosen = fit(both, cut(train), None)
    assert chosen.pop("left_out") == "memory"
    assert both.before == 0
    assert fit(only, cut(train), None) == chosen
    np.testing.assert_allclose(ahead(both, cut(test)), ahead(only, cut(test)), atol=1e-6)
    assert isinstance(both, MultiscaleRidge)
    fit(both, train, None)
    assert both.before == BEFORE
    batch = cut(test).batch(torch.arange(1))
    with pytest.raises(SSTCastError, match="365 days up to the initial date, there are 12"):
        both(batch.history, batch.graph)
    with pytest.raises(SSTCastError, match="365 days"):
        both.forecast_windows(cut(test))
