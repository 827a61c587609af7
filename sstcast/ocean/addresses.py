"""Sources of days at a URL: Zarr stores behind https, http, s3 and gs, read through obstore (extra `cloud`).

Only metadata and the chunks that a region needs are read. The metadata must be consolidated, because HTTP lists no
files. Buckets are read anonymously or, if they refuse that, with the credentials in the environment.

Size and ETag of each chunk, in place of a file's size and time, tell whether a day may have changed. A server that
sends neither ETag nor Last-Modified is taken to have changed.
"""

import hashlib
import itertools
import json
import os
import re
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr
import zarr
from zarr.storage import ObjectStore

from sstcast.config import DataConfig
from sstcast.errors import SSTCastError, in_short, reading
from sstcast.ocean.bounds import days_of
from sstcast.ocean.fields import find_field
from sstcast.ocean.grid import crop
from sstcast.storage.guarded import guarded
from sstcast.storage.stores import check_codecs

if TYPE_CHECKING:
    from zarr.core.buffer import Buffer

REMEDY = "try again later, or check data.source"
OBJECT = "open the data with xarray in Python and pass the object as source= (docs/own-data.md)"
METADATA = ("zarr.json", ".zmetadata", ".zgroup", ".zattrs", ".zarray")
FILE_SUFFIXES = (".nc", ".nc3", ".nc4", ".cdf", ".h5")
CONNECT_TIMEOUT, SILENCE_TIMEOUT = timedelta(seconds=10), timedelta(seconds=60)
REQUEST_TIMEOUT = timedelta(minutes=10)
RETRIES = 4
TOGETHER = 32  # requests
# Attributes that change the values read from unchanged chunks.
DECODING = ("scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned", "units", "dtype")
CREDENTIALS = {
    "s3": ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
    "gs": ("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_KEY", "GOOGLE_APPLICATION_CREDENTIALS"),
}
SCHEMES = ("https", "http", "s3", "gs")
FORMATS: tuple[tuple[Literal[2, 3], str, str], ...] = (
    (2, ".zmetadata", "metadata"),
    (3, "zarr.json", "consolidated_metadata"),
    (2, ".zgroup", ""),
)
STATUS = re.compile(r"status code: (\d{3})")


class Unreachable(SSTCastError):
    """A server does not answer, or refuses or lacks what it was asked for."""


class Refused(Unreachable):
    """A server refuses access."""


class _Store(ObjectStore[Any]):
    """A store whose errors are one line, and which reads metadata only once.

    A missing chunk of an array in `whole` is an error, because it would read as values.
    """

    def __init__(self, store: Any, path: Path) -> None:
        super().__init__(store, read_only=True)
        self.path, self.whole = path, frozenset[str]()
        self._metadata: dict[str, Any] = {}

    async def get(self, key: str, *arguments: Any, **options: Any) -> "Buffer | None":
        array, _, name = key.rpartition("/")
        if name in METADATA and key in self._metadata:
            return self._metadata[key]
        try:
            buffer = await super().get(key, *arguments, **options)
        except Exception as error:  # obstore has an exception for each kind of failure
            raise _told(self.path, error) from error
        if name in METADATA:
            self._metadata[key] = buffer
        elif buffer is None and array.split("/")[0] in self.whole:
            raise Unreachable(f"{self.path}: its chunk {key} is missing; {REMEDY}")
        return buffer

    def json(self, key: str) -> dict[str, Any]:
        """Return the content of a JSON object, which is empty if there is none."""
        import obstore

        try:
            content = json.loads(bytes(obstore.get(self.store, key).bytes()))
            return content if isinstance(content, dict) else {}
        except (FileNotFoundError, ValueError):  # some servers send a page in place of an absent file
            return {}
        except Exception as error:
            raise _told(self.path, error) from error

    def state(self, key: str) -> str:
        """Return size and ETag of an object, as text, or the time of its last change in place of an ETag."""
        import obstore

        try:
            about = obstore.head(self.store, key)
        except FileNotFoundError:
            return "absent"
        except Exception as error:
            raise _told(self.path, error) from error
        changed = about["last_modified"]
        return f"{about['size']} {about['e_tag'] or (changed if changed.year > 1970 else uuid.uuid4().hex)}"


