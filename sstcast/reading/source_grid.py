"""The cells of curvilinear, rotated, projected and unstructured sources, as `weights.SourceGrid`."""

import hashlib
import warnings
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.spatial import QhullError, cKDTree

from sstcast.errors import SSTCastError, counted, reading
from sstcast.reading.bounds import bounds_of
from sstcast.reading.positions import check_degrees, degrees_of, in_degrees
from sstcast.reading.weights import Integers, SourceGrid, normalised, triangulated, unit_vectors
from sstcast.types import Array

SAME_PLACE = 1e-6  # radians between a cell and one that repeats it
SAME_DEGREES = 1e-4  # between the positions of a cell in two files
FEWEST_TO_FOLD = 16  # columns
MOSTLY = 0.6  # share of a row or column from which its repeated cells tell that it repeats another
NEIGHBOURING = 1.5  # of a cell, between the last column and the first one across a seam
GRID_REMEDY = "correct its positions or its mesh"
# Names of the corners of faces, counted from 1: in FVCOM, FESOM and ICON.
CONNECTIVITY = ("nv", "elem", "face_nodes", "vertex_of_cell")


def structured(lat: Array, lon: Array, corners: tuple[Array, Array] | None = None) -> SourceGrid:
    """Return the cells of positions `[row, column]` in degrees, NaN where a cell has none.

    `corners` are the latitudes and longitudes of the vertices `[row, column, 4]`. Without them, corners lie
    halfway between centres. Cells that repeat others, as in the columns at a seam, are left out.
    """
    centres, at = unit_vectors(lat, lon), np.arange(lat.size, dtype=np.int32).reshape(lat.shape)
    valid = np.isfinite(centres).all(-1)
    repeats = _repeats(centres.reshape(-1, 3)).reshape(lat.shape) & valid
    kept = tuple(
        slice(1 + int(np.flatnonzero(repeats.sum(axis) <= MOSTLY * valid.sum(axis)).max(initial=0)))
        for axis in (1, 0)
    )
    own, inner = (valid & ~repeats)[kept], at[kept]
    quads = [(inner[:-1, :-1], inner[:-1, 1:], inner[1:, 1:], inner[1:, :-1])]
    seam = np.linalg.norm(centres[kept][:, 0] - centres[kept][:, -1], axis=-1)
    width = np.linalg.norm(centres[kept][:, 1] - centres[kept][:, 0], axis=-1)
    cyclic = inner.shape[1] > 2 and _median(seam) < NEIGHBOURING * _median(width)
    if cyclic:
        quads.append((inner[:-1, -1:], inner[:-1, :1], inner[1:, :1], inner[1:, -1:]))
    if (partner := _fold(centres[kept][-1])) is not None:
        quads.append((inner[-1, :-1], inner[-1, 1:], inner[-1, partner[1:]], inner[-1, partner[:-1]]))
    faces = np.concatenate([np.stack(parts, axis=-1).reshape(-1, 4) for parts in quads])
    polygons = (
        _corners(centres[kept], cyclic) if corners is None else unit_vectors(*(part[kept] for part in corners))
    )
    own &= np.isfinite(polygons).all((-1, -2))
    index = inner[own]
    flat = centres.reshape(-1, 3)
    faces = _numbered(faces[valid.ravel()[faces].all(1)], flat, index)
    return SourceGrid(index, flat[index], polygons[own], np.arange(index.size), faces)


def _fold(row: Array) -> Integers | None:
    """Return the cells opposite to those of the last row `[column, 3]`, or None if the grid is not folded."""
    valid = np.isfinite(row).all(1)
    cols = np.flatnonzero(valid)
    if cols.size < FEWEST_TO_FOLD:
        return None
    _, near = cKDTree(row[cols]).query(row[cols], k=8)
    far = abs(near - np.arange(cols.size)[:, None])
    far = (far > 3) & (far < cols.size - 3)
    has_partner = far.any(1)
    if has_partner.mean() < 0.5:
        return None
    chosen = far.argmax(1)
    partner = cols[np.take_along_axis(near, chosen[:, None], 1)[:, 0]]
    turns, counts = np.unique((cols + partner)[has_partner] % len(row), return_counts=True)
    opposite: Integers = (turns[counts.argmax()] - np.arange(len(row))) % len(row)
    width = np.linalg.norm(np.diff(row, axis=0), axis=1)
    return (
        opposite if _median(np.linalg.norm(row - row[opposite], axis=1)) < NEIGHBOURING * _median(width) else None
    )


