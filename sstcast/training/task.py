"""What a `Trainer` fits: forecasts of the sea, or any graph benchmark."""

from typing import Any, Protocol

from torch import Tensor, nn


class Task(Protocol):
    """Batches, their loss, and the score that chooses the best weights."""

    lower_is_better: bool

    def order(self, seed: int, epoch: int) -> list[Tensor]:
        """Return an epoch's steps, each the indices of its samples: a function of both numbers alone."""

    def batch(self, index: Tensor) -> Any:
        """Return these samples on the device."""

    def weight(self, batch: Any) -> Tensor | int:
        """Return how many elements the batch's loss counts."""

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Return the loss summed, not averaged, over those elements.

        The trainer divides by the weight of the whole step: however a step is cut into parts and dealt to
        devices, each element counts once.
        """

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Return scores of `model`, which is in evaluation mode: the first one selects, `loss` between equals."""

    def describe(self, index: Tensor) -> str:
        """Name these samples to a person who must find out what is wrong with them."""
