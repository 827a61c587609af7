"""Events and heat stress in the days of a source or of a run, of cells as a file or of places as a table."""

import datetime as dt
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from sstcast.config import FieldSource
from sstcast.errors import SSTCastError
from sstcast.extremes.above import ABOVE, BELOW, HIGHEST, LOWEST
from sstcast.extremes.baselines import FIXED, Baseline, Limit
from sstcast.extremes.climatology_record import ClimatologyRecord, tell_differences
from sstcast.extremes.definition import HOBDAY, Definition
from sstcast.extremes.events_told import AREAS, areas_of
from sstcast.extremes.heat_stress import MonthlyYears
from sstcast.extremes.heat_stress_record import stress_of_cells, stress_of_places
from sstcast.extremes.heatwave_events import EVENT_COLUMNS, LIMIT_COLUMNS
from sstcast.extremes.heatwave_record import (
    events_of_cells,
    events_of_series,
    open_record,
    series_of_places,
    with_attributes,
)
from sstcast.log import LOG
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared, check_source
from sstcast.places.places import Places
from sstcast.places.series import series_of
from sstcast.reading.daily_field import source_of
from sstcast.reading.xarray_objects import is_object
from sstcast.runs import PRETRAINED, Run, file_name
from sstcast.storage.artefacts import check_own, followed, locked, noted, read_recipe, unlinked
from sstcast.storage.dataset_files import write
from sstcast.storage.stores import open_netcdf
from sstcast.types import Array

REMEDY = "the events are of the old data; to use the new data, run `sstcast prepare`, then train another run"
HEADERS = ("place,start,", "place,time,sst,hotspot,")  # the first columns of tables of events and of heat stress
TABLE_DECIMALS = 6  # of numbers in a CSV


class Question(NamedTuple):
    """What the command is asked for: the places or all cells, cold spells, the baseline and the definition.

    With `dhw`, these are degree heating weeks instead of events, and with `above` or `below` events beyond this
    temperature in degC. Of places, climatology, thresholds and monthly means may be those of another record.
    """

    places: Places | None = None
    cold: bool = False
    kind: str = FIXED
    years: str | None = None
    dhw: bool = False
    definition: Definition = HOBDAY
    above: float | None = None
    below: float | None = None
    climatology: ClimatologyRecord | None = None  # that climatology and thresholds are of, by default the days
    of_series: bool = False  # whether the days are those of places, so that there are no cells

    @property
    def limit(self) -> Limit | None:
        """The temperature that events are beyond, if one is given."""
        if self.above is not None:
            return Limit(self.above, False, self.definition)
        return None if self.below is None else Limit(self.below, True, self.definition)

    @property
    def given(self) -> list[str]:
        """The options, of those that thresholds and events depend on, that are not the usual ones."""
        options = {"baseline": self.kind != FIXED, "years": self.years is not None}
        options |= {"above": self.above is not None, "below": self.below is not None}
        options |= {"climatology": self.climatology is not None}
        names = [name for name, differs in options.items() if differs]
        return names + [name.replace("_", "-") for name in self.definition.given]

    @property
    def own(self) -> dict[str, str]:
        """The definition, for recipes, attributes and columns, if it is not Hobday's."""
        is_told = self.definition != HOBDAY and self.limit is None  # a limit tells what it is of it
        return {"definition": str(self.definition)} if is_told else {}

    @property
    def subject(self) -> str:
        """What the file's name says it holds."""
        if self.limit is not None:
            return BELOW if self.limit.below else ABOVE
        return "dhw" if self.dhw else "cold-spells" if self.cold else "heatwaves"

    @property
    def file_name(self) -> str:
        """What the name of the file ends with, whatever the days are."""
        files = () if self.places is None else self.places.files
        limit = () if self.limit is None else (f"{self.limit.temperature:.12g}",)
        return "-".join([self.subject, *limit, *(path.stem for path in files)]) + self.suffix

    def files_from(self, table: Path) -> dict[str, list[str]]:
        """Return, for the recipe of a table, the paths of the places' files, relative to the table."""
        folder = table.resolve().parent
        files = () if self.places is None else self.places.files
        return {"places": [os.path.relpath(file.resolve(), folder) for file in files]} if files else {}

    @property
    def suffix(self) -> str:
        """Cells go to NetCDF, places to a table."""
        return ".nc" if self.places is None and not self.of_series else ".csv"

    def check(self) -> None:
        """Raise SSTCastError if two options exclude each other, or a temperature is none of the sea."""
        if self.limit is not None:
            option, value = self.subject, self.limit.temperature
            others = ["cold"] * self.cold + ["dhw"] * self.dhw
            if others := others + [name for name in self.given if name not in (option, "shortest", "longest-gap")]:
                raise SSTCastError(f"--{option}: has no --{others[0]}; leave one of the two out")
            if not LOWEST <= value <= HIGHEST:
                raise SSTCastError(
                    f"--{option} {value:g}: give one temperature from {LOWEST:g} to {HIGHEST:g} degC"
                )
        options = ["cold"] * self.cold + [name for name in self.given if name != "climatology"]
        if self.dhw and options:
            raise SSTCastError(f"--dhw: degree heating weeks have no --{options[0]}; leave one of the two out")


