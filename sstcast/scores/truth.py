"""The data that a file's forecasts are scored on: a run's, or those that follow from the dates in the file."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.config import DataConfig, Region, load_config, load_region, parse_box
from sstcast.errors import SSTCastError
from sstcast.forecasting.files import DAY, Forecasts
from sstcast.forecasting.transfer import transferred_data
from sstcast.geo import Box
from sstcast.ocean.grid import around
from sstcast.ocean.reading import open_sst, source_path
from sstcast.runs import Run
from sstcast.scores.evaluate import check_same
from sstcast.splits import for_dates
from sstcast.yaml_files import validate

HISTORY = 42  # days that the baselines see, where no run says
BEFORE = 730  # days of the truth for climatology and baselines before the first forecast scored

Days = NDArray[np.datetime64]


def data_of(
    forecasts: Forecasts, truth: str | None, against: Sequence[Run], region: str | None, horizon: int
) -> DataConfig:
    """Return the data that forecasts are scored on, up to `horizon` days ahead.

    They are those of the first run, on another source `truth` or `region` if given; or of the configuration
    `truth`, a YAML file; or of the source `truth`. Then the baselines see 42 days, and climatology and baselines
    are fitted to all days before the first forecast's 42: penalties are chosen on the last two years of these, or
    their last fifth if that is less.

    Raises SSTCastError if any of these is unusable, the runs are of different oceans, or the truth does not hold
    two years before a forecast and the days it is for.
    """
    configured = truth is not None and truth.endswith((".yaml", ".yml"))
    if not against:
        if truth is None:
            raise SSTCastError("--truth: name the observations, a source of daily temperatures")
        data = load_config(Path(truth)).data if configured else _data_of_file(forecasts, truth, region, horizon)
        if configured and region is not None:
            with open_sst(source_path(data.source)) as observed:
                data = data.model_copy(update={"region": _place(forecasts, observed, region)})
    else:
        if configured:
            raise SSTCastError(
                f"--truth {truth}: a run has its own configuration; name the source of observations"
            )
        first, *others = against
        keys = ("source", "region", "protocol", "history", "splits.train", "splits.validation", "splits.test")
        for run in others:
            check_same(first, run, keys, {}, "compare runs of one ocean")
        own = first.config.data
        if truth is not None and source_path(truth).resolve() == source_path(own.source).resolve():
            truth = None
        data = own if truth is None and region is None else transferred_data(first, region, truth)
    return data.model_copy(update={"horizon": horizon})


def within(dates: Days, first: np.datetime64, last: np.datetime64, history: int, horizon: int) -> Days:
    """Return the initial dates whose history and days forecast are within `first..last`."""
    return dates[(dates - (history - 1) * DAY >= first) & (dates + horizon * DAY <= last)]


def span(dates: Days) -> str:
    """Return the first and the last date as text."""
    return f"{dates[0].astype('M8[D]')}..{dates[-1].astype('M8[D]')}"


def _data_of_file(forecasts: Forecasts, truth: str, region: str | None, horizon: int) -> DataConfig:
    path = source_path(truth)
    if not path.exists():
        raise SSTCastError(f"--truth {truth}: no such file or folder")
    with open_sst(path) as observed:
        days, dates = observed["time"].values, forecasts.sst["init_time"].values
    scored = within(dates, days[0] + (BEFORE + 1) * DAY, days[-1], HISTORY, horizon)
    if not len(scored):
        raise SSTCastError(
            f"{forecasts.path}: none of its {len(dates)} forecasts, {span(dates)}, can be verified for {horizon} "
            f"days with {path}, which holds {span(days)}: needed are also {BEFORE + HISTORY} days before a "
            "forecast; give another --truth, or fewer --leads"
        )
    first, initial, last = (day.astype("M8[D]").item() for day in (days[0], scored[0], scored[-1] + horizon * DAY))
    raw = {
        "source": truth,
        "region": _place(forecasts, observed, region),
        "history": HISTORY,
        "horizon": horizon,
        "splits": for_dates(first, initial, last, HISTORY, horizon),
    }
    return validate(DataConfig, raw, f"--truth {truth}")


def _place(forecasts: Forecasts, observed: xr.DataArray, region: str | None) -> str | Region:
    """Return the region: a name, a box as one tile, or all cells of the truth that the file covers."""
    if region is not None and "," not in region and region != "global":
        load_region(region)
        return region
    sst = forecasts.sst
    box = Box.of({"lat": sst["lat"], "lon": around(sst["lon"].values)}) if region is None else parse_box(region)
    inside = box.contains(observed["lat"], observed["lon"])
    lat = observed["lat"].values[inside.any("lon").values]
    lon = np.sort(box.eastward(observed["lon"].values[inside.any("lat").values]))
    if min(len(lat), len(lon)) < 2:
        raise SSTCastError(
            f"{forecasts.path}: fewer than two rows and columns of the truth are within {box}; give another "
            f"{'--truth' if region is None else '--region'}"
        )
    cells = Box.of({"lat": lat, "lon": lon})
    return Region(
        lon=(cells.west, cells.east),
        lat=(max(cells.south, -90.0), min(cells.north, 90.0)),
        tile=(len(lat), len(lon)),
        land_tiles="keep",
    )
