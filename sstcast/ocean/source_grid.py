"""The cells of curvilinear, rotated, projected and unstructured sources, as `weights.SourceGrid`."""

from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from sstcast.errors import SSTCastError
from sstcast.ocean.weights import Array, Integers, SourceGrid, normalised, triangulated, unit_vectors

REPEATED = 1e-6  # radians between a cell and one that repeats it
SEAM = 1.5  # of a cell, between the last column and the first one across a seam
# Names of the corners of faces, counted from 1: in FVCOM, FESOM and ICON.
CONNECTIVITY = ("nv", "elem", "face_nodes", "vertex_of_cell")


def structured(lat: Array, lon: Array, corners: tuple[Array, Array] | None = None) -> SourceGrid:
    """Return the cells of positions `[row, column]` in degrees, NaN where a cell has none.

    `corners` are the latitudes and longitudes of the vertices `[row, column, 4]`. Without them, corners lie halfway
    between centres. Cells that repeat others, as in the columns at a seam, are left out.
    """
    rows, cols = lat.shape
    centres = unit_vectors(lat, lon)
    valid = np.isfinite(centres).all(-1)
    at = np.arange(lat.size).reshape(lat.shape)
    quads = [(at[:-1, :-1], at[:-1, 1:], at[1:, 1:], at[1:, :-1])]
    seam = np.linalg.norm(centres[:, 0] - centres[:, -1], axis=-1)
    width = np.linalg.norm(centres[:, 1] - centres[:, 0], axis=-1)
    joined = (seam < SEAM * width) & (seam > REPEATED)
    if cols > 2 and np.nanmean(np.where(np.isfinite(seam), joined, np.nan)) > 0.5:
        quads.append((at[:-1, -1:], at[:-1, :1], at[1:, :1], at[1:, -1:]))
    faces = np.concatenate([np.stack(parts, axis=-1).reshape(-1, 4) for parts in quads])
    polygons = _corners(centres, cyclic=len(quads) > 1) if corners is None else unit_vectors(*corners)
    flat, own = centres.reshape(-1, 3), valid.ravel() & np.isfinite(polygons).reshape(lat.size, -1).all(1)
    own[own] = ~_repeats(flat[own])
    index = np.flatnonzero(own)
    faces = faces[valid.ravel()[faces].all(1)]
    return SourceGrid(
        index, flat[index], polygons.reshape(-1, 4, 3)[index], np.arange(index.size), _numbered(faces, flat, own)
    )


def _repeats(centres: Array) -> NDArray[np.bool_]:
    """Return which cells have the position of an earlier one."""
    keys = np.round(centres / REPEATED).astype(np.int64)
    _, first = np.unique(keys, axis=0, return_index=True)
    repeats = np.ones(len(centres), bool)
    repeats[first] = False
    return repeats


def _numbered(faces: Integers, centres: Array, own: NDArray[np.bool_]) -> Integers:
    """Number the corners of faces among the cells `own`. A repeated cell stands for the one that it repeats."""
    number = np.full(len(own), -1)
    number[own] = np.arange(int(own.sum()))
    others = np.setdiff1d(faces, np.flatnonzero(own))
    if others.size:
        keys = {
            tuple(key): number for number, key in enumerate(np.round(centres[own] / REPEATED).astype(np.int64))
        }
        number[others] = [
            keys.get(tuple(key), -1) for key in np.round(centres[others] / REPEATED).astype(np.int64)
        ]
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
    signs = ((-1, -1), (1, -1), (1, 1), (-1, 1))
    own = np.stack([centres + i * along + j * across for i, j in signs], axis=2)
    means = (padded[:-1, :-1] + padded[:-1, 1:] + padded[1:, 1:] + padded[1:, :-1]) / 4
    shared = np.stack([means[:-1, :-1], means[:-1, 1:], means[1:, 1:], means[1:, :-1]], axis=2)
    return normalised(np.where(np.isfinite(shared), shared, own))


def _half_steps(before: Array, centres: Array, after: Array) -> Array:
    forward, backward = after - centres, centres - before
    both = np.where(np.isfinite(forward), forward, backward)
    both = np.where(np.isfinite(forward) & np.isfinite(backward), (forward + backward) / 2, both)
    return both / 2


def of_polygons(lat: Array, lon: Array, vertices: tuple[Array, Array]) -> SourceGrid:
    """Return cells that are polygons with the latitudes and longitudes `vertices [cell, corner]`."""
    centres = unit_vectors(lat, lon)
    return SourceGrid(
        np.arange(lat.size), centres, unit_vectors(*vertices), np.arange(lat.size), triangulated(centres)
    )


def of_nodes(lat: Array, lon: Array, faces: Integers | None) -> SourceGrid:
    """Return cells around nodes, with their triangles `[face, 3]`, or without any known ones."""
    centres = unit_vectors(lat, lon)
    triangles = triangulated(centres) if faces is None else faces
    return SourceGrid(np.arange(lat.size), centres, centres[triangles], triangles, triangles)
