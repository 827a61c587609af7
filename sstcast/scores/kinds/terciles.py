"""Scores of the probabilities that a weekly mean lies in the lower, middle or upper third of the base period.

Weeks and thirds are those of `sstcast.extremes.terciles`. Cells and weeks whose bounds coincide have no weight.
ROC area is computed from a histogram of probabilities in steps of 1/100, reliability from sums over ten of them.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Self

import numpy as np
import xarray as xr

from sstcast.extremes.terciles import (
    BOUNDS,
    middle_of_weeks,
    terciles_of,
    weekly_means,
    weekly_spread,
    whole_weeks,
)
from sstcast.forecasting.heatwaves import probability
from sstcast.names import DAY, DEGREES, EQUAL_THIRDS, INIT_TIME, SCORED_YEARS, THIRDS
from sstcast.reading.days_of_year import on_days
from sstcast.scores.analysis import Observed
from sstcast.scores.comparisons import json_numbers
from sstcast.scores.decisions import RELIABILITY_BINS, interval_of_bins
from sstcast.scores.distributions import sampling_error
from sstcast.scores.kinds.heatwaves import roc_area
from sstcast.scores.kinds.kind import INIT_YEAR, Joined, Kind, Loss
from sstcast.scores.metrics import Metric, Statistic
from sstcast.scores.parts import Scores, arrays, in_parts, numbers
from sstcast.scores.scene import Block, Scene
from sstcast.types import Array, Mask

STEPS = 100  # of a probability, in the histogram
CASES_BY_YEAR = "tercile_cases_by_year"
WHOLE_WEEK = "whole_week"  # dimension of weeks of seven days; `week` also has a last week of fewer days


def rps(above: Sequence[Array], occurred: Sequence[Array | Mask]) -> Array:
    """Return the ranked probability score `[...]` of three ordered categories.

    It is the sum over the two bounds of the squared difference of the forecast probability and the observation
    (Epstein 1969, J. Appl. Meteorol. 8; not divided by the number of bounds).

    Args:
        above: the probability of a value above the lower and above the upper bound.
        occurred: whether the observed value is above these bounds.

    >>> third = np.array([2 / 3]), np.array([1 / 3])  # each category has a third
    >>> round(float(rps(third, (np.array([True]), np.array([True])))[0]), 3)  # 1 / 9 + 4 / 9
    0.556
    """
    lower, upper = (np.square(chance - came) for chance, came in zip(above, occurred, strict=True))
    score: Array = lower + upper
    return score


class RankedProbabilityScore(Metric):
    """Mean ranked probability score over the cells and weeks whose bounds do not coincide."""

    name = "rps"
    statistics = (
        Statistic("rps", lambda above, occurred: rps(above, occurred)),
        Statistic("defined", lambda above, occurred: 1 + 0 * above[0]),
    )

    def value(self, *means: Any) -> Any:
        """Return the score, given the mean of scores, 0 where bounds coincide, and the share where they do not."""
        score, defined = means
        return score / (defined * xr.where(defined > 0, 1.0, np.nan))


class FairRankedProbabilityScore(RankedProbabilityScore):
    """The score less the `sampling_error` of the shares of members above both bounds."""

    name = "rps_fair"
    statistics = (
        Statistic(
            name, lambda above, came: rps(above, came) - sum(sampling_error(a.mean(0), len(a)) for a in above)
        ),
        Statistic("fair_defined", lambda above, came: 1 + 0 * above[0].mean(0)),
    )


RPS: dict[str, Metric] = {"rps": RankedProbabilityScore(), "rps_fair": FairRankedProbabilityScore()}


class Terciles(Kind):
    """Accumulates the scores of systems for the thirds of weekly means.

    The base period of the `base` of the analysis defines the thirds.
    """

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        truth, self.systems = self.truth, scene.probabilistic
        self.weeks = whole_weeks(truth.windows.horizon)
        self.bounds = terciles_of(truth.base)
        self.moved = None
        if truth.base.statistics != truth.prepared.statistics:
            climatology = truth.base.open_anomalies()["climatology"].load()
            self.moved = climatology - truth.statistics["climatology"]
        starts = truth.windows.starts
        self.rps, self.rps_fair = (
            np.full((len(self.systems), starts, self.weeks), np.nan, np.float32) for _ in range(2)
        )
        self.defined = np.full((starts, self.weeks), np.nan)
        self.observed = np.full((len(THIRDS), starts, self.weeks), np.nan)
        shape = (len(self.systems), self.weeks, len(THIRDS), STEPS, 2)
        self.cases, self.sums = np.zeros(shape), np.zeros(shape)
        self.years, self.year = np.unique(truth.windows.init_times.astype("datetime64[Y]"), return_inverse=True)
        self.by_year = np.zeros((len(self.systems), len(self.years), *shape[2:]))

    @classmethod
    def of(cls, scene: Scene) -> Self | None:
        """Return empty tables if there is a whole week, and all days or all whole weeks are verified."""
        truth = scene.truth
        return cls(scene) if whole_weeks(scene.horizon) and (truth.daily or truth.weekly) else None

    @classmethod
    def tables(cls) -> Mapping[str, Joined]:
        """Return how each table is joined."""
        return {
            **dict.fromkeys(("tercile_rps_by_date", "tercile_rps_fair_by_date"), Joined("dates")),
            "tercile_defined_by_date": Joined("dates", systems=""),
            "tercile_observed_by_date": Joined("dates", systems=""),
            "tercile_cases": Joined("sum"),
            "tercile_probability": Joined("sum"),
            CASES_BY_YEAR: Joined("years"),
        }

    def begin(self, observed: Observed) -> None:
        """Compute what all systems share on the initial dates: bounds, weights and the thirds that came."""
        dates, anomaly = observed.dates, observed.anomaly[DEGREES]
        truth, middle = self.truth, middle_of_weeks(self.truth.windows.horizon)
        days = truth.windows.init_times[dates, None] + (1 + middle) * DAY
        time = xr.DataArray(days, dims=("init_time", "lead"))
        bounds = [truth.on_tiles(on_days(self.bounds[name], time)) for name in BOUNDS]
        if self.moved is not None:
            moved = self._weekly(truth.ahead(self.moved, dates), 1)
            bounds = [(bound + moved).astype(np.float32) for bound in bounds]
        weights = np.where(np.isfinite(bounds[0]), truth.area, 0)
        self.first, self.limits, self.weights = dates.start, [np.nan_to_num(bound) for bound in bounds], weights
        weekly = self._weekly(anomaly, 1)
        self.came = [weekly > bound for bound in self.limits]
        self.defined[dates] = weights.sum((-2, -1))
        for number, came in enumerate(_thirds(self.came)):
            self.observed[number, dates] = (weights * came).sum((-2, -1))

    def add(self, block: Block) -> None:
        """Add the forecasts of a system. Without a spread, probabilities are shares of its members."""
        system, dates, spread = block.system, block.dates, block.spread
        if system not in self.systems:
            return
        place, part = self.systems.index(system), slice(dates.start - self.first, dates.stop - self.first)
        limits, weights = [limit[part] for limit in self.limits], self.weights[part]
        came = [above[part] for above in self.came]
        above: list[Array]
        if spread is None:
            weekly = self._weekly(block.members, 2)
            above = [np.mean(weekly > limit, 0, np.float32) for limit in limits]
        else:
            if not self.truth.weekly:
                spread = weekly_spread(spread, self.scene.correlations[system])
            above = [probability(self._weekly(block.mean, 1) - limit, spread) for limit in limits]
        above = [np.where(weights > 0, chance, 0) for chance in above]
        self.rps[place, dates] = (weights * rps(above, came)).sum((-2, -1))
        if spread is None and (size := len(block.members)) > 1:
            excess = sum((weights * sampling_error(chance, size)).sum((-2, -1)) for chance in above)
            self.rps_fair[place, dates] = self.rps[place, dates] - excess
        chances = (1 - above[0], above[0] - above[1], above[1])
        week, year = np.arange(self.weeks)[:, None, None], self.year[dates, None, None, None]
        for third, (chance, occurred) in enumerate(zip(chances, _thirds(came), strict=True)):
            step = np.clip((chance * STEPS).astype(np.intp), 0, STEPS - 1)
            case = ((week * STEPS + step) * 2 + occurred).ravel()
            for total, values in ((self.cases, weights), (self.sums, weights * chance)):
                counts = np.bincount(case, values.ravel(), self.weeks * STEPS * 2)
                total[place, :, third] += counts.reshape(self.weeks, STEPS, 2)
            case = ((year * STEPS + step) * 2 + occurred).ravel()
            counts = np.bincount(case, weights.ravel(), len(self.years) * STEPS * 2)
            self.by_year[place, :, third] += counts.reshape(-1, STEPS, 2)

    def _weekly(self, values: Array, axis: int) -> Array:
        """Return the means of whole weeks, given values by lead along `axis`, which may be these means."""
        return values if self.truth.weekly else weekly_means(values, axis)

    def dataset(self) -> xr.Dataset:
        """Return scores by date and week, and histograms of the probabilities over all dates.

        Scores and frequencies by date are sums over the cells whose bounds do not coincide, weighted by their
        share of the area, and `tercile_defined_by_date` is the sum of these shares. `tercile_cases` are weights of
        cases, also by year, and `tercile_probability` the sums of their probabilities. `tercile_rps_fair_by_date`
        is there if shares of members are scored, NaN on dates of a single member.
        """
        dims = ("system", WHOLE_WEEK, "tercile", "tercile_step", "occurred")
        fair = {"tercile_rps_fair_by_date": (("system", INIT_TIME, WHOLE_WEEK), self.rps_fair)}
        tables = xr.Dataset(
            (fair if np.isfinite(self.rps_fair).any() else {})
            | {
                "tercile_rps_by_date": (("system", INIT_TIME, WHOLE_WEEK), self.rps),
                "tercile_defined_by_date": ((INIT_TIME, WHOLE_WEEK), self.defined),
                "tercile_observed_by_date": (("tercile", INIT_TIME, WHOLE_WEEK), self.observed),
                "tercile_cases": (dims, self.cases),
                "tercile_probability": (dims, self.sums),
                CASES_BY_YEAR: (("system", INIT_YEAR, *dims[2:]), self.by_year),
            },
            {"system": self.systems, WHOLE_WEEK: 1 + np.arange(self.weeks), "tercile": list(THIRDS)}
            | {INIT_YEAR: self.years.astype(int) + 1970}
            | {"tercile_step": np.arange(STEPS) / STEPS, "occurred": [0, 1]},
        )
        return tables.reindex(system=list(self.scene.systems))

    @staticmethod
    def losses(tables: xr.Dataset) -> dict[str, Loss]:
        """Return the ranked probability score, of shares of members the fair one."""
        if WHOLE_WEEK not in tables.dims:
            return {}
        of_date, days = by_date(tables), {name: tables[name] for name in ("valid_time", "season")}
        loss = Loss.of("ranked probability score", of_date["rps"], of_date.get("rps_fair"))
        return {"rps": loss._replace(values=loss.values.reindex(lead=tables["lead"]).assign_coords(days))}

    @staticmethod
    def section(tables: xr.Dataset, reference: str) -> Scores:
        """Return `terciles`: how often each third came, and the scores of its probabilities."""
        if WHOLE_WEEK not in tables.dims:
            return {}
        of_date = by_date(tables)
        found = in_parts(of_date, {name: metric for name, metric in RPS.items() if name in of_date})
        found.pop("by_lead")
        by_system = {
            str(name): numbers(found, index) for index, name in enumerate(of_date["rps"]["system"].values)
        }
        by_third = {name: field.transpose("system", "tercile", ...) for name, field in scores(tables).items()}
        reliability = arrays(by_third)
        found = {
            "roc_area": reliability.pop("roc_area"),
            "by_week": {"roc_area": reliability.pop("roc_area_by_week")},
            "reliability": reliability,
        }
        for index, name in enumerate(map(str, tables["system"].values)):
            by_system[name] |= {third: numbers(found, index, number) for number, third in enumerate(THIRDS)}
        by_year = (
            tables[CASES_BY_YEAR].astype(float).transpose("system", "tercile", INIT_YEAR, "tercile_step", ...)
        )
        for name, third in product(map(str, tables["system"].values), THIRDS):
            counts = by_year.sel(system=name, tercile=third).values
            if not np.isnan(counts).any():  # those of systems without probabilities are
                in_bins = counts.reshape(len(counts), RELIABILITY_BINS, -1, 2).sum(2)
                by_system[name][third]["reliability"]["interval"] = interval_of_bins(in_bins)
        observed, defined = (
            tables[f"tercile_{name}_by_date"].astype(float).sum(INIT_TIME) for name in ("observed", "defined")
        )
        rates = {
            "all": observed.sum(WHOLE_WEEK) / defined.sum(WHOLE_WEEK),
            "by_week": observed / defined,
        }
        came = {part: {t: json_numbers(rate.sel(tercile=t)) for t in THIRDS} for part, rate in rates.items()}
        return {"terciles": {"observed": came.pop("all") | came, "scores": by_system}}


def _thirds(above: Sequence[Mask]) -> tuple[Mask, Mask, Mask]:
    """Return whether values are in the lower, middle and upper third, given whether they are above its bounds."""
    return ~above[0], above[0] & ~above[1], above[1]


def by_date(tables: xr.Dataset) -> dict[str, xr.DataArray]:
    """Return `rps (system, init_time, lead)`, also of the references, and `defined (init_time, lead)`.

    With ensembles, also `rps_fair` and `fair_defined`, both `(system, init_time, lead)`. All are by the middle day
    of each week. The references give each third the same probability on all dates: a third, or its frequency in
    that week of all scored forecasts, which no forecaster knows.
    """
    score, defined = (_by_lead(tables, f"tercile_{name}_by_date") for name in ("rps", "defined"))
    observed = _by_lead(tables, "tercile_observed_by_date").transpose("tercile", ...)
    rates = observed.sum(INIT_TIME) / defined.sum(INIT_TIME)
    chances = {EQUAL_THIRDS: xr.full_like(rates, 1 / 3), SCORED_YEARS: rates}
    constant = []
    for chance in chances.values():
        # Of observations that are 0 or 1, the mean square of p - o is p^2 - 2 p mean(o) + mean(o).
        squares = defined * chance**2 + (1 - 2 * chance) * observed
        constant.append(squares.sel(tercile=["lower", "upper"]).sum("tercile").transpose(INIT_TIME, "lead").values)
    names = [*map(str, score["system"].values), *chances]
    values = np.concatenate([score.transpose("system", INIT_TIME, "lead").values, constant])
    systems = xr.DataArray(values, {**defined.coords, "system": names}, ("system", INIT_TIME, "lead"))
    scores = {"rps": systems, "defined": defined}
    if "tercile_rps_fair_by_date" in tables:
        scores["rps_fair"] = _by_lead(tables, "tercile_rps_fair_by_date").reindex(system=names)
        scores["fair_defined"] = defined.where(scores["rps_fair"].notnull()).transpose("system", ...)
    return scores


def _by_lead(tables: xr.Dataset, name: str) -> xr.DataArray:
    """Return a table by `lead`, the middle day of each week, with the coordinates of this day."""
    field = tables[name].astype(float)
    days = 1 + middle_of_weeks(tables.sizes["lead"])[: field.sizes[WHOLE_WEEK]]
    coordinates = tables[["season", "fold"]].sel(lead=days)
    if "third" in tables.coords:
        coordinates = coordinates.assign_coords(third=tables["third"])
    return field.rename({WHOLE_WEEK: "lead"}).assign_coords(lead=days).assign_coords(coordinates.coords)


def scores(tables: xr.Dataset) -> dict[str, xr.DataArray]:
    """Return the scores of the probability of each third, `(system, tercile, ...)`.

    Returns:
        roc_area: the probability that a random week with the third had a higher forecast probability than a random
            week without it. Weeks of a step of 1/100 count half.
        roc_area_by_week: the same for each week.
        probability, observed, share: of each of ten bins of the probability, the mean probability, the observed
            frequency and the share of cases, `(system, tercile, bin)`.
    """
    cases = tables["tercile_cases"].rename(tercile_step="probability")
    total = cases.sum(WHOLE_WEEK)

    def area(counts: xr.DataArray) -> xr.DataArray:
        return roc_area(*(counts.sel(occurred=occurred, drop=True) for occurred in (0, 1)))

    sums = tables["tercile_probability"].sum((WHOLE_WEEK, "occurred")).rename(tercile_step="probability")
    binned = [
        field.coarsen(probability=STEPS // RELIABILITY_BINS).sum().rename(probability="bin").drop_vars("bin")
        for field in (total.sum("occurred"), total.sel(occurred=1, drop=True), sums)
    ]
    count, occurred, probabilities = binned
    known = count.where(count > 0)
    return {
        "roc_area": area(total),
        "roc_area_by_week": area(cases),
        "probability": probabilities / known,
        "observed": occurred / known,
        "share": count / count.sum("bin"),
    }
