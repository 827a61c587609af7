"""Forecasts that were issued on any dates, read from a file, as `tabulate` scores a run's of every day."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.config import DataConfig
from sstcast.errors import SSTCastError, reading_later
from sstcast.forecasting.files import DAY, REMEDY
from sstcast.forecasting.predictor import FIELD, Predictor
from sstcast.ocean.anomalies import on_days
from sstcast.ocean.fields import PLAUSIBLE

MOST_MISSING = 0.1  # of the cells that any forecast has; one that lacks more is left out
# In degC. Of 35 years of the Tasman Sea, the day farthest from its climatology differs by 3.1, the cell by 7.4.
FARTHEST_MEAN, FARTHEST_CELL = 6.0, 12.0


class Issued(Predictor):
    """What a file holds, for the dates that are asked for."""

    def __init__(self, path: Path, sst: xr.DataArray, statistics: xr.Dataset, data: DataConfig) -> None:
        """Take `sst(member, init_time, lead, lat, lon)` in degC, and `climatology` and `scale` of the truth."""
        super().__init__(data.box, data.history, data.horizon)
        self.path, self.sst, self.statistics = path, sst, statistics

    def predict(self, anomalies: xr.Dataset, every: int = 1) -> xr.DataArray:
        """Look the forecasts up (see `Predictor.predict`).

        Raises SSTCastError if a value cannot be a sea surface temperature of its place and day.
        """
        dates = anomalies["time"].values[self.history - 1 :: every]
        with reading_later(self.path, REMEDY):
            sst = self.sst.sel(init_time=dates, lead=slice(self.horizon)).load()
        valid = sst["init_time"] + sst["lead"] * DAY
        climatology, scale = (on_days(self.statistics[name], valid) for name in ("climatology", "scale"))
        _check(sst, climatology, self.path)
        standard = ((sst - climatology) / scale).transpose("member", *FIELD).astype(np.float32)
        return standard.assign_coords(valid_time=valid)


@dataclass(frozen=True)
class IssuedSpread:
    """The standard deviations that a file holds, `values(init_time, lead, lat, lon)` in degC.

    The `correlation` of errors between leads, which a file does not hold, is that of another forecast.
    """

    path: Path
    values: xr.DataArray
    correlation: NDArray[np.float64]

    def spread(self, valid_time: xr.DataArray) -> xr.DataArray:
        """Return those of some forecasts; raise SSTCastError if one is not above 0, or infinite."""
        with reading_later(self.path, REMEDY):
            found = self.values.sel(init_time=valid_time["init_time"], lead=valid_time["lead"]).load()
        if ((found <= 0) | np.isinf(found)).any():
            raise SSTCastError(f"{self.path}: a spread is not above 0, or infinite; leave it out, or {REMEDY}")
        return found.transpose(*FIELD)


class Shortened(Predictor):
    """The first `horizon` days of what another predictor forecasts."""

    def __init__(self, whole: Predictor, horizon: int) -> None:
        super().__init__(whole.region, whole.history, horizon)
        self.whole = whole

    def predict(self, anomalies: xr.Dataset, every: int = 1) -> xr.DataArray:
        """Forecast (see `Predictor.predict`)."""
        return self.whole.predict(anomalies, every).isel(lead=slice(self.horizon))


def _check(sst: xr.DataArray, climatology: xr.DataArray, path: Path) -> None:
    """Raise SSTCastError if forecasts `(member, init_time, lead, lat, lon)` are no SST in degC, naming the first.

    Each value must lie within the range of sea temperatures and `FARTHEST_CELL` of the climatology; the mean
    departure of a day's cells within `FARTHEST_MEAN`, which is doubled for a single cell.
    """
    sst = sst.where(climatology.notnull()).transpose("member", *FIELD)
    departure = abs(sst - climatology).transpose(*sst.dims)
    cells = ("lat", "lon")
    outside = (sst < PLAUSIBLE[0]) | (sst > PLAUSIBLE[1])
    mean, count = departure.mean(cells), departure.notnull().sum(cells)
    shifted = mean > FARTHEST_MEAN * (1 + 1 / np.sqrt(count.clip(min=1)))
    far = outside | (departure > FARTHEST_CELL)
    wrong = far.any(cells) | shifted
    if not wrong.any():
        return
    first = {dim: int(at[0]) for dim, at in zip(wrong.dims, np.nonzero(wrong.values), strict=True)}
    day = wrong["init_time"].values[first["init_time"]].astype("M8[D]")
    member = f", member {first['member']}" if sst.sizes["member"] > 1 else ""
    where = f"{path}: the forecast of {day}, lead {int(wrong['lead'][first['lead']])}{member}, "
    remedy = "correct the file, or check its units and --variable"
    if shifted[first] and not outside[first].any():
        raise SSTCastError(
            f"{where}differs by {float(mean[first]):.1f} degC from the climatology on average; {remedy}"
        )
    row, column = np.argwhere((outside if outside[first].any() else far)[first].values)[0]
    value, off = (float(field[first][row, column]) for field in (sst, departure))
    place = f"lat {float(sst['lat'][row]):g}, lon {float(sst['lon'][column]):g}"
    low, high = PLAUSIBLE
    reason = f"; outside {low:g}..{high:g}" if outside[first].any() else f", {off:.1f} degC from the climatology"
    raise SSTCastError(f"{where}is {value:g} degC at {place}{reason}; {remedy}")


def complete(sst: xr.DataArray, ocean: xr.DataArray, path: Path) -> tuple[NDArray[np.datetime64], xr.DataArray]:
    """Return the dates of forecasts that are whole, and the cells `(lat, lon)` of the `ocean` all of them have.

    A forecast is whole if it lacks at most a tenth of the ocean cells that any has.
    """
    with reading_later(path, REMEDY):
        held = sst.notnull().all(("member", "lead")).compute() & ocean
    share = held.sum(("lat", "lon")) / max(1, int(held.any("init_time").sum()))
    whole = held.isel(init_time=np.flatnonzero(share.values >= 1 - MOST_MISSING))
    return whole["init_time"].values, whole.all("init_time") if whole.size else ~ocean & ocean
