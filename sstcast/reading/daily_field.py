"""Where the days of a field come from: files, fetched days, the sample, a URL or an xarray object, each a class.

`source_of` chooses the class. No other module below the API asks of which kind a source is.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import xarray as xr

from sstcast.config import COAST_DISTANCE, SAMPLE, FieldSource
from sstcast.errors import SSTCastError, counted, reading
from sstcast.log import warn_once
from sstcast.reading.fields import DATENUM, with_decoded_days
from sstcast.reading.raw import RawContents, is_raw_store, open_days, open_raw_store
from sstcast.reading.remote_stores import day_states, metadata_digest, open_url
from sstcast.reading.xarray_objects import held, is_object, open_object, token, when_given
from sstcast.storage.artefacts import change_times, fingerprint
from sstcast.storage.paths import is_url, packaged, path_of, walk
from sstcast.storage.stores import ARRAYS, open_netcdf, open_zarr

NETCDF_SUFFIXES = (".nc", ".nc3", ".nc4", ".netcdf", ".cdf")
ZARR = (".zgroup", ".zmetadata", "zarr.json")
REMEDY = "download it again, or check data.source"
MATLAB = "write NetCDF from MATLAB, with nccreate and ncwrite"
READ = "sstcast reads NetCDF and Zarr"
# First bytes of other files, their suffix if the bytes do not decide, what the files are, and how to convert them.
OTHER_FILES: tuple[tuple[bytes, str, str, str], ...] = (
    (b"GRIB", "", "GRIB", "convert it with `cdo -f nc4 copy IN OUT.nc`, or with xarray and cfgrib"),
    (b"\x1f\x8b", ".rds", "R data", "write NetCDF from R, with the package ncdf4 or terra"),
    (b"\x1f\x8b", "", "compressed", "decompress it with gunzip"),
    (b"PK\x03\x04", "", "a zip archive", "unpack it"),
    (b"{", "", "JSON", "open references of kerchunk with xarray and save them with to_zarr"),
    (b"MATLAB", "", "MATLAB", MATLAB),
    (b"II*\0", "", "TIFF", "convert it with `gdal_translate -of netCDF`, and join the days along time"),
    (b"MM\0*", "", "TIFF", "convert it with `gdal_translate -of netCDF`, and join the days along time"),
    (
        b"",
        ".csv",
        "text",
        "from ERDDAP, download .nc instead of .csv; else convert it with pandas and xarray; a series of one "
        "place is for `sstcast heatwaves`",
    ),
    (b"", ".txt", "text", "convert it to NetCDF, for instance with pandas and xarray"),
)
UNKNOWN_TIME = re.compile(r"decode time units (.*?)\. Try")
LISTED = 5  # skipped files listed by name in a message
STEM_CHARS = 40  # of a file's name in the name of its stores

Read = TypeVar("Read")


class DailyField:
    """A NetCDF file, a Zarr store, or a folder of either.

    Attributes:
        text: the source as configurations, recipes and records hold it.
        path: how messages name it and, if it is a file, where it is.
        title: the title of its data, "" if its files tell it.
        checked: whether the days were checked when they came.
        needs_python: whether only Python can give it. The stores made from it stand for it while it is absent.
        reads_region: whether only the cells of a region are read.
    """

    title = ""
    checked = needs_python = reads_region = False

    def __init__(self, text: str) -> None:
        self.text, self.path = text, path_of(text)

    @property
    def identity(self) -> str:
        """The text by which the names of predictors' stores tell sources apart."""
        return str(self.path.resolve())

    def name(self, *reading: Any) -> str:
        """Name the stores of SST made from it, also after the keys that control `reading`."""
        return self._named(str(self.path.resolve()), *reading)

    def _named(self, key: str, *reading: Any) -> str:
        return f"{Path(self.text).stem[:STEM_CHARS]}-{short_hash(json.dumps([key, *reading]))}"

    def beside(self, name: str) -> Path:
        """Return the path of an output that is called `name` and by default lies beside the source."""
        return self.path.with_name(name)

    def exists(self) -> bool:
        """Return whether the days can be read. A URL is taken to be there."""
        return self.path.exists()

    def state(self) -> str:
        """Return a fingerprint: sizes and times of files, the metadata of a URL, an object's token."""
        return fingerprint(self.path)

    def changes(self) -> str:
        """Return the times at which its files changed (see `change_times`), or what an object was given."""
        return change_times(self.path)

    def states(self, days: FieldSource, cells: Any = None) -> xr.DataArray | None:
        """Return what tells by day whether the `days` have changed (see `day_states`), or None if nothing does."""
        return None

    def contents(self) -> RawContents | None:
        """Return what `fetch` wrote, or None if it did not write the source. Raises SSTCastError if damaged."""
        return None

    def datasets(self) -> Iterator[tuple[Path, xr.Dataset]]:
        """Open the file or store, or all files and stores in a folder and its subfolders, one after another.

        Raises SSTCastError if there are none or one cannot be read. Warns about other files in a folder.
        """
        path = self.path
        if not path.exists():
            raise SSTCastError(f"{path}: no such file or folder; check the path")
        paths, other_paths = self._entries()
        if not paths:
            hint = f" ({other_paths[0].relative_to(path)}: {_remedy(other_paths[0])})" if other_paths else ""
            raise SSTCastError(f"{path}: has neither NetCDF files nor Zarr stores; choose another folder{hint}")
        if other_paths:
            names = ", ".join(str(other_path.relative_to(path)) for other_path in sorted(other_paths)[:LISTED])
            remainder = f" and {len(other_paths) - LISTED} more" if len(other_paths) > LISTED else ""
            warn_once(f"{path}: skipped, because the names are not of NetCDF or Zarr: {names}{remainder}")
        for entry in sorted(paths):
            yield entry, open_dataset(entry)

    def _entries(self) -> tuple[list[Path], list[Path]]:
        """Return the files and stores that are read, and the other files of a folder."""
        path = self.path
        if path.is_file() or _is_zarr(path):
            return [path], []
        paths: list[Path] = []
        other_paths: list[Path] = []
        for parent, folders, files in walk(path):
            # Names with a leading dot are locks and partial files.
            entries = [parent / name for name in (*folders, *files) if not name.startswith(".")]
            folders[:] = [entry.name for entry in entries if entry.is_dir() and not _is_zarr(entry)]
            for entry in entries:
                if entry.is_file() or _is_zarr(entry):
                    is_readable = entry.is_dir() or entry.suffix.lower() in NETCDF_SUFFIXES
                    (paths if is_readable else other_paths).append(entry)
        return paths, other_paths

    def called(self, title: str) -> str:
        """Return what readers see as the source of days, whose data have a `title`.

        Of a folder that is its name and the number of its files, in place of a title that is a file's name.
        """
        if not self.path.is_dir() or _is_zarr(self.path) or not (paths := self._entries()[0]):
            return title
        folder = f"{self.path.resolve().name}, {counted(len(paths), 'file')}"
        first = next((path.name for path in paths if path.name in title), "")
        return title.replace(first, folder) if first else f"{title} ({folder})"


