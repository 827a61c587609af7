"""The command `forecast`: from the run's source to a CF file, in the order of time."""

import datetime as dt
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import xarray as xr

from sstcast.config import DataConfig, FieldSource
from sstcast.errors import SSTCastError, counted
from sstcast.extremes.heatwaves import short_base_period
from sstcast.forecasting.areas import INTERVAL
from sstcast.forecasting.fields import FILLED
from sstcast.forecasting.history import last_days
from sstcast.forecasting.loaded_run import Extras, LoadedRun, error_keys, is_of_own_ocean, made_from
from sstcast.forecasting.place_periods import table_beside
from sstcast.forecasting.places import HEADER, write_table
from sstcast.forecasting.run_gaps import gaps_for, keep_gaps, told_of_stores
from sstcast.forecasting.run_places import AskedPlaces, keep_places, places_for
from sstcast.forecasting.run_temperatures import keep_temperatures, temperatures_for
from sstcast.forecasting.transfer import OWN
from sstcast.log import LOG
from sstcast.places.places import Places
from sstcast.reading.gaps import GapRule
from sstcast.runs import Run, file_name
from sstcast.storage.artefacts import check_own, followed, is_up_to_date, locked, read_recipe, unlinked
from sstcast.storage.dataset_files import write
from sstcast.storage.stores import open_netcdf, open_zarr
from sstcast.storage.yaml_files import FIRST_YEAR, LAST_YEAR

LATEST = "latest"
SUFFIXES = (".nc", ".zarr")


def forecast(
    folder: Path,
    date: str = LATEST,
    out: Path | None = None,
    members: bool = False,
    where: FieldSource = OWN,
    samples: int | None = None,
    places: Places | None = None,
    shares: tuple[float, ...] = (),
    above: tuple[float, ...] | None = None,
    below: tuple[float, ...] | None = None,
    gaps: int | None = None,
    why: bool = False,
) -> tuple[Path, bool]:
    """Forecast from `date`, YYYY-MM-DD or `latest`, with the run or ensemble in `folder`, and write a file.

    `out` is a .nc file or a .zarr store, by default `forecast-DATE.nc` in the run's folder, which must not hold a
    forecast of another source or region. With `members`, it also holds the forecast of each ensemble member.
    `samples` is that of `LoadedRun.forecast`. If `where` gives another region or source, the statistics of that
    ocean are prepared if necessary (see `stores.stores_for`).

    With `places`, or those of the run (see `run_places`), it also holds their forecast (see `forecasting.places`),
    and the file `FORECAST-places.csv` beside it has the same as a table. `shares` are in per cent. Days `above`
    and `below` temperatures in degC, or those of the run (see `run_temperatures`), have their probability in every
    cell and place. In the history, up to `gaps` missing days, or those of the run (see `run_gaps`), are filled
    after its validation, if its source is read. All these stay with the run if its own ocean is forecast. With
    `why`, it also holds what each part of what is read contributes (see `forecasting.why`).

    Returns the file, and False if it already held the same forecast. Raises SSTCastError if run, date, region or
    file are unusable, or the source lacks days of the history.
    """
    day, today = read_date(date), dt.date.today()
    run = Run.open(folder)
    asked = places_for(run, places, shares)
    temperatures = temperatures_for(run, above, below)
    extras = Extras(members, samples, asked, *temperatures, why)
    if out is not None:
        out = _checked_out(out, asked)
    # Lock first, so that an unwritable folder fails at once.
    with locked(out or run.folder / "forecast"), error_keys(where), ExitStack() as held:
        loaded = LoadedRun(run.folder, where)
        rule = GapRule(is_own="source" not in loaded.where.given)
        if rule.is_own:
            rule = rule._replace(most=gaps_for(run, gaps))
        history = last_days(loaded.data, day, today, most=loaded.most_days, rule=rule)
        last = history.indexes["time"][-1].date()
        file = out or held.enter_context(_default_file(loaded, last, asked))

        def keep_rest(made: Path) -> None:
            """Write the table of places, and what the run keeps, of a forecast that will be, or is, at `file`."""
            _tabulate(made, file, asked)
            if run.trained == run and not loaded.where.given:
                keep_places(run, asked)
                keep_temperatures(run, temperatures)
                keep_gaps(run, rule.most)

        if is_new := not is_up_to_date(file, loaded.recipe(history, extras)):
            if loaded.days_read > len(history):  # fetch them, or tell which are missing
                history = last_days(loaded.data, last, today, loaded.days_read, loaded.most_days, rule)
            fields = loaded.forecast(history, **extras._asdict())
            # The forecast takes its name last: where a kill left one, nothing that belongs to it is missing.
            write(fields, file, grows_along="init_time", check=keep_rest)
            for note in _notes(fields, extras, loaded.data):
                LOG.info(f"{file}: {note}")
            if rule.most > loaded.data.gaps and (told := told_of_stores(run, rule.most)):
                LOG.info(told)
        else:
            keep_rest(file)
        return file, is_new


