"""Sums along the shortest paths between all nodes of a graph.

A pair of nodes may have many shortest paths; the mean over all of them does not depend on the numbering of nodes,
as the choice of one would.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch._compile import _disable_dynamo  # torch.compiler.disable takes a second to import

from sstcast.graphs.anchors import OneGraph, check_memory, hops_between_all, single_graphs
from sstcast.graphs.graph import Graph

Numbers = NDArray[np.int64]


class Step(NamedTuple):
    """All pairs of nodes (i, j) that are k hops apart, and the last edges (p, j) of their shortest paths."""

    first: Numbers  # i of each pair
    second: Numbers  # j of each pair
    child: Numbers  # of each last edge: which of these pairs it leads to
    parent: Numbers  # which pair of the step before, k - 1 hops apart, is (i, p); in the first step, i
    edge: Numbers  # its place in `dense_edges`; where only (j, p) is stored, that of (j, p)
    share: NDArray[np.float32]  # of the shortest paths from i to j that end with it


@_disable_dynamo
def mean_along_paths(graph: Graph, scores: Sequence[Tensor], nodes: int) -> Tensor:
    """Return the mean over the edges of the shortest paths from i to j, `[graphs, nodes, nodes, d]`.

    The k-th edge of a path counts with its row of `scores[k]`, `[graphs, M, d]` (see `dense_edges`). The mean is 0
    for pairs more than `len(scores)` hops apart, or without a path. `nodes` is what all graphs are padded to.
    """
    graphs, edges, width = scores[0].shape
    steps = [_steps(one, len(scores)) for one in single_graphs(graph)]
    starts, sums = np.arange(graphs) * nodes, scores[0].new_zeros(graphs * nodes, width)
    means, places = [], []

    def joined(parts: Iterable[NDArray[Any]]) -> Tensor:
        return torch.from_numpy(np.concatenate(list(parts))).to(scores[0].device)

    for number in range(max(map(len, steps), default=0)):
        found = [(g, one[number]) for g, one in enumerate(steps) if number < len(one)]
        sizes = np.array([len(one[number].first) if number < len(one) else 0 for one in steps])
        before, starts = starts, sizes.cumsum() - sizes
        score = scores[number].flatten(0, 1)[joined(step.edge + g * edges for g, step in found)]
        score = score + sums[joined(step.parent + before[g] for g, step in found)]
        score = score * joined(step.share for _, step in found).unsqueeze(-1)
        child = joined(step.child + starts[g] for g, step in found)
        sums = score.new_zeros(sizes.sum(), width).index_add(0, child, score)
        means.append(sums / (number + 1))
        places.append(joined((g * nodes + step.first) * nodes + step.second for g, step in found))
    pairs = scores[0].new_zeros(graphs * nodes**2, width)
    if means:
        pairs = pairs.index_add(0, torch.cat(places), torch.cat(means).to(pairs.dtype))
    return pairs.view(graphs, nodes, nodes, width)


@lru_cache(maxsize=16)  # 50 MB for a grid of 30 x 30
def _steps(graph: OneGraph, most: int) -> list[Step]:
    hops, nodes = hops_between_all(graph).numpy(), len(graph.real)
    both = np.concatenate([graph.edges, graph.edges[::-1]], axis=1)  # edges have no direction
    _, once = np.unique(both[0] * nodes + both[1], return_index=True)
    (source, target), places = both[:, once], np.tile(graph.places, 2)[once]
    check_memory(f"shortest paths of {nodes} nodes by {len(source)} edges", nodes * len(source))
    i, edge = ((hops[:, source] + 1 == hops[:, target]) & (hops[:, target] <= most)).nonzero()
    pair, before, length = i * nodes + target[edge], i * nodes + source[edge], hops[i, target[edge]]
    rank, paths, steps = np.arange(nodes**2) // max(nodes, 1), np.eye(nodes).flatten(), []
    for step in range(1, int(length.max(initial=0)) + 1):
        here = length == step
        pairs, child = np.unique(pair[here], return_inverse=True)
        parent, counts = rank[before[here]], paths[before[here]]
        paths[pairs] = np.bincount(child, counts)
        share = (counts / paths[pairs][child]).astype(np.float32)
        rank[pairs] = np.arange(len(pairs))
        steps.append(Step(*np.divmod(pairs, nodes), child, parent, places[edge[here]], share))
    return steps
