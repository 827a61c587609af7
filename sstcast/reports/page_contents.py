"""The contents of a forecast's self-contained interactive page.

The page contains those fields of the file that are in `STORED`, and shows the fields in `LAYERS` as maps.
"""

import base64
import datetime as dt
import re
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from bokeh.resources import Resources
from matplotlib.colors import to_hex
from numpy.typing import NDArray

from sstcast.errors import SSTCastError, counted
from sstcast.extremes.heatwave_events import find_events
from sstcast.extremes.heatwaves import CATEGORIES, UNDEFINED, multiples
from sstcast.figures.colours import CATEGORY_COLOURS
from sstcast.figures.maps import COLOUR_MAPS, Kind, colour_norm, select_region, ticks_of
from sstcast.figures.places import Row, places_of, rows_of
from sstcast.figures.plots import FAN, image_rows, map_plot, series_plot
from sstcast.forecasting.place_periods import chance
from sstcast.geo import Box, area_weights
from sstcast.reading.fields import PLAUSIBLE
from sstcast.reports.images import write_page
from sstcast.reports.page import REMEDY

MISSING_COUNT, MAX_COUNT = np.iinfo(np.int16).min, np.iinfo(np.int16).max  # pages store 16-bit multiples of a step
SCRIPTS = ("parts.js", "page.js")
DEGREE, PROBABILITY = 0.005, 0.01  # a page rounds temperatures and probabilities to these steps
UNDEFINED_COLOUR = "#a3a3c2"  # where no event is defined


@dataclass(frozen=True)
class Layer:
    """A field that the map can show: its name on the page, its label with units, and the kind of its colours."""

    name: str
    label: str
    kind: Kind | None  # None for categories


LAYERS = (
    Layer("sst", "Sea surface temperature (°C)", "temperature"),
    Layer("anomaly", "Anomaly (°C)", "difference"),
    Layer("heatwave_probability", "Probability of a marine heatwave", "probability"),
    Layer("heatwave_category", "Category of the marine heatwave", None),
    Layer("exceedance_probability", "Probability of a day above the heatwave threshold", "probability"),
    Layer("cold_spell_probability", "Probability of a marine cold spell", "probability"),
    Layer("spread", "Uncertainty: standard deviation (°C)", "error"),
)
# The fields that a page stores, with their steps. The page computes the anomaly as `sst - climatology`.
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
    "heatwave_event_probability": PROBABILITY,
    "heatwave_start": 1,
    "heatwave_end": 1,
    "running_days": 1,
    "running_category": 1,
    "heatwave_running_probability": PROBABILITY,
}
ABOVE, ABOVE_WORDS = "above_", "Probability of a day above"  # begin the names and labels of temperatures' layers
EVENT_DATES = ("heatwave_start", "heatwave_end")
EVENTS = ("heatwave", "exceedance", "cold_spell")  # first words of the names of fields that depend on thresholds
NO_EVENT = "no event defined"
PAST_SHOWN = 42  # days of history on a page


def fields_of(forecast: xr.Dataset) -> dict[str, xr.DataArray]:
    """Return those fields `([lead or past,] lat, lon)` of a forecast from one day that are in `STORED`.

    Dates are converted to days after `init_time`. In files without `sst_quantile`, `sst_spread` may be the spread
    of ensemble members. It says little about the error, so it is omitted.
    """
    fields = {name: forecast[name] for name in STORED if name in forecast}
    if "sst_anomaly" in forecast:
        fields["climatology"] = forecast["sst"] - forecast["sst_anomaly"]
    if {"sst_spread", "sst_quantile"} <= set(forecast.data_vars):
        fields["spread"] = forecast["sst_spread"]
    for level in forecast["above"].values if "above_probability" in forecast else ():
        fields[f"{ABOVE}{level:g}"] = forecast["above_probability"].sel(above=level, drop=True)
    if "heatwave_category" in fields:
        fields["heatwave_category"] = fields["heatwave_category"].where(fields["heatwave_category"] >= 0)
    for name in set(EVENT_DATES) & set(fields):
        fields[name] = (fields[name] - forecast["init_time"]) / np.timedelta64(1, "D")
    return fields


