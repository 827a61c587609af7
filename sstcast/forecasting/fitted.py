"""What a run fits to other days than those it was trained on, saved in its folder for later forecasts.

Linear systems, the linear bases of networks and the shares of a network's change are fitted to whole years, so all
forecasts of a year and an ocean have the same.
"""

import datetime as dt
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import xarray as xr
from numpy.typing import NDArray

from sstcast._version import __version__
from sstcast.log import LOG
from sstcast.ocean.prepared import Prepared
from sstcast.predictors.predictors import stored_predictors
from sstcast.reading.digests import digest_of_days
from sstcast.runs import Run
from sstcast.storage.artefacts import remove_noted

LAYOUT = 2  # version of the layout of the files and of the fits
MOST_OTHERS = 4  # files of other oceans

Arrays = Mapping[str, NDArray[Any]]


def fitted(run: Run, prepared: Prepared, before: int, make: Callable[[], Arrays]) -> dict[str, NDArray[Any]]:
    """Return the arrays that `make` fits to an ocean by name, and save them in the run's folder.

    They are made again if the run, the days, the predictors, the configuration or the version has changed, and
    each time if the folder is read-only. `fitted-OCEAN.nc` holds the newest fit to an ocean. Only `MOST_OTHERS`
    files of other oceans than the run's own are kept.

    Args:
        run: the trained run.
        prepared: the stores of the ocean.
        before: number of days before the training days that the fit may read.
        make: the fit.

    Raises:
        SSTCastError: the prepared stores or the file are damaged, or the disk is full.
    """
    path, splits = ocean_file(run, prepared, "fitted"), prepared.data.splits

    def dataset() -> xr.Dataset:
        first, last = splits.train[0].year, splits.validation[1].year
        LOG.info(f"{run.folder}: fitting its linear parts to {first}..{last}, for all forecasts from these years")
        _remove_oldest(path, ocean_file(run, Prepared.of(run.config.data), "fitted"))
        fields = {
            name: ([f"{name}_{axis}" for axis in range(array.ndim)], array) for name, array in make().items()
        }
        return xr.Dataset(fields, attrs={"title": "Linear parts of a run", "history": f"sstcast {__version__}"})

    recipe = {"layout": LAYOUT, "sstcast": __version__, **recipe_of_fit(run, prepared, before)}
    table = prepared.kept(path, recipe, dataset, last=splits.before_test[1], compress=False)
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
    data, splits = prepared.data, prepared.data.splits
    first, last = splits.whole[0] - dt.timedelta(days=before), splits.validation[1]
    stores = stored_predictors(data, prepared.cube.parent)
    predictors = {name: store.digest(first, last) for name, store in stores.items()}
    return {
        "predictors": predictors,
        "days": digest_of_days(prepared.open_cube(), first, last),
        "statistics": str(prepared.open_statistics().attrs["digest"]),
        "data": data.model_dump(
            mode="json",
            exclude={
                "directory": True,
                "source": True,
                "splits": {"test"},
                "predictors": {"__all__": {"source", "missing"}},
            },
        ),
    }


def _remove_oldest(new: Path, own: Path) -> None:
    """Delete the oldest files of other oceans, so that `MOST_OTHERS` are left with the `new` one."""
    with suppress(OSError):  # another process deletes them, or the folder is read-only
        others = [file for file in new.parent.glob("fitted-*.nc") if file not in (new, own)]
        for file in sorted(others, key=lambda file: file.stat().st_mtime)[: 1 - MOST_OTHERS]:
            remove_noted(file)
