"""The linear inverse model."""

from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sstcast.graphs.graph import Graph
from sstcast.models.linear import LinearSystem, Samples, both
from sstcast.models.modes import eofs

Array = NDArray[np.float64]


class LinearInverseModel(LinearSystem):
    """Linear inverse model (Penland and Sardeshmukh 1995): the leading EOFs obey a linear stochastic equation.

    The propagators of all leads are powers of the propagator over one lag, `C(lag) C(0)^-1`. The part of the field
    outside the EOFs is damped, lead by lead. Lag and number of EOFs are the best of `LAGS` and `MODES` on
    validation.
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
        now = history[..., -1]
        components = now @ self.patterns.T
        rest = now - components @ self.patterns
        modes = torch.einsum("lij,bj->bli", self.propagators, components)
        return (modes @ self.patterns).transpose(1, 2) + rest[..., None] * self.damping

    def fit(self, train: Samples, validation: Samples | None, refit: bool = True) -> dict[str, Any]:
        lags = [lag for lag in self.LAGS if lag <= self.horizon] or [self.horizon]
        counts = [count for count in self.MODES if count <= self.most] or [self.most]
        chosen = counts[0], lags[0]
        if validation is not None:
            early, late = (self._moments(samples, train) for samples in (train, validation))
            chosen = min(product(counts, lags), key=lambda pair: late.error(*early.propagate(*pair)))
            train = both(train, validation) if refit else train
        propagators, damped = self._moments(train, train).propagate(*chosen)
        count, _ = chosen
        self.patterns[count:] = 0
        self.propagators.zero_()
        self.propagators[:, :count, :count] = torch.from_numpy(propagators)
        self.damping.copy_(torch.from_numpy(damped))
        return {"modes": chosen[0], "lag": chosen[1]}

    def _moments(self, samples: Samples, train: Samples) -> "Moments":
        if train is samples:
            self.patterns.copy_(eofs(train, self.most))
        moments = Moments(self.most, self.horizon)
        for part in samples(self.STRIDE):
            later = part.spans(self.history, self.horizon).transpose(1, 2).flatten(0, 1)
            moments.add(part.spans(self.history - 1, 1).flatten(0, 2), later, self.patterns)
        return moments


class Moments:
    """Second moments, over some windows, of the principal components and of the rest of the field, at all leads.

    As patterns are orthonormal, the error of any linear inverse model on these windows follows from the moments.
    """

    def __init__(self, modes: int, horizon: int) -> None:
        self.now, self.later = np.zeros((modes, modes)), np.zeros((horizon, modes, modes))
        self.of_later = np.zeros((horizon, modes))
        self.all_now, self.all_later, self.all_of_later = 0.0, np.zeros(horizon), np.zeros(horizon)

    def add(self, now: Tensor, later: Tensor, patterns: Tensor) -> None:
        """Add fields `now [B, N]` and `later [B, horizon, N]`."""
        first, then = (now @ patterns.T).double().numpy(), (later @ patterns.T).double().numpy()
        self.now += first.T @ first
        self.later += np.einsum("bli,bj->lij", then, first, optimize=True)
        self.of_later += (then**2).sum(0)
        self.all_now += float(now.square().sum(dtype=torch.float64))
        self.all_later += torch.einsum("bln,bn->l", later, now).double().numpy()
        self.all_of_later += later.square().sum((0, 2), dtype=torch.float64).numpy()

    def propagate(self, modes: int, lag: int) -> tuple[Array, Array]:
        """Return by lead the propagators `[horizon, modes, modes]` and the damping of the rest `[horizon]`."""
        inside = slice(modes)
        values, vectors = np.linalg.eig(
            self.later[lag - 1, inside, inside] @ np.linalg.inv(self.now[inside, inside])
        )
        leads = 1 + np.arange(len(self.later))
        powers = values[None, :] ** (leads[:, None] / lag)
        propagators = ((vectors * powers[:, None, :]) @ np.linalg.inv(vectors)).real
        return propagators, self._outside(self.later, self.all_later, modes) / self._rest(modes)

    def error(self, propagators: Array, damped: Array) -> float:
        """Return the summed squared error of a linear inverse model on these windows."""
        modes = propagators.shape[1]
        inside = slice(modes)
        within = self.of_later[:, inside].sum(1) - 2 * np.einsum(
            "lij,lij->l", propagators, self.later[:, inside, inside]
        )
        within += np.einsum("lij,jk,lik->l", propagators, self.now[inside, inside], propagators, optimize=True)
        without = self.all_of_later - self.of_later[:, inside].sum(1)
        without += damped**2 * self._rest(modes) - 2 * damped * self._outside(self.later, self.all_later, modes)
        return float((within + without).sum())

    def _rest(self, modes: int) -> float:
        return max(self.all_now - float(np.trace(self.now[:modes, :modes])), 1e-12)

    @staticmethod
    def _outside(of_modes: Array, of_all: Array, modes: int) -> Array:
        return of_all - np.einsum("lii->l", of_modes[:, :modes, :modes])
