"""Events and heat stress in a forecast, which is joined to the observed days before it that its file holds."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sstcast.config import FieldSource
from sstcast.errors import SSTCastError
from sstcast.extremes.events_told import AREAS, areas_of
from sstcast.extremes.heat_stress import (
    DHW_DAYS,
    MMM,
    NOT_KNOWN,
    STRESS_LEVELS,
    degree_heating_weeks,
    stress_level,
)
from sstcast.extremes.heatwave_record import events_of_cells, events_of_series, with_attributes
from sstcast.extremes.records import Question, check_same, checked_out, written
from sstcast.forecasting.areas import HAZEN
from sstcast.forecasting.heatwaves import RUNNING_DAY
from sstcast.names import DAY
from sstcast.places.places import OUTLINES, Places
from sstcast.reading.daily_field import source_of
from sstcast.reading.xarray_objects import is_object, open_object
from sstcast.runs import file_name
from sstcast.storage.artefacts import locked, read_recipe, unlinked
from sstcast.storage.stores import open_netcdf, open_zarr

AGAIN = "make it again with `sstcast forecast`"
DHW_QUANTILES = (0.1, 0.9)


def events_in_forecast(forecast: xr.Dataset, file: str, cold: bool = False) -> xr.Dataset:
    """Find the events in the observed days before a forecast from one initial date, joined to its mean.

    Returns the events of each ocean cell as in `heatwave_record.events_of_cells`. `event_probability` and
    `event_running_probability(event, running_day)` are those of the first event with a day in the forecast, and
    NaN for other events. An event on the first day of history may have begun before it, and one on the last day
    forecast may go on. Both have no rate at that end.

    Raises SSTCastError, naming the `file`, if it lacks one of these fields.
    """
    event = "cold_spell" if cold else "heatwave"
    names = "sst", "heatwave_climatology", f"{event}_threshold"
    sst, climatology, threshold = (_joined(forecast, f"{name}_past", name, file) for name in names)
    flat = [field.values.reshape(len(sst), -1) for field in (climatology, threshold)]
    found = events_of_cells(sst, lambda block: (flat[0][:, block["cell"]], flat[1][:, block["cell"]]), cold)
    found = found.drop_dims("year")
    cell = np.repeat(np.arange(found.sizes["cell"]), found["cell_events"])
    first = _first_ahead(cell, found["event_end"].values, forecast["init_time"].values)
    row, column = (
        found.indexes[axis].get_indexer(found[f"cell_{axis}"].values[cell[first]]) for axis in ("lat", "lon")
    )
    at = {"lat": xr.DataArray(row, dims="event"), "lon": xr.DataArray(column, dims="event")}
    for name, of in ((name, forecast[f"{event}_{name}"]) for name in ("event_probability", "running_probability")):
        values = np.full((len(cell), *of.shape[:-2]), np.nan, np.float32)
        values[first] = of.transpose(..., "lat", "lon").isel(at).transpose("event", ...).values
        dims = ("event", *of.dims[:-2])
        found["event_probability" if name == "event_probability" else f"event_{name}"] = (dims, values)
    return found.assign_coords({RUNNING_DAY: forecast[RUNNING_DAY]})


def place_events_in_forecast(forecast: xr.Dataset, places: Places | None, file: str) -> pd.DataFrame:
    """Return the heatwaves of the places in a forecast from one initial date as a table, as in
    `events_in_forecast`.

    `probability` and `running_7` and so on are the probabilities. With `places`, only these are in the table.
    Raises SSTCastError if the forecast holds no places, or others.
    """
    held = Places.from_geojson(forecast.attrs[OUTLINES]).places if OUTLINES in forecast.attrs else ()
    geometry = {place.name: place.geometry for place in held}
    asked = {place.name: place.geometry for place in (held if places is None else places.places)}
    chosen = list(asked)
    for name in chosen:
        if name not in geometry or not asked[name].equals(geometry[name]):
            raise SSTCastError(f"{file}: does not hold the place {name}; forecast again with --places")
    names = ("place_sst", "place_climatology", "place_event_threshold")
    fields = forecast.sel(place=chosen)
    sst, climatology, threshold = (_joined(fields, f"{name}_past", name, file) for name in names)
    table = events_of_series(sst, climatology.values, threshold.values)
    table.attrs[AREAS] = areas_of(held)
    first = _first_ahead(table["place"].to_numpy(), table["end"].to_numpy(), forecast["init_time"].values)
    at = fields.sel(place=table["place"].to_numpy()[first])
    table["probability"] = np.nan
    table.loc[first, "probability"] = at["place_event_probability"].values
    for day in forecast[RUNNING_DAY].values:
        table[f"running_{day}"] = np.nan
        table.loc[first, f"running_{day}"] = at["place_running_probability"].sel({RUNNING_DAY: day}).values
    return table


def stress_in_forecast(forecast: xr.Dataset, file: str) -> xr.Dataset:
    """Return the degree heating weeks of a forecast from one initial date with joint samples.

    Returns `maximum_monthly_mean(lat, lon)`, `dhw_now(lat, lon)`, that of the last day of history, `dhw(lead, lat,
    lon)`, the mean of the samples, `dhw_quantile(lead, quantile, lat, lon)` at 10 and 90 %, and
    `stress_probability(lead, stress, lat, lon)`, the probability of each of the `STRESS_LEVELS`.

    Raises SSTCastError, naming the `file`, if it lacks samples, the MMM, or any of the 84 days before it.
    """
    if "sst_sample" not in forecast:
        raise SSTCastError(f"{file}: holds no joint samples; forecast again with --samples")
    if MMM not in forecast or forecast[MMM].isnull().all():
        raise SSTCastError(f"{file}: holds no maximum monthly mean; {AGAIN}, from a base period of a year or more")
    if forecast.sizes["past"] < DHW_DAYS:
        raise SSTCastError(
            f"{file}: holds {forecast.sizes['past']} days of history, but degree heating weeks need {DHW_DAYS}; "
            "choose a later date"
        )
    mmm, sst_past = forecast[MMM].values, forecast["sst_past"].transpose("past", "lat", "lon")
    samples = forecast["sst_sample"].transpose("lead", "sample", "lat", "lon")
    leads, _, *shape = samples.shape
    mean = np.full((leads, *shape), np.nan, np.float32)
    quantiles = np.full((leads, len(DHW_QUANTILES), *shape), np.nan, np.float32)
    probability, now = (
        np.full((leads, len(STRESS_LEVELS), *shape), np.nan, np.float32),
        np.full(shape, np.nan, np.float32),
    )
    for row in range(shape[0]):  # the samples of one row of cells fit in memory
        ahead, before = samples[..., row, :].values, sst_past[-DHW_DAYS:, row].values
        whole = np.concatenate([np.broadcast_to(before[:, None], (DHW_DAYS, *ahead.shape[1:])), ahead])
        dhw = degree_heating_weeks(whole, mmm[row])[DHW_DAYS - 1 :]
        now[row], dhw = dhw[0, 0], dhw[1:]
        level = stress_level(ahead - mmm[row], dhw)
        mean[:, row] = dhw.mean(1)
        quantiles[:, :, row] = np.moveaxis(np.quantile(dhw, DHW_QUANTILES, axis=1, method=HAZEN), 0, 1)
        known = (level != NOT_KNOWN).all(1)
        for number in range(len(STRESS_LEVELS)):
            probability[:, number, row] = np.where(known, (level == number).mean(1), np.nan)
    cells = ("lat", "lon")
    return xr.Dataset(
        {
            MMM: (cells, mmm),
            "dhw_now": (cells, now),
            "dhw": (("lead", *cells), mean),
            "dhw_quantile": (("lead", "quantile", *cells), quantiles),
            "stress_probability": (("lead", "stress", *cells), probability),
        },
        {
            **{axis: forecast[axis] for axis in ("init_time", "lead", "valid_time", *cells)},
            "quantile": list(DHW_QUANTILES),
            "stress": list(STRESS_LEVELS),
        },
    )


def _joined(forecast: xr.Dataset, past_name: str, name: str, file: str) -> xr.DataArray:
    """Return a field of the days of history and of those forecast, `(time, ...)`."""
    for needed in (past_name, name):
        if needed not in forecast:
            raise SSTCastError(f"{file}: holds no {needed}, for want of which events are not known; {AGAIN}")
    days = [forecast[past_name].transpose("past", ...).values, forecast[name].transpose("lead", ...).values]
    time = forecast["init_time"].values + DAY * np.concatenate([forecast["past"].values, forecast["lead"].values])
    dims = forecast[name].transpose("lead", ...).dims[1:]
    return xr.DataArray(
        np.concatenate(days), {"time": time, **{dim: forecast[dim] for dim in dims}}, ("time", *dims)
    )


def _first_ahead(series: NDArray[np.generic], end: NDArray[np.datetime64], init_time: Any) -> NDArray[np.intp]:
    """Return the positions of the first event of each series that ends after the initial date."""
    ahead = np.flatnonzero(end > init_time)
    return ahead[np.sort(np.unique(series[ahead], return_index=True)[1])]


def open_if_forecast(path: Path) -> xr.Dataset | None:
    """Open a file or an xarray object if it is a forecast of a run, at its last initial date, else return None."""
    if is_object(str(path)):
        dataset = open_object(path)
    elif path.suffix in (".nc", ".zarr") and path.exists():
        try:
            dataset = (open_zarr if path.is_dir() else open_netcdf)(path, AGAIN)
        except SSTCastError:  # a source, whose reader says what is wrong
            return None
    else:
        return None
    if "sst" not in dataset or not {"init_time", "lead"} <= {*dataset["sst"].dims}:
        dataset.close()
        return None
    return dataset.isel(init_time=-1)


def events_of_forecast(
    forecast: xr.Dataset, source: FieldSource, question: Question, out: Path | None = None
) -> tuple[xr.Dataset | pd.DataFrame, Path | None]:
    """Find the events in a forecast and write them as for a record (`records`), by default beside its file."""
    file, with_places = str(source.path), question.places is not None
    given = [key for key in source.given if key != "source"] + question.given
    if given:
        raise SSTCastError(f"--{given[0]}: {file} is a forecast, which has its own; leave it out")
    if with_places and (question.cold or question.dhw):
        raise SSTCastError(f"--places: {file} holds only heatwaves of places; leave it out, and select cells")
    of_zarr = source.path.suffix == ".zarr"  # whose name keeps its ending, as f.nc may lie beside f.zarr
    name = f"{file_name(source.path.name if of_zarr else source.path.stem)}-{question.file_name}"
    beside = unlinked(source_of(source.source).beside(name))
    path = None if out is None and is_object(source.source) else checked_out(out or beside, question.suffix)
    baseline = f"fixed, {forecast.attrs.get('heatwave_years', 'years not stated')}"
    with forecast, nullcontext() if path is None else locked(path):
        if with_places:
            recipe = {"baseline": baseline, "made_from": {}}
            if path is not None:
                recipe |= question.files_from(path)
            if (
                out is None and path is not None
            ):  # a later forecast may have another baseline, but not the places of others
                check_same(path, recipe | {"baseline": (read_recipe(path) or recipe)["baseline"]})
            table = place_events_in_forecast(forecast, question.places, file)
            return written(table.assign(baseline=baseline), path, recipe)
        if question.dhw:
            found = stress_in_forecast(forecast, file)
            baseline = str(forecast.attrs["maximum_monthly_mean_years"])
        else:
            found = events_in_forecast(forecast, file, question.cold)
        title = str(forecast.attrs.get("title", file))
        return written(with_attributes(found, title, {"baseline": baseline}, question.subject), path)
