"""Which stores a run forecasts from: those of a place, with the climatology and the fit of an initial date."""

import datetime as dt
import os
from dataclasses import replace
from pathlib import Path

from sstcast.config import DataConfig, FieldSource, Splits
from sstcast.forecasting.fitted import linear_part
from sstcast.forecasting.transfer import data_of
from sstcast.log import LOG
from sstcast.ocean.prepare import prepare, update_predictors
from sstcast.ocean.prepared import Prepared, changed_days, check_source
from sstcast.ocean.splits import LEAST_YEARS, for_forecasts, last_test
from sstcast.reading.daily_field import source_of
from sstcast.reading.gaps import GapRule
from sstcast.reading.reading import open_region
from sstcast.runs import Run
from sstcast.training.data_record import check_data


def stores_for(run: Run, where: FieldSource, date: dt.date) -> Prepared:
    """Return the stores from which a run forecasts on an initial date, and prepare them if necessary.

    They follow from the run, the region and source in `where`, and the date, whatever command or function asks. If
    those of the run's own ocean cannot be prepared, because its source is gone or their folder is read-only, the
    stores of its training serve, and a line and their `note` say so.

    Raises SSTCastError if the region or the source is unusable, has too few days, or does not suit the run, or if
    the run's own ocean has other days than it was trained on.
    """
    own, data = run.config.data, data_of(run, where)
    data = data.model_copy(update={"splits": splits_to_forecast(run, data, date)})
    prepared, is_own_ocean = Prepared.of(data), data.model_copy(update={"splits": own.splits}) == own
    if data == own and prepared.is_current:
        check_source(prepared)
    elif not prepared.is_current or changed_days(prepared).size:
        if is_own_ocean and data != own and (reason := _hindrance(prepared)):
            first, last = own.splits.base
            note = f"{reason}, so the climatology and linear fits are those of its training, of {first}..{last}"
            LOG.warning(f"{run.folder}: {note}")
            prepared = replace(Prepared.of(own), note=note)
        else:
            prepared = prepare(data)
    prepared = update_predictors(prepared)
    if is_own_ocean:
        check_data(run, prepared)
    return prepared


def splits_to_forecast(run: Run, data: DataConfig, date: dt.date) -> Splits:
    """Return the splits with which a run forecasts from `data` on an initial date.

    From another source, and from its own with a linear system or a network on a linear base, climatology and fit
    extend to the last whole year that is followed by a window (see `splits.for_forecasts`), so that no later day
    enters them. Other networks keep the run's splits on its own source, and so does a combination with such a
    part, a date before the year of the test that these would give, and a record that is too short for a
    climatology up to it. These may hold later days, of which the forecast tells.

    Raises SSTCastError if another source has less than five years.
    """
    own = run.config.data
    if data.model_copy(update={"region": own.region}) != own:
        first, last = _days_held(data, is_own=False)
        return for_forecasts(data, first, min(last, date), f"--source {data.source}")
    is_refitted = all(linear_part(system, data) for system in run.systems)
    if not is_refitted or last_test(data, date) <= own.splits.test[0]:
        return own.splits
    first, last = own.splits.train[0], min(_days_held(data)[1], date)
    test = last_test(data, last)
    if test <= own.splits.test[0] or (test - first).days < 365 * LEAST_YEARS:
        return own.splits
    return for_forecasts(data, first, last, str(run.folder))


def _days_held(data: DataConfig, is_own: bool = True) -> tuple[dt.date, dt.date]:
    """Return the first and the last day of a source or, if it is gone, of the cube made from it.

    `is_own` is that of `GapRule`.
    """
    is_gone, rule = not source_of(data.source).exists(), GapRule(is_own)
    with Prepared.of(data).open_cube() if is_gone else open_region(data, rule=rule) as record:
        first, last = record["time"].values[[0, -1]].astype("datetime64[D]").tolist()
    return first, last


def _hindrance(prepared: Prepared) -> str:
    """Return why stores cannot be prepared, or ""."""
    if not source_of(prepared.data.source).exists():
        return f"{prepared.data.path} is gone"
    folder: Path = next(path for path in prepared.cube.parents if path.exists())
    return "" if os.access(folder, os.W_OK) else f"{folder} is read-only"
