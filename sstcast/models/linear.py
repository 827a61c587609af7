"""Linear systems, which `training.forecast_task.fit` fits in closed form, in seconds.

All read and forecast standardised anomalies of one tile, 0 on land.
"""

from collections.abc import Callable
from functools import reduce
from itertools import chain, product
from operator import add
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from sstcast.errors import SSTCastError
from sstcast.graphs.graph import Graph
from sstcast.graphs.grid import GridGraph
from sstcast.models.base import LinearSystem, Samples
from sstcast.models.registry import MEMORY_DAYS
from sstcast.models.ridge_inputs import Inputs, Sums, box_means, cross_validate, daily, lagged_sums

Made = TypeVar("Made")
DECADE = np.timedelta64(3652, "D")
YEAR = np.timedelta64(365, "D")  # the unit of time of a trend
_CACHE: WeakKeyDictionary[Samples, dict[Any, Any]] = WeakKeyDictionary()


class Climatology(LinearSystem):
    """An anomaly of 0 on all days."""

    def forward(self, history: Tensor, graph: Graph) -> Tensor:
        """Map `history [B, N, history]` to zeros, `[B, N, horizon]`."""
        return history.new_zeros(*history.shape[:-1], self.horizon)


class TrendClimatology(LinearSystem):
    """A linear trend in each cell, extrapolated to the day of the forecast.

    `line [2, N]` holds the anomaly on the last day of the fit, and its change per year.
    """

    TRANSFER = "region"
    line: Tensor
    last: Tensor

    def __init__(self, history: int, horizon: int, nodes: int) -> None:
        super().__init__(history, horizon)
        self.register_buffer("line", torch.zeros(2, nodes))
        self.register_buffer("last", torch.zeros((), dtype=torch.int64))  # days since 1970

    def forward(self, history: Tensor, graph: Graph) -> Tensor:
        """Raise SSTCastError, because neither argument tells the day."""
        raise SSTCastError(
            "trend-climatology: needs the day, which windows tell; call forecast_windows instead of the model"
        )

    def forecast_windows(self, windows: Any) -> Tensor:
        """Forecast all windows (see `LinearSystem.forecast_windows`)."""
        days = windows.init_times[:, None] + np.arange(1, self.horizon + 1) * np.timedelta64(1, "D")
        return (self._inputs(days) @ self.line).unsqueeze(2)

    def fit(self, train: Samples, validation: Samples | None, refit: bool = True) -> dict[str, Any]:
        """Fit the line by least squares (see `LinearSystem.fit`)."""
        days = both(train, validation) if validation is not None and refit else train
        last = max(windows.init_times[-1] for windows in days(self.STRIDE)).astype("datetime64[D]")
        self.last.fill_(int(last.astype(int)))
        gram, cross = (
            torch.zeros(2, 2, dtype=torch.float64),
            torch.zeros(2, self.line.shape[1], dtype=torch.float64),
        )
        for windows in days(self.STRIDE):
            inputs = self._inputs(windows.init_times).double() * self._weight(windows.init_times)[:, None]
            gram += inputs.T @ inputs
            cross += inputs.T @ windows.spans(self.history - 1, 1).flatten(1).double()
        self.line.copy_(self._solve(gram, cross))
        return {}

    def _inputs(self, days: np.ndarray) -> Tensor:
        """Return 1 and the years since the last day of the fit, `[..., 2]`."""
        years = (days - np.datetime64(int(self.last), "D")) / YEAR
        return torch.from_numpy(np.stack([np.ones_like(years), years], -1)).to(self.line)

    def _weight(self, days: np.ndarray) -> Tensor:
        return torch.ones(len(days), dtype=torch.float64)

    def _solve(self, gram: Tensor, cross: Tensor) -> Tensor:
        return torch.linalg.solve(gram, cross)


class RecentClimatology(TrendClimatology):
    """The mean anomaly in each cell over the last ten years of the fit."""

    def forward(self, history: Tensor, graph: Graph) -> Tensor:
        """Map `history [B, N, history]` to `[B, N, horizon]`."""
        return self.line[0, :, None].expand(*history.shape[:-1], self.horizon)

    def _weight(self, days: np.ndarray) -> Tensor:
        return torch.from_numpy((days > np.datetime64(int(self.last), "D") - DECADE).astype(float))

    def _solve(self, gram: Tensor, cross: Tensor) -> Tensor:
        return torch.stack([cross[0] / gram[0, 0], torch.zeros_like(cross[0])])


class Persistence(LinearSystem):
    """The anomaly of the last day of history, repeated."""

    def forward(self, history: Tensor, graph: Graph) -> Tensor:
        """Map `history [B, N, history]` to `[B, N, horizon]`."""
        return history[..., -1:].expand(*history.shape[:-1], self.horizon)


