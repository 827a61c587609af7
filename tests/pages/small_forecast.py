"""A forecast file with every variable that a page shows, of an ocean made up for it."""

import numpy as np
import xarray as xr
from scipy.ndimage import gaussian_filter
from scipy.stats import norm

CATEGORIES = 4


def make_forecast(
    rows: int = 12,
    cols: int = 16,
    leads: int = 14,
    past: int = 21,
    west: float = 147.25,
    south: float = -44.75,
    cell: float = 0.5,
) -> xr.Dataset:
    """Weather smooth in space and time about a season; land in the south-west corner, two tiles left out."""
    random = np.random.default_rng(5)
    days = np.arange(1 - past, leads + 1)
    init = np.datetime64("2016-01-10", "ns")
    lat, lon = south + cell * (np.arange(rows) + 0.5), west + cell * (np.arange(cols) + 0.5)
    season = 16 + 0.015 * days[:, None, None] - 0.3 * (np.abs(lat)[:, None] - 40) + 0 * lon
    noise = gaussian_filter(random.normal(size=(days.size, rows, cols)), (6, rows / 10, cols / 14))
    anomaly = 0.4 + 0.9 * noise / noise.std()
    lead = np.arange(1, leads + 1)
    spread = 1.0 - 0.8 * np.exp(-lead / 8)[:, None, None] + 0 * season[past:]
    sst = season + np.where(
        days[:, None, None] > 0, anomaly * np.exp(-np.maximum(days, 0) / 30)[:, None, None], anomaly
    )
    threshold = season + 1.0
    exceedance = norm.sf(threshold[past:], sst[past:], spread)
    category = np.clip((sst - season) / 1.0, 0, CATEGORIES).astype("int8")[past:]
    field, before = ("init_time", "lead", "lat", "lon"), ("init_time", "past", "lat", "lon")
    data = xr.Dataset(
        {
            "sst": (field, sst[past:][None]),
            "sst_anomaly": (field, (sst - season)[past:][None]),
            "sst_spread": (field, spread[None]),
            "heatwave_threshold": (field, threshold[past:][None]),
            "exceedance_probability": (field, exceedance[None]),
            "heatwave_probability": (field, exceedance[None] ** 1.5),
            "sst_past": (before, sst[:past][None]),
            "climatology_past": (before, season[:past][None]),
            "heatwave_threshold_past": (before, threshold[:past][None]),
        },
        {"init_time": [init], "lead": lead, "past": days[:past], "lat": lat, "lon": lon},
        {"title": "SST forecast by run demo from NOAA OISST", "source": "a test <script>alert(1)</script>"},
    )
    data = data.astype("float32")
    quantile = [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95]
    wide = [data["sst"] + data["sst_spread"] * norm.ppf(q) for q in quantile]
    data["sst_quantile"] = xr.concat(wide, xr.Variable("quantile", quantile)).astype("float32")
    sea = np.ones((rows, cols), bool)
    sea[: rows // 4, : cols // 4] = False
    data = data.where(sea)
    data["heatwave_category"] = (field, np.where(sea, category, -1).astype("int8")[None])
    likely = sea & (exceedance[-1] > 0.4)
    for name, day in (("heatwave_start", -3), ("heatwave_end", leads)):
        date = init + np.timedelta64(day, "D")
        data[name] = (("init_time", "lat", "lon"), np.where(likely, date, np.datetime64("NaT", "ns"))[None])
    return data
