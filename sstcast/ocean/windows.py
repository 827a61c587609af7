"""Windows of history and future, cut from one tensor that stays on the device."""

from dataclasses import dataclass, replace

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from sstcast.config import DataConfig
from sstcast.graphs.grid import GridGraph
from sstcast.ocean.tiles import tile_index, to_tiles


@dataclass(frozen=True)
class Batch:
    """B windows: `history [B, N, history]`, `target [B, N, horizon]`, `ocean [B, N]`, and their graph."""

    history: Tensor
    target: Tensor
    ocean: Tensor
    graph: GridGraph


@dataclass(frozen=True)
class Windows:
    """All windows of one split.

    `values [T, tile, N]` holds the split's standardised anomalies, 0 on land; `ocean [tile, N]` is True on
    ocean; `days [T]` are its dates; `shape` is the tiles' (rows, columns). Window `i` of the
    `tiles * (T - history - horizon)` starts on day `i // tiles` of tile `i % tiles`. A split is cut out
    first and windows are made of it alone, so none crosses a split; their number is the paper's (Table 9).
    """

    values: Tensor
    ocean: Tensor
    days: np.ndarray
    shape: tuple[int, int]
    history: int
    horizon: int

    def __len__(self) -> int:
        return self.starts * self.values.shape[1]

    @property
    def starts(self) -> int:
        """Number of days a window may start on."""
        return len(self.values) - self.history - self.horizon

    @property
    def init_times(self) -> np.ndarray:
        """The last day of history of each start, `[starts]`."""
        return self.days[self.history - 1 :][: self.starts]

    def to(self, device: torch.device | str) -> "Windows":
        """Move the tensors."""
        return replace(self, values=self.values.to(device), ocean=self.ocean.to(device))

    def batch(self, index: Tensor, device: torch.device | None = None) -> Batch:
        """Return the windows numbered `index [B]`, on another `device` if one is given."""
        tiles = self.values.shape[1]
        tile = index % tiles
        day = (index // tiles)[:, None] + torch.arange(self.history + self.horizon, device=index.device)
        window = self.values[day, tile[:, None]].transpose(1, 2)
        ocean = self.ocean[tile]
        if device is not None and device != window.device:
            window, ocean = (part.pin_memory().to(device, non_blocking=True) for part in (window, ocean))
        return Batch(
            window[..., : self.history], window[..., self.history :], ocean, GridGraph(*self.shape, ocean)
        )


def cut_windows(anomalies: xr.Dataset, data: DataConfig, split: str) -> Windows:
    """Cut the windows of `split` (`train`, `validation` or `test`) out of the prepared anomalies."""
    first, last = getattr(data.splits, split)
    return windows_of(anomalies.sel(time=slice(str(first), str(last))), data)


def windows_of(anomalies: xr.Dataset, data: DataConfig) -> Windows:
    """Return the windows of all days of `anomalies`: `anomaly(time, lat, lon)` and `ocean_mask(lat, lon)`."""
    anomaly = anomalies["anomaly"]
    index = tile_index(data.box, anomaly.shape)
    values = to_tiles(np.nan_to_num(anomaly.values), index)
    ocean = to_tiles(anomalies["ocean_mask"].values, index)
    return Windows(
        values=torch.from_numpy(np.ascontiguousarray(values)),
        ocean=torch.from_numpy(ocean),
        days=anomaly["time"].values,
        shape=data.box.tile,
        history=data.history,
        horizon=data.horizon,
    )