class DampedPersistence(LinearSystem):
    """The last anomaly times one coefficient for each lead, fitted by least squares without intercept."""

    STRIDE = 1
    damping: Tensor

    def __init__(self, history: int, horizon: int) -> None:
        super().__init__(history, horizon)
        self.register_buffer("damping", torch.zeros(horizon))

    def fit(self, train: Samples, validation: Samples | None, refit: bool = True) -> dict[str, Any]:
        """Fit the coefficients to the training windows alone (see `LinearSystem.fit`)."""
        squares, products = torch.zeros((), dtype=torch.float64), torch.zeros(self.horizon, dtype=torch.float64)
        for windows in train(self.STRIDE):
            last = (windows.spans(self.history - 1, 1) * windows.ocean).flatten(2)
            ahead = windows.spans(self.history, self.horizon).flatten(2)
            squares += last.square().sum(dtype=torch.float64)
            products += (ahead @ last.mT).squeeze(2).sum(0, dtype=torch.float64)
        self.damping.copy_(products / squares.clamp(min=1e-12))
        return {}

    def forward(self, history: Tensor, graph: Graph) -> Tensor:
        """Map `history [B, N, history]` to `[B, N, horizon]`."""
        return history[..., -1:] * self.damping


class Ridge(LinearSystem):
    """One linear map from the history of a cell to all leads, fitted to all ocean cells together.

    `BOXES` are the sides, in cells, of boxes around the cell, 0 for the whole tile. The mean history over the
    ocean of each box is a further input. The penalty of each lead is the best of `PENALTIES` on the validation
    windows. It does not apply to the constant.
    """

    BOXES: tuple[int, ...] = ()
    PENALTIES: tuple[float, ...] = (10.0,)
    weight: Tensor

    def __init__(self, history: int, horizon: int) -> None:
        super().__init__(history, horizon)
        self._set_inputs(Inputs(self.BOXES))

    def _set_inputs(self, inputs: Inputs) -> None:
        """Set the inputs, and make a weight for each of them and the constant."""
        self.inputs, self.groups = inputs, inputs.groups(self.history)
        self.register_buffer("weight", torch.zeros(sum(self.groups.values()) + 1, self.horizon))

    def _weights(self) -> tuple[Tensor, Tensor]:
        """Return the weights of the histories, `[1 + boxes, history, horizon]`, and of the further groups."""
        pooled, further = self.weight[:-1].tensor_split([self.groups["history"]])
        return pooled.unflatten(0, (-1, self.history)), further

    def forward(self, history: Tensor, graph: Graph) -> Tensor:
        """Forecast. With a memory, `history` begins with the days before the window."""
        assert isinstance(graph, GridGraph)
        self._check(history.shape[-1] - self.history)
        ocean = graph.mask.unsqueeze(-1).to(history.dtype)
        weights, further = self._weights()
        past = history * ocean
        # The mean of a product is the product of the mean, and there are fewer leads than days.
        cell, *boxes = (past[..., -self.history :] @ torch.cat(list(weights), dim=1)).split(self.horizon, dim=-1)
        means = (box_means(box, graph, size) for box, size in zip(boxes, self.BOXES, strict=True))
        forecast = sum(means, start=cell) + self.weight[-1] * ocean
        return forecast + self.inputs.further_of(past, graph, self.history) @ further if len(further) else forecast

    def _check(self, before: int) -> None:
        if before < self.before:
            raise SSTCastError(
                f"history: the memory needs {self.before + self.history} days up to the initial date, "
                f"there are {before + self.history}; give a longer record, or train without model.memory"
            )

    def forecast_windows(self, windows: Any) -> Tensor:
        """Forecast all windows (see `LinearSystem.forecast_windows`). Each box mean is computed once for a day."""
        self._check(windows.before)
        fields = daily(windows, self.BOXES)
        inputs = fields.unfold(0, self.history, windows.every)[: windows.starts].permute(0, 3, 1, 2).flatten(1, 2)
        weights, further = self._weights()
        weight = weights.transpose(0, 1).flatten(0, 1)
        forecast = torch.bmm(weight.T.expand(len(inputs), -1, -1), inputs)
        if len(further):
            forecast += further.T @ self.inputs.further(windows, fields)
        forecast = forecast.unflatten(-1, windows.ocean.shape)
        return forecast + self.weight[-1][:, None, None] * windows.ocean

    def fit(self, train: Samples, validation: Samples | None, refit: bool = True) -> dict[str, Any]:
        """Solve the normal equations."""
        sums = sums_of(train, self.STRIDE, self.inputs)
        if validation is None or len(self.PENALTIES) == 1:
            self.weight.copy_(sums.solve(self.PENALTIES[0]))
            return {}
        late = sums_of(validation, self.STRIDE, self.inputs)
        errors = torch.stack([late.error(sums.solve(penalty)) for penalty in self.PENALTIES])
        best, total = errors.argmin(0), sums + late if refit else sums
        for choice, penalty in enumerate(self.PENALTIES):
            self.weight[:, best == choice] = total.solve(penalty)[:, best == choice].float()
        return {"penalty": [self.PENALTIES[choice] for choice in best]}


