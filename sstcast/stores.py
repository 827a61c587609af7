"""Opens untrusted Zarr stores and NetCDF files; refuses, before opening, what could run code or read other files.

A Zarr store names the codecs that decode its chunks, and some codecs (such as pickle) run what they decode. An
HDF5 file may keep its values in other files on this computer. Both are detected in the metadata, before a library
that would follow them opens the data.
"""

import json
import math
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

import numpy as np

from sstcast.errors import SSTCastError
from sstcast.hdf5 import LONGEST_AXIS, Refused, check_hdf5

if TYPE_CHECKING:
    import xarray as xr

MOST_CHUNKS = 10**7
LARGEST_CHUNK = 2**31  # values
DEEPEST = 16  # nested groups

# Codecs that only compute with numbers; vlen-utf8 decodes text.
CODECS = frozenset(
    [
        *("adler32", "bitround", "blosc", "bytes", "bz2", "crc32", "crc32c", "delta", "endian"),
        *("fixedscaleoffset", "fletcher32", "gzip", "lz4", "lzma", "packbits", "quantize", "sharding_indexed"),
        *("shuffle", "transpose", "vlen-utf8", "zlib", "zstd"),
    ]
)
_METADATA = (".zmetadata", ".zgroup", ".zarray", ".zattrs", "zarr.json")
_NUMBERS = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)|complex(64|128)|[<>|=]([biufcSU]\d+|[mM]8\[\w+\])")
_TEXTS = ("fixed_length_utf32", "null_terminated_bytes", "numpy.datetime64", "numpy.timedelta64")


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
    """Check all metadata of a Zarr store, without reading its chunks.

    Raises SSTCastError if it is damaged, or contains something that `open_zarr` refuses.
    """
    try:
        if not path.is_dir():
            raise Refused("not a folder" if path.exists() else "no such folder")
        if not any((path / name).is_file() for name in _METADATA):
            raise Refused("it has no Zarr metadata")
        for where, content in _zarr_metadata(path):
            try:
                _check_node(content)
            except Refused as error:
                raise Refused(f"{where}: {error}") from error
            except (TypeError, ValueError, KeyError, AttributeError) as error:
                raise Refused(f"{where} is damaged: {first_line(error)}") from error
    except (Refused, OSError, RecursionError, MemoryError) as error:
        fail(path, "Zarr", error, remedy)


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
    raise SSTCastError(f"{path}: cannot be read as {kind} ({first_line(error)}); {remedy}") from error


