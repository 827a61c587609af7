"""CF and ACDD metadata: names, units, attributes, types and encodings of all files that sstcast writes.

The files follow CF-1.11 (cfconventions.org) and ACDD-1.3 (wiki.esipfed.org). They align in xarray: latitudes and
longitudes have the same type and values, leads are in days, and times count days from the same date.
"""

from typing import Any, TypeVar

import numpy as np
import xarray as xr

from sstcast._version import __version__
from sstcast.geo import NORTH, SOUTH, bounds

CONVENTIONS = "CF-1.11, ACDD-1.3"
OISST_REFERENCE = "Huang et al. (2021), doi:10.1175/JCLI-D-20-0166.1"
METHOD_REFERENCE = "Cai et al. (2023), arXiv:2301.11956"
EPOCH = "days since 1970-01-01"
COORDINATE_DECIMALS = 6  # of a degree (0.1 m), so that coordinates stored as float32 and float64 are equal

_CELSIUS = {"units": "degree_Celsius", "units_metadata": "temperature: on_scale"}
_DIFFERENCE = {"units": "degree_Celsius", "units_metadata": "temperature: difference"}
_DAY = {"units_metadata": "leap_seconds: none"}
_MEAN = {"cell_methods": "area: mean where sea"}
_SST = {"standard_name": "sea_surface_temperature", **_CELSIUS, **_MEAN}

_EVENT = "an event of five or more days, with gaps of up to two days joined"
_CATEGORY = {
    "units": "1",
    "flag_values": np.arange(6, dtype=np.int8),
    "flag_meanings": "none moderate strong severe extreme no_event_defined",
}

