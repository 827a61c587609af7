"""Hop distances: to anchors that dominate a graph (Wu et al. 2023, KDLGT, section 4.3), and between all nodes.

Paths use only unmasked nodes: on a grid they go around land, never across it. Results are cached per graph, so
that training on a few tiles computes them once per tile.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra, shortest_path
from torch import Tensor
from torch._compile import _disable_dynamo  # torch.compiler.disable takes a second to import

from sstcast.errors import SSTCastError
from sstcast.graphs.graph import Graph
from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph

LIMIT = 8 * 2**30


@_disable_dynamo
def anchor_distances(graph: Graph, radius: int) -> Tensor:
    """Return the hops from every node to every anchor of its graph, `[graphs, N, anchors]`.

    The value is infinite if there is no path, on land, and on padded nodes and anchors.
    """
    return _padded([_to_anchors(one, radius) for one in single_graphs(graph)])


@_disable_dynamo
def path_distances(graph: Graph) -> Tensor:
    """Return the hops between all nodes of a graph, `[graphs, N, N]`, infinite as in `anchor_distances`."""
    return _padded([hops_between_all(one) for one in single_graphs(graph)])


@dataclass(frozen=True)
class OneGraph:
    """A mask of real nodes `[n]`, the edges `[2, e]` between them and each edge's place in `dense_edges`.

    Graphs are compared by a digest of nodes and edges.
    """

    digest: bytes
    real: NDArray[np.bool_] = field(compare=False)
    edges: NDArray[np.int64] = field(compare=False)
    places: NDArray[np.int64] = field(compare=False)

    def adjacency(self) -> csr_array:
        source, target = np.concatenate([self.edges, self.edges[::-1]], axis=1)  # edges have no direction
        return csr_array((np.ones(len(source), np.float32), (source, target)), shape=(len(self.real),) * 2)


@lru_cache(maxsize=4096)
def _to_anchors(graph: OneGraph, radius: int) -> Tensor:
    adjacency = graph.adjacency()
    anchors = dominating_set(adjacency, graph.real, radius)
    check_memory(f"{len(graph.real)} nodes x {len(anchors)} anchors", len(graph.real) * len(anchors))
    hops = dijkstra(adjacency, unweighted=True, indices=anchors).T if anchors else np.empty((len(graph.real), 0))
    return torch.tensor(hops, dtype=torch.float32)


@lru_cache(maxsize=64)
def hops_between_all(graph: OneGraph) -> Tensor:
    check_memory(f"hops between all of {len(graph.real)} nodes", len(graph.real) ** 2)
    hops = shortest_path(graph.adjacency(), method="D", unweighted=True)
    hops[~graph.real] = np.inf
    return torch.tensor(hops, dtype=torch.float32)


def dominating_set(adjacency: csr_array, real: NDArray[np.bool_], radius: int) -> list[int]:
    """Return anchors such that each node of `real` has an anchor within `radius` hops.

    The search is greedy: in order of decreasing degree, each node that is not yet near an anchor becomes one.
    Equal degrees are ordered by colour, so that the numbering of nodes matters only between nodes of the same
    colour, such as the corners of a square.
    """
    near, degree = np.split(adjacency.indices, adjacency.indptr[1:-1]), np.diff(adjacency.indptr)
    left, anchors = real.copy(), []
    for node in np.lexsort((colours(adjacency), -degree)):
        if left[node]:
            anchors.append(int(node))
            ring = ball = {int(node)}
            for _ in range(radius):
                ring = {int(j) for i in ring for j in near[i]} - ball
                ball = ball | ring
            left[list(ball)] = False
    return anchors


def colours(adjacency: csr_array, rounds: int = 16) -> NDArray[np.uint64]:
    """Return Weisfeiler-Leman colours: each round hashes a node's colour with those of its neighbours.

    All values are integers, whose sums do not depend on the order of nodes.
    """
    joined = (adjacency != 0).astype(np.uint64)
    colour = joined @ np.ones(len(joined.indptr) - 1, np.uint64)
    for _ in range(rounds):
        mixed = colour * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(32)
        colour = np.uint64(3) * mixed + joined @ mixed
    return colour


def check_memory(what: str, numbers: int) -> None:
    """Raise SSTCastError if `numbers` values in single precision would need more than `LIMIT` bytes."""
    if 4 * numbers > LIMIT:
        raise SSTCastError(
            f"{what}: needs {4 * numbers / 2**30:.1f} GiB, more than the limit of {LIMIT / 2**30:g}; "
            "choose a model of linear cost, smaller batches or smaller graphs"
        )


def single_graphs(graph: Graph) -> Iterator[OneGraph]:
    """Return the graphs of a batch, each by itself."""
    if isinstance(graph, GridGraph):
        index, inside = graph.edge_index().numpy(), graph.target(torch.ones(1, graph.mask.shape[1], 1))
        places = torch.cat(list(inside), dim=1).flatten().nonzero().flatten().numpy()
        for real in graph.mask.cpu().numpy():
            kept = real[index].all(axis=0)
            yield _one(real, index[:, kept], places[kept])
    elif isinstance(graph, SparseGraph):
        index, batch = graph.edge_index.cpu().numpy(), graph.batch.cpu().numpy()
        starts = np.searchsorted(batch, np.arange(graph.graphs + 1))
        index = index[:, np.argsort(batch[index[0]], kind="stable")]
        ends = np.searchsorted(batch[index[0]], np.arange(graph.graphs + 1))
        for g, start in enumerate(starts[:-1]):
            edges = index[:, ends[g] : ends[g + 1]] - start
            yield _one(np.ones(starts[g + 1] - start, bool), edges, np.arange(edges.shape[1]))


def _one(real: NDArray[np.bool_], edges: NDArray[np.int64], places: NDArray[np.int64]) -> OneGraph:
    content = real.tobytes() + b"|" + np.ascontiguousarray(edges).tobytes()
    return OneGraph(hashlib.sha256(content).digest(), real, edges, places)


def _padded(blocks: list[Tensor]) -> Tensor:
    """Stack blocks `[n, m]` of different sizes, padded with infinity; there is room for one node at least."""
    rows, columns = (max([1, *(b.shape[side] for b in blocks)]) for side in (0, 1))
    check_memory(f"hops of {len(blocks)} x {rows} x {columns}", len(blocks) * rows * columns)
    out = torch.full((len(blocks), rows, columns), torch.inf)
    for target, block in zip(out, blocks, strict=True):
        target[: block.shape[0], : block.shape[1]] = block
    return out
