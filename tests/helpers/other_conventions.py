"""Forecasts as others name and lay them out."""

import numpy as np
import xarray as xr


def climpred(sst: xr.Dataset) -> xr.Dataset:
    """Members, kelvin, from north to south, longitudes in -180..180, the lead a time difference."""
    spread = xr.DataArray([-0.25, 0.25], dims="member", coords={"member": [1, 2]})
    made = (sst + spread + 273.15).rename(init_time="init").sortby("lat", ascending=False)
    made["lead"] = made["lead"].values * np.timedelta64(1, "D")
    made["sst"].attrs["units"] = "K"
    return made.assign_coords(lon=made["lon"] - 360)


def cf(sst: xr.Dataset) -> xr.Dataset:
    """CF's standard names on other names, and hours."""
    made = sst.rename(init_time="reftime", lead="ahead", lat="latitude", lon="longitude", sst="t")
    made["reftime"].attrs = {"standard_name": "forecast_reference_time"}
    made["ahead"] = ("ahead", made["ahead"].values * 24.0, {"standard_name": "forecast_period", "units": "hours"})
    return made.transpose("longitude", "ahead", "latitude", "reftime")


def oceanbench(sst: xr.Dataset) -> xr.Dataset:
    """The first day forecast, an index from 0, and depths."""
    made = sst.rename(
        sst="thetao", lat="latitude", lon="longitude", init_time="first_day_datetime", lead="lead_day_index"
    )
    made = xr.concat([made, made - 1], xr.DataArray([0.49, 47.4], dims="depth", name="depth"))
    made["lead_day_index"] = np.arange(made.sizes["lead_day_index"])
    made["thetao"].attrs = {"units": "degrees_C", "standard_name": "sea_water_potential_temperature"}
    made["first_day_datetime"] = made["first_day_datetime"] + np.timedelta64(1, "D")
    return made.assign(so=made["thetao"].assign_attrs(standard_name="sea_water_salinity"))


def cfgrib(sst: xr.Dataset) -> xr.Dataset:
    """S2S forecasts as ECMWF's cfgrib opens them: `number`, `time` and `step`, kelvin, from north to south.

    The days forecast are a coordinate of two dimensions.
    """
    made = sst.rename(init_time="time", lead="step", lat="latitude", lon="longitude")
    made["step"] = made["step"].values * np.timedelta64(1, "D")
    made["time"].attrs = {"standard_name": "forecast_reference_time"}
    made["sst"] = made["sst"] + 273.15 + xr.DataArray([-0.25, 0.25], dims="number", coords={"number": [0, 1]})
    made["sst"].attrs = {"units": "K", "standard_name": "unknown"}
    made = made.assign_coords(valid_time=made["time"] + made["step"], surface=0.0)
    return made.sortby("latitude", ascending=False).transpose("number", "time", "step", ...)


def hourly(sst: xr.Dataset) -> xr.Dataset:
    """S2S forecasts with an `ensemble`, `time` and a `lead_time` in hours, in degrees of Celsius."""
    made = sst.rename(
        init_time="time", lead="lead_time", lat="latitude", lon="longitude", sst="sea_surface_temperature"
    )
    made["lead_time"] = ("lead_time", made["lead_time"].values * 24, {"units": "hours"})
    member = xr.DataArray([-0.25, 0.25], dims="ensemble", coords={"ensemble": [1, 2]})
    made["sea_surface_temperature"] = made["sea_surface_temperature"] + member
    made["sea_surface_temperature"].attrs = {"units": "degrees_C", "standard_name": "sea_surface_temperature"}
    return made.transpose("time", "ensemble", "lead_time", ...)