def _median(values: Array) -> float:
    """Return the median of the known values, NaN if there are none."""
    return float(np.median(values[np.isfinite(values)])) if np.isfinite(values).any() else np.nan


def _repeats(centres: Array) -> NDArray[np.bool_]:
    """Return which cells have the position of an earlier one."""
    keys = _keys(centres)
    order = np.argsort(keys, kind="stable")
    repeats = np.zeros(len(centres), bool)
    repeats[order[1:]] = keys[order[1:]] == keys[order[:-1]]
    return repeats


def _keys(centres: Array) -> Integers:
    """Return a number for each position, the same for positions that are alike."""
    with np.errstate(invalid="ignore"):  # NaN without a position
        steps = np.round(centres / SAME_PLACE).astype(np.int64)
    keys: Integers = (steps[:, 0] * 4_000_037 + steps[:, 1]) * 4_000_037 + steps[:, 2]
    return keys


def _numbered(faces: Integers, centres: Array, index: Integers) -> Integers:
    """Number the corners of faces among the cells `index`. A repeated cell stands for the one that it repeats."""
    number = np.full(len(centres), -1, np.int32)
    number[index] = np.arange(index.size)
    others = np.unique(faces[number[faces] < 0])
    if others.size and index.size:
        keys, wanted = _keys(centres[index]), _keys(centres[others])
        order = np.argsort(keys)
        at = np.searchsorted(keys, wanted, sorter=order).clip(max=len(keys) - 1)
        number[others] = np.where(keys[order[at]] == wanted, order[at], -1)
    numbered: Integers = number[faces]
    return numbered[(numbered >= 0).all(1)]


def _corners(centres: Array, cyclic: bool) -> Array:
    """Return corners `[row, column, 4, 3]`, halfway between the centres `[row, column, 3]`.

    Where a neighbour is missing, a cell extends as far as on its other side.
    """
    padded = np.pad(centres, ((1, 1), (1, 1), (0, 0)), constant_values=np.nan)
    if cyclic:
        padded[1:-1, 0], padded[1:-1, -1] = centres[:, -1], centres[:, 0]
    along = _half_steps(padded[1:-1, :-2], centres, padded[1:-1, 2:])
    across = _half_steps(padded[:-2, 1:-1], centres, padded[2:, 1:-1])
    for one, other in ((along, across), (across, along)):  # a strait between cells without positions
        unknown = ~np.isfinite(one).all(-1)
        one[unknown] = np.cross(other[unknown], centres[unknown])
    means = (padded[:-1, :-1] + padded[:-1, 1:] + padded[1:, 1:] + padded[1:, :-1]) / 4
    corners = np.empty((*centres.shape[:2], 4, 3))
    for corner, (i, j) in enumerate(((0, 0), (1, 0), (1, 1), (0, 1))):
        between = means[j : j + len(centres), i : i + centres.shape[1]]
        own = centres + (2 * i - 1) * along + (2 * j - 1) * across
        corners[:, :, corner] = normalised(np.where(np.isfinite(between), between, own))
    return corners


def _half_steps(before: Array, centres: Array, after: Array) -> Array:
    forward, backward = after - centres, centres - before
    both = np.where(np.isfinite(forward), forward, backward)
    both = np.where(np.isfinite(forward) & np.isfinite(backward), (forward + backward) / 2, both)
    return both / 2


def of_polygons(lat: Array, lon: Array, vertices: tuple[Array, Array]) -> SourceGrid:
    """Return cells that are polygons with the latitudes and longitudes `vertices [cell, corner]`."""
    centres, polygons = unit_vectors(lat, lon), unit_vectors(*vertices)
    index = np.flatnonzero(np.isfinite(centres).all(-1) & np.isfinite(polygons).all((-1, -2)))
    centres = centres[index]
    return SourceGrid(index, centres, polygons[index], np.arange(index.size), triangulated(centres))


def of_nodes(lat: Array, lon: Array, faces: Integers | None) -> SourceGrid:
    """Return cells around nodes, with their triangles `[face, 3]`, or without any known ones."""
    centres = unit_vectors(lat, lon)
    index = np.flatnonzero(np.isfinite(centres).all(-1))
    number = np.full(len(centres), -1)
    number[index] = np.arange(index.size)
    centres = centres[index]
    triangles = triangulated(centres) if faces is None else number[faces[(number[faces] >= 0).all(1)]]
    return SourceGrid(index, centres, centres[triangles], triangles, triangles)


