"""Hops in a graph: distances to anchors and between all nodes, means along shortest paths, neighbourhoods.

Paths visit only unmasked nodes, so on a grid they go around land. Results are cached per graph: training on a few
tiles computes them once for each tile.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array
from scipy.sparse.csgraph import dijkstra, shortest_path
from torch import Tensor
from torch._compile import _disable_dynamo  # torch.compiler.disable takes a second to import

from sstcast.graphs.graph import Graph, check_memory
from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph

Numbers = NDArray[np.int64]
HOP_COPIES = 3  # copies in float32: scipy's result in double precision, and its conversion


@_disable_dynamo
def anchor_distances(graph: Graph, radius: int) -> Tensor:
    """Return the hops from every node to every anchor of its graph, `[graphs, N, anchors]`.

    The anchors are a `dominating_set`. A value is infinite if there is no path, on land, and at padded nodes and
    anchors. Raises SSTCastError if the result needs too much memory.
    """
    return _padded([_to_anchors(single_graph, radius) for single_graph in single_graphs(graph)])


@_disable_dynamo
def path_distances(graph: Graph) -> Tensor:
    """Return the hops between all nodes of each graph, `[graphs, N, N]`, infinite as in `anchor_distances`.

    Raises SSTCastError if the result needs too much memory.
    """
    return _padded([hops_between_all(single_graph) for single_graph in single_graphs(graph)])


@dataclass(frozen=True)
class EdgeList:
    """One graph as a key for caches, which compare graphs by a digest of all fields."""

    digest: bytes
    real: NDArray[np.bool_] = field(compare=False)  # the mask of real nodes, [n]
    edges: NDArray[np.int64] = field(compare=False)  # between real nodes, [2, e]
    places: NDArray[np.int64] = field(compare=False)  # the index of each edge in Graph.dense_edges, [e]

    def adjacency(self) -> csr_array:
        source, target = np.concatenate([self.edges, self.edges[::-1]], axis=1)  # edges have no direction
        return csr_array((np.ones(len(source), np.float32), (source, target)), shape=(len(self.real),) * 2)


@lru_cache(maxsize=4096)
def _to_anchors(graph: EdgeList, radius: int) -> Tensor:
    adjacency = graph.adjacency()
    anchors = dominating_set(adjacency, graph.real, radius)
    check_memory(
        f"{len(graph.real)} nodes x {len(anchors)} anchors", len(graph.real) * len(anchors), copies=HOP_COPIES
    )
    hops = dijkstra(adjacency, unweighted=True, indices=anchors).T if anchors else np.empty((len(graph.real), 0))
    return torch.tensor(hops, dtype=torch.float32)


@lru_cache(maxsize=64)
def hops_between_all(graph: EdgeList) -> Tensor:
    check_memory(f"hops between all of {len(graph.real)} nodes", len(graph.real) ** 2, copies=HOP_COPIES)
    hops = shortest_path(graph.adjacency(), method="D", unweighted=True)
    hops[~graph.real] = np.inf
    return torch.tensor(hops, dtype=torch.float32)


def dominating_set(adjacency: csr_array, real: NDArray[np.bool_], radius: int) -> list[int]:
    """Return anchors such that every node of `real` has one within `radius` hops.

    The search is greedy (KDLGT, section 4.3). It visits nodes by decreasing degree and makes each node an anchor
    that has none within the radius yet. Nodes of equal degree are sorted by colour. So the numbering of nodes
    decides only between nodes of the same colour, such as the corners of a square.
    """
    neighbors, degree = np.split(adjacency.indices, adjacency.indptr[1:-1]), np.diff(adjacency.indptr)
    uncovered, anchors = real.copy(), []
    for node in np.lexsort((colours(adjacency), -degree)):
        if uncovered[node]:
            anchors.append(int(node))
            ring = ball = {int(node)}
            for _ in range(radius):
                ring = {int(j) for i in ring for j in neighbors[i]} - ball
                ball = ball | ring
            uncovered[list(ball)] = False
    return anchors


def colours(adjacency: csr_array, rounds: int = 16) -> NDArray[np.uint64]:
    """Return the Weisfeiler-Leman colour of each node. Every round hashes it with the colours of its neighbours.

    Colours are integers, because their sums do not depend on the order of nodes.
    """
    links = (adjacency != 0).astype(np.uint64)
    colour = links @ np.ones(len(links.indptr) - 1, np.uint64)
    for _ in range(rounds):
        mixed = colour * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(32)
        colour = np.uint64(3) * mixed + links @ mixed
    return colour


def single_graphs(graph: Graph) -> Iterator[EdgeList]:
    """Yield the graphs of a batch one by one."""
    if isinstance(graph, GridGraph):
        edge_index, edge_planes = (
            graph.edge_index.cpu().numpy(),
            graph.target(torch.ones(1, graph.mask.shape[1], 1)),
        )
        places = torch.cat(list(edge_planes), dim=1).flatten().nonzero().flatten().numpy()
        for real in graph.mask.cpu().numpy():
            real_edges = real[edge_index].all(axis=0)
            yield _edge_list(real, edge_index[:, real_edges], places[real_edges])
    elif isinstance(graph, SparseGraph):
        edge_index, batch = graph.edge_index.cpu().numpy(), graph.batch.cpu().numpy()
        node_bounds = np.searchsorted(batch, np.arange(graph.graphs + 1))
        edge_index = edge_index[:, np.argsort(batch[edge_index[0]], kind="stable")]
        edge_bounds = np.searchsorted(batch[edge_index[0]], np.arange(graph.graphs + 1))
        for g, start in enumerate(node_bounds[:-1]):
            edges = edge_index[:, edge_bounds[g] : edge_bounds[g + 1]] - start
            yield _edge_list(np.ones(node_bounds[g + 1] - start, bool), edges, np.arange(edges.shape[1]))


def _edge_list(real: NDArray[np.bool_], edges: NDArray[np.int64], places: NDArray[np.int64]) -> EdgeList:
    digest = hashlib.sha256(f"{len(real)} {len(places)} ".encode())
    for array in (real, edges, places):
        digest.update(np.ascontiguousarray(array).data)
    return EdgeList(digest.digest(), real, edges, places)


def _padded(blocks: list[Tensor]) -> Tensor:
    """Stack blocks `[n, m]` of different sizes, padded with infinity to at least one row and column."""
    rows, columns = (max([1, *(b.shape[side] for b in blocks)]) for side in (0, 1))
    check_memory(f"hops of {len(blocks)} x {rows} x {columns}", len(blocks) * rows * columns, copies=1)
    out = torch.full((len(blocks), rows, columns), torch.inf)
    for target, block in zip(out, blocks, strict=True):
        target[: block.shape[0], : block.shape[1]] = block
    return out


class Step(NamedTuple):
    """All pairs of nodes (i, j) that are k hops apart, and the last edges (p, j) of their shortest paths."""

    first: Numbers  # i of each pair
    second: Numbers  # j of each pair
    child: Numbers  # for each last edge, the index of its pair (i, j)
    parent: Numbers  # for each last edge, the index of (i, p) in the previous step; in the first step, i
    edge: Numbers  # for each last edge, its index in `dense_edges`, or that of (j, p) if only that is stored
    share: NDArray[np.float32]  # for each last edge, the share of the shortest paths from i to j that end with it


@_disable_dynamo
def mean_along_paths(graph: Graph, scores: Sequence[Tensor], nodes: int) -> Tensor:
    """Return the mean score of the edges on the shortest paths from i to j, `[graphs, nodes, nodes, d]`.

    If there are several shortest paths, the mean is taken over all of them, because the choice of one would depend
    on the numbering of nodes. Repeated edges are one step of a path, with the mean of their scores. The result is
    0 for pairs without a path and for pairs more than `len(scores)` hops apart.

    Args:
        graph: the graphs.
        scores: `scores[k]` holds the score of every edge as the k-th of a path, `[graphs, M, d]`, in the order of
            `Graph.dense_edges`.
        nodes: the number of nodes to which all graphs are padded.
    """
    graphs, edges, width = scores[0].shape
    steps = [_steps(single_graph, len(scores)) for single_graph in single_graphs(graph)]
    starts, sums = np.arange(graphs) * nodes, scores[0].new_zeros(graphs * nodes, width)
    means, places = [], []

    def concatenated(arrays: Iterable[NDArray[Any]]) -> Tensor:
        return torch.from_numpy(np.concatenate(list(arrays))).to(scores[0].device)

    for number in range(max(map(len, steps), default=0)):
        graph_steps = [(g, path[number]) for g, path in enumerate(steps) if number < len(path)]
        sizes = np.array([len(path[number].first) if number < len(path) else 0 for path in steps])
        previous_starts, starts = starts, sizes.cumsum() - sizes
        score = scores[number].flatten(0, 1)[concatenated(step.edge + g * edges for g, step in graph_steps)]
        score = score + sums[concatenated(step.parent + previous_starts[g] for g, step in graph_steps)]
        score = score * concatenated(step.share for _, step in graph_steps).unsqueeze(-1)
        child = concatenated(step.child + starts[g] for g, step in graph_steps)
        sums = score.new_zeros(sizes.sum(), width).index_add(0, child, score)
        means.append(sums / (number + 1))
        places.append(concatenated((g * nodes + step.first) * nodes + step.second for g, step in graph_steps))
    pairs = scores[0].new_zeros(graphs * nodes**2, width)
    if means:
        pairs = pairs.index_add(0, torch.cat(places), torch.cat(means).to(pairs.dtype))
    return pairs.view(graphs, nodes, nodes, width)


@lru_cache(maxsize=16)  # a grid of 30 x 30 takes 50 MB
def _steps(graph: EdgeList, most: int) -> list[Step]:
    hops, nodes = hops_between_all(graph).numpy(), len(graph.real)
    (source, target), places, weight = _links(graph)
    check_memory(f"shortest paths of {nodes} nodes by {len(source)} edges", nodes * len(source), copies=1)
    i, edge = ((hops[:, source] + 1 == hops[:, target]) & (hops[:, target] <= most)).nonzero()
    pair, source_pair, length = i * nodes + target[edge], i * nodes + source[edge], hops[i, target[edge]]
    index_in_step, path_counts, steps = np.arange(nodes**2) // max(nodes, 1), np.eye(nodes).flatten(), []
    for step in range(1, int(length.max(initial=0)) + 1):
        mask = length == step
        pairs, child = np.unique(pair[mask], return_inverse=True)
        parent, counts = index_in_step[source_pair[mask]], path_counts[source_pair[mask]] * weight[edge[mask]]
        path_counts[pairs] = np.bincount(child, counts)
        share = (counts / path_counts[pairs][child]).astype(np.float32)
        index_in_step[pairs] = np.arange(len(pairs))
        steps.append(Step(*np.divmod(pairs, nodes), child, parent, places[edge[mask]], share))
    return steps


def _links(graph: EdgeList) -> tuple[Numbers, Numbers, NDArray[np.float64]]:
    """Return the edges that paths follow, `[2, links]`, their places, and the weight of each.

    Edges have no direction, so an edge is followed backwards where none is stored that way. The weights of
    repeated edges are equal and add up to 1.
    """
    ends, nodes = np.concatenate([graph.edges, graph.edges[::-1]], axis=1), len(graph.real)
    key, stored = ends[0] * nodes + ends[1], graph.edges.shape[1]
    keep = np.append(np.arange(stored), stored + np.flatnonzero(~np.isin(key[stored:], key[:stored])))
    order = keep[np.argsort(key[keep], kind="stable")]
    _, link, counts = np.unique(key[order], return_inverse=True, return_counts=True)
    return ends[:, order], np.tile(graph.places, 2)[order], 1 / counts[link]


@_disable_dynamo
def ego_graphs(graph: Graph, x: Tensor, radius: int) -> tuple[SparseGraph, Tensor, Tensor]:
    """Return for each node the subgraph of all nodes within `radius` hops.

    Args:
        graph: the graphs.
        x: any node features of `graph`, for their shape.
        radius: hops from the centre of a subgraph to its outermost nodes.

    Returns:
        All subgraphs as one batch. Then, for each of their nodes, its row in the flattened `graph.dense(x)`, and
        the row of the centre of its subgraph there.
    """
    dense, edges = graph.dense(x[..., :1])[0], graph.dense_edges(x[..., :1])
    egos = [_egos(single_graph, radius) for single_graph in single_graphs(graph)]
    egos *= len(dense) // len(egos)  # samples may share one mask
    starts, slots = np.cumsum([0, *(len(members) for members, *_ in egos)])[:-1], edges.mask.shape[1]
    parts = [
        (member + number * dense.shape[1], centre + number * dense.shape[1], ends + start, slot + number * slots)
        for number, ((member, centre, ends, slot), start) in enumerate(zip(egos, starts, strict=True))
    ]
    member, centre, ends, slot = (
        torch.from_numpy(np.concatenate(column, axis=-1)).to(x.device) for column in zip(*parts, strict=True)
    )
    attr = None if edges.attr is None else edges.attr.flatten(0, 1)[slot]
    return SparseGraph(ends, centre, dense.shape[0] * dense.shape[1], attr), member, centre


@lru_cache(maxsize=1024)
def _egos(graph: EdgeList, radius: int) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    nodes, real = len(graph.real), graph.real.nonzero()[0]
    reached = eye_array(nodes, format="csr")[real]
    for _ in range(radius):
        reached = (reached @ (graph.adjacency() + eye_array(nodes, format="csr"))).sign()
    row, member = (indices.astype(np.int64) for indices in reached.nonzero())
    order = np.lexsort((member, row))
    centre, member = real[row[order]], member[order]
    key, by_source = centre * nodes + member, np.argsort(graph.edges[0], kind="stable")
    first, last = (np.searchsorted(graph.edges[0][by_source], member, side) for side in ("left", "right"))
    source = np.repeat(np.arange(len(member)), last - first)
    within = np.arange(len(source)) - np.repeat(np.cumsum(last - first) - (last - first), last - first)
    edge = by_source[first[source] + within]
    target_keys = centre[source] * nodes + graph.edges[1][edge]
    target = np.searchsorted(key, target_keys).clip(max=max(len(key) - 1, 0))
    has_target = key[target] == target_keys
    return member, centre, np.stack([source[has_target], target[has_target]]), graph.places[edge[has_target]]
