"""A history that Python holds is put in order, and with several values a day it is that of its daily means."""

import numpy as np
import pandas as pd
import xarray as xr
from refusals import refused

from sstcast.forecasting.history import recognised


def test_a_history_of_hours_is_that_of_its_days() -> None:
    time = pd.date_range("2004-02-20", "2004-03-09 17:00", freq="h")
    values = 15 + np.random.default_rng(0).normal(size=(len(time), 3, 4)).astype(np.float32)
    values[:, 0, 0] = np.nan
    axes = {"time": time, "lat": [1.0, 2.0, 3.0], "lon": [4.0, 5.0, 6.0, 7.0]}
    history = xr.DataArray(values, axes, ("time", "lat", "lon"), attrs={"units": "degC", "title": "made up"})
    expected = history.resample(time="1D").mean()[:-1]
    marked = history.assign_coords(preliminary=("time", time >= "2004-03-05 22:00"))
    found = recognised(marked[::-1])
    np.testing.assert_array_equal(found["time"], expected["time"])
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_array_equal(found["preliminary"], expected["time"] >= np.datetime64("2004-03-05"))
    assert found.attrs["title"] == "made up"
    days = expected.assign_coords(preliminary=("time", expected["time"].values >= np.datetime64("2004-03-05")))
    xr.testing.assert_allclose(recognised(days[::-1]).astype("float32"), days)
    with refused("history: has 2004-02-20 03:00 twice; keep one value"):
        recognised(xr.concat([history, history[3:4]], "time"))
    history[5, 1, 1] = 99
    with refused("history: 99 degC on 2004-02-20 at lat 2, lon 5"):
        recognised(history).load()
