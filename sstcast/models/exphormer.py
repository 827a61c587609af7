"""Exphormer: attention along the edges of a graph, of an expander, and to virtual nodes."""

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from sstcast.graphs.graph import Graph, Planes
from sstcast.models.attention import GraphAttention, check_heads, merge_heads, softmax_attention, split_heads
from sstcast.models.order import random_cycles


class ExphormerAttention(GraphAttention):
    """Softmax attention to neighbours on the graph, neighbours on random cycles, and virtual nodes.

    The score of node j for node i is `q_i (k_j * e) / sqrt(d)`; e is computed from the edge state if there is one
    (`edge_state`), and is learned for edges of the expander and to virtual nodes. `cycles` random Hamiltonian
    cycles form an expander of degree `2 cycles`. Virtual nodes are learned, attend to all nodes, and pass their
    state to the next layer (Shirzad et al. 2023, arXiv:2303.06147). Dropout acts on the result.
    """

    reads_edges = True

    def __init__(
        self,
        width: int,
        heads: int,
        dropout: float = 0.0,
        edge_state: bool = False,
        cycles: PositiveInt = 3,
        virtual_nodes: PositiveInt = 1,
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

        keys, values = [], []  # one per node, aligned with the nodes
        first = torch.arange(len(mask), device=mask.device).unsqueeze(1) * mask.shape[1]  # row of each graph
        for index in random_cycles(mask, self.cycles, self.seed):
            there = padded.flatten(0, 1).index_select(0, (first + index).flatten()).view_as(padded)
            key, value = graph.sparse(there).chunk(2, dim=-1)
            keys.append(key * self.expander)
            values.append(value)
        for key, value in zip(virtual_k.unbind(1), virtual_v.unbind(1), strict=True):
            keys.append(graph.spread(key * self.membership))
            values.append(graph.spread(value))
        scores = [self._score(q, key) for key in keys]
        pairs = zip(graph.target(q), self._neighbors(k, graph, edges), strict=True)
        y = self._average(graph, [self._score(*pair) for pair in pairs], graph.source(v), scores, values)

        key, value = (split_heads(part, self.heads) for part in padded.chunk(2, dim=-1))
        seen = softmax_attention(split_heads(virtual_q, self.heads), key, value, mask)
        return self.out(self.dropout(y)), virtual + merge_heads(seen)

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

    def _average(
        self,
        graph: Graph,
        edge_scores: Planes,
        edge_values: Planes,
        scores: list[Tensor],
        values: list[Tensor],
    ) -> Tensor:
        """Average values with one softmax over both edges and node-aligned keys."""
        base = torch.stack(scores).amax(0).detach()
        relative = [s - b for s, b in zip(edge_scores, graph.target(base), strict=True)]
        excess = graph.aggregate(relative, "max").clamp(min=0).detach()
        # Masked edges may exceed the highest score; the clamp keeps inf out of the gradient.
        edge_weights = [(r - e).clamp(max=0).exp() for r, e in zip(relative, graph.target(excess), strict=True)]
        weights = [(s - base - excess).exp() for s in scores]
        total = graph.aggregate(edge_weights) + torch.stack(weights).sum(0)
        y = graph.aggregate([self._weigh(w, v) for w, v in zip(edge_weights, edge_values, strict=True)])
        for weight, value in zip(weights, values, strict=True):
            y = y + self._weigh(weight, value)
        return self._weigh(1 / total, y)

    def _weigh(self, weight: Tensor, value: Tensor) -> Tensor:
        """Return `value` times its head's weight."""
        return (value.unflatten(-1, (self.heads, -1)) * weight.unsqueeze(-1)).flatten(-2)
