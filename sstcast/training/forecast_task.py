"""The task of forecasting windows, for the trainer of networks and for linear systems."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from sstcast.config import TrainingConfig
from sstcast.log import LOG
from sstcast.models.base import LinearSystem, Samples
from sstcast.ocean.windows import Batch, Windows
from sstcast.progress import tracked
from sstcast.storage.scratch import release
from sstcast.training.task import order_seed
from sstcast.workers import FIRST_PROCESS

if TYPE_CHECKING:
    from lightning_fabric import Fabric

LISTED = 3  # windows in the description of a batch
SHARE_OF_MEMORY = 0.5  # of a device's free memory that windows may fill
MIN_WINDOWS, VALUES_AT_ONCE = 4, 2**19  # windows and values in a part, which fits into the cache


class ForecastTask:
    """Forecasts windows, with the mean squared error over ocean nodes and leads as loss and validation score.

    Windows move to the device if they fit into half of its free memory. Otherwise they stay on the host, which
    makes and pins the batches. Every device holds all windows, which are small (0.5 GB in the paper), and
    processes its part of every step. A split by tiles would give the devices unequal work.
    """

    lower_is_better = True
    learnt: Tensor | None = None

    def __init__(self, windows: Mapping[str, Any], options: TrainingConfig, fabric: "Fabric") -> None:
        self.fabric, self.batch_size = fabric, options.batch_size
        self.train, self.validation = (to_device(windows[name], fabric.device) for name in ("train", "validation"))
        self.drawn = min(options.windows_per_epoch or len(self.train), len(self.train))
        self.static = self.train.device.type == fabric.device.type

    def order(self, seed: int, epoch: int) -> list[Tensor]:
        """Draw windows without replacement. All steps are full, unless the windows do not fill one."""
        generator = torch.Generator().manual_seed(order_seed(seed, epoch))
        windows = torch.randperm(len(self.train), generator=generator)[: self.drawn]
        full = len(windows) // self.batch_size * self.batch_size
        return list(windows[: full or None].to(self.train.device).split(self.batch_size))

    def batch(self, index: Tensor) -> Batch:
        return self.train.batch(index, self.fabric.device)

    def weight(self, batch: Batch) -> Tensor:
        """Return the number of ocean nodes times the number of leads."""
        return batch.ocean.sum() * batch.target.shape[-1]

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return the sum of squared errors over ocean nodes and leads."""
        error = (model(batch.history, batch.graph) - batch.target).masked_fill(~batch.ocean.unsqueeze(-1), 0)
        return error.square().sum()

    @torch.no_grad()
    def validate(self, model: nn.Module) -> dict[str, float]:
        """Return the mean squared error over all windows, ocean nodes and leads, each counted once."""
        first, device = self.fabric.global_rank, self.validation.device
        indices = torch.arange(first, len(self.validation), self.fabric.world_size, device=device)
        total = torch.zeros(2, dtype=torch.float64, device=self.fabric.device)
        for index in indices.split(4 * self.batch_size):
            batch = self.validation.batch(index, self.fabric.device)
            with self.fabric.autocast():
                loss = self.loss(model, batch)
            total += torch.stack([loss.double(), self.weight(batch).double()])
        if self.fabric.world_size > 1:
            torch.distributed.all_reduce(total)
        return {"mse": float(total[0] / total[1])}

    def describe(self, index: Tensor) -> str:
        """Return the tiles and days of the windows as text, those with non-finite or extreme values first."""
        batch = self.batch(index)
        sizes = torch.cat([batch.history, batch.target], dim=-1).abs().nan_to_num(torch.inf, posinf=torch.inf)
        index = index[sizes.flatten(1).amax(1).argsort(descending=True, stable=True).to(index.device)]
        remainder = f"; and {len(index) - LISTED} more" if len(index) > LISTED else ""
        return "windows " + "; ".join(map(self.train.describe, index[:LISTED].tolist())) + remainder


def to_device(windows: Windows, device: torch.device) -> Windows:
    """Move windows to the device, unless they would take more than half of its free memory."""
    if device.type == "cuda" and windows.nbytes > SHARE_OF_MEMORY * torch.cuda.mem_get_info(device)[0]:
        return windows
    return windows.to(device)


def in_parts(windows: Windows) -> Samples:
    """Return a function of n that yields the windows of every n-th day and all tiles, in parts, with a bar."""

    def thinned_parts(stride: int) -> Iterator[Windows]:
        count = max(MIN_WINDOWS, VALUES_AT_ONCE // (windows.ocean.numel() * stride))
        parts = [*windows.thinned(stride).parts(count)]
        years = (str(part.init_times[end])[:4] for part, end in ((parts[0], 0), (parts[-1], -1)))
        for part in tracked(parts, f"days of {' to '.join(dict.fromkeys(years))}"):
            yield part
            release()

    return thinned_parts


@torch.no_grad()
def fit(model: LinearSystem, train: Windows, validation: Windows | None, refit: bool = True) -> dict[str, Any]:
    """Fit a linear system. Return its chosen options by name (see `LinearSystem.fit`)."""
    return model.fit(in_parts(train), in_parts(validation) if validation is not None else None, refit)


def tell_memory(where: str, wanted: int, before: int) -> None:
    """Warn, beginning with `where`, if a linear system is fitted without the memory that was asked for.

    Its configuration asks for `wanted` days before the history, its windows have `before` (see `cut_windows`). The
    weights keep which of the two they are for.
    """
    if before < wanted and FIRST_PROCESS:
        LOG.warning(
            f"{where}: fitted without memory: fewer than two years of windows would have a year of the record "
            "before them"
        )
