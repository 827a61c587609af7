"""Reduces forecasts and observations to the statistics behind every score.

`evaluate` verifies a run on the test days of one fold, `hindcast` verifies systems on several folds, and `score`
verifies the forecasts in a file. `summary` turns the statistics into scores.

Standardised errors give all ocean cells equal weight, as in the published table. Errors in degC weight cells by
area (cosine of latitude).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sstcast.forecasting.fields import axes
from sstcast.forecasting.predictor import Array
from sstcast.geo import NINO, area_weights
from sstcast.names import DEGREES, INIT_TIME, REGION, STANDARDISED, TRUTH, UNITS
from sstcast.ocean.places import Places
from sstcast.ocean.point_observations import PointObservations
from sstcast.ocean.terciles import whole_weeks
from sstcast.ocean.windows import lead_weeks, week_starts
from sstcast.scores.analysis import Analysis, Observed, sum_to_one
from sstcast.scores.areas import AreaTables, verifies_areas
from sstcast.scores.distributions import ENSEMBLE, GAUSSIAN, PIT_BINS, Gaussian
from sstcast.scores.events import EventTables
from sstcast.scores.heatwaves import HeatwaveTables
from sstcast.scores.indices import covers
from sstcast.scores.metrics import METRICS, SQUARED_ERROR, Statistic, statistics
from sstcast.scores.points import BLOCK, PointTables
from sstcast.scores.systems import System
from sstcast.scores.terciles import WHOLE_WEEK, TercileTables
from sstcast.storage.scratch import scratch_array

THREADS = 2  # each adds to tables of its own; NumPy releases the interpreter lock during array operations
LAZY = "squared_error_by_week"  # the only statistic that may be larger than memory
FOLD = "test_fold"  # dimension of the statistics over all dates of a fold: means by cell, and counts
DATE, CELL = ("init_time", "lead"), ("week", "lat", "lon")
CONCAT_OPTIONS: Any = {"join": "exact", "compat": "override", "coords": "minimal", "combine_attrs": "override"}


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


class Statistics:
    """Accumulates the statistics behind every score of some systems, from blocks of initial dates."""

    def __init__(
        self,
        truth: Analysis,
        systems: Mapping[str, System],
        references: bool = True,
        places: Places | None = None,
        observations: PointObservations | None = None,
        events: bool = False,
    ) -> None:
        """Prepare empty statistics.

        Args:
            truth: the initial dates and the observations.
            systems: the systems to verify, by name.
            references: whether the base rate and the persistence of state are also verified, as forecasts of
                heatwaves.
            places: areas to verify besides the whole region.
            observations: observations at points, against which the systems are also verified.
            events: whether warnings of heatwaves are also verified.
        """
        self.truth, horizon = truth, truth.windows.horizon
        correlations = {
            name: system.spread.correlation[:horizon, :horizon]
            for name, system in systems.items()
            if system.spread is not None
        }
        self.probabilistic = [name for name, system in systems.items() if system.has_probabilities]
        self.heatwaves = (
            HeatwaveTables(truth, truth.limits, self.probabilistic, correlations, references)
            if truth.daily
            else None
        )
        self.terciles = None
        if truth.daily and whole_weeks(horizon):
            self.terciles = TercileTables(truth, self.probabilistic, correlations)
        self.areas = None
        if self.heatwaves is not None and correlations and verifies_areas(truth):
            self.areas = AreaTables(truth, self.heatwaves, list(correlations), places)
        self.points = None if observations is None else PointTables(truth, observations, list(systems))
        self.events = None
        if events and self.heatwaves is not None and correlations:
            self.events = EventTables(truth, self.heatwaves, correlations)
        boxes = _boxes(truth)
        self.observed = {
            name: RunningMeans(truth.windows.starts, truth.leads, area) for name, area in boxes.items()
        }
        self.sums = {name: _Sums(truth, boxes, system.members) for name, system in systems.items()}
        self.threads = ThreadPoolExecutor(THREADS)

    def add_observed(self, observed: Observed) -> None:
        """Add the observations of a block, before the forecasts."""
        for means in self.observed.values():
            means.add(observed.dates, [(TRUTH, observed.anomaly[DEGREES])])
        if self.heatwaves is not None:
            self.heatwaves.add_references(observed.dates)
        if self.terciles is not None:
            self.terciles.begin(observed.dates, observed.anomaly[DEGREES])
        if self.points is not None:
            self.points.begin(observed.dates)
        if self.areas is not None:
            self.areas.begin(observed.dates, observed.anomaly[DEGREES], observed.limit)
        if self.events is not None:
            self.events.begin(observed.dates, observed.anomaly[DEGREES], observed.limit)

    def add(self, name: str, forecast: xr.Dataset, observed: Observed) -> None:
        """Add the `forecast` (see `forecast_block`) of a block by the system called `name`."""
        truth, sums = self.truth, self.sums[name]
        anomalies = truth.on_tiles(forecast["anomaly"])
        in_degrees = anomalies * observed.scale
        spread_of_block = truth.on_tiles(forecast["sst_spread"]) if "sst_spread" in forecast else None
        for part, present in _equal_members(anomalies, truth.ocean):
            of_part, members, degrees = observed.at(part), anomalies[present, part], in_degrees[present, part]
            spread = None if spread_of_block is None else spread_of_block[part]
            dates, mean = of_part.dates, degrees.mean(0)
            state = False if self.heatwaves is None else self.heatwaves.state(dates)
            updates = [
                partial(sums.add_errors, members.mean(0), mean, of_part),
                partial(sums.add_distributions, degrees, mean, spread, present, of_part, state),
            ]
            if self.heatwaves is not None and name in self.probabilistic:
                updates.append(partial(self.heatwaves.add, name, dates, degrees - of_part.limit, spread))
            if self.terciles is not None and name in self.probabilistic:
                updates.append(partial(self.terciles.add, name, dates, degrees, spread))
            if self.points is not None:
                updates.append(partial(self.points.add, name, dates, mean, spread))
            if self.areas is not None and spread is not None:
                updates.append(partial(self.areas.add, name, dates, mean, spread, of_part.limit, of_part.lowest))
            if self.events is not None and spread is not None:
                updates.append(partial(self.events.add, name, dates, mean - of_part.limit, spread))
            for future in [self.threads.submit(update) for update in updates]:
                future.result()

    def dataset(self) -> xr.Dataset:
        """Return the statistics by `system`.

        Variables named `_by_date`, `index` and `observed_index` are `(init_time, lead)`, with the coordinates
        `fold(init_time)`, `valid_time` and `season`. All others cover all dates and have the dimension
        `test_fold`, except `squared_error_by_week`, which is lazy. docs/runs.md lists the variables.
        """
        truth = self.truth
        names = pd.Index(list(self.sums), name="system")
        by_system = [sums.dataset() for sums in self.sums.values()]
        # Some systems have members, whose numbers differ. All statistics have the new dimension.
        tables = xr.concat(by_system, names, join="outer", coords="minimal", compat="equals")
        index = np.stack([means.by_date[TRUTH] for means in self.observed.values()])
        tables = tables.assign(observed_index=(("box", *DATE), index))
        if self.heatwaves is not None:
            tables = tables.merge(self.heatwaves.dataset(), compat="no_conflicts")
        if self.terciles is not None:
            tables = tables.merge(self.terciles.dataset().reindex(system=tables["system"]))
        if self.points is not None:
            tables = tables.merge(self.points.dataset())
        if self.areas is not None:
            tables = tables.merge(self.areas.dataset().reindex(system=tables["system"]))
        if self.events is not None:
            tables = tables.merge(self.events.dataset(), compat="no_conflicts")
        fold = truth.windows.init_times[0].astype("datetime64[Y]").astype(int) + 1970
        over_dates = [name for name, field in tables.data_vars.items() if not {INIT_TIME, BLOCK} & {*field.dims}]
        tables = tables.assign({name: tables[name].expand_dims({FOLD: [fold]}) for name in over_dates})
        grid = axes(truth.windows.init_times, truth.windows.horizon, truth.anomalies)
        if not truth.daily:
            weeks = 1 + np.unique(lead_weeks(grid["lead"].values))
            tables = tables.assign_coords(lead=truth.leads).reindex(lead=grid["lead"], week=weeks)
        return tables.assign_coords(
            {
                **grid.coords,
                "fold": (INIT_TIME, np.full(truth.windows.starts, fold)),
                "season": grid["valid_time"].dt.season,
            }
        )


class RunningMeans:
    """Accumulates means of statistics, by name, from blocks of initial dates.

    Values on land are ignored, because the weight of land nodes is 0.

    Attributes:
        by_date: weighted means over the cells, `[starts, lead]`.
        by_cell: means over dates and the days of a lead week of statistics `mapped`, `[week, tile, N]`.
        by_week: means over the days of a lead week of the statistic `keep`, `[starts, week, tile, N]`.
    """

    def __init__(
        self, starts: int, leads: NDArray[np.integer], weights: Array, mapped: Collection[str] = (), keep: str = ""
    ) -> None:
        """Take the number of initial dates, the leads in days, and `weights [tile, N]` that sum to 1."""
        self.shape, self.weights, self.mapped, self.keep = (starts, len(leads)), weights, mapped, keep
        self.weeks = week_starts(leads)
        self.by_date: dict[str, NDArray[np.floating]] = {}
        self.by_cell: dict[str, NDArray[np.floating]] = {}
        # Stored in the order in which `compare_cells` reads it: all dates of a week and a tile together.
        by_week = scratch_array((len(self.weeks), len(weights), starts if keep else 0, weights.shape[1]))
        self.by_week = by_week.transpose(2, 0, 1, 3)

    def add(self, dates: slice, fields: Iterable[tuple[str, Array]]) -> None:
        """Add the statistics of `dates`: pairs of a name and an array `[dates, lead, tile, N]`."""
        for name, values in fields:
            values = values.astype(np.float32, copy=False)  # some statistics are boolean
            means = self.by_date.setdefault(name, np.full(self.shape, np.nan, np.float32))
            # Tile by tile, so that rounding does not depend on the memory layout.
            means[dates] = np.einsum("sltn,tn->slt", values, self.weights).sum(-1)
            if name in self.mapped:
                self.by_cell[name] = (
                    self.by_cell.get(name, 0) + weekly(values.sum(0), 0, self.weeks) / self.shape[0]
                )
            if name == self.keep:
                self.by_week[dates] = weekly(values, 1, self.weeks)


def weekly(by_lead: Array, axis: int, starts: NDArray[np.intp]) -> Array:
    """Average over the days of each lead week along `axis`."""
    weeks = np.split(by_lead, starts[1:], axis)
    return np.stack([days.mean(axis) for days in weeks], axis)


class _Sums:
    """Accumulates the statistics of one system."""

    def __init__(self, truth: Analysis, boxes: Mapping[str, Array], members: int) -> None:
        shape, by_cell = (truth.windows.starts, truth.leads), {n: m for n, m in METRICS.items() if m.by_cell}
        mapped = statistics(by_cell)
        self.truth, self.members = truth, members
        self.indices = {name: RunningMeans(*shape, cells) for name, cells in boxes.items()}
        self.errors = {
            STANDARDISED: RunningMeans(*shape, sum_to_one(truth.ocean), mapped=mapped),
            DEGREES: RunningMeans(*shape, truth.area, mapped=mapped, keep=SQUARED_ERROR.name),
        }
        self.gaussian, self.ensemble, self.by_member = (RunningMeans(*shape, truth.area) for _ in range(3))
        self.pit, self.ranks = np.zeros(PIT_BINS), np.zeros(members + 1)

    def add_errors(self, standardised: Array, degrees: Array, observed: Observed) -> None:
        """Add the errors of ensemble means `[starts, lead, tile, N]`, given in both units."""
        dates = observed.dates
        for units, forecast in ((STANDARDISED, standardised), (DEGREES, degrees)):
            truth = observed.anomaly[units]
            self.errors[units].add(dates, ((s.name, s.function(forecast, truth)) for s in _of_scale(small=False)))
        small = self.truth.small_scales(degrees)
        self.errors[DEGREES].add(
            dates, ((s.name, s.function(small, observed.small)) for s in _of_scale(small=True))
        )
        for index in self.indices.values():
            index.add(dates, [("index", degrees)])

    def add_distributions(
        self,
        members: Array,
        mean: Array,
        spread: Array | None,
        present: slice | NDArray[np.intp],
        observed: Observed,
        state: NDArray[np.bool_] | bool,
    ) -> None:
        """Add Gaussians and ensembles in degC, from dates that all have the same members.

        Args:
            members: anomalies, `[M, starts, lead, tile, N]`.
            mean: their mean.
            spread: standard deviation of the Gaussian about the mean, `[starts, lead, tile, N]`, or None.
            present: the numbers of the M members among all members of the system.
            observed: the observations.
            state: whether a cell is in a heatwave on the initial date, `[starts, 1, tile, N]`.
        """
        dates, truth = observed.dates, observed.anomaly[DEGREES]
        if spread is not None:
            width = np.where(self.truth.ocean, spread, np.float32(1))
            gaussian = Gaussian(mean, width, state, observed.lowest)
            self.gaussian.add(
                dates, ((s.name, s.function(gaussian, truth)) for s in statistics(GAUSSIAN).values())
            )
            self.pit += gaussian.pit(truth, self.truth.area)
        if len(members) > 1:
            self.ensemble.add(dates, ((s.name, s.function(members, truth)) for s in statistics(ENSEMBLE).values()))
            numbers = np.arange(self.members)[present]
            squares = ((f"{i}", np.square(member - truth)) for i, member in zip(numbers, members, strict=True))
            self.by_member.add(dates, squares)
        if len(members) == self.members > 1:  # ranks among fewer members have other frequencies
            weights, rank = np.broadcast_to(self.truth.area, truth.shape), (members < truth).sum(0)
            self.ranks += np.bincount(rank.ravel(), weights.ravel(), len(self.ranks))

    def dataset(self) -> xr.Dataset:
        """Return the statistics as a labelled dataset."""
        variables: dict[str, Any] = {
            "index": (("box", *DATE), np.stack([m.by_date["index"] for m in self.indices.values()]))
        }
        units = [self.errors[name] for name in UNITS]
        for name in statistics():
            variables[f"{name}_by_date"] = (("units", *DATE), _stack([errors.by_date for errors in units], name))
        for name in self.errors[DEGREES].mapped:
            cells = np.stack([errors.by_cell[name] for errors in units]).astype(np.float32)
            variables[f"{name}_by_cell"] = (("units", *CELL), self.truth.on_map(cells))
        for kind, means in (("gaussian", self.gaussian), ("ensemble", self.ensemble)):
            variables |= {f"{kind}_{name}_by_date": (DATE, values) for name, values in means.by_date.items()}
        if self.gaussian.by_date:
            variables["pit"] = ("pit_bin", self.pit)
        if self.members > 1:
            variables["rank_histogram"] = ("rank", self.ranks)
            absent = np.full(self.by_member.shape, np.nan, np.float32)
            by_member = [self.by_member.by_date.get(f"{i}", absent) for i in range(self.members)]
            variables["member_mse_by_date"] = (("member", *DATE), np.stack(by_member))
        variables["squared_error_by_week"] = (
            ("init_time", *CELL),
            self.truth.weeks_on_map(self.errors[DEGREES].by_week),
        )
        leads = self.truth.leads
        weeks = 1 + np.unique(lead_weeks(leads))
        labels = {"units": list(UNITS), "week": weeks, "box": list(self.indices)}
        if self.members > 1:
            labels |= {"member": np.arange(self.members), "rank": np.arange(self.members + 1)}
        return xr.Dataset(variables, labels)


def _stack(of_units: Sequence[Mapping[str, Array]], name: str) -> Array:
    """Stack the values of a statistic in all units, NaN in units in which it is not computed."""
    template = next(means[name] for means in of_units if name in means)
    return np.stack([means.get(name, np.full_like(template, np.nan)) for means in of_units])


def _of_scale(small: bool) -> list[Statistic]:
    return [statistic for statistic in statistics().values() if statistic.small is small]


def _boxes(truth: Analysis) -> dict[str, Array]:
    """Return the weights `[tile, N]` of means over the region and over each Niño box that the tiles cover."""
    area = area_weights(truth.anomalies["lat"]) * xr.ones_like(truth.anomalies["lon"])
    covered = {name: box for name, box in NINO.items() if covers(truth.tiled, box)}
    boxes = {name: area * box.contains(area["lat"], area["lon"]) for name, box in covered.items()}
    return {REGION: truth.area} | {name: sum_to_one(truth.on_tiles(box)) for name, box in boxes.items()}


def join(folds: Sequence[xr.Dataset]) -> xr.Dataset:
    """Join the statistics of folds.

    Statistics by date are concatenated. Means over dates are averaged with the numbers of dates as weights. Counts
    are summed, and the counts of heatwave probabilities are also kept by fold, in `heatwave_cases_by_fold`.
    """
    # An area has none with too few training days for samples, and weeks are not in files of earlier versions.
    for dim in ("area", WHOLE_WEEK):
        if not all(dim in fold.dims for fold in folds):
            folds = [fold.drop_dims(dim, errors="ignore") for fold in folds]
    by_date = xr.concat(
        [fold.drop_dims([FOLD, BLOCK], errors="ignore") for fold in folds],
        INIT_TIME,
        data_vars="minimal",
        **CONCAT_OPTIONS,
    )
    by_date = by_date.drop_vars(LAZY).load().assign({LAZY: by_date[LAZY]})
    names = [name for name, field in folds[0].data_vars.items() if FOLD in field.dims]
    dates = np.array([fold.sizes[INIT_TIME] for fold in folds])
    shares = xr.DataArray(dates / dates.sum(), dims=FOLD)
    over_dates = xr.concat([fold[names] for fold in folds], FOLD, data_vars="minimal", **CONCAT_OPTIONS).load()
    over_folds = {}
    for name, field in over_dates.data_vars.items():
        is_mean = str(name).endswith("_by_cell")
        over_folds[name] = (field * shares).sum(FOLD, skipna=False) if is_mean else field.sum(FOLD, min_count=1)
        over_folds[name] = over_folds[name].astype(field.dtype)
    if "heatwave_cases_by_lead" in over_dates:
        over_folds["heatwave_cases_by_fold"] = over_dates["heatwave_cases_by_lead"].sum("lead")
    if all(BLOCK in fold.dims for fold in folds):
        blocks = [fold[[name for name, field in fold.data_vars.items() if BLOCK in field.dims]] for fold in folds]
        over_folds |= dict(xr.concat(blocks, BLOCK, **CONCAT_OPTIONS).load().data_vars)
    return by_date.assign(over_folds)
