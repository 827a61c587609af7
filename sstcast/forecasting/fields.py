"""Forecasts as labelled fields: their coordinates, conversion to degC, and attributes."""

import json

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast._version import __version__
from sstcast.config import COMBINATION, DataConfig, RunConfig
from sstcast.errors import counted
from sstcast.models import LINEAR, LINEAR_BASES, base_of
from sstcast.reading.days_of_year import on_days
from sstcast.runs import Run
from sstcast.storage.cf import describe, references
from sstcast.types import Array

FIELD = ("init_time", "lead", "lat", "lon")
FILLED = "filled"  # attribute of a forecast: the days of its history that were filled


def axes(init_times: NDArray[np.datetime64], horizon: int, grid: xr.Dataset) -> xr.Dataset:
    """Return the coordinates of forecasts on the cells of `grid`: those of `FIELD`, and `valid_time`."""
    lead = np.arange(1, horizon + 1, dtype=np.int32)
    days = init_times[:, None] + lead * np.timedelta64(1, "D")
    return xr.Dataset(
        coords={
            "init_time": init_times,
            "lead": lead,
            "lat": grid["lat"],
            "lon": grid["lon"],
            "valid_time": (FIELD[:2], days),
        }
    )


def not_below_freezing(
    forecast: xr.DataArray, statistics: xr.Dataset, freezing_point: xr.DataArray
) -> xr.DataArray:
    """Raise the values of a `ForecastSystem` that are below the `freezing_point(lat, lon)` of their cell to it.

    The point is in degC, NaN where none is known. `statistics` are those of `in_degrees`.
    """
    if not freezing_point.notnull().any():
        return forecast
    climatology, scale = (on_days(statistics[name], forecast["valid_time"]) for name in ("climatology", "scale"))
    lowest = (freezing_point - climatology) / scale
    return forecast.where(~(forecast < lowest), lowest).transpose(*forecast.dims).astype("float32")


def in_degrees(forecast: xr.DataArray, statistics: xr.Dataset) -> xr.Dataset:
    """Convert the forecast of a `ForecastSystem` to the ensemble mean of `sst` and `sst_anomaly`, in degC.

    `statistics` are `climatology` and `scale(dayofyear, lat, lon)` of the base period, in degC.
    """
    climatology, scale = (on_days(statistics[name], forecast["valid_time"]) for name in ("climatology", "scale"))
    anomaly = (forecast * scale).mean("member", skipna=False)
    fields = {"sst": anomaly + climatology, "sst_anomaly": anomaly}
    return xr.Dataset(fields).transpose(*FIELD).astype("float32")


def on_cells(fields: xr.Dataset, name: str) -> Array:
    """Return the values `[..., cell]` of a field of a forecast in the cells in which its `sst` is not NaN."""
    ocean = fields["sst"].notnull().isel(init_time=0, lead=0).values
    return np.asarray(fields[name].isel(init_time=0).transpose(..., "lat", "lon").values[..., ocean])


def described(
    fields: xr.Dataset, run: Run, source: str, data: DataConfig | None = None, /, **attributes: str
) -> xr.Dataset:
    """Add the CF attributes with which a run's forecasts are written to files.

    `source` is the title of the data, and `data` the data configuration of the forecast, if it is not the run's.
    `attributes` are added to those that describe the run.
    """
    config, count = run.config, len(run.members)
    base = "..".join(map(str, (data or config.data).splits.base))
    mean_note = f", mean of {count} members" if count > 1 else ""
    names = {
        "sst": f"forecast sea surface temperature{mean_note}",
        "sst_anomaly": f"forecast departure from the climatology of {base}{mean_note}",
    }
    members = f"{count} member{'s' if count > 1 else ''}"
    return describe(
        fields,
        {name: text for name, text in names.items() if name in fields},
        summary=f"Daily sea surface temperature, forecast up to {counted(fields.sizes['lead'], 'day')} ahead; "
        "init_time is the last day of history, lead counts days after it; NaN on land",
        source=f"sstcast {__version__}, model {config.model.name}, {members}, "
        f"trained on {training_of(run, source, data)}",
        model=json.dumps(config.model.model_dump(mode="json")),
        code_version=__version__,
        **references(source, config.data.protocol),
        **attributes,
    )


def training_of(run: Run, source: str, data: DataConfig | None = None) -> str:
    """Describe the days that a run was trained on, and those that its linear parts are fitted to, if they differ.

    The arguments are those of `described`.
    """
    config = run.config
    if data is not None and config.model.name in LINEAR:
        return origin(data, source, to_validation=True)
    told = trained_elsewhere(config) or _origin(config, config.data, source if data is None else None)
    parts = [part.config.model for part in run.systems] if config.model.name == COMBINATION else [config.model]
    are_fitted = [model.name in LINEAR for model in parts]
    if data is not None or config.trained_on is not None:
        are_fitted += [base_of(model.options)[0] in LINEAR_BASES for model in parts]
    if not any(are_fitted):
        return told
    what = "linear parts" if config.model.name == COMBINATION else "linear base"
    fitted = origin(data or config.data, source, to_validation=True)
    return told if config.model.name in LINEAR else f"{told}; its {what} fitted to {fitted}"


def trained_elsewhere(config: RunConfig) -> str | None:
    """Describe the training data of a run on another ocean. Returns None if the run forecasts its own ocean."""
    return None if config.trained_on is None else _origin(config, config.trained_on)


def _origin(config: RunConfig, data: DataConfig, source: str | None = None) -> str:
    to_validation = config.training.include_validation or config.model.name in LINEAR
    return origin(data, source, to_validation)


def origin(data: DataConfig, source: str | None = None, to_validation: bool = False) -> str:
    """Describe the days of a source that a model was trained on, by the source's title if it is given.

    With `to_validation`, they include the validation days.
    """
    last = (data.splits.validation if to_validation else data.splits.train)[1]
    return f"{source or data.source} of {data.splits.train[0]}..{last}, region {data.place}"
