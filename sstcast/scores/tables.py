"""The tables that every score follows from, filled a block of initial dates at a time.

Standardised errors count every ocean cell alike, as the published table does; errors in degC count cells by
their area, the cosine of latitude.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from sstcast.forecasting.predictor import Array, axes
from sstcast.geo import area_weights
from sstcast.names import DEGREES, MODEL, REGION, STANDARDISED, TRUTH, UNITS
from sstcast.scores import ensembles, probabilities
from sstcast.scores.indices import NINO, covers
from sstcast.scores.means import Means, of_members, sum_to_one, week_starts
from sstcast.scores.metrics import METRICS, statistics
from sstcast.scores.significance import Lengths, adjust, p_values, spacing
from sstcast.scores.verification import Verification

DATE, CELL = ("init_time", "lead"), ("week", "lat", "lon")


@dataclass(frozen=True)
class Observed:
    """The days forecast from some initial dates, each `[starts, horizon, tile, N]`."""

    anomaly: dict[str, Array]  # that came true, by units
    scale: Array  # degC of a standardised unit


class Tables:
    """Tables of errors, predictive distributions and box means of all methods.

    Of `members` > 1 members, also of the model as an ensemble.
    """

    def __init__(self, data: Verification, methods: list[str], members: int) -> None:
        self.data, self.methods = data, methods
        area = area_weights(data.anomalies["lat"]) * xr.ones_like(data.anomalies["lon"])
        covered = {name: box for name, box in NINO.items() if covers(data.tiled, box)}
        boxes = {name: area * box.contains(area["lat"], area["lon"]) for name, box in covered.items()}
        weights = {REGION: data.area} | {name: sum_to_one(data.on_tiles(box)) for name, box in boxes.items()}
        self.area, shape = data.area, (data.windows.starts, data.windows.horizon)

        alike = sum_to_one(data.ocean)
        self.errors = {
            STANDARDISED: {name: Means(*shape, alike, mapped=True) for name in methods},
            DEGREES: {name: Means(*shape, self.area, mapped=True, keep="mse") for name in methods},
        }
        self.distributions = {name: Means(*shape, self.area) for name in methods}
        self.pit = {name: np.zeros(probabilities.BINS) for name in methods}
        self.indices = {box: Means(*shape, cells) for box, cells in weights.items()}
        self.ensemble = Means(*shape, self.area)
        self.ranks = np.zeros(members + 1)

    def add_truth(self, dates: slice, observed: Observed) -> None:
        """Take in what came true."""
        self._add_indices(TRUTH, dates, observed.anomaly[DEGREES])

    def add(self, method: str, dates: slice, members: Array, observed: Observed) -> None:
        """Take in the standardised forecasts `members [M, ...]` of a method, M = 1 for all but ensembles."""
        degrees = members * observed.scale
        for units, forecast in ((STANDARDISED, of_members(members)), (DEGREES, mean := of_members(degrees))):
            truth = observed.anomaly[units]
            self.errors[units][method].add(dates, ((s.name, s.of(forecast, truth)) for s in statistics().values()))
        self._add_indices(method, dates, mean)
        if len(members) > 1:
            self._add_ensemble(dates, degrees, observed)

    def add_distribution(
        self, method: str, dates: slice, members: Array, spread: Array, observed: Observed
    ) -> None:
        """Take in Gaussians about the mean of `members [M, ...]`, of standard deviation `spread [...]` in degC."""
        error = of_members(members) * observed.scale - observed.anomaly[DEGREES]
        spread = np.where(self.data.ocean, spread, np.float32(1))
        gaussians = probabilities.Gaussians(error, spread)
        self.distributions[method].add(dates, gaussians.statistics())
        self.pit[method] += gaussians.pit(self.area)

    def _add_ensemble(self, dates: slice, degrees: Array, observed: Observed) -> None:
        truth = observed.anomaly[DEGREES]
        self.ensemble.add(dates, ensembles.statistics(degrees, truth))
        weights = np.broadcast_to(self.area, truth.shape)
        self.ranks += np.bincount(ensembles.rank(degrees, truth).ravel(), weights.ravel(), len(self.ranks))

    def _add_indices(self, series: str, dates: slice, degrees: Array) -> None:
        for means in self.indices.values():
            means.add(dates, [(series, degrees)])

    def dataset(self) -> xr.Dataset:
        """Return all tables, labelled; `docs/evaluation.md` lists them."""
        data, series = self.data, [TRUTH, *self.methods]
        tables = axes(data.windows.init_times, data.windows.horizon, data.anomalies).assign_coords(
            units=list(UNITS),
            forecast=self.methods,
            week=1 + np.arange(len(week_starts(data.windows.horizon))),
            tile=np.arange(len(data.index)),
            box=list(self.indices),
            series=series,
        )
        tables = tables.assign_coords(season=tables["valid_time"].dt.season)
        errors = [[self.errors[units][method] for method in self.methods] for units in UNITS]
        of_errors = ("units", "forecast")
        for name in statistics():
            by_date = np.array([[means.by_date[name] for means in row] for row in errors])
            by_tile = np.array([[means.by_tile[name] for means in row] for row in errors])
            tables[f"{name}_by_date"] = ((*of_errors, *DATE), by_date)
            tables[f"{name}_by_tile"] = ((*of_errors, "tile", "lead"), by_tile)
        for metric in METRICS.values():
            if metric.by_cell:
                cells = np.array([[metric.of(m.by_cell) for m in row] for row in errors], np.float32)
                tables[f"{metric.name}_by_cell"] = ((*of_errors, *CELL), data.on_map(cells))
        for name in probabilities.NAMES:
            found = np.stack([m.by_date.get(name, np.full(m.shape, np.nan)) for m in self.distributions.values()])
            tables[f"gaussian_{name}_by_date"] = (("forecast", *DATE), found)
        with np.errstate(invalid="ignore"):  # 0 / 0 without a distribution
            tables["pit"] = ("forecast", "pit_bin"), np.stack([part / part.sum() for part in self.pit.values()])
        index = np.array([[means.by_date[name] for means in self.indices.values()] for name in series])
        tables["index"] = (("series", "box", *DATE), index)
        for name, by_date in self.ensemble.by_date.items():
            tables[f"{name}_by_date"] = (DATE, by_date)
        if self.ensemble.by_date:
            tables["rank_histogram"] = ("rank", self.ranks / self.ranks.sum())
        return tables.merge(self._significance())

    def _significance(self) -> xr.Dataset:
        """Test, cell by cell and lead week by lead week, whether the model's error differs from a baseline's."""
        squares = {name: means.by_week for name, means in self.errors[DEGREES].items()}
        model = squares.pop(MODEL)
        windows, ocean = self.data.windows, self.data.ocean
        block, lags = Lengths.of(windows.horizon, spacing(windows.init_times))
        found = np.full((len(squares), *model.shape[1:]), np.nan, np.float32)
        for of_reference, other in zip(found, squares.values(), strict=True):
            for week in range(model.shape[1] if windows.starts >= 2 * block else 0):
                of_reference[week] = p_values(model[:, week], other[:, week], ocean, lags)
        adjusted = np.stack([[adjust(row) for row in of_reference] for of_reference in found])
        return xr.Dataset(
            {
                "p_value": (("reference", *CELL), self.data.on_map(found)),
                "p_fdr": (("reference", *CELL), self.data.on_map(adjusted.astype(np.float32))),
                "squared_error_by_week": (("init_time", *CELL), self.data.weeks_on_map(model)),
            },
            {"reference": list(squares)},
        )
