"""Windows as PyG's `Data` objects, for its loader."""

import torch
from torch import Tensor
from torch_geometric.data import Data, Dataset
from torch_geometric.utils import grid, remove_self_loops, subgraph

from sstcast.ocean.windows import Windows


def grid_edges(rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Return `edge_index` of the eight nearest, and each edge's offset (dx, dy) from target to source."""
    edge_index, position = grid(rows, columns)
    edge_index, _ = remove_self_loops(edge_index)
    offset = position[edge_index[0]] - position[edge_index[1]]
    return edge_index, offset * torch.tensor([1.0, -1.0])  # PyG counts y upwards, from the last row


def tile_graph(rows: int, columns: int, ocean: Tensor) -> tuple[Tensor, Tensor]:
    """Return `grid_edges` among the ocean nodes alone, which are numbered anew."""
    return subgraph(ocean, *grid_edges(rows, columns), relabel_nodes=True, num_nodes=rows * columns)


class WindowDataset(Dataset):
    """One `Data` a window: history `x [nodes, history]`, target `y [nodes, horizon]` on the ocean's nodes."""

    def __init__(self, windows: Windows) -> None:
        super().__init__()
        self.windows = windows
        self.graphs = [tile_graph(*windows.shape, ocean) for ocean in windows.ocean]

    def len(self) -> int:
        return len(self.windows)

    def get(self, idx: int) -> Data:
        day, tile = divmod(idx, self.windows.values.shape[1])
        history, horizon = self.windows.history, self.windows.horizon
        series = self.windows.values[day : day + history + horizon, tile].T[self.windows.ocean[tile]]
        edge_index, edge_attr = self.graphs[tile]
        return Data(x=series[:, :history], y=series[:, history:], edge_index=edge_index, edge_attr=edge_attr)
