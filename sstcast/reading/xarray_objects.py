"""Sources of days that Python holds as xarray objects, lazy or not.

A configuration names such a source `object:TOKEN`, with dask's token of the object that was prepared first. It
keys the stores. The object that stands for it may grow or be opened again: as for a file that has changed, digests
of its days then decide. Of several, the newest stands for the source while its owner keeps it, which may be the
run that `train` or `load` returned. A process that holds no object, such as a command, goes on from the prepared
stores.
"""

from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any
from uuid import uuid4
from weakref import ref

import xarray as xr
from dask.base import tokenize

from sstcast.errors import SSTCastError
from sstcast.log import warn_once
from sstcast.reading.bounds import bounds_name

OBJECT_PREFIX = "object:"
USE_PYTHON = "use Python for days that are not prepared, with the object as source="

Object = xr.Dataset | xr.DataArray

_held: dict[str, list[tuple[ref[Object], str]]] = {}  # with what tells when each was given


def is_object(source: str) -> bool:
    """Return whether a source is an xarray object."""
    return source.startswith(OBJECT_PREFIX)


def held(source: str) -> Object | None:
    """Return the newest object that is held as `source`, or None."""
    return _newest(source)[0]


def when_given(source: str) -> str:
    """Return what tells when and in which process the newest object of a source was given, "" if none is."""
    return _newest(source)[1]


def _newest(source: str) -> tuple[Object | None, str]:
    known = ((given(), when) for given, when in reversed(_held.get(source, [])))
    return next(((data, when) for data, when in known if data is not None), (None, ""))


def hold(data: Object, source: str | None = None) -> str:
    """Hold an object as a `source`, by default one named after its token. Returns the name of the source."""
    source = source or f"{OBJECT_PREFIX}{token(data)}"
    known = [(given, when) for given, when in _held.get(source, []) if given() is not None]
    when = next((when for given, when in known if given() is data), uuid4().hex)
    _held[source] = [*known, (ref(data), when)]
    return source


def token(data: Object) -> str:
    """Return dask's token of an object as a dataset."""
    return str(tokenize(as_dataset(data)))


def as_dataset(data: Object) -> xr.Dataset:
    """Return an object as a dataset. Warns if it lacks bounds of an axis, as an array does."""
    if isinstance(data, xr.DataArray):
        if data.name is None or data.name in data.coords:
            data = data.rename("sst")
        if lost_bounds := [
            name for name, axis in data.coords.items() if bounds_name(axis) not in ("", *data.coords)
        ]:
            warn_once(
                f"source: an array does not hold the bounds of its {lost_bounds[0]}, so its days are those of the "
                "labels; give the Dataset that holds it"
            )
        return data.to_dataset()
    return data


def check_by_name(predictors: Any) -> None:
    """Raise SSTCastError unless values of predictors are given by name."""
    if not isinstance(predictors, Mapping):
        raise SSTCastError(f"predictors: is a {type(predictors).__name__}; give a mapping from names to values")


def name_of(source: Any) -> str:
    """Return the name of a source that a caller gave as a path or as an object, which is then held."""
    if isinstance(source, Object):
        return hold(source)
    if isinstance(source, (str, PathLike)):
        return fspath(source)
    raise SSTCastError(f"source: is a {type(source).__name__}; give a path, or an xarray Dataset or DataArray")


def let_go(source: str) -> None:
    """Hold the newest object as `source` no longer."""
    del _held.get(source, [])[-1:]


def given(source: str) -> Object:
    """Return the object held as `source`. Raises SSTCastError if none is."""
    if (data := held(source)) is None:
        raise SSTCastError(f"{source}: is an xarray object, which only Python can give; {USE_PYTHON}")
    return data


def open_object(path: Path) -> xr.Dataset:
    """Return a held object as a dataset, which a reader may close. Raises SSTCastError if it is not held."""
    dataset = as_dataset(given(str(path))).copy()
    dataset.set_close(None)  # the object remains open for its owner
    return dataset
