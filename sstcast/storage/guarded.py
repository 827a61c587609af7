"""Lazy variables of a file. A value that cannot be read raises an SSTCastError that names the file."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import xarray as xr
from numpy.typing import NDArray
from xarray.backends import BackendArray
from xarray.core import indexing

from sstcast.errors import reading

TEXTS = ("standard_name", "long_name", "units", "axis", "positive")  # attributes; damaged files hold others


def guarded(dataset: xr.Dataset, path: Path, remedy: str, chunked: bool) -> xr.Dataset:
    """Let lazy variables raise SSTCastError, ending in `remedy`, if they cannot be read. Other errors stay.

    With `chunked`, they are dask arrays with the chunks of the file.
    """

    def guard(variable: xr.Variable) -> xr.Variable:
        lazy: Any = indexing.LazilyIndexedArray(_Guarded(variable, path, remedy))
        lazy = lazy if chunked else indexing.MemoryCachedArray(lazy)
        safe = xr.Variable(variable.dims, lazy, variable.attrs, variable.encoding)
        if not chunked:
            return safe
        name = f"{path.name}-{uuid4()}"  # without a name, dask would hash the variable
        return safe.chunk(variable.encoding.get("preferred_chunks", {}), name=name)

    for variable in dataset.variables.values():
        variable.attrs |= {key: str(variable.attrs[key]) for key in TEXTS if key in variable.attrs}
    safe = {name: guard(variable) for name, variable in dataset.variables.items() if name not in dataset.xindexes}
    result = dataset.assign(safe)  # coordinates stay coordinates
    result.set_close(dataset.close)
    return result


class _Guarded(BackendArray):
    def __init__(self, variable: xr.Variable, path: Path, remedy: str) -> None:
        self.variable, self.path, self.remedy = variable, path, remedy
        self.shape, self.dtype = variable.shape, variable.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[Any, ...]) -> NDArray[Any]:
        with reading(self.path, self.remedy):
            return self.variable[key].values
