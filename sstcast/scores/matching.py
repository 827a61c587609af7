"""Matches the forecasts in a file with observations: their cells, dates and leads, and the file as a system."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.config import DataConfig, Region
from sstcast.errors import SSTCastError, counted
from sstcast.forecasting.fields import FIELD
from sstcast.forecasting.spread import Spread
from sstcast.forecasting.system import ForecastSystem
from sstcast.names import DAY
from sstcast.ocean.filled_days import is_known
from sstcast.ocean.prepared import Prepared
from sstcast.reading.days_of_year import on_days
from sstcast.reading.forecast_files import REMEDY, Forecasts, mean_of_days
from sstcast.reading.regrid import on_cells
from sstcast.scores.analysis import Analysis
from sstcast.scores.asked import Asked
from sstcast.scores.significance import spacing

MOST_MISSING = 0.1  # largest share of missing cells in a forecast that is scored
# In degC. In 35 years of the Tasman Sea, the largest anomaly is 3.1 in the mean of a day and 7.4 in a cell.
FARTHEST_MEAN, FARTHEST_CELL = 6.0, 12.0
SPACE_DIMS = ("lat", "lon")

Days = NDArray[np.datetime64]


class Matched(NamedTuple):
    """Forecasts of a file on the cells of the truth, and the truth on their dates, leads and covered cells.

    Attributes:
        sst: the forecasts, `(member, init_time, lead, lat, lon)` in degC.
        spread: their standard deviation, or None if there is none that can be scored.
        has_spread: whether the file holds one.
        truth: the dates that can be verified.
        first_day: the first day of the first mean that is scored, of daily forecasts the first day forecast.
        asked: what is verified besides all cells, without what does not apply.
        notes: lines that tell what is scored.
        left_out: the number of dates that are not scored, because gaps of the truth were filled on them.
    """

    sst: xr.DataArray
    spread: xr.DataArray | None
    has_spread: bool
    truth: Analysis
    first_day: np.datetime64
    asked: Asked
    notes: list[str]
    left_out: int


def matched(forecasts: Forecasts, prepared: Prepared, asked: Asked) -> Matched:
    """Match forecasts with the truth.

    Raises SSTCastError if none of them can be verified.
    """
    path, data, (cube, anomalies) = forecasts.path, prepared.data, prepared.open()
    sst, cell_note = on_cells(forecasts.sst, anomalies, data.box, path)
    first, last = np.array(data.splits.test, "datetime64[ns]")
    sst = sst.sel(lead=slice(data.horizon))
    init_times = within(sst["init_time"].values, first, last, data.history, data.horizon)
    known = is_known(prepared, init_times)
    init_times, left_out = init_times[known], int((~known).sum())
    spread, spread_notes = _spread_on_cells(forecasts, anomalies, data.box)
    usable = sst if spread is None else sst.where(spread.notnull())
    dates, covered_cells, members = complete_forecasts(
        usable.sel(init_time=init_times), anomalies["ocean_mask"].load()
    )
    if not len(dates):
        day = forecasts.lacking if len(init_times) else ""
        crossed = f", as they cross {day}, which a calendar lacks" if day else ""
        filled = f", {left_out} of them because gaps of the truth were filled on their dates" if left_out else ""
        has_values = usable.sel(init_time=init_times).notnull().any(("member", "lat", "lon")).values
        if not day and has_values.any() and not has_values.all(1).any():
            lead = usable["lead"].values[int(np.argmin(has_values[has_values.any(1)].all(0)))]
            told = f"none of its {counted(len(init_times), 'forecast')} in the years of the truth has all leads"
            raise SSTCastError(
                f"{path}: {told}, as some lack values at lead {lead}; give fewer --leads, or leads that all have"
            )
        raise SSTCastError(
            f"{path}: none of its {sst.sizes['init_time']} forecasts, {span(sst['init_time'].values)}, can be "
            f"verified for {counted(data.horizon, 'day')} with {data.source}, {span(np.array([first, last]))}"
            f"{crossed}{filled}; give another --truth or fewer --leads"
        )
    truth = Analysis.open(prepared).at(dates, covered_cells, sst["lead"].values, forecasts.mean_of)
    if asked.places is not None:
        asked.places.weights(cube["ocean_fraction"].load(), np.isfinite(truth.on_map(truth.area)))
    step = spacing(dates)
    leads = f"; leads {', '.join(map(str, truth.leads))}, without heatwaves and distributions"
    if truth.mean_of > 1:
        leads = f"; means of {truth.mean_of} days up to{leads[1:]}, which are of days"
        if not truth.weekly:
            leads += "; thirds are not scored, because they need all whole weeks: days 1-7, 8-14 and so on"
        if asked.observations is not None:
            asked = replace(asked, observations=None)
            leads += "; observations at points are not scored, because they are of days"
    first_days = (dates[0] + (truth.leads[0] - [truth.mean_of - 1, 0]) * DAY).astype("M8[D]")
    notes = [
        forecasts.note,
        cell_note,
        *spread_notes,
        f"{len(dates)} of {sst.sizes['init_time']} forecasts, {counted(step, 'day')} apart, for "
        f"{counted(data.horizon, 'day')}, can be verified; all have {truth.ocean.sum()} of "
        f"{int(anomalies['ocean_mask'].sum())} ocean cells",
        f"the first mean is of {truth.mean_of} days, {first_days[0]} to {first_days[1]}"
        if truth.mean_of > 1
        else f"the first valid day is {first_days[1]}",
        f"climatology of {'..'.join(map(str, data.splits.base))}{'' if truth.daily else leads}",
    ]
    if len(sizes := dict(zip(*np.unique(members, return_counts=True), strict=True))) > 1:
        size_texts = [
            f"{counted(int(n), 'forecast')} with {counted(int(size), 'member')}" for size, n in sizes.items()
        ]
        notes.append(
            f"{', '.join(size_texts)}; each is scored with its own, so the CRPS depends on their number; the fair "
            "CRPS does not"
            f"{', and leaves out forecasts of one member, as scores of probabilities do' if 1 in sizes else ''}"
        )
    if asked.above and not truth.daily:
        notes.append("days above a temperature are not scored, because not every day is forecast")
    if (asked.places is not None or asked.events) and not (truth.daily and spread is not None):
        reason = "they have no spread" if truth.daily else "not every day is forecast"
        notes.append(f"areas and warnings of heatwaves are not scored for them, because {reason}")
    return Matched(sst, spread, forecasts.spread is not None, truth, first_days[0], asked, notes, left_out)


def _spread_on_cells(
    forecasts: Forecasts, grid: xr.Dataset, region: Region
) -> tuple[xr.DataArray | None, list[str]]:
    """Return the spread of forecasts on the cells of `grid`, or None if there is none, and notes."""
    if forecasts.spread is None:
        return None, []
    try:
        spread, note = on_cells(
            forecasts.spread, grid, region, forecasts.path, "write it on the cells of its field"
        )
    except SSTCastError as error:
        return None, [
            f"distributions are not scored, nor heatwaves and thirds without members: the spread, {error}"
        ]
    return spread, [f"its spread: {note}"]


def complete_forecasts(sst: xr.DataArray, ocean: xr.DataArray) -> tuple[Days, xr.DataArray, NDArray[np.integer]]:
    """Return the dates of complete forecasts, the `ocean` cells `(lat, lon)` that all cover, and members by date.

    A date may lack members, whose values are then missing at all leads and cells. A forecast is complete if its
    members lack at most a tenth of the ocean cells that any forecast covers.
    """
    valid = sst.notnull() & ocean
    present = valid.any(("lead", *SPACE_DIMS))
    masks = xr.Dataset({"coverage": (valid.all("lead") | ~present).all("member"), "present": present}).compute()
    present = masks["present"]
    coverage = masks["coverage"] & ocean & present.any("member")
    share = coverage.sum(SPACE_DIMS) / max(1, int(coverage.any("init_time").sum()))
    complete = np.flatnonzero(share.values >= 1 - MOST_MISSING)
    cells, members = coverage.isel(init_time=complete), present.isel(init_time=complete).sum("member").values
    return cells["init_time"].values, cells.all("init_time") if cells.size else ~ocean & ocean, members


def within(dates: Days, first: np.datetime64, last: np.datetime64, history: int, horizon: int) -> Days:
    """Return the initial dates whose history and forecast days lie within `first..last`."""
    return dates[(dates - (history - 1) * DAY >= first) & (dates + horizon * DAY <= last)]


def span(dates: Days) -> str:
    return f"{dates[0].astype('M8[D]')}..{dates[-1].astype('M8[D]')}"


class FileForecasts(ForecastSystem):
    """A forecasting system that looks up the forecasts in a file."""

    def __init__(
        self, path: Path, sst: xr.DataArray, statistics: xr.Dataset, data: DataConfig, mean_of: int = 1
    ) -> None:
        """Take `sst(member, init_time, lead, lat, lon)` in degC, and the truth's `climatology` and `scale`.

        Each value is the mean of `mean_of` days.
        """
        super().__init__(data.box, data.history, data.horizon)
        self.path, self.sst, self.statistics, self.mean_of = path, sst, statistics, mean_of

    def predict(self, anomalies: xr.Dataset, every: int = 1) -> xr.DataArray:
        """Look up the forecasts from the days in `anomalies` (see `ForecastSystem.predict`).

        Raises SSTCastError if a value is too far from the climatology of its place and day.
        """
        dates = anomalies["time"].values[self.history - 1 :: every]
        sst = self.sst.sel(init_time=dates).load()
        valid = sst["init_time"] + sst["lead"] * DAY
        climatology, scale = (
            mean_of_days(partial(on_days, self.statistics[name]), valid, self.mean_of)
            for name in ("climatology", "scale")
        )
        departure = (sst - climatology).transpose("member", *FIELD)
        _check(departure, self.path)
        return (departure / scale).transpose("member", *FIELD).astype(np.float32).assign_coords(valid_time=valid)


def _check(departure: xr.DataArray, path: Path) -> None:
    """Raise SSTCastError if departures from the climatology `(member, init_time, lead, lat, lon)` are implausible.

    Each may be at most `FARTHEST_CELL` degC. Their mean magnitude over the n cells of a day may be at most
    `FARTHEST_MEAN * (1 + 1 / sqrt(n))` degC.
    """
    magnitude = abs(departure)
    mean, cells = magnitude.mean(SPACE_DIMS), magnitude.notnull().sum(SPACE_DIMS).clip(min=1)
    implausible = (magnitude > FARTHEST_CELL).any(SPACE_DIMS) | (mean > FARTHEST_MEAN * (1 + 1 / np.sqrt(cells)))
    if not implausible.any():
        return
    position = tuple(np.argwhere(implausible.values)[0])
    row, column = np.unravel_index(np.nanargmax(magnitude.values[position]), magnitude.shape[-2:])
    cell = departure[position][row, column]
    member = f", member {position[0]}" if departure.sizes["member"] > 1 else ""
    raise SSTCastError(
        f"{path}: the forecast of {cell['init_time'].values.astype('M8[D]')}, lead {int(cell['lead'])}{member}, "
        f"differs from the climatology by {float(cell):+.1f} degC at lat {float(cell['lat']):g}, lon "
        f"{float(cell['lon']):g}, and by {float(mean[position]):.1f} degC on average; correct the file, or check "
        "--units and --variable"
    )


@dataclass(frozen=True)
class FileSpread(Spread):
    """The standard deviations in the file `path`, `values(init_time, lead, lat, lon)` in degC.

    A file does not hold the `correlation` of errors between leads, so a baseline's is used.
    """

    path: Path

    def spread(self, valid_time: xr.DataArray) -> xr.DataArray:
        """Return the spread of the forecasts. Raises SSTCastError if a value is not positive, or infinite."""
        values = self.values.sel(init_time=valid_time["init_time"], lead=valid_time["lead"]).load()
        if ((values <= 0) | np.isinf(values)).any():
            raise SSTCastError(f"{self.path}: a spread is infinite or not positive; leave it out, or {REMEDY}")
        return values.transpose(*FIELD)
