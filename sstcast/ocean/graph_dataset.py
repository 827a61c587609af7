"""Windows of the sea as a data set of PyTorch Geometric: the ocean of a tile is a graph, and a window a `Data`."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, Dataset
from torch_geometric.utils import subgraph

from sstcast.config import DataConfig
from sstcast.errors import SSTCastError
from sstcast.graphs.grid import GridGraph
from sstcast.ocean.prepared import Prepared
from sstcast.ocean.tiles import tile_index


class OceanGraphs(Dataset):  # type: ignore[misc]
    """The windows of a split as graphs, numbered as in `Windows`. Their nodes are the ocean of a tile.

    A graph is `Data(x [n, history], y [n, horizon], edge_index, pos [n, 2], cell [n], window, init_time, tile)`.
    `x` and `y` are standardised anomalies. `pos` is latitude and longitude in degrees, and `cell` the position in
    the flattened `(lat, lon)` grid. Each node is linked to the ocean among its 8 neighbours, in both directions,
    and across the seam of a globe, but not to other tiles. `edge_index`, `pos` and `cell` are one tensor a tile.

    A pickle holds no days, and its copy opens the stores. A forked process shares the windows, because it cannot
    open stores of Zarr.
    """

    def __init__(
        self,
        windows: Any,
        data: DataConfig,
        reopen: Callable[[], Any],
        transform: Callable[[Data], Any] | None = None,
    ) -> None:
        """Take the `Windows` of prepared stores, and the function `reopen` that cuts all of their split again.

        Raises SSTCastError if a graph would lack what the windows read or forecast.
        """
        if windows.predictors:
            raise SSTCastError("data.predictors: graphs hold SST alone; leave them out")
        if windows.before:
            raise SSTCastError("windows: graphs have no days before the history; cut them without a memory")
        if not windows.horizon:
            raise SSTCastError("data.horizon: 0, so graphs have nothing to predict; set it to 1 or more")
        super().__init__(None, transform)
        anomalies = Prepared.of(data).open_anomalies()
        self.data, self.reopen, self.init_times = data, reopen, windows.init_times
        self.lat, self.lon = anomalies["lat"].values, anomalies["lon"].values
        self._windows = windows
        self._of_tile = lru_cache(maxsize=None)(self._make_tile)

    def len(self) -> int:
        """Return the number of windows."""
        return len(self.windows)

    def get(self, idx: int) -> Data:
        """Return a window."""
        windows = self.windows
        start, tile = divmod(idx, windows.tiles)
        ocean, edge_index, pos, cell = self._of_tile(tile)
        first = int(windows.at[start])
        days = windows.values[first : first + windows.history + windows.horizon, tile][:, ocean].T
        return Data(
            x=days[:, : windows.history].clone(),
            y=days[:, windows.history :].clone(),
            edge_index=edge_index,
            pos=pos,
            cell=cell,
            num_nodes=len(cell),
            window=idx,
            init_time=self.init_times[start],
            tile=tile,
        )

    @property
    def windows(self) -> Any:
        """The `Windows`, which a copy in another process cuts when it needs them."""
        if self._windows is None:
            windows = self.reopen()
            starts = np.searchsorted(windows.init_times, self.init_times)
            self._windows = replace(windows, at=windows.at[starts])
        return self._windows

    def _make_tile(self, tile: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the ocean nodes of a tile, `[n]`, and the edges, positions and cells of a graph."""
        windows = self.windows
        mask = windows.ocean[tile]
        height, width = windows.shape
        edges = edges_of(GridGraph(height, width, mask[None], windows.wrap))
        cell = tile_index(self.data.box, (len(self.lat), len(self.lon)))[tile][mask.numpy()]
        rows, columns = np.divmod(cell, len(self.lon))
        pos = np.stack([self.lat[rows], self.lon[columns]], axis=1).astype(np.float32)
        return mask.nonzero()[:, 0], edges, torch.from_numpy(pos), torch.from_numpy(cell)

    def __copy__(self) -> Self:
        """Return a copy in this process, as for `dataset[indices]`, which shares the windows."""
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_windows", "_of_tile")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._windows, self._of_tile = None, lru_cache(maxsize=None)(self._make_tile)


def edges_of(grid: GridGraph) -> Tensor:
    """Return the edges between the real nodes of a grid of one sample, numbered as these, each once, no loops."""
    edges, mask = grid.edge_index, grid.mask[0]
    edges = edges[:, edges[0] != edges[1]].unique(dim=1)  # of a globe of one or two columns
    return subgraph(mask, edges, relabel_nodes=True, num_nodes=len(mask))[0]
