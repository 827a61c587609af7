"""The edges of each graph of a batch, side by side: what edge tokens and sums along paths are made from."""

from typing import NamedTuple

import torch
from torch import Tensor

from sstcast.graphs.graph import Graph
from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph


class DenseEdges(NamedTuple):
    """Directed edges, padded to M places in each graph."""

    source: Tensor  # node features at each edge's source, [graphs, M, d]
    target: Tensor  # node features at its target, [graphs, M, d]
    attr: Tensor | None  # edge features, [graphs, M, f]
    mask: Tensor  # True on edges, False on padding, [graphs, M]


def dense_edges(graph: Graph, x: Tensor) -> DenseEdges:
    """Return each edge in both directions, if the graph stores both, with the node features `x` at its ends.

    A grid has a place for each node and direction, in the order of its planes; the edges of a sparse graph keep
    their order.
    """
    if isinstance(graph, GridGraph):
        shape = (len(x), -1, -1)
        attr = torch.cat([plane.to(x.dtype).expand(-1, x.shape[1], -1) for plane in graph.edge_attr], dim=1)
        real = torch.cat([t & graph.mask.unsqueeze(-1) for t in graph.target(graph.mask.unsqueeze(-1))], dim=1)
        source, target = torch.cat(list(graph.source(x)), dim=1), torch.cat(list(graph.target(x)), dim=1)
        return DenseEdges(source, target, attr.expand(shape), real.squeeze(-1).expand(len(x), -1))
    from torch_geometric.utils import to_dense_batch

    assert isinstance(graph, SparseGraph)
    batch, order = graph.batch[graph.edge_index[0]].sort(stable=True)
    most = int(batch.bincount(minlength=1).max())  # 0 even if there is no graph

    def dense(values: Tensor) -> tuple[Tensor, Tensor]:
        padded, mask = to_dense_batch(values[order], batch, max_num_nodes=most, batch_size=graph.graphs)
        return padded, mask

    (source, mask), (target, _) = (dense(x[end]) for end in graph.edge_index)
    return DenseEdges(source, target, None if graph.edge_attr is None else dense(graph.edge_attr[0])[0], mask)
