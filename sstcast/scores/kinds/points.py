"""Scores against observations at points, which most analyses have seen but no forecast.

An observation is compared with the cell that contains it, on its day. Values of one platform in one cell and day
are averaged first. Errors are summed over observations by date and lead, and by platform and block of dates, from
which a two-way bootstrap draws platforms and blocks. Blocks without observations tell nothing and are not drawn.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy.special import stdtrit

from sstcast.errors import SSTCastError
from sstcast.geo import edges
from sstcast.log import LOG, silent
from sstcast.names import COVERED, INIT_TIME, LEVELS
from sstcast.places.point_observations import PointObservations
from sstcast.reading.days_of_year import on_days
from sstcast.scores.analysis import Analysis, Observed
from sstcast.scores.asked import Asked
from sstcast.scores.comparisons import json_numbers
from sstcast.scores.distributions import Gaussian
from sstcast.scores.kinds.kind import BLOCK, Kind
from sstcast.scores.scene import Block, Scene
from sstcast.scores.significance import CONFIDENCE, DateBlocks, spacing
from sstcast.types import Array, Mask, Scores

FARTHEST = 8.0  # degC from the climatology of the cell, beyond which an observation is an outlier
REPLICATES = 500
PLATFORMS_AT_ONCE = 10_000
FEWEST_BLOCKS = 3  # of dates that hold observations, for an interval
SUMS = ("error", "squared_error", "absolute_error", "crps", *COVERED)  # over observations
BY_PLATFORM = ("platform", BLOCK)
ON_DAYS = "on the days of the forecasts"  # in `point_left_out`, beside the reasons to leave some of these out


class Points(Kind):
    """Accumulates the errors of systems at points."""

    def __init__(self, scene: Scene) -> None:
        """Find the cell and day of each observation. Logs how many observations are left out, and why."""
        super().__init__(scene)
        truth, observations, systems = self.truth, scene.asked.observations, list(scene.systems)
        assert observations is not None
        self.error, self.systems = observations.error, systems
        starts, leads = truth.windows.starts, len(truth.leads)
        self.first_day = truth.windows.days[0].astype("datetime64[D]")
        self.left_out: dict[str, int] = {}  # of the observations on the days of the forecasts
        self.platforms = np.unique(observations.table["platform"].to_numpy(str))
        found = self._matched(observations)
        self.value, self.node, self.platform = (found[key].to_numpy() for key in ("anomaly", "node", "platform"))
        self.analysis_error = found["analysis"].to_numpy() - self.value
        self.offsets = np.searchsorted(found["day"].to_numpy(), np.arange(len(truth.windows.days) + 1))
        block = DateBlocks.of(truth.windows.horizon, spacing(truth.windows.init_times)).block
        self.block = np.arange(starts) // block
        self.count = np.zeros((starts, leads))
        self.sums = {name: np.full((len(systems), starts, leads), np.nan) for name in SUMS}
        shape = (len(self.platforms), int(self.block[-1]) + 1)
        self.platform_count = np.zeros(shape, np.float32)
        self.by_platform = np.zeros((len(systems), *shape), np.float32)
        self.of_analysis = self._analysis_sums()

    @classmethod
    def of(cls, scene: Scene) -> Self | None:
        """Return empty tables if observations were given."""
        return None if scene.asked.observations is None else cls(scene)

    def _matched(self, observations: PointObservations) -> pd.DataFrame:
        """Return the mean of each platform, cell and day: `day`, `node`, `platform`, `anomaly` and `analysis`."""
        truth, table = self.truth, observations.table
        lat, lon = truth.anomalies["lat"], truth.anomalies["lon"]
        south, west = edges(lat), edges(lon)
        row = np.searchsorted(south, table["lat"].to_numpy(), side="right") - 1
        eastward = west[0] + (table["lon"].to_numpy() - west[0]) % 360
        column = np.searchsorted(west, eastward, side="right") - 1
        day = (table["time"].to_numpy().astype("datetime64[D]") - self.first_day).astype(int)
        height, width = truth.shape
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        node_of_cell = np.full(height * width, -1)
        node_of_cell[truth.index.ravel()] = np.where(truth.ocean.ravel(), np.arange(truth.index.size), -1)
        node = np.where(inside, node_of_cell[np.where(inside, row * width + column, 0)], -1)
        is_forecast = np.zeros(len(truth.windows.days), bool)
        is_forecast[truth.windows.at[:, None] + truth.windows.history - 1 + truth.leads] = True
        within = (day >= 0) & (day < len(is_forecast))
        within &= is_forecast[np.where(within, day, 0)]
        matched = inside & within & (node >= 0)
        self._tell(observations, "on other days", ~within)
        self.left_out = {ON_DAYS: int(within.sum())}
        self._tell(observations, "outside the region", within & ~inside)
        self._tell(observations, "on land or in cells that are not scored", within & inside & (node < 0))
        codes = np.searchsorted(self.platforms, table["platform"].to_numpy(str)[matched])
        found = pd.DataFrame(
            {
                "day": day[matched],
                "node": node[matched],
                "platform": codes,
                "sst": table["sst"].to_numpy()[matched],
            }
        )
        found = found.groupby(["day", "node", "platform"], as_index=False)["sst"].mean()
        analysis, climatology, base_climatology = (np.empty(len(found)) for _ in range(3))
        stops = np.searchsorted(found["day"].to_numpy(), np.arange(len(truth.windows.days) + 1))
        # All systems of a hindcast have the same base period, so all are scored on the same observations.
        fields = [truth.statistics["climatology"]] * 2
        if truth.base.statistics != truth.prepared.statistics:
            fields[1] = truth.base.open_anomalies()["climatology"].load()
        for number, time in enumerate(truth.windows.days):
            rows = slice(stops[number], stops[number + 1])
            if rows.start < rows.stop:
                nodes = found["node"].to_numpy()[rows]
                day = xr.DataArray([time], dims="time")
                of_day = (truth.on_tiles(on_days(field, day))[0].ravel()[nodes] for field in fields)
                climatology[rows], base_climatology[rows] = of_day
                analysis[rows] = truth.sst[number].ravel()[nodes]
        found = found.assign(anomaly=found["sst"] - climatology, analysis=analysis - climatology)
        outlier = (found["sst"] - base_climatology).abs().to_numpy() > FARTHEST
        self._tell(observations, f"more than {FARTHEST:g} °C from the climatology", outlier)
        return found[~outlier]

    def _tell(self, observations: PointObservations, words: str, left_out: NDArray[np.bool_]) -> None:
        self.left_out[words] = count = int(left_out.sum())
        if count:
            LOG.info(f"{observations.path}: {count:,} observations left out: {words}")

    def _pairs(self, dates: slice) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return for each observation ahead of some initial dates its date and lead as one number, and its row."""
        at = self.truth.windows.at[dates, None] + self.truth.windows.history - 1 + self.truth.leads
        first, stop = self.offsets[at.ravel()], self.offsets[at.ravel() + 1]
        counts = stop - first
        pair = np.repeat(np.arange(len(counts)), counts)
        row = np.arange(len(pair)) + np.repeat(first - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
        return pair, row

    def begin(self, observed: Observed) -> None:
        """Select the observations ahead of the initial dates, which all systems share."""
        dates = observed.dates
        self.first, (self.pair, self.row) = dates.start, self._pairs(dates)
        shape = (dates.stop - dates.start, len(self.truth.leads))
        self.count[dates] = np.bincount(self.pair, minlength=shape[0] * shape[1]).reshape(shape)
        self.group = self._groups(dates)
        self.platform_count += np.bincount(self.group, minlength=self.platform_count.size).reshape(
            self.platform_count.shape
        )

    def _groups(self, dates: slice) -> NDArray[np.intp]:
        block = self.block[dates][self.pair // len(self.truth.leads)]
        groups: NDArray[np.intp] = self.platform[self.row] * self.platform_count.shape[1] + block
        return groups

    def add(self, block: Block) -> None:
        """Add the errors of the ensemble mean, and of the Gaussian if there is one."""
        dates, mean, spread = block.dates, block.mean, block.spread
        place, leads = self.systems.index(block.system), len(self.truth.leads)
        low, high = (np.searchsorted(self.pair, (end - self.first) * leads) for end in (dates.start, dates.stop))
        pair, row = self.pair[low:high] - (dates.start - self.first) * leads, self.row[low:high]
        shape = (dates.stop - dates.start, leads)
        at = pair * self.truth.ocean.size + self.node[row]
        error = mean.reshape(-1)[at] - self.value[row]

        def put(name: str, values: Array | Mask) -> None:
            self.sums[name][place, dates] = np.bincount(pair, values, shape[0] * shape[1]).reshape(shape)

        squared = error**2
        for name, values in (("error", error), ("squared_error", squared), ("absolute_error", abs(error))):
            put(name, values)
        totals = np.bincount(self.group[low:high], squared, self.platform_count.size)
        self.by_platform[place] += totals.reshape(self.platform_count.shape)
        if spread is not None:
            width = np.sqrt(spread.reshape(-1)[at] ** 2 + self.error**2)
            gaussian, truth = Gaussian(error, width), np.zeros_like(error)
            put("crps", gaussian.crps(truth))
            for name, level in zip(COVERED, LEVELS, strict=True):
                put(name, gaussian.covers(truth, level))

    def _analysis_sums(self) -> dict[str, float]:
        """Return the sums of the errors of the analysis."""
        error = self.analysis_error
        return {
            "count": float(error.size),
            "error": float(error.sum()),
            "squared_error": float((error**2).sum()),
            "absolute_error": float(abs(error).sum()),
        }

    def dataset(self) -> xr.Dataset:
        """Return sums by date and lead, by platform and block of dates, and of the analysis over all days."""
        dims = ("system", INIT_TIME, "lead")
        return xr.Dataset(
            {f"point_{name}_by_date": (dims, values) for name, values in self.sums.items()}
            | {
                "point_count_by_date": ((INIT_TIME, "lead"), self.count),
                "point_count_by_platform": (BY_PLATFORM, self.platform_count),
                "point_squared_error_by_platform": (("system", *BY_PLATFORM), self.by_platform),
                "point_left_out": ("reason", np.array([*self.left_out.values()], float)),
            }
            | {f"point_{name}_of_analysis": ((), value) for name, value in self.of_analysis.items()},
            {"system": self.systems, "platform": self.platforms, "reason": list(self.left_out)},
        )

    @staticmethod
    def section(tables: xr.Dataset, reference: str) -> Scores:
        """Return `points`, the scores of all systems and of the analysis."""
        if BLOCK not in tables.dims:
            return {}
        count = tables["point_count_by_date"].astype(float).sum(INIT_TIME)
        squares = tables["point_squared_error_by_platform"].transpose("system", *BY_PLATFORM).values
        counts = tables["point_count_by_platform"].transpose(*BY_PLATFORM).values
        measured, held = counts.any(1), counts.any(0)
        names = [str(name) for name in tables["system"].values]
        replicates = two_way_sums(np.concatenate([squares, counts[None]])[:, measured][..., held])
        independent = min(_effective_number(counts.sum(axis, dtype=float)) for axis in (0, 1))
        enough = {"too few dates for an interval": held.sum() >= FEWEST_BLOCKS, "one platform": measured.sum() > 1}
        lacking = [words for words, is_enough in enough.items() if not is_enough]
        if lacking:
            replicates[:] = np.nan
        base, scores = names.index(reference), {}
        for place, name in enumerate(names):
            by_lead = {
                key: tables[f"point_{key}_by_date"].sel(system=name).sum(INIT_TIME, min_count=1) for key in SUMS
            }
            total = {key: float(field.sum(min_count=1)) for key, field in by_lead.items()}
            scores[name] = _of_sums(total, float(count.sum()))
            scores[name]["by_lead"] = _of_sums({key: field.values for key, field in by_lead.items()}, count.values)
            scores[name]["interval"] = json_numbers(_interval(replicates[place], replicates[-1], independent))
            scores[name]["ratio"] = json_numbers(squares[place].sum(dtype=float) / squares[base].sum(dtype=float))
            ends = _interval(replicates[place], replicates[base], independent) if place != base else [np.nan] * 2
            scores[name]["ratio_interval"] = json_numbers(ends)
        seen = float(tables["point_count_of_analysis"])
        of_analysis = {key: float(tables[f"point_{key}_of_analysis"]) for key in SUMS[:3]}
        return {
            "points": {
                "observations": int(seen),
                "pairs": int(count.sum()),
                "platforms": int(measured.sum()),
                "scores": scores,
                "analysis": _of_sums(of_analysis, seen),
                **({"without_interval": lacking} if lacking else {}),
                "left_out": _left_out(tables),
            }
        }


def check_observations(truths: Iterable[Analysis], asked: Asked) -> None:
    """Raise SSTCastError if observations were given, of which none matches a forecast of any of the `truths`."""
    if asked.observations is None:
        return
    counts = Counter[str]()
    for truth in truths:
        with silent():
            found = Points(Scene(truth, {}, asked))
        if len(found.value):
            return
        counts.update(found.left_out)
    reasons = {"on other days": len(asked.observations.table) - counts.pop(ON_DAYS), **counts}
    told = "; ".join(f"{count:,} {words}" for words, count in reasons.items() if count)
    raise SSTCastError(f"{asked.observations.path}: no observation matches a forecast: {told}; give others")


def _left_out(tables: xr.Dataset) -> dict[str, int]:
    counts = tables["point_left_out"]
    return {str(reason): int(count) for reason, count in zip(counts["reason"].values, counts.values, strict=True)}


def _effective_number(counts: Array) -> float:
    """Return how many equal parts would leave a mean as uncertain as parts of these sizes do.

    It is the squared sum divided by the sum of squares (Kish 1965, Survey Sampling), so a platform or block of
    dates that holds nearly all observations counts as one.
    """
    return float(counts.sum() ** 2 / max((counts**2).sum(), 1))


def _of_sums(sums: Mapping[str, Any], count: Any) -> Scores:
    """Return scores from sums over `count` errors, as numbers for JSON."""
    known = np.where(np.asarray(count) > 0, count, np.nan)
    means = {key: np.asarray(value) / known for key, value in sums.items()}
    renamed = {"error": "bias", "squared_error": "mse", "absolute_error": "mae"}
    scores = {renamed.get(key, key): json_numbers(mean) for key, mean in means.items()}
    return {"rmse": json_numbers(np.sqrt(means["squared_error"])), **scores}


def two_way_sums(sums: Array, replicates: int = REPLICATES, seed: int = 0) -> Array:
    """Return the sums `[..., replicates]` of `sums [..., platform, block]` over drawn platforms and blocks.

    Each replicate draws platforms, and independently of them blocks of dates, with replacement (Owen 2007, Ann.
    Appl. Statist. 1). So errors of one platform may be correlated over all dates, and those of one block over all
    platforms.
    """
    random = np.random.default_rng(seed)
    platforms, blocks = sums.shape[-2:]
    drawn_blocks = random.multinomial(blocks, np.full(blocks, 1 / blocks), replicates)
    total = np.zeros((*sums.shape[:-2], replicates))
    for start in range(0, platforms, PLATFORMS_AT_ONCE):
        part = sums[..., start : start + PLATFORMS_AT_ONCE, :].astype(np.float32)
        drawn = random.poisson(1, (replicates, part.shape[-2])).astype(np.float32)
        total += ((drawn @ part) * drawn_blocks).sum(-1)
    return total


def _interval(sums: Array, other_sums: Array, independent: float) -> Array:
    """Return the 95 % interval of the ratio of two sums, from replicates of both.

    The logarithm of the ratio has Student's distribution, with one degree of freedom less than the smaller
    effective number of platforms and of blocks. Without a finite replicate or end, it is NaN.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithms = np.log(sums / other_sums)
    logarithms = logarithms[np.isfinite(logarithms)]  # of few platforms, a replicate may draw none
    if independent <= 1 or not logarithms.size:
        return np.full(2, np.nan)
    width = stdtrit(independent - 1, (1 + CONFIDENCE) / 2) * logarithms.std()
    with np.errstate(over="ignore"):
        ends: Array = np.exp(logarithms.mean() + np.array([-width, width]))
    return ends if np.isfinite(ends).all() else np.full(2, np.nan)
