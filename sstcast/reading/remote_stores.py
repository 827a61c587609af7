"""Sources of days at a URL: Zarr stores behind https, http, s3 and gs, read through obstore (extra `cloud`).

Only metadata and the chunks that a region needs are read. The metadata must be consolidated, because HTTP lists no
files. Buckets are read anonymously or, if they refuse that, with the credentials in the environment.

Size and ETag of each chunk, in place of a file's size and time, tell whether a day may have changed. A server that
sends neither ETag nor Last-Modified is taken to have changed.
"""

import asyncio
import dataclasses
import hashlib
import itertools
import json
import os
import re
import time
import uuid
from collections.abc import Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
import zarr
from numpy.typing import NDArray
from zarr.abc.store import RangeByteRequest
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import ObjectStore

from sstcast.config import DataConfig, FieldSource
from sstcast.errors import SSTCastError, in_short, reading
from sstcast.log import warn_once
from sstcast.reading.absent_chunks import Absent, read_as
from sstcast.reading.any_grid import around_grid, target_of
from sstcast.reading.fields import CELLS, dates, find_field, steps_a_day, zone
from sstcast.reading.flags import RANGES
from sstcast.reading.grid import crop
from sstcast.reading.hours import daily_steps
from sstcast.reading.layouts import OBSERVED
from sstcast.reading.positions import SPACE
from sstcast.reading.regrid import weights_of
from sstcast.reading.valid_days import days_of, joined, periods
from sstcast.reading.weights import TargetGrid
from sstcast.storage.guarded import guarded
from sstcast.storage.stores import ARRAYS, check_codecs, chunk_bytes

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype

