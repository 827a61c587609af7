"""Sums over blocks of dates against the metric functions on whole labelled arrays."""

import numpy as np
import pytest
import xarray as xr

from sstcast.geo import area_weights
from sstcast.scores.means import Means, week_starts, weekly
from sstcast.scores.metrics import METRICS, statistics

STARTS, HORIZON, TILES, NODES = 23, 10, 2, 6
LEADS = np.arange(1, HORIZON + 1)
DIMS = ("init_time", "lead", "tile", "node")
FLAT = {name: metric for name, metric in METRICS.items() if name != "small_scales"}  # which needs a map


def forecasts() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Forecast, truth and weights; tile 0 has land, whose forecast is nonsense."""
    random = np.random.default_rng(0)
    truth = random.normal(size=(STARTS, HORIZON, TILES, NODES)).astype(np.float32)
    forecast = truth + random.normal(0.2, 0.5, truth.shape).astype(np.float32)
    weights = np.cos(np.deg2rad(np.linspace(0, 60, TILES * NODES))).reshape(TILES, NODES)
    weights[0, :2] = 0
    forecast[..., 0, :2] = 1e6
    return forecast, truth, (weights / weights.sum()).astype(np.float32)


def statistics_of(forecast: np.ndarray, truth: np.ndarray) -> list[tuple[str, np.ndarray]]:
    return [(name, statistic.of(forecast, truth)) for name, statistic in statistics(FLAT).items()]


@pytest.mark.parametrize("block", [1, 5, STARTS])
def test_means_of_any_blocks_give_the_metrics_of_the_whole(block: int) -> None:
    forecast, truth, weights = forecasts()
    means = Means(STARTS, LEADS, weights, mapped=True, keep="mse")
    for start in range(0, STARTS, block):
        dates = slice(start, start + block)
        means.add(dates, statistics_of(forecast[dates], truth[dates]))
    ocean = xr.DataArray(weights > 0, dims=DIMS[2:])
    whole = [xr.DataArray(field.astype(float), dims=DIMS).where(ocean) for field in (forecast, truth)]
    area = xr.DataArray(weights.astype(float), dims=DIMS[2:])
    for metric in FLAT.values():
        by_date = metric.of(means.by_date)
        np.testing.assert_allclose(by_date, metric(*whole, DIMS[2:], area), rtol=1e-4, atol=1e-6)
        by_tile = metric.of(means.by_tile)
        np.testing.assert_allclose(by_tile.T, metric(*whole, (DIMS[0], DIMS[3]), area), rtol=1e-4, atol=1e-6)
        for week, leads in enumerate((slice(0, 7), slice(7, 10))):
            part = [field.isel(lead=leads) for field in whole]
            by_cell = np.where(ocean, metric.of(means.by_cell)[week], np.nan)
            np.testing.assert_allclose(by_cell, metric(*part, DIMS[:2]), rtol=1e-4, atol=1e-6)
    squares = (whole[0] - whole[1]).values ** 2
    found = np.where(ocean, means.by_week, np.nan)
    np.testing.assert_allclose(found[:, 1], squares[:, 7:].mean(1), rtol=1e-4)


def test_a_tile_without_ocean_has_no_scores() -> None:
    forecast, truth, weights = forecasts()
    weights[0] = 0
    means = Means(STARTS, LEADS, weights / weights.sum(), mapped=True)
    means.add(slice(0, STARTS), statistics_of(forecast, truth))
    assert np.isnan(means.by_tile["mse"][0]).all()
    assert np.isfinite(means.by_tile["mse"][1]).all()


def test_means_by_date_are_weighted() -> None:
    forecast, _, weights = forecasts()
    means = Means(STARTS, LEADS, weights)
    for dates in (slice(0, 20), slice(20, STARTS)):
        means.add(dates, {"one": forecast[dates], "two": 2 * forecast[dates]}.items())
    expected = np.average(forecast.reshape(STARTS, HORIZON, -1), axis=-1, weights=weights.ravel())
    np.testing.assert_allclose(means.by_date["one"], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(means.by_date["two"], 2 * expected, rtol=1e-5, atol=1e-6)
    assert not means.by_tile


def test_weeks_of_any_leads() -> None:
    np.testing.assert_array_equal(week_starts(np.arange(1, 29)), [0, 7, 14, 21])
    np.testing.assert_array_equal(week_starts(np.arange(1, 6)), [0])
    np.testing.assert_array_equal(week_starts(np.array([7, 14, 28])), [0, 1, 2])
    np.testing.assert_allclose(weekly(np.arange(10.0), 0, week_starts(LEADS)), [3, 8])


def test_area_weights_are_areas() -> None:
    lat = xr.DataArray(np.arange(-89.5, 90), dims="lat")
    bands = np.diff(np.sin(np.deg2rad(np.arange(-90, 91))))  # of the globe, exactly
    weights = area_weights(lat).values
    np.testing.assert_allclose(weights / weights.sum(), bands / bands.sum(), rtol=1e-4)
