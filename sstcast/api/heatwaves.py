"""The public function `heatwaves`: the events of marine heatwaves and cold spells."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sstcast.api.arguments import expand_path, field_source, from_pandas, read_places
from sstcast.errors import SSTCastError

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from sstcast.forecasting.loaded_run import LoadedRun
    from sstcast.runs import Run


class Events(NamedTuple):
    """The events, the file that holds them, if any, and whether this call wrote it."""

    value: xr.Dataset | pd.DataFrame
    path: Path | None
    new: bool


def heatwaves(
    data: str | Path | Run | LoadedRun | xr.Dataset | xr.DataArray | pd.Series[float] | pd.DataFrame,
    places: Sequence[Path | str] | Path | str = (),
    cold: bool = False,
    baseline: str = "fixed",
    years: str | None = None,
    dhw: bool = False,
    region: str | None = None,
    variable: str | None = None,
    units: str | None = None,
    gaps: int | None = None,
    percentile: float = 90,
    shortest: int = 5,
    longest_gap: int = 2,
    window: int = 11,
    smooth: int = 31,
    above: float | None = None,
    below: float | None = None,
    climatology: str | Path | xr.Dataset | xr.DataArray | pd.Series[float] | pd.DataFrame | None = None,
    at: str | Sequence[float] | None = None,
    out: Path | str | None = None,
) -> Events:
    """Find the events of marine heatwaves in daily SST, with start, peak, end, duration, intensities and category.

    Args:
        data: a NetCDF file, a Zarr store, a folder of either, the URL of a Zarr store, `sample`, a run, whose own
            days and base period are used, or a forecast's file, which is joined to the days of history that it
            holds; in Python also an xarray object. A table or a file of daily temperatures of one place or
            several is a series; in Python also a pandas object with dates as index.
        places: find the events of the places in these files, CSV with the columns `name`, `lat`, `lon`, or GeoJSON
            with points and polygons, and write a table. By default, those of all cells are written to NetCDF.
        cold: find cold spells instead of heatwaves.
        baseline: where climatology and threshold come from: `fixed`, one base period, `moving`, the 30 complete
            years before each year, or `detrended`, a base period and its linear trend.
        years: first and last year of a base period, by default 1982:2011 or, without these, all complete years.
        dhw: instead of events, find the degree heating weeks of corals and their levels of stress. A forecast must
            hold joint samples.
        region: the region, as a name in `configs/regions.yaml` or `W,E,S,N` in degrees. By default, all of the
            data.
        variable: name of the SST variable, if it is not found automatically.
        units: units of SST, for instance `K`, in place of those that the file or store states.
        gaps: fill gaps of up to this many days.
        percentile: the percentile, above 50, that a heatwave is above. A cold spell is below 100 minus it.
        shortest: days beyond the threshold that an event has at least.
        longest_gap: days between two events that count as one, at most.
        window: days around a day of the year that its mean and percentile are of, an odd number.
        smooth: days of the running mean of these, an odd number. 1 is none.
        above: instead of heatwaves, find periods above this temperature in degC, without climatology or category.
        below: instead of cold spells, find periods below this temperature in degC.
        climatology: a longer record, a series or a grid, whose climatology and thresholds a series or places are
            compared with, by default their own. Of a grid, it is the cell of the place.
        at: latitude and longitude of a series, such as `-42.5,148.1`, if it does not state them.
        out: the `.nc` or, for places, the `.csv` to write, by default named after the data and the places. The
            events of an object in Python are written only to a file that is named here.

    Returns:
        Days in events, number of events and cumulative intensity by year of all cells, and every event (see
        `docs/heatwaves.md`), opened lazily, or a table with a row for each event of the places. Without a file,
        `path` is None.

    Raises:
        SSTCastError: the data, the baseline, the definition, the places or `out` are unusable.

    Source:
        Hobday et al. (2016), Prog. Oceanogr. 141; Hobday et al. (2018), Oceanography 31.

    Examples:
        >>> events = sstcast.heatwaves(config.data.source, out="events.nc").value
        >>> events["event_days"].dims
        ('year', 'lat', 'lon')
    """
    import pandas as pd

    from sstcast.extremes.climatology_record import ClimatologyRecord, parse_at
    from sstcast.extremes.definition import Definition
    from sstcast.extremes.records import Question, events_of_record
    from sstcast.forecasting.forecast_events import events_of_forecast, open_if_forecast

    source = from_pandas(data)  # is held as long as this variable
    days = field_source(source, region=region, variable=variable, units=units, gaps=gaps)
    definition = Definition(percentile, shortest, longest_gap, window, smooth)
    record, held = None, None if climatology is None else from_pandas(climatology)
    if held is not None:
        name = next(iter(held)) if isinstance(climatology, pd.Series) else None  # the only one, whatever its name
        record = ClimatologyRecord(field_source(held, variable=name), None if at is None else parse_at(at))
        if open_if_forecast(record.source.path) is not None:
            raise SSTCastError(
                f"--climatology {record.source.path}: is a forecast; give a record of observed days"
            )
    elif at is not None:
        raise SSTCastError(f"--at {at}: is where a series lies in the record of --climatology; give that too")
    question = Question(read_places(places) or None, cold, baseline, years, dhw, definition, above, below, record)
    question.check()
    if (forecast := open_if_forecast(days.path)) is not None:
        found, path = events_of_forecast(forecast, days, question, expand_path(out))
    else:
        found, path = events_of_record(days, question, expand_path(out))
    return Events(found, path, path is not None)
