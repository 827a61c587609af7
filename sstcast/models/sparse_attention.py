"""Sparse attention: to blocks of nodes (`bigbird`), or along the edges of graph and expander (`exphormer`).

Blocks and expanders follow the order in which nodes are stored. They count only real nodes, so padding and land
have no effect.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sstcast.graphs.graph import Graph, Planes
from sstcast.models.attention import (
    GraphAttention,
    HeadedAttention,
    check_heads,
    merge_heads,
    softmax_attention,
    split_heads,
)
from sstcast.models.convs import edge_softmax
from sstcast.models.sizes import Count, Share, Size


class BigBirdAttention(HeadedAttention):
    """Softmax attention of each block of nodes to itself, its two neighbours, random blocks and the first block.

    The first block attends to all nodes. Its nodes are the internal global tokens of Zaheer et al. 2020
    (arXiv:2007.14062). A block holds `block` consecutive nodes. The `random_blocks` are drawn from `seed`. Dropout
    acts on the weights.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        dropout: Share = 0.0,
        block: Count = 16,
        random_blocks: Size = 3,
        seed: int = 0,
    ) -> None:
        super().__init__(width, heads, dropout)
        self.block, self.random_blocks, self.seed = block, random_blocks, seed

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Move the real nodes of each sample to the front, attend, and move them back."""
        packed, front, index = pack(x, mask)
        return super().forward(packed, front).gather(1, index)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """Attend from each block to the keys of its chosen blocks. The first block attends to all keys."""
        dropout = self.dropout if self.training else 0.0
        batch, nodes = mask.shape
        real = F.pad(mask, (0, -nodes % self.block)).unflatten(1, (-1, self.block))
        choices, ignored = self._choose(real.any(2).sum(1), real.shape[1])
        row = torch.arange(batch, device=q.device)[:, None, None]
        keys, values = (
            self._blocks(part)[row, choices].transpose(2, 3).flatten(3, 4).flatten(0, 1) for part in (k, v)
        )
        allowed = (real[row, choices] & ~ignored.unsqueeze(-1)).flatten(2).flatten(0, 1)
        y = softmax_attention(self._blocks(q).flatten(0, 1), keys, values, allowed, dropout)
        y = y.unflatten(0, real.shape[:2]).transpose(1, 2).flatten(2, 3)
        first = softmax_attention(q[:, :, : self.block], k, v, mask, dropout)
        return torch.cat([first, y[:, :, self.block : nodes]], dim=2)

    def _blocks(self, x: Tensor) -> Tensor:
        """Return `[B, blocks, heads, block, d]`."""
        padded = F.pad(x, (0, 0, 0, -x.shape[2] % self.block))
        return padded.unflatten(2, (-1, self.block)).transpose(1, 2)

    def _choose(self, count: Tensor, total: int) -> tuple[Tensor, Tensor]:
        """Choose the blocks to which each of `total` blocks attends, given the numbers `count [B]` of real blocks.

        Returns the choices `[B, total, choices]`, and a mask of the choices to ignore: repeated ones, and those
        that are no real block.
        """
        count = count[:, None, None]
        blocks = torch.arange(total, device=count.device)
        fixed = torch.stack([torch.zeros_like(blocks), blocks - 1, blocks, blocks + 1], dim=1).expand(
            len(count), -1, -1
        )
        random = random_integers(total, self.random_blocks, self.seed, count.device) * count >> 32
        choices = torch.cat([fixed, random], dim=2)
        repeated = (choices.unsqueeze(-1) == choices.unsqueeze(-2)).tril(-1).any(-1)
        return choices.clamp(0, total - 1), repeated | (choices < 0) | (choices >= count)


class ExphormerAttention(GraphAttention):
    """Softmax attention to neighbours in the graph, neighbours on random cycles, and virtual nodes.

    Source: Shirzad et al. 2023, arXiv:2303.06147. The score of node j for node i is `q_i (k_j * e) / sqrt(d)`. The
    edge term e is computed from the edge state if `edge_state` is true, and is a learned vector for edges of the
    expander and to virtual nodes. Dropout acts on the result.

    Args:
        edge_state: whether the layer gets an edge state.
        cycles: random Hamiltonian cycles, which form an expander of degree `2 cycles`.
        virtual_nodes: learned nodes that attend to all nodes and pass their state to the next layer.
        seed: of the cycles.
    """

    reads_edges = True

    def __init__(
        self,
        width: int,
        heads: int,
        dropout: Share = 0.0,
        edge_state: bool = False,
        cycles: Count = 3,
        virtual_nodes: Count = 1,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_heads(width, heads)
        self.heads, self.cycles, self.seed = heads, cycles, seed
        self.qkv = nn.Linear(width, 3 * width)
        self.edge = nn.Linear(width, width) if edge_state else None
        if self.edge is not None:
            nn.init.ones_(self.edge.bias)
        self.expander = nn.Parameter(torch.ones(width))
        self.membership = nn.Parameter(torch.ones(width))
        self.virtual = nn.Parameter(torch.randn(virtual_nodes, width))
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(width, width)

    def forward(
        self, x: Tensor, graph: Graph, edges: Planes | None, memory: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return node features, and the virtual nodes `[B, virtual_nodes, width]` as the next layer's `memory`."""
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        padded, mask = graph.dense(torch.cat([k, v], dim=-1))
        virtual = self.virtual.expand(len(mask), -1, -1) if memory is None else self.virtual + memory
        virtual_q, virtual_k, virtual_v = self.qkv(virtual).chunk(3, dim=-1)

        keys, values = [], []  # each holds one key or value for every node
        first = torch.arange(len(mask), device=mask.device).unsqueeze(1) * mask.shape[1]  # index of each graph
        for index in random_cycles(mask, self.cycles, self.seed):
            neighbors = padded.flatten(0, 1).index_select(0, (first + index).flatten()).view_as(padded)
            key, value = graph.sparse(neighbors).chunk(2, dim=-1)
            keys.append(key * self.expander)
            values.append(value)
        for key, value in zip(virtual_k.unbind(1), virtual_v.unbind(1), strict=True):
            keys.append(graph.broadcast(key * self.membership))
            values.append(graph.broadcast(value))
        scores = [self._score(q, key) for key in keys]
        pairs = zip(graph.target(q), self._neighbors(k, graph, edges), strict=True)
        base = torch.stack(scores).amax(0).detach()
        y = edge_softmax(graph, [self._score(*pair) for pair in pairs], graph.source(v), scores, values, base)

        key, value = (split_heads(part, self.heads) for part in padded.chunk(2, dim=-1))
        update = softmax_attention(split_heads(virtual_q, self.heads), key, value, mask)
        return self.out(self.dropout(y)), virtual + merge_heads(update)

    def _neighbors(self, k: Tensor, graph: Graph, edges: Planes | None) -> Planes:
        """Return the keys at each edge's source, scaled by the edge."""
        keys = graph.source(k)
        if self.edge is None or edges is None:
            return keys
        return [key * self.edge(edge) for key, edge in zip(keys, edges, strict=True)]

    def _score(self, q: Tensor, k: Tensor) -> Tensor:
        """Return one score per head, `[..., heads]`."""
        product = (q * k).unflatten(-1, (self.heads, -1))
        return product.sum(-1, dtype=torch.promote_types(product.dtype, torch.float32)) * product.shape[-1] ** -0.5


