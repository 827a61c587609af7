"""From the folds to one record: forecasts of a system, and statistics of all systems."""

from typing import Any

import xarray as xr

from sstcast import __version__
from sstcast.artefacts import RECIPE, as_text, atomic, is_made_of, made_of, remove
from sstcast.cf import write_zarr
from sstcast.config import RunConfig
from sstcast.errors import SSTCastError
from sstcast.forecasting.predictor import described
from sstcast.hindcasts.fold import AGAIN, part_file, recipe_of, statistics_file
from sstcast.hindcasts.folds import Fold
from sstcast.hindcasts.plan import Plan
from sstcast.names import BASELINES, REFERENCES
from sstcast.runs import Run
from sstcast.scores.verify import ALIKE
from sstcast.stores import open_netcdf, open_written


def recipes(plan: Plan, system: RunConfig) -> list[Any]:
    """Return what determines a system's forecasts of all folds."""
    return [recipe_of(Run(plan.run(system, fold).folder), plan.protocol.every) for fold in plan.protocol.folds]


def join_forecasts(plan: Plan, system: RunConfig) -> None:
    """Put a system's forecasts of all folds into one store, unless it holds them; those of each fold then go."""
    path, recipe = plan.hindcast.forecasts(system.name), recipes(plan, system)
    runs = [Run(plan.run(system, fold).folder) for fold in plan.protocol.folds]
    if not is_made_of(path, recipe):
        folds = [open_written(part_file(run), AGAIN) for run in runs]
        fields = [str(name) for name in folds[0].data_vars]
        whole = xr.concat([fold[fields] for fold in folds], "init_time", data_vars="minimal", **ALIKE)
        first, last = (run.config.data.splits.train[1] for run in (runs[0], runs[-1]))
        source = str(folds[0].attrs["data"])
        dataset = described(
            whole.drop_vars(["lat_bnds", "lon_bnds"], errors="ignore"),
            runs[0],
            source,
            title=f"SST hindcast of {system.name}, {plan.protocol.first} to {plan.protocol.last}",
            history=f"sstcast {__version__} hindcast",
            data=source,
            **{RECIPE: as_text(recipe)},
        ).assign_attrs(
            source=f"sstcast {__version__}, model {system.model.name}, trained for each of {len(runs)} folds anew "
            f"on {source} from {system.data.splits.train[0]} on, to {first} for the first, to {last} for the last"
        )
        with atomic(path) as temporary:
            write_zarr(dataset, temporary, {"init_time": folds[0][fields[0]].encoding["chunks"][0]})
    for run in runs:
        remove(part_file(run))


def open_statistics(plan: Plan, fold: Fold) -> xr.Dataset:
    """Open the statistics of all systems and baselines in a fold, lazily.

    Raises SSTCastError if the days of systems hold different values, as the source may have changed in between.
    """
    found, days = [], {}
    own = {system.name: Run(plan.run(system, fold).folder) for system in plan.scored}
    for run in own.values():
        found.append(_open(path := statistics_file(run)))
        days[path] = made_of(path)["data"]["test"]
    left = [name for name in BASELINES if name not in {name.replace("-", " ") for name in own}]
    for name, data in plan.oceans.items():
        path = plan.baselines(fold.split(data[0]))
        references = [] if len(found) > len(own) else list(REFERENCES)  # once: they are the same for all
        opened = _open(path).sel(system=left, warning=[*left, *references])
        labels = left if len(plan.oceans) == 1 else [f"{baseline} ({name})" for baseline in left]
        found.append(opened.assign_coords(system=labels, warning=[*labels, *references]))
        days[path] = made_of(path)["data"]["test"]
    (first, ours), *others = days.items()
    for path, theirs in others:
        if theirs != ours:
            raise SSTCastError(
                f"{path}: of other days, or other values, than {first}; the source has changed: {AGAIN}"
            )
    systems, warnings = (
        xr.concat([one.drop_dims(other) for one in found], dim, data_vars="minimal", **ALIKE | {"join": "outer"})
        for dim, other in (("system", "warning"), ("warning", "system"))
    )
    return systems.merge(warnings, join="exact", compat="override")


def _open(path: Any) -> xr.Dataset:
    """Open the statistics of a file, but for those by tile, which systems may cut differently."""
    opened = open_netcdf(path, AGAIN, chunks={})
    return opened.drop_vars(["lat_bnds", "lon_bnds"], errors="ignore").drop_dims("tile")