REMEDY = "try again later, or check data.source"
OBJECT = "open the data with xarray in Python and pass the object as source= (docs/own-data.md)"
METADATA = ("zarr.json", ".zmetadata", ".zgroup", ".zattrs", ".zarray")
FILE_SUFFIXES = (".nc", ".nc3", ".nc4", ".cdf", ".h5")
CONNECT_TIMEOUT, SILENCE_TIMEOUT = timedelta(seconds=10), timedelta(seconds=20)
RETRY_TIMEOUT = timedelta(minutes=2)
NO_TIMEOUT = timedelta(days=365)  # of a request that flows
RETRIES = 4
SLOW, SLOW_BYTES = 60.0, 60_000  # seconds, in which a request must bring so many bytes
PATIENCE = 10.0  # seconds before a line says what is waited for
MAX_BYTES = 2**26  # of metadata, and of a chunk whose decoded size is below half of it
TOGETHER = 32  # requests
# Attributes that change the values read from unchanged chunks.
DECODING = ("scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned", "units", "dtype")
JUDGING = (*RANGES, "flag_values", "flag_masks", "flag_meanings", "standard_name")
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

    A missing chunk of an array in `whole` is an error, because it would read as values, unless `absent` has the
    array, and tells that the chunk is rightly left out. A chunk may have at most as many bytes as `limits` gives
    for its array, because a server could send more than the memory holds.
    """

    def __init__(self, store: Any, path: Path) -> None:
        super().__init__(store, read_only=True)
        self.path, self.whole, self.limits = path, frozenset[str](), dict[str, int]()
        self.absent: dict[str, Absent] = {}
        self._metadata: dict[str, Any] = {}
        self._land: dict[Hashable, asyncio.Task[bool]] = {}

    async def get(
        self, key: str, prototype: "BufferPrototype", byte_range: "ByteRequest | None" = None
    ) -> "Buffer | None":
        array, _, name = key.rpartition("/")
        if name in METADATA and key in self._metadata:
            return self._metadata[key]
        limit = MAX_BYTES if name in METADATA else max(MAX_BYTES, self.limits.get(array.split("/")[0], 0))
        message = f"{self.path}: waiting for {key}"
        waiting = asyncio.get_running_loop().call_later(PATIENCE, warn_once, message)
        try:
            content = await self._content(key, limit, byte_range)
            buffer = None if content is None else prototype.buffer.from_bytes(content)
        except SSTCastError:
            raise
        except Exception as error:  # obstore has an exception for each kind of failure
            raise _told(self.path, error) from error
        finally:
            waiting.cancel()
        if name in METADATA:
            self._metadata[key] = buffer
        elif buffer is None and array.split("/")[0] in self.whole:
            await self._check_absent(key, self.absent.get(array.split("/")[0]))
        return buffer

    async def _check_absent(self, key: str, absent: Absent | None) -> None:
        """Raise Unreachable if a chunk is lost (see `absent_chunks.check_chunks`)."""
        if absent is not None and np.isnan(absent.value):
            return
        if absent is not None and absent.is_sst:
            chunk = absent.chunk(key)
            place = absent.name, absent.place(chunk)
            if place not in self._land:  # one of its chunks asks for all
                self._land[place] = asyncio.ensure_future(self._has_none(absent.of_place(chunk)))
            if await self._land[place]:
                return
        elif absent is not None and absent.value == 0:
            warn_once(f"{self.path}: {absent.name} is read {absent.told}")
            return
        raise Unreachable(f"{self.path}: its chunk {key} is missing; {REMEDY}")

    async def _has_none(self, keys: Iterator[str]) -> bool:
        """Return whether the store has none of some chunks."""
        import obstore

        async def is_there(key: str) -> bool:
            try:
                await obstore.head_async(self.store, key)
            except FileNotFoundError:
                return False
            except Exception as error:
                raise _told(self.path, error) from error
            return True

        while some := list(itertools.islice(keys, TOGETHER)):
            if any(await asyncio.gather(*map(is_there, some))):
                return False
        return True

    async def _content(self, key: str, limit: int, byte_range: "ByteRequest | None") -> bytes | None:
        """Return an object or a part of it, or None if it is absent. obstore resumes an answer that breaks off.

        Raises SSTCastError if it is empty or too large: obstore would keep room for as much as is announced.
        """
        import obstore

        fields = {} if byte_range is None else dataclasses.asdict(byte_range)
        part: Any = tuple(fields.values()) if isinstance(byte_range, RangeByteRequest) else fields
        try:
            answer = await obstore.get_async(self.store, key, options={"range": part} if part else None)
        except FileNotFoundError:
            return None
        first, last = answer.range
        if not 0 < last - first <= limit:
            told = f"has {last - first:,} bytes, more than it can need" if last > first else "is empty"
            raise Unreachable(f"{self.path}: its {key} {told}; {REMEDY}")
        parts: list[bytes] = []
        size, begun = 0, time.monotonic()
        async for piece in answer.stream(min_chunk_size=1):
            parts.append(bytes(piece))
            size += len(piece)
            if (now := time.monotonic()) - begun > SLOW:
                if size < SLOW_BYTES:
                    raise TimeoutError("kind: Timeout")
                begun, size = now, 0
        return b"".join(parts)

    def json(self, key: str) -> dict[str, Any]:
        """Return the content of a JSON object, which is empty if there is none."""
        buffer = sync(self.get(key, default_buffer_prototype()))
        try:
            content = {} if buffer is None else json.loads(buffer.to_bytes())
        except ValueError:  # some servers send a page in place of an absent file
            return {}
        return content if isinstance(content, dict) else {}

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


def open_url(path: Path) -> xr.Dataset:
    """Open the Zarr store at a URL lazily, as dask arrays.

    Raises SSTCastError if obstore is not installed, the server does not answer, the store cannot be read or is not
    consolidated, or it uses a codec that is not known to be safe, now or when values are computed.
    """
    return _open(path)[0]


def day_states(data: FieldSource, cells: Any = None) -> xr.DataArray:
    """Return a hash `(time)` of the sizes and ETags of the chunks that hold each day in the region of SST.

    Chunks of the flags that are applied count too. If `cells` are given, the data are another field that is
    brought to these. A day whose hash is the same has the same values. Raises SSTCastError like `open_url`.
    """
    path, is_sst, has_grid = data.path, cells is None, data.grid is not None
    dataset, group, store = _open(path)
    found = find_field(
        *(dataset, path, OBSERVED, data.variable, data.units, {}, is_sst, has_grid or not is_sst, has_grid)
    )
    dataset, first = found.dataset, found.field.isel(time=slice(1))
    time = found.axis("time")
    labels = dates(time, path)
    about = _about(group[found.field.name])
    in_region: dict[Hashable, NDArray[np.intp]] = {}
    if (own := first.attrs.get(CELLS)) is not None:
        near = around_grid(own, target_of(data) if is_sst else TargetGrid.of(cells))
        about += f"{own.digest}{data.grid}{near}"
        in_region = {
            dim: np.arange(dataset.sizes[dim])[part]
            for dim, part in zip(SPACE, near, strict=True)
            if dim in dataset.dims
        }
    else:
        is_region = isinstance(data, DataConfig)
        used = crop(first, data.box, path) if is_region else weights_of(first, cells, path, "").read(first)
        for axis in ("lat", "lon"):
            stored, of_region = (
                (degrees.values.astype(float) % 360).round(4) % 360 for degrees in (dataset[axis], used[axis])
            )
            in_region[axis] = np.flatnonzero(np.isin(stored, of_region))
            about += str(used[axis].values.tolist())
    told: list[list[str]] = [[] for _ in labels]
    for array_name in (str(found.field.name), *found.flags):
        array, dims = group[array_name], dataset[array_name].dims
        lengths = dict(zip(dims, array.shards or array.chunks, strict=True))
        chunks = {
            dim: np.unique(in_region.get(dim, np.arange(dataset.sizes[dim])) // lengths[dim]).tolist()
            for dim in dims
        }
        keys = [f"{array_name}/{array.metadata.encode_chunk_key(c)}" for c in itertools.product(*chunks.values())]
        with ThreadPoolExecutor(TOGETHER) as pool:
            states = [f"{key} {state}" for key, state in zip(keys, pool.map(store.state, keys), strict=True)]
        if "time" not in dims:
            about += "".join((_about(array), *states))
            continue
        of_time: dict[int, list[str]] = {number: [] for number in chunks["time"]}
        for chunk, state in zip(itertools.product(*chunks.values()), states, strict=True):
            of_time[chunk[dims.index("time")]].append(state)
        about += _about(array) if array_name != found.field.name else ""
        for day_index, texts in enumerate(told):
            texts += [str(day_index % lengths["time"]), *of_time[day_index // lengths["time"]]]
    if steps_a_day(labels.values) > 1:
        order = np.argsort(labels, kind="stable")
        in_utc = joined([periods(time, dataset, path).shifted(-zone(time))])
        steps = daily_steps(in_utc, found.stored.attrs, f"{path}: {found.field.name}")
        days = pd.DatetimeIndex(steps.days).as_unit("ns")
        of_days = [order[steps.steps_of(steps.days[number : number + 1])] for number in range(len(days))]
        told = [[text for step in of_day for text in told[step]] for of_day in of_days]
    else:
        days, _ = days_of(time, dataset, path)
    return xr.DataArray([_hash(about, *texts) for texts in told], {"time": days}, ["time"]).sortby("time")


def metadata_digest(path: Path) -> str:
    """Hash the metadata of the Zarr store at a URL, which change when it grows. Raises like `open_url`."""
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
    decoding = {key: attributes.get(key) for key in DECODING}
    decoding |= {key: attributes[key] for key in JUDGING if key in attributes}
    return json.dumps([metadata, decoding], default=str, sort_keys=True)


def _open(path: Path) -> tuple[xr.Dataset, Any, _Store]:
    store, version = _find(path)
    with reading(path, REMEDY):
        group = zarr.open_group(store, mode="r", zarr_format=version, use_consolidated=True)
        arrays = dict(group.arrays())
        check_codecs(arrays.items())
        store.limits = {name: 2 * chunk_bytes(array) for name, array in arrays.items()}
        dataset = xr.open_zarr(store, zarr_format=version, consolidated=True, chunks=None)
        store.whole = frozenset(name for name in arrays if not np.isnan(read_as(dataset[name], arrays[name])))
    opened = guarded(dataset, path, REMEDY, chunked=True)
    opened.encoding[ARRAYS] = arrays
    return opened, group, store


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
            "timeout": NO_TIMEOUT,
        },
        "retry_config": {"max_retries": RETRIES, "retry_timeout": RETRY_TIMEOUT},
    }
    if scheme.startswith("http"):
        yield _connected(path, HTTPStore, str(path), **options)
        return
    bucket, _, prefix = location.partition("/")
    if scheme == "s3":
        endpoint = os.environ.get("AWS_ENDPOINT_URL")
        options |= {"region": _region(bucket, endpoint), **({"endpoint": endpoint} if endpoint else {})}
    kind = S3Store if scheme == "s3" else GCSStore
    yield _connected(path, kind, bucket, prefix=prefix or None, skip_signature=True, **options)
    if any(name in os.environ for name in CREDENTIALS[scheme]):
        yield _connected(path, kind, bucket, prefix=prefix or None, **options)


def _connected(path: Path, kind: Any, *location: str, **options: Any) -> _Store:
    """Return the store at a URL. Raises SSTCastError if it cannot be one."""
    try:
        return _Store(kind(*location, **options), path)
    except Exception as error:  # of any kind
        raise SSTCastError(f"{path}: is not an address ({in_short(error)}); check it") from error


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
