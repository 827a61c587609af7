"""The one loop in which forecasts are verified: `evaluate`, `score` and the folds of a hindcast all take it."""

import datetime as dt
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.forecasting.fields import axes
from sstcast.log import silent
from sstcast.names import IMPLAUSIBLE
from sstcast.ocean.lead_weeks import lead_weeks
from sstcast.scores.analysis import Analysis, Observed
from sstcast.scores.kinds import KINDS
from sstcast.scores.scene import Block, Scene, ensemble_mean
from sstcast.scores.scored_days import scored_days
from sstcast.scores.systems import ScoredSystem, Write, forecast_block
from sstcast.types import Array

THREADS = (
    2  # each kind of score adds to tables of its own; NumPy releases the interpreter lock in array operations
)


def pairs(
    truth: Analysis, systems: Mapping[str, ScoredSystem], label: str = ""
) -> Iterator[tuple[Observed, str, xr.Dataset]]:
    """Yield each system's forecast from each block of initial dates beside the observations.

    One block is in memory at a time. Its size depends on the largest ensemble. All systems
    forecast a block before the next one begins. Shows progress beside `label`. A forecast is described at
    `forecast_block`.
    """
    for observed in truth.observe(max(system.members for system in systems.values()), label):
        for name, forecast in forecast_block(systems, truth, observed.dates):
            yield observed, name, forecast


def verify(scene: Scene, label: str = "", write: Write | None = None, tells: bool = True) -> xr.Dataset:
    """Return the statistics behind every score of the systems of a scene, by `system`.

    Their initial dates have the coordinates `fold(init_time)`, `valid_time` and `season`. docs/runs.md lists the
    variables.

    Args:
        scene: the systems, the initial dates and the observations.
        label: a word beside the progress.
        write: is given the initial dates and the forecast of the first system, block by block.
        tells: whether to log what is left out. Of calls for the same dates, one should.
    """
    first, *_ = scene.systems
    with nullcontext() if tells else silent():
        kinds = [kind for kind in (of_kind.of(scene) for of_kind in KINDS) if kind is not None]
    begun, implausible = None, dict.fromkeys(scene.runs, 0)
    with ThreadPoolExecutor(THREADS) as threads:
        for observed, name, forecast in pairs(scene.truth, scene.systems, label):
            if observed is not begun:
                for kind in kinds:
                    kind.begin(observed)
                begun = observed
            for block in blocks(scene.truth, name, forecast, observed):
                for future in [threads.submit(kind.add, block) for kind in kinds]:
                    future.result()
            if write is not None and name == first:
                write(observed.dates, forecast)
            if name in implausible:
                implausible[name] += int(forecast[IMPLAUSIBLE].sum())
    last = scored_days(scene.truth.data)[1].astype(dt.date)
    for prepared in (scene.truth.prepared, scene.truth.base):
        prepared.replaced(last)  # raises if other days were read
    tables = xr.merge([kind.dataset() for kind in kinds], compat="no_conflicts", join="outer")
    counts = [float(implausible.get(name, 0)) for name in tables["system"].values]
    return _labelled(scene.truth, tables.assign({IMPLAUSIBLE: ("system", counts)} if implausible else {}))


def blocks(truth: Analysis, name: str, forecast: xr.Dataset, observed: Observed) -> Iterator[Block]:
    """Divide a system's `forecast` (see `forecast_block`) into runs of dates that have the same members."""
    anomalies = truth.on_tiles(forecast["anomaly"])
    in_degrees = anomalies * observed.scale
    spread = None
    if "sst_spread" in forecast:
        spread = np.where(truth.ocean, truth.on_tiles(forecast["sst_spread"]), np.float32(1))
    for part, present in _equal_members(anomalies, truth.ocean):
        degrees = in_degrees[present, part]
        yield Block(
            name,
            observed.at(part),
            anomalies[present, part],
            degrees,
            ensemble_mean(degrees),
            None if spread is None else spread[part],
            present,
        )


def _equal_members(members: Array, ocean: NDArray[np.bool_]) -> Iterator[tuple[slice, slice | NDArray[np.intp]]]:
    """Divide the dates of `[M, starts, lead, tile, N]` into runs that have the same members, and yield both.

    A member that a date lacks is NaN in every `ocean` cell. A single member is never absent.
    """
    absent = np.asarray(np.isnan(members[:, :, 0][..., ocean]).all(-1))
    if len(members) == 1 or not absent.any():
        yield slice(0, members.shape[1]), slice(None)  # slices copy nothing
        return
    first = np.flatnonzero(np.append(True, (absent[:, 1:] != absent[:, :-1]).any(0)))
    for start, stop in zip(first, np.append(first[1:], members.shape[1]), strict=True):
        yield slice(int(start), int(stop)), np.flatnonzero(~absent[:, start])


def _labelled(truth: Analysis, tables: xr.Dataset) -> xr.Dataset:
    """Add the coordinates of the initial dates."""
    fold = truth.windows.init_times[0].astype("datetime64[Y]").astype(int) + 1970
    grid = axes(truth.windows.init_times, truth.windows.horizon, truth.anomalies)
    if not truth.daily:
        weeks = 1 + np.unique(lead_weeks(grid["lead"].values))
        tables = tables.assign_coords(lead=truth.leads).reindex(lead=grid["lead"], week=weeks)
    return tables.assign_coords(
        {
            **grid.coords,
            "fold": ("init_time", np.full(truth.windows.starts, fold)),
            "season": grid["valid_time"].dt.season,
        }
    )
