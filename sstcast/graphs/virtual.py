"""`WithVirtualNode`: any graphs with one more node each, which is linked to all others."""

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from sstcast.graphs.graph import Graph, Planes, Reduce


class WithVirtualNode:
    """What local layers read of graphs to which a virtual node is added, with edges to and from each real node.

    The rows of the virtual nodes follow those of the others: `[B, H*W + 1, d]` on a grid, and
    `[nodes + graphs, d]` on a sparse graph. A plane of edges to the virtual nodes and one of edges from them
    follow the planes of the graph. Features of these edges are 0, and their weights 1. `mask` is False on virtual
    nodes, so norms leave them out of their statistics.

    Args:
        graph: the graphs without virtual nodes.
        x: any features of their nodes, for shape, dtype and device.
    """

    def __init__(self, graph: Graph, x: Tensor) -> None:
        self.graph, self.nodes, self.ones = graph, x.shape[-2], torch.ones_like(x[..., :1])
        real = self.ones.squeeze(-1) > 0 if graph.mask is None else graph.mask.expand(x.shape[:-1])
        self.mask = self.join(real.unsqueeze(-1)).squeeze(-1)
        self.edge_attr: Planes | None = None
        if graph.edge_attr is not None:
            zeros = graph.edge_attr[0].new_zeros(graph.edge_attr[0].shape[-1])
            self.edge_attr = [*graph.edge_attr, zeros, zeros]
        weight, loops = graph.edge_weight, graph.loop_weight
        self.edge_weight = None if weight is None else [*weight, self.ones, self.ones]
        self.loop_weight = None if loops is None else self.join(loops, loops.new_ones(len(self.members), 1))

    @cached_property
    def degree(self) -> Tensor:
        """The number of edges into each node, without those from virtual nodes, shaped like `ones`."""
        return self.graph.neighbors(self.ones)

    @cached_property
    def members(self) -> Tensor:
        """The number of real nodes in each graph, `[graphs, 1]`."""
        return self.graph.pool(self.ones, "sum")

    def join(self, x: Tensor, virtual: Tensor | None = None) -> Tensor:
        """Append the features of the virtual nodes `[graphs, d]`, by default 0, to those of the others."""
        if virtual is None:
            virtual = x.new_zeros(len(self.members), x.shape[-1])
        return torch.cat([x, virtual.reshape(*x.shape[:-2], -1, x.shape[-1])], dim=-2)

    def split(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Undo `join`."""
        return x[..., : self.nodes, :], x[..., self.nodes :, :].flatten(0, -2)

    def without_loops(self) -> "tuple[WithVirtualNode, Sequence[Tensor | slice] | None]":
        graph, keep = self.graph.without_loops()
        if keep is None:
            return self, None
        return WithVirtualNode(graph, self.ones), [*keep, slice(None), slice(None)]

    def source(self, x: Tensor) -> Planes:
        nodes, virtual = self.split(x)
        return [*self.graph.source(nodes), nodes, self.graph.broadcast(virtual)]

    def target(self, x: Tensor) -> Planes:
        nodes, virtual = self.split(x)
        return [*self.graph.target(nodes), self.graph.broadcast(virtual), nodes]

    def aggregate(self, messages: Planes, reduce: Reduce = "sum") -> Tensor:
        *edge_messages, to_virtual, from_virtual = messages
        if reduce != "max":
            return self._join_sums(self.graph.aggregate(edge_messages) + from_virtual, to_virtual, reduce)
        largest = torch.maximum(self.graph.aggregate(edge_messages, "max"), from_virtual)
        nodes = torch.where(self.degree > 0, largest, from_virtual)
        return self.join(nodes, self.graph.pool(to_virtual, "max").masked_fill(self.members == 0, 0))

    def neighbors(self, x: Tensor, reduce: Reduce = "sum") -> Tensor:
        if reduce == "max":
            return self.aggregate(self.source(x), "max")
        nodes, virtual = self.split(x)
        return self._join_sums(self.graph.neighbors(nodes) + self.graph.broadcast(virtual), nodes, reduce)

    def _join_sums(self, sums: Tensor, to_virtual: Tensor, reduce: Reduce) -> Tensor:
        if reduce == "mean":
            sums = sums / (self.degree + 1).to(sums.dtype)
        return self.join(sums, self.graph.pool(to_virtual, reduce))
