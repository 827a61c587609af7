"""Forecasts that were issued day by day, scored against what came true."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import ndtri

from sstcast.errors import reading_later
from sstcast.geo import area_weights
from sstcast.pages.page import REMEDY, open_forecast

COVERED = 0.8  # the share of days that an interval of 80 % should cover


def verify(files: Sequence[Path], truth: xr.DataArray) -> pd.DataFrame:
    """Score forecast files by lead, against `truth(time, lat, lon)` in degC on their grid.

    Returns, for every lead of which a day has come true, how many `forecasts` there were; `rmse`, `mae` and `bias`
    (forecast - truth) in degC over cells weighted by area and dates; the same of `persistence` (the last day of
    history stays) and of the `climatology`; and `coverage_80`, the share of cells and days within the 80 %
    interval. What the files do not tell is NaN.

    Raises SSTCastError if a file is damaged, or no forecast.
    """
    found = [_sums(file, truth) for file in files]
    if not sum(map(len, found)):
        return pd.DataFrame()
    sums = pd.concat(found).groupby("lead").sum(min_count=1)
    table = pd.DataFrame({"forecasts": sums["forecasts"].astype(int)})
    for system in ("", "_persistence", "_climatology"):
        table[f"rmse{system}"] = np.sqrt(sums[f"squared{system}"] / sums[f"area{system}"])
        table[f"mae{system}"] = sums[f"absolute{system}"] / sums[f"area{system}"]
        table[f"bias{system}"] = sums[f"error{system}"] / sums[f"area{system}"]
    table["coverage_80"] = sums["covered"] / sums["area_covered"]
    return table


def _sums(file: Path, truth: xr.DataArray) -> pd.DataFrame:
    """Return the sums over the cells, with a row for every lead that has come true."""
    with open_forecast(file) as forecast, reading_later(file, REMEDY):
        forecast = forecast.isel(init_time=-1).load()
        init, lead = forecast["init_time"].values, forecast["lead"].values.astype(int)
        forecast = forecast.isel(
            lead=[init + np.timedelta64(n, "D") in truth.indexes["time"] for n in lead.tolist()]
        )
        lead, sst = forecast["lead"].values.astype(int), forecast["sst"]
        days = xr.DataArray(init + lead.astype("timedelta64[D]"), {"lead": forecast["lead"]}, ("lead",))
        came, last = truth.sel(time=days), truth.reindex(time=[init]).isel(time=0)
        weight = area_weights(forecast["lat"]).where(came.notnull() & sst.notnull(), 0)
        nothing = xr.full_like(sst, np.nan)
        systems = {
            "": sst,
            "_persistence": last,
            "_climatology": sst - forecast["sst_anomaly"] if "sst_anomaly" in forecast else nothing,
        }
        sums = {"forecasts": xr.ones_like(days, float), "covered": nothing, "area_covered": nothing}
        for name, field in systems.items():
            error = (field - came).where(weight > 0)
            sums |= {f"area{name}": weight.where(error.notnull()), f"error{name}": weight * error}
            sums |= {f"absolute{name}": weight * abs(error), f"squared{name}": weight * error**2}
        if "sst_quantile" in forecast:  # an older file's spread is that of the members
            reach = ndtri((1 + COVERED) / 2) * forecast["sst_spread"]
            sums |= {"covered": weight * (abs(came - sst) <= reach), "area_covered": weight}
    fields = xr.Dataset(sums).drop_vars(["time", "valid_time", "init_time"], errors="ignore")
    return fields.sum(("lat", "lon"), min_count=1).assign_coords(lead=lead.astype(float)).to_dataframe()
