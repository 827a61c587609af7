"""A local correction of the multiscale ridge, from principal components."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from sstcast.graphs.graph import Graph
from sstcast.models.linear import MultiscaleRidge, Samples, both, once
from sstcast.models.sums import Sums

EOF_STRIDE = 3
OVERSAMPLING, ITERATIONS = 10, 7  # directions more than wanted, and steps towards the leading ones
LARGEST_FIELD = 50_000_000  # values from which EOFs are computed, at most
SEASON = slice(3, 5)  # sine and cosine of the time of year in a graph's geography


class LocalRidge(MultiscaleRidge):
    """A multiscale ridge, with a correction for each cell from the leading principal components.

    The residual of the pooled map is regressed, for each cell and lead, on the `MODES` leading components at some
    `LAGS`, on the season, and on products of the season with the components of the last day. The penalty is
    applied as if all inputs had unit variance. So the dynamics may differ from place to place.
    """

    MODES, LAGS = 20, (0, 3, 7, 14, 28, 41)
    LOCAL_STRIDE = 5
    LOCAL_PENALTIES = (1e4, 3e3, 3e4, 1e5)
    patterns: Tensor
    local: Tensor

    def __init__(
        self, history: int, horizon: int, nodes: int, memory: bool = False, stencil: bool = False
    ) -> None:
        super().__init__(history, horizon, memory, stencil)
        self.lags = [lag for lag in self.LAGS if lag < history]
        self.modes = min(self.MODES, nodes)
        self.register_buffer("patterns", torch.zeros(self.modes, nodes))
        self.register_buffer("local", torch.zeros((len(self.lags) + 2) * self.modes + 3, nodes, horizon))

    def forward(self, history: Tensor, graph: Graph) -> Tensor:
        assert graph.geography is not None
        states = self.states([history[..., -1 - lag] for lag in self.lags], graph.geography[:, 0, SEASON])
        return super().forward(history, graph) + torch.tensordot(states, self.local, 1)

    def ahead(self, windows: Any) -> Tensor:
        """Forecast all windows (see `LinearSystem.ahead`)."""
        local = torch.tensordot(self._states(windows), self.local, 1)
        return super().ahead(windows) + local.movedim(-1, 1).unsqueeze(2)

    def states(self, days: list[Tensor], season: Tensor) -> Tensor:
        """Return the inputs of the correction, and 1, `[B, states]`, from the days `[B, N]` at `lags`."""
        components = [day @ self.patterns.T for day in days]
        products = [components[0] * term[:, None] for term in season.unbind(1)]
        return torch.cat([*components, season, *products, torch.ones_like(season[:, :1])], dim=1)

    def _states(self, windows: Any) -> Tensor:
        last = self.history - 1
        days = [windows.spans(last - lag, 1).flatten(1) for lag in self.lags]
        return self.states(days, windows.season[windows.at + last])

    def fit(self, train: Samples, validation: Samples | None, refit: bool = True) -> dict[str, Any]:
        """Fit the ridge, then the correction to its residual."""
        chosen, penalty = {}, self.LOCAL_PENALTIES[0]
        if validation is not None:
            penalty = self._choose(train, validation)
            chosen = {"local_penalty": penalty}
        chosen = super().fit(train, validation, refit) | chosen
        days = both(train, validation) if validation is not None and refit else train
        self.patterns.copy_(eofs(days, self.modes))
        for place, sums in self._rest(days).parts():
            self.local.flatten(1)[:, place] = solve_standardised(sums, penalty).float()
        return chosen

    def _choose(self, train: Samples, validation: Samples) -> float:
        """Return the penalty of the correction that has the least error on validation."""
        super().fit(train, None)
        self.patterns.copy_(eofs(train, self.modes))
        early, late = self._rest(train), self._rest(validation)
        errors = [
            sum(
                float(after.error(solve_standardised(before, penalty)).sum())
                for (_, before), (_, after) in zip(early.parts(), late.parts(), strict=True)
            )
            for penalty in self.LOCAL_PENALTIES
        ]
        return self.LOCAL_PENALTIES[int(np.argmin(errors))]

    def _rest(self, samples: Samples) -> Sums:
        sums = Sums(len(self.local), self.local[0].numel())
        for part in samples(self.LOCAL_STRIDE):
            rest = (part.spans(self.history, self.horizon) - super().ahead(part)) * part.ocean
            sums.add(self._states(part), rest.transpose(1, 3).flatten(1))
        return sums


def solve_standardised(sums: Sums, penalty: float) -> Tensor:
    """Solve for weights `[inputs, outputs]`, with a penalty as if inputs were standardised; the last input is 1.

    The outputs have a mean of 0, so the only intercept is the one that centres the inputs.
    """
    count, total = sums.gram[-1, -1], sums.gram[:-1, -1]
    mean = total / count
    covariance = sums.gram[:-1, :-1] - torch.outer(total, mean)
    deviation = (covariance.diagonal() / count).clamp(min=1e-12).sqrt()
    gram = covariance / torch.outer(deviation, deviation) + penalty * torch.eye(len(mean), dtype=torch.float64)
    cross = (sums.cross[:-1] - torch.outer(mean, sums.cross[-1])) / deviation[:, None]
    weight = torch.linalg.solve(gram, cross) / deviation[:, None]
    return torch.cat([weight, -(mean @ weight)[None]])


def eofs(samples: Samples, count: int) -> Tensor:
    """Return the leading EOFs `[count, N]` of the last days of history, orthonormal, 0 on land."""
    return once(samples, ("eofs", count), lambda: _eofs(samples, count))


def _eofs(samples: Samples, count: int) -> Tensor:
    kept: list[Tensor] = []
    step = 1
    days = (day for part in samples(EOF_STRIDE) for day in part.spans(part.history - 1, 1).flatten(0, 2))
    for number, day in enumerate(days):
        if number % step == 0:
            kept.append(day.clone())  # a view would keep all days
        if len(kept) * day.numel() > LARGEST_FIELD:
            kept, step = kept[::2], 2 * step
    thinned = torch.stack(kept)
    found = principal(thinned - thinned.mean(0), count)
    patterns = torch.zeros(count, thinned.shape[1])
    patterns[: len(found)] = found
    return patterns * thinned.any(0)  # on land they are not quite 0


def principal(field: Tensor, count: int) -> Tensor:
    """Return the directions `[count, N]` in which `field [T, N]` varies most, fewer if it has not as many."""
    with torch.random.fork_rng(devices=[]):  # it begins with random directions
        torch.manual_seed(0)
        found = torch.svd_lowrank(field, min(count + OVERSAMPLING, *field.shape), niter=ITERATIONS)
    return found[2].T[:count]
