"""Brings fields on curvilinear, rotated, projected and unstructured grids to a regular grid (`data.grid`).

The weights are made once for a grid and a land mask, and are kept in the folder of the prepared data.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import xarray as xr
from numpy.typing import NDArray

from sstcast.config import DataConfig, FieldSource, Region
from sstcast.errors import SSTCastError, counted, reading
from sstcast.geo import Box, evenly_spaced, step
from sstcast.log import LOG, warn_once
from sstcast.reading.fill_values import FEWEST_DAYS, FREEZING_RANGE, LOOKED_AT, constant_cells
from sstcast.reading.source_grid import Cells, cells_of
from sstcast.reading.weights import SourceGrid, TargetGrid, apply, interpolation, means
from sstcast.storage.dataset_files import cached

COARSER = 1.5  # targets of this many source cells' width or more are means of cells
WHOLE = 0.01  # tolerance for numbers of cells that must be whole
FINEST_TARGET = 0.5  # of the source's spacing
SPACINGS = (0.05, 0.1, 0.125, 0.25, 0.5, 1.0)  # degrees, of which `init` proposes one
MASK_DAYS = 366  # days of the first file, a few of which tell where the source has ocean
COMMON = 0.05  # share of the cells with one number on a day from which it marks land, in a short record
LISTED = 3  # numbers that mark land, named in a message
VALUES_AT_ONCE = 2**23  # values to read at once
WIDEST_GAP = 5.0  # degrees of longitude without cells, for instance in land, in a source around the globe
LAYOUT = 2  # version of the weights' file, part of its recipe


@dataclass
class Regridder:
    """Brings fields to the regular cells `target`, of which a share `min_ocean` must be ocean.

    Without `target`, these are cells about as wide as the source's own. `folder` keeps the weights; without it,
    they are made in each process. With `true_positions`, nominal axes do not count.
    """

    target: TargetGrid | None = None
    min_ocean: float = 0.5
    folder: Path | None = None
    true_positions: bool = False
    made: dict[str, xr.Dataset] = field(default_factory=dict)

    @classmethod
    def of(cls, days: FieldSource) -> "Regridder | None":
        """Return how the days of a source are regridded, or None without `data.grid`.

        Raises SSTCastError if the region does not consist of whole cells.
        """
        if days.grid is None:
            return None
        folder = getattr(days, "directory", None)
        folder = None if folder is None else Path(folder) / "weights"
        return cls(target_of(days), days.box.min_ocean, folder, true_positions=True)

    @classmethod
    def to(cls, cells: xr.Dataset, region: Region, folder: Path | None = None) -> "Regridder | None":
        """Return how fields are brought to the cells of a run, or None if their rows are unevenly spaced."""
        if not evenly_spaced(cells["lat"]):
            return None
        return cls(TargetGrid(Box.of(cells), cells.sizes["lat"], cells.sizes["lon"]), region.min_ocean, folder)

    def regular(
        self, dataset: xr.Dataset, values: xr.DataArray, axes: Mapping[str, str], path: Path
    ) -> xr.DataArray:
        """Return `values` in degC, or of any other field, on the axes `lat` and `lon` of the target.

        They replace the dimensions that the positions of `dataset` share. Raises SSTCastError if the source is
        more than twice as coarse as the target, or does not reach it.
        """
        lat = dataset[axes["lat"]]
        space = lat.dims
        values = values.drop_vars([name for name in values.coords if set(values[name].dims) & {*space}])
        values = values.transpose(..., *space)
        cells = cells_of(dataset, values, axes, path)
        if self.target is None:
            spacing, region = proposed(cells.grid())
            self.target = grid_of(region, spacing)
        if cells.digest not in self.made:  # the first file tells where the ocean is
            ocean = _ocean(values, len(space), path)
            make = partial(self._make, cells, ocean, path)
            kept = _digest(cells.digest, ocean)
            self.made[cells.digest] = make() if self.folder is None else self._kept(kept, make)
        stored = self.made[cells.digest]
        assert self.target is not None
        shape = self.target.rows, self.target.cols
        with reading(self.folder or path, "delete this folder"):
            window, inside = _window(stored["cell"].values, dict(lat.sizes))
            parts = stored["share"].values, stored["column"].values, stored["start"].values
            weights = sp.csr_matrix(parts, shape=(shape[0] * shape[1], inside.size))
            weights.check_format()  # a column out of range would end the process
            least = np.broadcast_to(stored["least"].values, weights.shape[:1])
        values = values.isel(window)
        if not values.chunks:
            at_once = max(1, VALUES_AT_ONCE // max(1, int(np.prod([values.sizes[dim] for dim in space]))))
            values = values.chunk({dim: at_once if dim == values.dims[0] else -1 for dim in values.dims})

        def regrid(block: NDArray[Any]) -> NDArray[np.float32]:
            outer = block.shape[: -len(space)]
            return apply(weights, block.reshape(*outer, -1)[..., inside], least).reshape(*outer, *shape)

        regular = xr.apply_ufunc(
            regrid,
            values,
            input_core_dims=[[*space]],
            output_core_dims=[["lat", "lon"]],
            dask="parallelized",
            dask_gufunc_kwargs={"output_sizes": {"lat": shape[0], "lon": shape[1]}, "allow_rechunk": True},
            output_dtypes=[np.float32],
            keep_attrs=True,
        )
        regular = regular.assign_coords(lat=self.target.lat, lon=self.target.lon)
        return regular.assign_attrs(method=str(stored.attrs["method"]))

    def _kept(self, key: str, make: Any) -> xr.Dataset:
        assert self.folder is not None
        assert self.target is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        recipe = {"layout": LAYOUT, "source": key, "min_ocean": self.min_ocean, "box": repr(self.target.box)}
        recipe |= {"shape": [self.target.rows, self.target.cols]}
        name = hashlib.sha256(repr(sorted(recipe.items())).encode()).hexdigest()[:16]
        return cached(self.folder / f"{name}.nc", recipe, make).load()

    def _make(self, cells: Cells, ocean: NDArray[np.bool_], path: Path) -> xr.Dataset:
        """Compute the weights of `ocean [cell]`, and the least sum of weights that gives a target a value."""
        assert self.target is not None
        LOG.info(f"{path}: computing the weights of a regular grid, once")
        if lost := int((ocean & np.isnan(cells.lat).ravel()).sum()):
            LOG.warning(f"{path}: {counted(lost, 'cell')} of the sea without a position are left out")
        source = cells.grid().near(self.target)
        if not source.index.size:
            raise SSTCastError(f"{path}: does not reach data.region {self.target.box.yaml}; change data.region")
        weights, least, method = weights_of(source, self.target, ocean[source.index], self.min_ocean, path)
        used = np.unique(weights.indices)
        weights = weights[:, used].tocsr()
        return xr.Dataset(
            {
                "share": ("weight", weights.data.astype(np.float32)),
                "column": ("weight", weights.indices.astype(np.int32)),
                "start": ("row", weights.indptr.astype(np.int64)),
                "cell": ("used", source.index[used].astype(np.int64)),
                "least": ("target", least.astype(np.float32)),
            },
            attrs={"method": method},
        )


def _window(cells: NDArray[np.integer], sizes: Mapping[Any, int]) -> tuple[dict[Any, slice], NDArray[np.integer]]:
    """Return the slices of dimensions that hold some cells, and where in these slices they lie."""
    index = np.unravel_index(cells, tuple(sizes.values()))
    ends = [(int(axis.min()), int(axis.max()) + 1) if axis.size else (0, 1) for axis in index]
    inner = tuple(axis - low for axis, (low, _) in zip(index, ends, strict=True))
    window = {dim: slice(*end) for dim, end in zip(sizes, ends, strict=True)}
    return window, np.ravel_multi_index(inner, tuple(high - low for low, high in ends))


def _ocean(values: xr.DataArray, number: int, path: Path) -> NDArray[np.bool_]:
    """Return which cells, flattened over the last `number` dimensions, have values on days of the first year.

    Cells that hold the same number on all of them, or in a short record much of a day, are land.
    """
    days = (
        values[(slice(MASK_DAYS),) + (0,) * (values.ndim - number - 1)] if values.ndim > number else values[None]
    )
    sample = days[np.unique(np.linspace(0, len(days) - 1, LOOKED_AT).astype(int))].values.reshape(
        -1, *days.shape[1:]
    )
    sample = sample.reshape(len(sample), -1)
    ocean: NDArray[np.bool_] = np.isfinite(sample).any(0)
    if len(days) >= FEWEST_DAYS:
        land = ocean & constant_cells(sample)
    else:
        numbers, counts = np.unique(sample[0][np.isfinite(sample[0])], return_counts=True)
        fills = numbers[counts > COMMON * sample.shape[1]]
        land = np.isin(sample[0], fills[(fills < FREEZING_RANGE[0]) | (fills > FREEZING_RANGE[1])])
    if land.any():
        text = ", ".join(f"{number:g}" for number in np.unique(sample[0][land])[:LISTED])
        LOG.warning(
            f"{path}: {counted(int(land.sum()), 'cell')} of its grid hold {text} on every day: taken as land"
        )
    return ocean & ~land


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


def cells_across(sst: xr.DataArray, data: DataConfig) -> int:
    """Return how many cells of a regular source make the width of one of `data.grid`.

    Raises SSTCastError if the number is not whole.
    """
    ratios = [1.0 if data.grid is None else data.grid / step(sst[axis].values) for axis in ("lat", "lon")]
    number = max(1, round(ratios[0]))
    if max(abs(ratio - number) for ratio in ratios) > WHOLE * number:
        raise SSTCastError(
            f"{data.path}: data.grid: {data.grid:g} is not a whole number of the source's cells of "
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


def weights_of(
    source: SourceGrid, target: TargetGrid, ocean: NDArray[np.bool_], min_ocean: float, path: Path
) -> tuple[sp.csr_matrix, NDArray[np.floating], str]:
    """Return weights of ocean cells, the least sum of weights with which a target has a value, and the method.

    A target that is land has an infinite one. Raises SSTCastError if the source is too coarse for the target, or
    none of its cells is in it.
    """
    spacing = source.spacing
    if target.spacing < FINEST_TARGET * spacing * 0.99:
        raise SSTCastError(
            f"{path}: its cells are {spacing:.3g} degrees wide, more than twice data.grid: {target.spacing:g}; "
            f"set data.grid to {FINEST_TARGET * spacing:.2g} or more"
        )
    if target.spacing >= COARSER * spacing:
        weights, method = means(source, target), "means of its cells, weighted by area"
        covered = np.asarray(weights.sum(1)).ravel()
        weights = weights @ sp.diags(ocean.astype(float))
    else:
        weights, method = interpolation(source, target, ocean), "interpolated bilinearly in its own cells"
        covered = np.ones(target.rows * target.cols)
    weights.eliminate_zeros()
    fraction = np.asarray(weights.sum(1)).ravel()
    if not weights.nnz:
        raise SSTCastError(f"{path}: has no ocean in data.region {target.box.yaml}; change data.region")
    if (uncovered := int((covered < 0.5).sum())) and uncovered > 0.05 * covered.size:
        warn_once(
            f"{path}: covers {1 - uncovered / covered.size:.0%} of the cells of data.region; the others are land"
        )
    least = np.where(fraction >= min_ocean, fraction / 2, np.inf)
    return weights.tocsr(), least, f"{method}, of {spacing:.3g} degrees, to {target.spacing:g} degrees"


def _digest(*parts: str | NDArray[Any]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()
