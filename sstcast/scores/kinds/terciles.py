"""Scores of the probabilities that a weekly mean lies in the lower, middle or upper third of the base period.

Weeks and thirds are those of `sstcast.extremes.terciles`. Cells and weeks whose bounds coincide have no weight.
The ranked probability score is the sum over the two bounds of the squared difference of the forecast probability
and the observation (Epstein 1969, J. Appl. Meteorol. 8; not divided by the number of bounds), and so that of the
Brier scores of the lower and of the upper third.
"""

from typing import Self

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
from sstcast.names import DAY, DEGREES, EQUAL_THIRDS, INIT_TIME, INIT_YEAR, THIRDS
from sstcast.reading.days_of_year import on_days
from sstcast.scores.analysis import Observed
from sstcast.scores.cases import diagram, roc_area
from sstcast.scores.comparisons import Loss, json_numbers
from sstcast.scores.distributions import Members, Quotient
from sstcast.scores.kinds.kind import Kind
from sstcast.scores.parts import in_parts, numbers
from sstcast.scores.probabilities import (
    Probabilities,
    brier_of,
    cases_by,
    forecasters_of,
    loss_of,
    with_scored_years,
)
from sstcast.scores.scene import Block, Scene
from sstcast.types import Array, Mask, Scores

PREFIX = "tercile"
WHOLE_WEEK = "whole_week"  # dimension of weeks of seven days; `week` also has a last week of fewer days
RPS = {"brier": "rps", "brier_fair": "rps_fair"}


class Terciles(Kind):
    """Accumulates the scores of systems for the thirds of weekly means, and of a third each.

    The base period of the `base` of the analysis defines the thirds.
    """

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        truth = self.truth
        weeks, self.bounds, self.moved = whole_weeks(truth.windows.horizon), terciles_of(truth.base), None
        if truth.base.statistics != truth.prepared.statistics:
            climatology = truth.base.open_anomalies()["climatology"].load()
            self.moved = climatology - truth.statistics["climatology"]
        self.middle, labels = 1 + middle_of_weeks(truth.windows.horizon), {"tercile": THIRDS}
        lead, init_times = {WHOLE_WEEK: range(1, weeks + 1)}, truth.windows.init_times
        self.probabilities = Probabilities(
            PREFIX, labels, scene.forecasters, init_times, self.middle, lead, ("lead", INIT_YEAR)
        )

    @classmethod
    def of(cls, scene: Scene) -> Self | None:
        """Return empty tables if there is a whole week, and all days or all whole weeks are verified."""
        truth = scene.truth
        return cls(scene) if whole_weeks(scene.horizon) and (truth.daily or truth.weekly) else None

    def begin(self, observed: Observed) -> None:
        """Compute the bounds and the thirds that came, and add the forecast of a third each."""
        dates, truth = observed.dates, self.truth
        init_times = truth.windows.init_times[dates]
        time = xr.DataArray(init_times[:, None] + self.middle * DAY, dims=("init_time", "lead"))
        bounds = [truth.on_tiles(on_days(self.bounds[name], time)) for name in BOUNDS]
        if self.moved is not None:
            moved = self._weekly(truth.ahead(self.moved, dates), 1)
            bounds = [(bound + moved).astype(np.float32) for bound in bounds]
        weights = np.where(np.isfinite(bounds[0]), truth.area, 0)
        self.first, self.limits = dates.start, [np.nan_to_num(bound) for bound in bounds]
        weekly, positions = (
            self._weekly(observed.anomaly[DEGREES], 1),
            np.arange(dates.start, dates.start + len(time)),
        )
        for third, came in zip(THIRDS, _thirds([weekly > bound for bound in self.limits]), strict=True):
            self.probabilities.observe((third,), positions, came, weights)
            if self.scene.references:
                self.probabilities.add(EQUAL_THIRDS, (third,), positions, np.array(1 / 3))

    def add(self, block: Block) -> None:
        """Add the probabilities of a system, if it forecasts a distribution."""
        system, dates, distribution = block.system, block.dates, self.scene.distribution(block)
        if distribution is None:
            return
        limits = [limit[dates.start - self.first : dates.stop - self.first] for limit in self.limits]
        above: list[Array]
        if isinstance(distribution, Members):
            weekly = self._weekly(distribution.values, 2)
            above = [np.mean(weekly > limit, 0, np.float32) for limit in limits]
        else:
            spread = distribution.spread
            if not self.truth.weekly:
                spread = weekly_spread(spread, self.scene.correlations[system])
            above = [probability(self._weekly(distribution.mean, 1) - limit, spread) for limit in limits]
        positions = np.arange(dates.start, dates.start + len(above[0]))
        for third, chance in zip(THIRDS, (1 - above[0], above[0] - above[1], above[1]), strict=True):
            self.probabilities.add(system, (third,), positions, chance, distribution.shares)

    def _weekly(self, values: Array, axis: int) -> Array:
        """Return the means of whole weeks, given values by lead along `axis`, which may be these means."""
        return values if self.truth.weekly else weekly_means(values, axis)

    def dataset(self) -> xr.Dataset:
        """Return Brier scores of each third by date and week, and cases by week and by year."""
        return self.probabilities.dataset()

    @staticmethod
    def losses(tables: xr.Dataset) -> dict[str, Loss]:
        """Return the ranked probability score, of shares of members the fair one."""
        if WHOLE_WEEK not in tables.dims:
            return {}
        scores, days = ranked(_by_lead(tables)), {name: tables[name] for name in ("valid_time", "season")}
        loss = loss_of(scores, "ranked probability score")
        return {"rps": loss._replace(values=loss.values.reindex(lead=tables["lead"]).assign_coords(days))}

    @staticmethod
    def section(tables: xr.Dataset, reference: str) -> Scores:
        """Return `terciles`: how often each third came, and the scores of its probabilities."""
        if WHOLE_WEEK not in tables.dims:
            return {}
        tables = _by_lead(tables)
        scores = {RPS.get(name, name): of.transpose("forecaster", ...) for name, of in ranked(tables).items()}
        metrics = {name: Quotient(name, "defined") for name in RPS.values() if name in scores}
        found = in_parts(scores, metrics)
        found.pop("by_lead")
        known = scores["rps"].notnull().any((INIT_TIME, "lead"))
        names = [str(name) for name in scores["rps"]["forecaster"].values]
        by_name = {name: numbers(found, index) for index, name in enumerate(names) if known[index]}
        for third in THIRDS:
            of_third = tables.sel(tercile=third, drop=True)
            (by_week, _), (by_year, _) = (cases_by(of_third, PREFIX, part) for part in ("lead", "year"))
            areas, of_weeks = roc_area(by_year.sum(1)), roc_area(by_week)
            forecasters = [str(name) for name in tables["forecaster"].values]
            for name in forecasters_of(of_third, PREFIX):
                index = forecasters.index(name)
                by_name[name][third] = {
                    "roc_area": json_numbers(areas[index]),
                    "by_week": {"roc_area": json_numbers(of_weeks[index])},
                    "reliability": diagram(by_year.at(index)),
                }
        came, defined = (tables[f"{PREFIX}_{name}_by_date"].sum(INIT_TIME) for name in ("came", "defined"))
        rates = {"all": came.sum("lead") / defined.sum("lead"), "by_week": came / defined}
        observed = {part: {t: json_numbers(rate.sel(tercile=t)) for t in THIRDS} for part, rate in rates.items()}
        return {"terciles": {"observed": observed.pop("all") | observed, "scores": by_name}}


