"""The neighbourhood of each node as a graph of its own."""

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import eye_array
from torch import Tensor
from torch._compile import _disable_dynamo  # torch.compiler.disable takes a second to import

from sstcast.graphs.anchors import OneGraph, single_graphs
from sstcast.graphs.edges import dense_edges
from sstcast.graphs.graph import Graph
from sstcast.graphs.sparse import SparseGraph

Numbers = NDArray[np.int64]


@_disable_dynamo
def ego_graphs(graph: Graph, x: Tensor, radius: int) -> tuple[SparseGraph, Tensor, Tensor]:
    """Return the graph of each node and all nodes within `radius` hops of it, with the edges among them.

    `x` are any node features. Returned with the graphs, in one batch, are the places of their nodes and of the
    nodes at their centres, among the rows of `graph.dense(x)`.
    """
    dense, edges = graph.dense(x[..., :1])[0], dense_edges(graph, x[..., :1])
    egos = [_egos(one, radius) for one in single_graphs(graph)]
    egos *= len(dense) // len(egos)  # samples may share one mask
    starts = np.cumsum([0, *(len(one[0]) for one in egos)])[:-1]
    parts = [
        (member + number * dense.shape[1], centre + number * dense.shape[1], ends + start, place + number * slots)
        for number, ((member, centre, ends, place), start) in enumerate(zip(egos, starts, strict=True))
        for slots in edges.mask.shape[1:]
    ]
    member, centre, ends, place = (
        torch.from_numpy(np.concatenate(column, axis=-1)).to(x.device) for column in zip(*parts, strict=True)
    )
    attr = None if edges.attr is None else edges.attr.flatten(0, 1)[place]
    return SparseGraph(ends, centre, dense.shape[0] * dense.shape[1], attr), member, centre


@lru_cache(maxsize=1024)
def _egos(graph: OneGraph, radius: int) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    nodes, real = len(graph.real), graph.real.nonzero()[0]
    reached = eye_array(nodes, format="csr")[real]
    for _ in range(radius):
        reached = (reached @ (graph.adjacency() + eye_array(nodes, format="csr"))).sign()
    row, member = (part.astype(np.int64) for part in reached.nonzero())
    order = np.lexsort((member, row))
    centre, member = real[row[order]], member[order]
    key, by_source = centre * nodes + member, np.argsort(graph.edges[0], kind="stable")
    first, last = (np.searchsorted(graph.edges[0][by_source], member, side) for side in ("left", "right"))
    source = np.repeat(np.arange(len(member)), last - first)
    within = np.arange(len(source)) - np.repeat(np.cumsum(last - first) - (last - first), last - first)
    edge = by_source[first[source] + within]
    wanted = centre[source] * nodes + graph.edges[1][edge]
    target = np.searchsorted(key, wanted).clip(max=max(len(key) - 1, 0))
    kept = key[target] == wanted
    return member, centre, np.stack([source[kept], target[kept]]), graph.places[edge[kept]]