def is_run(source: Path) -> bool:
    """Return whether a path names a run."""
    return (source / "config.yaml").exists() or (str(source) == PRETRAINED and not source.exists())


def events_of_record(
    source: FieldSource, question: Question, out: Path | None = None
) -> tuple[xr.Dataset | pd.DataFrame, Path | None]:
    """Find the events in all days of a source, or of a run, and write them to `out`.

    The events of cells go to a `.nc`, by default `NAME-heatwaves.nc` in the current folder or `RUN/heatwaves.nc`.
    Those of places go to a `.csv`, named after both. Under its default name, no file of other days or of another
    baseline is replaced. Those of an object are written only to an `out`. Returns the events and the file, if any.

    Raises SSTCastError if the days, the baseline, the places or `out` are unusable.
    """
    run = Run.open(source.path) if is_run(source.path) else None
    known = series_of(source) if run is None else None
    if known is not None:
        if question.places is not None:
            raise SSTCastError(f"--places: {source.path} is a series, which is of its own places; leave it out")
        question = question._replace(of_series=True)
    name, cold = question.file_name, question.cold or question.subject == BELOW
    path = Path(f"{file_name(source.path.stem)}-{name}") if run is None else run.folder / name
    to = None if out is None and is_object(source.source) else checked_out(out or unlinked(path), question.suffix)
    with _record(source, run, known) as (sst, fraction, prepared), nullcontext() if to is None else locked(to):
        base = None if run is not None else _base(question, known, source)
        of_base = source.path if base is None else Path(base.attrs["path"])
        baseline = _baseline(question, sst, base, of_base, run)
        _check_days(known, base, baseline, source.path, of_base)
        title = "" if base is None else str(base.attrs["title"])
        named = f"{baseline}, of {title}" if title else str(baseline)
        recipe = {"baseline": named, "made_from": _made_from(source, run, question)}
        recipe |= {**question.own, **({} if to is None else question.files_from(to))}
        recipe |= {} if known is None else {"places": known["place"].values.tolist()}
        if out is None and to is not None:
            check_same(to, recipe)
        if question.own:
            LOG.info(f"{source.path}: events and their categories are not Hobday's: {question.definition}")

        def find() -> xr.Dataset | pd.DataFrame:
            if question.suffix == ".csv":
                series = sst
                if question.places is not None:
                    weights = question.places.weights(fraction, sst[0].notnull().values)
                    series = series_of_places(sst, question.places, weights)
                of_places = None if base is None else base.sel(place=series["place"].values)
                table, threshold = _of_places(series, of_places, baseline, cold, question.definition)
                if of_places is not None:
                    tell_differences(series, of_places, threshold, title, cold)
                table = table.assign(baseline=named, **question.own)
                table.attrs["last"] = sst["time"].values[-1]
                table.attrs[AREAS] = areas_of(() if question.places is None else question.places.places)
                return table
            if isinstance(baseline, MonthlyYears):
                found = stress_of_cells(sst, baseline)
            else:
                columns = LIMIT_COLUMNS if isinstance(baseline, Limit) else EVENT_COLUMNS
                found = events_of_cells(
                    sst, lambda block: baseline.daily(block, cold), cold, question.definition, columns
                )
            return with_attributes(found, str(sst.attrs["title"]), recipe, question.subject)

        return written(find() if prepared is None else prepared.unchanged(find), to, recipe)


