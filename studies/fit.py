"""Training for studies: no validation, no checkpoints."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


def fit(model: nn.Module, loss: Callable[[int], Tensor], steps: int, rate: float) -> None:
    """Minimise `loss(step)` by Adam; the learning rate goes up to `rate` and down to 0 in one cycle."""
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=rate, total_steps=steps)
    for step in range(steps):
        optimizer.zero_grad()
        loss(step).backward()
        optimizer.step()
        schedule.step()
