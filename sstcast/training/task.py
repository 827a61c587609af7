"""The interface `Task` for the trainer, and seeds made of several integers, such as seed, epoch and step."""

from typing import Any, Protocol

import numpy as np
from torch import Tensor, nn

UINT64_MASK = 2**64 - 1


class Task(Protocol):
    """A source of batches, with their loss and the score that selects the best weights."""

    lower_is_better: bool
    static: bool
    """Whether all samples are on the device, and all full batches have the same shapes."""
    learnt: Tensor | None
    """Keys of the samples that the weights depend on, which checkpoints keep, or None if a task has no keys."""

    def order(self, seed: int, epoch: int) -> list[Tensor]:
        """Return the sample indices of each step in an epoch. They depend only on `seed` and `epoch`."""

    def batch(self, index: Tensor) -> Any:
        """Return the samples with these indices, on the device."""

    def weight(self, batch: Any) -> Tensor | int:
        """Return the number of elements in the loss of a batch."""

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Return the loss, summed and not averaged over its elements.

        The trainer divides by the weight of the whole step. So each element counts once, however a step is split
        into parts and distributed over devices.
        """

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Return scores of `model` in evaluation mode. The first selects the best epoch, `loss` breaks ties."""

    def describe(self, index: Tensor) -> str:
        """Return a text that identifies these samples in an error message."""


def seed_of(*numbers: int) -> int:
    """Hash integers into a seed of 63 bits for the generators of torch."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))


def order_seed(seed: int, epoch: int) -> int:
    """Return the seed with which an epoch draws its windows.

    It is the hash of the pair in CPython, 64-bit xxHash by Collet (https://xxhash.com), written out so that every
    version of Python draws the same windows.
    """
    mixed = 2870177450012600261
    for number in (seed % (2**61 - 1), epoch):
        mixed = (mixed + number * 14029467366897019727) & UINT64_MASK
        mixed = ((mixed << 31) | (mixed >> 33)) & UINT64_MASK
        mixed = mixed * 11400714785074694791 & UINT64_MASK
    return (mixed + (2 ^ 2870177450012600261 ^ 3527539)) % 2**63