def with_running_event(forecast: xr.Dataset) -> xr.Dataset:
    """Add the heatwave that runs on the last day of history: `running_days` and `running_category(lat, lon)`.

    The first counts its days so far, among the days of history in the file, and the second is the highest category
    of these days. Both are NaN without a heatwave. Whether the last days belong to one also depends on the days
    forecast. Files without the days of history do not tell, and are returned unchanged.
    """
    names = ("sst", "heatwave_climatology", "heatwave_threshold")
    if not {f"{name}_past" for name in names} <= {*forecast.data_vars}:
        return forecast
    ocean = forecast["sst"].notnull().any("lead").values
    sst, normal, limit = (
        np.concatenate(
            [forecast[name].transpose(..., "lat", "lon").values[:, ocean] for name in (f"{name}_past", name)]
        )
        for name in names
    )
    _, table = find_events(sst, normal, limit)
    count = forecast.sizes["past"]
    runs = (table["start"] < count) & (table["end"] >= count - 1)
    start = np.full(ocean.sum(), count)
    start[table["series"][runs].astype(int)] = table["start"][runs]
    category = (sst[:count] > multiples(normal[:count], limit[:count])).sum(0)
    highest = np.where(np.arange(count)[:, None] >= start, category, 0).max(0)
    result = forecast.copy()
    for name, values in (("running_days", count - start), ("running_category", highest)):
        field = np.full(ocean.shape, np.nan, np.float32)
        field[ocean] = np.where(start < count, values, np.nan)
        result[name] = (("lat", "lon"), field)
    return result


def _area(forecast: xr.Dataset, whole: bool) -> str:
    """Say how much of the sea is in a heatwave now, and in 1, 2 and 4 weeks, if the file tells.

    Each share has its 80 % interval, unless the file has none. If the page does not show the `whole` file, it is
    the share of what it shows, without interval, and the present one is not known.
    """
    if "heatwave_area" not in forecast:
        return ""
    area, has_interval = forecast["heatwave_area"], whole and "heatwave_area_quantile" in forecast
    if not whole:
        area = forecast["heatwave_probability"].weighted(area_weights(forecast["lat"])).mean(("lat", "lon"))
    ends = forecast[["heatwave_area_quantile", "heatwave_area_now_quantile"] if has_interval else []]
    if has_interval:
        ends = ends.sel(quantile=[0.1, 0.9], method="nearest")
    shares = {"now": float(forecast["heatwave_area_now"])} if whole else {}
    intervals = {"now": ends.get("heatwave_area_now_quantile")}
    for lead, when in {7: "1 week", 14: "2 weeks", 28: "4 weeks"}.items():
        if lead in forecast["lead"]:
            shares[f"in {when}"] = float(area.sel(lead=lead))
            intervals[f"in {when}"] = ends["heatwave_area_quantile"].sel(lead=lead) if has_interval else None
    share_texts = [
        f"{chance(share)} {when}{_interval(intervals[when])}"
        for when, share in shares.items()
        if np.isfinite(share)
    ]
    return f"Expected share of the sea in a marine heatwave: {', '.join(share_texts)}." if share_texts else ""


def title_of(first: dt.date, last: dt.date) -> str:
    """Return the title of a page of the forecasts of two days and those between them."""
    end = f"{last.day} {last:%B %Y}"
    if (first.year, first.month) == (last.year, last.month):
        begin = f"{first.day}-" if first < last else ""
    else:
        begin = f"{first.day} {first:%B}{f' {first.year}' if first.year < last.year else ''} to "
    return f"Forecast of sea surface temperature, {begin}{end}"


def _unbroken(text: str) -> str:
    """Return a text in which no line ends within 0.5 °C or > 99 %."""
    return re.sub("(?<=[<>]) | (?=[%°])", "\u00a0", text)


def _first_place(forecast: xr.Dataset) -> list[float]:
    """Return latitude and longitude of the first place that has a forecast, or nothing."""
    if "place_sst" not in forecast or not (has := forecast["place_sst"].notnull().any("lead").values).any():
        return []
    return [float(forecast[f"place_{axis}"][has.argmax()]) for axis in ("lat", "lon")]


