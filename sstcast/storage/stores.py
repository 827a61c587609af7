"""Opens untrusted Zarr stores and NetCDF files, after checking that reading cannot run code or open other files.

A Zarr store names the codecs that decode its chunks, and some codecs, such as pickle, execute their input. An HDF5
file may link to other files on this computer. Both show in the metadata, which are checked before any value is
read.

`open_written` reads stores that sstcast wrote. Every chunk must be present and has a checksum, and `consolidate`
adds a checksum of the metadata. So a lost or damaged file raises an error instead of being read as land.
"""

import hashlib
import json
import math
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sstcast.errors import Outdated, SSTCastError, reading
from sstcast.storage.paths import read_regular

if TYPE_CHECKING:
    import h5py
    import xarray as xr

# Codecs that only transform numbers, and vlen-utf8, which decodes text.
CODECS = frozenset(
    [
        *("adler32", "bitround", "blosc", "bytes", "bz2", "crc32", "crc32c", "delta", "endian"),
        *("fixedscaleoffset", "fletcher32", "gzip", "lz4", "lzma", "packbits", "quantize", "sharding_indexed"),
        *("shuffle", "transpose", "vlen-utf8", "zlib", "zstd"),
    ]
)

MAX_CHUNK_BYTES = 2**32  # decoded
# Bytes of decoded chunks that netCDF keeps of a variable. Blocks consist of whole chunks, so that few are read
# twice, but up to 128 files stay open, by default each with up to 64 MiB.
CHUNK_CACHE = 2**24
MAX_POSITIONS = 10**6  # latitudes or longitudes on an axis; a mesh has more cells
MAX_AXIS = 10**8  # values of any other axis
NO_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"
POSITION = re.compile("lat|lon|degree", re.IGNORECASE)
ALL_METADATA = ".zmetadata"
CHECKSUM = "sha256"  # key of the metadata's checksum in ALL_METADATA
ARRAYS = "arrays"  # key of a dataset's encoding, under which it holds the arrays of its Zarr store by name


def open_zarr(path: Path, remedy: str) -> "xr.Dataset":
    """Open a Zarr store (format 2 or 3) lazily, as dask arrays.

    Raises SSTCastError, ending in `remedy`, if the store cannot be read or uses a codec not in `CODECS`, now or
    when values are computed.
    """
    import xarray as xr
    import zarr

    from sstcast.storage.guarded import guarded  # imported late, as it imports xarray
    from sstcast.storage.regular_files import RegularFiles

    with reading(path, remedy), warnings.catch_warnings():  # damaged metadata raise errors of any type
        warnings.simplefilter("ignore")  # serious faults raise errors
        if not path.is_dir():
            raise ValueError("not a Zarr store" if path.exists() else "no such folder")
        version: Literal[2, 3] = 3 if (path / "zarr.json").is_file() else 2
        store = RegularFiles(path.absolute(), read_only=True)
        group = zarr.open_group(store, mode="r", zarr_format=version)
        if group.metadata.zarr_format != version:  # possible if the metadata are damaged
            raise ValueError(f"not a Zarr store of format {version}")
        arrays = dict(group.arrays())
        check_codecs(arrays.items())
        dataset = xr.open_zarr(store, zarr_format=version, chunks=None)
        if not dataset.data_vars:
            _check_variables(dataset, [name for name, _ in group.groups()], path)
    opened = guarded(dataset, path, remedy, chunked=True)
    opened.encoding[ARRAYS] = arrays
    return opened


def consolidate(path: Path) -> None:
    """Collect the metadata of a Zarr group (format 2) in one file, with a checksum."""
    files = [file for pattern in (".z*", "*/.z*") for file in sorted(path.glob(pattern))]
    metadata = {str(file.relative_to(path)): json.loads(file.read_bytes()) for file in files}
    metadata.pop(ALL_METADATA, None)
    content = {"metadata": metadata, "zarr_consolidated_format": 1, CHECKSUM: _digest(metadata)}
    temporary = path / f"{ALL_METADATA}.partial"
    temporary.write_text(json.dumps(content, indent=1))
    temporary.replace(path / ALL_METADATA)


def open_written(path: Path, remedy: str, sparse: Sequence[str] = ()) -> "xr.Dataset":
    """Open a Zarr store that sstcast wrote, lazily. Only the arrays `sparse` may lack chunks.

    Raises SSTCastError, ending in `remedy`, if the store is absent or damaged, like `open_zarr`.
    """
    if not path.exists():
        raise Outdated(f"{path}: does not exist; {remedy}")
    dataset = open_zarr(path, remedy)
    with reading(path, remedy):
        content = json.loads(read_regular(path / ALL_METADATA))
        attributes = json.loads(read_regular(path / ".zattrs"))
        digest = _digest(content["metadata"])
        is_intact = content.get(CHECKSUM, digest if sparse else None) == digest  # some fetched days have none
        if not is_intact or attributes != content["metadata"].get(".zattrs"):
            raise ValueError("its metadata are damaged")
        for name, array in dataset.encoding[ARRAYS].items():
            if name not in sparse and array.nchunks_initialized != array.nchunks:
                raise ValueError(
                    f"{name} lacks {array.nchunks - array.nchunks_initialized} of {array.nchunks} chunks"
                )
    return dataset


