"""Functions of the order of stored nodes; they count only real nodes, so padding and land have no effect."""

import torch
from torch import Tensor


def pack(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Move the real nodes of each row of `x` `[B, N, d]` to the front, keeping their order.

    Returns the moved nodes, their mask, and the index with which `gather(1, index)` moves them back.
    """
    seat = rank(mask)
    seat = torch.where(mask, seat, mask.sum(1, keepdim=True) + rank(~mask))
    index = seat.unsqueeze(-1).expand_as(x)
    front = torch.arange(mask.shape[1], device=mask.device) < mask.sum(1, keepdim=True)
    return torch.zeros_like(x).scatter(1, index, x), front, index


def rank(mask: Tensor) -> Tensor:
    """Return how many real nodes come before each node, `[B, N]`."""
    return mask.cumsum(1) - mask.long()


def random_cycles(mask: Tensor, cycles: int, seed: int) -> list[Tensor]:
    """Link the real nodes of each row in random Hamiltonian cycles, which together form an expander.

    Returns twice as many planes `[B, N]` of node indices: the next node on each cycle, and the one before.
    A node that is not real, or alone, is its own neighbour.
    """
    draws = random_integers(mask.shape[1], cycles, seed, mask.device)[rank(mask)]
    draws = draws.masked_fill(~mask.unsqueeze(-1), 2**32)  # larger than every draw, so that real nodes come first
    step = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)
    count = mask.sum(1, keepdim=True)
    after = torch.where(step < count, (step + 1) % count.clamp(min=1), step)
    planes = []
    for keys in draws.unbind(-1):
        order = keys.argsort(dim=1, stable=True)
        following = order.gather(1, after)
        planes += [order.scatter(1, order, following), order.scatter(1, following, order)]
    return planes


def random_integers(rows: int, columns: int, seed: int, device: torch.device) -> Tensor:
    """Draw `[rows, columns]` integers in 0 .. 2^32 - 1, the same on every device; more rows only append to them.

    They are hashes of counters (two rounds of multiply and xor-shift), as a compiled graph cannot hold a
    generator.
    """
    x = torch.arange(rows * columns, device=device).reshape(rows, columns) + seed * 0x9E3779B1 % 2**32
    for _ in range(2):
        x = ((x >> 16) ^ x) * 0x45D9F3B % 2**32
    return (x >> 16) ^ x
