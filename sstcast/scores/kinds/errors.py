"""Errors of ensemble means: by date, by cell and by week, and of means over boxes of the ocean."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from sstcast.geo import NINO, area_weights
from sstcast.names import DEGREES, INIT_TIME, MODEL, REGION, STANDARDISED, TRUTH, UNITS
from sstcast.ocean.lead_weeks import lead_weeks
from sstcast.scores.accumulated_means import AccumulatedMeans
from sstcast.scores.analysis import Analysis, Observed, sum_to_one
from sstcast.scores.comparisons import MEAN_SQUARED_ERROR, Loss, tests_by_cell
from sstcast.scores.indices import covers
from sstcast.scores.kinds.kind import CELL, DATE, Kind
from sstcast.scores.metrics import METRICS, SQUARED_ERROR, Statistic, statistics_of
from sstcast.scores.parts import in_degrees, in_parts, numbers
from sstcast.scores.scene import Block, Scene, ensemble_mean
from sstcast.types import Array, Scores

LAZY = "squared_error_by_week"  # may be larger than memory


class Errors(Kind):
    """Accumulates the statistics of all `METRICS` in both units, and the means over boxes."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        truth = self.truth
        self.boxes, shape, mapped = _boxes(truth), (truth.windows.starts, truth.leads), _mapped()
        self.observed = {box: AccumulatedMeans(*shape, area) for box, area in self.boxes.items()}
        self.indices = {
            name: {box: AccumulatedMeans(*shape, area) for box, area in self.boxes.items()}
            for name in scene.systems
        }
        self.errors = {
            name: {
                STANDARDISED: AccumulatedMeans(*shape, sum_to_one(truth.ocean), mapped=mapped),
                DEGREES: AccumulatedMeans(*shape, truth.area, mapped=mapped, keep=SQUARED_ERROR.name),
            }
            for name in scene.systems
        }

    def begin(self, observed: Observed) -> None:
        """Add the observed means over boxes."""
        for means in self.observed.values():
            means.add(observed.dates, [(TRUTH, observed.anomaly[DEGREES])])

    def add(self, block: Block) -> None:
        """Add the errors of the ensemble mean."""
        dates, observed, errors = block.dates, block.observed, self.errors[block.system]
        for units, forecast in ((STANDARDISED, ensemble_mean(block.standardised)), (DEGREES, block.mean)):
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
        for statistic in statistics_of():
            by_date = _stack([errors.by_date for errors in units], statistic)
            variables[f"{statistic}_by_date"] = (("units", *DATE), by_date)
        in_degrees = self.errors[name][DEGREES]
        for statistic in in_degrees.mapped:
            cells = np.stack([errors.by_cell[statistic] for errors in units]).astype(np.float32)
            variables[f"{statistic}_by_cell"] = (("units", *CELL), self.truth.on_map(cells))
        variables[LAZY] = (("init_time", *CELL), self.truth.weeks_on_map(in_degrees.by_week))
        weeks = 1 + np.unique(lead_weeks(self.truth.leads))
        return xr.Dataset(variables, {"units": list(UNITS), "week": weeks, "box": list(of_boxes)})

    @staticmethod
    def finish(tables: xr.Dataset, compared: Sequence[str], references: Sequence[str]) -> xr.Dataset:
        """Compute metrics by cell, and the significance of differences in each."""
        cell_metrics = {metric.name: metric for metric in METRICS.values() if metric.by_cell}
        cells = {name: tables[f"{name}_by_cell"] for name in statistics_of(cell_metrics)}
        tables = tables.drop_vars([f"{name}_by_cell" for name in cells])
        metric_maps = {f"{name}_by_cell": metric.from_means(cells) for name, metric in cell_metrics.items()}
        tables = tables.assign({name: field.astype(np.float32) for name, field in metric_maps.items()})
        by_week = tables[LAZY]
        shape = (len(compared), len(references), *by_week.shape[-3:])
        p_value, p_fdr = (np.full(shape, np.nan, np.float32) for _ in range(2))
        systems = list(dict.fromkeys([*compared, *references]))
        positions = [(row, column) for row, column in np.ndindex(shape[:2]) if compared[row] != references[column]]
        pairs = [(systems.index(compared[row]), systems.index(references[column])) for row, column in positions]
        errors = [by_week.sel(system=system, drop=True) for system in systems]
        for position, *values in zip(positions, *tests_by_cell(errors, pairs, tables), strict=True):
            p_value[position], p_fdr[position] = values
        tables = tables.drop_vars(LAZY).assign_coords(compared=compared, reference=references)
        dims = ("compared", "reference", "week", "lat", "lon")
        tables = tables.assign(p_value=(dims, p_value), p_fdr=(dims, p_fdr))
        if MODEL in by_week["system"]:
            tables[LAZY] = by_week.sel(system=MODEL, drop=True)
        return tables

    @staticmethod
    def losses(tables: xr.Dataset) -> dict[str, Loss]:
        """Return the squared errors in both units."""
        standardised = tables["mse_by_date"].sel(units=STANDARDISED, drop=True).astype(float)
        return {
            "mse": Loss(in_degrees(tables, "mse"), MEAN_SQUARED_ERROR),
            "mse_standardised": Loss(standardised, f"standardised {MEAN_SQUARED_ERROR}"),
        }

    @staticmethod
    def section(tables: xr.Dataset, reference: str) -> Scores:
        """Return `scores`, those of all `METRICS`, and `indices`, those of the means over boxes."""
        names = [str(name) for name in tables["system"].values]
        return {"scores": _scores(tables, names), "indices": _indices(tables, names)}