def _digest(metadata: Any) -> str:
    return hashlib.sha256(json.dumps(metadata, sort_keys=True).encode()).hexdigest()


def chunk_bytes(array: Any) -> int:
    """Return the decoded size of a chunk or shard of a Zarr array."""
    return math.prod(array.shards or array.chunks) * int(array.dtype.itemsize)


def check_codecs(arrays: Iterable[tuple[str, Any]]) -> None:
    """Raise ValueError if any of the (name, Zarr array) pairs uses a codec not in `CODECS`.

    Chunks that are empty, or larger than the memory of most computers, are an error as well, and so are axes that
    are (see `check_axis`).
    """
    for name, array in arrays:
        dims = getattr(array.metadata, "dimension_names", None) or array.attrs.get("_ARRAY_DIMENSIONS", ())
        if [*dims] == [name]:
            check_axis(name, array.shape[0], array.attrs)
        if min(sizes := array.shards or array.chunks, default=1) < 1 or chunk_bytes(array) > MAX_CHUNK_BYTES:
            raise ValueError(f"{name}: chunks of {' x '.join(map(str, sizes))} values are no size to read")
        metadata = array.metadata.to_dict()
        codecs = [metadata.get("compressor"), *(metadata.get("filters") or ()), *metadata.get("codecs", ())]
        while codecs:
            if (codec := codecs.pop()) is None:
                continue
            codec_name = codec.get("id", codec.get("name"))
            if codec_name.removeprefix("numcodecs.") not in CODECS:
                raise ValueError(f"{name}: codec {codec_name[:80]!r} is not known to be safe")
            settings = codec.get("configuration", {})  # shards nest codecs
            codecs += [*settings.get("codecs", ()), *settings.get("index_codecs", ())]


def check_axis(name: str, size: int, attributes: Mapping[str, Any]) -> None:
    """Raise ValueError if an axis, which is read when its file is opened, claims more values than any has."""
    if size <= MAX_POSITIONS:
        return
    told = " ".join([name, *(str(attributes.get(key, "")) for key in ("standard_name", "units"))])
    if size > MAX_AXIS or POSITION.search(told):
        raise ValueError(f"its {name} claims {size:,} values, more than any axis has")


def open_netcdf(path: Path, remedy: str, chunked: bool = False) -> "xr.Dataset":
    """Open a NetCDF file (3 or 4) lazily, if `chunked` as dask arrays.

    Raises SSTCastError, ending in `remedy`, if the file cannot be read, now or when values are computed, or is
    HDF5 and refers to other files.
    """
    import h5py
    import netCDF4
    import xarray as xr

    from sstcast.storage.guarded import guarded

    with reading(path, remedy), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not path.is_file():
            raise ValueError("not a NetCDF file" if path.exists() else "no such file")
        groups: list[str] = []
        if h5py.is_hdf5(path):
            with h5py.File(path.absolute(), "r", locking=False) as file:
                check_hdf5(file)
                groups = [name for name, item in file.items() if isinstance(item, h5py.Group)]
        else:
            with netCDF4.Dataset(path.absolute()) as file:
                for name, axis in file.variables.items():
                    if axis.dimensions == (name,):
                        check_axis(name, axis.size, axis.__dict__)
        netCDF4.set_chunk_cache(CHUNK_CACHE)
        dataset = xr.open_dataset(path.absolute(), engine="netcdf4")
        _check_variables(dataset, groups, path)
    return guarded(dataset, path, remedy, chunked)


def _check_variables(dataset: "xr.Dataset", groups: Sequence[str], path: Path) -> None:
    """Raise SSTCastError if a dataset has no variables, but its file has groups, which may."""
    if groups and not dataset.data_vars:
        raise SSTCastError(
            f"{path}: has no variables, but the groups {', '.join(sorted(groups))}; save one in a file of its "
            f"own, with xarray open_dataset(FILE, group={min(groups)!r}).to_netcdf(OUT)"
        )


def check_hdf5(file: "h5py.File") -> None:
    """Raise ValueError if an HDF5 file links to other files or stores values in them, or an axis is too long.

    h5py reports these references without following them, but the netCDF library follows them. Soft links are safe,
    because they stay inside the file.
    """
    import h5py

    def of_link(name: str, link: object) -> str | None:
        return f"{name} is a link to another file" if isinstance(link, h5py.ExternalLink) else None

    def of_item(name: str, item: object) -> str | None:
        if isinstance(item, h5py.Dataset) and (item.size or 0) > MAX_POSITIONS and item.is_scale:
            is_variable = not bytes(item.attrs.get("NAME", b"")).startswith(NO_VARIABLE)
            check_axis(name, item.size if is_variable else 0, item.attrs)
        is_external = isinstance(item, h5py.Dataset) and (item.is_virtual or item.external)
        return f"{name} keeps its values in another file" if is_external else None

    if reason := file.visititems_links(of_link) or file.visititems(of_item):
        raise ValueError(reason)
