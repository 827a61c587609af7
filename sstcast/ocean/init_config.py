"""The command `init`: examines a new source and writes a configuration that trains on it."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from sstcast.config import DataConfig, FieldSource, folder_name, load_config
from sstcast.errors import SSTCastError, counted
from sstcast.geo import Box
from sstcast.ocean.splits import for_training
from sstcast.reading.any_grid import proposed
from sstcast.reading.daily_field import source_of
from sstcast.reading.fields import PLAUSIBLE, options_for_keys
from sstcast.reading.gaps import longest_gap
from sstcast.reading.grid import box_of, crop
from sstcast.reading.reading import open_cells, source_grid
from sstcast.reading.sea import sample_days
from sstcast.storage.artefacts import atomic, followed

TILE = 30  # preferred rows and columns of a tile
MOST_TILES = (2, 4)  # maximum rows and columns of tiles, so that a laptop trains in minutes
LEAST_OCEAN = 0.05  # ocean fraction below which a tile is skipped
MOST_GAPS = 3  # days; interpolation over longer gaps would leak the future into a history
FARTHEST_SPACING = 2  # times the width of the source's cells, or its inverse, that is proposed
UNNAMED = "my-run"

Area = tuple[slice, slice, tuple[int, int], list[int]]  # rows, columns, shape of a tile, tiles that are skipped

TEMPLATE = """\
# Written by `sstcast init`. You can change every key. docs/own-data.md explains source, region and gaps.
name: {name}
data:
  source: {source}{variable}{units}{gaps}{grid}
  # The data cover {whole}, {cells} cells.
  # lon and lat are cell edges; tile is rows and columns of cells; skip lists tiles of land.
  region: {{{region}, tile: [{tile[0]}, {tile[1]}]{skip}}}
  protocol: physical
  history: {history} # days of input to a forecast
  horizon: {horizon} # days ahead
  # The data run from {first} to {last}.
  splits:
    train: [{train[0]}, {train[1]}]
    validation: [{validation[0]}, {validation[1]}]
    test: [{test[0]}, {test[1]}]
# The recommended system (docs/results.md), a linear map fitted in seconds; configs/linear-base has networks on it.
model:
  name: local-ridge
  memory: true
  stencil: true
