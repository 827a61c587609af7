"""The contents of a forecast's self-contained interactive page.

The page contains the fields of `forecasting.point_fields`, and shows those with a layer as maps.
"""

import base64
import datetime as dt
import re
import zlib
from collections.abc import Iterable
from dataclasses import asdict
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
from sstcast.figures.maps import COLOUR_MAPS, colour_norm, select_region, ticks_of
from sstcast.figures.places import Row, places_of, rows_of
from sstcast.figures.plots import FAN, image_rows, map_plot, series_plot
from sstcast.forecasting.chances import between, chance, in_percent
from sstcast.forecasting.fields import FILLED
from sstcast.forecasting.places_told import TOLD_DAYS, base_years
from sstcast.forecasting.point_fields import NO_EVENT, STEPS, PointField, fields_of, levels_of, point_fields
from sstcast.geo import Box, area_weights
from sstcast.reading.fields import PLAUSIBLE
from sstcast.reports.images import write_page
from sstcast.reports.page import REMEDY

MISSING_COUNT, MAX_COUNT = np.iinfo(np.int16).min, np.iinfo(np.int16).max  # pages store 16-bit multiples of a step
SCRIPTS = ("parts.js", "page.js")
UNDEFINED_COLOUR = "#a3a3c2"  # where no event is defined
PAST_SHOWN = 42  # days of history on a page


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
    """Say how much of the sea is in a heatwave now, and on some days, if the file tells.

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
    for lead in TOLD_DAYS:
        if lead in forecast["lead"]:
            shares[f"on day {lead}"] = float(area.sel(lead=lead))
            intervals[f"on day {lead}"] = ends["heatwave_area_quantile"].sel(lead=lead) if has_interval else None
    share_texts = [
        f"{chance(share)} {when}{_interval(intervals[when])}"
        for when, share in shares.items()
        if np.isfinite(share)
    ]
    if not share_texts:
        return ""
    return f"Expected share of the sea in a marine heatwave{base_years(forecast)}: {', '.join(share_texts)}."


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


def _unbroken_row(row: Row) -> Row:
    return row._replace(statements=[*map(_unbroken, row.statements)], cells=[*map(_unbroken, row.cells)])


def _first_place(forecast: xr.Dataset) -> list[float]:
    """Return latitude and longitude of the first place that has a forecast, or nothing."""
    if "place_sst" not in forecast or not (has := forecast["place_sst"].notnull().any("lead").values).any():
        return []
    return [float(forecast[f"place_{axis}"][has.argmax()]) for axis in ("lat", "lon")]


def _interval(ends: xr.DataArray | None) -> str:
    """Write the two ends of an 80 % interval of a share in brackets, or nothing without them."""
    return "" if ends is None else f" (80 % interval {between(ends.values.tolist())})"


def layers_of(
    fields: dict[str, xr.DataArray], shown: Iterable[PointField]
) -> list[tuple[PointField, NDArray[Any]]]:
    """Return the layers of those `fields` that are `shown` and have values, with these, `[lead, lat, lon]`."""
    of_layers = dict(fields)
    if "climatology" in fields:
        of_layers["anomaly"] = fields["sst"] - fields["climatology"]
    layers = [(field, of_layers[field.name].values) for field in shown if field.layer and field.name in of_layers]
    return [(field, values) for field, values in layers if field.missing or np.isfinite(values).any()]


def with_colours(field: PointField, values: NDArray[Any], short_base: str = "") -> dict[str, Any]:
    """Return the layer of a field as a dictionary, with its palette, which covers `low` to `high`, and its ticks.

    Where it depends on thresholds, its label names their base period, if this is short.
    """
    base = f", base period of {short_base}" if short_base and field.is_of_events else ""
    layer = {"name": field.name, "label": field.layer + base}
    if not field.colours:
        names, colours = [*CATEGORIES], [*CATEGORY_COLOURS]
        if (values == UNDEFINED).any():
            names, colours = [*names, NO_EVENT], [*colours, UNDEFINED_COLOUR]
        ends = {"low": -0.5, "high": len(names) - 0.5}
        return layer | ends | {"palette": colours, "ticks": dict(enumerate(names))}
    norm = colour_norm(values, field.colours)
    levels = np.asarray(norm.boundaries)
    palette = [to_hex(colour) for colour in COLOUR_MAPS[field.colours](norm((levels[:-1] + levels[1:]) / 2))]
    scale, unit = (100, " %") if field.unit == "%" else (1, "")
    ticks = {float(level): f"{level * scale:.6g}{unit}".replace("-", "−") for level in ticks_of(norm)}
    return layer | {"palette": palette, "low": levels[0], "high": levels[-1], "ticks": ticks}


def _packed(
    fields: dict[str, xr.DataArray],
    shown: Iterable[PointField],
    file: Path,
    largest: float,
    places: tuple[list[str], list[Row]] | None,
) -> dict[str, Any]:
    """Pack the ocean mask and the fields of ocean cells for the page's script.

    The fields are loaded one by one. Raises SSTCastError if they and the rows of `places` exceed `largest` MB, or
    if temperatures are not in degC.
    """
    rows = [] if places is None else places[1]
    size_of_places = sum(len("".join([row.name, row.curve, *row.statements, *row.cells])) for row in rows)
    units = {field.name: field.unit for field in shown}
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
        unit = units[name.removesuffix("_past")]
        arrays[name] = pack(in_percent(values) / 100 if unit == "%" else values, STEPS[unit])
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
    fields, shown = fields_of(forecast), point_fields(forecast)
    temperatures = sorted({level for _, level in levels_of(forecast)})
    places = places_of(forecast)
    rows = None if places is None else rows_of(forecast)
    if rows is not None:
        rows = rows[0], [_unbroken_row(row) for row in rows[1]]
    packed = _packed(fields, shown, file, largest, rows)
    grid, attributes = forecast[["lat", "lon"]], forecast.attrs
    short, years = (attributes.get(f"heatwave_{name}", "") for name in ("base_period", "years"))
    layers = [with_colours(field, values, short.partition(",")[0]) for field, values in layers_of(fields, shown)]
    years = years.replace("..", " to ")
    first = np.datetime_as_string(forecast["init_time"].values, unit="D")
    leads = forecast["lead"].values.astype(int).tolist()
    words = {"days": leads[-1], "years": f", {years}" if years else ""}
    facts = {
        "name": file.stem,
        "fields": [
            {
                "name": field.name,
                "unit": field.unit,
                "signed": field.colours == "difference",
                "label": field.label.format(**words),
                "missing": field.missing,
                "column": field.column,
                "past": field.past,
            }
            for field in shown
            if field.name in fields or (field.name == "anomaly" and "climatology" in fields)
        ],
        "categories": [*CATEGORIES, NO_EVENT],
        "lat": grid["lat"].values.tolist(),
        "lon": grid["lon"].values.tolist(),
        "box": asdict(Box.of(grid)),
        "rows": image_rows(grid["lat"]),
        "init": str(first),
        "leads": leads,
        "thresholds": short,
        "running": forecast["running_day"].values.tolist() if "running_day" in forecast.coords else [],
        "years": years,
        "past": forecast["past"].values.astype(int).tolist() if "sst_past" in fields else [],
        "fan": list(FAN),
        "layers": layers,
        "map": map_plot(grid, layers[0]["label"], places),
        "series": series_plot(temperatures),
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
            *(
                [f"The source lacks {attributes[FILLED]}, filled linearly in time."]
                if FILLED in attributes
                else []
            ),
            *(
                str(attributes[key])
                for key in ("source", "data", "predictors", "references")
                if attributes.get(key)
            ),
        ],
        wide=box.width / (box.north - box.south) * np.cos(np.radians(box.middle)) > 1.6,
        fields=list(fields),
        temperatures=[f"{level:g}" for level in temperatures],
        facts=facts,
        library=Resources(mode="inline", components=["bokeh"]).js_raw[0],
        script="\n".join(Path(__file__).with_name(name).read_text("utf-8") for name in SCRIPTS),
    )
