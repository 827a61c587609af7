"""The fields beside SST, and the grids and stores of SST, whose values `frozen.py` compares.

The small ocean of `frozen_sea.py` is read with an index, three fields by day, on equal, finer and coarser cells, a
forecast and a depth. Another ocean on a turned curvilinear grid, whose land is NaN, comes to coarser cells by
means and to cells of its own width by interpolation. Fetched days have ice beside SST.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from frozen_sea import CONFIG, DAY, make_sst

CURVED = 48  # rows and columns of about .25 degrees
SPLITS = {"train": [2001, 2003], "validation": [2004, 2004], "test": [2005, 2005]}
PREDICTORS = {
    "index": {"kind": "index", "source": "index.csv", "delay": 10},
    "equal": {"kind": "grid", "source": "equal.nc", "delay": 1},
    "finer": {"kind": "grid", "source": "finer.nc", "delay": 2},
    "coarser": {"kind": "grid", "source": "coarser.nc", "delay": 1},
    "issued": {"kind": "forecast", "source": "issued.nc", "delay": 1, "missing": "climatology"},
    "depth": {"kind": "static", "source": "depth.nc"},
}
MODELS: dict[str, dict[str, Any]] = {
    "ridge": {"model": {"name": "multiscale-ridge"}},
    "network": {
        "model": {"name": "tfnet", "width": 4, "base": "linear"},
        "training": {"epochs": 1, "windows_per_epoch": 100},
    },
}


def write_fields(folder: Path) -> None:
    """Write the predictors and a configuration of each model that reads them to `folder/fields`."""
    (out := folder / "fields").mkdir()
    ocean, random = make_sst().sel(time=slice("2000", "2005")), np.random.default_rng(5)
    ocean.to_netcdf(out / "sea.nc", engine="netcdf4")
    months = pd.period_range("1997-01", "2009-12", freq="M")
    pd.DataFrame({"date": months.astype(str), "value": random.normal(0, 1, len(months)).round(2)}).to_csv(
        out / "index.csv", index=False
    )
    time = ocean.indexes["time"]
    for name, cell, known in (("equal", 0.25, 0.99), ("finer", 0.125, 0.98), ("coarser", 0.5, 1.0)):
        _field(time, cell, known, random).to_netcdf(out / f"{name}.nc", engine="netcdf4")
    issues, leads = time[:-12:5], np.arange(1, 13)
    daily = _field(time, 0.5, 1.0, random)["wind"]
    valid = xr.DataArray(np.add.outer(issues.values, leads * DAY), dims=("init_time", "lead"))
    issued = daily.sel(time=valid).drop_vars("time") + random.normal(0, 0.5, (*valid.shape, 1, 1))
    issued = issued.transpose("init_time", "lead", "lat", "lon").assign_attrs(daily.attrs)
    issued = issued.assign_coords(init_time=issues.values, lead=("lead", leads, {"units": "days"}))
    issued.to_netcdf(out / "issued.nc", engine="netcdf4")
    depth = _field(time[:1], 0.125, 1.0, random)["wind"][0].drop_vars("time")
    depth = (400 * depth - 2000).assign_attrs(units="m", standard_name="height_above_mean_sea_level")
    depth.rename("elevation").to_netcdf(out / "depth.nc", engine="netcdf4")
    for name, model in MODELS.items():
        _configure(out, name, model, source="sea.nc", directory="fields/prepared", predictors=PREDICTORS)


def write_curved(folder: Path) -> None:
    """Write an ocean on a curvilinear grid to `folder/curved`, and configurations that average or interpolate."""
    (out := folder / "curved").mkdir()
    y, x = np.meshgrid(*[(np.arange(CURVED) - CURVED / 2) * 0.25] * 2, indexing="ij")
    lat, turn = 30 + x * np.sin(0.2) + y * np.cos(0.2), x * np.cos(0.2) - y * np.sin(0.2)
    lon, time = -30 + turn / np.cos(np.deg2rad(lat)), pd.date_range("2001-01-01", "2005-12-31")
    slow = np.cumsum(np.random.default_rng(6).normal(0, 0.05, len(time)))[:, None, None]
    season = np.cos(2 * np.pi * time.day_of_year.values[:, None, None] / 365.25 + 0.1 * x)
    sst = (20 + 0.4 * (30 - lat) + 4 * season + slow).astype("float32")
    sst[:, (np.hypot(x - 2, y) < 1.8) | (y < -5.5)] = np.nan
    attributes = {"units": "degC", "standard_name": "sea_surface_temperature"}
    data = xr.Dataset({"tos": (("time", "y", "x"), sst, attributes)}, {"time": time})
    for name, values, kind in (("nav_lat", lat, "latitude"), ("nav_lon", lon, "longitude")):
        data.coords[name] = (("y", "x"), values, {"standard_name": kind})
    data.to_netcdf(out / "sea.nc", engine="netcdf4")
    for name, spacing in (("means", 1.0), ("between", 0.25)):
        tile = [round(6 / spacing), round(6 / spacing)]
        _configure(
            out,
            name,
            {"model": {"name": "local-ridge"}},
            source="sea.nc",
            grid=spacing,
            region={"lon": [-33, -27], "lat": [27, 33], "tile": tile},
        )


def write_ice(folder: Path) -> None:
    """Write files in OISST's layout, one a year, with ice, and a configuration that reads both from a store."""
    (out := folder / "ice").mkdir()
    (out / "files").mkdir()
    ocean = make_sst().sel(time=slice("2001", "2005"))
    ice = (0.6 - 0.2 * ocean["sst"]).clip(0, 1).where(ocean["sst"] < 2)
    packing = {"dtype": "int16", "scale_factor": 0.01, "_FillValue": -999}
    days = {"units": "days since 1978-01-01 12:00:00", "dtype": "float32"}
    for year, of_year in ocean.assign(ice=ice).groupby("time.year"):
        of_year.to_netcdf(
            out / "files" / f"{year}.nc", engine="netcdf4", encoding={"sst": packing, "ice": packing, "time": days}
        )
    predictors = {"ice": {"kind": "grid", "source": "days.zarr", "variable": "ice", "delay": 1}}
    _configure(out, "iced", MODELS["ridge"], source="days.zarr", predictors=predictors)