def open_address(path: Path) -> xr.Dataset:
    """Open the Zarr store at a URL lazily, as dask arrays.

    Raises SSTCastError if obstore is not installed, the server does not answer, the store cannot be read or is not
    consolidated, or it uses a codec that is not known to be safe, now or when values are computed.
    """
    return _open(path)[0]


def day_states(data: DataConfig) -> xr.DataArray:
    """Return a hash `(time)` of the sizes and ETags of the chunks that hold each day in the region.

    A day whose hash is the same has the same values. Raises SSTCastError like `open_address`.
    """
    path = data.path
    dataset, group, store = _open(path)
    field = find_field(dataset, path, variable=data.variable, units=data.units)
    days, _ = days_of(field["time"], dataset, path)
    cells = crop(field.isel(time=slice(1)), data.box, path)
    name, axes, array = str(field.name), field.attrs["axes"], group[str(field.name)]
    lengths = dict(zip(dataset[name].dims, array.shards or array.chunks, strict=True))
    dims = {axis: dataset[axes[axis]].dims[0] if axes[axis] in dataset.coords else axes[axis] for axis in axes}
    needed = {dim: range(-(-dataset.sizes[dim] // lengths[dim])) for dim in lengths}
    for axis in ("lat", "lon"):
        stored, of_region = (
            (degrees.values.astype(float) % 360).round(4) % 360 for degrees in (dataset[axes[axis]], cells[axis])
        )
        needed[dims[axis]] = np.unique(np.flatnonzero(np.isin(stored, of_region)) // lengths[dims[axis]]).tolist()
    chunks = list(itertools.product(*needed.values()))
    keys = [f"{name}/{array.metadata.encode_chunk_key(chunk)}" for chunk in chunks]
    with ThreadPoolExecutor(TOGETHER) as pool:
        states = list(pool.map(store.state, keys))
    along = list(lengths).index(dims["time"])
    of_time: dict[int, list[str]] = {number: [] for number in needed[dims["time"]]}
    for chunk, key, state in zip(chunks, keys, states, strict=True):
        of_time[chunk[along]].append(f"{key} {state}")
    about = _about(array) + "".join(str(cells[axis].values.tolist()) for axis in ("lat", "lon"))
    length = lengths[dims["time"]]
    return xr.DataArray(
        [_hash(about, str(day_index % length), *of_time[day_index // length]) for day_index in range(len(days))],
        {"time": days},
        ["time"],
    ).sortby("time")


def metadata_digest(path: Path) -> str:
    """Hash the metadata of the Zarr store at a URL, which change when it grows. Raises like `open_address`."""
    store, version = _find(path)
    names = [name for of_version, name, _ in FORMATS if of_version == version]
    texts = [json.dumps(store.json(name), sort_keys=True) for name in names]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def fingerprint(states: xr.DataArray) -> str:
    """Return a hash of the states of all days (see `day_states`)."""
    days = states["time"].values.astype("datetime64[D]")
    return hashlib.sha256(days.tobytes() + states.values.tobytes()).hexdigest()


def _hash(*texts: str) -> int:
    digest = hashlib.blake2b("\n".join(texts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _about(array: Any) -> str:
    """Return what determines how the chunks of an array are read, without its length in time, as text."""
    metadata = dict(array.metadata.to_dict())
    attributes = metadata.pop("attributes", {})
    metadata = {key: value for key, value in metadata.items() if key not in ("shape", "dimension_names")}
    return json.dumps([metadata, {key: attributes.get(key) for key in DECODING}], default=str, sort_keys=True)


def _open(path: Path) -> tuple[xr.Dataset, Any, _Store]:
    store, version = _find(path)
    with reading(path, REMEDY):
        group = zarr.open_group(store, mode="r", zarr_format=version, use_consolidated=True)
        arrays = dict(group.arrays())
        check_codecs(arrays.items())
        store.whole = frozenset(name for name, array in arrays.items() if not _has_missing(array))
        dataset = xr.open_zarr(store, zarr_format=version, consolidated=True, chunks=None)
    return guarded(dataset, path, REMEDY, chunked=True), group, store


def _has_missing(array: Any) -> bool:
    """Return whether a chunk that an array lacks reads as missing values."""
    fill = array.metadata.fill_value
    return (
        bool({"_FillValue", "missing_value"} & set(array.attrs))
        or (array.metadata.zarr_format == 2 and fill is not None)
        or (array.dtype.kind == "f" and bool(np.isnan(fill)))
    )


def _find(path: Path) -> tuple[_Store, Literal[2, 3]]:
    """Connect to a store. Returns it and its format. Raises SSTCastError unless all its metadata are there."""
    for store in _connections(path):
        loose, refused = False, None
        for version, name, key in FORMATS:
            try:
                content = store.json(name)
            except Refused as error:  # of a file that is absent, too, if the bucket may not be listed
                refused = error
                continue
            if content.get(key):
                return store, version
            loose |= "zarr_format" in content
        if refused is None:
            break
    if loose:
        raise SSTCastError(
            f"{path}: its metadata are not consolidated, and a server lists no files; consolidate them with "
            f"zarr.consolidate_metadata, or {OBJECT}"
        )
    if refused:
        raise refused
    if path.suffix.lower() in FILE_SUFFIXES:
        raise SSTCastError(f"{path}: is no Zarr store; download the file and give its path, or {OBJECT}")
    raise SSTCastError(
        f"{path}: is no Zarr store, as it has neither .zmetadata nor zarr.json; check it, or {OBJECT}"
    )


def _connections(path: Path) -> Iterator[_Store]:
    """Yield the store at a URL, read anonymously, and then with the credentials in the environment, if any."""
    scheme, _, location = str(path).partition("://")
    if scheme not in SCHEMES:
        raise SSTCastError(f"{path}: only Zarr stores at {', '.join(SCHEMES)} are read by their address; {OBJECT}")
    try:
        from obstore.store import GCSStore, HTTPStore, S3Store
    except ImportError:
        raise SSTCastError(f"{path}: reading it needs obstore; run: pip install 'sstcast[cloud]'") from None
    options: dict[str, Any] = {
        "client_options": {
            "allow_http": True,
            "connect_timeout": CONNECT_TIMEOUT,
            "read_timeout": SILENCE_TIMEOUT,
            "timeout": REQUEST_TIMEOUT,
        },
        "retry_config": {"max_retries": RETRIES, "retry_timeout": REQUEST_TIMEOUT},
    }
    if scheme.startswith("http"):
        yield _Store(HTTPStore(str(path), **options), path)
        return
    bucket, _, prefix = location.partition("/")
    if scheme == "s3":
        endpoint = os.environ.get("AWS_ENDPOINT_URL")
        options |= {"region": _region(bucket, endpoint), **({"endpoint": endpoint} if endpoint else {})}
    kind = S3Store if scheme == "s3" else GCSStore
    yield _Store(kind(bucket, prefix=prefix or None, skip_signature=True, **options), path)
    if any(name in os.environ for name in CREDENTIALS[scheme]):
        yield _Store(kind(bucket, prefix=prefix or None, **options), path)


def _region(bucket: str, endpoint: str | None) -> str:
    """Return the region of a bucket as its server tells it, else that in the environment."""
    import requests  # imported late: it takes 0.1 s

    region = None
    with suppress(requests.RequestException):
        address = f"{(endpoint or 'https://s3.amazonaws.com').rstrip('/')}/{bucket}"
        answer = requests.head(address, allow_redirects=False, timeout=CONNECT_TIMEOUT.total_seconds())
        region = answer.headers.get("x-amz-bucket-region")
    return region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"


def _told(path: Path, error: Exception) -> SSTCastError:
    """Return an error of obstore as one line."""
    text = str(error)
    if type(error).__name__ in ("PermissionDeniedError", "UnauthenticatedError"):
        names = CREDENTIALS.get(str(path).partition("://")[0], ())
        hint = f"set credentials, such as {names[0]}, or " if names else ""
        return Refused(f"{path}: the server refuses to send it; {hint}check the address")
    if "redirect" in text:
        return Unreachable(f"{path}: the bucket is in another region; set AWS_REGION to it")
    for sign, words in (
        ("kind: Timeout", "the server does not answer in time"),
        ("kind: Connect", "no connection"),
    ):
        if sign in text:
            return Unreachable(f"{path}: cannot be read ({words}); {REMEDY}")
    status = STATUS.search(text)
    return Unreachable(
        f"{path}: cannot be read ({f'status {status[1]}' if status else in_short(error)}); {REMEDY}"
    )