class FetchedDays(DailyField):
    """A raw store that `fetch` wrote."""

    checked = True

    def contents(self) -> RawContents:
        return open_raw_store(self.path)


class Shipped(DailyField):
    """A file that ships with sstcast, or a field that it computes: its text tells what it is, not its path."""

    def __init__(self, text: str, path: Path) -> None:
        super().__init__(text)
        self.path = path

    @property
    def identity(self) -> str:
        return self.text


class Sample(Shipped):
    """The SST that ships with sstcast."""

    title = "NOAA Daily OISST"

    def name(self, *reading: Any) -> str:
        is_default = all(value in (None, 0) for value in reading)
        return self.text if is_default else self._named(str(Path(self.text).resolve()), *reading)


class Url(DailyField):
    """A Zarr store at a URL, of which only what a region needs is read."""

    reads_region = True

    @property
    def identity(self) -> str:
        return self.text

    def name(self, *reading: Any) -> str:
        return self._named(str(self.path), *reading)

    def exists(self) -> bool:
        return True

    def state(self) -> str:
        return metadata_digest(self.path)

    def changes(self) -> str:
        return ""

    def states(self, days: FieldSource, cells: Any = None) -> xr.DataArray:
        return day_states(days, cells)

    def datasets(self) -> Iterator[tuple[Path, xr.Dataset]]:
        yield self.path, open_url(self.path)


class HeldObject(DailyField):
    """An xarray object that Python holds (see `objects`)."""

    needs_python = True

    @property
    def identity(self) -> str:
        return self.text

    def name(self, *reading: Any) -> str:
        return f"object-{short_hash(json.dumps([self.identity, *reading]))}"

    def beside(self, name: str) -> Path:
        return Path(name)

    def exists(self) -> bool:
        return held(self.text) is not None

    def state(self) -> str:
        return "" if (data := held(self.text)) is None else token(data)

    def changes(self) -> str:
        return when_given(self.text)

    def datasets(self) -> Iterator[tuple[Path, xr.Dataset]]:
        yield self.path, open_object(self.path)


