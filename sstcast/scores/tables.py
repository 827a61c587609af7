"""The tables that every score follows from, filled a block of initial dates at a time.

Standardised errors count every ocean cell alike, as the published table does; errors in degC count cells by
their area, the cosine of latitude.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.forecasting.predictor import Array, axes
from sstcast.geo import area_weights
from sstcast.scores import ensembles, heatwaves
from sstcast.scores.indices import NINO, covers
from sstcast.scores.significance import adjust, diebold_mariano, memory
from sstcast.scores.tally import MOMENTS, DateTally, ErrorTally, area_mean, metrics_of, week_starts
from sstcast.scores.verification import Verification

MODEL = "model"  # the run's own name among the methods, whatever its folder is called
TRUTH = "truth"
REGION = "region"  # the box that is all of it
STANDARDISED, DEGREES = UNITS = ("standardised", "degC")

BY_DATE = ("forecast", "init_time", "lead")
BY_TILE = ("forecast", "tile", "lead")
BY_CELL = ("forecast", "week", "lat", "lon")


@dataclass(frozen=True)
class Observed:
    """The days forecast from some initial dates, each `[starts, horizon, tile, N]`."""

    anomaly: dict[str, Array]  # that came true, by units
    scale: Array  # degC of a standardised unit
    limit: Array  # of a heatwave, as an anomaly in degC

    @property
    def heatwave(self) -> NDArray[np.bool_]:
        """Where there was one."""
        return self.anomaly[DEGREES] > self.limit


class Tables:
    """Tables of errors, heatwaves, box means and, of `members` > 1 members, of the model as an ensemble."""

    def __init__(self, data: Verification, methods: list[str], members: int) -> None:
        self.data = data
        area = area_weights(data.anomalies["lat"]) * xr.ones_like(data.anomalies["lon"])
        covered = {name: box for name, box in NINO.items() if covers(data.tiled, box)}
        boxes = {name: area * box.contains(area["lat"], area["lon"]) for name, box in covered.items()}
        self.boxes = {name: _sum_to_one(data.on_tiles(box)) for name, box in {REGION: area, **boxes}.items()}
        self.weights = {STANDARDISED: _sum_to_one(data.ocean), DEGREES: self.boxes[REGION]}

        shape = (data.windows.starts, data.windows.horizon)
        self.errors = {
            units: {name: ErrorTally(*shape, weights, by_week=units == DEGREES) for name in methods}
            for units, weights in self.weights.items()
        }
        self.heatwaves = {name: DateTally(*shape, self.weights[DEGREES]) for name in methods}
        self.indices = {name: np.empty((len(self.boxes), *shape), np.float32) for name in (TRUTH, *methods)}
        self.ensemble = DateTally(*shape, self.weights[DEGREES])
        self.ranks = np.zeros(members + 1)
        self.reliability = np.zeros((3, heatwaves.probability_bins(members)))

    def add_truth(self, dates: slice, observed: Observed) -> None:
        """Take in what came true."""
        self._add_indices(TRUTH, dates, observed.anomaly[DEGREES])

    def add(self, method: str, dates: slice, members: Array, observed: Observed) -> None:
        """Take in the standardised forecasts `members [M, ...]` of a method, M = 1 for all but ensembles."""
        degrees = members * observed.scale
        for units, forecast in ((STANDARDISED, members.mean(0)), (DEGREES, mean := degrees.mean(0))):
            self.errors[units][method].add(dates, forecast, observed.anomaly[units])
        self._add_indices(method, dates, mean)
        probability = (degrees > observed.limit).mean(0, dtype=np.float32)
        self.heatwaves[method].add(dates, heatwaves.contingency(probability, observed.heatwave))
        if len(members) > 1:
            self._add_ensemble(dates, degrees, probability, observed)

    def _add_ensemble(self, dates: slice, degrees: Array, probability: Array, observed: Observed) -> None:
        truth = observed.anomaly[DEGREES]
        scores = {"crps": ensembles.crps(degrees, truth), "crps_fair": ensembles.crps(degrees, truth, fair=True)}
        self.ensemble.add(dates, {**scores, "variance": degrees.var(0, ddof=1)})
        weights = np.broadcast_to(self.weights[DEGREES], truth.shape)
        self.ranks += np.bincount(ensembles.rank(degrees, truth).ravel(), weights.ravel(), len(self.ranks))
        bins = self.reliability.shape[1]
        self.reliability += heatwaves.reliability(probability, observed.heatwave, weights, bins)

    def _add_indices(self, series: str, dates: slice, degrees: Array) -> None:
        for row, weights in zip(self.indices[series], self.boxes.values(), strict=True):
            row[dates] = area_mean(degrees, weights)

    def dataset(self) -> xr.Dataset:
        """Return all tables, labelled; `docs/evaluation.md` lists them."""
        data = self.data
        tables = axes(data.windows.init_times, data.windows.horizon, data.anomalies).assign_coords(
            units=list(UNITS),
            forecast=list(self.heatwaves),
            week=1 + np.arange(len(week_starts(data.windows.horizon))),
            tile=np.arange(len(data.index)),
            box=list(self.boxes),
            series=list(self.indices),
        )
        tables = tables.assign_coords(season=tables["valid_time"].dt.season)
        tables = tables.merge(xr.concat([self._error_tables(units) for units in UNITS], "units"))
        for name in ("warned", "observed", "hit", "brier"):
            by_date = np.stack([tally.by_date[name] for tally in self.heatwaves.values()])
            tables[f"heatwave_{name}_by_date"] = (BY_DATE, by_date)
        tables["index"] = (("series", "box", "init_time", "lead"), np.stack(list(self.indices.values())))
        for name, means in self.ensemble.by_date.items():
            tables[f"{name}_by_date"] = (BY_DATE[1:], means)
        if self.ensemble.by_date:
            tables["rank_histogram"] = ("rank", self.ranks / self.ranks.sum())
            weight, probability, observed = self.reliability
            known = np.where(weight > 0, weight, np.nan)
            tables["reliability_share"] = ("bin", weight / weight.sum())
            tables["reliability_probability"] = ("bin", probability / known)
            tables["reliability_observed"] = ("bin", observed / known)
        return tables.merge(self._significance())

    def _error_tables(self, units: str) -> xr.Dataset:
        tallies = list(self.errors[units].values())
        tables: dict[str, tuple[tuple[str, ...], Array]] = {}
        for name in MOMENTS:
            tables[f"{name}_by_date"] = (BY_DATE, np.stack([tally.by_date[name] for tally in tallies]))
            tables[f"{name}_by_tile"] = (BY_TILE, np.stack([tally.by_tile()[name] for tally in tallies]))
        metrics = [metrics_of(tally.by_cell()) for tally in tallies]
        for name in ("mse", "mae", "bias", "acc"):
            cells = self.data.on_map(np.stack([of_method[name] for of_method in metrics]))
            tables[f"{name}_by_cell"] = (BY_CELL, cells.astype(np.float32))
        return xr.Dataset(tables)

    def _significance(self) -> xr.Dataset:
        """Test, cell by cell and lead week by lead week, whether the model's error differs from a baseline's."""
        tallies = self.errors[DEGREES]
        model = tallies[MODEL].squared_error_by_week
        lags, ocean = memory(self.data.windows.horizon), self.data.ocean
        references = [name for name in tallies if name != MODEL]
        p_values = np.full((len(references), *model.shape[1:]), np.nan, np.float32)
        for of_reference, name in zip(p_values, references, strict=True):
            other = tallies[name].squared_error_by_week
            for week, row in enumerate(of_reference):
                row[ocean] = diebold_mariano(model[:, week, ocean] - other[:, week, ocean], lags)
        adjusted = np.stack([[adjust(row) for row in of_reference] for of_reference in p_values])
        dims = ("reference", "week", "lat", "lon")
        return xr.Dataset(
            {
                "p_value": (dims, self.data.on_map(p_values)),
                "p_fdr": (dims, self.data.on_map(adjusted.astype(np.float32))),
                "squared_error_by_week": (("init_time", *dims[1:]), self.data.on_map(model)),
            },
            {"reference": references},
        )


def _sum_to_one(weights: NDArray[np.generic]) -> Array:
    total = weights.sum(dtype=float)
    return (weights / total).astype(np.float32)
