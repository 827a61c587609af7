"""Errors of ensemble means: by date, by cell and by week, and of means over boxes of the ocean."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from sstcast.forecasting.predictor import Array
from sstcast.geo import NINO, area_weights
from sstcast.names import DEGREES, REGION, STANDARDISED, TRUTH, UNITS
from sstcast.ocean.windows import lead_weeks
from sstcast.scores.analysis import Analysis, Observed, sum_to_one
from sstcast.scores.indices import covers
from sstcast.scores.kinds.kind import CELL, DATE, Joined, Kind
from sstcast.scores.metrics import METRICS, SQUARED_ERROR, Statistic, statistics
from sstcast.scores.scene import Block, Scene
from sstcast.scores.statistics import RunningMeans

LAZY = "squared_error_by_week"  # may be larger than memory


class Errors(Kind):
    """Accumulates the statistics of all `METRICS` in both units, and the means over boxes."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        truth = self.truth
        self.boxes, shape, mapped = _boxes(truth), (truth.windows.starts, truth.leads), _mapped()
        self.observed = {box: RunningMeans(*shape, area) for box, area in self.boxes.items()}
        self.indices = {
            name: {box: RunningMeans(*shape, area) for box, area in self.boxes.items()} for name in scene.systems
        }
        self.errors = {
            name: {
                STANDARDISED: RunningMeans(*shape, sum_to_one(truth.ocean), mapped=mapped),
                DEGREES: RunningMeans(*shape, truth.area, mapped=mapped, keep=SQUARED_ERROR.name),
            }
            for name in scene.systems
        }

    @classmethod
    def tables(cls) -> Mapping[str, Joined]:
        """Return how each table is joined."""
        by_date, by_cell = Joined("dates"), Joined("mean")
        return {
            **{f"{name}_by_date": by_date for name in statistics()},
            **{f"{name}_by_cell": by_cell for name in _mapped()},
            "index": by_date,
            "observed_index": Joined("dates", systems=""),
            LAZY: Joined("dates", lazy=True),
        }

    def begin(self, observed: Observed) -> None:
        """Add the observed means over boxes."""
        for means in self.observed.values():
            means.add(observed.dates, [(TRUTH, observed.anomaly[DEGREES])])

    def add(self, block: Block) -> None:
        """Add the errors of the ensemble mean."""
        dates, observed, errors = block.dates, block.observed, self.errors[block.system]
        for units, forecast in ((STANDARDISED, block.standardised.mean(0)), (DEGREES, block.mean)):
            truth = observed.anomaly[units]
            errors[units].add(dates, ((s.name, s.function(forecast, truth)) for s in _of_scale(small=False)))
        small = self.truth.small_scales(block.mean)
        errors[DEGREES].add(dates, ((s.name, s.function(small, observed.small)) for s in _of_scale(small=True)))
        for index in self.indices[block.system].values():
            index.add(dates, [("index", block.mean)])

    def dataset(self) -> xr.Dataset:
        """Return means by date, by cell and by week, the last lazily."""
        names = pd.Index(list(self.errors), name="system")
        tables = xr.concat([self._of_system(name) for name in names], names, join="outer")
        index = np.stack([means.by_date[TRUTH] for means in self.observed.values()])
        return tables.assign(observed_index=(("box", *DATE), index))

    def _of_system(self, name: str) -> xr.Dataset:
        of_boxes, units = self.indices[name], [self.errors[name][unit] for unit in UNITS]
        variables: dict[str, Any] = {
            "index": (("box", *DATE), np.stack([m.by_date["index"] for m in of_boxes.values()]))
        }
        for statistic in statistics():
            by_date = _stack([errors.by_date for errors in units], statistic)
            variables[f"{statistic}_by_date"] = (("units", *DATE), by_date)
        in_degrees = self.errors[name][DEGREES]
        for statistic in in_degrees.mapped:
            cells = np.stack([errors.by_cell[statistic] for errors in units]).astype(np.float32)
            variables[f"{statistic}_by_cell"] = (("units", *CELL), self.truth.on_map(cells))
        variables[LAZY] = (("init_time", *CELL), self.truth.weeks_on_map(in_degrees.by_week))
        weeks = 1 + np.unique(lead_weeks(self.truth.leads))
        return xr.Dataset(variables, {"units": list(UNITS), "week": weeks, "box": list(of_boxes)})


def _mapped() -> dict[str, Statistic]:
    return statistics({name: metric for name, metric in METRICS.items() if metric.by_cell})


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
