"""Forecasts that were issued day by day, scored against what came true."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import ndtri

from sstcast.errors import reading_later
from sstcast.geo import area_weights
from sstcast.stores import open_netcdf

REMEDY = "delete it"
COVERED = 0.8  # the share of days that an interval of 80 % should cover


def verify(files: Sequence[Path], truth: xr.DataArray) -> pd.DataFrame:
    """Score forecast files by lead, against `truth(time, lat, lon)` in degC on their grid.

    Returns, for every lead of which a day has come true, how many `forecasts` there were; `rmse`, `mae` and `bias`
    (forecast - truth) in degC over cells weighted by area and dates; the same of `persistence` (the last day of
    history stays) and of the `climatology`; and `coverage_80`, the share of cells and days within the 80 %
    interval. What the files do not tell is NaN.

    Raises SSTCastError if a file is damaged.
    """
    rows = [row for file in files for row in _sums(file, truth)]
    if not rows:
        return pd.DataFrame()
    sums = pd.DataFrame(rows).groupby("lead").sum(min_count=1)
    table = pd.DataFrame({"forecasts": sums["forecasts"].astype(int)})
    for system in ("", "_persistence", "_climatology"):
        table[f"rmse{system}"] = np.sqrt(sums[f"squared{system}"] / sums[f"area{system}"])
        table[f"mae{system}"] = sums[f"absolute{system}"] / sums[f"area{system}"]
        table[f"bias{system}"] = sums[f"error{system}"] / sums[f"area{system}"]
    table["coverage_80"] = sums["covered"] / sums["area_covered"]
    return table


def _sums(file: Path, truth: xr.DataArray) -> Iterator[dict[str, float]]:
    """Yield the sums over the cells of every lead that has come true."""
    with open_netcdf(file, REMEDY) as forecast, reading_later(file, REMEDY):
        forecast = forecast.isel(init_time=-1).load()
        init, area = forecast["init_time"].values, area_weights(forecast["lat"])
        held = truth.indexes["time"]
        for lead in forecast["lead"].values.astype(int):
            day = init + np.timedelta64(int(lead), "D")
            if day not in held:
                continue
            came, sst = truth.sel(time=day), forecast["sst"].sel(lead=lead)
            weight = area.where(came.notnull() & sst.notnull(), 0)
            nothing = xr.full_like(sst, np.nan)
            systems = {
                "": sst,
                "_persistence": truth.sel(time=init) if init in held else nothing,
                "_climatology": sst - forecast["sst_anomaly"].sel(lead=lead)
                if "sst_anomaly" in forecast
                else nothing,
            }
            row: dict[str, float] = {"lead": float(lead), "forecasts": 1}
            for name, field in systems.items():
                error = (field - came).where(weight > 0)
                row |= {
                    f"area{name}": _total(weight.where(error.notnull())),
                    f"error{name}": _total(weight * error),
                    f"absolute{name}": _total(weight * abs(error)),
                    f"squared{name}": _total(weight * error**2),
                }
            row |= {"covered": np.nan, "area_covered": np.nan}
            if "sst_quantile" in forecast:  # an older file's spread is that of the members
                reach = ndtri((1 + COVERED) / 2) * forecast["sst_spread"].sel(lead=lead)
                row["covered"] = _total(weight * (abs(came - sst) <= reach))
                row["area_covered"] = _total(weight)
            yield row


def _total(field: xr.DataArray) -> float:
    return float(field.sum(min_count=1))
