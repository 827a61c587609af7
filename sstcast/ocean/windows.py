"""Training windows of history and future, sliced from one tensor that stays on the device."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
import xarray as xr
from numpy.typing import NDArray
from torch import Tensor

from sstcast.config import DataConfig, Region
from sstcast.errors import SSTCastError
from sstcast.geo import spans_globe
from sstcast.graphs.grid import GridGraph
from sstcast.ocean.splits import starts_of
from sstcast.ocean.tiles import tile_index, to_tiles
from sstcast.predictors.predictors import VARIABLE_PREFIX, predictors_in
from sstcast.reading.days_of_year import YEAR_DAYS
from sstcast.storage.scratch import parts, release, scratch_array

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from sstcast.ocean.graph_dataset import OceanGraphs

MIN_MEMORY_DAYS = 2 * 365  # minimum number of days with a complete memory
EVERY_DAY = np.empty(0, np.intp)  # stands for all starts of a split
EARLIER = "earlier_"  # before the name of a predictor's variable: what the days before `past` know of it


@dataclass(frozen=True)
class Batch:
    """B windows: `history [B, N, history]`, `target [B, N, horizon]`, the mask `ocean [B, N]`, and the graph."""

    history: Tensor
    target: Tensor
    ocean: Tensor
    graph: GridGraph


@dataclass(frozen=True)
class Windows:
    """Windows of history and future in every tile of an ocean.

    Window `i` belongs to tile `i % tiles` and to start `i // tiles`, so there are `tiles * starts` windows. In a
    split, windows start on every day on which history and horizon fit, except the last (see `splits.starts_of`).
    All days belong to the split, so windows do not cross splits.

    All that a batch needs lies on the device of the values, so cutting one copies nothing from the host.

    Attributes:
        values: standardised anomalies, 0 on land, `[T, tile, N]`.
        ocean: True on ocean, `[tile, N]`.
        days: the dates, `[T]`.
        shape: rows and columns of a tile.
        history: number of input days.
        horizon: number of days to forecast.
        place: unit vectors from the Earth's centre to the nodes, `[tile, N, 3]`.
        before: number of days before each window, for models with a longer memory than `history`.
        wrap: whether the last column of a tile is beside its first, as on a globe.
        predictors: what is known of each predictor on each day, NaN where nothing is: of an index `[T, summary]`,
            of a grid `[T, tile, N]`, of a forecast `[T, horizon, tile, N]`.
        at: index in `days` of the first day of history for each start, ascending. By default, all of a split.
            Where years are left out, starts have a gap, and the evenly spaced starts between two gaps are a
            stretch.
        origin: the configuration of the data, and a function that cuts all windows of the split again, if they are
            those of prepared stores.
    """

    values: Tensor
    ocean: Tensor
    days: np.ndarray
    shape: tuple[int, int]
    history: int
    horizon: int
    place: Tensor
    before: int = 0
    wrap: bool = False
    predictors: Mapping[str, Tensor] = field(default_factory=dict)
    at: np.ndarray = field(default_factory=lambda: EVERY_DAY)
    origin: "tuple[DataConfig, Callable[[], Windows]] | None" = None

    def __post_init__(self) -> None:
        if self.at is EVERY_DAY:
            object.__setattr__(self, "at", starts_of(len(self.days), self.history, self.horizon, self.before))

    def __len__(self) -> int:
        return self.starts * self.tiles

    @property
    def starts(self) -> int:
        """Number of days on which a window starts."""
        return len(self.at)

    @property
    def tiles(self) -> int:
        return self.values.shape[1]

    @property
    def init_times(self) -> np.ndarray:
        """The last day of history for each start, `[starts]`."""
        return self.days[self.at + self.history - 1]

    @cached_property
    def every(self) -> int:
        """Days between starts, or 1 for a single start. Raises ValueError if starts are not evenly spaced."""
        spacings = np.unique(np.diff(self.at))
        if len(spacings) > 1:
            raise ValueError("starts are not evenly spaced")
        return int(spacings[0]) if len(spacings) else 1

    def stretches(self) -> list[NDArray[np.intp]]:
        """Return `at` in pieces between gaps. The smallest spacing of starts is no gap."""
        spacings = np.diff(self.at)
        return np.split(self.at, 1 + np.flatnonzero(spacings > spacings.min(initial=len(self.days))))

    def thinned(self, every: int) -> "Windows":
        """Keep one of `every` starts, beginning with the first of each stretch."""
        return replace(self, at=np.concatenate([stretch[::every] for stretch in self.stretches()]))

    def spans(self, offset: int, length: int) -> Tensor:
        """Return a view of the days `offset .. offset + length` after each start, `[starts, length, tile, N]`."""
        return self.values[self.at[0] + offset :].unfold(0, length, self.every)[: self.starts].movedim(-1, 1)

    def to(self, device: torch.device | str) -> "Windows":
        tensors = {name: getattr(self, name).to(device) for name in ("values", "ocean", "place")}
        predictors = {name: known.to(device) for name, known in self.predictors.items()}
        return replace(self, **tensors, predictors=predictors)

    @cached_property
    def season(self) -> Tensor:
        """Sine and cosine of each day's time of year, `[T, 2]`."""
        days = (self.days - self.days.astype("datetime64[Y]")) / np.timedelta64(1, "D")
        angle = torch.from_numpy(2 * np.pi / YEAR_DAYS * days)
        return torch.stack([angle.sin(), angle.cos()], dim=1).to(self.values)

    def parts(self, count: int) -> Iterator["Windows"]:
        """Yield windows of at most `count` starts of one stretch at a time, in order. Values are views."""
        first = 0
        for stretch in self.stretches():
            for start in range(0, len(stretch), count):
                yield self.part(first + start, first + min(start + count, len(stretch)))
            first += len(stretch)

    def part(self, first: int, stop: int) -> "Windows":
        """Return the windows of the starts `first .. stop`. Values are views."""
        begin = self.at[first] - self.before
        days = slice(begin, self.at[stop - 1] + self.history + self.horizon)
        predictors = {name: known[days] for name, known in self.predictors.items()}
        at = self.at[first:stop] - begin
        return replace(self, values=self.values[days], days=self.days[days], at=at, predictors=predictors)

    def dataset(self, transform: "Callable[[Data], Any] | None" = None) -> "OceanGraphs":
        """Return the windows as a data set of PyTorch Geometric, a graph of ocean nodes for each window.

        `transform` is applied to each graph. Raises SSTCastError for windows that were not cut by
        `sstcast.windows`, and as `OceanGraphs`.
        """
        from sstcast.ocean.graph_dataset import OceanGraphs

        if self.origin is None:
            raise SSTCastError("windows: not those of prepared stores; cut them by sstcast.windows(config, split)")
        return OceanGraphs(self, *self.origin, transform)

    def describe(self, number: int) -> str:
        """Name the tile and the days of a window."""
        start, tile = divmod(number, self.tiles)
        first = pd.Timestamp(self.days[self.at[start]])
        last = first + pd.Timedelta(days=self.history + self.horizon - 1)
        return f"tile {tile}, {first:%Y-%m-%d} to {last:%Y-%m-%d}"

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + sum(known.nbytes for known in self.predictors.values())

    @property
    def device(self) -> torch.device:
        return self.values.device

    def batch(self, index: Tensor, device: torch.device | None = None) -> Batch:
        """Return the windows with indices `index [B]`, on the device of the values, moved to `device` if given.

        Each `history` begins with the `before` days that precede the window.
        """
        tile, today = index % self.tiles, self._today[index // self.tiles]
        rows = (today[:, None] + self._days_apart) * self.tiles + tile[:, None]  # of the flattened values
        window = self._days_of(self.values.flatten(0, 1), rows)
        ocean, position, degree = self.ocean[tile], self.place[tile], self._degree[tile]
        season = self.season[today, None].expand(-1, position.shape[1], -1)
        geography = torch.cat([position, season], dim=-1)
        past = self.before + self.history
        predictors = self._known(today, rows[:, :past])
        if device is not None and device != window.device:
            tensors = (window, ocean, geography, degree)
            window, ocean, geography, degree = (
                tensor.pin_memory().to(device, non_blocking=True) for tensor in tensors
            )
            predictors = {
                name: known.pin_memory().to(device, non_blocking=True) for name, known in predictors.items()
            }
        graph = GridGraph(*self.shape, ocean, self.wrap, geography, degree, predictors)
        return Batch(window[..., :past], window[..., past:], ocean, graph)

    def _known(self, today: Tensor, past: Tensor) -> dict[str, Tensor]:
        """Return what is known of each predictor on the days `today [B]`, whose past days are in the rows `past`.

        NaN marks what is not known. An index has `[B, 1, summary]`, a grid `[B, N, days]`, a forecast `[B, N,
        horizon]`.
        """
        known = {name: table[today, None] for name, table in self.predictors.items() if table.ndim == 2}
        for name, table in self._fields.items():
            known[name] = table[past[:, -1]] if table.ndim == 3 else self._days_of(table, past)
        return {name: known[name] for name in self.predictors}

    @staticmethod
    def _days_of(table: Tensor, rows: Tensor) -> Tensor:
        """Return `rows [B, days]` of a table `[rows, N]` as `[B, N, days]`."""
        return table.index_select(0, rows.flatten()).unflatten(0, rows.shape).transpose(1, 2)

    @cached_property
    def _today(self) -> Tensor:
        """Index in `days` of the initial date for each start, `[starts]`."""
        return torch.from_numpy(self.at + self.history - 1).to(self.device)

    @cached_property
    def _days_apart(self) -> Tensor:
        """How many days after the initial date the days of a window are."""
        return torch.arange(1 - self.before - self.history, 1 + self.horizon, device=self.device)

    @cached_property
    def _degree(self) -> Tensor:
        """Number of neighbours in the ocean, `[tile, N, 1]`."""
        return GridGraph(*self.shape, self.ocean, self.wrap).degree

    @cached_property
    def _fields(self) -> dict[str, Tensor]:
        """The predictors that are fields, in the rows of the flattened values.

        They have `[rows, N]`, forecasts `[rows, N, horizon]`.
        """
        return {
            name: (known.movedim(1, -1) if known.ndim == 4 else known).flatten(0, 1)
            for name, known in self.predictors.items()
            if known.ndim > 2
        }


def cut_windows(anomalies: xr.Dataset, data: DataConfig, split: str, before: int = 0) -> Windows:
    """Cut the windows of a split from the anomalies, for all tiles of the region.

    `split` is `train`, `validation`, `test` or `before_test` (from the first training day to the last validation
    day). The windows follow `before` days of the record. Days before the record count as days without anomaly. If
    fewer than two years would have a complete memory, the preceding days are left out.

    Raises SSTCastError if the split is too short for a window.
    """
    days = days_of_split(anomalies, data, split)
    first, count = int(anomalies.indexes["time"].get_loc(days.indexes["time"][0])), days.sizes["time"]
    absent = max(0, before - first)
    if absent and count - absent < MIN_MEMORY_DAYS:
        before = absent = 0
    days = anomalies.isel(time=slice(first + absent - before, first + count))
    return windows_of(days, data.box, data.history, data.horizon, before, absent, predictors=[*data.predictors])


def whole_windows(anomalies: xr.Dataset, data: DataConfig, split: str, before: int = 0) -> Windows:
    """Cut the windows of a split with the whole region as one tile, for linear systems (see `cut_windows`)."""
    return cut_windows(anomalies, data.model_copy(update={"region": whole(data.box, anomalies)}), split, before)


def days_of_split(anomalies: xr.Dataset, data: DataConfig, split: str) -> xr.Dataset:
    """Return the days of a split. Raises SSTCastError if they are too few for a window."""
    first, last = getattr(data.splits, split)
    selection, min_days = anomalies.sel(time=slice(str(first), str(last))), data.history + data.horizon + 1
    if (day_count := selection.sizes["time"]) < min_days:
        raise SSTCastError(f"data.splits.{split}: {day_count} days, but a window needs {min_days}; lengthen it")
    return selection


def with_earlier(past: xr.Dataset, anomalies: xr.Dataset) -> xr.Dataset:
    """Add all days of `anomalies` before `past` to it, as `earlier(earlier_time, lat, lon)`, lazily.

    What these days know of a predictor is added as `earlier_predictor_NAME(earlier_time, ...)`.
    """
    count = int(anomalies.indexes["time"].searchsorted(past.indexes["time"][0]))
    fields = {"earlier": anomalies["anomaly"]}
    fields |= {EARLIER + name: known for name, known in predictors_in(anomalies).items()}
    days = {name: field.isel(time=slice(0, count)) for name, field in fields.items()}
    return past.assign(
        {
            name: field.reset_coords(drop=True).drop_attrs().rename(time="earlier_time")
            for name, field in days.items()
        }
    )


def windows_of(
    anomalies: xr.Dataset,
    region: Region,
    history: int,
    horizon: int = 0,
    before: int = 0,
    absent: int = 0,
    wrap: bool = True,
    predictors: Sequence[str] = (),
) -> Windows:
    """Return windows over all days of `anomalies`, which has `anomaly(time, lat, lon)` and `ocean_mask(lat, lon)`.

    It also has what is known of the `predictors` (see `predictors.predictors`).

    With `horizon` 0, they contain only history. The windows begin after `before` days. The first `absent` of these
    are not in `anomalies` and get the value 0. The values are in a scratch array, so that any region fits. With
    `wrap`, a tile that spans 360 degrees has no west and east edge.
    """
    anomaly = anomalies["anomaly"]
    index = tile_index(region, anomaly.shape)
    values = _in_tiles(anomaly, index, absent, unknown=0)
    ocean, time = to_tiles(anomalies["ocean_mask"].values, index), anomaly["time"].values
    return Windows(
        values=torch.from_numpy(values),
        ocean=torch.from_numpy(ocean),
        days=np.concatenate([time[0] - np.arange(absent, 0, -1) * np.timedelta64(1, "D"), time]),
        shape=region.tile,
        history=history,
        horizon=horizon,
        place=unit_vectors(anomaly, index),
        before=before,
        wrap=wrap and region.tile[1] == anomaly.sizes["lon"] and spans_globe(anomaly["lon"].values),
        predictors={name: _known(anomalies, name, index, absent) for name in predictors},
    )


def _in_tiles(field: xr.DataArray, index: np.ndarray, absent: int, unknown: float) -> NDArray[np.float32]:
    """Cut `field(time, ..., lat, lon)` into tiles `[T, ..., tile, N]` in a scratch array. NaN becomes `unknown`.

    The first `absent` days, which are not in `field`, are unknown.
    """
    values = scratch_array((absent + field.sizes["time"], *field.shape[1:-2], *index.shape))
    values[:absent] = unknown
    for days in parts(field):  # a copy of the whole record would not fit in memory
        block = field[days].values
        values[absent:][days] = to_tiles(np.where(np.isnan(block), np.float32(unknown), block), index)
        release()
    return values


def _known(anomalies: xr.Dataset, name: str, index: np.ndarray, absent: int) -> Tensor:
    """Return what is known of a predictor on each day (see `Windows`). Raises SSTCastError if it is not there."""
    if VARIABLE_PREFIX + name not in anomalies:
        raise SSTCastError(f"predictors: {name} is not among the given ones; add it")
    known = anomalies[VARIABLE_PREFIX + name]
    if "lat" in known.dims:
        return torch.from_numpy(_in_tiles(known, index, absent, unknown=np.nan))
    return torch.from_numpy(np.pad(known.values, ((absent, 0), (0, 0)), constant_values=np.nan))


def unit_vectors(field: xr.DataArray, index: np.ndarray) -> Tensor:
    """Convert `lat` and `lon` of `field(..., lat, lon)` in degrees to unit vectors `[tile, N, 3]`."""
    lat, lon = np.meshgrid(np.deg2rad(field["lat"]), np.deg2rad(field["lon"]), indexing="ij")
    vectors = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
    return torch.from_numpy(to_tiles(vectors.astype(np.float32), index)).permute(1, 2, 0)


def whole(region: Region, field: xr.Dataset) -> Region:
    """Return the region as a single tile with all cells of `field`."""
    return region.model_copy(
        update={"tile": (field.sizes["lat"], field.sizes["lon"]), "skip": (), "land_tiles": "keep"}
    )
