"""The verb `forecast`: from the last days of a run's source to a CF file."""

import datetime as dt
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sstcast.artefacts import locked
from sstcast.cf import write
from sstcast.errors import SSTCastError
from sstcast.forecasting.combination import days_read
from sstcast.forecasting.loaded import LoadedRun
from sstcast.forecasting.source import last_days
from sstcast.forecasting.transfer import transferred_data
from sstcast.ocean.fields import options_for_keys
from sstcast.ocean.prepare import prepare
from sstcast.ocean.prepared import Prepared, check_source
from sstcast.runs import Run
from sstcast.stores import open_netcdf, open_zarr
from sstcast.yaml_files import FIRST_YEAR, LAST_YEAR

LATEST = "latest"
NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]")
SUFFIXES = (".nc", ".zarr")


def forecast(
    folder: Path,
    date: str = LATEST,
    out: Path | None = None,
    region: str | None = None,
    source: str | None = None,
    members: bool = False,
    variable: str | None = None,
    units: str | None = None,
    gaps: int | None = None,
    say: Callable[[str], object] = print,
) -> tuple[Path, bool]:
    """Forecast from `date` (YYYY-MM-DD, or `latest`) with the run or ensemble in `folder`.

    `out` is a .nc file or a .zarr store, by default `forecast-DATE.nc` in the run's folder; `region` and `source`
    are others than the run's, whose statistics are prepared if they are not there; `variable`, `units` and `gaps`
    say how that source is read (`forecasting.transfer`). With `members`, the file holds
    what each member of an ensemble forecasts, too. `say` gets a line for what is fetched or prepared. Returns the
    file, and False if it held this very forecast already.

    Raises SSTCastError if run, date, region or file are unusable, or the source lacks days of the history.
    """
    day = read_date(date)
    if out is not None:
        _check_out(out)
    run = Run.open(folder)
    other = {"region": region, "source": source, "variable": variable, "units": units, "gaps": gaps}
    given = {key: value for key, value in other.items() if value is not None}
    with locked(out or run.folder / "forecast"):  # at once, so that a place that cannot be written is found first
        if source is None:
            return _forecast(run, day, out, given, members, say)
        with options_for_keys():
            return _forecast(run, day, out, given, members, say)


def _forecast(
    run: Run,
    day: dt.date | None,
    out: Path | None,
    other: dict[str, Any],
    members: bool,
    say: Callable[[str], object],
) -> tuple[Path, bool]:
    data = transferred_data(run, to_forecast=True, **other) if other else run.config.data
    history = last_days(data, day, dt.date.today(), say, days_read(run))
    if "source" in other or not Prepared.of(data).exist:
        prepare(data, lambda line: None if line.endswith("nothing to do") else say(line))
    check_source(data)
    loaded = LoadedRun(run.folder, **other)
    if out is None:
        source, region = other.get("source"), other.get("region")
        place = "".join(
            f"-{NOT_IN_NAMES.sub('_', each)}" for each in (source and Path(source).stem, region) if each
        )
        out = loaded.run.folder / f"forecast{place}-{history.indexes['time'][-1]:%Y-%m-%d}.nc"
        _check_out(out)
    if _recipe_of(out) == loaded.recipe(history, members):
        return out, False
    write(loaded.forecast(history, members), out, grows_along="init_time")
    return out, True


def read_date(text: str) -> dt.date | None:
    """Read a date, None for the latest; raise SSTCastError if it is neither."""
    if text == LATEST:
        return None
    try:
        day = dt.datetime.strptime(text, "%Y-%m-%d").date()
        if not FIRST_YEAR <= day.year <= LAST_YEAR:
            raise ValueError
        return day
    except ValueError:
        raise SSTCastError(f"--date {text}: write YYYY-MM-DD or {LATEST}") from None


def _check_out(path: Path) -> None:
    """Raise SSTCastError unless a forecast may be written to `path`: never over anything but a forecast."""
    if path.suffix not in SUFFIXES:
        raise SSTCastError(f"--out {path}: name a file that ends in {' or '.join(SUFFIXES)}")
    if path.exists() and _recipe_of(path) is None:
        raise SSTCastError(f"--out {path}: exists and is no forecast; delete it or name another file")


def _recipe_of(path: Path) -> str | None:
    """Return what the forecast at `path` was made of; None if there is none."""
    try:
        with (open_zarr if path.suffix == ".zarr" else open_netcdf)(path, "name another --out") as dataset:
            recipe: str | None = dataset.attrs.get("forecast_recipe")
            return recipe
    except SSTCastError:
        return None
