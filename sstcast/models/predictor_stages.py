"""Predictors besides SST in linear systems: corrections of a ridge's errors, one predictor after another.

The errors on the days that the ridge was fitted to are regressed on what a predictor tells. Cross-validation over
blocks of their years chooses the penalty of each lead. One candidate is an infinite penalty, which leaves the
forecast as it is.

- A coefficient of an index belongs to its place: El Nino warms one cell and cools another. So each cell has its
  own.
- A field acts on the cell below it, so all cells share the coefficients of a grid. Much of a field may already
  follow from SST, and the ridge has used that. So the field counts only as far as it departs from what the same
  means of SST tell of it. Where it is unknown, both are 0, so that nothing changes.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sstcast.errors import SSTCastError
from sstcast.graphs.graph import Graph
from sstcast.models.base import SUMMARIES, LinearSystem, Samples
from sstcast.models.linear import Ridge, both
from sstcast.models.ridge_inputs import Sums, cross_validate, lagged_means, means_count

BLOCKS = 5  # of consecutive years, each of which is forecast from the others
MIN_PENALTY_SHARE = 1e-6  # of the rows: a penalty that keeps the map from SST to a field solvable


class Stage(ABC):
    """How the errors of a ridge are regressed on a predictor.

    Attributes:
        shape: that of the weights, `[inputs, cells, horizon]`, with 1 cell if all share them.
        penalties: the candidates. They apply to the sums over the rows of a regression.
    """

    shape: tuple[int, int, int]
    penalties: tuple[float, ...]

    @abstractmethod
    def change(self, weight: Tensor, windows: Any, known: Tensor) -> Tensor:
        """Return the correction of all windows, `[starts, horizon, tile, N]`."""

    @abstractmethod
    def add(self, sums: Sums, windows: Any, known: Tensor, errors: Tensor) -> None:
        """Add the windows of one tile to the sums of the regression. `errors` are `[starts, N, horizon]`."""

    def solve(self, sums: Sums, penalty: float) -> Tensor:
        """Return the weights `[inputs, outputs]` with a penalty. They are 0 if it is infinite."""
        return torch.zeros_like(sums.cross) if penalty == torch.inf else self._solve(sums, penalty)

    @abstractmethod
    def _solve(self, sums: Sums, penalty: float) -> Tensor:
        """Return the weights with a penalty that is not infinite."""


class IndexStage(Stage):
    """An index and its products with the sine and cosine of the time of year, in each cell."""

    penalties = (torch.inf, 3e2, 1e3, 3e3, 1e4, 3e4)

    def __init__(self, nodes: int, horizon: int) -> None:
        self.shape = 3 * SUMMARIES, nodes, horizon

    def change(self, weight: Tensor, windows: Any, known: Tensor) -> Tensor:
        return torch.tensordot(self._inputs(windows, known), weight, 1).movedim(-1, 1).unsqueeze(2)

    def add(self, sums: Sums, windows: Any, known: Tensor, errors: Tensor) -> None:
        sums.add(self._inputs(windows, known), errors.flatten(1))

    def _solve(self, sums: Sums, penalty: float) -> Tensor:
        return torch.linalg.solve(sums.gram + penalty * torch.eye(len(sums.gram), dtype=torch.float64), sums.cross)

    def _inputs(self, windows: Any, known: Tensor) -> Tensor:
        last = windows.at + windows.history - 1
        return index_inputs(known[last], windows.season[last])


class GridStage(Stage):
    """Means of a field around a cell on some days, shared by all cells, beside the same means of SST.

    With the ridge's memory, they include means over its periods. Penalties are shares of the number of rows.
    """

    penalties = (torch.inf, 1e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0)

    def __init__(self, system: Ridge) -> None:
        self.boxes, self.memory = system.BOXES, system.inputs.memory
        self.count = means_count(system.history, self.boxes, self.memory)
        self.shape = 2 * self.count + 1, 1, system.horizon

    def change(self, weight: Tensor, windows: Any, known: Tensor) -> Tensor:
        change = weight[:, 0].T @ self._inputs(windows, known)
        return change.unflatten(-1, windows.ocean.shape)

    def add(self, sums: Sums, windows: Any, known: Tensor, errors: Tensor) -> None:
        for inputs, error in zip(self._inputs(windows, known), errors, strict=True):
            sums.add(inputs.T, error)

    def _inputs(self, windows: Any, known: Tensor) -> Tensor:
        """Return the inputs `[starts, inputs, N]`: of the field, of SST, and 1. All are 0 where it is unknown."""
        is_known = known.isfinite()
        means = [
            lagged_means(windows, values.nan_to_num(0) * is_known, self.boxes, self.memory)
            for values in (known, windows.values)
        ]
        newest = is_known[windows.at + windows.history - 1] & windows.ocean
        return torch.cat([*means, newest.flatten(1).unsqueeze(1).to(means[0])], 1)

    def _solve(self, sums: Sums, penalty: float) -> Tensor:
        return self.solve_beside(sums, penalty, self.count)

    def solve_beside(self, sums: Sums, penalty: float, count: int) -> Tensor:
        """Return the weights of the departures of the first `count` inputs from what the others tell of them."""
        gram, rows = sums.gram, sums.gram[-1, -1].clamp(min=1)
        field, sst = slice(count), slice(count, None)
        beside = gram[sst, sst] + MIN_PENALTY_SHARE * rows * torch.eye(len(gram) - count, dtype=torch.float64)
        told = torch.linalg.solve(beside, gram[sst, field])  # of the field by SST
        departures = gram[field, field] - gram[field, sst] @ told
        ridge = departures + penalty * rows * torch.eye(count, dtype=torch.float64)
        weight = torch.linalg.solve(ridge, sums.cross[field] - told.T @ sums.cross[sst])
        return torch.cat([weight, -told @ weight])


class ForecastStage(GridStage):
    """A forecast of a field in the cell, up to the lead of the target, beside means of SST on days before."""

    def __init__(self, system: Ridge) -> None:
        super().__init__(system)
        self.memory, self.count = False, system.horizon
        self.shape = self.count + means_count(system.history, self.boxes, self.memory) + 1, 1, system.horizon

    def _inputs(self, windows: Any, known: Tensor) -> Tensor:
        ahead = known[windows.at + windows.history - 1]
        is_known = (ahead[:, :1].isfinite() & windows.ocean).flatten(2)
        means = lagged_means(windows, windows.values, self.boxes, self.memory) * is_known
        ahead = (ahead.nan_to_num(0) * windows.ocean).flatten(2)
        return torch.cat([ahead, means, is_known.to(means)], 1)

    def _solve(self, sums: Sums, penalty: float) -> Tensor:
        weight = torch.zeros_like(sums.cross)
        beside = torch.arange(self.count, len(sums.gram))
        for lead in range(weight.shape[1]):
            read = torch.cat([torch.arange(lead + 1), beside])
            part = Sums(0, 0)
            part.gram, part.cross = sums.gram[read][:, read], sums.cross[read, lead : lead + 1]
            weight[read, lead : lead + 1] = self.solve_beside(part, penalty, lead + 1)
        return weight


STAGES = {"grid": GridStage, "forecast": ForecastStage}


class WithPredictors(LinearSystem):
    """A linear system whose errors are corrected by predictors, in their order.

    Attributes:
        system: the linear system, which reads SST alone.
        stages: the stage of each predictor by name.
    """

    def __init__(self, system: Ridge, kinds: Mapping[str, str], nodes: int) -> None:
        super().__init__(system.history, system.horizon)
        self.system = system
        self.stages: dict[str, Stage] = {
            name: IndexStage(nodes, self.horizon) if kind == "index" else STAGES[kind](system)
            for name, kind in kinds.items()
        }
        for name, stage in self.stages.items():
            self.register_buffer(f"of_{name}", torch.zeros(stage.shape))

    @property
    def before(self) -> int:
        """The number of days that a forecast reads before its history."""
        return self.system.before

    def forward(self, history: Tensor, graph: Graph) -> Tensor:
        """Raise SSTCastError, because predictors are read from windows, not from batches."""
        raise SSTCastError(
            f"predictors {', '.join(self.stages)}: a linear system reads them from windows; call forecast_windows "
            "instead of the model"
        )

    def forecast_windows(self, windows: Any) -> Tensor:
        """Forecast all windows (see `LinearSystem.forecast_windows`)."""
        forecast = self.system.forecast_windows(windows)
        for name, stage in self.stages.items():
            if self._weight(name).any():
                forecast = forecast + stage.change(self._weight(name), windows, windows.predictors[name])
        return forecast

    def fit(self, train: Samples, validation: Samples | None, refit: bool = True) -> dict[str, Any]:
        """Fit the system, then one correction after another to the errors left (see `LinearSystem.fit`)."""
        chosen = self.system.fit(train, validation, refit)
        days = both(train, validation) if validation is not None and refit else train
        return chosen | {f"penalty_of_{name}": penalty for name, penalty in self._fit_stages(days).items()}

    def without(self, left_out: str, train: Samples, validation: Samples) -> "WithPredictors":
        """Return a copy in which the penalty of a predictor is infinite at all leads, to measure what it adds.

        The corrections after it are fitted again.
        """
        other = deepcopy(self)
        if left_out == [*self.stages][-1]:
            other._weight(left_out).zero_()
        else:
            other._fit_stages(both(train, validation), left_out)
        return other

    def _fit_stages(self, days: Samples, left_out: str = "") -> dict[str, list[float]]:
        """Fit the corrections, except one, to the errors of the system. Return the penalties of each by lead."""
        for name in self.stages:
            self._weight(name).zero_()
        penalties = {}
        for name, stage in self.stages.items():
            if name != left_out:
                blocks = self._blocks(name, days)
                weight, best = cross_validate(blocks, stage.solve, stage.penalties, self.horizon)
                self._weight(name).copy_(weight)
                penalties[name] = [stage.penalties[choice] for choice in best.tolist()]
        return penalties

    def _weight(self, name: str) -> Tensor:
        weight: Tensor = getattr(self, f"of_{name}")
        return weight

    def _blocks(self, name: str, days: Samples) -> list[Sums]:
        """Return the sums over blocks of years of the inputs and the errors that are left."""
        years = np.unique(np.concatenate([_years(part) for part in days(self.STRIDE)]))
        first = [block[0] for block in np.array_split(years, min(BLOCKS, len(years)))]
        stage, (inputs, cells, horizon) = self.stages[name], self.stages[name].shape
        blocks = [Sums(inputs, cells * horizon) for _ in first]
        for part in days(self.STRIDE):
            errors = (part.spans(self.history, self.horizon) - self.forecast_windows(part)) * part.ocean
            errors = errors.flatten(2).transpose(1, 2)
            number = np.searchsorted(first, _years(part), side="right") - 1
            for block in np.unique(number):
                inside = np.flatnonzero(number == block)
                begin, end = int(inside[0]), int(inside[-1]) + 1  # years follow one another
                within = part.part(begin, end)
                stage.add(blocks[block], within, within.predictors[name], errors[begin:end])
        return blocks


def index_inputs(told: Tensor, season: Tensor) -> Tensor:
    """Return the inputs from the summaries `told [B, SUMMARIES]`, NaN if unknown, and `season [B, 2]`."""
    told = told.nan_to_num(0)
    return torch.cat([told, *(told * term[:, None] for term in season.unbind(1))], dim=1)


def _years(windows: Any) -> np.ndarray:
    """Return the year of each initial date."""
    years: np.ndarray = windows.init_times.astype("datetime64[Y]")
    return years
