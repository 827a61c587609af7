"""What is fitted to other days than those that a run was trained on, and kept for later forecasts.

Linear systems and the linear bases of networks are fitted to whole years. All forecasts of a year and an ocean
have the same, and all runs that are the system or stand on it share them, in a file beside the stores. The shares
of a network's change are in its run's folder.
"""

import datetime as dt
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import xarray as xr
from numpy.typing import NDArray

from sstcast._version import __version__
from sstcast.config import DataConfig, Region
from sstcast.log import LOG
from sstcast.models import LINEAR, LINEAR_BASES, base_of, days_before
from sstcast.ocean.prepared import Prepared
from sstcast.predictors.predictors import digests_of_predictors
from sstcast.reading.daily_field import short_hash
from sstcast.reading.digests import digest_of_days
from sstcast.runs import Run
from sstcast.storage.artefacts import as_text, remove_noted
from sstcast.training.data_record import without_paths

LAYOUT = 4  # version of the layout of the files and of the fits
FORECAST_FIT = 2  # version of fits that read a `kind: forecast`, and of their spreads

Arrays = Mapping[str, NDArray[Any]]


class LinearFit(NamedTuple):
    """A linear system that is fitted to the days of an ocean: its `model.name`, its predictors and its options.

    `before` is the number of days before its history that it reads.
    """

    name: str
    predictors: dict[str, str]
    options: dict[str, Any]
    before: int

    @property
    def recipe(self) -> dict[str, Any]:
        """What a fit of the system depends on besides the days: also the order of the predictors."""
        version = {"forecast_fit": FORECAST_FIT} if "forecast" in self.predictors.values() else {}
        return self._asdict() | {"predictors": [*self.predictors.items()]} | version

    @property
    def file_name(self) -> str:
        """The name of the system in names of files, with a hash of its options and predictors."""
        return f"{self.name}-{short_hash(as_text(self.recipe))}"


def linear_part(run: Run, data: DataConfig) -> LinearFit | None:
    """Return the linear system that a run is, or that its networks stand on, on the days of `data`."""
    name, options, predictors = run.config.model.name, run.config.model.options, data.kinds
    if name not in LINEAR:
        base, options = base_of(options)
        if base not in LINEAR_BASES:
            return None
        name, predictors = LINEAR_BASES[base], {}
    return LinearFit(name, predictors, dict(options), days_before(name, options, data.history))


def held_out_fit(run: Run, data: DataConfig) -> LinearFit | None:
    """Return the linear system that stands in for a run whose forecasts of the validation days are asked for.

    It is the run itself if that is linear. A network that learnt from these days, with `include_validation`, is
    replaced by its linear base, or by a multiscale ridge if it has none. Other networks and combinations have
    none, and stand for themselves.
    """
    run = run.trained
    config = run.config
    is_linear, has_learnt = config.model.name in LINEAR, config.training.include_validation
    if not is_linear and not (has_learnt and _overlap(config.data.box, data.box)):
        return None
    return linear_part(run, data) or LinearFit("multiscale-ridge", {}, {}, 0)


def _overlap(region: Region, other_region: Region) -> bool:
    box, other_box = region.bounds, other_region.bounds
    disjoint_lat = box.north <= other_box.south or other_box.north <= box.south
    common_lon = (other_box.west - box.west) % 360 < box.width or (
        box.west - other_box.west
    ) % 360 < other_box.width
    return common_lon and not disjoint_lat


def fitted(prepared: Prepared, system: LinearFit, tile: tuple[int, int], make: Callable[[], Arrays]) -> Arrays:
    """Return the weights by name that `make` fits to the days before the test, and keep them beside the stores.

    They are made again if the days, the predictors, the configuration or the version has changed, and each time if
    the folder is read-only. Files of earlier base periods are removed.

    Args:
        prepared: the stores of the ocean.
        system: the system.
        tile: rows and columns of the tiles that its windows are cut into.
        make: the fit.

    Raises:
        SSTCastError: the prepared stores or the file are damaged, or the disk is full.
    """
    name = f"{system.file_name}-{tile[0]}x{tile[1]}"
    path, (first, last) = prepared.linear_weights(name), prepared.data.splits.before_test

    def dataset() -> xr.Dataset:
        years = f"{first.year}..{last.year}"
        LOG.info(f"{path.parent}: fitting {system.name} to {years}, for all forecasts from these years")
        table = _as_table(make())
        with suppress(OSError):  # another process deletes them, or the folder is read-only
            for other in path.parent.glob(f"{prepared.data.protocol}-*.{name}.fit.nc"):
                if other.name < path.name:
                    remove_noted(other)
        return table

    recipe = {"system": system.recipe, "tile": tile, **recipe_of_days(prepared, system.before)}
    return _arrays(prepared, path, recipe, dataset)


def shares_of(run: Run, prepared: Prepared, before: int, make: Callable[[], Arrays]) -> Arrays:
    """Return the shares of the change of a run's networks on an ocean that `make` estimates, and keep them.

    The arguments are described at `fitted`, and so are errors.
    """
    path = ocean_file(run, prepared, "shares")
    return _arrays(prepared, path, recipe_of_fit(run, prepared, before), lambda: _as_table(make()))


def _as_table(arrays: Arrays) -> xr.Dataset:
    fields = {name: ([f"{name}_{axis}" for axis in range(array.ndim)], array) for name, array in arrays.items()}
    return xr.Dataset(fields, attrs={"title": "Weights of a linear fit", "history": f"sstcast {__version__}"})


def _arrays(prepared: Prepared, path: Path, recipe: dict[str, Any], make: Callable[[], xr.Dataset]) -> Arrays:
    recipe = {"layout": LAYOUT, "sstcast": __version__, **recipe}
    table = prepared.kept(path, recipe, make, last=prepared.data.splits.before_test[1], compress=False)
    return {str(name): field.values for name, field in table.items()}


def ocean_file(run: Run, prepared: Prepared, name: str) -> Path:
    """Return the path in a run's folder of what is computed for an ocean."""
    return run.folder / f"{name}-{prepared.cube.parent.name}.nc"


def recipe_of_fit(run: Run, prepared: Prepared, before: int = 0) -> dict[str, Any]:
    """Return what a fit of a run to an ocean depends on, which excludes the test days (see `recipe_of_days`)."""
    return {"checkpoints": run.digest, **recipe_of_days(prepared, before)}


def recipe_of_days(prepared: Prepared, before: int = 0) -> dict[str, Any]:
    """Return what a fit to the training and validation days of an ocean depends on.

    `before` is the number of days before the splits that the fit may read.
    """
    splits, keys = prepared.data.splits, without_paths(prepared.data)
    first, last = splits.whole[0] - dt.timedelta(days=before), splits.validation[1]
    return {
        "predictors": digests_of_predictors(prepared.predictors, first, last),
        "days": digest_of_days(prepared.open_cube(), first, last),
        "data": keys | {"splits": {name: span for name, span in keys["splits"].items() if name != "test"}},
    }
