"""Predictors besides SST in linear systems: corrections of a ridge's errors, one predictor after another.

A coefficient of an index belongs to its place: El Nino warms one cell and cools another. So the errors of each
cell and lead are regressed on an index, on the days that the ridge was fitted to. Cross-validation over blocks of
their years chooses the penalty of each lead. One candidate is an infinite penalty, which leaves the forecast as it
is.
"""

from collections.abc import Mapping
from copy import deepcopy
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sstcast.graphs.graph import Graph
from sstcast.graphs.grid import GridGraph
from sstcast.models.base import CHANNELS, LinearSystem, Samples
from sstcast.models.eof_models import SEASON
from sstcast.models.linear import both
from sstcast.models.ridge_inputs import Sums

SUMMARIES = 2  # numbers that an index tells on a day (`ocean.predictors.known_index`)
INPUTS = 3 * SUMMARIES  # these, and their products with the sine and cosine of the time of year
BLOCKS = 5  # of consecutive years, each of which is forecast from the others
PENALTIES = (torch.inf, 3e2, 1e3, 3e3, 1e4, 3e4)


class WithPredictors(LinearSystem):
    """A linear system whose errors are corrected by predictors, in their order.

    Attributes:
        system: the linear system, which reads SST alone.
        kinds: the kind of each predictor by name.
    """

    def __init__(self, system: LinearSystem, kinds: Mapping[str, str], nodes: int) -> None:
        super().__init__(system.history, system.horizon)
        self.system, self.kinds = system, dict(kinds)
        for name in self.kinds:
            self.register_buffer(f"of_{name}", torch.zeros(INPUTS, nodes, self.horizon))

    @property
    def before(self) -> int:
        """The number of days that a forecast reads before its history."""
        return self.system.before

    def forward(self, history: Tensor, graph: Graph) -> Tensor:
        """Forecast the coming days. A predictor that is not known on the initial date changes nothing."""
        assert isinstance(graph, GridGraph)
        assert graph.geography is not None
        assert graph.predictors is not None
        season, forecast = graph.geography[:, 0, SEASON], self.system(history, graph)
        widths = [CHANNELS[kind] for kind in self.kinds.values()]
        for name, known in zip(self.kinds, graph.predictors.split(widths, dim=-1), strict=True):
            forecast = forecast + torch.tensordot(
                index_inputs(known[:, 0, :SUMMARIES], season), self._weight(name), 1
            )
        return forecast

    def forecast_windows(self, windows: Any) -> Tensor:
        """Forecast all windows (see `LinearSystem.forecast_windows`)."""
        forecast = self.system.forecast_windows(windows)
        for name in self.kinds:
            if self._weight(name).any():
                change = torch.tensordot(self._inputs_of(name, windows), self._weight(name), 1)
                forecast = forecast + change.movedim(-1, 1).unsqueeze(2)
        return forecast

    def fit(self, train: Samples, validation: Samples | None, refit: bool = True) -> dict[str, Any]:
        """Fit the system, then one correction after another to the errors left (see `LinearSystem.fit`)."""
        chosen = self.system.fit(train, validation, refit)
        days = both(train, validation) if validation is not None and refit else train
        return chosen | {f"penalty_of_{name}": penalty for name, penalty in self._fit_predictors(days).items()}

    def without(self, left_out: str, train: Samples, validation: Samples) -> "WithPredictors":
        """Return a copy in which the penalty of a predictor is infinite at all leads, to measure what it adds.

        The corrections after it are fitted again.
        """
        other = deepcopy(self)
        if left_out == [*self.kinds][-1]:
            other._weight(left_out).zero_()
        else:
            other._fit_predictors(both(train, validation), left_out)
        return other

    def _fit_predictors(self, days: Samples, left_out: str = "") -> dict[str, list[float]]:
        """Fit the corrections, except one, to the errors of the system. Return the penalties of each by lead."""
        for name in self.kinds:
            self._weight(name).zero_()
        penalties = {}
        for name in self.kinds:
            if name != left_out:
                weight, penalties[name] = cross_validate_by_cell(self._blocks(name, days), self.horizon)
                self._weight(name).copy_(weight)
        return penalties

    def _weight(self, name: str) -> Tensor:
        weight: Tensor = getattr(self, f"of_{name}")
        return weight

    def _inputs_of(self, name: str, windows: Any) -> Tensor:
        last = windows.at + self.history - 1
        return index_inputs(windows.predictors[name][last].nan_to_num(0), windows.season[last])

    def _blocks(self, name: str, days: Samples) -> list[Sums]:
        """Return the sums over blocks of years of the inputs and the errors that are left."""
        years = np.unique(np.concatenate([_years(part) for part in days(self.STRIDE)]))
        first = [block[0] for block in np.array_split(years, min(BLOCKS, len(years)))]
        blocks = [Sums(INPUTS, self._weight(name)[0].numel()) for _ in first]
        for part in days(self.STRIDE):
            errors = (part.spans(self.history, self.horizon) - self.forecast_windows(part)) * part.ocean
            errors, inputs = errors.transpose(1, 3).flatten(1), self._inputs_of(name, part)
            number = np.searchsorted(first, _years(part), side="right") - 1
            for block in np.unique(number):
                inside = torch.from_numpy(number == block)
                blocks[block].add(inputs[inside], errors[inside])
        return blocks


def index_inputs(told: Tensor, season: Tensor) -> Tensor:
    """Return the inputs `[B, INPUTS]` from the summaries `told [B, SUMMARIES]` and `season [B, 2]`."""
    return torch.cat([told, *(told * term[:, None] for term in season.unbind(1))], dim=1)


def _years(windows: Any) -> np.ndarray:
    """Return the year of each initial date."""
    years: np.ndarray = windows.init_times.astype("datetime64[Y]")
    return years


def cross_validate_by_cell(blocks: list[Sums], horizon: int) -> tuple[Tensor, list[float]]:
    """Choose the penalty of each lead over all cells by cross-validation, and fit each cell to all blocks.

    Args:
        blocks: the sums of each block of years, with outputs `[cells, horizon]`. A single one supports nothing.
        horizon: the number of leads.

    Returns:
        The weights `[inputs, cells, horizon]`, and the penalty of each lead.
    """
    total = reduce(add, blocks)
    errors = torch.zeros(len(PENALTIES), horizon, dtype=torch.float64)
    for block in blocks if len(blocks) > 1 else []:
        for number, penalty in enumerate(PENALTIES):
            errors[number] += block.error(_solve(total - block, penalty)).unflatten(0, (-1, horizon)).sum(0)
    best = errors.argmin(0)
    weight = torch.zeros_like(total.cross).unflatten(1, (-1, horizon))
    for number in best.unique().tolist():
        fitted = _solve(total, PENALTIES[number]).unflatten(1, (-1, horizon))
        weight[..., best == number] = fitted[..., best == number]
    return weight, [PENALTIES[number] for number in best.tolist()]


def _solve(sums: Sums, penalty: float) -> Tensor:
    """Return the ridge weights `[inputs, outputs]`, 0 if the penalty is infinite."""
    if penalty == torch.inf:
        return torch.zeros_like(sums.cross)
    return torch.linalg.solve(sums.gram + penalty * torch.eye(len(sums.gram), dtype=torch.float64), sums.cross)