@dataclass(frozen=True)
class Cells:
    """What the cells of a source are made of, as its file states it, in degrees.

    Attributes:
        lat: latitudes `[row, column]` or `[cell]`, NaN where a cell has no position.
        lon: longitudes.
        vertices: latitudes and longitudes of the corners of each cell, or None.
        faces: the cells at the corners of triangles, `[face, 3]`, or None.
    """

    lat: Array
    lon: Array
    vertices: tuple[Array, Array] | None = None
    faces: Integers | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns. Cells without rows are one column."""
        return len(self.lat), self.lat[0].size

    @cached_property
    def digest(self) -> str:
        """A hash of all that the cells are made of."""
        digest = hashlib.sha256()
        for part in (self.lat, self.lon, *(self.vertices or ()), self.faces):
            digest.update(f"{None if part is None else part.shape}".encode())
            digest.update(b"" if part is None else np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()

    def agrees(self, other: "Cells") -> bool:
        """Return whether other cells are the same but for rounding."""
        if self.digest == other.digest:
            return True
        own, others = ((cells.lat, cells.lon, *(cells.vertices or ())) for cells in (self, other))
        return (
            [part.shape for part in own] == [part.shape for part in others]
            and all(np.allclose(a, b, 0, SAME_DEGREES, equal_nan=True) for a, b in zip(own, others, strict=True))
            and np.array_equal(
                self.faces if self.faces is not None else (), other.faces if other.faces is not None else ()
            )
        )

    def grid(self, path: Path) -> SourceGrid:
        """Return the cells with positions as vectors and polygons.

        Raises SSTCastError, which names `path`, if that cannot be done, as of two points.
        """
        with reading(path, GRID_REMEDY), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # serious faults raise errors
            if self.lat.ndim == 2:
                grid = structured(self.lat, self.lon, self.vertices)
            else:
                try:
                    grid = (
                        of_polygons(self.lat, self.lon, self.vertices)
                        if self.vertices is not None
                        else of_nodes(self.lat, self.lon, self.faces)
                    )
                except QhullError as error:
                    raise SSTCastError(
                        f"{path}: its {counted(self.lat.size, 'point')} make no mesh; give stations, which are no "
                        f"field, to `sstcast evaluate --observations`, else {GRID_REMEDY}"
                    ) from error
            if not grid.spacing > 0:
                raise ValueError("its cells have no area")
            return grid


def cells_of(dataset: xr.Dataset, field: xr.DataArray, axes: Mapping[str, str], path: Path) -> Cells:
    """Return the cells of a field whose positions share one or two dimensions.

    Raises SSTCastError if a mesh is broken or lacks its nodes.
    """
    with reading(path, GRID_REMEDY), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # serious faults raise errors
        lat_name, lon_name = axes["lat"], axes["lon"]
        lat, lon = degrees_of(dataset[lat_name], dataset[lon_name], path)
        space = dataset[lat_name].dims
        vertices, faces = _vertices(dataset, (lat_name, lon_name), space), None
        vertices = vertices if vertices is None else _without_padding(vertices, lat, lon)
        if len(space) == 1 and vertices is None:
            faces, nodes = _connectivity(dataset, field, space[0], path)
            if faces is not None and nodes is not None:  # values on faces
                vertices, faces = (nodes[0][faces], nodes[1][faces]), None
        if vertices is not None:
            check_degrees(*vertices, path, "the corners of its cells")
        return Cells(lat, lon, vertices, faces)


def _vertices(
    dataset: xr.Dataset, names: tuple[str, str], space: tuple[Hashable, ...]
) -> tuple[Array, Array] | None:
    """Return the latitudes and longitudes of the vertices `[*space, corner]`, or None if the file has none."""
    found = []
    for name in names:
        bounds = bounds_of(dataset[name], dataset)
        if bounds is None or bounds.dims[:-1] != space or bounds.shape[-1] < 3:
            return None
        if len(space) == 2 and bounds.shape[-1] != 4:
            return None
        units = bounds.attrs.get("units", dataset[name].attrs.get("units", ""))
        found.append(in_degrees(bounds.assign_attrs(units=units)))
    return found[0], found[1]


def _without_padding(vertices: tuple[Array, Array], lat: Array, lon: Array) -> tuple[Array, Array]:
    """Return vertices `[*space, corner]` in which a corner that a cell lacks repeats the first one.

    It is NaN, or 0 for both if that is farther from the cell's position `[*space]` than the cell is wide. A cell
    with fewer than three corners has none.
    """
    known = np.isfinite(vertices[0]) & np.isfinite(vertices[1])
    if (zero := known & (vertices[0] == 0) & (vertices[1] == 0)).any():
        apart = np.linalg.norm(unit_vectors(*vertices) - unit_vectors(lat, lon)[..., None, :], axis=-1)
        width = 2 * np.where(known & ~zero, apart, 0).max(-1, keepdims=True)
        known &= ~(zero & (apart > width))
    if known.all():
        return vertices
    first = np.argsort(~known, axis=-1, kind="stable")  # the known corners, in their order
    known_count = known.sum(-1, keepdims=True)
    at = np.where(np.arange(known.shape[-1]) < known_count, first, first[..., :1])
    lats, lons = (np.where(known_count < 3, np.nan, np.take_along_axis(axis, at, -1)) for axis in vertices)
    return lats, lons


def _connectivity(
    dataset: xr.Dataset, field: xr.DataArray, dim: Hashable, path: Path
) -> tuple[Integers | None, tuple[Array, Array] | None]:
    """Return the corners of faces, counted from 0, and where values lie on faces, the positions of the nodes."""
    meshes = [
        variable for variable in dataset.variables.values() if variable.attrs.get("cf_role") == "mesh_topology"
    ]
    names = [str(mesh.attrs.get("face_node_connectivity", "")) for mesh in meshes]
    names += [name for name in CONNECTIVITY if name in dataset]
    name = next((name for name in names if name in dataset), None)
    if name is None:
        return None, None
    table = dataset[name]
    values = table.values.astype(float)
    if values.ndim != 2:
        return None, None
    values = values.T if values.shape[0] < values.shape[1] else values
    on_faces = len(values) == dataset.sizes[dim] and field.attrs.get("location") != "node"
    positions = str(meshes[0].attrs.get("node_coordinates", "")).split() if meshes else []
    pairs = [*([tuple(positions[::-1])] if len(positions) == 2 else []), ("lat", "lon"), ("vlat", "vlon")]
    pairs = [pair for pair in pairs if {*pair} <= dataset.variables.keys() and dataset[pair[0]].dims != (dim,)]
    if on_faces and not pairs:
        raise SSTCastError(f"{path}: {name} names nodes whose positions it lacks; add them, or remove {name}")
    count = dataset[pairs[0][0]].size if on_faces else dataset.sizes[dim]
    corners = _corners_of_faces(values, count, table, path)
    if on_faces:
        return corners, (in_degrees(dataset[pairs[0][0]]), in_degrees(dataset[pairs[0][1]]))
    if corners.shape[1] == 4:  # quadrilaterals as two triangles
        corners = np.concatenate([corners[:, [0, 1, 2]], corners[:, [0, 2, 3]]])
    return corners, None


def _corners_of_faces(values: Array, count: int, table: xr.DataArray, path: Path) -> Integers:
    """Return the nodes at the corners of faces, `[face, corner]`, counted from 0. A missing one repeats the first.

    Numbers below 0 and NaN are no corners, and neither is 0 if nodes are counted from 1 up to their `count`. A
    face begins with three others. Raises SSTCastError, with table and face, for any other number that is no node.
    """
    if values.shape[1] < 3:
        raise SSTCastError(
            f"{path}: {table.name} has {values.shape[1]} nodes for each face, which needs three; {GRID_REMEDY}"
        )
    largest = np.nanmax(values)
    usual = 1.0 if largest == count else values[values >= 0].min(initial=largest)
    first = float(table.attrs.get("start_index", usual))
    missing = ~(values >= 0) | ((values == 0) & (first == 1) & (largest == count))
    is_node = (values >= first) & (values < first + count) & (values == np.round(values))
    wrong = np.where(np.arange(values.shape[1]) < 3, ~is_node, ~is_node & ~missing)
    wrong[:, :3] |= missing[:, :3]
    if wrong.any():
        face, corner = (int(index[0]) for index in np.nonzero(wrong))
        raise SSTCastError(
            f"{path}: {table.name} has {values[face, corner]:g} in its face {face + 1}, which is none of {count} "
            f"nodes counted from {first:g}; correct it, or its start_index"
        )
    corners: Integers = (np.where(missing, values[:, :1], values) - first).astype(np.int64)
    return corners
