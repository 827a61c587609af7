"""The interface of a task for `Trainer`: forecasts of SST, or a graph benchmark."""

from typing import Any, Protocol

from torch import Tensor, nn


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