def _of_places(
    series: xr.DataArray,
    base: xr.DataArray | None,
    baseline: Baseline | Limit | MonthlyYears,
    cold: bool,
    definition: Definition,
) -> tuple[pd.DataFrame, Array | None]:
    """Return the events or heat stress of `series(time, place)` as a table, and the threshold `[day, place]`."""
    if isinstance(baseline, MonthlyYears):
        return stress_of_places(series, baseline, base), None
    climatology, threshold = baseline.daily(series, cold, base)
    return events_of_series(series, climatology, threshold, cold, definition), threshold


def _base(question: Question, known: xr.DataArray | None, source: FieldSource) -> xr.DataArray | None:
    """Return the record `sst(time, place)` of --climatology, with its name as `title` and its `path`, or None."""
    if (record := question.climatology) is None:
        return None
    path = record.source.path
    if is_run(path):
        raise SSTCastError(f"--climatology {path}: is a run; give the source of its days")
    if known is None and question.places is None:
        raise SSTCastError(f"--climatology: {source.path} has cells; give places of it with --places, or a series")
    return record.of(known, question.places).assign_attrs(title=record.name, path=str(path))


def _baseline(
    question: Question, sst: xr.DataArray, base: xr.DataArray | None, path: Path, run: Run | None
) -> Baseline | Limit | MonthlyYears:
    """Return what events, or the years whose monthly means heat stress, are measured from.

    Statistics are of the record `base`, by default of the days `sst` themselves. `path` is that of these days.
    """
    of_run = None if run is None else _of_run(run, question)
    record = sst if base is None else base
    if question.dhw:
        first, last = _span(record) if of_run is None else (of_run.first, of_run.last)
        if (years := MonthlyYears.of(first, last)) is None:
            raise SSTCastError(
                f"{path}: has {first}..{last}, no complete year for monthly means; give more days or, of places, "
                "a longer record with --climatology"
            )
        return years
    if of_run is not None:
        return of_run
    if question.limit is not None:
        return question.limit
    _, until = _span(sst)
    return Baseline.of(question.kind, question.years, *_span(record), path, question.definition, until)


def _check_days(
    known: xr.DataArray | None,
    base: xr.DataArray | None,
    baseline: Baseline | Limit | MonthlyYears,
    path: Path,
    of_base: Path,
) -> None:
    """Raise SSTCastError if the series `known`, or the record `base`, lacks days that are needed.

    `path` and `of_base` are theirs.
    """
    record = known if base is None else base
    if record is not None and isinstance(baseline, Baseline):
        baseline.check_known(record, of_base)
    if isinstance(baseline, MonthlyYears):
        years = None if base is None else base.sel(time=slice(str(baseline.first), str(baseline.last)))
        for days, where in ((known, path), (years, of_base)):
            if days is not None and days.isnull().any():
                raise SSTCastError(f"--dhw: {where} lacks days, which degree heating weeks need; fill them")


def _made_from(source: FieldSource, run: Run | None, question: Question) -> dict[str, Any]:
    """Return which days events are found in. Those of a run are its own, wherever it lies."""
    if run is not None:
        return {}
    given = {key: str(value) for key, value in source.given.items() if value}  # no gaps are the default
    of_base = {} if question.climatology is None else question.climatology.made_from
    return given | {"source": source_of(source.source).identity} | of_base


