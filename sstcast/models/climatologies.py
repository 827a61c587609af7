"""Climatologies that know that the ocean warms: references for probabilities and heatwaves."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from sstcast.graphs.graph import Graph
from sstcast.models.linear import LinearSystem, Samples, both

DECADE = np.timedelta64(3652, "D")
YEAR = np.timedelta64(1, "D") * 365.2425


class TrendClimatology(LinearSystem):
    """For each cell, a line through the anomalies of all days that it is fitted to, continued to the day forecast.

    `line [2, N]` holds the anomaly on the last of these days, and its change in a year.
    """

    HOME = "region"
    line: Tensor
    last: Tensor

    def __init__(self, history: int, horizon: int, nodes: int) -> None:
        super().__init__(history, horizon)
        self.register_buffer("line", torch.zeros(2, nodes))
        self.register_buffer("last", torch.zeros((), dtype=torch.int64))  # days since 1970

    def forward(self, history: Tensor, graph: Graph) -> Tensor:
        """Return the anomaly of the last day fitted to, as neither argument says what year it is."""
        return self.line[0, :, None].expand(*history.shape[:-1], self.horizon)

    def ahead(self, windows: Any) -> Tensor:
        """Forecast all windows (see `LinearSystem.ahead`)."""
        days = windows.init_times[:, None] + np.arange(1, self.horizon + 1) * np.timedelta64(1, "D")
        return (self._inputs(days) @ self.line).unsqueeze(2)

    def fit(self, train: Samples, validation: Samples | None, refit: bool = True) -> dict[str, Any]:
        """Fit the line by least squares; nothing is chosen."""
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
        """Return 1 and the years since the last day fitted to, `[..., 2]`."""
        years = (days - np.datetime64(int(self.last), "D")) / YEAR
        return torch.from_numpy(np.stack([np.ones_like(years), years], -1)).to(self.line)

    def _weight(self, days: np.ndarray) -> Tensor:
        return torch.ones(len(days), dtype=torch.float64)

    def _solve(self, gram: Tensor, cross: Tensor) -> Tensor:
        return torch.linalg.solve(gram, cross)


class RecentClimatology(TrendClimatology):
    """For each cell, the mean anomaly of the last ten years of the days that it is fitted to."""

    def _weight(self, days: np.ndarray) -> Tensor:
        return torch.from_numpy((days > np.datetime64(int(self.last), "D") - DECADE).astype(float))

    def _solve(self, gram: Tensor, cross: Tensor) -> Tensor:
        return torch.stack([cross[0] / gram[0, 0], torch.zeros_like(cross[0])])
