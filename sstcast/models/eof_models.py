"""Linear systems on principal components: a multiscale ridge with local corrections, a linear inverse model."""

from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sstcast.errors import SSTCastError
from sstcast.graphs.graph import Graph
from sstcast.models.base import LinearSystem, Samples
from sstcast.models.linear import MultiscaleRidge, both, once
from sstcast.models.ridge_inputs import Sums
from sstcast.progress import tracked
from sstcast.types import Array

EOF_STRIDE = 3
OVERSAMPLING, ITERATIONS = 10, 7  # extra directions, and power iterations, of the randomised SVD
LARGEST_FIELD = 50_000_000  # values from which EOFs are computed, at most
SMALLEST_SHARE = 1e-6  # of the variance: an EOF with less is rounding noise
SMALLEST_REST = 1e-5  # of the variance outside the EOFs: a smaller rest is rounding noise
MOST_VARIANCE = 1.05  # of forecasts, over that of the days that they begin from
SEASON = slice(3, 5)  # sine and cosine of the time of year in `Graph.geography`


class LocalRidge(MultiscaleRidge):
    """A multiscale ridge with a correction for each cell, so that the dynamics may differ from place to place.

    The residual of the ridge is regressed, for each cell and lead, on the `MODES` leading principal components at
    the `LAGS` (in days), on the season, and on products of the season with the components of the last day. The
    penalty is applied as if all inputs had unit variance.
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
        """Map `history [B, N, history]` to `[B, N, horizon]`."""
        assert graph.geography is not None
        states = self.states([history[..., -1 - lag] for lag in self.lags], graph.geography[:, 0, SEASON])
        return super().forward(history, graph) + torch.tensordot(states, self.local, 1)

    def forecast_windows(self, windows: Any) -> Tensor:
        """Forecast all windows (see `LinearSystem.forecast_windows`)."""
        local = torch.tensordot(self._states(windows), self.local, 1)
        return super().forecast_windows(windows) + local.movedim(-1, 1).unsqueeze(2)

    def states(self, days: list[Tensor], season: Tensor) -> Tensor:
        """Return the inputs of the correction, `[B, states]`, from the days `[B, N]` at `lags`. The last input is
        1.
        """
        components = [day @ self.patterns.T for day in days]
        products = [components[0] * term[:, None] for term in season.unbind(1)]
        return torch.cat([*components, season, *products, torch.ones_like(season[:, :1])], dim=1)

    def _states(self, windows: Any) -> Tensor:
        last = self.history - 1
        days = [windows.spans(last - lag, 1).flatten(1) for lag in self.lags]
        return self.states(days, windows.season[windows.at + last])

    def fit(self, train: Samples, validation: Samples | None, refit: bool = True) -> dict[str, Any]:
        """Fit the ridge, then the correction to its residual (see `LinearSystem.fit`)."""
        choices, penalty, sums = {}, self.LOCAL_PENALTIES[0], None
        weight = self.weight
        if validation is not None:
            # The same for fits to the training days alone and to both.
            key = ("chosen", self.inputs, self.modes, *self.lags, validation)
            penalty, sums, weight, patterns = once(train, key, lambda: self._choose(train, validation))
            self.patterns.copy_(patterns)
            choices = {"local_penalty": penalty}
        choices = super().fit(train, validation, refit) | choices
        if sums is None or refit or not self.weight.equal(weight):
            days = both(train, validation) if validation is not None and refit else train
            self.patterns.copy_(eofs(days, self.modes))
            sums = self._rest(days)
        for columns, part in tracked([*sums.parts()], "solving for each cell"):
            self.local.flatten(1)[:, columns] = solve_standardised(part, penalty).float()
        return choices

    def _choose(self, train: Samples, validation: Samples) -> tuple[float, Sums, Tensor, Tensor]:
        """Return the penalty of the correction that has the least error on validation, and the fit to training.

        This is its sums, the weights of its ridge and its patterns.
        """
        super().fit(train, None)
        self.patterns.copy_(eofs(train, self.modes))
        train_sums, validation_sums = self._rest(train), self._rest(validation)
        parts = zip(train_sums.parts(), validation_sums.parts(), strict=True)
        pairs = [(train_part, part) for (_, train_part), (_, part) in parts]
        errors = [
            sum(
                float(part.error(solve_standardised(train_part, penalty)).sum())
                for train_part, part in tracked(pairs, "cells")
            )
            for penalty in tracked(self.LOCAL_PENALTIES, "choosing penalties")
        ]
        penalty = self.LOCAL_PENALTIES[int(np.argmin(errors))]
        return penalty, train_sums, self.weight.clone(), self.patterns.clone()

    def _rest(self, samples: Samples) -> Sums:
        sums = Sums(len(self.local), self.local[0].numel())
        for windows in samples(self.LOCAL_STRIDE):
            residual = (
                windows.spans(self.history, self.horizon) - super().forecast_windows(windows)
            ) * windows.ocean
            sums.add(self._states(windows), residual.transpose(1, 3).flatten(1))
        return sums


class LinearInverseModel(LinearSystem):
    """A linear inverse model, in which the leading EOFs obey a linear stochastic equation.

    Source: Penland and Sardeshmukh 1995, J. Climate 8. The propagators of all leads are powers of the propagator
    over one lag, `C(lag) C(0)^-1`. The part of the field outside the EOFs is damped, with one coefficient for each
    lead. The lag (in days) and the number of EOFs are the best of `LAGS` and `MODES` on the validation windows.

    A region of few cells has fewer EOFs than `MODES`. All of them and half of them are then the candidates. Only
    those are taken that are stable on the days of the fit (see `Moments.is_stable`).
    """

    MODES, LAGS = (20, 10, 30, 40), (7, 5, 10, 14, 21)
    STRIDE = 3
    patterns: Tensor
    propagators: Tensor
    damping: Tensor

    def __init__(self, history: int, horizon: int, nodes: int) -> None:
        super().__init__(history, horizon)
        self.most = min(max(self.MODES), nodes)
        self.register_buffer("patterns", torch.zeros(self.most, nodes))
        self.register_buffer("propagators", torch.zeros(horizon, self.most, self.most))
        self.register_buffer("damping", torch.zeros(horizon))

    def forward(self, history: Tensor, graph: Graph) -> Tensor:
        """Map `history [B, N, history]` to `[B, N, horizon]`."""
        last_day = history[..., -1]
        components = last_day @ self.patterns.T
        residual = last_day - components @ self.patterns
        modes = torch.einsum("lij,bj->bli", self.propagators, components)
        return (modes @ self.patterns).transpose(1, 2) + residual[..., None] * self.damping

    def fit(self, train: Samples, validation: Samples | None, refit: bool = True) -> dict[str, Any]:
        """Fit patterns, propagators and damping (see `LinearSystem.fit`).

        Raises SSTCastError if no candidate is stable.
        """
        lags = [lag for lag in self.LAGS if lag <= self.horizon] or [self.horizon]
        moments = self._moments(train, train)
        candidates = [*product(self._counts(moments.rank), lags)]
        if validation is not None:
            late = self._moments(validation, train)
            candidates = [pair for pair in candidates if moments.is_stable(*pair)]
            errors = {
                pair: late.error(*moments.propagate(*pair))
                for pair in tracked(candidates, "choosing modes and lag")
            }
            candidates.sort(key=errors.__getitem__)
            if refit:
                train = both(train, validation)
                moments = self._moments(train, train)
        choice = next((pair for pair in candidates if moments.is_stable(*pair)), None)
        if choice is None:
            raise SSTCastError(
                "model lim: grows without bounds with every number of EOFs and lag; lengthen data.splits.train, "
                "choose a larger data.region, or another model.name"
            )
        count, lag = choice
        propagators, damping = moments.propagate(count, lag)
        self.patterns[count:] = 0
        self.propagators.zero_()
        self.propagators[:, :count, :count] = torch.from_numpy(propagators)
        self.damping.copy_(torch.from_numpy(damping))
        return {"modes": count, "lag": lag}

    def _counts(self, rank: int) -> list[int]:
        """Return the candidates for the number of EOFs, of which there are `rank`."""
        return [count for count in self.MODES if count <= rank] or sorted({rank, rank // 2} - {0}, reverse=True)

    def _moments(self, samples: Samples, train: Samples) -> "Moments":
        if train is samples:
            self.patterns.copy_(eofs(train, self.most))
        moments = Moments(self.most, self.horizon)
        for windows in samples(self.STRIDE):
            future_fields = windows.spans(self.history, self.horizon).transpose(1, 2).flatten(0, 1)
            moments.add(windows.spans(self.history - 1, 1).flatten(0, 2), future_fields, self.patterns)
        return moments


class Moments:
    """Second moments of the principal components and of the rest of the field, at all leads, over some windows.

    Since the EOFs are orthonormal, the error of any linear inverse model on these windows follows from the
    moments.
    """

    def __init__(self, modes: int, horizon: int) -> None:
        self.now, self.later = np.zeros((modes, modes)), np.zeros((horizon, modes, modes))
        self.of_later = np.zeros((horizon, modes))
        self.all_now, self.all_later, self.all_of_later = 0.0, np.zeros(horizon), np.zeros(horizon)

    def add(self, now: Tensor, later: Tensor, patterns: Tensor) -> None:
        """Add the fields `now [B, N]` and `later [B, horizon, N]`."""
        now_components, later_components = (
            (now @ patterns.T).double().numpy(),
            (later @ patterns.T).double().numpy(),
        )
        self.now += now_components.T @ now_components
        self.later += np.einsum("bli,bj->lij", later_components, now_components, optimize=True)
        self.of_later += (later_components**2).sum(0)
        self.all_now += float(now.square().sum(dtype=torch.float64))
        self.all_later += torch.einsum("bln,bn->l", later, now).double().numpy()
        self.all_of_later += later.square().sum((0, 2), dtype=torch.float64).numpy()

    @property
    def rank(self) -> int:
        """The number of EOFs, of which `eofs` leaves 0 those that are rounding noise."""
        return int(np.count_nonzero(self.now.diagonal()))

    def is_stable(self, modes: int, lag: int) -> bool:
        """Return whether a linear inverse model forecasts no more variance from these windows than they have.

        It may at no lead have more than `MOST_VARIANCE` times theirs. The norm of a propagator may well be above
        1, because the growth of single patterns is physical.
        """
        if modes > self.rank:
            return False
        try:
            propagators, damping = self.propagate(modes, lag)
        except np.linalg.LinAlgError:  # not finite, or without as many eigenvectors as modes
            return False
        variance = np.einsum("lij,jk,lik->l", propagators, self.now[:modes, :modes], propagators, optimize=True)
        return bool((variance + damping**2 * self._rest(modes) <= MOST_VARIANCE * self.all_now).all())

    def propagate(self, modes: int, lag: int) -> tuple[Array, Array]:
        """Return by lead the propagators `[horizon, modes, modes]` and the damping of the rest, `[horizon]`.

        A rest that is rounding noise has a damping of 0.
        """
        subspace = slice(modes)
        values, vectors = np.linalg.eig(
            self.later[lag - 1, subspace, subspace] @ np.linalg.inv(self.now[subspace, subspace])
        )
        leads = 1 + np.arange(len(self.later))
        powers = values[None, :] ** (leads[:, None] / lag)
        propagators = ((vectors * powers[:, None, :]) @ np.linalg.inv(vectors)).real
        if (rest := self._rest(modes)) <= SMALLEST_REST * self.all_now:
            return propagators, np.zeros(len(leads))
        return propagators, self._later_rest(modes) / rest

    def error(self, propagators: Array, damped: Array) -> float:
        """Return the summed squared error of a linear inverse model on these windows."""
        modes = propagators.shape[1]
        subspace = slice(modes)
        mode_errors = self.of_later[:, subspace].sum(1) - 2 * np.einsum(
            "lij,lij->l", propagators, self.later[:, subspace, subspace]
        )
        mode_errors += np.einsum(
            "lij,jk,lik->l", propagators, self.now[subspace, subspace], propagators, optimize=True
        )
        rest_errors = self.all_of_later - self.of_later[:, subspace].sum(1)
        rest_errors += damped**2 * self._rest(modes) - 2 * damped * self._later_rest(modes)
        return float((mode_errors + rest_errors).sum())

    def _rest(self, modes: int) -> float:
        return self.all_now - float(np.trace(self.now[:modes, :modes]))

    def _later_rest(self, modes: int) -> Array:
        return self.all_later - np.einsum("lii->l", self.later[:, :modes, :modes])


def solve_standardised(sums: Sums, penalty: float) -> Tensor:
    """Solve a ridge for the weights `[inputs, outputs]`, with the penalty on standardised inputs.

    The last input is 1. Outputs have a mean of 0, so the intercept only centres the inputs.
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
    """Return the leading EOFs of the last days of all histories, orthonormal and 0 on land, `[count, N]`.

    Those that are rounding noise are 0.
    """
    return once(samples, ("eofs", count), lambda: _eofs(samples, count))


