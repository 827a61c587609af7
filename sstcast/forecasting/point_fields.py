"""The fields of which a forecast has one value at a point: what they are called, and where they are shown.

A field in `POINT_FIELDS` is on the page of a forecast, in the list and the CSV of a point and on the map, and in
the forecast of places, as far as it has a label or a column there. Texts for files are in `storage/cf.py`.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import xarray as xr

from sstcast.extremes.above import ABOVE, SIDES
from sstcast.extremes.heatwaves import FREEZING, UNDEFINED
from sstcast.forecasting.freezing import freezing_point_of

STEPS = {"°C": 0.005, "%": 0.005, "category": 1, "day": 1}  # by unit: a page rounds values to multiples of these
NO_EVENT = "no event defined"


@dataclass(frozen=True)
class PointField:
    """A field with one value at a point, by lead or of the whole forecast.

    Attributes:
        name: the name on the page, which is that in the file, except where `fields_of` says so.
        unit: one of `STEPS`. Probabilities in % are shares of 1 in files, as in the CSV of a point.
        label: the label in the list of a point, or "" if it has no line. `{days}` stands for the number of days
            forecast, and `{years}` for those that the threshold is from.
        missing: what the list says where there is no value. If it is "", there is no line.
        column: the column of the CSV of a point, or "".
        past: the column of the days of history, `NAME_past` in the file, or "" if there are none.
        layer: the label of the layer of the map, or "".
        colours: the kind of the layer's colours (see `figures.maps.COLOUR_MAPS`), or "" for categories.
        place: the column of the table of places, `place_COLUMN` in the file, or "".
    """

    name: str
    unit: str
    label: str = ""
    missing: str = ""
    column: str = ""
    past: str = ""
    layer: str = ""
    colours: Literal["temperature", "difference", "error", "probability", ""] = ""
    place: str = ""

    @property
    def is_of_events(self) -> bool:
        """Whether it depends on thresholds, and so on their base period."""
        return bool(self.missing) or self.unit == "category"


def _chance(name: str, label: str, layer: str, place: str = "") -> PointField:
    """Return the field of the probability of an event, which is missing where none is defined."""
    return PointField(name, "%", label, NO_EVENT, column=name, layer=layer, colours="probability", place=place)


POINT_FIELDS = (
    PointField(
        "sst",
        "°C",
        "Forecast",
        column="sst_degC",
        past="observed_degC",
        layer="Sea surface temperature (°C)",
        colours="temperature",
        place="sst",
    ),
    PointField(
        "spread",
        "°C",
        "80 % interval",
        column="spread_degC",
        layer="Uncertainty: standard deviation (°C)",
        colours="error",
    ),
    PointField("anomaly", "°C", "Anomaly", layer="Anomaly (°C)", colours="difference"),
    PointField("climatology", "°C", "Climatology", column="climatology_degC", past="climatology_degC"),
    PointField(
        "heatwave_threshold",
        "°C",
        "Heatwave threshold{years}",
        column="heatwave_threshold_degC",
        past="heatwave_threshold_degC",
        place="threshold",
    ),
    _chance(
        "exceedance_probability",
        "Probability above the threshold",
        "Probability of a day above the heatwave threshold",
        place="exceedance_probability",
    ),
    _chance(
        "heatwave_probability",
        "A heatwave on this day",
        "Probability of a marine heatwave",
        place="heatwave_probability",
    ),
    PointField(
        "heatwave_category",
        "category",
        "Most likely category",
        column="heatwave_category",
        layer="Category of the marine heatwave",
    ),
    _chance("cold_spell_probability", "Probability of a cold spell", "Probability of a marine cold spell"),
    # Of the whole forecast. The page makes a line from several of these, which belongs to the one with a label.
    PointField(FREEZING, "°C"),
    PointField("heatwave_event_probability", "%", "A heatwave within {days} days"),
    PointField("running_days", "day", "Heatwave now"),
    PointField("running_category", "category"),
    PointField("heatwave_running_probability", "%"),
    PointField("heatwave_start", "day", "Median start and end"),
    PointField("heatwave_end", "day"),
)


def level_field(side: str, level: float) -> PointField:
    """Return the field of the probability of a day above or below a temperature in degC."""
    name, words = f"{side}_{level:g}", f"{side} {level:g} °C".replace("-", "−")
    if side == ABOVE:
        layer = f"Probability of a day {words}"
        return PointField(name, "%", f"Probability {words}", column=name, layer=layer, colours="probability")
    return PointField(name, "%", f"Probability {words}", column=name)


def levels_of(forecast: xr.Dataset) -> list[tuple[str, float]]:
    """Return the temperatures in degC, each after its side, of which a forecast from one day has probabilities.

    Of files that were joined, each has those of all, without values.
    """
    fields = {side: forecast[f"{side}_probability"] for side in SIDES if f"{side}_probability" in forecast}
    return [
        (side, float(level))
        for side, field in fields.items()
        for level, known in zip(
            field[side].values, field.notnull().any(("lead", "lat", "lon")).values, strict=True
        )
        if known
    ]


def point_fields(forecast: xr.Dataset) -> tuple[PointField, ...]:
    """Return all fields of a point, and those of the temperatures of a forecast from one day."""
    return (*POINT_FIELDS, *(level_field(*level) for level in levels_of(forecast)))


def fields_of(forecast: xr.Dataset) -> dict[str, xr.DataArray]:
    """Return the fields `([lead, past or running_day,] lat, lon)` that a forecast from one day has, by name.

    Among them are the days of history, as `NAME_past`, and the freezing point, also of older files. The anomaly is
    left out, as it is `sst - climatology`. Dates are converted to days after `init_time`. In files without
    `sst_quantile`, `sst_spread` may be the spread of ensemble members, which says little about the error, so it is
    left out.
    """
    names = [name for field in POINT_FIELDS for name in (field.name, f"{field.name}_past")[: 1 + bool(field.past)]]
    fields = {name: forecast[name] for name in names if name in forecast}
    fields[FREEZING] = freezing_point_of(forecast)
    if "sst_anomaly" in forecast:
        fields["climatology"] = forecast["sst"] - forecast["sst_anomaly"]
    if {"sst_spread", "sst_quantile"} <= set(forecast.data_vars):
        fields["spread"] = forecast["sst_spread"]
    for side, level in levels_of(forecast):
        fields[level_field(side, level).name] = forecast[f"{side}_probability"].sel({side: level}, drop=True)
    if (category := fields.get("heatwave_category")) is not None:
        fields["heatwave_category"] = category.where((category >= 0) & (category <= UNDEFINED))
    for name in {"heatwave_start", "heatwave_end"} & set(fields):
        fields[name] = (fields[name] - forecast["init_time"]) / np.timedelta64(1, "D")
    return fields