def source_of(source: str | Path) -> DailyField:
    """Return a source as its configuration or its path names it."""
    text = str(source)
    if is_object(text):
        return HeldObject(text)
    if is_url(text):
        return Url(text)
    if source == "sample":  # a path of this name is a file
        return Sample(text, packaged(SAMPLE))
    return (FetchedDays if is_raw_store(Path(text)) else DailyField)(text)


def source_of_days(days: FieldSource) -> DailyField:
    """Return the source of a configuration, which may be a file that ships with sstcast."""
    source = source_of(days.source)
    is_shipped = source.path != days.path or days.source == COAST_DISTANCE
    return Shipped(days.source, days.path) if is_shipped else source


def identified(days: FieldSource) -> dict[str, Any]:
    """Return what tells days apart: their source, and all keys that decide what is read of it."""
    return {"source": source_of_days(days).identity, **days.reading}


def read_parts(path: Path, read: Callable[[Path, xr.Dataset], Read]) -> list[Read]:
    """Apply `read` to each dataset of a source (see `DailyField.datasets`). If any is refused, all are closed."""
    parts: list[Read] = []
    with ExitStack() as refused:
        for part, dataset in source_of(path).datasets():
            refused.callback(dataset.close)
            parts.append(read(part, dataset))
        refused.pop_all()
    return parts


def open_dataset(path: Path) -> xr.Dataset:
    """Open a NetCDF file, a Zarr store or a raw store. Raises SSTCastError if that fails."""
    if is_raw_store(path):
        dataset = open_days(path)
        if not dataset.sizes["time"]:
            raise SSTCastError(f"{path}: holds no days; run `sstcast fetch` first")
        return dataset
    if path.is_file() and (path.suffix.lower() == ".mat" or _first_bytes(path).startswith(b"MATLAB")):
        # HDF5 without dimensions, if of version 7.3
        raise SSTCastError(f"{path}: cannot be read; it is MATLAB, and {READ}: {MATLAB}")
    try:
        dataset = open_zarr(path, REMEDY) if path.is_dir() else open_netcdf(path, _remedy(path))
        with reading(path, REMEDY):
            _tell_longer(path, dataset)
        return with_decoded_days(dataset)
    except SSTCastError as error:
        if time := UNKNOWN_TIME.search(str(error)):
            if "months since" in time[1]:
                raise SSTCastError(
                    f"{path}: counts months, {time[1]}; give daily data, not monthly means"
                ) from error
            advice = " (or 360_day for 360)" if re.search(r"\b360\b", time[1]) else ""
            datenum = f"; {DATENUM}" if "since 0000" in time[1] or "since 0-" in time[1] else ""
            raise SSTCastError(
                f"{path}: cannot decode its time, {time[1]}; write CF units and a standard calendar"
                f"{advice}{datenum}"
            ) from error
        raise


def _tell_longer(path: Path, dataset: xr.Dataset) -> None:
    """Log if an array of a Zarr store is longer by its own metadata than by consolidated ones, which are read."""
    for name, array in dataset.encoding.get(ARRAYS, {}).items():
        own = path / name / ("zarr.json" if array.metadata.zarr_format == 3 else ".zarray")
        shape = json.loads(own.read_bytes())["shape"] if own.is_file() else array.shape
        for length, told in zip(shape, array.shape, strict=False):
            if length > told:
                warn_once(
                    f"{path}: {name} holds {length} values along an axis, of which its consolidated metadata tell "
                    f"{told}, which are read; renew them with zarr.consolidate_metadata"
                )
                return


def _first_bytes(path: Path) -> bytes:
    """Return the first bytes of a file, or none if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(8)
    except OSError:
        return b""


def _remedy(path: Path) -> str:
    """Return how a file that is not NetCDF can be converted, if its first bytes or its name tell what it is."""
    magic = _first_bytes(path)
    if not magic or magic[:3] == b"CDF" or magic == b"\x89HDF\r\n\x1a\n":
        return REMEDY
    for signature, suffix, format_name, route in OTHER_FILES:
        if magic.startswith(signature) and path.suffix.lower() == (suffix or path.suffix.lower()):
            return f"it is {format_name}, and {READ}: {route}"
    return f"{REMEDY}, as {READ}"


def _is_zarr(path: Path) -> bool:
    return any((path / name).exists() for name in ZARR)


def short_hash(text: str) -> str:
    """Return eight hexadecimal digits that tell texts apart in names of files."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]
