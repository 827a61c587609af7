"""The command `forecast`: from the run's source to a CF file, in the order of time."""

import datetime as dt
import json
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np

from sstcast.config import DataConfig, FieldSource
from sstcast.errors import SSTCastError, counted
from sstcast.extremes.heatwaves import short_base_period
from sstcast.forecasting.areas import INTERVAL
from sstcast.forecasting.history import (
    days_read,
    last_days,
    most_days_read,
)
from sstcast.forecasting.loaded_run import PAST, LoadedRun, error_keys, made_from
from sstcast.forecasting.place_periods import table_beside
from sstcast.forecasting.places import HEADER, write_table
from sstcast.forecasting.run_places import Asked, keep_places, places_for
from sstcast.forecasting.transfer import OWN
from sstcast.log import LOG
from sstcast.ocean.places import Places
from sstcast.runs import Run, file_name
from sstcast.storage.artefacts import check_own, followed, is_up_to_date, locked, read_recipe
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
    days: FieldSource = OWN,
    samples: int | None = None,
    places: Places | None = None,
    shares: tuple[float, ...] = (),
    above: tuple[float, ...] = (),
) -> tuple[Path, bool]:
    """Forecast from `date`, YYYY-MM-DD or `latest`, with the run or ensemble in `folder`, and write a file.

    `out` is a .nc file or a .zarr store, by default `forecast-DATE.nc` in the run's folder, which must not hold a
    forecast of another source or region. With `members`, it also holds the forecast of each ensemble member.
    `samples` is that of `LoadedRun.forecast`. If `days` give another region or source, the statistics of that
    ocean are prepared if necessary (see `stores.stores_for`).

    With `places`, or those of the run (see `run_places`), it also holds their forecast (see `forecasting.places`),
    and the file `FORECAST-places.csv` beside it has the same as a table. `shares` are in per cent. Those of the
    run's own ocean stay with it. Days `above` temperatures in degC have their probability in every cell, not in
    places.

    Returns the file, and False if it already held the same forecast. Raises SSTCastError if run, date, region or
    file are unusable, or the source lacks days of the history.
    """
    day, today = read_date(date), dt.date.today()
    run = Run.open(folder)
    asked = places_for(run, places, shares)
    if out is not None:
        out = _checked_out(out, asked)
    # Lock first, so that an unwritable folder fails at once.
    with locked(out or run.folder / "forecast"), error_keys(days), ExitStack() as held:
        loaded = LoadedRun(run.folder, days)
        history = last_days(loaded.data, day, today, most=max(most_days_read(run), PAST))
        last = history.indexes["time"][-1].date()
        if out is None:
            out = followed(run.folder / f"forecast{_suffix(loaded.days)}-{last}.nc")
            held.enter_context(locked(out))  # which another process may name as its --out
            _checked_out(out, asked)
            if loaded.days.given:
                check_made_from(out, loaded.data, "name another file with --out")
        prepared = loaded.turn_to(last)
        if (count := days_read(run, prepared)) > len(history):
            history = last_days(prepared.data, last, today, count, PAST)
        history = history.sel(time=slice(np.datetime64(last - dt.timedelta(max(count, PAST) - 1)), None))
        if short_period := short_base_period(*prepared.data.splits.base):
            LOG.info(f"{out}: the thresholds of heatwaves are from a base period of only {short_period}")
        if is_new := not is_up_to_date(out, loaded.recipe(history, members, samples, asked, above=above)):
            fields = loaded.forecast(history, members, samples, asked, above=above)
            if above and asked is not None:
                LOG.info(f"{out}: days above a temperature are forecast for cells, not for places")
            if samples is None and INTERVAL not in fields:
                reason = "there are too few training days, or more than 50,000 cells"
                LOG.info(f"{out}: the share of the sea in a heatwave has no interval; {reason}")
            write(fields, out, grows_along="init_time")
        _tabulate(out, asked)
        if run.trained == run and not loaded.days.given:
            keep_places(run, asked)
        return out, is_new


def _suffix(days: FieldSource) -> str:
    """Return what the name of a forecast's file says of its source and region, if they are not the run's."""
    source, region = (days.given.get(key) for key in ("source", "region"))
    return file_name("".join(f"-{part}" for part in (source and Path(source).stem, region) if part))


def _tabulate(forecast: Path, asked: Asked | None) -> None:
    """Write the table of the places in a forecast's file beside it, or delete that of an earlier forecast."""
    table = table_beside(forecast)
    if asked is None:
        with suppress(SSTCastError):
            check_own(table, "", HEADER)
            table.unlink(missing_ok=True)
        return
    with (open_zarr if forecast.suffix == ".zarr" else open_netcdf)(forecast, "delete it") as opened:
        write_table(opened.load(), asked.places, table)
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


def _checked_out(path: Path, asked: Asked | None) -> Path:
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


def check_made_from(path: Path, data: DataConfig, remedy: str, may_have_moved: bool = False) -> None:
    """Raise SSTCastError, ending in `remedy`, if a file holds a forecast of another source or region than `data`.

    If the project `may_have_moved`, only the name of a source's file counts.
    """
    if not path.exists():
        return
    with open_netcdf(path, remedy) as opened:
        held, wanted = json.loads(opened.attrs.get("made_from", "{}")), made_from(data)
    if may_have_moved and held and Path(held["source"]).name == Path(wanted["source"]).name:
        held["source"] = wanted["source"]
    if words := [f"{key} {held[key]}" for key in held if held[key] != wanted.get(key)]:
        raise SSTCastError(f"{path}: holds a forecast of other data, {', '.join(words)}; {remedy}")