VARIABLES: dict[str, dict[str, Any]] = {
    "lat": {"standard_name": "latitude", "long_name": "latitude", "units": "degrees_north", "axis": "Y"},
    SOUTH: {"long_name": "southern edge of the row", "units": "degrees_north"},
    NORTH: {"long_name": "northern edge of the row", "units": "degrees_north"},
    "lon": {"standard_name": "longitude", "long_name": "longitude", "units": "degrees_east", "axis": "X"},
    "time": {"standard_name": "time", "long_name": "day", "axis": "T", **_DAY},
    "init_time": {"standard_name": "forecast_reference_time", "long_name": "last day of history", **_DAY},
    # "day", not "days": xarray would decode "days" as time differences, and lead=28 could not be selected.
    "lead": {"standard_name": "forecast_period", "long_name": "days ahead", "units": "day"},
    "valid_time": {"standard_name": "time", "long_name": "day forecast", **_DAY},
    "dayofyear": {"long_name": "day of the year, 1..366", "units": "1"},
    "day_of_leap_year": {"long_name": "day of the year, counted as in a leap year, 1..366", "units": "1"},
    "freezing_point": {"long_name": "lowest temperature of a cell that freezes", **_CELSIUS},
    "sst": {"long_name": "sea surface temperature", **_SST},
    "sst_anomaly": {
        "standard_name": "sea_water_temperature_anomaly",
        "long_name": "departure from the climatology",
        **_DIFFERENCE,
        **_MEAN,
    },
    "sst_spread": {"long_name": "standard deviation of the predictive distribution", **_DIFFERENCE, **_MEAN},
    "sst_quantile": {"long_name": "quantiles of the predictive distribution", **_SST},
    "quantile": {"long_name": "probability that a value is below the quantile", "units": "1"},
    "sst_member": {"long_name": "forecast of each member", **_SST},
    "member": {"standard_name": "realization", "long_name": "member of the ensemble", "units": "1"},
    "sst_sample": {"long_name": "joint samples of the predictive distribution", **_SST},
    "sample": {"standard_name": "realization", "long_name": "joint sample", "units": "1"},
    "part": {"long_name": "part of what a forecast reads, or is made of"},
    "sst_contribution": {"long_name": "what the part contributes to sst_anomaly", **_DIFFERENCE, **_MEAN},
    "place_contribution": {
        "long_name": "what the part contributes to the anomaly of a point, or of the mean of an area",
        **_DIFFERENCE,
    },
    **{
        f"place_{period}_contribution": {"long_name": f"mean of place_contribution over {days}", **_DIFFERENCE}
        for period, days in (("week", "the week"), ("horizon", "all days"))
    },
    "sst_past": {"long_name": "sea surface temperature on the days of history", **_SST},
    "climatology_past": {"long_name": "climatology of the days of history", **_CELSIUS},
    "past": {"long_name": "day of history; 0 is the last", "units": "day"},
    "anomaly": {"long_name": "standardised anomaly", "units": "1"},
    "climatology": {"long_name": "climatology of the base period", **_CELSIUS},
    "scale": {"long_name": "scale in degC of one standardised unit", **_DIFFERENCE},
    "heatwave_threshold": {"long_name": "90th percentile of the day in the base period", **_CELSIUS},
    "heatwave_threshold_past": {"long_name": "90th percentile of the day in the base period", **_CELSIUS},
    "cold_spell_threshold": {"long_name": "10th percentile of the day in the base period", **_CELSIUS},
    "cold_spell_threshold_past": {"long_name": "10th percentile of the day in the base period", **_CELSIUS},
    "heatwave_climatology": {"long_name": "mean of the days that heatwave_threshold is from", **_CELSIUS},
    "heatwave_climatology_past": {
        "long_name": "mean of the days that heatwave_threshold_past is from",
        **_CELSIUS,
    },
    "exceedance_probability": {"long_name": "probability of a day above heatwave_threshold", "units": "1"},
    "heatwave_probability": {"long_name": f"probability of a day in a marine heatwave, {_EVENT}", "units": "1"},
    "cold_spell_probability": {
        "long_name": f"probability of a day in a marine cold spell, {_EVENT}",
        "units": "1",
    },
    "heatwave_category": {
        "long_name": "most likely category of marine heatwave",
        "comment": "no event is defined where the threshold is less than 0.05 degC above the mean, or below -1.7",
        **_CATEGORY,
    },
    "cold_spell_category": {"long_name": "most likely category of marine cold spell", **_CATEGORY},
    "heatwave_event_probability": {
        "long_name": f"probability of any day of the forecast in a marine heatwave, {_EVENT}",
        "units": "1",
    },
    "cold_spell_event_probability": {
        "long_name": f"probability of any day of the forecast in a marine cold spell, {_EVENT}",
        "units": "1",
    },
    "running_day": {"long_name": "days ahead on which an event may be running", "units": "day"},
    "heatwave_running_probability": {
        "long_name": "probability that the first marine heatwave of the forecast is running on the day",
        "units": "1",
    },
    "cold_spell_running_probability": {
        "long_name": "probability that the first marine cold spell of the forecast is running on the day",
        "units": "1",
    },
    "heatwave_area": {"long_name": "expected share of the sea in a marine heatwave, by area", "units": "1"},
    "heatwave_area_now": {
        "long_name": "expected share of the sea in a marine heatwave on the last day of history, by area",
        "units": "1",
    },
    "heatwave_area_quantile": {
        "long_name": "quantiles of the share of the sea in a marine heatwave, by area",
        "units": "1",
    },
    "heatwave_area_now_quantile": {
        "long_name": "quantiles of the share of the sea in a marine heatwave on the last day of history, by area",
        "units": "1",
    },
    "heatwave_start": {
        "long_name": "median first day of the heatwave",
        "comment": "where a heatwave is as likely as not; the first known day means then or earlier",
        **_DAY,
    },
    "heatwave_end": {
        "long_name": "median last day of the heatwave",
        "comment": "where a heatwave is as likely as not; the last forecast day means then or later",
        **_DAY,
    },
    "place": {"long_name": "name of the place"},
    "place_lat": {
        "standard_name": "latitude",
        "long_name": "latitude of a point in the place",
        "units": "degrees_north",
    },
    "place_lon": {
        "standard_name": "longitude",
        "long_name": "longitude of a point in the place",
        "units": "degrees_east",
    },
    "share": {"long_name": "share of an area, in per cent", "units": "percent"},
    "place_sst": {"long_name": "forecast of a point, or of the mean of an area", **_CELSIUS},
    "place_sst_quantile": {"long_name": "quantiles of the predictive distribution of a place", **_CELSIUS},
    "place_threshold": {"long_name": "heatwave_threshold of a point, or its mean over an area", **_CELSIUS},
    "place_exceedance_probability": {
        "long_name": "probability that the place is above its threshold",
        "units": "1",
    },
    "place_heatwave_probability": {"long_name": "probability that a point is in a marine heatwave", "units": "1"},
    "place_heatwave_share": {"long_name": "expected share of an area in a marine heatwave", "units": "1"},
    "place_heatwave_share_quantile": {
        "long_name": "quantiles of the share of an area in a marine heatwave",
        "units": "1",
    },
    "place_share_probability": {
        "long_name": "probability that at least this share of an area is in a marine heatwave",
        "units": "1",
    },
    "week": {"long_name": "week ahead; the first is days 1 to 7", "units": "1"},
    "tercile": {"long_name": "third of the weekly means of the base period"},
    "tercile_probability": {
        "long_name": "probability that the mean anomaly of the week is in this third of those in the base period",
        "comment": "of weeks within 45 days of the day of the year; missing where the bounds coincide",
        "units": "1",
    },
    "above": {"long_name": "temperature above which a day is", **_CELSIUS},
    "below": {"long_name": "temperature below which a day is", **_CELSIUS},
    **{
        name: {"long_name": text, "units": units}
        for side in ("above", "below")
        for name, text, units in (
            (f"{side}_probability", f"probability of a day {side} this temperature", "1"),
            (f"place_{side}_probability", f"probability of a day of the place {side} this temperature", "1"),
            (f"place_week_days_{side}", f"expected days of a week {side} this temperature", "day"),
            (f"place_horizon_days_{side}", f"expected days of the forecast {side} this temperature", "day"),
        )
    },
    **{
        f"place_{period}_{name}": {"long_name": f"{words} {of}", **units}
        for period, of in (("week", "a week"), ("horizon", "the forecast"))
        for name, words, units in (
            ("sst", "mean of a point, or of the mean of an area, over the days of", _CELSIUS),
            ("sst_quantile", "quantiles of the mean of a place over the days of", _CELSIUS),
            (
                "heatwave_probability",
                "probability that a point, or the smallest share of an area, is in a marine heatwave on a day of",
                {"units": "1"},
            ),
        )
    },
    "place_sst_past": {"long_name": "temperature of a place on the days of history", **_CELSIUS},
    **{
        f"place_{name}{past}": {
            "long_name": f"{words} of the temperature of the place in the base period",
            **_CELSIUS,
        }
        for name, words in (("climatology", "mean"), ("event_threshold", "90th percentile"))
        for past in ("", "_past")
    },
    "place_event_probability": {
        "long_name": "probability of any day of the forecast in a marine heatwave of the place",
        "units": "1",
    },
    "place_running_probability": {
        "long_name": "probability that the first marine heatwave of the place is running on the day",
        "units": "1",
    },
    "ocean_fraction": {
        "standard_name": "sea_area_fraction",
        "long_name": "ocean share of the cell",
        "units": "1",
    },
    "ocean_mask": {"long_name": "cell is ocean", "units": "1"},
    "digest": {"long_name": "hash of the day's values", "units": "1"},
    "source_state": {"long_name": "hash of size and ETag of the day's chunks at the source", "units": "1"},
}
_RATE = {"units": "degree_Celsius day-1", "units_metadata": "temperature: difference"}
_SUM = {"units": "degree_Celsius day", "units_metadata": "temperature: difference"}
_ABSOLUTE_SUM = {"units": "degree_Celsius day", "units_metadata": "temperature: on_scale"}
VARIABLES |= {  # of events; the words that tell heatwaves from cold spells are in the title of a file
    "year": {"long_name": "calendar year", "units": "1"},
    "event_days": {"long_name": "days in events in the year", "units": "day"},
    "known_days": {"long_name": "days of the year that the record has", "units": "day"},
    "event_count": {"long_name": "events that begin in the year", "units": "1"},
    "event_intensity": {"long_name": "sum of the intensities of the days in events in the year", **_SUM},
    "event_intensity_threshold": {
        "long_name": "sum of the departures from the temperature of the days in events in the year",
        **_SUM,
    },
    "maximum_monthly_mean": {"long_name": "mean of the warmest month (MMM)", **_CELSIUS},
    "dhw_max": {"long_name": "largest degree heating week of the year", "units": "degree_Celsius week"},
    "stress": {"long_name": "level of heat stress of corals"},
    "dhw": {"long_name": "mean of the degree heating weeks", "units": "degree_Celsius week"},
    "dhw_now": {
        "long_name": "degree heating weeks on the last day of history",
        "units": "degree_Celsius week",
    },
    "dhw_quantile": {"long_name": "quantiles of the degree heating weeks", "units": "degree_Celsius week"},
    "stress_probability": {"long_name": "probability of a level of heat stress", "units": "1"},
    "event_probability": {
        "long_name": "probability of the first event of the cell with a day in the forecast",
        "units": "1",
    },
    "event_running_probability": {
        "long_name": "probability that the first event of the cell in the forecast is running on the day",
        "units": "1",
    },
    "stress_days": {"long_name": "days of the year at a level of heat stress", "units": "day"},
    "cell_lat": {"standard_name": "latitude", "long_name": "latitude of the cell", "units": "degrees_north"},
    "cell_lon": {"standard_name": "longitude", "long_name": "longitude of the cell", "units": "degrees_east"},
    "cell_events": {"long_name": "number of events of the cell", "units": "1", "sample_dimension": "event"},
    "event_start": {"long_name": "first day of the event", **_DAY},
    "event_peak": {"long_name": "day of the largest intensity", **_DAY},
    "event_end": {"long_name": "last day of the event", **_DAY},
    "event_duration": {"long_name": "days from start to end, both included", "units": "day"},
    "event_onset_rate": {"long_name": "rise of the intensity a day, from half a day before the start", **_RATE},
    "event_decline_rate": {"long_name": "fall of the intensity a day, to half a day after the end", **_RATE},
    "event_category": {
        "long_name": "category of the most severe day",
        "units": "1",
        "flag_values": np.arange(1, 5, dtype=np.int8),
        "flag_meanings": "moderate strong severe extreme",
    },
    **{
        f"event_days_{category}": {"long_name": f"days of the event in the category {category}", "units": "day"}
        for category in ("moderate", "strong", "severe", "extreme")
    },
    **{
        f"event_intensity_{name}{suffix}": {
            "long_name": f"{words} {of}",
            **(total if name == "cumulative" else units),
        }
        for suffix, of, units, total in (
            ("", "of the departure from the climatology", _DIFFERENCE, _SUM),
            ("_threshold", "of the departure from the threshold", _DIFFERENCE, _SUM),
            ("_absolute", "of the temperature", _CELSIUS, _ABSOLUTE_SUM),
        )
        for name, words in (
            ("mean", "mean"),
            ("max", "most extreme value"),
            ("variability", "standard deviation"),
            ("cumulative", "sum over the days"),
        )
    },
}
_ENGINES = {  # where the numbers of a field come from (docs/heatwaves.md)
    "from trajectories of the errors of each cell": (
        *(f"{event}_{name}" for event in ("heatwave", "cold_spell") for name in ("probability", "category")),
        *(f"{event}_event_probability" for event in ("heatwave", "cold_spell")),
        *(f"{event}_running_probability" for event in ("heatwave", "cold_spell")),
        *("heatwave_area", "heatwave_area_now", "heatwave_start", "heatwave_end"),
        *("event_probability", "event_running_probability", "place_heatwave_probability"),
    ),
    "from joint samples of all cells": (
        *("heatwave_area_quantile", "heatwave_area_now_quantile"),
        *("place_heatwave_share", "place_heatwave_share_quantile", "place_share_probability"),
        *("dhw", "dhw_quantile", "stress_probability"),
        *(f"place_{period}_sst{quantile}" for period in ("week", "horizon") for quantile in ("", "_quantile")),
    ),
    "of a point from the distribution of its cell, of the mean of an area from joint samples of all cells": (
        *(f"place_{side}_probability" for side in ("above", "below")),
        *(f"place_{period}_days_{side}" for period in ("week", "horizon") for side in ("above", "below")),
    ),
    "of a point from trajectories of the errors of its cell, of an area from joint samples of all cells": (
        *("place_event_probability", "place_running_probability"),
        *("place_week_heatwave_probability", "place_horizon_heatwave_probability"),
    ),
}
for _engine, _names in _ENGINES.items():
    for _name in _names:
        _comments = [text for text in (VARIABLES[_name].get("comment"), _engine) if text]
        VARIABLES[_name] = VARIABLES[_name] | {"comment": "; ".join(_comments)}
