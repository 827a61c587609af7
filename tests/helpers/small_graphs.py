"""Graphs for tests: grids with land, their ocean as edge lists, and batches of networkx graphs."""

import networkx as nx
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.utils import from_networkx, subgraph

from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph

NO_EDGES = torch.zeros(2, 0, dtype=torch.long)
PAIRS = 16  # eigenpairs and steps of a walk given to an ocean


def land_grid(rows: int, cols: int, batch: int = 2, wrap: bool = False, seed: int = 3) -> GridGraph:
    """Return a grid with a quarter of the cells on land, different ones in each sample."""
    mask = torch.rand(batch, rows * cols, generator=torch.Generator().manual_seed(seed)) < 0.75
    return GridGraph(rows, cols, mask, wrap)


def offsets(grid: GridGraph) -> Tensor:
    """Return (dx, dy) of every edge of `edge_index`, computed from its ends."""
    (source, target), width = grid.edge_index, grid.width
    dx = source % width - target % width
    if grid.wrap:
        dx = (dx + width // 2) % width - width // 2
    return torch.stack([dx, source // width - target // width], dim=1).float()


def ocean_of(grid: GridGraph) -> SparseGraph:
    """Return the ocean of each sample as a graph, with the positional encodings of the grid."""
    graphs = []
    for keep in grid.mask:
        edges, attr = subgraph(keep, grid.edge_index, offsets(grid), relabel_nodes=True, num_nodes=len(keep))
        graphs.append(Data(edge_index=edges, edge_attr=attr, num_nodes=int(keep.sum())))
    ocean, samples = SparseGraph.from_pyg(Batch.from_data_list(graphs)), len(grid.mask)
    vectors, values = grid.laplacian(PAIRS)
    ocean.basis = vectors.expand(samples, -1, -1)[grid.mask], values.expand(samples, -1)
    ocean.walk = grid.random_walk(PAIRS).expand(samples, -1, -1)[grid.mask]
    return ocean


def as_sparse(*graphs: nx.Graph, features: int = 0) -> SparseGraph:
    """Return networkx graphs in one batch, each edge in both directions, with random features."""
    data = []
    for graph in graphs:
        index = from_networkx(graph).edge_index.reshape(2, -1)
        attr = torch.randn(index.shape[1], features) if features else None
        data.append(Data(edge_index=index, edge_attr=attr, num_nodes=len(graph)))
    return SparseGraph.from_pyg(Batch.from_data_list(data))


def one_graph(edge_index: Tensor, nodes: int, attr: Tensor | None = None) -> SparseGraph:
    """Return a single graph of an edge list."""
    return SparseGraph(edge_index, torch.zeros(nodes, dtype=torch.long), 1, attr)


def path(nodes: int) -> Tensor:
    """Return the edges of a path, in both directions."""
    steps = torch.stack([torch.arange(nodes - 1), torch.arange(1, nodes)])
    return torch.cat([steps, steps.flip(0)], dim=1)


def same(ours: Tensor, theirs: Tensor, tolerance: float = 1e-5) -> None:
    """Compare in single precision."""
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)
