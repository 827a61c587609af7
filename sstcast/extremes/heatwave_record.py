"""The events of a whole record: of each cell as a dataset, and of places as a table."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sstcast._version import __version__
from sstcast.config import FieldSource, Region, parse_box
from sstcast.errors import SSTCastError
from sstcast.extremes.above import ABOVE, BELOW, SIDES
from sstcast.extremes.definition import HOBDAY, Definition
from sstcast.extremes.heatwave_events import CATEGORY_DAYS, DATES, EVENT_COLUMNS, EventDays, Table, find_events
from sstcast.extremes.heatwaves import CATEGORIES, CELLS_AT_ONCE, VALUES_AT_ONCE
from sstcast.places.places import Places
from sstcast.reading.fields import options_for_keys
from sstcast.reading.gaps import GAP_COUNTS, fill_gaps
from sstcast.reading.grid import check_places
from sstcast.reading.plausible import checked
from sstcast.reading.reading import open_cells
from sstcast.storage.artefacts import as_text
from sstcast.storage.cf import describe
from sstcast.storage.scratch import GrowingArray, in_scratch, release, scratch_array
from sstcast.types import Array

BY_YEAR = ("event_days", "event_count", "event_intensity")
COUNTS = ("duration", "category", *CATEGORY_DAYS)
DAYS_AT_ONCE = 4096  # days of the cells of places that are averaged together
HOBDAYS = "Hobday et al. 2016, 2018"
_EVENTS = (
    "every event ({definition}) as a contiguous ragged array and, of a record, days, number and "
    "cumulative intensity by year"
)
SUBJECTS = {  # the titles and summaries of files
    "heatwaves": ("Marine heatwaves", f"Marine heatwaves: {_EVENTS}"),
    ABOVE: ("Periods above a temperature", f"Periods above a temperature: {_EVENTS}"),
    BELOW: ("Periods below a temperature", f"Periods below a temperature: {_EVENTS}"),
    "cold-spells": ("Marine cold spells", f"Marine cold spells: {_EVENTS}"),
    "dhw": (
        "Degree heating weeks",
        "Degree heating weeks and levels of heat stress of corals (NOAA Coral Reef Watch)",
    ),
}

Daily = Callable[[xr.DataArray], tuple[Array | None, Array]]


def open_record(source: FieldSource) -> xr.DataArray:
    """Open all days of a source in its region, by default in its whole extent, as for `reading.open_region`.

    Computing a block raises SSTCastError if a value is implausible or missing (see `plausible.checked`).
    """
    path, region = source.path, None
    with options_for_keys():
        if "region" in source.given:
            box = parse_box(str(source.region))
            region = Region(lon=(box.west, box.east), lat=(box.south, box.north), tile=(1, 1))
        opened = open_cells(source, region)
        sst = fill_gaps(check_places(opened, str(path)), source.gaps, path).drop_vars(GAP_COUNTS, errors="ignore")
        sst, _ = checked(sst, path, source.gaps)
    sst.set_close(opened.close)
    return sst


def events_of_cells(
    sst: xr.DataArray,
    daily: Daily,
    cold: bool = False,
    definition: Definition = HOBDAY,
    columns: Sequence[str] = EVENT_COLUMNS,
) -> xr.Dataset:
    """Find the events of every ocean cell of `sst(time, lat, lon)` in degC, lazy or not, without missing days.

    `daily` returns climatology and threshold `[day, cell]` of a block of cells from its `sst(time, cell)`, in
    which the coordinate `cell` is the position in the flattened grid.

    Returns `event_days`, `event_count` and `event_intensity(year, lat, lon)`: the days in events, the events that
    begin, and the sum of the intensities of the days in events, of each year, NaN where the baseline defines no
    event. `known_days(year)` are the days of the year that the record has. The events are a contiguous ragged
    array: the `cell_events` of each `cell` follow one another along `event`, with the `columns` of
    `heatwave_events.find_events` as `event_start`, `event_peak` and so on.
    """
    sst = in_scratch(sst.transpose("time", "lat", "lon").astype(np.float32, copy=False))
    year = sst["time"].dt.year.values
    years = np.arange(year[0], year[-1] + 1)
    of_year = {name: scratch_array((len(years), *sst.shape[1:])) for name in BY_YEAR}
    for field in of_year.values():
        field[:] = np.nan
    growing = {name: GrowingArray("i4" if name in (*DATES, *COUNTS) else "f8") for name in columns}
    cells, counts = GrowingArray("i8"), GrowingArray("i4")
    rows = max(1, VALUES_AT_ONCE // (sst.sizes["time"] * sst.sizes["lon"]))
    for south in range(0, sst.sizes["lat"], rows):
        band = sst[:, south : south + rows].values.reshape(sst.sizes["time"], -1)
        ocean = np.flatnonzero(np.isfinite(band[0]))
        for start in range(0, len(ocean), CELLS_AT_ONCE):
            part = ocean[start : start + CELLS_AT_ONCE]
            block = xr.DataArray(
                np.ascontiguousarray(band[:, part]),
                {"time": sst["time"], "cell": south * sst.sizes["lon"] + part},
                ("time", "cell"),
            )
            climatology, threshold = daily(block)
            days, table = find_events(block.values, climatology, threshold, cold, definition)
            defined = np.stack([np.isfinite(threshold[year == one]).any(0) for one in years])
            sums = _by_year(days, year - years[0], defined)
            for name, field in of_year.items():
                field.reshape(len(years), -1)[:, block["cell"].values] = sums[name]
            for name, array in growing.items():
                array.append(table[name])
            cells.append(block["cell"].values)
            counts.append(np.bincount(table["series"].astype(np.intp), minlength=len(part)))
        release()
    row, column = np.divmod(cells.array(), sst.sizes["lon"])
    time = sst["time"].values
    arrays = {name: time[of.array()] if name in DATES else of.array() for name, of in growing.items()}
    totals = BY_YEAR if "category" in columns else (*BY_YEAR[:2], "event_intensity_threshold")
    return xr.Dataset(
        {
            **{name: (("year", "lat", "lon"), of_year[of]) for name, of in zip(totals, BY_YEAR, strict=True)},
            "known_days": ("year", np.bincount(year - years[0]).astype(np.int32)),
            "cell_events": ("cell", counts.array()),
            **{f"event_{name}": ("event", values) for name, values in arrays.items()},
        },
        {
            "year": years.astype(np.int32),
            "lat": sst["lat"],
            "lon": sst["lon"],
            "cell_lat": ("cell", sst["lat"].values[row]),
            "cell_lon": ("cell", sst["lon"].values[column]),
        },
    )


def _by_year(
    days: EventDays, year: NDArray[np.intp], defined: NDArray[np.bool_]
) -> dict[str, NDArray[np.float64]]:
    """Return the fields `BY_YEAR` of a block, `[year, series]`, NaN where no event is `defined` in a year.

    `year [day]` counts years from the first.
    """
    size, shape = defined.size, defined.shape
    position = year[days.day] * shape[1] + days.series
    sums = {
        "event_days": np.bincount(position, minlength=size),
        "event_count": np.bincount(position[days.first], minlength=size),
        "event_intensity": np.bincount(position, days.intensity, size),
    }
    return {name: np.where(defined, of.reshape(shape), np.nan) for name, of in sums.items()}


def events_of_series(
    sst: xr.DataArray,
    climatology: Array | None,
    threshold: Array,
    cold: bool = False,
    definition: Definition = HOBDAY,
) -> pd.DataFrame:
    """Return the events of `sst(time, place)` in degC as a table with a row for each event and dates.

    `climatology` and `threshold [day, place]` are in degC (see `heatwave_events.find_events`).
    """
    _, table = find_events(sst.values, climatology, threshold, cold, definition)
    return as_frame(table, sst["time"].values, sst["place"].values)


def as_frame(table: Table, time: NDArray[np.datetime64], places: NDArray[np.str_]) -> pd.DataFrame:
    """Return a table of `heatwave_events.find_events` with dates, and the names of the series as `place`."""
    columns: Mapping[str, NDArray[np.generic]] = {
        name: time[values.astype(np.intp)] if name in DATES else values for name, values in table.items()
    }
    frame = pd.DataFrame({"place": places[table["series"].astype(np.intp)], **columns}).drop(columns="series")
    if "category" in table:
        frame["category"] = np.array(CATEGORIES)[table["category"].astype(np.intp)]
    return frame.astype({name: np.int32 for name in ("duration", *CATEGORY_DAYS) if name in table})


def series_of_places(sst: xr.DataArray, places: Places, weights: Any) -> xr.DataArray:
    """Return the temperatures of points and the means of areas, `(time, place)` in degC, of `sst(time, lat, lon)`.

    A point has the temperatures of its cell. `weights [place, lat * lon]` are those of `Places.weights`.
    Places without a cell are left out. Raises SSTCastError if that leaves none.
    """
    known = np.diff(weights.indptr) > 0
    if not known.any():
        raise SSTCastError(f"{places.where}: no place lies in the ocean cells of the region; choose others")
    used = np.unique(weights.indices)
    shares = weights[known][:, used].astype(np.float64)
    shares.data /= np.repeat(shares.sum(1), np.diff(shares.indptr))
    row, column = np.unravel_index(used, (sst.sizes["lat"], sst.sizes["lon"]))
    cells = sst.isel(lat=xr.DataArray(row, dims="cell"), lon=xr.DataArray(column, dims="cell"))
    values = in_scratch(cells.transpose("time", "cell")).values
    series = np.concatenate(
        [
            (shares @ values[start : start + DAYS_AT_ONCE].T).T.astype(np.float32)
            for start in range(0, len(values), DAYS_AT_ONCE)
        ]
    )
    names = np.array(places.names)[known]
    return xr.DataArray(series, {"time": sst["time"], "place": names}, ("time", "place"))


def with_attributes(dataset: xr.Dataset, source: str, recipe: dict[str, Any], subject: str) -> xr.Dataset:
    """Add the attributes of a file to the events or the heat stress of cells, with a title for its `SUBJECTS`.

    The `recipe` holds the `baseline` as text, and the `definition` if it is not Hobday's.
    """
    title, summary = SUBJECTS[subject]
    own = {"definition": recipe["definition"]} if "definition" in recipe else {}
    return describe(
        dataset,
        title=f"{title} in {source}",
        summary=summary.format(
            definition=recipe["baseline"] if subject in SIDES else own.get("definition", HOBDAYS)
        ),
        source=source,
        baseline=str(recipe["baseline"]),
        **own,
        recipe=as_text(recipe),
        history=f"sstcast {__version__} heatwaves",
    )
