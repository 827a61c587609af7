"""Weights that bring the cells of any grid to those of a regular one: means of finer cells, or interpolation.

`Weights` applies them. Those of a grid on no axes of latitude and longitude are made here.

Positions are unit vectors, so that neither the date line nor a pole is special. Weights are a sparse matrix
`[target cell, source cell]`, whose targets are the cells of `TargetGrid` row by row.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
import xarray as xr
from numpy.typing import NDArray
from scipy.spatial import ConvexHull, cKDTree

from sstcast.geo import Box
from sstcast.types import Array

Integers = NDArray[np.integer]
Index = NDArray[np.intp]
Parts: TypeAlias = tuple[Array, Array] | Any  # weights of rows and of columns, or a sparse matrix of cells

POINTS_A_TARGET = 12  # points across a target cell, at least, into which source cells are cut
MOST_POINTS = 64  # across a source cell
CELLS_AT_ONCE = 2**18  # points are made for so many source cells at a time, divided by their points
LONGEST_EDGE = 1.5  # of the local spacing, in triangles between points without connectivity
CANDIDATES = 8  # faces tried for each target
INSIDE = 1e-6  # tolerance of a position in a face


@dataclass(frozen=True)
class TargetGrid:
    """A regular grid: the outer edges `box` in degrees, and the numbers of `rows` and columns (`cols`)."""

    box: Box
    rows: int
    cols: int

    @classmethod
    def of(cls, cells: xr.Dataset) -> "TargetGrid":
        """Return the grid of evenly spaced axes `lat` and `lon`."""
        return cls(Box.of(cells), cells.sizes["lat"], cells.sizes["lon"])

    @property
    def lat(self) -> Array:
        """Latitudes of the centres, ascending."""
        return self.box.south + (np.arange(self.rows) + 0.5) * (self.box.north - self.box.south) / self.rows

    @property
    def lon(self) -> Array:
        """Longitudes of the centres, eastward from the west edge."""
        return self.box.west + (np.arange(self.cols) + 0.5) * self.box.width / self.cols

    @property
    def spacing(self) -> float:
        """The height of a cell in degrees."""
        return (self.box.north - self.box.south) / self.rows

    @property
    def centres(self) -> Array:
        """Unit vectors of the centres, `[cell, 3]`."""
        lat, lon = np.meshgrid(self.lat, self.lon, indexing="ij")
        return unit_vectors(lat.ravel(), lon.ravel())

    @property
    def areas(self) -> Array:
        """Areas of the cells on the unit sphere, `[cell]`."""
        edges = np.radians(np.linspace(self.box.south, self.box.north, self.rows + 1))
        by_row = np.diff(np.sin(edges)) * np.radians(self.box.width / self.cols)
        return np.repeat(by_row, self.cols)

    def cell_at(self, points: Array) -> Integers:
        """Return the cell in the direction of each point `[..., 3]`, or -1 outside of the grid."""
        x, y, z = (points[..., axis] for axis in range(3))
        lat = np.degrees(np.arctan2(z, np.hypot(x, y)))
        lon = (np.degrees(np.arctan2(y, x)) - self.box.west) % 360
        row = np.floor((lat - self.box.south) / self.spacing).astype(np.int64)
        row[(lat == 90) & (self.box.north == 90)] = self.rows - 1
        col = np.floor(lon / (self.box.width / self.cols)).astype(np.int64)
        outside = (row < 0) | (row >= self.rows) | (col >= self.cols)
        return np.where(outside, -1, row * self.cols + col)


@dataclass(frozen=True)
class SourceGrid:
    """The cells of a source on one axis, those without a position left out.

    Attributes:
        index: the position of each cell in the flattened field of the source.
        centres: unit vectors, `[cell, 3]`.
        polygons: unit vectors of the corners of polygons, `[polygon, corner, 3]`. Fewer corners repeat the last.
        owner: the cell whose value a polygon has, `[polygon]`, or for a triangle between cells, its three cells
            `[polygon, 3]`: a point in it belongs to the nearest of them, as in the median dual mesh.
        faces: the cells at the corners of a face between which values are interpolated, `[face, 3 or 4]`. One with
            four is two triangles, on either side of the line from its first corner to its third.
    """

    index: Integers
    centres: Array
    polygons: Array
    owner: Integers
    faces: Integers

    @property
    def spacing(self) -> float:
        """The median width of a cell, the root of its area, in degrees."""
        areas = polygon_areas(self.polygons)
        per_cell = areas * len(self.polygons) / len(self.index) if self.owner.ndim > 1 else areas
        return float(np.degrees(np.sqrt(np.median(per_cell))))

    def near(self, target: TargetGrid) -> "SourceGrid":
        """Return the cells in and around a grid, with all that it needs of the source."""
        kept = near_grid(self.centres, target, 4 * np.radians(self.spacing + target.spacing))
        number = np.where(kept, kept.cumsum() - 1, -1)
        owner, faces = number[self.owner], number[self.faces]
        own = owner >= 0 if owner.ndim == 1 else (owner >= 0).all(1)
        inner = faces[(faces >= 0).all(1)]
        return SourceGrid(self.index[kept], self.centres[kept], self.polygons[own], owner[own], inner)


def unit_vectors(lat: Array, lon: Array) -> Array:
    """Convert degrees to unit vectors `[..., 3]`."""
    phi, lam = np.radians(lat), np.radians(lon)
    return np.stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)], axis=-1)


def normalised(vectors: Array) -> Array:
    """Scale vectors to unit length."""
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def polygon_areas(polygons: Array) -> Array:
    """Return the areas of small convex polygons `[polygon, corner, 3]` on the unit sphere, as of flat ones."""
    first, rest = polygons[:, :1], polygons[:, 1:]
    triangles = np.cross(rest[:, :-1] - first, rest[:, 1:] - first)
    return np.linalg.norm(triangles, axis=-1).sum(1) / 2


def means(source: SourceGrid, target: TargetGrid) -> sp.csr_matrix:
    """Return the area that each target cell shares with each source cell, as a share of the target cell.

    Each polygon is cut into points, each with its share of the polygon's area, which goes to the target cell that
    holds the point. So all of a source cell's area within the grid is distributed, and none twice.
    """
    totals = sp.csr_matrix((target.rows * target.cols, len(source.index)))
    for cells, points, areas in _points(source, target):
        held = target.cell_at(points)
        inside = held >= 0
        part = sp.coo_matrix((areas[inside], (held[inside], cells[inside])), shape=totals.shape)
        totals = totals + part.tocsr()
    return sp.diags(1 / target.areas) @ totals


def _points(source: SourceGrid, target: TargetGrid) -> Iterator[tuple[Integers, Array, Array]]:
    """Yield the cell, the position and the area of the points into which polygons are cut.

    A polygon whose corners lie in one target cell is one point.
    """
    polygons, triangular = source.polygons, source.owner.ndim > 1
    number = np.zeros(len(polygons), np.int8)
    for part in np.array_split(np.arange(len(polygons)), 1 + len(polygons) // CELLS_AT_ONCE):
        corners = polygons[part]
        held = target.cell_at(corners)
        widths = np.degrees(np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=-1).max(1))
        narrowing = np.hypot(corners[..., 0], corners[..., 1]).min(1)  # of targets towards the poles
        wanted = np.ceil(POINTS_A_TARGET * widths / target.spacing / narrowing.clip(1 / MOST_POINTS))
        inside = (held == held[:, :1]).all(1) & (wanted < POINTS_A_TARGET) & (not triangular)
        number[part] = np.where(inside, 1, wanted.clip(1, MOST_POINTS))
    for n in np.flatnonzero(np.bincount(number)).tolist():
        chosen = np.flatnonzero(number == n)
        for part in np.array_split(chosen, 1 + len(chosen) * n * n // (16 * CELLS_AT_ONCE)):
            if triangular:
                points, shares, corner = _in_triangles(polygons[part], n)
                cells = np.take_along_axis(source.owner[part], corner[None], axis=1)
            else:
                points, shares = _in_polygons(polygons[part], n)
                cells = np.broadcast_to(source.owner[part, None], shares.shape)
            areas = shares * (polygon_areas(polygons[part]) / shares.sum(1))[:, None]
            yield cells.ravel(), points.reshape(-1, 3), areas.ravel()


def near_grid(centres: Array, target: TargetGrid, margin: float) -> NDArray[np.bool_]:
    """Return which positions lie within `margin` radians of the grid, or a little further."""
    middle = unit_vectors(np.array(target.box.middle), np.array(target.box.centre))
    reach = np.linalg.norm(target.centres - middle, axis=1).max() + np.radians(2 * target.spacing) + 2 * margin
    return np.linalg.norm(centres - middle, axis=1) <= reach


def _in_polygons(polygons: Array, n: int) -> tuple[Array, Array]:
    """Cut quadrilaterals into n x n points, other polygons into as many for each triangle from the centre.

    Returns positions `[polygon, point, 3]` and areas `[polygon, point]`, exact up to a common factor.
    """
    if polygons.shape[1] == 4:
        at = (np.arange(n) + 0.5) / n
        weights = _bilinear(*(values.ravel() for values in np.meshgrid(at, at, indexing="ij")))
        sides = np.roll(polygons, -1, axis=1) - polygons
        at_corners = np.linalg.norm(np.cross(sides, -np.roll(sides, 1, axis=1)), axis=-1)
        return np.einsum("pc,qcx->qpx", weights, polygons, optimize=True), at_corners @ weights.T
    centres = polygons.mean(1)
    points, areas = [], []
    for corner in range(polygons.shape[1]):
        triangle = np.stack([centres, polygons[:, corner - 1], polygons[:, corner]], axis=1)
        inner, shares, _ = _in_triangles(triangle, n)
        points.append(inner)
        areas.append(shares * polygon_areas(triangle)[:, None])
    return np.concatenate(points, 1), np.concatenate(areas, 1)


def _in_triangles(triangles: Array, n: int) -> tuple[Array, Array, Integers]:
    """Cut triangles `[triangle, 3, 3]` into the centres of n x n equal triangles.

    Returns positions `[triangle, point, 3]`, equal shares of the area, and the nearest corner of each point.
    """
    upward = [(i + 1 / 3, j + 1 / 3) for i in range(n) for j in range(n - i)]
    downward = [(i + 2 / 3, j + 2 / 3) for i in range(n - 1) for j in range(n - 1 - i)]
    first, second = np.array(upward + downward).T / n
    weights = np.stack([first, second, 1 - first - second], axis=1)
    points = np.einsum("pc,tcx->tpx", weights, triangles)
    return points, np.full(points.shape[:2], 1 / len(weights)), weights.argmax(1)


def interpolation(source: SourceGrid, target: TargetGrid, ocean: NDArray[np.bool_]) -> sp.csr_matrix:
    """Return the linear weights in triangles between cells of the mask `ocean [cell]`.

    A target in a face with land, or in none, takes the nearest ocean cell within one spacing of the source. Else
    it has no weights.
    """
    centres = target.centres
    faces = source.faces[ocean[source.faces].all(1)]
    rows: list[Integers] = []
    columns: list[Integers] = []
    values: list[Array] = []
    found = np.zeros(len(centres), bool)
    if len(faces):
        tree = cKDTree(source.centres[faces].mean(1))
        _, nearest = tree.query(centres, k=min(CANDIDATES, len(faces)))
        for candidate in np.reshape(nearest, (len(centres), -1)).T:
            left = np.flatnonzero(~found)
            weights = _weights(source.centres[faces[candidate[left]]], centres[left])
            inside = weights.min(1) >= -INSIDE
            point, corner = np.nonzero((weights > 0) & inside[:, None])
            rows.append(left[point])
            columns.append(faces[candidate[left[point]], corner])
            values.append(weights[point, corner])
            found[left[inside]] = True
    coast, reach = np.flatnonzero(~found), np.radians(source.spacing)
    if coast.size and ocean.any():
        sea = np.flatnonzero(ocean)
        distance, nearest = cKDTree(source.centres[sea]).query(centres[coast])
        is_near = distance <= reach
        rows.append(coast[is_near])
        columns.append(sea[nearest[is_near]])
        values.append(np.ones(int(is_near.sum())))
    shape = len(centres), len(source.index)
    if not rows:
        return sp.csr_matrix(shape)
    matrix = sp.coo_matrix((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=shape)
    return matrix.tocsr()


def _weights(corners: Array, points: Array) -> Array:
    """Return the weights of the corners `[point, 3 or 4, 3]` at `points [point, 3]`, negative outside of a face.

    Corners are projected from the Earth's centre to the plane that touches it at the point.
    """
    weights: Array
    if corners.shape[1] == 4:
        halves = [(0, 1, 2), (0, 2, 3)]
        inner = [_weights(corners[:, half], points) for half in halves]
        weights = np.zeros(corners.shape[:2])
        in_first = inner[0].min(1) >= inner[1].min(1)
        for half, of_half, chosen in zip(halves, inner, (in_first, ~in_first), strict=True):
            weights[np.ix_(chosen, half)] = of_half[chosen]
        return weights
    east = np.stack([-points[:, 1], points[:, 0], np.zeros(len(points))], axis=1)
    at_pole = np.linalg.norm(east, axis=1) < 1e-9
    east[at_pole] = (1.0, 0.0, 0.0)
    east = normalised(east)
    north = np.cross(points, east)
    height = np.einsum("pcx,px->pc", corners, points)
    x, y = (np.einsum("pcx,px->pc", corners, axis) / np.where(height > 0.1, height, 0.1) for axis in (east, north))
    total = _cross(x[:, 1] - x[:, 0], y[:, 1] - y[:, 0], x[:, 2] - x[:, 0], y[:, 2] - y[:, 0])
    parts = [_cross(x[:, a], y[:, a], x[:, b], y[:, b]) for a, b in ((1, 2), (2, 0), (0, 1))]
    weights = np.stack(parts, axis=1) / np.where(total == 0, np.inf, total)[:, None]
    weights[(height <= 0.1).any(1) | (total == 0)] = -1
    return weights


def _cross(x: Array, y: Array, other_x: Array, other_y: Array) -> Array:
    return x * other_y - y * other_x


def _bilinear(u: Array, v: Array) -> Array:
    return np.stack([(1 - u) * (1 - v), u * (1 - v), u * v, (1 - u) * v], axis=1)


def triangulated(centres: Array) -> Integers:
    """Return Delaunay triangles between points on the sphere, without edges over 1.5 times the local spacing.

    The convex hull of points on a sphere is their Delaunay triangulation.
    """
    neighbours, _ = cKDTree(centres).query(centres, k=min(5, len(centres)))
    local = neighbours[:, -1]
    faces: Integers = ConvexHull(centres).simplices
    for corner in range(3):
        a, b = faces[:, corner - 1], faces[:, corner]
        length = np.linalg.norm(centres[a] - centres[b], axis=1)
        faces = faces[length <= LONGEST_EDGE * np.maximum(local[a], local[b])]
    return faces


def apply(parts: Parts, values: Array, least: Array | float) -> NDArray[np.float32]:
    """Average values without missing ones.

    Args:
        parts: weights `[target row, row]` and `[target column, column]`, or `[target, cell]`.
        values: `[..., row, column]`, or `[..., cell]`.
        least: the sum of the weights of known values below which a mean is NaN, for all targets or for each.

    Returns:
        The means, `[..., target row, target column]` or `[..., target]`.
    """

    def weighed(field: Array) -> Array:
        if isinstance(parts, tuple):
            return parts[0] @ field @ parts[1].T
        return (parts @ field.reshape(-1, field.shape[-1]).T).T.reshape(*field.shape[:-1], -1)

    known = np.isfinite(values)
    total, share = weighed(np.where(known, values, 0)), weighed(known.astype(np.float32))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(share >= least, total / share, np.nan).astype(np.float32)


@dataclass(frozen=True)
class Weights:
    """What brings a field to the cells of a regular grid.

    Attributes:
        rows: the rows of the field that have weights.
        columns: the columns that have weights.
        parts: the weights of these (see `apply`), or None if they are the cells of the grid.
        least: the sum of the weights of known cells from which a target has a value, for all targets or for each,
            `[target row, target column]`.
        cells: the coordinates `lat` and `lon` of the targets.
        method: how a field is brought to them, in words.
        is_mean: whether values are means of several cells.
        share: the share of sea of each target, `[target row, target column]`, if the sea is known.
    """

    rows: Index
    columns: Index
    parts: Parts | None
    least: Array | float
    cells: xr.Dataset
    method: str
    is_mean: bool = False
    share: Array | None = None

    def read(self, field: xr.DataArray, first: tuple[int, int] = (0, 0)) -> xr.DataArray:
        """Return the rows and columns of `field(..., row, column)` that have weights.

        `first` are the row and column at which a part of the field begins.
        """
        wanted = (_slice(index - start) for index, start in zip((self.rows, self.columns), first, strict=True))
        return field.isel(dict(zip(field.dims[-2:], wanted, strict=True)))

    def used(self, targets: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which of the cells that are read have a weight in one of `targets [row, column]`."""
        if self.parts is None:
            return targets
        if isinstance(self.parts, tuple):
            rows, columns = ((part != 0).astype(np.float32) for part in self.parts)
            return np.asarray(rows.T @ targets.astype(np.float32) @ columns > 0)
        used = np.zeros(self.rows.size * self.columns.size, bool)
        used[self.parts[np.flatnonzero(targets)].indices] = True
        return used.reshape(self.rows.size, self.columns.size)

    def __call__(self, part: xr.DataArray) -> xr.DataArray:
        """Bring what `read` returns, `(..., row, column)`, to the targets, `(..., lat, lon)`, lazily if it is."""
        axes = {axis: self.cells[axis] for axis in ("lat", "lon")}
        if self.parts is None:
            return part.assign_coords(axes)
        parts, shape = self.parts, tuple(axis.size for axis in axes.values())
        least = self.least if isinstance(parts, tuple) else np.ravel(self.least)

        def average(values: Array) -> NDArray[np.float32]:
            if isinstance(parts, tuple):
                return apply(parts, values, least)
            return apply(parts, values.reshape(*values.shape[:-2], -1), least).reshape(*values.shape[:-2], *shape)

        space = [*part.dims[-2:]]
        brought = xr.apply_ufunc(
            average,
            part,
            input_core_dims=[space],
            output_core_dims=[["lat", "lon"]],
            exclude_dims=set(space),
            dask="parallelized",
            dask_gufunc_kwargs={"output_sizes": dict(zip(axes, shape, strict=True)), "allow_rechunk": True},
            output_dtypes=[np.float32],
            keep_attrs=True,
        )
        return brought.assign_coords(axes)


def _slice(index: Index) -> slice | Index:
    """Return adjacent positions as a slice, which is faster to read."""
    is_run = index.size > 0 and bool((np.diff(index) == 1).all())
    return slice(int(index[0]), int(index[-1]) + 1) if is_run else index
