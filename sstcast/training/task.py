"""The interface `Task` of a trainer, and seeds made of several whole numbers, such as seed, epoch and step."""

from typing import Any, Protocol

import numpy as np
from torch import Tensor, nn

BITS = 2**64 - 1


class Task(Protocol):
    """Provides batches, their loss, and the score that selects the best weights."""

    lower_is_better: bool

    def order(self, seed: int, epoch: int) -> list[Tensor]:
        """Return an epoch's steps, each as the indices of its samples; depends only on `seed` and `epoch`."""

    def batch(self, index: Tensor) -> Any:
        """Return the samples with these indices, on the device."""

    def weight(self, batch: Any) -> Tensor | int:
        """Return the number of elements in the batch's loss."""

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Return the loss summed, not averaged, over those elements.

        The trainer divides by the weight of the whole step, so that each element counts once, however a step is
        split into parts and distributed over devices.
        """

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Return scores of `model` in evaluation mode: the first selects the best, `loss` breaks ties."""

    def describe(self, index: Tensor) -> str:
        """Return text that identifies these samples, for an error message."""


def seed_of(*numbers: int) -> int:
    """Return a seed of 63 bits, as PyTorch's generators take it: a different one for different `numbers`."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))


def order_seed(seed: int, epoch: int) -> int:
    """Return the seed of the order in which an epoch of a forecaster draws its windows.

    It is Python's own hash of the pair, xxHash by Collet (https://xxhash.com) with 64 bits, written out so that no
    version of Python changes it, and runs of earlier versions can be repeated and resumed.
    """
    mixed = 2870177450012600261
    for number in (seed % (2**61 - 1), epoch):
        mixed = (mixed + number * 14029467366897019727) & BITS
        mixed = ((mixed << 31) | (mixed >> 33)) & BITS
        mixed = mixed * 11400714785074694791 & BITS
    return (mixed + (2 ^ 2870177450012600261 ^ 3527539)) % 2**63
