"""Training windows of history and future, sliced from one tensor that stays on the device."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

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
from sstcast.ocean.tiles import tile_index, to_tiles
from sstcast.predictors.predictors import VARIABLE_PREFIX, predictors_in
from sstcast.reading.days_of_year import YEAR_DAYS
from sstcast.storage.scratch import parts, release, scratch_array

MIN_MEMORY_DAYS = 2 * 365  # minimum number of days with a complete memory
WEEK = 7  # days
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
    """Windows of history and future in every tile of one ocean.

    Window `i` belongs to tile `i % tiles` and to start `i // tiles`, so there are `tiles * starts` windows. In a
    split, windows start on every day on which history and horizon fit, except the last, which gives the number of
    windows in Table 9 of Cai et al. (2023). All days belong to the split, so windows do not cross splits.

    Attributes:
        values: standardised anomalies, 0 on land, `[T, tile, N]`.
        ocean: True on ocean, `[tile, N]`.
        days: the dates, `[T]`.
        shape: rows and columns of a tile.
        history: number of input days.
        horizon: number of days to forecast.
        place: unit vectors from the Earth's centre to the nodes, `[tile, N, 3]`.
        at: index in `days` of the first day of history for each start, ascending.
        before: number of days before each window, for models with a longer memory than `history`.
        wrap: whether the last column of a tile is beside its first, as on a globe.
        predictors: what is known of each predictor on each day, NaN where nothing is: of an index `[T, summary]`,
            of a grid `[T, tile, N]`, of a forecast `[T, horizon, tile, N]`.
    """

    values: Tensor
    ocean: Tensor
    days: np.ndarray
    shape: tuple[int, int]
    history: int
    horizon: int
    place: Tensor
    at: np.ndarray
    before: int = 0
    wrap: bool = False
    predictors: Mapping[str, Tensor] = field(default_factory=dict)

    @classmethod
    def daily(
        cls,
        values: Tensor,
        ocean: Tensor,
        days: np.ndarray,
        shape: tuple[int, int],
        history: int,
        horizon: int,
        place: Tensor,
        before: int = 0,
        wrap: bool = False,
        predictors: Mapping[str, Tensor] | None = None,
    ) -> "Windows":
        """Return windows that start on every day. With a horizon, there is one window fewer than possible, as in
        the paper.
        """
        starts = np.arange(before, len(days) - history - horizon + (horizon == 0))
        return cls(values, ocean, days, shape, history, horizon, place, starts, before, wrap, predictors or {})

    def __len__(self) -> int:
        return self.starts * self.values.shape[1]

    @property
    def starts(self) -> int:
        """Number of days on which a window starts."""
        return len(self.at)

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

    def thinned(self, every: int) -> "Windows":
        """Keep one of `every` starts, beginning with the first."""
        return replace(self, at=self.at[::every])

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
        """Yield windows of `count` starts at a time, in order. Values are views."""
        for first in range(0, self.starts, count):
            yield self.part(first, min(first + count, self.starts))

    def part(self, first: int, stop: int) -> "Windows":
        """Return the windows of the starts `first .. stop`. Values are views."""
        begin = self.at[first] - self.before
        days = slice(begin, self.at[stop - 1] + self.history + self.horizon)
        predictors = {name: known[days] for name, known in self.predictors.items()}
        at = self.at[first:stop] - begin
        return replace(self, values=self.values[days], days=self.days[days], at=at, predictors=predictors)

    def describe(self, number: int) -> str:
        """Name the tile and the days of a window."""
        start, tile = divmod(number, self.values.shape[1])
        first = pd.Timestamp(self.days[self.at[start]])
        last = first + pd.Timedelta(days=self.history + self.horizon - 1)
        return f"tile {tile}, {first:%Y-%m-%d} to {last:%Y-%m-%d}"

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + sum(known.nbytes for known in self.predictors.values())

    @property
    def device(self) -> torch.device:
        return self.values.device

    @cached_property
    def table(self) -> "WindowTable":
        """The table from which batches are cut."""
        return WindowTable.of((self,))

    def batch(self, index: Tensor, device: torch.device | None = None) -> Batch:
        """Return the windows with indices `index [B]` (see `WindowTable.batch`)."""
        return self.table.batch(index, device)


@dataclass(frozen=True)
class SeveralWindows:
    """The windows of several oceans, concatenated. A batch may mix oceans."""

    oceans: tuple[Windows, ...]

    def __len__(self) -> int:
        return sum(map(len, self.oceans))

    @property
    def shape(self) -> tuple[int, int]:
        return self.oceans[0].shape

    @property
    def history(self) -> int:
        return self.oceans[0].history

    @property
    def horizon(self) -> int:
        return self.oceans[0].horizon

    @property
    def nbytes(self) -> int:
        return sum(ocean.nbytes for ocean in self.oceans)

    @property
    def device(self) -> torch.device:
        return self.oceans[0].device

    def to(self, device: torch.device | str) -> "SeveralWindows":
        return SeveralWindows(tuple(ocean.to(device) for ocean in self.oceans))

    def describe(self, number: int) -> str:
        ends = np.cumsum([len(ocean) for ocean in self.oceans])
        ocean_index = int(np.searchsorted(ends, number, side="right"))
        window_index = number - int(ends[ocean_index]) + len(self.oceans[ocean_index])
        return f"ocean {ocean_index + 1}, {self.oceans[ocean_index].describe(window_index)}"

    @cached_property
    def table(self) -> "WindowTable":
        """The table from which batches are cut. It has a copy of the values."""
        return WindowTable.of(self.oceans)

    def batch(self, index: Tensor, device: torch.device | None = None) -> Batch:
        """Return the windows with indices `index [B]` (see `WindowTable.batch`)."""
        return self.table.batch(index, device)


@dataclass(frozen=True)
class WindowTable:
    """All windows of one or several oceans, whose tiles have one shape, as rows of one flat table.

    All that a batch needs lies on the device of the values, so cutting one copies nothing from the host. Days of a
    tile are `apart` rows from each other, because an ocean's tiles alternate.

    Attributes:
        values: standardised anomalies, a row for each day and tile, `[rows, N]`.
        row: the first row of each window, `[windows]`.
        tile: the tile of each window, `[windows]`.
        season: sine and cosine of the time of year at the end of each history, `[windows, 2]`.
        apart: rows between the days of each tile, `[tiles]`.
        ocean: True on ocean, `[tiles, N]`.
        place: unit vectors from the Earth's centre to the nodes, `[tiles, N, 3]`.
        degree: number of neighbours in the ocean, `[tiles, N, 1]`.
        day: 0, 1, ... for the days of a window, `[days]`.
        past: number of these days before the forecast.
        shape: rows and columns of a tile.
        wrap: whether the last column of a tile is beside its first.
        predictors: what is known of each predictor, NaN where nothing is: of an index at the end of each history,
            `[windows, summary]`, of a grid in the rows of `values`, `[rows, N]`, of a forecast in the same rows,
            `[rows, N, horizon]`.
        indices: the names of the predictors that are indices.
    """

    values: Tensor
    row: Tensor
    tile: Tensor
    season: Tensor
    apart: Tensor
    ocean: Tensor
    place: Tensor
    degree: Tensor
    day: Tensor
    past: int
    shape: tuple[int, int]
    wrap: bool
    predictors: Mapping[str, Tensor]
    indices: frozenset[str]

    @classmethod
    def of(cls, oceans: Sequence[Windows]) -> "WindowTable":
        rows, tiles, row_strides, seasons = [], [], [], []
        first_row = first_tile = 0
        predictors: dict[str, list[Tensor]] = {name: [] for name in oceans[0].predictors}
        indices = frozenset(name for name, known in oceans[0].predictors.items() if known.ndim == 2)
        for windows in oceans:
            count, device = windows.values.shape[1], windows.device
            tile = torch.arange(count, device=device)
            start = torch.from_numpy(windows.at).to(device)
            rows.append((first_row + (start - windows.before)[:, None] * count + tile).flatten())
            tiles.append((first_tile + tile).repeat(len(start)))
            row_strides.append(torch.full_like(tile, count))
            last = start + windows.history - 1
            seasons.append(windows.season[last].repeat_interleave(count, dim=0))
            for name, known in predictors.items():
                table = windows.predictors[name]
                if name in indices:
                    known.append(table[last].repeat_interleave(count, dim=0))
                else:
                    known.append((table.movedim(1, -1) if table.ndim == 4 else table).flatten(0, 1))
            first_row, first_tile = first_row + windows.values.shape[0] * count, first_tile + count
        first_ocean = oceans[0]
        ocean = torch.cat([windows.ocean for windows in oceans])
        values = [windows.values.flatten(0, 1) for windows in oceans]
        past, wrap = first_ocean.before + first_ocean.history, all(windows.wrap for windows in oceans)
        return cls(
            values=values[0] if len(values) == 1 else torch.cat(values),
            row=torch.cat(rows),
            tile=torch.cat(tiles),
            season=torch.cat(seasons),
            apart=torch.cat(row_strides),
            ocean=ocean,
            place=torch.cat([windows.place for windows in oceans]),
            degree=GridGraph(*first_ocean.shape, ocean, wrap).degree,
            day=torch.arange(past + first_ocean.horizon, device=ocean.device),
            past=past,
            shape=first_ocean.shape,
            wrap=wrap,
            predictors={
                name: known[0] if len(known) == 1 else torch.cat(known) for name, known in predictors.items()
            },
            indices=indices,
        )

    def batch(self, index: Tensor, device: torch.device | None = None) -> Batch:
        """Return the windows with indices `index [B]`, on the table's device, moved to `device` if given.

        Each `history` begins with the `before` days that precede the window.
        """
        tile = self.tile[index]
        rows = self.row[index, None] + self.apart[tile, None] * self.day
        window = self.values.index_select(0, rows.flatten()).unflatten(0, rows.shape).transpose(1, 2)
        ocean, position, degree = self.ocean[tile], self.place[tile], self.degree[tile]
        geography = torch.cat([position, self.season[index, None].expand(-1, position.shape[1], -1)], dim=-1)
        predictors = self._predictors(index, rows[:, : self.past])
        if device is not None and device != window.device:
            tensors = (window, ocean, geography, degree)
            window, ocean, geography, degree = (
                tensor.pin_memory().to(device, non_blocking=True) for tensor in tensors
            )
            predictors = {
                name: known.pin_memory().to(device, non_blocking=True) for name, known in predictors.items()
            }
        graph = GridGraph(*self.shape, ocean, self.wrap, geography, degree, predictors)
        return Batch(window[..., : self.past], window[..., self.past :], ocean, graph)

    def _predictors(self, index: Tensor, past: Tensor) -> dict[str, Tensor]:
        """Return what is known of each predictor in windows whose past days are in the rows `past [B, days]`.

        NaN marks what is not known. An index has `[B, 1, summary]`, a grid `[B, N, days]`, a forecast `[B, N,
        horizon]`.
        """
        known = {}
        for name, table in self.predictors.items():
            if name in self.indices:
                known[name] = table[index, None]
            elif table.ndim == 3:
                known[name] = table[past[:, -1]]
            else:
                known[name] = table.index_select(0, past.flatten()).unflatten(0, past.shape).transpose(1, 2)
        return known


AnyWindows = Windows | SeveralWindows


def lead_weeks(leads: NDArray[np.integer]) -> NDArray[np.integer]:
    """Return the week of each lead. Weeks count from 0, leads from 1."""
    return (leads - 1) // WEEK


def week_starts(leads: NDArray[np.integer]) -> NDArray[np.intp]:
    """Return the positions at which lead weeks begin in ascending `leads`, which may omit days."""
    return np.unique(lead_weeks(leads), return_index=True)[1]


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
    return Windows.daily(
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
