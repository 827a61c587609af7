"""BigBird: attention restricted to a few blocks (Zaheer et al. 2020, arXiv:2007.14062)."""

import torch
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor
from torch.nn import functional as F

from sstcast.models.attention import HeadedAttention, softmax_attention
from sstcast.models.order import pack, random_integers


class BigBirdAttention(HeadedAttention):
    """Softmax attention of each block of nodes to itself, its two neighbours, random blocks and the first block.

    The first block attends to all nodes (the paper's internal global tokens). A block has `block` nodes, in the
    order of storage; the `random_blocks` are drawn from `seed`. Dropout acts on the weights.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        dropout: float = 0.0,
        block: PositiveInt = 16,
        random_blocks: NonNegativeInt = 3,
        seed: int = 0,
    ) -> None:
        super().__init__(width, heads, dropout)
        self.block, self.random_blocks, self.seed = block, random_blocks, seed

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Attend over each row's real nodes, which are moved to the front."""
        packed, front, index = pack(x, mask)
        return super().forward(packed, front).gather(1, index)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """Attend from each block to the gathered keys of its chosen blocks; then replace the first block."""
        dropout = self.dropout if self.training else 0.0
        batch, nodes = mask.shape
        real = F.pad(mask, (0, -nodes % self.block)).unflatten(1, (-1, self.block))
        chosen, ignored = self._choose(real.any(2).sum(1), real.shape[1])
        row = torch.arange(batch, device=q.device)[:, None, None]
        keys, values = (
            self._blocks(part)[row, chosen].transpose(2, 3).flatten(3, 4).flatten(0, 1) for part in (k, v)
        )
        allowed = (real[row, chosen] & ~ignored.unsqueeze(-1)).flatten(2).flatten(0, 1)
        y = softmax_attention(self._blocks(q).flatten(0, 1), keys, values, allowed, dropout)
        y = y.unflatten(0, real.shape[:2]).transpose(1, 2).flatten(2, 3)
        first = softmax_attention(q[:, :, : self.block], k, v, mask, dropout)
        return torch.cat([first, y[:, :, self.block : nodes]], dim=2)

    def _blocks(self, x: Tensor) -> Tensor:
        """Return `[B, blocks, heads, block, d]`."""
        padded = F.pad(x, (0, 0, 0, -x.shape[2] % self.block))
        return padded.unflatten(2, (-1, self.block)).transpose(1, 2)

    def _choose(self, count: Tensor, total: int) -> tuple[Tensor, Tensor]:
        """Return which of `total` blocks each block attends to, `[B, total, choices]`, and which to ignore.

        `count` `[B]` is the number of real blocks. Choices of other blocks and repeated choices are to be ignored.
        """
        count = count[:, None, None]
        own = torch.arange(total, device=count.device)
        fixed = torch.stack([torch.zeros_like(own), own - 1, own, own + 1], dim=1).expand(len(count), -1, -1)
        random = random_integers(total, self.random_blocks, self.seed, count.device) * count >> 32
        chosen = torch.cat([fixed, random], dim=2)
        repeated = (chosen.unsqueeze(-1) == chosen.unsqueeze(-2)).tril(-1).any(-1)
        return chosen.clamp(0, total - 1), repeated | (chosen < 0) | (chosen >= count)