def _scores(tables: xr.Dataset, names: list[str]) -> Scores:
    by_date = {name: tables[f"{name}_by_date"].transpose("system", "units", ...) for name in statistics_of()}
    parts = in_parts(by_date, METRICS)
    return {
        name: {
            units: numbers(parts, system_index, units_index)
            for units_index, units in enumerate(tables["units"].values)
        }
        for system_index, name in enumerate(names)
    }


def _indices(tables: xr.Dataset, names: list[str]) -> Scores:
    index, truth = tables["index"].astype(float), tables["observed_index"].astype(float)
    mse = ((index - truth) ** 2).mean(INIT_TIME)
    scores = {"rmse": mse.mean("lead") ** 0.5, "correlation": xr.corr(index, truth, [INIT_TIME, "lead"])}
    by_lead = {"rmse": mse**0.5, "correlation": xr.corr(index, truth, INIT_TIME)}
    parts = {name: field.transpose("box", "system").values for name, field in scores.items()} | {
        "by_lead": {name: field.transpose("box", "system", "lead").values for name, field in by_lead.items()}
    }
    boxes = [str(box) for box in tables["box"].values]
    return {
        box: {name: numbers(parts, box_index, system_index) for system_index, name in enumerate(names)}
        for box_index, box in enumerate(boxes)
    }


def _mapped() -> dict[str, Statistic]:
    return statistics_of({name: metric for name, metric in METRICS.items() if metric.by_cell})


def _stack(of_units: Sequence[Mapping[str, Array]], name: str) -> Array:
    """Stack the values of a statistic in all units, NaN in units in which it is not computed."""
    template = next(means[name] for means in of_units if name in means)
    return np.stack([means.get(name, np.full_like(template, np.nan)) for means in of_units])


def _of_scale(small: bool) -> list[Statistic]:
    return [statistic for statistic in statistics_of().values() if statistic.small is small]


def _boxes(truth: Analysis) -> dict[str, Array]:
    """Return the weights `[tile, N]` of means over the region and over each Niño box that the scored cells cover.

    Land of the stores need not be scored.
    """
    land = ~truth.anomalies["ocean_mask"]
    known = land.copy(data=np.isfinite(truth.on_map(truth.area)) | land.values)
    area = area_weights(truth.anomalies["lat"]) * xr.ones_like(truth.anomalies["lon"])
    covered = {name: box for name, box in NINO.items() if covers(known, box)}
    boxes = {name: area * box.contains(area["lat"], area["lon"]) for name, box in covered.items()}
    return {REGION: truth.area} | {name: sum_to_one(truth.on_tiles(box)) for name, box in boxes.items()}
