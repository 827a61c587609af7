"""Linear systems fitted in closed form, without training steps; each takes seconds.

All use the standardised anomalies of one tile, 0 on land. `training.fitting` fits them to the windows of a run.
"""

from collections.abc import Callable, Iterable
from functools import reduce
from itertools import chain
from operator import add
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from sstcast.graphs.graph import Graph
from sstcast.graphs.grid import GridGraph
from sstcast.models.base import ForecastModel
from sstcast.models.lagged import box_means, daily, lagged_sums
from sstcast.models.sums import Sums

# Given n, the windows of a split that start every n days, some at a time, as `ocean.windows.Windows`.
Samples = Callable[[int], Iterable[Any]]
Made = TypeVar("Made")
_KNOWN: WeakKeyDictionary[Samples, dict[Any, Any]] = WeakKeyDictionary()


class LinearSystem(ForecastModel):
    """A forecaster whose weights are buffers, which `fit` computes from windows that start `STRIDE` days apart."""

    STRIDE = 7

    def __init__(self, history: int, horizon: int) -> None:
        super().__init__()
        self.history, self.horizon = history, horizon

    def ahead(self, windows: Any) -> Tensor:
        """Forecast all windows of a piece of `Samples`: `[starts, horizon, tile, N]`."""
        batch = windows.batch(torch.arange(len(windows), device=windows.device))
        forecast = self(batch.history, batch.graph).unflatten(0, (windows.starts, -1))
        return forecast.movedim(-1, 1)

    def fit(self, train: Samples, validation: Samples | None, refit: bool = True) -> dict[str, Any]:
        """Fit the weights to the training windows; choose options, such as a penalty, on the validation windows.

        With the chosen options, the weights are fitted again to both splits, unless `refit` is false. Without
        `validation`, the first option is used, with the training windows only. Returns the chosen options by name.
        """
        return {}


class Climatology(LinearSystem):
    """An anomaly of 0 on all days."""

    def forward(self, history: Tensor, graph: Graph) -> Tensor:
        return history.new_zeros(*history.shape[:-1], self.horizon)


class Persistence(LinearSystem):
    """The anomaly of the last day of history, repeated."""

    def forward(self, history: Tensor, graph: Graph) -> Tensor:
        return history[..., -1:].expand(*history.shape[:-1], self.horizon)


class DampedPersistence(LinearSystem):
    """The last anomaly times one coefficient per lead: least squares without intercept on training windows."""

    STRIDE = 1
    damping: Tensor

    def __init__(self, history: int, horizon: int) -> None:
        super().__init__(history, horizon)
        self.register_buffer("damping", torch.zeros(horizon))

    def fit(self, train: Samples, validation: Samples | None, refit: bool = True) -> dict[str, Any]:
        """Fit the coefficients; nothing is chosen."""
        sums = sums_of(train, self.STRIDE)
        last = self.history - 1
        fitted = sums.cross[last] / sums.gram[last, last].clamp(min=1e-12)
        self.damping.copy_(fitted)
        return {}

    def forward(self, history: Tensor, graph: Graph) -> Tensor:
        return history[..., -1:] * self.damping


class Ridge(LinearSystem):
    """One linear map from a cell's history to all leads, pooled over ocean cells; the constant is not penalised.

    `BOXES` are the sides, in cells, of boxes around the cell; the history averaged over their ocean is a further
    input; 0 is the whole tile. The penalty of each lead is the best of `PENALTIES` on validation.
    """

    BOXES: tuple[int, ...] = ()
    PENALTIES: tuple[float, ...] = (10.0,)
    weight: Tensor

    def __init__(self, history: int, horizon: int) -> None:
        super().__init__(history, horizon)
        self.register_buffer("weight", torch.zeros((1 + len(self.BOXES)) * history + 1, horizon))

    def forward(self, history: Tensor, graph: Graph) -> Tensor:
        assert isinstance(graph, GridGraph)
        ocean = graph.mask.unsqueeze(-1).to(history.dtype)
        weights = self.weight[:-1].unflatten(0, (-1, self.history))
        # The mean of a product is the product of the mean, and there are fewer leads than days.
        own, *around = ((history * ocean) @ torch.cat(list(weights), dim=1)).split(self.horizon, dim=-1)
        means = (box_means(part, graph, size) for part, size in zip(around, self.BOXES, strict=True))
        return sum(means, start=own) + self.weight[-1] * ocean

    def ahead(self, windows: Any) -> Tensor:
        """Forecast all windows (see `LinearSystem.ahead`): box means are of days, not of windows."""
        fields = daily(windows, self.BOXES)
        seen = fields.unfold(0, self.history, windows.every)[: windows.starts].permute(0, 3, 1, 2).flatten(1, 2)
        weight = self.weight[:-1].unflatten(0, (-1, self.history)).transpose(0, 1).flatten(0, 1)
        forecast = torch.bmm(weight.T.expand(len(seen), -1, -1), seen).unflatten(-1, windows.ocean.shape)
        return forecast + self.weight[-1][:, None, None] * windows.ocean

    def fit(self, train: Samples, validation: Samples | None, refit: bool = True) -> dict[str, Any]:
        """Solve the normal equations."""
        sums = sums_of(train, self.STRIDE, self.BOXES)
        if validation is None or len(self.PENALTIES) == 1:
            self.weight.copy_(sums.solve(self.PENALTIES[0]))
            return {}
        late = sums_of(validation, self.STRIDE, self.BOXES)
        errors = torch.stack([late.error(sums.solve(penalty)) for penalty in self.PENALTIES])
        best, total = errors.argmin(0), sums + late if refit else sums
        for choice, penalty in enumerate(self.PENALTIES):
            self.weight[:, best == choice] = total.solve(penalty)[:, best == choice].float()
        return {"penalty": [self.PENALTIES[choice] for choice in best]}


class MultiscaleRidge(Ridge):
    """Ridge regression that also sees means over the 3 x 3, 7 x 7 and 15 x 15 cells around, and over the tile."""

    BOXES = (3, 7, 15, 0)
    PENALTIES = (1e3, 1e2, 1e4, 1e5)


def sums_of(samples: Samples, stride: int, boxes: tuple[int, ...] = ()) -> Sums:
    """Return the sums for a ridge on windows that start `stride` days apart (see `lagged_sums`)."""
    return once(
        samples, (stride, boxes), lambda: reduce(add, (lagged_sums(part, boxes) for part in samples(stride)))
    )


def once(samples: Samples, key: object, make: Callable[[], Made]) -> Made:
    """Return what `make` made of `samples` the first time, when it is asked for again under the same `key`."""
    made: dict[Any, Made] = _KNOWN.setdefault(samples, {})
    if key not in made:
        made[key] = make()
    return made[key]


def both(first: Samples, second: Samples) -> Samples:
    """Return the samples of two splits as one."""
    return lambda stride: chain(first(stride), second(stride))