def _thirds(above: list[Mask]) -> tuple[Mask, Mask, Mask]:
    """Return whether values are in the lower, middle and upper third, given whether they are above its bounds."""
    return ~above[0], above[0] & ~above[1], above[1]


def ranked(tables: xr.Dataset) -> dict[str, xr.DataArray]:
    """Return the ranked probability scores of tables by the lead of the middle of each week, with their weights.

    The keys are those of `brier_of`. Another forecaster is the frequency of each third in that week of all scored
    forecasts, which nobody knew.
    """
    came, defined = (tables[f"{PREFIX}_{name}_by_date"].astype(float) for name in ("came", "defined"))
    fields = with_scored_years(brier_of(tables, PREFIX), came, defined, [INIT_TIME])
    outer = {
        name: field.sel(tercile=["lower", "upper"]).sum("tercile", skipna=False) for name, field in fields.items()
    }
    return outer | {"defined": fields["defined"].sel(tercile="lower", drop=True)}


def _by_lead(tables: xr.Dataset) -> xr.Dataset:
    """Return the tables of thirds by `lead`, the middle day of each week, with the coordinates of this day."""
    own = tables[[name for name in tables.data_vars if str(name).startswith(f"{PREFIX}_")]]
    days = 1 + middle_of_weeks(tables.sizes["lead"])[: own.sizes[WHOLE_WEEK]]
    on_days = tables[["season", "fold"]].sel(lead=days)
    own = own.drop_dims("lead", errors="ignore").drop_vars(["lead", "season", "valid_time"], errors="ignore")
    return own.rename({WHOLE_WEEK: "lead"}).assign_coords(lead=days).assign_coords(on_days.coords)
