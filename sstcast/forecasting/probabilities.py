"""The predictive distribution: a Gaussian about the forecast, as wide as errors were on the validation days.

Its standard deviation depends on cell, lead and season. No test day enters it, and no error on a day that the
forecaster had learnt: see `held_out`.
"""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import xarray as xr
from scipy.special import ndtri

from sstcast import __version__
from sstcast.artefacts import locked
from sstcast.cf import describe, write
from sstcast.config import COMBINATION, DataConfig, Region
from sstcast.errors import SSTCastError
from sstcast.forecasting.combination import Combination, load_combination, predictor_of
from sstcast.forecasting.predictor import Predictor
from sstcast.forecasting.spread import Spread, ValidationDays
from sstcast.models import LINEAR, STANDS_ON
from sstcast.ocean.identity import digest_of, digest_of_days
from sstcast.ocean.prepared import Prepared
from sstcast.runs import Run
from sstcast.scratch import in_scratch
from sstcast.stores import open_netcdf

QUANTILES = (0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95)
LAYOUT = 1  # of spread.nc, and of how it is estimated

Load = Callable[[Run, DataConfig], Predictor]


def with_distribution(fields: xr.Dataset, spread: Spread) -> xr.Dataset:
    """Return forecasts `sst(init_time, lead, lat, lon)` with `sst_spread`, and `sst_quantile` at `QUANTILES`."""
    width = spread.spread(fields["valid_time"])
    levels = xr.DataArray(ndtri(QUANTILES), {"quantile": list(QUANTILES)}, ("quantile",))
    quantiles = (fields["sst"] + width * levels).transpose("init_time", "lead", "quantile", "lat", "lon")
    return fields.assign(sst_spread=width.where(fields["sst"].notnull()), sst_quantile=quantiles.astype("float32"))


def calibrated(
    run: Run, data: DataConfig | None = None, load: Load = predictor_of, days: ValidationDays | None = None
) -> Spread:
    """Return the spread of a run's forecasts, for other `data` than the run's if given; make it if need be.

    It is kept in the run's folder, and made again when the run, the days before its test days or the method have
    changed, or the file is damaged; where nobody may write, each time. The run may be of any kind; `data` must be
    prepared. `load` gives the run's own predictor, where one is in memory already, and `days` are those of `data`,
    where others have been tried on them.

    Raises SSTCastError if the prepared stores are absent or damaged, or there are too few validation days.
    """
    home = run.config.data
    data = data or home
    place = "" if data == home else f"-{Prepared.of(data).cube.parent.name}"
    path = run.folder / f"spread{place}.nc"
    recipe = _recipe(run, data)
    if (known := _read(path, recipe)) is not None:
        return known
    if not os.access(run.folder, os.W_OK):
        days = days or ValidationDays(data)
        return days.spread(held_out(run, days, load))
    with locked(path):
        if (known := _read(path, recipe)) is not None:
            return known
        days = days or ValidationDays(data)
        found = days.spread(held_out(run, days, load))
        _write(found, path, recipe, str(days.cube.attrs["source"]))
    return found


def held_out(run: Run, days: ValidationDays, load: Load = predictor_of) -> Predictor:
    """Return what a run would forecast of validation days, had it not learnt from them.

    A network was only selected by them, and no system has seen those of another ocean: these are taken as they
    are. A linear system, which was fitted again to training and validation days together, is fitted to training
    days alone. In place of a network with `include_validation` stands its linear base fitted to training days, or
    a multiscale ridge if it has none. The parts of a combination are treated alike, and keep their weights.
    """
    run = run.trained
    config = run.config
    if config.model.name == COMBINATION:
        return Combination([held_out(part, days) for part in run.open_parts()], load_combination(run))
    linear = config.model.name in LINEAR
    at_home = any(_overlap(ocean.box, days.data.box) for ocean in config.oceans)
    if not at_home or not (linear or config.training.include_validation):
        return load(run, days.data)
    base = STANDS_ON.get(config.model.options.get("base", ""), "multiscale-ridge")
    if linear:
        return days.learnt.fit(config.model.name, refit=False, **config.model.options)
    return days.learnt.fit(base, refit=False)


def fitted_baselines(days: ValidationDays) -> tuple[dict[str, Predictor], dict[str, Spread]]:
    """Return the baselines and their spreads by name; climatology has that of the climatological distribution."""
    return days.learnt.baselines(), {
        name: days.climatological if name == "climatology" else days.spread(predictor)
        for name, predictor in days.learnt.baselines(refit=False).items()
    }


def _overlap(one: Region, other: Region) -> bool:
    ours, theirs = one.bounds, other.bounds
    apart = ours.north <= theirs.south or theirs.north <= ours.south
    east = (theirs.west - ours.west) % 360 < ours.width or (ours.west - theirs.west) % 360 < theirs.width
    return east and not apart


def _recipe(run: Run, data: DataConfig) -> str:
    """Return what determines a spread; test days have no part in it."""
    prepared, splits = Prepared.of(data), data.splits
    cube, statistics = prepared.open_statistics()
    first = min(splits.train[0], splits.base[0])
    parts = {
        "layout": LAYOUT,
        "checkpoints": run.digest,
        "days": digest_of_days(cube, first, splits.validation[1]),
        "statistics": str(statistics.attrs["digest"]),
        "data": data.model_dump(mode="json", exclude={"directory": True, "source": True, "splits": {"test"}}),
    }
    return json.dumps(parts)


def _read(path: Path, recipe: str) -> Spread | None:
    """Return the spread in a file; None if it is absent, damaged or of something else."""
    if not path.exists():
        return None
    with suppress(SSTCastError, LookupError, ValueError), open_netcdf(path, "delete it") as opened:
        known = opened.load()
        if known.attrs["recipe"] == recipe and known.attrs["digest"] == digest_of(known.drop_vars("season")):
            return Spread(in_scratch(known["spread"].drop_attrs()), known["correlation"].values)
    return None


def _write(found: Spread, path: Path, recipe: str, source: str) -> None:
    fields = found.values.to_dataset(name="spread").assign(correlation=(("lead", "other_lead"), found.correlation))
    fields = describe(
        fields.drop_encoding(),
        {"spread": "standard deviation of the predictive distribution", "season": "season of the day forecast"},
        title="Spread of a run's forecasts",
        summary="Standard deviation of forecast errors by season, lead and cell, from the validation days",
        source=source,
        history=f"sstcast {__version__}",
        recipe=recipe,
    )
    write(fields.assign_attrs(digest=digest_of(fields.drop_vars("season"))), path)