_SAMPLES = "sst_sample"  # packed, because it is the largest field
_INT16: dict[str, Any] = {
    "dtype": "int16",
    "scale_factor": np.float32(0.001),
    "add_offset": np.float32(16),
    "_FillValue": np.int16(-(2**15)),
}
_TIMES = ("time", "init_time", "valid_time")
_MAKER = {
    "Conventions": CONVENTIONS,
    "institution": "not stated",
    "creator_name": f"sstcast {__version__}",
    "license": "same as the source",
    "geospatial_lat_units": "degrees_north",
    "geospatial_lon_units": "degrees_east",
}

Labelled = TypeVar("Labelled", xr.Dataset, xr.DataArray)


def rounded(data: Labelled) -> Labelled:
    """Convert `lat`, `lon` and the edges of rows, if present, to float64 and round them."""
    axes = [axis for axis in ("lat", "lon", SOUTH, NORTH) if axis in data.coords]
    coordinates = {axis: data[axis].load().astype(np.float64).round(COORDINATE_DECIMALS) for axis in axes}
    return data.assign_coords(coordinates)


def describe(dataset: xr.Dataset, long_names: dict[str, str] | None = None, /, **attributes: str) -> xr.Dataset:
    """Add CF attributes, cell bounds and global attributes to a dataset, ready for writing.

    Args:
        dataset: variables named as in `VARIABLES`; for any other variable, the name becomes its `long_name`. `lat`
            and `lon`, if present, are cell centres. An axis with a single cell gets no bounds.
        long_names: long names that replace the defaults in `VARIABLES`.
        attributes: global attributes, such as `title`, `summary`, `source` and `history`.
    """
    dataset = dataset.copy()
    for name in map(str, dataset.variables):
        dataset[name].attrs = dict(VARIABLES.get(name, {"long_name": name.replace("_", " ")}))
    for name, text in (long_names or {}).items():
        dataset[name].attrs["long_name"] = text
    coverage: dict[str, Any] = {}
    for axis in [axis for axis in ("lat", "lon") if axis in dataset.coords]:
        ends = centres = dataset[axis].values
        if len(centres) > 1:
            ends = bounds(dataset[axis]).round(COORDINATE_DECIMALS)
            dataset = dataset.assign_coords({f"{axis}_bnds": ((axis, "bnds"), ends)})
            dataset[axis].attrs["bounds"] = f"{axis}_bnds"
        coverage |= {f"geospatial_{axis}_min": float(ends.min()), f"geospatial_{axis}_max": float(ends.max())}
    for name in {"time", "valid_time"} & set(dataset.variables):
        first, last = (np.datetime_as_string(f(dataset[name].values), unit="D") for f in (np.min, np.max))
        coverage |= {"time_coverage_start": str(first), "time_coverage_end": str(last)}
    return dataset.assign_attrs(_MAKER | coverage | attributes)


