"""Scores of areas: the mean of the region and of places, and their share in a marine heatwave.

The forecast of an area consists of joint samples (see `sstcast.forecasting.samples`). Its mean is scored as an
ensemble, and the probability that at least a share of it is in a heatwave by the Brier score. Samples cost more
than the scores of cells, so only initial dates about 30 days apart are used.
"""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import xarray as xr

from sstcast.extremes.heatwaves import MARGIN_DAYS
from sstcast.forecasting.areas import HAZEN, area_means, heatwave_shares
from sstcast.forecasting.heatwaves import WORD
from sstcast.forecasting.places import least_fraction
from sstcast.forecasting.samples import ErrorPaths
from sstcast.log import LOG, silent
from sstcast.names import DEGREES, EVENT, INIT_TIME, INIT_YEAR, LEVELS, REGION, SCORED_YEARS
from sstcast.scores.analysis import Analysis, Observed
from sstcast.scores.cases import diagram
from sstcast.scores.comparisons import date_blocks, groups, over_folds
from sstcast.scores.distributions import Mean, Quotient, SpreadSkill, crps
from sstcast.scores.kinds.kind import Kind
from sstcast.scores.metrics import Metric, Statistic
from sstcast.scores.parts import by_date, in_parts, numbers
from sstcast.scores.probabilities import Probabilities, cases_by, with_scored_years
from sstcast.scores.scene import Block, Scene
from sstcast.scores.significance import ratio, spacing
from sstcast.scores.system_records import distinct, key_in_share
from sstcast.storage.scratch import parts, release, scratch_array
from sstcast.types import Array, Scores

