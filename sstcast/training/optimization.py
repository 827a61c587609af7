"""Optimisers, and the learning rate as a function of the step."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from sstcast.config import TrainingConfig

RISE, START, END = 0.3, 1 / 25, 1 / 25e4  # one-cycle: share of rising steps, first and last rate, as in torch


def build_optimizer(parameters: Iterable[nn.Parameter], options: TrainingConfig) -> torch.optim.Optimizer:
    """Return Adagrad or Adam, whose weight decay is added to the gradient, or AdamW, which decays the weights."""
    shared: dict[str, Any] = {
        "lr": options.learning_rate,
        "eps": options.eps,
        "weight_decay": options.weight_decay,
    }
    if options.optimizer == "adagrad":
        return torch.optim.Adagrad(parameters, **shared)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[options.optimizer]
    return kind(parameters, betas=options.betas, fused=True, **shared)


def learning_rate(step: int, steps: int, options: TrainingConfig) -> float:
    """Return the rate at `step`, 0 to `steps - 1`; it has no state, so a resumed run uses the same rates."""
    if options.schedule == "one-cycle":
        top = RISE * steps - 1
        if step <= top:
            return options.learning_rate * _anneal(START, 1.0, step / top)
        return options.learning_rate * _anneal(1.0, END, (step - top) / (steps - 1 - top))
    if step < options.warmup:
        return options.learning_rate * (step + 1) / options.warmup
    if options.schedule == "constant":
        return options.learning_rate
    done = (step - options.warmup) / max(steps - options.warmup, 1)
    return options.learning_rate * (1 - done if options.schedule == "linear" else _anneal(1.0, 0.0, done))


def _anneal(start: float, end: float, done: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * done)) / 2