def references(source: str, protocol: str) -> dict[str, str]:
    """Return the global attribute `references`, from the title of the source and the name of the protocol.

    It cites OISST if the data are OISST, and Cai et al. (2023) if their protocol was used. If neither applies, the
    dictionary is empty.
    """
    citations = [METHOD_REFERENCE] * (protocol == "paper") + [OISST_REFERENCE] * (
        "OISST" in source and "simulated" not in source.lower()
    )
    return {"references": "; ".join(citations)} if citations else {}


def encoded(dataset: xr.Dataset) -> xr.Dataset:
    """Set the encoding of times, coordinates and categories, which is the same in all files."""
    dataset = dataset.drop_encoding()
    for name in dataset.coords:
        time_encoding = {"units": EPOCH, "dtype": "int32"}
        dataset[name].encoding = time_encoding if name in _TIMES else {"_FillValue": None}
    for name, field in dataset.data_vars.items():
        if name == _SAMPLES:
            field.encoding = dict(_INT16)
        elif field.dtype.kind == "M":
            field.encoding = {"units": EPOCH, "dtype": "int32", "_FillValue": np.int32(-(2**31))}
        elif "flag_values" in field.attrs:
            field.encoding = {"dtype": "int8", "_FillValue": np.int8(-1)}
    return dataset
