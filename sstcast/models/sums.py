"""Normal equations of linear systems, summed up batch by batch."""

from collections.abc import Iterator, Sequence
from copy import copy
from functools import reduce
from operator import add

import torch
from torch import Tensor

OUTPUTS_AT_ONCE = 2**15  # more take memory, and no less time


class Sums:
    """Sums for the normal equations: products of the inputs with each other and with the targets, over rows."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self.gram = torch.zeros(inputs, inputs, dtype=torch.float64)
        self.cross = torch.zeros(inputs, outputs, dtype=torch.float64)
        self.squares = torch.zeros(outputs, dtype=torch.float64)

    def add(self, x: Tensor, y: Tensor) -> None:
        """Add rows `x [n, inputs]` and `y [n, outputs]`."""
        self.gram += x.T @ x
        for place, part in self.parts():
            part.cross += x.T @ y[:, place]
        self.squares += y.square().sum(0, dtype=torch.float64)

    def __add__(self, other: "Sums") -> "Sums":
        return self._combined(other, 1)

    def __sub__(self, other: "Sums") -> "Sums":
        return self._combined(other, -1)

    def _combined(self, other: "Sums", sign: int) -> "Sums":
        total = copy(self)
        for name in ("gram", "cross", "squares"):
            setattr(total, name, getattr(self, name) + sign * getattr(other, name))
        return total

    def parts(self) -> Iterator[tuple[slice, "Sums"]]:
        """Yield these sums for `OUTPUTS_AT_ONCE` outputs at a time, each with the place of its outputs."""
        for first in range(0, self.cross.shape[1], OUTPUTS_AT_ONCE):
            place = slice(first, first + OUTPUTS_AT_ONCE)
            part = copy(self)
            part.cross, part.squares = self.cross[:, place], self.squares[place]
            yield place, part

    def solve(self, penalty: float | Tensor) -> Tensor:
        """Return the least-squares weights `[inputs, outputs]` with a penalty on all inputs except the last.

        It may be one for each of them, `[inputs - 1]`.
        """
        diagonal = torch.zeros(len(self.gram), dtype=torch.float64)
        diagonal[:-1] = penalty
        return torch.linalg.solve(self.gram + diagonal.diag(), self.cross)

    def error(self, weight: Tensor) -> Tensor:
        """Return the summed squared error `[outputs]` of `weight` on these rows."""
        return self.squares - (weight * (2 * self.cross - self.gram @ weight)).sum(0)


def cross_validate(blocks: Sequence[Sums], penalties: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Choose for each output the penalties with the least error on blocks that were left out in turn; fit to all.

    Args:
        blocks: the sums of each block of rows; of a single block the first penalties are taken.
        penalties: what to choose from, each as `Sums.solve` takes it.

    Returns:
        The weights `[inputs, outputs]`, and which of the penalties each output has `[outputs]`.
    """
    total = reduce(add, blocks)
    errors = torch.zeros(len(penalties), total.cross.shape[1], dtype=torch.float64)
    for block in blocks if len(blocks) > 1 else []:
        rest = total - block
        errors += torch.stack([block.error(rest.solve(penalty)) for penalty in penalties])
    best = errors.argmin(0)
    weight = torch.empty_like(total.cross)
    for choice in best.unique().tolist():
        weight[:, best == choice] = total.solve(penalties[choice])[:, best == choice]
    return weight, best
