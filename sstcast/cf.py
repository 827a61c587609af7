"""The one place that knows CF and ACDD: names, units, attributes, types and encodings of everything written.

CF-1.11 (cfconventions.org) and ACDD-1.3 (wiki.esipfed.org). What is written here lines up in xarray: one type and
one set of values for latitude and longitude, leads counted in days.
"""

import datetime as dt

import numpy as np
import xarray as xr

from sstcast import __version__

CONVENTIONS = "CF-1.11, ACDD-1.3"
OISST = "Huang et al. (2021), doi:10.1175/JCLI-D-20-0166.1"
SUFFIXES = (".nc", ".zarr")
EPOCH = "days since 1970-01-01"
SPHERE_DIGITS = 6  # decimals of a degree: a tenth of a metre, and float32 and float64 of one cell agree

_CELSIUS = {"units": "degree_Celsius", "units_metadata": "temperature: on_scale"}
_DIFFERENCE = {"units": "degree_Celsius", "units_metadata": "temperature: difference"}
_DAY = {"units_metadata": "leap_seconds: none"}
_MEANS = {"cell_methods": "area: mean where sea"}

VARIABLES: dict[str, dict[str, str]] = {
    "lat": {"standard_name": "latitude", "long_name": "latitude", "units": "degrees_north", "axis": "Y"},
    "lon": {"standard_name": "longitude", "long_name": "longitude", "units": "degrees_east", "axis": "X"},
    "time": {"standard_name": "time", "long_name": "day", "axis": "T"},
    "init_time": {"standard_name": "forecast_reference_time", "long_name": "last day of history", **_DAY},
    # "day", not "days": xarray would read the latter as time differences, and lead=28 would be no index.
    "lead": {"standard_name": "forecast_period", "long_name": "days ahead", "units": "day"},
    "valid_time": {"standard_name": "time", "long_name": "day forecast", **_DAY},
    "dayofyear": {"long_name": "day of the year, 1..366", "units": "1"},
    "sst": {
        "standard_name": "sea_surface_temperature",
        "long_name": "sea surface temperature",
        **_CELSIUS,
        **_MEANS,
    },
    "sst_anomaly": {
        "standard_name": "sea_water_temperature_anomaly",
        "long_name": "departure from the climatology",
        **_DIFFERENCE,
        **_MEANS,
    },
    "sst_spread": {"long_name": "standard deviation of the members", **_DIFFERENCE, **_MEANS},
    "anomaly": {"long_name": "standardised anomaly", "units": "1"},
    "climatology": {"long_name": "climatology of the training years", **_CELSIUS},
    "scale": {"long_name": "degC of one standardised unit", **_DIFFERENCE},
    "ocean_fraction": {
        "standard_name": "sea_area_fraction",
        "long_name": "ocean share of the cell",
        "units": "1",
    },
    "ocean_mask": {"long_name": "cell is ocean", "units": "1"},
    "digest": {"long_name": "hash of the day's values", "units": "1"},
    "state": {"long_name": "hash of size and time of the source's file of the day", "units": "1"},
}


def describe(dataset: xr.Dataset, **long_names: str) -> xr.Dataset:
    """Give every variable of `VARIABLES` its attributes, and latitude and longitude their type and bounds.

    `long_names` replace those of the table. Cells are taken to be evenly spaced; an axis of one cell has no
    bounds.
    """
    for axis in {"lat", "lon"} & set(dataset.dims):
        dataset = dataset.assign_coords({axis: dataset[axis].astype(np.float64).round(SPHERE_DIGITS)})
    for name in VARIABLES.keys() & set(dataset.variables):
        text = {"long_name": long_names[name]} if name in long_names else {}
        dataset[name].attrs = VARIABLES[name] | text
    for axis in {"lat", "lon"} & set(dataset.dims):
        centres = dataset[axis].values
        if len(centres) > 1:
            half = (centres[-1] - centres[0]) / (len(centres) - 1) / 2
            edges = np.stack([centres - half, centres + half], axis=1).round(SPHERE_DIGITS)
            dataset = dataset.assign_coords({f"{axis}_bnds": ((axis, "bnds"), edges)})
            dataset[axis].attrs["bounds"] = f"{axis}_bnds"
    return dataset


def attributes(dataset: xr.Dataset, title: str, summary: str, **more: str) -> dict[str, str]:
    """Return global attributes of a described dataset: its title and summary, who made it, box and days."""
    lat, lon = (dataset[axis].values for axis in ("lat", "lon"))
    days = next((dataset[name] for name in ("valid_time", "time") if name in dataset.coords), None)
    covered = {} if days is None else {"start": days.min(), "end": days.max()}
    return {
        "Conventions": CONVENTIONS,
        "title": title,
        "summary": summary,
        "institution": "none",
        "creator_name": "sstcast",
        "creator_type": "group",
        "license": "the licence of its sources; what sstcast adds is free of restrictions",
        "date_created": now(),
        "geospatial_lat_min": f"{lat.min():g}",
        "geospatial_lat_max": f"{lat.max():g}",
        "geospatial_lon_min": f"{lon.min():g}",
        "geospatial_lon_max": f"{lon.max():g}",
        "geospatial_lat_units": "degrees_north",
        "geospatial_lon_units": "degrees_east",
        **{f"time_coverage_{end}": np.datetime_as_string(day.values, unit="D") for end, day in covered.items()},
        "code_version": __version__,
    } | more


def references(source: str, *others: str) -> str:
    """Return the references of data whose source's title is `source`, OISST's only where it is OISST."""
    observed = "OISST" in source and "SIMULATED" not in source
    return "; ".join([*others, *([OISST] if observed else [])])


def now() -> str:
    """Return the time of day as ISO 8601."""
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