def first_line(error: BaseException) -> str:
    """Return the first line of the error's text, shortened, or its type if it has no text."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    lines = text.strip().splitlines() or [type(error).__name__]
    return lines[0] if len(lines[0]) <= 200 else lines[0][:200] + "..."


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


def _zarr_metadata(root: Path) -> Iterator[tuple[str, Any]]:
    """Yield the name and the content of all metadata below `root`; do not search inside arrays."""
    folders = [root]
    while folders:
        folder = folders.pop()
        is_array = False
        for name in _METADATA:
            file = folder / name
            if not file.is_file():
                continue
            where = str(file.relative_to(root))
            try:
                content = json.loads(file.read_bytes())
            except ValueError as error:
                raise Refused(f"{where} is not JSON") from error
            if not isinstance(content, dict):
                raise Refused(f"{where} is not a JSON object")
            version = {".zgroup": 2, ".zarray": 2, "zarr.json": 3}.get(name)
            if version and content.get("zarr_format") != version:
                raise Refused(f"{where} is not of format {version}")
            is_array |= name == ".zarray" or content.get("node_type") == "array"
            if name == ".zmetadata":
                yield from _consolidated(where, content.get("metadata"), ".zarray")
            elif name == "zarr.json":
                yield where, content
                inline = content.get("consolidated_metadata")
                if inline is not None:
                    inner = inline.get("metadata") if isinstance(inline, dict) else None
                    yield from _consolidated(where, inner, "")
            elif name == ".zarray":
                yield where, content
        if not is_array:
            folders += [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir()]
        if len(folder.relative_to(root).parts) > DEEPEST:
            raise Refused(f"groups nested more than {DEEPEST} levels deep")


def _consolidated(where: str, metadata: Any, ending: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(metadata, dict):
        raise Refused(f"{where}: has no metadata")
    for name, content in metadata.items():
        if not isinstance(content, dict):
            raise Refused(f"{where}: {name} is not a JSON object")
        if name.endswith(ending):
            yield f"{where}: {name}", content
            if isinstance(inner := content.get("consolidated_metadata"), dict):
                yield from _consolidated(f"{where}: {name}", inner.get("metadata"), ending)


def _check_node(content: dict[str, Any]) -> None:
    """Check the metadata of an array of format 2 or 3; a group of format 3 has none of these keys."""
    if content.get("zarr_format") == 3:
        if content.get("node_type") != "array":
            return
        codecs, kind = list(_flat(content["codecs"])), content["data_type"]
        grid = content["chunk_grid"]
        if grid["name"] != "regular":
            raise Refused(f"chunk grid {grid['name']!r} is not supported")
        chunks = grid["configuration"]["chunk_shape"]
        if content.get("storage_transformers"):
            raise Refused("storage transformers are not supported")
        name = kind.get("name") if isinstance(kind, dict) else kind
        text, known = name == "string", name in _TEXTS
    else:
        codecs = [content["compressor"], *(content["filters"] or [])]
        codecs = [codec for codec in codecs if codec is not None]
        kind, chunks = content["dtype"], content["chunks"]
        text, known = kind == "|O", False
    names = [_codec_name(codec) for codec in codecs]
    if not (text or known or (isinstance(kind, str) and _NUMBERS.fullmatch(kind))):
        raise Refused(f"data type {json.dumps(kind)[:80]} is not supported")
    if text != ("vlen-utf8" in names):
        raise Refused("objects are read as vlen-utf8 text and nothing else")
    _check_shape(content["shape"], chunks)


def _flat(codecs: Any, depth: int = 0) -> Iterator[Any]:
    """Yield the codecs of a format 3 array, including those inside shards."""
    if not isinstance(codecs, list) or depth > DEEPEST:
        raise Refused("codecs are damaged")
    for codec in codecs:
        yield codec
        inside = codec.get("configuration") if isinstance(codec, dict) else None
        for key in ("codecs", "index_codecs"):
            if isinstance(inside, dict) and key in inside:
                yield from _flat(inside[key], depth + 1)


def _codec_name(codec: Any) -> str:
    """Return the name of a codec; raise Refused if the codec is not allowed."""
    name = codec.get("id", codec.get("name")) if isinstance(codec, dict) else codec
    if not isinstance(name, str) or (short := name.removeprefix("numcodecs.")) not in CODECS:
        raise Refused(f"codec {str(name)[:80]!r} is not one that is safe to run")
    if isinstance(codec, dict):
        settings = codec.get("configuration") or {}
        for kind in (found[key] for found in (codec, settings) for key in ("dtype", "astype") if key in found):
            if np.dtype(kind).hasobject:
                raise Refused(f"codec {name!r} of objects")
    return short


def _check_shape(shape: Any, chunks: Any = None) -> None:
    for sizes, least in ((shape, 0), (shape if chunks is None else chunks, 0 if chunks is None else 1)):
        if not isinstance(sizes, list) or not all(type(n) is int and least <= n for n in sizes):
            raise Refused(f"shape or chunks {str(sizes)[:80]}")
    if any(n > LONGEST_AXIS for n in shape):
        raise Refused(f"shape {str(shape)[:80]}: an axis of more than {LONGEST_AXIS:,}")
    if chunks is not None:
        if len(chunks) != len(shape):
            raise Refused(f"chunks {str(chunks)[:80]} of an array of shape {str(shape)[:80]}")
        if (
            math.prod(chunks) > LARGEST_CHUNK
            or math.prod(map(lambda n, c: -(-n // c), shape, chunks)) > MOST_CHUNKS
        ):
            raise Refused(
                f"chunks {str(chunks)[:80]} of an array of shape {str(shape)[:80]}: too large or too many"
            )