def check_same(path: Path, recipe: dict[str, Any]) -> None:
    """Raise SSTCastError if a file of the default name holds events of other days, places or another baseline.

    One that does not tell its places counts as one of the same.
    """
    held = read_recipe(path)
    if held is None or "made_from" not in held:
        return
    places = held.get("places", recipe.get("places"))
    if {**held, "places": places} == {"places": None, **recipe}:
        return
    words = [f"{key} {value}" for key, value in held["made_from"].items()]
    words += [f"places of {', '.join(places)}"] if places != recipe.get("places") else []
    own = held.get("definition", "events of Hobday's definition")
    words += [own] if held.get("definition") != recipe.get("definition") else []
    raise SSTCastError(f"{path}: holds {', '.join([*words, held['baseline']])}; name another file with --out")


def _span(sst: xr.DataArray) -> tuple[dt.date, dt.date]:
    first, last = (day.astype("datetime64[D]").item() for day in sst["time"].values[[0, -1]])
    return first, last


@contextmanager
def _record(
    source: FieldSource, run: Run | None, series: xr.DataArray | None
) -> Iterator[tuple[xr.DataArray, xr.DataArray, Prepared | None]]:
    """Open the days of a source or of a run, `sst(time, lat, lon)` in degC, and the ocean share of its cells.

    Those of a run come with the stores that hold them. A `series`, `sst(time, place)`, is its own.
    """
    if series is not None:
        yield series, xr.DataArray(), None
        return
    if run is None:
        with open_record(source) as opened:
            sst = opened.assign_attrs(title=source_of(source.source).called(str(opened.attrs["title"])))
            yield sst, sst[0].notnull().drop_vars("time").astype(np.float32).load(), None
        return
    if given := [key for key in source.given if key != "source"]:
        raise SSTCastError(f"--{given[0]}: {run.folder} is a run with days of its own; leave it out")
    prepared = Prepared.of(run.config.data)
    if prepared.is_current:
        check_source(prepared, REMEDY, only_warn=True)
    else:
        prepared = prepare(run.config.data)
    cube = prepared.open_cube()
    title = source_of(run.config.data.source).called(str(cube.attrs["source"]))
    yield cube["sst"].assign_attrs(title=title), cube["ocean_fraction"].load(), prepared


def _of_run(run: Run, question: Question) -> Baseline:
    """Return the baseline of a run, which is its base period, by Hobday's definition.

    Raises SSTCastError if another is asked for.
    """
    for option in question.given:
        raise SSTCastError(
            f"--{option}: the events of {run.folder} are Hobday's, of data.splits.base_period; leave it out, or "
            "give the source of its days"
        )
    return Baseline(FIXED, *run.config.data.splits.base)


def checked_out(out: Path, suffix: str) -> Path:
    """Return where `out` is written to, at the end of a link.

    Raises SSTCastError unless it may be: only files of events may be overwritten.
    """
    if out.suffix != suffix:
        raise SSTCastError(f"--out {out}: name a file that ends in {suffix}")
    out = followed(out)
    if suffix == ".csv":
        check_own(out, "rename it, or name another --out", *HEADERS)
    elif out.exists() and "baseline" not in (read_recipe(out) or ()):
        raise SSTCastError(f"--out {out}: exists and does not hold heatwaves; delete it or name another file")
    return out


def written(
    events: xr.Dataset | pd.DataFrame, out: Path | None, recipe: dict[str, Any] | None = None
) -> tuple[xr.Dataset | pd.DataFrame, Path | None]:
    """Write the events of cells to NetCDF, or those of places to a CSV file, whose note keeps the `recipe`.

    Returns them, lazily if of cells. Without a file, they stay in memory.
    """
    if out is None:
        return events, None
    if isinstance(events, pd.DataFrame):
        numbers: Any = events.select_dtypes("float").round(TABLE_DECIMALS)
        with noted(out, recipe) as temporary:
            events.assign(**numbers).to_csv(temporary, index=False, date_format="%Y-%m-%d")
        return events, out
    write(events, out)
    return open_netcdf(out, "delete it"), out
