"""Opens untrusted Zarr stores and NetCDF files; refuses, before reading, what could run code or read other files.

A Zarr store names the codecs that decode its chunks, and some codecs (such as pickle) run what they decode. An
HDF5 file may keep its values in other files on this computer. Both are detected in the metadata, before any value
is read.
"""

import math
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

import numpy as np

from sstcast.errors import SSTCastError, in_short
from sstcast.hdf5 import LONGEST_AXIS, Refused, check_hdf5

if TYPE_CHECKING:
    import xarray as xr

MOST_CHUNKS = 10**7
LARGEST_CHUNK = 2**31  # values

# Codecs that only compute with numbers; vlen-utf8 decodes text.
CODECS = frozenset(
    [
        *("adler32", "bitround", "blosc", "bytes", "bz2", "crc32", "crc32c", "delta", "endian"),
        *("fixedscaleoffset", "fletcher32", "gzip", "lz4", "lzma", "packbits", "quantize", "sharding_indexed"),
        *("shuffle", "transpose", "vlen-utf8", "zlib", "zstd"),
    ]
)


def open_zarr(path: Path, remedy: str, **options: Any) -> "xr.Dataset":
    """Open a Zarr store (format 2 or 3) lazily; `options` are passed to `xr.open_zarr`.

    Raises SSTCastError, which ends in `remedy`, if the store cannot be read or uses a codec not in `CODECS`.
    """
    import xarray as xr  # not above: a store's metadata can be read without it

    check_zarr(path, remedy)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # faults that matter raise an error
            return _checked(xr.open_zarr(path.absolute(), **options))
    except Exception as error:  # with damaged metadata the libraries raise errors of any type
        fail(path, "Zarr", error, remedy)


def check_zarr(path: Path, remedy: str) -> None:
    """Check the metadata of a Zarr store, without reading its chunks.

    Raises SSTCastError if it is damaged, or contains something that `open_zarr` refuses.
    """
    import zarr

    try:
        if not path.is_dir():
            raise Refused("not a folder" if path.exists() else "no such folder")
        version = 3 if (path / "zarr.json").is_file() else 2
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            group = zarr.open_group(path.absolute(), mode="r", zarr_format=version)  # type: ignore[arg-type]
            if group.metadata.zarr_format != version:  # which damaged metadata may bring about
                raise Refused(f"it is not of format {version}")
            check_arrays(group.arrays())
    except Exception as error:  # as above
        fail(path, "Zarr", error, remedy)


def check_arrays(arrays: Iterable[tuple[str, Any]]) -> None:
    """Raise Refused if one of some Zarr arrays, given by name, has a codec not in `CODECS`, or is too large."""
    for name, array in arrays:
        metadata = array.metadata.to_dict()
        codecs = [metadata.get("compressor"), *(metadata.get("filters") or ()), *metadata.get("codecs", ())]
        named = list(_named(codecs))
        kind = np.dtype(array.dtype).kind
        if kind not in "biufcSUmMOT":
            raise Refused(f"{name}: data type {array.dtype} is not supported")
        if (kind in "OT") != ("vlen-utf8" in named):
            raise Refused(f"{name}: objects are read as vlen-utf8 text and nothing else")
        _check_shape(array.shape)
        for chunks in (array.chunks, array.shards or array.chunks):
            count = math.prod(-(-size // chunk) for size, chunk in zip(array.shape, chunks, strict=True))
            if min(chunks, default=1) < 1 or math.prod(chunks) > LARGEST_CHUNK or count > MOST_CHUNKS:
                raise Refused(f"{name}: chunks {chunks} of an array of shape {array.shape}: too large or too many")


def open_netcdf(path: Path, remedy: str, **options: Any) -> "xr.Dataset":
    """Open a NetCDF file (3 or 4) lazily; `options` are passed to `xr.open_dataset`.

    Raises SSTCastError, which ends in `remedy`, if the file cannot be read, or is HDF5 with values in other files.
    """
    import xarray as xr

    try:
        check_netcdf(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _checked(xr.open_dataset(path.absolute(), engine="netcdf4", **options))
    except Exception as error:  # as above
        fail(path, "NetCDF", error, remedy)


def check_netcdf(path: Path) -> None:
    """Check the metadata of a NetCDF file; raise Refused if it is not allowed, OSError if it is damaged."""
    if not path.is_file():
        raise Refused("not a file" if path.exists() else "no such file")
    with path.open("rb") as stream:
        magic = stream.read(8)
    import h5py
    import netCDF4

    if magic == b"\x89HDF\r\n\x1a\n":
        with h5py.File(path.absolute(), "r", locking=False) as file:
            check_hdf5(file)
    elif magic[:3] == b"CDF":
        with netCDF4.Dataset(path.absolute()) as dataset:
            _check_shape([len(dimension) for dimension in dataset.dimensions.values()])
    else:
        raise Refused(f"not a NetCDF file (it begins with {magic!r})" if magic else "the file is empty")


def fail(path: Path, kind: str, error: BaseException, remedy: str) -> Never:
    """Raise the SSTCastError for a file that cannot be read as `kind` because of `error`."""
    raise SSTCastError(f"{path}: cannot be read as {kind} ({in_short(error)}); {remedy}") from error


def _checked(dataset: "xr.Dataset") -> "xr.Dataset":
    """Refuse what xarray accepts when opening but fails on when values are read."""
    for name, variable in dataset.variables.items():
        if not all(isinstance(d, str) for d in variable.dims):
            raise Refused(f"{name} has dimensions {variable.dims}")
        for key in ("scale_factor", "add_offset"):
            if key in variable.encoding and not np.isfinite(np.asarray(variable.encoding[key], float)).all():
                raise Refused(f"{name} has {key} {variable.encoding[key]!r}")
    for name, index in dataset.indexes.items():
        years = [getattr(day, "year", 1) for day in index[[0, -1]]] if len(index) else []
        if not all(0 < year < 10_000 for year in years):
            raise Refused(f"{name} covers the years {years[0]} to {years[-1]}")
    return dataset


def _named(codecs: Iterable[Any]) -> Iterator[str]:
    """Yield the names of codecs, and of those inside shards; raise Refused for one that is not allowed."""
    for codec in codecs:
        if codec is None:
            continue
        name, settings = codec.get("id", codec.get("name")), codec.get("configuration", codec)
        if (short := name.removeprefix("numcodecs.")) not in CODECS:
            raise Refused(f"codec {name[:80]!r} is not one that is safe to run")
        if any(np.dtype(settings[key]).hasobject for key in ("dtype", "astype") if key in settings):
            raise Refused(f"codec {name!r} of objects")
        yield short
        yield from _named([*settings.get("codecs", ()), *settings.get("index_codecs", ())])


def _check_shape(shape: Iterable[int]) -> None:
    if any(not 0 <= size <= LONGEST_AXIS for size in shape):
        raise Refused(f"shape {str(shape)[:80]}: an axis of more than {LONGEST_AXIS:,}")
