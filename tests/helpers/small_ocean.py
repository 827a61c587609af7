"""An ocean small enough for a test."""

import numpy as np
import pandas as pd
import xarray as xr


def make_sst(years: int = 4, rows: int = 8, cols: int = 12, seed: int = 0) -> xr.Dataset:
    """Seasons, a slow anomaly that drifts east, noise; land in the south-west corner."""
    random = np.random.default_rng(seed)
    time = pd.date_range("2001-01-01", f"{2000 + years}-12-31")
    lat, lon = -10.125 - 0.25 * np.arange(rows)[::-1], 170.125 + 0.25 * np.arange(cols)
    phase = 2 * np.pi * time.day_of_year.values[:, None, None] / 365.25
    wave = np.sin(2 * np.pi * (np.arange(len(time))[:, None, None] / 60 - np.arange(cols) / cols))
    noise = random.normal(0, 0.2, (len(time), rows, cols))
    sst = 20 + 4 * np.cos(phase) + 0.5 * np.arange(rows)[:, None] + wave + noise
    sst[:, :2, :3] = np.nan
    data = xr.Dataset({"sst": (("time", "lat", "lon"), sst.round(2))}, {"time": time, "lat": lat, "lon": lon})
    data["sst"].attrs["units"] = "Celsius"
    return data
