"""Sums over blocks of dates against the metric functions on whole labelled arrays."""

import numpy as np
import pytest
import xarray as xr

from sstcast.geo import area_weights
from sstcast.scores.metrics import METRICS
from sstcast.scores.tally import DateTally, ErrorTally, area_mean, metrics_of, week_starts, weekly

STARTS, HORIZON, TILES, NODES = 23, 10, 2, 6
DIMS = ("init_time", "lead", "tile", "node")


def forecasts() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Forecast, truth and weights; tile 0 has land, whose forecast is nonsense."""
    random = np.random.default_rng(0)
    truth = random.normal(size=(STARTS, HORIZON, TILES, NODES)).astype(np.float32)
    forecast = truth + random.normal(0.2, 0.5, truth.shape).astype(np.float32)
    weights = np.cos(np.deg2rad(np.linspace(0, 60, TILES * NODES))).reshape(TILES, NODES)
    weights[0, :2] = 0
    forecast[..., 0, :2] = 1e6
    return forecast, truth, (weights / weights.sum()).astype(np.float32)


@pytest.mark.parametrize("block", [1, 5, STARTS])
def test_tallies_of_any_blocks_are_the_metrics_of_the_whole(block: int) -> None:
    forecast, truth, weights = forecasts()
    tally = ErrorTally(STARTS, HORIZON, weights, by_week=True)
    for start in range(0, STARTS, block):
        dates = slice(start, start + block)
        tally.add(dates, forecast[dates], truth[dates])
    ocean = xr.DataArray(weights > 0, dims=DIMS[2:])
    whole = [xr.DataArray(field.astype(float), dims=DIMS).where(ocean) for field in (forecast, truth)]
    area = xr.DataArray(weights.astype(float), dims=DIMS[2:])
    for name, metric in METRICS.items():
        by_date = metrics_of(tally.by_date)[name]
        np.testing.assert_allclose(by_date, metric(*whole, DIMS[2:], area), rtol=1e-4, atol=1e-6)
        by_tile = metrics_of(tally.by_tile())[name]
        np.testing.assert_allclose(by_tile.T, metric(*whole, (DIMS[0], DIMS[3]), area), rtol=1e-4, atol=1e-6)
        for week, leads in enumerate((slice(0, 7), slice(7, 10))):
            part = [field.isel(lead=leads) for field in whole]
            by_cell = np.where(ocean, metrics_of(tally.by_cell())[name][week], np.nan)
            np.testing.assert_allclose(by_cell, metric(*part, DIMS[:2]), rtol=1e-4, atol=1e-6)
    squares = (whole[0] - whole[1]).values ** 2
    found = np.where(ocean, tally.squared_error_by_week, np.nan)
    np.testing.assert_allclose(found[:, 1], squares[:, 7:].mean(1), rtol=1e-4)


def test_a_tile_without_ocean_has_no_scores() -> None:
    forecast, truth, weights = forecasts()
    weights[0] = 0
    tally = ErrorTally(STARTS, HORIZON, weights / weights.sum())
    tally.add(slice(0, STARTS), forecast, truth)
    assert np.isnan(tally.by_tile()["mse"][0]).all()
    assert np.isfinite(tally.by_tile()["mse"][1]).all()


def test_date_tally_is_the_weighted_mean() -> None:
    forecast, _, weights = forecasts()
    tally = DateTally(STARTS, HORIZON, weights)
    for dates in (slice(0, 20), slice(20, STARTS)):
        tally.add(dates, {"one": forecast[dates], "two": 2 * forecast[dates]})
    expected = np.average(forecast.reshape(STARTS, HORIZON, -1), axis=-1, weights=weights.ravel())
    np.testing.assert_allclose(tally.by_date["one"], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(tally.by_date["two"], 2 * expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(area_mean(forecast, weights), expected, rtol=1e-5, atol=1e-6)


def test_weeks_of_any_horizon() -> None:
    np.testing.assert_array_equal(week_starts(28), [0, 7, 14, 21])
    np.testing.assert_array_equal(week_starts(5), [0])
    np.testing.assert_allclose(weekly(np.arange(10.0), 0), [3, 8])


def test_area_weights_are_areas() -> None:
    lat = xr.DataArray(np.arange(-89.5, 90), dims="lat")
    bands = np.diff(np.sin(np.deg2rad(np.arange(-90, 91))))  # of the globe, exactly
    weights = area_weights(lat).values
    np.testing.assert_allclose(weights / weights.sum(), bands / bands.sum(), rtol=1e-4)