def _interval(ends: xr.DataArray | None) -> str:
    """Write the two ends of an 80 % interval of a share in brackets, or nothing without them."""
    return "" if ends is None else " (80 % interval {} to {})".format(*map(chance, ends.values.tolist()))


def layers_of(fields: dict[str, xr.DataArray]) -> list[tuple[Layer, xr.DataArray]]:
    """Return the layers that these fields provide, each with its values `(lead, lat, lon)`."""
    layer_fields = fields
    if "climatology" in fields:
        layer_fields = fields | {"anomaly": fields["sst"] - fields["climatology"]}
    above = [
        Layer(name, f"{ABOVE_WORDS} {name.removeprefix(ABOVE)} °C", "probability")
        for name in fields
        if name.startswith(ABOVE)
    ]
    return [(layer, layer_fields[layer.name]) for layer in (*LAYERS, *above) if layer.name in layer_fields]


def with_colours(layer: Layer, values: NDArray[Any]) -> dict[str, Any]:
    """Return a layer as a dictionary, with its ticks and its palette, which covers `low` to `high` evenly."""
    if layer.kind is None:
        names, colours = [*CATEGORIES], [*CATEGORY_COLOURS]
        if (values == UNDEFINED).any():
            names, colours = [*names, NO_EVENT], [*colours, UNDEFINED_COLOUR]
        ends = {"low": -0.5, "high": len(names) - 0.5}
        return asdict(layer) | ends | {"palette": colours, "ticks": dict(enumerate(names))}
    norm = colour_norm(values, layer.kind)
    levels = np.asarray(norm.boundaries)
    palette = [to_hex(colour) for colour in COLOUR_MAPS[layer.kind](norm((levels[:-1] + levels[1:]) / 2))]
    scale, unit = (100, " %") if layer.kind == "probability" else (1, "")
    ticks = {float(level): f"{level * scale:.6g}{unit}".replace("-", "−") for level in ticks_of(norm)}
    return asdict(layer) | {"palette": palette, "low": levels[0], "high": levels[-1], "ticks": ticks}


def _packed(
    fields: dict[str, xr.DataArray], file: Path, largest: float, places: tuple[list[str], list[Row]] | None
) -> dict[str, Any]:
    """Pack the ocean mask and the fields of ocean cells for the page's script.

    The fields are loaded one by one. Raises SSTCastError if they and the rows of `places` exceed `largest` MB, or
    if temperatures are not in degC.
    """
    rows = [] if places is None else places[1]
    size_of_places = sum(len("".join([row.name, row.curve, *row.cells])) for row in rows)
    sst = fields["sst"]
    ocean = sst.notnull().any("lead").values
    arrays: dict[str, Any] = {}
    for name, field in fields.items():
        values = field.load().values.reshape(-1, *ocean.shape)[:, ocean].astype(float)
        implausible = values[(values < PLAUSIBLE[0]) | (values > PLAUSIBLE[1])]
        if name == "sst" and implausible.size:
            raise SSTCastError(
                f"{file}: sst holds {implausible[0]:g}, which is not a temperature in degC; {REMEDY}"
            )
        arrays[name] = pack(values, STORED.get(name, PROBABILITY))
        if size_of_places + sum(len(array["text"]) for array in arrays.values()) > largest * 1e6:
            size = f"{sst.sizes['lat']} x {sst.sizes['lon']} cells and {sst.sizes['lead']} days"
            size += f" with {counted(len(rows), 'place')}" if rows else ""
            remedy = "show a part with --region, or increase --max-size"
            if size_of_places > largest * 1e6:
                remedy = "forecast fewer places, or increase --max-size"
            raise SSTCastError(f"{file}: a page of {size} has more than {largest:g} MB; {remedy}")
    return {"ocean": pack(ocean.astype(float), 1), "arrays": arrays}


