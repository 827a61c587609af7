"""A network on a linear base, brought to another ocean.

Linear maps of oceans with another memory differ, and take seconds to fit: the base is fitted to the other ocean's
training days. What the network adds to it stays as it was learnt, by the share that validation days support.
"""

import torch
from torch import Tensor

from sstcast.config import DataConfig
from sstcast.graphs.graph import Graph
from sstcast.models.base import ForecastModel
from sstcast.models.linear import LinearSystem
from sstcast.ocean.prepared import Prepared
from sstcast.ocean.windows import cut_windows
from sstcast.training.task import fit

EVERY = 3  # days from one validation window to the next
WEEK = 7  # leads that have one share
NODES_AT_ONCE = 2**15


class Adapted(ForecastModel):
    """A network whose change is added to another base than it was trained on, by a share `[horizon]` of it."""

    share: Tensor

    def __init__(self, network: ForecastModel, base: LinearSystem, share: Tensor) -> None:
        super().__init__()
        self.network, self.linear = network, base
        self.set_base("linear")
        self.register_buffer("share", share)

    def change(self, history: Tensor, graph: Graph) -> Tensor:
        """Return the share of the network's change."""
        change: Tensor = self.share * self.network.change(history, graph)
        return change


def adapted(network: ForecastModel, base: LinearSystem, data: DataConfig) -> Adapted:
    """Bring a network to other data, given the base that is fitted to them (`fitted_base`).

    The share is that which has the least squared error on the validation days, by lead week, within 0 and 1.
    """
    _, anomalies = Prepared.of(data).open()
    windows = cut_windows(anomalies, data, "validation").thinned(EVERY)
    products, squares = torch.zeros(2, data.horizon, dtype=torch.float64)
    at_once = max(1, NODES_AT_ONCE // windows.values.shape[-1])
    with torch.no_grad():
        for index in torch.arange(len(windows)).split(at_once):
            batch = windows.batch(index)
            change = network.eval().change(batch.history, batch.graph)[batch.ocean].double()
            left = (batch.target - base(batch.history, batch.graph))[batch.ocean].double()
            products += (change * left).sum(0)
            squares += change.square().sum(0)
    week = torch.arange(data.horizon) // WEEK
    totals = torch.zeros(2, int(week[-1]) + 1, dtype=torch.float64).index_add(
        1, week, torch.stack([products, squares])
    )
    share = (totals[0] / totals[1].clamp(min=1e-12)).clamp(0, 1)
    return Adapted(network, base, share[week].float())


def fitted_base(base: LinearSystem, data: DataConfig) -> LinearSystem:
    """Fit the base of a network to the training days of other data, with penalties chosen on validation days."""
    _, anomalies = Prepared.of(data).open()
    train, validation = (cut_windows(anomalies, data, split) for split in ("train", "validation"))
    fit(base, train, validation, refit=False)
    return base
