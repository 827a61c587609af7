"""Predictors besides SST in linear systems: corrections of a ridge's errors, one predictor after another.

The errors on the days that the ridge was fitted to are regressed on what a predictor tells. Cross-validation over
blocks of their years chooses the penalty of each lead. One candidate is an infinite penalty, which leaves the
forecast as it is.

The errors on days of a fit are smaller than those on other days. A predictor that tells little does not mind. A
strong one, such as a forecast of SST itself, would get too little weight beside the ridge. So a forecast, and what
comes after it, learns from the errors that the ridge makes in each block of years when it is fitted to the others.

- A coefficient of an index belongs to its place: El Nino warms one cell and cools another. So each cell has its
  own.
- A field acts on the cell below it, so all cells share the coefficients of a grid. Much of a field may already
  follow from SST, and the ridge has used that. So the field counts only as far as it departs from what the same
  means of SST tell of it, and of a forecast also what the one that it corrects tells. Where it is unknown, all are
  0, so that nothing changes.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sstcast.errors import SSTCastError
from sstcast.graphs.graph import Graph
from sstcast.log import LOG
from sstcast.models.base import SUMMARIES, LinearSystem, Samples
from sstcast.models.linear import Ridge, both, once
from sstcast.models.ridge_inputs import Sums, cross_validate, lagged_means, means_count, solve_by_lead
from sstcast.names import DAY

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
    def change(self, weight: Tensor, windows: Any, known: Tensor, forecast: Tensor) -> Tensor:
        """Return the correction of a `forecast` of all windows. Both are `[starts, horizon, tile, N]`."""

    @abstractmethod
    def add(self, sums: Sums, windows: Any, known: Tensor, forecast: Tensor, errors: Tensor) -> None:
        """Add the windows of one tile to the sums of the regression.

        The `errors` of the `forecast` are `[starts, N, horizon]`.
        """

    def sums(self) -> Sums:
        """Return empty sums of the regression."""
        inputs, cells, horizon = self.shape
        return Sums(inputs, cells * horizon)

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

    def change(self, weight: Tensor, windows: Any, known: Tensor, forecast: Tensor) -> Tensor:
        return torch.tensordot(self._inputs(windows, known), weight, 1).movedim(-1, 1).unsqueeze(2)

    def add(self, sums: Sums, windows: Any, known: Tensor, forecast: Tensor, errors: Tensor) -> None:
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

    def change(self, weight: Tensor, windows: Any, known: Tensor, forecast: Tensor) -> Tensor:
        change = weight[:, 0].T @ self._inputs(windows, known, forecast)
        return change.unflatten(-1, windows.ocean.shape)

    def add(self, sums: Sums, windows: Any, known: Tensor, forecast: Tensor, errors: Tensor) -> None:
        for inputs, error in zip(self._inputs(windows, known, forecast), errors, strict=True):
            sums.add(inputs.T, error)

    def _inputs(self, windows: Any, known: Tensor, forecast: Tensor) -> Tensor:
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
    """A forecast of a field in the cell, up to the lead of the target, beside means of SST on days before.

    The forecast that it corrects, at the lead of the target, stands beside it as well.
    """

    def __init__(self, system: Ridge) -> None:
        super().__init__(system)
        self.memory, self.count = False, system.horizon
        self.means = means_count(system.history, self.boxes, self.memory)
        self.shape = 2 * self.count + self.means + 1, 1, system.horizon

    def _inputs(self, windows: Any, known: Tensor, forecast: Tensor) -> Tensor:
        ahead = known[windows.at + windows.history - 1]
        is_known = known_ahead(windows, known).flatten(2)
        means = lagged_means(windows, windows.values, self.boxes, self.memory) * is_known
        ahead = (ahead.nan_to_num(0) * windows.ocean).flatten(2)
        return torch.cat([ahead, forecast.flatten(2) * is_known, means, is_known.to(means)], 1)

    def _solve(self, sums: Sums, penalty: float) -> Tensor:
        weight = torch.zeros_like(sums.cross)
        beside = torch.arange(2 * self.count, len(sums.gram))
        for lead in range(weight.shape[1]):
            read = torch.cat([torch.arange(lead + 1), torch.tensor([self.count + lead]), beside])
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
        return self._forecast(windows, self.system, {name: self._weight(name) for name in self.stages})

    def fit(self, train: Samples, validation: Samples | None, refit: bool = True) -> dict[str, Any]:
        """Fit the system, then one correction after another to the errors left (see `LinearSystem.fit`)."""
        chosen = self.system.fit(train, validation, refit)
        penalties = self._fit_stages(train, validation, refit)
        return chosen | {f"penalty_of_{name}": penalty for name, penalty in penalties.items()}

    def without(self, left_out: str, train: Samples, validation: Samples) -> "WithPredictors":
        """Return a copy in which the penalty of a predictor is infinite at all leads, to measure what it adds.

        The corrections after it are fitted again.
        """
        other = deepcopy(self)
        if left_out == [*self.stages][-1]:
            other._weight(left_out).zero_()
        else:
            other._fit_stages(train, validation, True, left_out)
        return other

    def _fit_stages(
        self, train: Samples, validation: Samples | None, refit: bool, left_out: str = ""
    ) -> dict[str, list[float]]:
        """Fit the corrections, except one, to the errors of the system. Return the penalties of each by lead."""
        days = both(train, validation) if validation is not None and refit else train
        for name in self.stages:
            self._weight(name).zero_()
        penalties: dict[str, list[float]] = {}
        fitted: dict[str, tuple[list[Block], Tensor]] = {}
        years, of_blocks = years_of(days, self.STRIDE), False
        for name, stage in self.stages.items():
            if name == left_out:
                continue
            if isinstance(stage, ForecastStage):
                known_years = years_of(days, self.STRIDE, name)
                years = known_years if len(known_years) else years
                of_blocks = len(years) > 1  # a single block supports nothing, whatever it learns from
            blocks = [
                Block(part[0], part[-1], stage.sums()) for part in np.array_split(years, min(BLOCKS, len(years)))
            ]
            systems = [self._system_without(block, train, validation, refit) for block in blocks if of_blocks]
            weights = [
                {earlier: self._weight_without(earlier, block, *found) for earlier, found in fitted.items()}
                for block in blocks
                if of_blocks
            ]
            for part in days(self.STRIDE):
                of_all = torch.empty(0) if of_blocks else self.forecast_windows(part)
                for number, begin, end in by_block(part, blocks):
                    within = part.part(begin, end)
                    forecast = (
                        self._forecast(within, systems[number], weights[number])
                        if of_blocks
                        else of_all[begin:end]
                    )
                    errors = (within.spans(self.history, self.horizon) - forecast) * within.ocean
                    errors = errors.flatten(2).transpose(1, 2)
                    stage.add(blocks[number].sums, within, within.predictors[name], forecast, errors)
            sums = [block.sums for block in blocks]
            weight, best = cross_validate(sums, stage.solve, stage.penalties, self.horizon)
            self._weight(name).copy_(weight)
            penalties[name] = [stage.penalties[choice] for choice in best.tolist()]
            fitted[name] = blocks, best
        return penalties

    def _forecast(self, windows: Any, system: Ridge, weights: Mapping[str, Tensor]) -> Tensor:
        forecast = system.forecast_windows(windows)
        for name, weight in weights.items():
            if weight.any():
                known = windows.predictors[name]
                forecast = forecast + self.stages[name].change(weight, windows, known, forecast)
        return forecast

    def _weight(self, name: str) -> Tensor:
        weight: Tensor = getattr(self, f"of_{name}")
        return weight

    def _weight_without(self, name: str, block: "Block", blocks: Sequence["Block"], best: Tensor) -> Tensor:
        """Return the weights of a correction from those of its `blocks` that share no year with `block`."""
        stage, others = self.stages[name], [other.sums for other in blocks if not other.meets(block)]
        total = reduce(add, others, stage.sums())
        return solve_by_lead(total, stage.solve, stage.penalties, best).float()

    def _system_without(self, block: "Block", train: Samples, validation: Samples | None, refit: bool) -> Ridge:
        """Return the system fitted to the windows that share no day with a block, nor remember one.

        Its penalties are chosen without the block, too. If no window is left, return the system itself, and warn.
        """
        system = self.system
        key = ("without", type(system), system.inputs, block.first, block.last, validation, refit)
        return once(train, key, lambda: self._fit_without(block, train, validation, refit))

    def _fit_without(self, block: "Block", train: Samples, validation: Samples | None, refit: bool) -> Ridge:
        others = without(train, block)
        if validation is not None and refit and is_near(validation, block, self.STRIDE):
            others, validation = both(others, without(validation, block)), None
        if next(iter(others(self.STRIDE)), None) is None:
            LOG.warning(
                f"no window is clear of {block.first}..{block.last}, so predictors learn from errors on days "
                "of the fit; lengthen data.splits.train"
            )
            return self.system
        system = deepcopy(self.system)
        system.fit(others, validation, refit)
        return system


class Block(NamedTuple):
    """The sums of a regression over the windows of a block of years, from the `first` to the `last`."""

    first: np.datetime64
    last: np.datetime64
    sums: Sums

    def meets(self, other: "Block") -> bool:
        """Return whether the blocks share a year."""
        return bool(self.first <= other.last and other.first <= self.last)


def index_inputs(told: Tensor, season: Tensor) -> Tensor:
    """Return the inputs from the summaries `told [B, SUMMARIES]`, NaN if unknown, and `season [B, 2]`."""
    told = told.nan_to_num(0)
    return torch.cat([told, *(told * term[:, None] for term in season.unbind(1))], dim=1)


def known_ahead(windows: Any, known: Tensor) -> Tensor:
    """Return where a forecast is known on the initial dates, `[starts, 1, tile, N]`."""
    return known[windows.at + windows.history - 1][:, :1].isfinite() & windows.ocean


def years_of(days: Samples, stride: int, forecast: str = "") -> np.ndarray:
    """Return the years of the initial dates, with the name of a `forecast` only those in which it is known."""
    years = []
    for part in days(stride):
        years.append(_years(part))
        if forecast:
            is_known = known_ahead(part, part.predictors[forecast]).flatten(1).any(1)
            years[-1] = years[-1][is_known.numpy()]
    return np.unique(np.concatenate(years))


def by_block(windows: Any, blocks: Sequence[Block]) -> Iterator[tuple[int, int, int]]:
    """Divide windows by the newest block that has begun, or else the first.

    Yields the number of each block, and its windows as `[from, to)`.
    """
    first = [block.first for block in blocks]
    number = (np.searchsorted(first, _years(windows), side="right") - 1).clip(0)
    for block in np.unique(number):
        inside = np.flatnonzero(number == block)
        yield int(block), int(inside[0]), int(inside[-1]) + 1  # years follow one another


def without(samples: Samples, block: Block) -> Samples:
    """Return the windows that share no day with those of a block, nor remember one that these forecast."""

    def others(stride: int) -> Iterator[Any]:
        for part in samples(stride):
            before, after = _beside(part, block)
            for first, stop in ((0, before), (after, part.starts)):
                if first < stop:
                    yield part.part(first, stop)

    return others


def is_near(samples: Samples, block: Block, stride: int) -> bool:
    """Return whether `without` would leave out windows."""
    return any(len({*_beside(part, block)}) > 1 for part in samples(stride))


def _beside(windows: Any, block: Block) -> tuple[int, int]:
    """Return how many windows come before a block, and the number of the first one after it."""
    gap = (windows.history + windows.horizon) * DAY
    begin, end = block.first.astype("M8[D]"), (block.last + 1).astype("M8[D]") + windows.before * DAY
    dates = windows.init_times.astype("M8[D]")
    return int(np.searchsorted(dates, begin - gap)), int(np.searchsorted(dates, end + gap))


def _years(windows: Any) -> np.ndarray:
    """Return the year of each initial date."""
    years: np.ndarray = windows.init_times.astype("datetime64[Y]")
    return years
