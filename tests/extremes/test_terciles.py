"""Weekly means, their spread and the bounds of their thirds, against plain NumPy."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scored_runs import configure
from small_ocean import make_sst

from sstcast.extremes import heatwaves, terciles
from sstcast.extremes.heatwaves import limits_of
from sstcast.extremes.terciles import bounds_of_thirds, terciles_of, weekly_means, weekly_spread
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared

RANDOM = np.random.default_rng(3)


def test_weekly_means_leave_out_days_after_the_last_whole_week() -> None:
    daily = RANDOM.normal(size=(2, 17, 3))
    expected = np.stack([daily[:, :7].mean(1), daily[:, 7:14].mean(1)], 1)
    np.testing.assert_allclose(weekly_means(daily, 1), expected)


def test_the_spread_of_a_week_is_that_of_the_mean_of_correlated_errors() -> None:
    """Against the variance of the mean of many drawn errors, and against its extreme cases."""
    factor = RANDOM.normal(size=(14, 14))
    covariance = factor @ factor.T + np.eye(14)
    deviations = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(deviations, deviations)
    spread = np.broadcast_to(deviations[:, None], (1, 14, 2))
    found = weekly_spread(spread, correlation)
    errors = RANDOM.multivariate_normal(np.zeros(14), covariance, 200_000)
    expected = [errors[:, :7].mean(1).std(), errors[:, 7:].mean(1).std()]
    np.testing.assert_allclose(found[0, :, 0], expected, rtol=0.01)
    even = np.full((1, 14, 2), 0.7)
    np.testing.assert_allclose(weekly_spread(even, np.ones((14, 14))), 0.7)
    np.testing.assert_allclose(weekly_spread(even, np.eye(14)), 0.7 / np.sqrt(7))


def test_bounds_are_quantiles_of_the_weeks_within_45_days_of_the_day_of_the_year() -> None:
    day = (1 + 7 * np.arange(400)) % 366 + 1
    weekly = RANDOM.normal(size=(400, 3)).astype(np.float32)
    weekly[:, 2] = 0.3  # as under ice
    bounds = bounds_of_thirds(weekly, day)
    for number in (1, 40, 200, 366):
        apart = np.abs(day - number)
        near = np.minimum(apart, 366 - apart) <= 45
        expected = np.quantile(weekly[near].astype(float), [1 / 3, 2 / 3], axis=0)
        np.testing.assert_allclose(bounds[:, number - 1, :2], expected[:, :2], atol=1e-6)
    assert np.isnan(bounds[..., 2]).all()


def test_terciles_of_an_ocean(tmp_path: Path, sst_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = configure(tmp_path, sst_file).data
    prepare(data)
    found = terciles_of(Prepared.of(data))
    with xr.open_dataset(sst_file) as ocean:
        sst = ocean["sst"].sel(time=slice("2001", "2002")).values.astype(float)
    time = pd.date_range("2001-01-01", "2002-12-31")
    phase = 2 * np.pi * np.outer(time.day_of_year, [1, 2, 3]) / 365.2425
    terms = np.hstack([np.ones((len(time), 1)), np.cos(phase), np.sin(phase)])
    values = np.nan_to_num(sst.reshape(len(sst), -1))
    anomaly = values - terms @ np.linalg.lstsq(terms, values, rcond=None)[0]
    weeks = anomaly[: len(anomaly) // 7 * 7].reshape(-1, 7, anomaly.shape[1]).mean(1)
    day = time.day_of_year[3::7][: len(weeks)].to_numpy()
    day = day + (day >= 60)  # as in a leap year
    apart = np.abs(day - 75)
    expected = np.quantile(weeks[np.minimum(apart, 366 - apart) <= 45], [1 / 3, 2 / 3], axis=0)
    for bound, name in zip(expected, terciles.BOUNDS, strict=True):
        field = found[name].sel(day_of_leap_year=75).values
        ocean_cells = np.isfinite(field)
        assert ocean_cells.sum() == 8 * 12 - 6
        np.testing.assert_allclose(field[ocean_cells], bound.reshape(field.shape)[ocean_cells], atol=2e-5)
    monkeypatch.setattr(terciles, "bounds_of_thirds", None)  # the file is used again
    xr.testing.assert_equal(terciles_of(Prepared.of(data)), found)


def test_thirds_and_thresholds_of_other_days_or_another_layout_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values twice as far from their mean have bounds twice as far."""
    sst, path = make_sst(4, 4, 6).isel(lat=slice(2, None), lon=slice(3, None)), tmp_path / "sea.nc"
    mean, bounds = sst["sst"].sel(time=slice("2001", "2002")).mean("time"), []
    region = {"lon": [170.75, 171.5], "lat": [-10.5, -10], "tile": [2, 3]}
    data = configure(tmp_path, path, region=region).data
    for factor in (1, 2):
        sst.assign(sst=(mean + factor * (sst["sst"] - mean)).assign_attrs(units="degC")).to_netcdf(path)
        prepared = prepare(data)
        bounds.append((terciles_of(prepared)["upper_bound"], limits_of(prepared)["heatwave_threshold"] - mean))
    for once, twice in zip(*bounds, strict=True):
        np.testing.assert_allclose(twice, 2 * once, atol=2e-2)  # stored in hundredths
    for module, of, maker in ((terciles, terciles_of, "bounds_of_thirds"), (heatwaves, limits_of, "_by_bands")):
        monkeypatch.setattr(module, maker, None)
        of(prepared)  # from the file
        monkeypatch.setattr(module, "LAYOUT", 0)
        with pytest.raises(TypeError, match="not callable"):
            of(prepared)
