"""Files from outside: what is data opens, what is a program is refused before it runs."""

import io
import os
import pickle
from collections import OrderedDict, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from torch_geometric.data import Data

from sstcast.benchmarks.pickles import load_npz, load_pickle, load_torch
from sstcast.errors import SSTCastError


class Calls:
    """Pickles as a call of `function` when opened."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.call


def touch(path: Path) -> list[Any]:
    """Objects that make the file `path` when unpickled, some by functions of NumPy and torch themselves."""
    code = f"open({str(path)!r}, 'w').close()"
    return [
        Calls(os.system, f"touch {path}"),
        Calls(exec, code),
        Calls(np.testing._private.utils.runstring, code, {}),  # inside numpy
        Calls(np.savetxt, str(path), [1.0]),
        Calls(torch.save, [1], str(path)),
    ]


def hostile_tensor(path: Path) -> bytes:
    """Torch's own loader of a tensor inside a pickle, given a pickle that makes the file `path`."""
    inner = io.BytesIO()
    torch.save(Calls(os.system, f"touch {path}"), inner)
    return pickle.dumps(Calls(torch.storage._load_from_bytes, inner.getvalue()))


@pytest.mark.parametrize("which", range(5))
def test_a_hostile_pickle_is_refused_and_executes_nothing(which: int, tmp_path: Path) -> None:
    made, path = tmp_path / "made", tmp_path / "hostile.pickle"
    path.write_bytes(pickle.dumps({"graphs": [touch(made)[which]]}))
    with pytest.raises(SSTCastError, match=r"hostile\.pickle: refused, it asks for"):
        load_pickle(path)
    assert not made.exists()
    pickle.loads(path.read_bytes())  # the attack itself works
    assert made.exists()


def test_a_tensor_with_a_pickle_inside_is_refused(tmp_path: Path) -> None:
    made, path = tmp_path / "made", tmp_path / "tensor.pickle"
    path.write_bytes(hostile_tensor(made))
    with pytest.raises(SSTCastError, match="refused"):
        load_pickle(path)
    assert not made.exists()
    pickle.loads(path.read_bytes())
    assert made.exists()


@pytest.mark.parametrize("kind", ["V8", "O8", "f8", "S8", "M8", ">f8"])
@pytest.mark.parametrize(
    "state",
    [
        (3, "|", None, ("a",), {"a": (np.dtype("O"), 0)}, 8, 1, 0),
        (3, "<", (np.dtype("O"), (1,)), None, None, 8, 8, 0),
        (3, "|", None, None, None, -1, -1, 63),
        (3, "|", None, None, None, -1, -1, 0),
    ],
    ids=["a field", "a subarray", "flags set", "flags cleared"],
)
def test_no_numbers_become_pointers(kind: str, state: tuple[Any, ...], tmp_path: Path) -> None:
    """NumPy believes what a pickled dtype says of itself; what is read is plain numbers, if it is read."""

    class Lies:
        def __reduce__(self) -> tuple[Any, ...]:
            return np.dtype, (kind, False, True), state

    array = Calls(np._core.numeric._frombuffer, b"A" * 8, Lies(), (1,), "C")
    (tmp_path / "pickle").write_bytes(pickle.dumps(array))
    torch.save(array, tmp_path / "torch")
    for load in (load_pickle, load_torch):
        try:
            read = load(tmp_path / load.__name__.removeprefix("load_"))
        except SSTCastError:
            continue
        assert kind == "f8"
        assert read.dtype is np.dtype("f8")


def test_an_object_array_is_opened_by_the_same_rules(tmp_path: Path) -> None:
    made, path = tmp_path / "made", tmp_path / "hostile.npz"
    np.savez(path, features=np.arange(3), splits=np.array([Calls(os.system, f"touch {made}")], dtype=object))
    with pytest.raises(SSTCastError, match="refused, it asks for"):
        load_npz(path)
    assert not made.exists()
    good = np.array([{"train": np.arange(4)}], dtype=object)
    np.save(tmp_path / "good.npy", good)
    np.testing.assert_array_equal(load_npz(tmp_path / "good.npy")[""][0]["train"], np.arange(4))


def test_a_hostile_torch_file_is_refused(tmp_path: Path) -> None:
    made, path = tmp_path / "made", tmp_path / "hostile.pt"
    torch.save([Calls(os.system, f"touch {made}")], path)
    with pytest.raises(SSTCastError, match=r"hostile\.pt: refused, it asks for posix\.system"):
        load_torch(path)
    assert not made.exists()


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_what_benchmarks_hold_opens(protocol: int, tmp_path: Path) -> None:
    lists = defaultdict(list, {1: [2, 3]})
    what = {
        "array": np.arange(6.0).reshape(2, 3),
        "scalar": np.float64(2.5),
        "text": ["a", "b"],
        "sparse": sparse.csr_matrix(np.eye(3)),
        "coo": sparse.coo_array(np.eye(2)),
        "tensor": torch.arange(4),
        "ordered": OrderedDict(a=1),
        "lists": lists,
    }
    (tmp_path / "good.pickle").write_bytes(pickle.dumps(what, protocol))
    found = load_pickle(tmp_path / "good.pickle")
    np.testing.assert_array_equal(found["array"], what["array"])
    assert found["scalar"] == 2.5
    np.testing.assert_array_equal(found["sparse"].toarray(), np.eye(3))
    np.testing.assert_array_equal(found["coo"].toarray(), np.eye(2))
    assert torch.equal(found["tensor"], torch.arange(4))
    assert found["ordered"] == {"a": 1}
    assert found["lists"] == lists
    assert found["text"] == ["a", "b"]


def test_torch_files_may_hold_arrays_and_pyg_data(tmp_path: Path) -> None:
    data = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([1]))
    torch.save({"split": np.arange(3), "graphs": [data]}, tmp_path / "good.pt")
    found = load_torch(tmp_path / "good.pt")
    np.testing.assert_array_equal(found["split"], np.arange(3))
    assert found["graphs"][0].num_nodes == 2


def test_damaged_files_say_so(tmp_path: Path) -> None:
    for name, load in (("a.pickle", load_pickle), ("a.npy", load_npz), ("a.pt", load_torch)):
        (tmp_path / name).write_bytes(b"nothing of this kind")
        with pytest.raises(SSTCastError, match=rf"{name}: damaged or of another format"):
            load(tmp_path / name)