class MultiscaleRidge(Ridge):
    """A ridge that also reads means over 3 x 3, 7 x 7 and 15 x 15 cells around the cell, and over the tile.

    With `memory` or `stencil` it reads groups of inputs (see `ridge_inputs.Inputs`). The history then has one
    penalty and the further groups another. Both are chosen for each lead by cross-validation over years. These
    include the validation years if the weights are fitted to them. In the memory of training windows, days before
    the record count as days without anomaly. If there are too many of them (`ocean.windows.cut_windows`), the
    memory is left out.
    """

    BOXES = (3, 7, 15, 0)
    PENALTIES = (1e3, 1e2, 1e4, 1e5)
    BY_GROUP = (
        (1e3, 1e2, 3e2, 3e3, 1e4, 3e4, 1e5),  # of the history
        (1e5, 1e4, 3e4, 3e5, 1e6),  # of the further groups
    )

    def __init__(self, history: int, horizon: int, memory: bool = False, stencil: bool = False) -> None:
        super().__init__(history, horizon)
        self._set_inputs(Inputs(self.BOXES, memory, stencil))
        self.remembers = memory  # a plain value, because a forward pass on a GPU would wait for a buffer

    @property
    def before(self) -> int:
        """The number of days that a forecast reads before its history."""
        return max(0, MEMORY_DAYS - self.history) if self.remembers else 0

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.inputs.memory:
            destination[prefix + "remembers"] = torch.tensor(self.remembers)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *arguments: Any) -> None:
        self.remembers = self.inputs.memory and bool(state_dict.pop(prefix + "remembers", True))
        super()._load_from_state_dict(state_dict, prefix, *arguments)

    def fit(self, train: Samples, validation: Samples | None, refit: bool = True) -> dict[str, Any]:
        """Solve the normal equations."""
        if not (self.inputs.memory or self.inputs.stencil):
            return super().fit(train, validation, refit)
        if self.inputs.memory:
            first = next(iter(train(self.STRIDE)))
            self.remembers = first.before + first.history >= MEMORY_DAYS
        count, pairs = self.groups["history"], list(product(*self.BY_GROUP))
        penalties = [torch.full((len(self.weight) - 1,), further_penalty) for _, further_penalty in pairs]
        for penalty, (pooled_penalty, _) in zip(penalties, pairs, strict=True):
            penalty[:count] = pooled_penalty
        if validation is None or not refit:
            # The same for all who ask, such as a correction before and after its penalty is chosen.
            key = ("cross-validated", self.STRIDE, self.inputs, self.BY_GROUP)
            weight, best = once(train, key, lambda: self._cross_validated(penalties, train))
        else:
            weight, best = self._cross_validated(penalties, train, validation)
        self.weight.copy_(weight[:, 0])
        return {"penalty": [list(pairs[choice]) for choice in best.tolist()]}

    def _cross_validated(self, penalties: list[Tensor], *splits: Samples) -> tuple[Tensor, Tensor]:
        """Choose penalties by cross-validation over the years in the splits (see `cross_validate`)."""
        by_year: dict[int, Sums] = {}
        for split in splits:
            for year, sums in sums_by_year(split, self.STRIDE, self.inputs).items():
                by_year[year] = by_year[year] + sums if year in by_year else sums
        return cross_validate([*by_year.values()], Sums.solve, penalties, self.horizon)


def sums_of(samples: Samples, stride: int, inputs: Inputs) -> Sums:
    """Return the sums for a ridge over all windows that start `stride` days apart (see `lagged_sums`)."""
    return once(
        samples, (stride, inputs), lambda: reduce(add, (lagged_sums(part, inputs) for part in samples(stride)))
    )


def sums_by_year(samples: Samples, stride: int, inputs: Inputs) -> dict[int, Sums]:
    """Return the sums for a ridge (see `sums_of`) for each year of initial dates."""

    def make() -> dict[int, Sums]:
        yearly_sums: dict[int, Sums] = {}
        for windows in samples(stride):
            years = windows.init_times.astype("datetime64[Y]").astype(int) + 1970
            for year in np.unique(years).tolist():
                first, last = np.searchsorted(years, [year, year + 1])
                sums = lagged_sums(windows.part(int(first), int(last)), inputs)
                yearly_sums[year] = yearly_sums[year] + sums if year in yearly_sums else sums
        return yearly_sums

    return once(samples, ("years", stride, inputs), make)


def once(samples: Samples, key: object, make: Callable[[], Made]) -> Made:
    """Call `make` once for each `key` of `samples`, and return the cached result from then on."""
    cache: dict[Any, Made] = _CACHE.setdefault(samples, {})
    if key not in cache:
        cache[key] = make()
    return cache[key]


def both(first: Samples, second: Samples) -> Samples:
    """Return the samples of two splits as one."""
    return lambda stride: chain(first(stride), second(stride))
