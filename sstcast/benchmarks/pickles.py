"""Files from outside that are pickles, or hold some, opened without executing what they may contain.

A pickle is a program. Here it may call nothing but the constructors below, which make arrays, tensors, sparse
matrices and containers of these.
"""

import collections
import io
import pickle
import re
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy._core import multiarray, numeric

from sstcast.errors import SSTCastError


def number_dtype(kind: str, *copy: bool) -> Any:
    """Return NumPy's own dtype of numbers or objects, and no copy of it, whose state can be changed.

    A state comes next in a pickle, and could pass numbers off as pointers to objects. What it rightly says is the
    order of bytes: that of this machine, unless the file is from a mainframe.
    """
    found = np.dtype(kind)
    if found.kind not in "biufcO" or not found.isnative:
        raise pickle.UnpicklingError(f"it asks for numpy.{found.name}")
    return found


ARRAYS: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): number_dtype,
    ("numpy._core.multiarray", "_reconstruct"): multiarray._reconstruct,
    ("numpy._core.multiarray", "scalar"): multiarray.scalar,
    ("numpy._core.numeric", "_frombuffer"): numeric._frombuffer,  # type: ignore[attr-defined]
}
CONTAINERS = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("collections", "defaultdict"): collections.defaultdict,
    **{("builtins", kind.__name__): kind for kind in (list, dict, set, tuple, int, float, bool, bytes, bytearray)},
}
SPARSE = {f"{kind}_{form}" for kind in ("coo", "csc", "csr", "dia", "lil") for form in ("matrix", "array")}
DAMAGED = (
    pickle.UnpicklingError,
    EOFError,
    ValueError,
    TypeError,
    AttributeError,
    KeyError,
    IndexError,
    RuntimeError,
    MemoryError,  # of sizes that damage made up
    struct.error,
    tokenize.TokenError,  # of a .npy file's header
    zipfile.BadZipFile,
    zlib.error,
)


def load_pickle(path: Path, encoding: str = "ASCII") -> Any:
    """Unpickle arrays, tensors, sparse matrices and containers; `latin1` reads what Python 2 wrote.

    Raises SSTCastError if the file is damaged or asks for anything else, of which nothing is executed.
    """
    with path.open("rb") as file:
        return _load(file, path, encoding)


def load_npz(path: Path) -> dict[str, Any]:
    """Read a `.npz` or `.npy` file (as `{"": array}`), object arrays by `load_pickle`'s rules.

    Raises SSTCastError as that does.
    """
    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            return {"": _read_array(file, path)}
    try:
        with zipfile.ZipFile(path) as archive:
            return {
                name.removesuffix(".npy"): _read_array(io.BytesIO(archive.read(name)), path)
                for name in archive.namelist()
            }
    except DAMAGED as error:
        raise SSTCastError(f"{path}: {_reason(error)}") from error


def load_torch(path: Path) -> Any:
    """Read what `torch.save` wrote, with `weights_only=True`: tensors, containers, arrays and PyG's `Data`.

    Raises SSTCastError if the file is damaged or asks for anything else, of which nothing is executed.
    """
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import EdgeStorage, GlobalStorage, NodeStorage

    kinds = [Data, DataEdgeAttr, DataTensorAttr, EdgeStorage, GlobalStorage, NodeStorage]
    dtypes = [type(np.dtype(kind)) for kind in ("f4", "f8", "i4", "i8", "u1", "?")]
    arrays = [(function, f"{module}.{name}") for (module, name), function in ARRAYS.items()]
    older = [(function, f"numpy.core.multiarray.{name}") for (_, name), function in ARRAYS.items()]
    with torch.serialization.safe_globals([*kinds, *dtypes, *arrays, *older, bytes]):
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except DAMAGED as error:
            raise SSTCastError(f"{path}: {_reason(error)}") from error


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        module = module.replace("numpy.core", "numpy._core").replace("__builtin__", "builtins")
        found = ARRAYS.get((module, name)) or CONTAINERS.get((module, name))
        if found is not None:
            return found
        if module.split(".")[:2] == ["scipy", "sparse"] and name in SPARSE:
            import scipy.sparse

            return getattr(scipy.sparse, name)
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return torch._utils._rebuild_tensor_v2
        if (module, name) == ("torch.storage", "_load_from_bytes"):  # torch's own would unpickle anything
            return lambda data: torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        if (module, name) == ("_codecs", "encode"):  # how Python 3 writes bytes for Python 2
            return _encode
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


def _encode(text: str, encoding: str = "latin1") -> bytes:
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"it asks for the codec {encoding}")
    return text.encode("latin1")


def _load(file: Any, path: Path, encoding: str) -> Any:
    try:
        return _Unpickler(file, encoding=encoding).load()
    except DAMAGED as error:
        raise SSTCastError(f"{path}: {_reason(error)}") from error


def _read_array(file: Any, path: Path) -> Any:
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        if dtype.hasobject:
            return np.asarray(_load(file, path, "latin1")).reshape(shape)
        file.seek(0)
        return np.lib.format.read_array(file, allow_pickle=False)
    except DAMAGED as error:
        raise SSTCastError(f"{path}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    asked = re.search(r"(?:asks for|GLOBAL) ([\w.]+)", str(error))  # ours, torch's
    if asked is not None:
        return f"refused, it asks for {asked[1]}; only arrays, tensors, sparse matrices and containers are read"
    return f"damaged or of another format ({type(error).__name__}); get it again"
