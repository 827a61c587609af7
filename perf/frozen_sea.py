"""The small ocean, the places and the observations whose scores `frozen.py` compares bit by bit.

The ocean has land, cells that freeze, two tiles and twelve years. Its forecasts are an ensemble of two members, a
ridge and combinations of both, and two ridges with different base periods, in folds of two years.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

ROWS, COLUMNS, STEP = 8, 12, 0.25
DAY = np.timedelta64(1, "D")
ASKED = "--places sea/places.geojson --observations sea/points.csv --events"
PLACES = {
    "bay": {
        "type": "Polygon",
        "coordinates": [[[171, -11.6], [172.6, -11.6], [172.6, -10.4], [171, -10.4], [171, -11.6]]],
    },
    "pier": {"type": "Point", "coordinates": [170.9, -11.1]},
}
CONFIG: dict[str, Any] = {
    "runs": "sea/runs",
    "data": {
        "source": "sea/sea.nc",
        "region": {"lon": [170, 173], "lat": [-12, -10], "tile": [8, 6]},
        "directory": "sea/prepared",
        "history": 10,
        "horizon": 15,
        "splits": {"train": [1998, 2005], "validation": [2006, 2007], "test": [2008, 2009]},
    },
}
SYSTEMS: dict[str, dict[str, Any]] = {
    "net": {
        "model": {"name": "mlp-pointwise", "width": 8, "base": "linear"},
        "training": {"epochs": 2, "windows_per_epoch": 200, "checkpoint_steps": 2},
    },
    "local": {"model": {"name": "local-ridge"}},
    "later": {"model": {"name": "multiscale-ridge"}},
}


def write_inputs(folder: Path) -> None:
    """Write the ocean, two configurations, places and observations to `folder/sea`."""
    (sea := folder / "sea").mkdir()
    ocean = make_sst()
    ocean.to_netcdf(sea / "sea.nc", engine="netcdf4")
    for name, system in SYSTEMS.items():
        config = json.loads(json.dumps(CONFIG | {"name": name} | system))
        if name == "later":  # of another base period
            config["data"]["splits"]["train"][0] += 1
        (sea / f"{name}.yaml").write_text(json.dumps(config))
    features = [
        {"type": "Feature", "properties": {"name": name}, "geometry": geometry}
        for name, geometry in PLACES.items()
    ]
    (sea / "places.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    draw_points(ocean["sst"]).to_csv(sea / "points.csv", index=False)


def make_sst(seed: int = 0) -> xr.Dataset:
    """Seasons, a slow anomaly that drifts east, a trend and noise; land in a corner, and rows that freeze."""
    random = np.random.default_rng(seed)
    time = pd.date_range("1998-01-01", "2009-12-31")
    lat, lon = -11.875 + STEP * np.arange(ROWS), 170.125 + STEP * np.arange(COLUMNS)
    day, phase = np.arange(len(time))[:, None, None], 2 * np.pi * time.day_of_year.values[:, None, None] / 365.25
    wave = 1.2 * np.sin(
        2 * np.pi * (day / 90 - np.arange(COLUMNS) / COLUMNS) + np.cumsum(random.normal(0, 0.1, day.shape), 0)
    )
    sst = 3 + 5 * np.cos(phase) + 0.9 * np.arange(ROWS)[:, None] + wave + 1e-4 * day
    sst = np.maximum(sst + random.normal(0, 0.2, sst.shape), -1.8).round(2)
    sst[:, :2, :3] = np.nan
    data = xr.Dataset({"sst": (("time", "lat", "lon"), sst)}, {"time": time, "lat": lat, "lon": lon})
    data["sst"].attrs["units"] = "Celsius"
    return data


def draw_points(sst: xr.DataArray, count: int = 6000, seed: int = 1) -> pd.DataFrame:
    """Draw observations in the cells, also on land and outside, of platforms of two types."""
    random = np.random.default_rng(seed)
    days = sst.sel(time=slice("2006", "2009"))
    day, row, column = (random.integers(0, size, count) for size in days.shape)
    values = np.nan_to_num(days.values[day, row, column], nan=5) + random.normal(0, 0.3, count)
    lat, lon = (
        days[axis].values[at] + random.uniform(-0.2, 0.2, count) for axis, at in (("lat", row), ("lon", column))
    )
    platform = [f"{'ab'[number % 2]}{number}" for number in random.integers(0, 40, count)]
    time = days["time"].values[day] + random.integers(0, 24, count) * np.timedelta64(1, "h")
    return pd.DataFrame({"time": time, "lat": lat, "lon": lon, "sst": values.round(3), "platform": platform})


def write_weeks(folder: Path) -> None:
    """Write forecasts of two leads, and daily ones without a spread, of members that are at times fewer."""
    sea = folder / "sea"
    with xr.open_zarr(sea / "runs/hindcast/local/hindcast.zarr") as forecasts:
        sst = forecasts["sst"].load()[::3]
    sst.sel(lead=[3, 9]).to_dataset(name="sst").to_netcdf(sea / "weeks.nc", engine="netcdf4")
    random = np.random.default_rng(2)
    members = xr.concat([sst + random.normal(0, 0.4, sst.shape).astype(np.float32) for _ in range(3)], "member")
    lacking = xr.DataArray(
        (np.arange(3) == 2)[:, None] & (np.arange(sst.sizes["init_time"]) % 30 < 8), dims=("member", "init_time")
    )
    members = members.where(~lacking).transpose("init_time", "member", ...)
    members.to_dataset(name="sst").to_netcdf(sea / "members.nc", engine="netcdf4")