def _eofs(samples: Samples, count: int) -> Tensor:
    fields: list[Tensor] = []
    step = 1
    days = (day for windows in samples(EOF_STRIDE) for day in windows.spans(windows.history - 1, 1).flatten(0, 2))
    for number, day in enumerate(days):
        if number % step == 0:
            fields.append(day.clone())  # a view would keep all days in memory
        if len(fields) * day.numel() > LARGEST_FIELD:
            fields, step = fields[::2], 2 * step
    thinned = torch.stack(fields)
    vectors = principal(thinned - thinned.mean(0), count)
    patterns = torch.zeros(count, thinned.shape[1])
    patterns[: len(vectors)] = vectors
    return patterns * thinned.any(0)  # rounding leaves small numbers on land


def principal(field: Tensor, count: int) -> Tensor:
    """Return the leading right singular vectors of `field [T, N]`, `[count, N]`, or fewer if its rank is lower."""
    with torch.random.fork_rng(devices=[]):  # the randomised SVD must not change the generator of the training
        torch.manual_seed(0)
        _, sizes, vectors = torch.svd_lowrank(field, min(count + OVERSAMPLING, *field.shape), niter=ITERATIONS)
    is_signal = sizes.square() > SMALLEST_SHARE * field.square().sum()
    return vectors.T[is_signal][:count]