def pack(values: NDArray[Any], step: float) -> dict[str, Any]:
    """Pack `values[row, column]` for `parts.js` as 16-bit multiples of `step`, deflated and encoded as Base64.

    NaN is kept. Values that are too large are clipped. Neighbouring rows (days) differ little, so the differences
    between rows are stored, modulo 2^16, with all low bytes before all high bytes. After deflation, this takes
    less than half the space of the values themselves.
    """
    counts = np.clip(
        np.round(np.nan_to_num(values / step, posinf=MAX_COUNT, neginf=-MAX_COUNT)), -MAX_COUNT, MAX_COUNT
    )
    integers = np.where(np.isnan(values), MISSING_COUNT, counts).astype("<i2").view("<u2")
    integers[1:] -= integers[:-1].copy()
    halves = np.ascontiguousarray(integers).view(np.uint8).reshape(-1, 2).T.tobytes()
    rows, columns = values.shape
    text = base64.b64encode(zlib.compress(halves)).decode()
    return {"rows": rows, "columns": columns, "step": step, "text": text}


def write_contents(
    page: Path,
    recipe: dict[str, Any],
    file: Path,
    forecast: xr.Dataset,
    region: str | None,
    largest: float,
    good: str,
    drawing: str,
) -> None:
    """Write the page of a forecast from one day.

    Args:
        page: the file to write.
        recipe: the recipe of the page.
        file: the file of the forecast, for messages and the name on the page.
        forecast: the fields `(lead, lat, lon)`.
        region: as in `write_forecast_page`.
        largest: as in `write_forecast_page`.
        good: a sentence on the scores of the run, or nothing.
        drawing: the errors of issued forecasts as SVG, or nothing.

    Raises:
        SSTCastError: like `write_forecast_page`.
    """
    forecast = with_running_event(select_region(forecast, region))
    earliest = int(forecast["past"][0]) if "past" in forecast.dims else None
    if earliest is not None:
        forecast = forecast.isel(past=slice(-PAST_SHOWN, None))
    fields = fields_of(forecast)
    places = places_of(forecast)
    rows = None if places is None else rows_of(forecast)
    if rows is not None:
        rows = rows[0], [row._replace(cells=[*map(_unbroken, row.cells)]) for row in rows[1]]
    packed = _packed(fields, file, largest, rows)
    grid, attributes = forecast[["lat", "lon"]], forecast.attrs
    layers = [with_colours(layer, field.values) for layer, field in layers_of(fields)]
    if short := attributes.get("heatwave_base_period", ""):
        for layer in layers:
            if layer["name"].startswith(EVENTS):
                layer["label"] += f", base period of {short.partition(',')[0]}"
    first = np.datetime_as_string(forecast["init_time"].values, unit="D")
    leads = forecast["lead"].values.astype(int).tolist()
    facts = {
        "name": file.stem,
        "lat": grid["lat"].values.tolist(),
        "lon": grid["lon"].values.tolist(),
        "box": asdict(Box.of(grid)),
        "rows": image_rows(grid["lat"]),
        "init": str(first),
        "leads": leads,
        "thresholds": short,
        "running": forecast["running_day"].values.tolist() if "running_day" in forecast.coords else [],
        "years": attributes.get("heatwave_years", "").replace("..", " to "),
        "past": forecast["past"].values.astype(int).tolist() if "sst_past" in fields else [],
        "fan": list(FAN),
        "layers": layers,
        "map": map_plot(grid, layers[0]["label"], places),
        "series": series_plot(),
        **packed,
        "earliest": earliest,
        "place": _first_place(forecast),
    }
    day = dt.date.fromisoformat(str(first))
    box = Box.of(grid)
    write_page(
        page,
        "page.html",
        recipe,
        title=title_of(*(day + dt.timedelta(leads[i]) for i in (0, -1))),
        summary=attributes.get("title", file.stem),
        area=_unbroken(_area(forecast, region is None)),
        good=_unbroken(good),
        drawing=drawing,
        places=rows,
        notes=[
            str(attributes[key]) for key in ("source", "data", "predictors", "references") if attributes.get(key)
        ],
        wide=box.width / (box.north - box.south) * np.cos(np.radians(box.middle)) > 1.6,
        fields=list(fields),
        facts=facts,
        library=Resources(mode="inline", components=["bokeh"]).js_raw[0],
        script="\n".join(Path(__file__).with_name(name).read_text("utf-8") for name in SCRIPTS),
    )
