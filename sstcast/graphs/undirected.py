"""Undirected edges, each of them once, from which edge tokens are made."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.utils import to_dense_batch

from sstcast.graphs.graph import Graph
from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph


class UndirectedEdges(NamedTuple):
    """Edges padded to M, the largest number of edges in a graph of the batch."""

    first: Tensor  # node features at one end, [graphs, M, d]
    second: Tensor  # node features at the other end, [graphs, M, d]
    attr: Tensor | None  # edge features, [graphs, M, f]
    mask: Tensor  # True on edges, False on padding, [graphs, M]


def undirected_edges(graph: Graph, x: Tensor) -> UndirectedEdges:
    """Return each undirected edge once, with the node features `x` at its ends.

    Of the two directions in which an edge is stored, the one with the larger features (in lexicographic order) is
    used, so that the choice does not depend on the numbering of nodes. If both directions have the same features,
    or none, the mean of the node features is used at both ends.
    """
    if isinstance(graph, GridGraph):
        return _of_grid(graph, x)
    assert isinstance(graph, SparseGraph)
    return _of_sparse(graph, x)


def _of_grid(graph: GridGraph, x: Tensor) -> UndirectedEdges:
    """Use the 4 of the offsets (dx, dy) that are larger than their opposites."""
    half = [i for i, (dy, dx) in enumerate(graph.OFFSETS) if (dx, dy) > (0, 0)]
    first, second = graph.source(x), graph.target(x)
    shape = (*x.shape[:2], 2)
    at_target = graph.target(graph.mask.unsqueeze(-1))
    edges = [at_target[i].squeeze(-1) & graph.mask for i in half]
    return UndirectedEdges(
        torch.cat([first[i] for i in half], dim=1),
        torch.cat([second[i] for i in half], dim=1),
        torch.cat([graph.edge_attr[i].to(x.dtype).expand(shape) for i in half], dim=1),
        torch.cat(edges, dim=1).expand(len(x), -1),
    )


def _of_sparse(graph: SparseGraph, x: Tensor) -> UndirectedEdges:
    source, target = graph.edge_index
    attr = None if graph.edge_attr is None else graph.edge_attr[0]
    rank = torch.zeros_like(source) if attr is None else attr.unique(dim=0, return_inverse=True)[1]
    nodes, ranks = len(graph.batch), len(source) + 1
    same_both_ways = torch.isin((target * nodes + source) * ranks + rank, (source * nodes + target) * ranks + rank)
    pair = torch.minimum(source, target) * nodes + torch.maximum(source, target)
    order = (pair * ranks - rank).argsort()
    pair = pair[order]
    chosen = order[torch.cat([pair.new_ones(len(pair[:1]), dtype=torch.bool), pair[1:] != pair[:-1]])]

    first, second, swap = x[source[chosen]], x[target[chosen]], same_both_ways[chosen].unsqueeze(-1)
    mean = (first + second) / 2
    first, second = torch.where(swap, mean, first), torch.where(swap, mean, second)
    batch = graph.batch[source[chosen]]

    most = int(batch.bincount(minlength=1).max())  # 0 even if there is no graph

    def dense(values: Tensor) -> tuple[Tensor, Tensor]:
        padded, mask = to_dense_batch(values, batch, max_num_nodes=most, batch_size=graph.graphs)
        return padded, mask

    (first, mask), (second, _) = dense(first), dense(second)
    return UndirectedEdges(first, second, None if attr is None else dense(attr[chosen])[0], mask)
