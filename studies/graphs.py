"""Synthetic graphs of networkx, batched."""

from collections.abc import Sequence

import networkx as nx
import numpy as np
import torch

from sstcast.graphs.sparse import SparseGraph


def batch_graphs(graphs: Sequence[nx.Graph]) -> SparseGraph:
    """Join graphs, the nodes of each numbered from 0; every edge goes both ways."""
    sizes = [len(graph) for graph in graphs]
    starts = np.cumsum([0, *sizes[:-1]])
    pairs = np.concatenate(
        [start + np.array(graph.edges).reshape(-1, 2) for start, graph in zip(starts, graphs, strict=True)]
    )
    edge_index = torch.from_numpy(np.concatenate([pairs.T, pairs.T[::-1]], axis=1).astype(np.int64))
    return SparseGraph(edge_index, torch.arange(len(graphs)).repeat_interleave(torch.tensor(sizes)), len(graphs))
