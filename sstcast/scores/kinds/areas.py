"""Scores of areas: the mean of the region and of places, and their share in a marine heatwave.

The forecast of an area consists of joint samples (see `sstcast.forecasting.samples`). Its mean is scored as an
ensemble, and the probability that at least a share of it is in a heatwave by the Brier score. Samples cost more
than the scores of cells, so only initial dates about 30 days apart are used.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import xarray as xr

from sstcast.extremes.heatwaves import MARGIN_DAYS
from sstcast.forecasting.areas import HAZEN, area_means, heatwave_shares
from sstcast.forecasting.heatwaves import WORD
from sstcast.forecasting.samples import ErrorPaths
from sstcast.log import LOG, silent
from sstcast.names import DEGREES, EVENT, INIT_TIME, LEVELS, REGION, SCORED_YEARS
from sstcast.scores.analysis import Analysis, Observed
from sstcast.scores.comparisons import dates_by_fold, lengths
from sstcast.scores.decisions import by_year, diagram
from sstcast.scores.distributions import Mean, SpreadSkill, crps
from sstcast.scores.kinds.kind import Joined, Kind
from sstcast.scores.metrics import Metric, Statistic
from sstcast.scores.parts import Scores, by_date, in_parts, numbers
from sstcast.scores.scene import Block, Scene
from sstcast.scores.significance import ratio, spacing
from sstcast.storage.scratch import parts, release, scratch_array
from sstcast.types import Array

SAMPLES = WORD
EVERY = 30  # days from one scored initial date to the next
MOST_CELLS = 20_000  # of a region; the samples of more cells take too much memory
SHARES = (10, 25, 50)  # per cent of an area in a heatwave
ROUNDING_SHARE = 1e-6
LEAST = np.array([share / 100 - ROUNDING_SHARE for share in SHARES], np.float32)


def _covers(level: int) -> Statistic:
    ends = [0.5 - level / 200, 0.5 + level / 200]

    def covers(samples: Array, truth: Array) -> Any:
        low, high = np.quantile(samples, ends, axis=0, method=HAZEN)
        return (low <= truth) & (truth <= high)

    return Statistic(f"covered_{level}", covers)


_VARIANCE = Statistic("variance", lambda samples, truth: samples.var(0))
_ERROR = Statistic("mse", lambda samples, truth: np.square(samples.mean(0) - truth))
_CRPS = Statistic("crps", crps)
# The metrics of the mean of an area. The samples are `[sample, ...]`.
MEANS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Mean(_CRPS),
        Mean(_ERROR, "rmse", root=True),
        Mean(_VARIANCE, "spread", root=True),
        SpreadSkill(_VARIANCE, _ERROR),
        *(Mean(_covers(level)) for level in LEVELS),
    )
}
STATISTICS = {statistic.name: statistic for metric in MEANS.values() for statistic in metric.statistics}
BRIER: dict[str, Metric] = {"brier": Mean(Statistic("brier", lambda probability, came: (probability - came) ** 2))}


def unverified(truth: Analysis) -> str:
    """Return why the areas of forecasts cannot be verified, as the end of a sentence, or "" if they can.

    They need every day up to the horizon, enough training days for samples, and a region that is not too large.
    """
    cells, days = int(truth.ocean.sum()), truth.anomalies["time"].values
    if not truth.daily:
        return "they need every day up to the horizon"
    if cells > MOST_CELLS:
        return (
            f"the region has {cells:,} cells, and joint samples of more than {MOST_CELLS:,} take too much memory"
        )
    train = truth.data.splits.train
    paths = ErrorPaths(days, None, truth.ocean, train, truth.windows.horizon, truth.data.source)
    dates = truth.windows.init_times[:: max(1, len(days) // 50)]
    enough = all(paths.enough(date, SAMPLES) for date in dates)
    return "" if enough else f"{train[0]}..{train[1]} has too few days for {SAMPLES} joint samples of a season"


class Areas(Kind):
    """Accumulates the scores of the areas of systems that have a spread model."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        truth, places, self.systems = self.truth, scene.asked.places, list(scene.correlations)
        self.init_times = truth.windows.init_times
        self.step = max(1, EVERY // spacing(self.init_times))
        self.names, of_areas = [REGION], [truth.area[truth.ocean]]
        if places is not None:
            cells = np.isfinite(truth.on_map(np.ones(truth.ocean.shape, np.float32)))
            with silent():  # `evaluate` has told them already, and a hindcast once for all folds
                on_map = places.weights(truth.cube["ocean_fraction"].load(), cells)
            grid = truth.anomalies["ocean_mask"]
            for number in np.flatnonzero(np.diff(on_map.indptr)):
                weights = grid.copy(data=on_map[[number]].toarray().reshape(grid.shape))
                self.names.append(places.names[number])
                of_areas.append(truth.on_tiles(weights)[truth.ocean])
        self.weights = np.stack(of_areas)
        self.paths = _training_paths(truth)
        self.errors: dict[int, Array] = {}
        self.observed: dict[int, tuple[Array, Array]] = {}
        shape = (len(self.systems), len(self.names), *(len(self.init_times), truth.windows.horizon))
        self.means = {name: np.full(shape, np.nan, np.float32) for name in STATISTICS}
        self.brier, self.chance = (np.full((len(SHARES), *shape), np.nan, np.float32) for _ in range(2))
        self.came = np.full((len(SHARES), *shape[1:]), np.nan, np.float32)

    def chosen(self, dates: slice) -> list[int]:
        """Return the positions of those initial dates that are scored."""
        return [date for date in range(dates.start, min(dates.stop, len(self.init_times))) if not date % self.step]

    @classmethod
    def of(cls, scene: Scene) -> Self | None:
        """Return empty tables if a system has a spread model. Tell why areas are `unverified`, if they are."""
        if not (scene.heatwaves and scene.correlations):
            return None
        if reason := unverified(scene.truth):
            tell = LOG.info if scene.asked.places is None else LOG.warning
            tell(f"the region and places are not scored as areas: {reason}")
            return None
        return cls(scene)

    @classmethod
    def tables(cls) -> Mapping[str, Joined]:
        """Return how each table is joined."""
        own = {f"area_{name}_by_date": Joined("dates") for name in (*STATISTICS, "brier", "chance")}
        return own | {"area_came_by_date": Joined("dates", systems="")}

    def begin(self, observed: Observed) -> None:
        """Make the standardised errors of the initial dates, which all systems share."""
        dates, heatwaves = observed.dates, self.scene.heatwaves
        assert heatwaves is not None
        ocean, horizon = self.truth.ocean, self.truth.windows.horizon
        self.errors, self.observed = {}, {}
        for date in self.chosen(dates):
            self.errors[date] = self.paths.standard_errors(self.init_times[date], SAMPLES)
            values, defined = (
                of[date - dates.start][:, ocean] for of in (observed.anomaly[DEGREES], np.isfinite(observed.limit))
            )
            day = heatwaves.last[date] + 1
            inside = heatwaves.truth[EVENT][day : day + horizon][:, ocean] & defined
            whole = defined @ self.weights.T
            share = (inside @ self.weights.T) / np.where(whole > 0, whole, np.nan)
            self.observed[date] = (values @ self.weights.T) / self.weights.sum(1), share
            for number, least in enumerate(LEAST):
                self.came[number, :, date] = np.where(np.isnan(share), np.nan, share >= least).T

    def add(self, block: Block) -> None:
        """Add the forecasts of a system that has a spread model."""
        if block.spread is None:
            return
        dates, lowest, heatwaves = block.dates, block.observed.lowest, self.scene.heatwaves
        assert heatwaves is not None
        ocean, system_index = self.truth.ocean, self.systems.index(block.system)
        fields = (block.mean, block.spread, block.observed.limit)
        for date in self.chosen(dates):
            errors, (observed_mean, observed_share) = self.errors[date], self.observed[date]
            forecast_mean, width, below = (of[date - dates.start][:, ocean] for of in fields)
            samples = area_means(forecast_mean, width, errors, self.weights)
            if lowest is not None and np.isfinite(low := lowest[date - dates.start][:, ocean]).any():
                clipped = [
                    area_means(forecast_mean[[n]], width[[n]], errors[[n]], self.weights, low[n])
                    for n in range(len(forecast_mean))
                ]
                samples = np.concatenate(clipped)
            members = np.moveaxis(samples, -1, 0)
            for name, statistic in STATISTICS.items():
                self.means[name][system_index, :, date] = statistic.function(members, observed_mean).T
            last = heatwaves.last[date]
            hot = heatwaves.hot[last - MARGIN_DAYS : last + 1][:, ocean]
            shares = heatwave_shares(hot, forecast_mean - below, width, errors, self.weights)[1:]
            for number, least in enumerate(LEAST):
                chance, is_defined = (shares >= least).mean(-1), ~np.isnan(observed_share)
                squared_error = np.square(chance - (observed_share >= least))
                for table, of in ((self.brier, squared_error), (self.chance, chance)):
                    table[number, system_index, :, date] = np.where(is_defined, of, np.nan).T

    def dataset(self) -> xr.Dataset:
        """Return the statistics by date and lead, NaN on dates that are not scored."""
        dims = ("system", "area", "init_time", "lead")
        tables = xr.Dataset(
            {f"area_{name}_by_date": (dims, values) for name, values in self.means.items()}
            | {"area_brier_by_date": (("share", *dims), self.brier)}
            | {"area_chance_by_date": (("share", *dims), self.chance)}
            | {"area_came_by_date": (("share", *dims[1:]), self.came)},
            {"system": self.systems, "area": self.names, "share": list(SHARES)},
        )
        return tables.reindex(system=list(self.scene.systems))

    @staticmethod
    def section(tables: xr.Dataset, reference: str) -> Scores:
        """Return `areas`: scores of the mean, and of the share in a heatwave, by area and system.

        The Brier scores of shares are compared with the `reference` and with the frequency in the scored years.
        """
        if "area" not in tables.dims:
            return {}
        fields = {name: of for name, of in by_date(tables, "area_").items() if name in STATISTICS}
        means = {name: of.transpose("system", "area", ...) for name, of in fields.items()}
        is_scored = means["crps"].notnull().any(means["crps"].dims[1:]).values
        brier = _with_base_rate(tables).transpose("system", "area", "share", ...)
        parts, brier_parts = in_parts(means, MEANS), in_parts({"brier": brier}, BRIER)
        scores_by_area: Scores = {str(area): {} for area in tables["area"].values}
        names = list(map(str, brier["system"].values))
        compared = _compared(brier, [name for name in (reference, SCORED_YEARS) if name in names])
        for index in [*np.flatnonzero(is_scored).tolist(), *range(len(is_scored), len(names))]:
            for area_index, (area, by_system) in enumerate(scores_by_area.items()):
                by_share = {
                    str(share): numbers(brier_parts, index, area_index, number)
                    | {base: numbers(of, index, area_index, number) for base, of in compared.items()}
                    for number, share in enumerate(tables["share"].values)
                }
                of_mean = numbers(parts, index, area_index) if index < len(is_scored) else {}
                by_system[names[index]] = of_mean | {"share": by_share}
                if area == REGION and index < len(is_scored):
                    for share, found in _diagrams(tables, names[index]).items():
                        by_share[share]["reliability"] = found
        return {"areas": scores_by_area}


def _with_base_rate(tables: xr.Dataset) -> xr.DataArray:
    """Return the Brier scores by date of the systems and of the frequency in the scored forecasts.

    This frequency, over all leads, is another system, which nobody could have known.
    """
    brier = tables["area_brier_by_date"].astype(float)
    came = tables["area_came_by_date"].astype(float)
    base = np.square(came.mean((INIT_TIME, "lead")) - came)
    brier = brier.reindex(system=[*map(str, brier["system"].values), SCORED_YEARS])
    return brier.where(brier["system"] != SCORED_YEARS, base)


def _compared(brier: xr.DataArray, bases: Sequence[str]) -> dict[str, dict[str, Array]]:
    """Return `ratio` and `interval` of the Brier scores `(system, area, share, ...)` to those of each base."""
    scored = brier.dropna(INIT_TIME, how="all")
    mean = scored.mean("lead").transpose(INIT_TIME, "system", "area", "share")
    block, parts = lengths(scored).block, dates_by_fold(scored)
    found = {}
    for base in bases:
        of_base = np.broadcast_to(mean.sel(system=[base]).values, mean.shape)
        value, ends = ratio(mean.values, of_base, block, parts)
        found[base] = {"ratio": value, "interval": ends}
    return found


def _diagrams(tables: xr.Dataset, system: str) -> Scores:
    """Return the reliability diagram of the probabilities of each share of the region, over all leads."""
    chance, came = (tables[f"area_{name}_by_date"].sel(area=REGION) for name in ("chance", "came"))
    found: Scores = {}
    for share in chance["share"].values:
        of = chance.sel(system=system, share=share).transpose(INIT_TIME, "lead").dropna(INIT_TIME, how="all")
        known = of.notnull().values
        if not known.any():
            continue
        step = np.rint(of.where(known, 0).values * SAMPLES).astype(np.intp)
        occurred = came.sel(share=share, init_time=of[INIT_TIME]).transpose(INIT_TIME, "lead").fillna(0).values
        case = (np.arange(len(of))[:, None] * (SAMPLES + 1) + step) * 2 + occurred.astype(np.intp)
        cases = np.bincount(case[known], minlength=len(of) * (SAMPLES + 1) * 2).reshape(len(of), -1, 2)
        found[str(share)] = diagram(by_year(cases.astype(float), of[INIT_TIME].values))
    return found


def _training_paths(truth: Analysis) -> ErrorPaths:
    """Read the anomalies of the training days in the scored cells."""
    splits = truth.data.splits
    days = truth.anomalies["anomaly"].sel(time=slice(*map(str, splits.train)))
    values = scratch_array((len(days), int(truth.ocean.sum())))
    for part in parts(days):
        values[part] = truth.on_tiles(days[part])[:, truth.ocean]
        release()
    everywhere = np.ones(values.shape[1], bool)
    horizon = truth.windows.horizon
    return ErrorPaths(days["time"].values, values, everywhere, splits.train, horizon, truth.data.source)
