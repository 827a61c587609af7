"""What a forecast's page can show of it: which fields its file holds, and their colours."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.colors import to_hex
from numpy.typing import NDArray

from sstcast.pages.maps import COLOURS, Kind, colour_norm

DEGREE, PROBABILITY = 0.005, 0.01  # the steps to which a page rounds
# Hobday et al. (2018), doi:10.5670/oceanog.2018.205: from light to dark, so told apart without seeing colours.
CATEGORIES = {
    "none": "#dfe8ee",
    "moderate": "#ffc866",
    "strong": "#ff6900",
    "severe": "#9e0000",
    "extreme": "#2d0000",
}


@dataclass(frozen=True)
class Layer:
    """A field to choose for the map: its name on the page, a label with units, and how it is coloured."""

    name: str
    label: str
    kind: Kind | None  # None: categories


LAYERS = (
    Layer("sst", "Sea surface temperature (°C)", "temperature"),
    Layer("anomaly", "Anomaly (°C)", "difference"),
    Layer("heatwave_probability", "Probability of a marine heatwave", "probability"),
    Layer("heatwave_category", "Category of the marine heatwave", None),
    Layer("exceedance_probability", "Probability of a day above the heatwave threshold", "probability"),
    Layer("cold_spell_probability", "Probability of a marine cold spell", "probability"),
    Layer("spread", "Uncertainty: standard deviation (°C)", "error"),
)
# What the page stores, at which step; the anomaly is `sst - climatology`.
STORED = {
    "sst": DEGREE,
    "climatology": DEGREE,
    "spread": DEGREE,
    "heatwave_threshold": DEGREE,
    "heatwave_probability": PROBABILITY,
    "heatwave_category": 1,
    "exceedance_probability": PROBABILITY,
    "cold_spell_probability": PROBABILITY,
    "sst_past": DEGREE,
    "climatology_past": DEGREE,
    "heatwave_threshold_past": DEGREE,
    "heatwave_start": 1,
    "heatwave_end": 1,
}
DATES = ("heatwave_start", "heatwave_end")


def fields_of(forecast: xr.Dataset) -> dict[str, xr.DataArray]:
    """Return the fields in `STORED` that a forecast from one day holds, `([lead or past,] lat, lon)`.

    Dates become days after `init_time`. A file without `sst_quantile` is an older one, whose `sst_spread` comes
    from an ensemble's members and says little about the error, so it is left out.
    """
    fields = {name: forecast[name] for name in STORED if name in forecast}
    if "sst_anomaly" in forecast:
        fields["climatology"] = forecast["sst"] - forecast["sst_anomaly"]
    if {"sst_spread", "sst_quantile"} <= set(forecast.data_vars):
        fields["spread"] = forecast["sst_spread"]
    if "heatwave_category" in fields:
        fields["heatwave_category"] = fields["heatwave_category"].where(fields["heatwave_category"] >= 0)
    for name in set(DATES) & set(fields):
        fields[name] = (fields[name] - forecast["init_time"]) / np.timedelta64(1, "D")
    return fields


def layers_of(fields: dict[str, xr.DataArray]) -> list[Layer]:
    """Return the layers that can be shown of these fields."""
    return [layer for layer in LAYERS if field_of(layer, fields) is not None]


def field_of(layer: Layer, fields: dict[str, xr.DataArray]) -> xr.DataArray | None:
    """Return the field `(lead, lat, lon)` of a layer; None if it is not there."""
    if layer.name == "anomaly" and "climatology" in fields:
        return fields["sst"] - fields["climatology"]
    return fields.get(layer.name)


def described(layer: Layer, values: NDArray[Any]) -> dict[str, Any]:
    """Return a layer with its colours, lightest or coldest first, evenly from `low` to `high`, and its ticks."""
    if layer.kind is None:
        names, colours = list(CATEGORIES), list(CATEGORIES.values())
        ends = {"low": -0.5, "high": len(names) - 0.5}
        return asdict(layer) | ends | {"palette": colours, "ticks": dict(enumerate(names))}
    norm = colour_norm(values, layer.kind)
    levels = np.asarray(norm.boundaries)
    palette = [to_hex(colour) for colour in COLOURS[layer.kind](norm((levels[:-1] + levels[1:]) / 2))]
    step = -(-len(levels) // 9)
    shown = levels[int(np.abs(levels).argmin()) % step :: step]  # 0 among them
    scale, unit = (100, " %") if layer.kind == "probability" else (1, "")
    ticks = {float(level): f"{level * scale:.6g}{unit}".replace("-", "−") for level in shown}
    return asdict(layer) | {"palette": palette, "low": levels[0], "high": levels[-1], "ticks": ticks}
