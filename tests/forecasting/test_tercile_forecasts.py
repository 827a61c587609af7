"""The probabilities of thirds in a forecast, against joint samples of it."""

import numpy as np
import pytest
import xarray as xr

from sstcast.extremes.terciles import BOUNDS
from sstcast.forecasting.spread import Spread
from sstcast.forecasting.terciles import with_terciles
from sstcast.reading.days_of_year import DAYS_OF_YEAR

LEADS = 15


def test_probabilities_are_shares_of_weekly_means_of_joint_samples() -> None:
    random = np.random.default_rng(1)
    lead = np.arange(1, LEADS + 1)
    time = np.array(["2004-02-20"], "datetime64[ns]")
    valid = xr.DataArray(time[:, None] + lead * np.timedelta64(1, "D"), {"lead": lead}, ("init_time", "lead"))
    cells = {"lat": [0.0, 1.0], "lon": [10.0]}
    anomaly = random.normal(0, 0.5, (1, LEADS, 2, 1)).astype(np.float32)
    dims = ("init_time", "lead", "lat", "lon")
    fields = xr.Dataset({"sst_anomaly": (dims, anomaly)}, {"lead": lead, "init_time": time, **cells})
    fields = fields.assign_coords(valid_time=valid)
    width = np.broadcast_to(np.linspace(0.3, 1, LEADS)[None, :, None, None], (4, LEADS, 2, 1))
    seasons = {"season": ["DJF", "MAM", "JJA", "SON"], "lead": lead, **cells}
    correlation = 0.9 ** np.abs(np.subtract.outer(lead, lead))
    spread = Spread(xr.DataArray(width, seasons, ("season", "lead", "lat", "lon")), correlation)
    limits = np.array([-0.2, 0.3])[:, None, None, None] + np.zeros((2, 366, 2, 1))
    bounds = xr.Dataset(
        {name: (("day_of_leap_year", "lat", "lon"), of) for name, of in zip(BOUNDS, limits, strict=True)},
        {"day_of_leap_year": DAYS_OF_YEAR, **cells},
    )
    found = with_terciles(fields, spread, bounds)["tercile_probability"]
    assert found.dims == ("init_time", "week", "tercile", "lat", "lon")
    assert found["week"].values.tolist() == [1, 2]
    errors = random.multivariate_normal(np.zeros(LEADS), correlation, 100_000) * width[0, :, 0, 0]
    for week in (0, 1):
        days = slice(7 * week, 7 * week + 7)
        for cell in (0, 1):
            mean = (anomaly[0, days, cell, 0] + errors[:, days]).mean(1)
            shares = [(mean < -0.2).mean(), ((mean >= -0.2) & (mean <= 0.3)).mean(), (mean > 0.3).mean()]
            np.testing.assert_allclose(found[0, week, :, cell, 0], shares, atol=0.006)
    assert float(found.sum("tercile").min()) == pytest.approx(1, abs=1e-6)
    coincide = bounds.where(bounds["lat"] > 0)
    with_gap = with_terciles(fields, spread, coincide)["tercile_probability"]
    assert np.isnan(with_gap.isel(lat=0)).all()
    assert np.isfinite(with_gap.isel(lat=1)).all()
    assert "tercile_probability" not in with_terciles(fields.isel(lead=slice(6)), spread, bounds)
