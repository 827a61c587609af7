"""Linear systems fitted in closed form, without training steps; each takes seconds.

All use the standardised anomalies of one tile, 0 on land. `training.fitting` fits them to the windows of a run.
"""

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from sstcast.graphs.graph import Graph
from sstcast.graphs.grid import GridGraph
from sstcast.models.base import ForecastModel
from sstcast.models.sums import Sums

# Given n, every n-th window of a split, in batches that have `history [B, N, history]`, `target [B, N, horizon]`,
# `ocean [B, N]` and their `graph`.
Samples = Callable[[int], Iterable[Any]]
Made = TypeVar("Made")
_KNOWN: WeakKeyDictionary[Samples, dict[Any, Any]] = WeakKeyDictionary()


class LinearSystem(ForecastModel):
    """A forecaster whose weights are buffers, which `fit` computes from windows that start `STRIDE` days apart."""

    STRIDE = 7

    def __init__(self, history: int, horizon: int) -> None:
        super().__init__()
        self.history, self.horizon = history, horizon

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
        fitted = once(
            train, type(self), lambda: damping((s.history[..., -1:], s.target) for s in train(self.STRIDE))
        )
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

    def inputs(self, history: Tensor, graph: Graph) -> Tensor:
        """Return each node's history, those of the boxes around it, and 1: `[B, N, (1 + boxes) * history + 1]`.

        All are 0 on land.
        """
        assert isinstance(graph, GridGraph)
        ocean = graph.mask.unsqueeze(-1).to(history.dtype).expand_as(history[..., :1])
        history = history * ocean
        means = [box_means(history, graph, size) for size in self.BOXES]
        return torch.cat([history, *means, ocean], dim=-1)

    def forward(self, history: Tensor, graph: Graph) -> Tensor:
        return self.inputs(history, graph) @ self.weight

    def fit(self, train: Samples, validation: Samples | None, refit: bool = True) -> dict[str, Any]:
        """Solve the normal equations."""
        sums = self._sums(train)
        if validation is None or len(self.PENALTIES) == 1:
            self.weight.copy_(sums.solve(self.PENALTIES[0]))
            return {}
        late = self._sums(validation)
        errors = torch.stack([late.error(sums.solve(penalty)) for penalty in self.PENALTIES])
        best, total = errors.argmin(0), sums + late if refit else sums
        for choice, penalty in enumerate(self.PENALTIES):
            self.weight[:, best == choice] = total.solve(penalty)[:, best == choice].float()
        return {"penalty": [self.PENALTIES[choice] for choice in best]}

    def _sums(self, samples: Samples) -> Sums:
        def add_up() -> Sums:
            sums = Sums(len(self.weight), self.horizon)
            for sample in samples(self.STRIDE):
                sums.add(self.inputs(sample.history, sample.graph).flatten(0, 1), sample.target.flatten(0, 1))
            return sums

        return once(samples, self.BOXES, add_up)


class MultiscaleRidge(Ridge):
    """Ridge regression that also sees means over the 3 x 3, 7 x 7 and 15 x 15 cells around, and over the tile."""

    BOXES = (3, 7, 15, 0)
    PENALTIES = (1e3, 1e2, 1e4, 1e5)


def box_means(history: Tensor, graph: GridGraph, size: int) -> Tensor:
    """Average `history [B, N, T]`, 0 on land, over the ocean of boxes of `size` x `size` cells around each node.

    Boxes end at the tile's edge; a `size` of 0 is the whole tile. The mean is 0 on land.
    """
    shape, ocean = (graph.height, graph.width), graph.mask.unsqueeze(-1).to(history.dtype)
    if size == 0:
        return (history.sum(1) / ocean.sum(1).clamp(min=1)).unsqueeze(1) * ocean
    sums, counts = (_box_sums(x.unflatten(1, shape), size).flatten(1, 2) for x in (history, ocean))
    return sums * (ocean / counts.clamp(min=1))


def _box_sums(field: Tensor, size: int) -> Tensor:
    """Sum `[B, H, W, T]` over boxes: differences of cumulative sums, so the cost does not depend on the size."""
    reach = size // 2
    for dim in (1, 2):
        total, cells = field.cumsum(dim), field.shape[dim]
        inner = max(cells - reach, 0)
        field = total.narrow(dim, cells - 1, 1).repeat_interleave(cells, dim)
        field.narrow(dim, 0, inner).copy_(total.narrow(dim, cells - inner, inner))
        beyond = max(inner - 1, 0)
        field.narrow(dim, cells - beyond, beyond).sub_(total.narrow(dim, 0, beyond))
    return field


def damping(pairs: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
    """Return the coefficients `[horizon]` of a least-squares fit of `y [..., horizon]` to `x [..., 1]`."""
    products, squares = torch.zeros(1, dtype=torch.float64), 0.0
    for x, y in pairs:
        products = products + (x * y).flatten(0, -2).sum(0, dtype=torch.float64)
        squares += float(x.square().sum(dtype=torch.float64))
    return products / max(squares, 1e-12)


def once(samples: Samples, key: object, make: Callable[[], Made]) -> Made:
    """Return what `make` made of `samples` the first time, when it is asked for again under the same `key`."""
    made: dict[Any, Made] = _KNOWN.setdefault(samples, {})
    if key not in made:
        made[key] = make()
    return made[key]


def both(first: Samples, second: Samples) -> Samples:
    """Return the samples of two splits as one."""
    return lambda stride: chain(first(stride), second(stride))