"""


class Examined(NamedTuple):
    """What `init` found in a source.

    Attributes:
        source: the source, and how it is read.
        sst: its days, `(time, lat, lon)` in degC.
        ocean: the cells with a value on a day that was examined, `[lat, lon]`.
        holes: the number of these days on which an ocean cell lacks its value.
        notes: lines about the grid.
    """

    source: FieldSource
    sst: xr.DataArray
    ocean: NDArray[np.bool_]
    holes: int
    notes: list[str]

    @property
    def time(self) -> pd.DatetimeIndex:
        return pd.DatetimeIndex(self.sst.indexes["time"])

    @property
    def gap(self) -> int:
        """The longest gap in days that is filled."""
        return MOST_GAPS if self.holes else min(longest_gap(self.time), MOST_GAPS)


def start(source: FieldSource, out: Path | None = None) -> list[str]:
    """Write a configuration for days of any region to `out`. Returns lines that describe their source.

    By default, `out` is in the current folder and named after the source.

    Raises SSTCastError if `out` exists already, or the source cannot be read or is too short to train on.
    """
    out = followed(out) if out else Path(f"{folder_name(source.path.resolve().stem, UNNAMED)}.yaml")
    if out.exists() or out.is_symlink():
        raise SSTCastError(f"{out}: exists already; name another file with --out")
    found = examine(source)
    sst, area = found.sst, choose_area(found.ocean)
    text = _configuration(found, area, out)
    with atomic(out) as partial:
        partial.write_text(text, encoding="utf-8")
        config = load_config(partial)
        crop(sst, config.data.box, source.path)  # raises if the region does not fit, so that nothing is written
    run, longest, remedy = config.folder.parent / folder_name(out.stem, UNNAMED), longest_gap(found.time), ""
    lines = _description(found, area, config.data)
    if longest > found.gap:
        lines.append(f"  the gap of {longest} days in a row is too long to fill")
        remedy = f"add these {longest} days, or set data.gaps to {longest}; then "
    if source_of(source.source).needs_python:
        train = f"sstcast.train({str(out)!r}, source=...)"
        return [*lines, f"{out}: written; next: {train} with this object, then: sstcast evaluate {run}"]
    return [
        *lines,
        f"{out}: written; next: {remedy}sstcast train {out}",
        f"then: sstcast evaluate {run}, and sstcast forecast {run}",
    ]


def examine(source: FieldSource) -> Examined:
    """Open a source, on a regular grid of its own spacing if it has another grid, and look at some of its days.

    Raises SSTCastError if it cannot be read, is too short to train on, or holds implausible values.
    """
    path, of_grid = source.path, []
    with options_for_keys():
        if source.grid is None and (cells := source_grid(source)) is not None:
            grid = cells.grid(path)
            spacing, whole = proposed(grid)
            if max(spacing / grid.spacing, grid.spacing / spacing) > FARTHEST_SPACING:
                raise SSTCastError(
                    f"{path}: its cells are {grid.spacing:.3g} degrees wide, for which no data.grid is proposed; "
                    "write a configuration with data.grid and data.region by hand"
                )
            source = source.model_copy(update={"grid": spacing, "region": whole})
            kind = "a curvilinear grid" if cells.lat.ndim == 2 else "a mesh"
            of_grid = [
                f"  source: {kind} of {grid.index.size} cells, {grid.spacing:.3g} degrees wide; "
                f"data.grid brings them to {spacing:g} degrees"
            ]
        sst = open_cells(source)
    first, last = (day.date() for day in sst.indexes["time"][[0, -1]])
    for_training(first, last, path)  # a short record is told before its values
    values = sst.isel(time=sample_days(sst.sizes["time"])).values
    is_finite = np.isfinite(values)
    ocean = is_finite.any(0)
    if not ocean.any():
        raise SSTCastError(f"{path}: no cell has values; choose another source")
    implausible = values[(values < PLAUSIBLE[0]) | (values > PLAUSIBLE[1])]
    if implausible.size:
        raise SSTCastError(
            f"{path}: holds {implausible[0]:g} degC; give its --units, or set _FillValue if this marks land"
        )
    holes = int((is_finite != ocean).any((1, 2)).sum())
    return Examined(source, sst, ocean, holes, of_grid)


def _configuration(found: Examined, area: Area, out: Path) -> str:
    """Return the YAML of a run on an area of a source."""
    source, sst, (first, last) = found.source, found.sst, found.time[[0, -1]]
    rows, cols, tile, skip = area
    history, horizon, splits = for_training(first.date(), last.date(), source.path)
    gap, grid = found.gap, source.grid
    return TEMPLATE.format(
        name=json.dumps(folder_name(out.stem, UNNAMED)),
        source=json.dumps(source.source, ensure_ascii=False),
        variable=f"\n  variable: {json.dumps(source.variable, ensure_ascii=False)}" if source.variable else "",
        units=f"\n  units: {json.dumps(source.units, ensure_ascii=False)}" if source.units else "",
        gaps=f"\n  gaps: {gap} # gaps of up to this many days are filled linearly in time" if gap else "",
        whole=Box.of(sst).yaml,
        cells=f"{sst.sizes['lat']} x {sst.sizes['lon']}",
        grid=f"\n  grid: {grid:g} # degrees, of the cells to which the source's are brought" if grid else "",
        region=box_of(sst["lat"], rows, sst["lon"].values, cols).yaml[1:-1],
        tile=tile,
        skip=f", skip: {skip}" if skip else "",
        history=history,
        horizon=horizon,
        first=f"{first:%Y-%m-%d}",
        last=f"{last:%Y-%m-%d}",
        **splits.given,
    )


def _description(found: Examined, area: Area, data: DataConfig) -> list[str]:
    """Return lines that describe a source, and what the configuration `data` takes of it."""
    sst, time, ocean = found.sst, found.time, found.ocean
    rows, cols, tile, skip = area
    longest, missing_count = longest_gap(time), len(pd.date_range(time[0], time[-1])) - time.size
    lines = [
        f"{data.path}: {time.size} days of {sst.attrs['variable']}, {time[0]:%Y-%m-%d}..{time[-1]:%Y-%m-%d}, "
        f"{missing_count} missing{f' (up to {longest} in a row)' if longest else ''}",
    ]
    if found.holes:
        lines.append(f"  ocean cells lack values on {found.holes} of {len(sample_days(time.size))} days examined")
    if found.gap:
        lines.append(
            f"  gaps: up to {counted(found.gap, 'day')} in a row, filled linearly in time, also in single cells"
        )
    region = box_of(sst["lat"], rows, sst["lon"].values, cols).yaml
    tiles = ocean[rows, cols].size // (tile[0] * tile[1]) - len(skip)
    lines += [
        *found.notes,
        f"  grid: {sst.sizes['lat']} x {sst.sizes['lon']} cells, {Box.of(sst).yaml}, {ocean.mean():.0%} ocean",
        f"  region: {region}, {counted(tiles, 'tile')} of {tile[0]} x {tile[1]}, "
        f"{ocean[rows, cols].mean():.0%} ocean",
        f"  splits: train to {data.splits.train[1]}, test from {data.splits.test[0]}; {data.history} days of "
        f"history, {counted(data.horizon, 'day')} ahead",
    ]
    if sst.attrs["averages"]:
        lines.append(
            f"  days: those of the labels; {sst.attrs['averages']} does not tell whether a label is the start or "
            "the end of its day: if it is the end, add time bounds or subtract a day"
        )
    return lines


def choose_area(ocean: NDArray[np.bool_]) -> Area:
    """Choose tiles of about 30 x 30 cells in the area with the most ocean in the mask `ocean [lat, lon]`.

    Returns the rows and columns of the area, the shape of a tile, and the land tiles to skip.
    """
    tile = _near(ocean.shape[0]), _near(ocean.shape[1])
    size = [
        min(cells // side, most) * side for cells, side, most in zip(ocean.shape, tile, MOST_TILES, strict=True)
    ]
    total = np.pad(ocean.astype(np.int64), ((1, 0), (1, 0))).cumsum(0).cumsum(1)
    height, width = size
    ocean_counts = (
        total[height:, width:] - total[:-height, width:] - total[height:, :-width] + total[:-height, :-width]
    )
    row, col = (int(i) for i in np.unravel_index(ocean_counts.argmax(), ocean_counts.shape))
    area = ocean[row : row + height, col : col + width]
    share = area.reshape(height // tile[0], tile[0], width // tile[1], tile[1]).mean((1, 3)).ravel()
    skip = np.flatnonzero(share < min(LEAST_OCEAN, share.max())).tolist()
    return slice(row, row + height), slice(col, col + width), tile, skip


def _near(cells: int) -> int:
    """Return a tile side near 30 that leaves few of the `cells` along an axis unused."""
    sides = range(min(TILE - 6, cells), min(TILE + 6, cells) + 1)
    return min(sides, key=lambda side: (cells % side) / cells + 0.005 * abs(side - TILE))
