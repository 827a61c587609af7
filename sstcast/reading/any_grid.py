"""The weights of fields on curvilinear, rotated, projected and unstructured grids, and the grids of `data.grid`.

They are made once for the cells of a source and a target, and are kept in the folder of the prepared data.
"""

import hashlib
from functools import partial
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import xarray as xr
from numpy.typing import NDArray

from sstcast.config import FieldSource, Region
from sstcast.errors import SSTCastError, reading
from sstcast.geo import step
from sstcast.log import LOG, warn_once
from sstcast.reading.source_grid import Cells
from sstcast.reading.weights import SourceGrid, TargetGrid, Weights, interpolation, means, near_grid, unit_vectors
from sstcast.storage.artefacts import is_up_to_date
from sstcast.storage.dataset_files import cached
from sstcast.types import Array

Mask = NDArray[np.bool_]

COARSER = 1.5  # targets of this many source cells' width or more are means of cells
LEAST_KNOWN = 0.5  # share of a target's area, or of its weights, that must have values
WHOLE = 0.01  # tolerance for numbers of cells that must be whole
FINEST_TARGET = 0.5  # of the source's spacing
REACH = 12  # widths of a target, within twice which of the grid a source's cells may have weights
SPACINGS = (0.02, 0.05, 0.1, 0.125, 0.25, 0.5, 1.0, 2.0, 5.0)  # degrees, of which `init` proposes one
WIDEST_GAP = 5.0  # degrees of longitude without cells, for instance in land, in a source around the globe
LAYOUT = 4  # version of the weights' file, part of its recipe


def any_grid_weights(
    cells: Cells,
    target: TargetGrid,
    path: Path,
    ocean: Mask | None = None,
    min_ocean: float = LEAST_KNOWN,
    folder: Path | None = None,
    remedy: str = "",
) -> Weights:
    """Return the weights that bring a field on `cells` to the cells of `target`.

    These are means of cells, weighted by the area that they share with a target, if the targets are wider, else
    linear interpolation. With the mask `ocean [row, column]`, land has no weight, a target has a value if a share
    `min_ocean` of it is ocean, and half of this has values. Without it, half of the target must have values.

    Args:
        cells: the cells of the source `path`.
        target: the grid.
        path: the source, for messages.
        ocean: the mask of its cells that are ocean, if it is known.
        min_ocean: the least share of ocean in a target.
        folder: where weights are kept. Without it, they are made anew.
        remedy: the end of the message for a source that is too coarse, by default another `data.grid`.

    Raises SSTCastError if the source is more than twice as coarse as the target, or has no cell in it.
    """
    stored = _kept(cells, target, ocean, path, folder, remedy)
    least: Array | float = LEAST_KNOWN
    share: Array | None = None
    with reading(folder or path, "delete this folder"):
        index, targets = stored["cell"].values, target.rows * target.cols
        row, column = np.unravel_index(index, cells.shape)
        parts = stored["share"].values, stored["column"].values, stored["start"].values
        weights = sp.csr_matrix(parts, shape=(targets, index.size))
        weights.check_format()  # a column out of range would end the process
    if ocean is not None:
        weights = weights @ sp.diags(ocean.ravel()[index].astype(np.float32))
        weights.eliminate_zeros()
        share = np.asarray(weights.sum(1)).reshape(target.rows, target.cols)
        least = np.where(share >= min_ocean, share / 2, np.inf)
    if not weights.nnz:
        what = "cells" if ocean is None else "ocean"
        raise SSTCastError(f"{path}: has no {what} in data.region {target.box.yaml}; change data.region")
    used = np.unique(weights.indices)  # of an ocean, those of its cells alone
    rows, columns = (np.arange(at[used].min(), at[used].max() + 1) for at in (row, column))
    place = (row - rows[0]) * columns.size + column - columns[0]
    of_window = targets, rows.size * columns.size
    placed = sp.csr_matrix((weights.data, place[weights.indices], weights.indptr), shape=of_window)
    axes = xr.Dataset(coords={"lat": target.lat, "lon": target.lon})
    is_mean = bool(stored.attrs["is_mean"])
    return Weights(rows, columns, placed, least, axes, str(stored.attrs["method"]), is_mean, share)


def around_grid(cells: Cells, target: TargetGrid) -> tuple[slice, slice]:
    """Return the rows and columns of a source's cells that may have weights in a grid."""
    centres = unit_vectors(cells.lat, cells.lon).reshape(-1, 3)
    near = near_grid(centres, target, REACH * np.radians(target.spacing)).reshape(cells.shape)
    rows, columns = (np.flatnonzero(near.any(axis)) for axis in (1, 0))
    if not rows.size:
        return slice(0, 0), slice(0, 0)
    return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)


