"""Neighbour sampling: training on nodes of a graph that does not fit in memory as a whole.

Hamilton et al. 2017, GraphSAGE (arXiv:1706.02216), algorithm 2, as PyTorch Geometric's `NeighborLoader` does it,
which needs compiled extensions.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sstcast.benchmarks.packed import GraphBatch
from sstcast.benchmarks.tasks import OneGraph, epoch_generator


class SampledNeighbours(OneGraph):
    """`batch_size` training nodes a step, each with some of its neighbours, some of theirs, and so on.

    `counts` says how many neighbours a node gets at each distance, -1 for all. Scores use the whole graph.
    """

    def __init__(self, *arguments: Any, counts: Sequence[int]) -> None:
        super().__init__(*arguments)
        self.counts = counts
        target = self.graphs.edge_index[1].long()
        self.incoming = target.argsort(stable=True)
        self.ends = torch.bincount(target, minlength=int(self.graphs.nodes[0])).cumsum(0)

    def order(self, seed: int, epoch: int) -> list[Tensor]:
        train = self.split.train
        shuffled = train[torch.randperm(len(train), generator=epoch_generator(seed, epoch))]
        return list(shuffled.split(self.batch_size))

    def batch(self, index: Tensor) -> GraphBatch:
        """Return these nodes, first and to be predicted, with the neighbours drawn for them."""
        asked = index.to(self.fabric.device)
        kept, edges = sample(asked, self.graphs.edge_index, self.incoming, self.ends, self.counts)
        return self.graphs.subgraph(kept, edges, torch.arange(len(asked), device=asked.device))

    def batches(self, samples: Tensor) -> list[GraphBatch]:
        return [super().batch(samples)]


def sample(
    nodes: Tensor, edge_index: Tensor, incoming: Tensor, ends: Tensor, counts: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Draw neighbours from which the different `nodes` get messages, and then the neighbours of those.

    `incoming` are the edges sorted by target, and `ends [nodes]` says where those of each target end. At distance
    i, each node that was not reached before draws `counts[i]` of its edges without replacement, or all if it has
    no more or the count is -1. Returns all nodes reached, the given ones first, and the edges drawn.
    """
    reached = torch.zeros(len(ends), dtype=torch.bool, device=nodes.device)
    reached[nodes] = True
    found, drawn, front = [nodes], [], nodes
    for count in counts:
        edges = _draw(front, incoming, ends, count)
        front = edge_index[0, edges].long().unique()
        front = front[~reached[front]]
        reached[front] = True
        found.append(front)
        drawn.append(edges)
    return torch.cat(found), torch.cat(drawn)


def _draw(nodes: Tensor, incoming: Tensor, ends: Tensor, count: int) -> Tensor:
    """Return `count` random incoming edges of each node, or all."""
    degrees = ends.diff(prepend=ends.new_zeros(1))[nodes]
    first = degrees.cumsum(0) - degrees
    owner = torch.arange(len(nodes), device=nodes.device).repeat_interleave(degrees)
    number = torch.arange(len(owner), device=nodes.device) - first[owner]  # of the edge among its node's
    edges = incoming[(ends[nodes] - degrees)[owner] + number]
    if count < 0:
        return edges
    keys = torch.rand(len(owner), dtype=torch.float64, device=nodes.device)
    return edges[(owner + keys).argsort()[number < count]]  # shuffled within each node's