def pack(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Move the real nodes of each sample of `x [B, N, d]` to the front, in their order.

    Returns the moved nodes, their mask, and the index for `gather(1, index)`, which moves them back.
    """
    seat = rank(mask)
    seat = torch.where(mask, seat, mask.sum(1, keepdim=True) + rank(~mask))
    index = seat.unsqueeze(-1).expand_as(x)
    front = torch.arange(mask.shape[1], device=mask.device) < mask.sum(1, keepdim=True)
    return torch.zeros_like(x).scatter(1, index, x), front, index


def rank(mask: Tensor) -> Tensor:
    """Count the real nodes before each node, `[B, N]`."""
    return mask.cumsum(1) - mask.long()


def random_cycles(mask: Tensor, cycles: int, seed: int) -> list[Tensor]:
    """Link the real nodes of each sample by random Hamiltonian cycles, which together form an expander.

    Returns two planes `[B, N]` of node indices for each cycle: the next node, and the previous one. A node that is
    masked or alone is its own neighbour.
    """
    draws = random_integers(mask.shape[1], cycles, seed, mask.device)[rank(mask)]
    draws = draws.masked_fill(~mask.unsqueeze(-1), 2**32)  # larger than every draw, so that real nodes come first
    step = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)
    count = mask.sum(1, keepdim=True)
    next_step = torch.where(step < count, (step + 1) % count.clamp(min=1), step)
    planes = []
    for keys in draws.unbind(-1):
        order = keys.argsort(dim=1, stable=True)
        following = order.gather(1, next_step)
        planes += [order.scatter(1, order, following), order.scatter(1, following, order)]
    return planes


def random_integers(rows: int, columns: int, seed: int, device: torch.device) -> Tensor:
    """Draw integers from 0 to 2^32 - 1, `[rows, columns]`, the same on every device and for any number of rows.

    They are hashes of counters, two rounds of multiply and xor-shift, because a compiled graph cannot hold a
    generator.
    """
    x = torch.arange(rows * columns, device=device).reshape(rows, columns) + seed * 0x9E3779B1 % 2**32
    for _ in range(2):
        x = ((x >> 16) ^ x) * 0x45D9F3B % 2**32
    return (x >> 16) ^ x