SAMPLES = WORD
EVERY = 30  # days from one scored initial date to the next
MOST_CELLS = 20_000  # of a region; the samples of more cells take too much memory
SHARES = (10, 25, 50)  # per cent of an area in a heatwave
LEAST = np.array([least_fraction(share) for share in SHARES])


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
                self.names.append(distinct(places.names[number], self.names, "place"))
                of_areas.append(truth.on_tiles(weights)[truth.ocean])
        self.weights = np.stack(of_areas)
        self.paths = _training_paths(truth)
        self.errors: dict[int, Array] = {}
        self.observed: dict[int, tuple[Array, Array]] = {}
        shape = (len(self.systems), len(self.names), *(len(self.init_times), truth.windows.horizon))
        self.means = {name: np.full(shape, np.nan, np.float32) for name in STATISTICS}
        self.brier = np.full((len(SHARES), *shape), np.nan, np.float32)
        self.came = np.full((len(SHARES), *shape[1:]), np.nan, np.float32)
        days, labels = 1 + np.arange(scene.horizon), {"share": SHARES}
        lead = {"lead": days.tolist()}
        self.of_region = Probabilities(
            REGION, labels, scene.forecasters, self.init_times, days, lead, (INIT_YEAR,)
        )

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

    def begin(self, observed: Observed) -> None:
        """Make the standardised errors of the initial dates, which all systems share."""
        dates, heatwaves = observed.dates, self.scene.heatwaves
        assert heatwaves is not None
        ocean, horizon = self.truth.ocean, self.truth.windows.horizon
        self.errors, self.observed, all_defined = {}, {}, observed.defined
        for date in self.chosen(dates):
            self.errors[date] = self.paths.standard_errors(self.init_times[date], SAMPLES)
            values, defined = (of[date - dates.start][:, ocean] for of in (observed.anomaly[DEGREES], all_defined))
            day = heatwaves.last[date] + 1
            inside = heatwaves.truth[EVENT][day : day + horizon][:, ocean] & defined
            whole = defined @ self.weights.T
            share = (inside @ self.weights.T) / np.where(whole > 0, whole, np.nan)
            self.observed[date] = (values @ self.weights.T) / self.weights.sum(1), share
            for number, least in enumerate(LEAST):
                self.came[number, :, date] = np.where(np.isnan(share), np.nan, share >= least).T
        positions = np.array([*self.observed], int)
        for share, came in zip(SHARES, self.came[:, 0], strict=True) if len(positions) else ():
            came = came[positions]
            self.of_region.observe((share,), positions, came == 1, np.isfinite(came).astype(np.float32))

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
                self.brier[number, system_index, :, date] = np.where(is_defined, squared_error, np.nan).T
                self.of_region.add(block.system, (SHARES[number],), np.array([date]), chance[None, :, 0])

    def dataset(self) -> xr.Dataset:
        """Return the statistics by date and lead, NaN on dates that are not scored."""
        by_area = "area", "init_time", "lead"
        tables = xr.Dataset(
            {f"area_{name}_by_date": (("system", *by_area), values) for name, values in self.means.items()}
            | {"area_brier_by_date": (("share", "forecaster", *by_area), self.brier)}
            | {"area_came_by_date": (("share", *by_area), self.came)},
            {"system": self.systems, "forecaster": self.systems, "area": self.names, "share": list(SHARES)},
        )
        tables = tables.reindex(system=list(self.scene.systems), forecaster=self.scene.forecasters)
        return tables.merge(
            self.of_region.dataset()[[f"{REGION}_{name}_by_year" for name in ("cases", "probability")]]
        )

    @staticmethod
    def section(tables: xr.Dataset, reference: str) -> Scores:
        """Return `areas`: scores of the mean, and of the share in a heatwave, by area and system.

        The Brier scores of shares are compared with the `reference` and with the frequency in the scored years.
        Initial `dates` are counted, and those after which the event came, and did not come, on any day forecast.
        """
        if "area" not in tables.dims:
            return {}
        fields = {name: of for name, of in by_date(tables, "area_").items() if name in STATISTICS}
        means = {name: of.transpose("system", "area", ...) for name, of in fields.items()}
        names = [str(name) for name in tables["system"].values]
        brier, came = (tables[f"area_{name}_by_date"].astype(float) for name in ("brier", "came"))
        known = xr.ones_like(came).where(came.notnull())
        dates = _dates(came)
        brier = with_scored_years({"brier": brier}, came, known, [INIT_TIME, "lead"])["brier"]
        brier = brier.transpose("forecaster", "area", "share", INIT_TIME, "lead")
        is_scored = brier.notnull().any(brier.dims[1:]).values
        forecasters = [str(name) for name in brier["forecaster"].values]
        parts, brier_parts = in_parts(means, MEANS), in_parts({"brier": brier}, {"brier": Quotient("brier")})
        compared = _compared(brier, [name for name in (reference, SCORED_YEARS) if name in forecasters])
        of_region = {
            str(share): cases_by(tables.sel(share=share, drop=True), REGION, "year")[0]
            for share in tables["share"].values
        }
        scores_by_area: Scores = {str(area): {} for area in tables["area"].values}
        for index in np.flatnonzero(is_scored).tolist():
            name = forecasters[index]
            for area_index, (area, by_system) in enumerate(scores_by_area.items()):
                by_share = {
                    share: numbers(brier_parts, index, area_index, number)
                    | {key: int(of[area_index, number]) for key, of in dates.items()}
                    | {key_in_share(base): numbers(of, index, area_index, number) for base, of in compared.items()}
                    for number, share in enumerate(of_region)
                }
                of_mean = numbers(parts, names.index(name), area_index) if name in names else {}
                by_system[name] = of_mean | {"share": by_share}
                if area == REGION and name in names:
                    for share, cases in of_region.items():
                        by_share[share]["reliability"] = diagram(cases.at(index))
        return {"areas": scores_by_area}


def _dates(came: xr.DataArray) -> dict[str, Array]:
    """Return the numbers of `dates` scored, of which the event `came` and `failed` on any day, `[area, share]`."""
    days = came.transpose("area", "share", INIT_TIME, "lead").values
    of_days = {"dates": ~np.isnan(days), "came": days > 0, "failed": days == 0}
    return {name: of.any(-1).sum(-1) for name, of in of_days.items()}


def _compared(brier: xr.DataArray, bases: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Compare the Brier scores `(forecaster, area, share, ...)` with those of each base.

    Returns the `ratio`, its `interval`, and with several folds those `over_folds`.
    """
    scored = brier.dropna(INIT_TIME, how="all")
    mean = scored.mean("lead").transpose(INIT_TIME, "forecaster", "area", "share")
    block, _, segments = date_blocks(scored)
    folds = [mask[:, 0] for mask in groups(scored)["by_fold"].values()]
    found: dict[str, dict[str, Any]] = {}
    for base in bases:
        of_base = np.broadcast_to(mean.sel(forecaster=[base]).values, mean.shape)
        value, ends = ratio(mean.values, of_base, block, segments)
        found[base] = {"ratio": value, "interval": ends}
        if len(folds) > 1:
            by_fold, base_by_fold = (
                np.stack([values[fold].sum(0) for fold in folds]) for values in (mean.values, of_base)
            )
            ratios = by_fold / np.where(base_by_fold > 0, base_by_fold, np.nan)
            found[base]["over_folds"] = over_folds(np.round(ratios, 6))
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