@contextmanager
def _default_file(loaded: LoadedRun, last: dt.date, asked: AskedPlaces | None) -> Iterator[Path]:
    """Yield the file of a forecast from the day `last`, locked, because another process may name it as its --out.

    Raises SSTCastError if it holds something else, or a forecast of other data.
    """
    file = loaded.run.folder / f"forecast{_suffix(loaded.where)}-{last}.nc"
    with locked(file):
        _checked_out(unlinked(file), asked)
        if loaded.where.given:
            check_made_from(file, loaded.data, "name another file with --out")
        yield file


def _notes(fields: xr.Dataset, extras: Extras, data: DataConfig) -> Iterator[str]:
    """Yield what a forecast does not hold, or holds in another way than one might think."""
    if filled := fields.attrs.get(FILLED):
        yield f"{filled} filled"
    if short_period := short_base_period(*data.splits.base):
        yield f"the thresholds of heatwaves are from a base period of only {short_period}"
    if extras.samples is None and INTERVAL not in fields:
        reason = "there are too few training days, or more than 50,000 cells"
        yield f"the share of the sea in a heatwave has no interval; {reason}"


def _suffix(where: FieldSource) -> str:
    """Return what the name of a forecast's file says of its source and region, if they are not the run's."""
    source, region = (where.given.get(key) for key in ("source", "region"))
    return file_name("".join(f"-{part}" for part in (source and Path(source).stem, region) if part))


def _tabulate(made: Path, file: Path, asked: AskedPlaces | None) -> None:
    """Write the table of the places in a forecast beside its `file`, or delete that of an earlier forecast.

    The forecast is read where it was `made`, which may be the temporary of the file.
    """
    table = table_beside(file)
    if asked is None:
        with suppress(SSTCastError):
            check_own(table, "", HEADER)
            table.unlink(missing_ok=True)
        return
    with (open_zarr if file.suffix == ".zarr" else open_netcdf)(made, "delete it") as opened:
        of_places = [name for name, field in opened.data_vars.items() if "place" in field.dims]
        write_table(opened[of_places].load(), asked.places, table)
    LOG.info(f"{table}: {counted(len(asked.places), 'place')}")


def read_date(text: str) -> dt.date | None:
    """Parse a date, or `latest`, which gives None. Raises SSTCastError if `text` is neither."""
    if text == LATEST:
        return None
    try:
        day = dt.datetime.strptime(text, "%Y-%m-%d").date()
        if not FIRST_YEAR <= day.year <= LAST_YEAR:
            raise ValueError
        return day
    except ValueError:
        raise SSTCastError(f"--date {text}: write YYYY-MM-DD or {LATEST}") from None


def _checked_out(path: Path, asked: AskedPlaces | None) -> Path:
    """Return where a forecast is written to, which for a file is the end of a link.

    Raises SSTCastError unless it may be, and its table of places beside it: only forecasts and their tables may be
    overwritten.
    """
    if path.suffix not in SUFFIXES:
        raise SSTCastError(f"--out {path}: name a file that ends in {' or '.join(SUFFIXES)}")
    path = path if path.suffix == ".zarr" else followed(path)
    if path.exists() and "history" not in (read_recipe(path) or ()):
        raise SSTCastError(f"--out {path}: exists and is not a forecast; delete it or name another file")
    if asked is not None:
        check_own(table_beside(path), "rename it, or name another --out", HEADER)
    return path


def check_made_from(path: Path, data: DataConfig, remedy: str, own: Run | None = None) -> None:
    """Raise SSTCastError, ending in `remedy`, if a file holds a forecast of another source or region than `data`.

    A forecast of the ocean of the run that is its `own` passes, wherever its source was.
    """
    if not path.exists():
        return
    with open_netcdf(path, remedy) as opened:
        held, wanted = json.loads(opened.attrs.get("made_from", "{}")), made_from(data)
        if own is not None and is_of_own_ocean(opened, own):
            return
    if words := [f"{key} {held[key]}" for key in held if held[key] != wanted.get(key)]:
        raise SSTCastError(f"{path}: holds a forecast of other data, {', '.join(words)}; {remedy}")
