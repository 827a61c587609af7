"""Writing datasets with CF metadata as NetCDF files and Zarr stores, with checksums."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numcodecs import Shuffle, Zstd

from sstcast.errors import SSTCastError
from sstcast.log import LOG
from sstcast.progress import dask_progress, waiting
from sstcast.storage.artefacts import RECIPE, as_text, is_kept, is_up_to_date, locked, noted, read_recipe
from sstcast.storage.cf import encoded
from sstcast.storage.stores import consolidate, open_netcdf

_CHECKED = {"fletcher32": True}
_PACKED = {"zlib": True, "complevel": 1, "shuffle": True, **_CHECKED}


def write(
    dataset: xr.Dataset,
    path: Path,
    grows_along: str | None = None,
    compress: bool = True,
    chunks: Mapping[str, int] | None = None,
    check: Callable[[Path], None] | None = None,
) -> None:
    """Write a dataset from `describe` atomically, as Zarr if the path ends in .zarr, else as NetCDF.

    Its attribute `recipe`, if any, is noted. Both formats get checksums. In NetCDF, the dimension `grows_along` is
    unlimited, so that ncrcat can join files, and fields are compressed unless `compress` is false. Zarr has
    `chunks`, by default one of each variable. What was written takes its name after `check` was called with its
    temporary path, and only if that raises no error.
    """
    is_lazy = any(variable.chunks for variable in dataset.variables.values())
    shown = (dask_progress if is_lazy else waiting)(f"writing {path.name}")
    with noted(path, json.loads(dataset.attrs.get(RECIPE, "null"))) as temporary:
        with shown:
            if path.suffix == ".zarr":
                write_zarr(dataset, temporary, chunks or {})
            else:
                _write_netcdf(dataset, temporary, [grows_along] if grows_along else [], compress)
        if check is not None:
            check(temporary)


def _write_netcdf(dataset: xr.Dataset, path: Path, unlimited: list[str], compress: bool) -> None:
    dataset = encoded(dataset)
    encodings: Any = {
        name: field.encoding | (_PACKED if compress else _CHECKED) for name, field in dataset.data_vars.items()
    }
    for name, field in dataset.data_vars.items():
        if field.chunks:  # align chunks with dask's, so that each chunk is compressed once
            encodings[name]["chunksizes"] = [sizes[0] for sizes in field.chunks]
    for name, axis in dataset.coords.items():
        if axis.ndim and axis.dtype.kind in "iufM":
            encodings[name] = axis.encoding | {"fletcher32": True}
    for name, variable in dataset.variables.items():
        if variable.ndim and variable.dtype.kind in "OUT":
            # HDF5 1.14 and 2.2 may look for a text of any length in another open file.
            encodings[name] = {"dtype": "S1"}
    dataset.to_netcdf(path, engine="netcdf4", encoding=encodings, unlimited_dims=unlimited)


def cached(
    path: Path, recipe: Any, make: Callable[[], xr.Dataset], compress: bool = True, chunked: bool = False
) -> xr.Dataset:
    """Open a NetCDF file lazily, and write what `make` returns to it unless it was made from `recipe`.

    Its note must say so: a file without one, a link or a pipe is replaced. In a read-only folder, or if another
    process replaces or deletes the file before it is opened, the new dataset is returned and not written. A line
    tells of a file whose layout had another number. `compress` is that of `write`, and `chunked` that of
    `open_netcdf`.
    """
    if not is_up_to_date(path, recipe, strictly=True):
        if path.parent.exists() and not os.access(path.parent, os.W_OK):
            return make()
        with locked(path):
            if not is_up_to_date(path, recipe, strictly=True):
                old = read_recipe(path) if is_kept(path) else None
                if old and old.get("layout") != recipe.get("layout"):
                    LOG.info(f"{path}: was made by another version of sstcast; it is made again")
                write(make().assign_attrs(recipe=as_text(recipe)), path, compress=compress)
    try:
        opened = open_netcdf(path, "delete it", chunked)
    except SSTCastError:
        if is_kept(path):
            raise
        return make()
    if json.loads(opened.attrs[RECIPE]) != json.loads(as_text(recipe)):
        opened.close()
        return make()
    return opened


def write_zarr(dataset: xr.Dataset, path: Path, chunks: Mapping[str, int]) -> None:
    """Write `dataset` as a Zarr store that `stores.open_written` can open.

    `chunks` gives chunk lengths. Any other dimension is one chunk. The format is Zarr 2, because the Zarr 3
    specification has no consolidated metadata, with which a store opens in one read.
    """
    sizes = {str(d): chunks.get(str(d), n) for d, n in dataset.sizes.items()}
    dataset = encoded(dataset).chunk(sizes)
    dataset.to_zarr(path, **zarr_options(dataset))
    consolidate(path)


def zarr_options(dataset: xr.Dataset) -> dict[str, Any]:
    """Return options for `to_zarr` that let `stores.open_written` detect lost and damaged chunks.

    They include the encoding set by `encoded`, because `to_zarr` replaces the encoding of the variables.
    """
    encoding: dict[str, Any] = {}
    for name, variable in encoded(dataset).variables.items():
        encoding[str(name)] = variable.encoding | {"compressors": Zstd(1, checksum=True)}
        if name in dataset.data_vars and variable.encoding.get("dtype", variable.dtype) == np.float32:
            encoding[str(name)]["filters"] = [Shuffle(4)]
    return {"zarr_format": 2, "consolidated": True, "write_empty_chunks": True, "encoding": encoding}