def _field(time: pd.DatetimeIndex, cell: float, known: float, random: np.random.Generator) -> xr.Dataset:
    """A wind on cells of a width in degrees around the small ocean, of which a share is known."""
    lat, lon = (np.arange(low + cell / 2, high, cell) for low, high in ((-13, -9), (169, 174)))
    day = np.arange(len(time))[:, None, None]
    wind = (
        3 + 2 * np.sin(day / 58 + lon / 2) * np.cos(lat)[:, None] + random.normal(0, 1, (len(time), lat.size, 1))
    )
    wind = wind + random.normal(0, 0.5, (len(time), lat.size, lon.size))
    wind[random.random(wind.shape) > known] = np.nan
    axes = {"time": time, "lat": lat, "lon": lon}
    return xr.Dataset({"wind": (("time", "lat", "lon"), wind.astype("float32"), {"units": "m s-1"})}, axes)


def _configure(out: Path, name: str, model: dict[str, Any], **data: Any) -> None:
    """Write `out/NAME.yaml`, whose data are those of the small ocean but for the keys given."""
    data["source"] = f"{out.name}/{data['source']}"
    data["predictors"] = {
        key: predictor | {"source": f"{out.name}/{predictor['source']}"}
        for key, predictor in data.get("predictors", {}).items()
    }
    of_data = CONFIG["data"] | {"splits": SPLITS, "directory": f"{out.name}/prepared-{name}"} | data
    config = {"name": name, "runs": f"{out.name}/runs", "data": of_data} | model
    (out / f"{name}.yaml").write_text(json.dumps(config))