def _kept(
    cells: Cells, target: TargetGrid, ocean: Mask | None, path: Path, folder: Path | None, remedy: str
) -> xr.Dataset:
    """Return the weights of a source's cells, which for means do not depend on the ocean, as a file holds them."""
    recipe = {
        "layout": LAYOUT,
        "cells": cells.digest,
        "box": repr(target.box),
        "shape": [target.rows, target.cols],
    }
    of_ocean = recipe | {
        "ocean": "" if ocean is None else hashlib.sha256(np.packbits(ocean).tobytes()).hexdigest()
    }

    def file(recipe: dict[str, object]) -> Path:
        assert folder is not None
        return folder / f"{hashlib.sha256(repr(sorted(recipe.items())).encode()).hexdigest()[:16]}.nc"

    for kept in (recipe, of_ocean) if folder is not None else ():
        if is_up_to_date(file(kept), kept):
            return cached(file(kept), kept, lambda: _kept(cells, target, ocean, path, None, remedy)).load()
    LOG.info(f"{path}: computing the weights of a regular grid, once")
    source = cells.grid(path).near(target)
    if not source.index.size:
        raise SSTCastError(f"{path}: does not reach data.region {target.box.yaml}; change data.region")
    spacing = source.spacing
    if target.spacing < FINEST_TARGET * spacing * 0.99:
        raise SSTCastError(
            f"{path}: its cells are {spacing:.3g} degrees wide, more than twice the run's {target.spacing:g}; "
            f"{remedy or f'set data.grid to {FINEST_TARGET * spacing:.2g} or more'}"
        )
    is_mean = target.spacing >= COARSER * spacing
    make = partial(_made, source, target, None if is_mean else ocean, is_mean, path)
    if folder is None:
        return make()
    folder.mkdir(parents=True, exist_ok=True)
    kept = recipe if is_mean else of_ocean
    return cached(file(kept), kept, make).load()


def _made(source: SourceGrid, target: TargetGrid, ocean: Mask | None, is_mean: bool, path: Path) -> xr.Dataset:
    """Compute weights, of all cells or of the `ocean` alone, and describe how they bring a field to the target."""
    if is_mean:
        weights, method = means(source, target), "means of its cells, weighted by area"
        covered = np.asarray(weights.sum(1)).ravel()
        if (uncovered := int((covered < 0.5).sum())) > 0.05 * covered.size:
            warn_once(
                f"{path}: covers {1 - uncovered / covered.size:.0%} of the cells of data.region; others are land"
            )
    else:
        known = np.ones(len(source.index), bool) if ocean is None else ocean.ravel()[source.index]
        weights, method = interpolation(source, target, known), "interpolated linearly between its cells"
    weights.eliminate_zeros()
    used = np.unique(weights.indices)
    weights = weights[:, used].tocsr()
    return xr.Dataset(
        {
            "share": ("weight", weights.data.astype(np.float32)),
            "column": ("weight", weights.indices.astype(np.int32)),
            "start": ("row", weights.indptr.astype(np.int64)),
            "cell": ("used", source.index[used].astype(np.int64)),
        },
        attrs={
            "is_mean": int(is_mean),
            "method": f"{method}, of {source.spacing:.3g} degrees, to {target.spacing:g} degrees",
        },
    )


def proposed(source: SourceGrid) -> tuple[float, Region]:
    """Return a spacing in degrees for a source's cells, and the region that they span in whole cells of it."""
    spacing = min(SPACINGS, key=lambda degrees: abs(np.log(degrees / source.spacing)))
    lat = np.degrees(np.arcsin(source.centres[:, 2].clip(-1, 1)))
    ring = np.unique(np.floor(np.degrees(np.arctan2(source.centres[:, 1], source.centres[:, 0])) % 360 / spacing))
    gaps = np.diff(ring, append=ring[0] + round(360 / spacing))
    if gaps.max() * spacing <= WIDEST_GAP:
        west, width = -180.0, 360.0
    else:
        first = int(gaps.argmax() + 1) % ring.size
        west, width = ring[first] * spacing, 360 - (gaps.max() - 1) * spacing
        west -= 360 * (west >= 180)
    south, north = np.floor(lat.min() / spacing) * spacing, np.ceil(lat.max() / spacing) * spacing
    return spacing, Region(
        lon=(round(west, 6), round(west + width, 6)), lat=(max(-90, round(south, 6)), min(90, round(north, 6)))
    )


def target_of(days: FieldSource) -> TargetGrid:
    """Return the cells of `data.grid` degrees in the region. Raises SSTCastError if they do not fill it."""
    assert days.grid is not None
    return grid_of(days.box, days.grid)


def cells_across(sst: xr.DataArray, days: FieldSource) -> int:
    """Return how many cells of a regular source make the width of one of `data.grid`.

    Raises SSTCastError if the number is not whole.
    """
    ratios = [1.0 if days.grid is None else days.grid / step(sst[axis].values) for axis in ("lat", "lon")]
    number = max(1, round(ratios[0]))
    if max(abs(ratio - number) for ratio in ratios) > WHOLE * number:
        raise SSTCastError(
            f"{days.path}: data.grid: {days.grid:g} is not a whole number of the source's cells of "
            f"{step(sst['lat'].values):g} x {step(sst['lon'].values):g} degrees; leave it out or choose another"
        )
    return number


def grid_of(region: Region, spacing: float) -> TargetGrid:
    """Return the cells of a width in degrees in a region. Raises SSTCastError if they do not fill it."""
    box = region.bounds
    rows, cols = (size / spacing for size in (box.north - box.south, box.width))
    if max(abs(rows - round(rows)), abs(cols - round(cols))) > WHOLE or min(round(rows), round(cols)) < 2:
        raise SSTCastError(
            f"data.grid: cells of {spacing:g} degrees do not fill data.region {box.yaml}; change one of the two"
        )
    return TargetGrid(box, round(rows), round(cols))
