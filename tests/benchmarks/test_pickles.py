"""Files from outside: what is data opens, what is a program is opened only if it is known or trusted."""

import hashlib
import io
import os
import pickle
import re
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.io import savemat
from small_own import npz, rewrite, run
from small_raw import write
from torch_geometric.data import Data

from sstcast import cli
from sstcast.benchmarks import pickles
from sstcast.benchmarks.load import load
from sstcast.benchmarks.pickles import load_mat, load_npy, load_npz, load_pickle, load_torch
from sstcast.benchmarks.registry import find_dataset
from sstcast.errors import SSTCastError

REFUSED = "a pickle, which may run any code, and not a known one"


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


@pytest.mark.parametrize("which", range(5))
def test_a_hostile_pickle_is_refused_unread(which: int, tmp_path: Path) -> None:
    made, path = tmp_path / "made", tmp_path / "hostile.pickle"
    path.write_bytes(pickle.dumps({"graphs": [touch(made)[which]]}))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(SSTCastError, match=rf"hostile\.pickle: {REFUSED} \(SHA-256 {digest}, .* bytes\).*--trust"):
        load_pickle(path)
    assert not made.exists()
    load_pickle(path, trust=True)  # the attack itself works
    assert made.exists()


def pointers(place: int) -> list[Any]:
    """Arrays of objects that pass the number `place` off as the address of one: opening them would crash."""
    objects = np.dtype("O")
    state = (1, (1,), objects, False, place.to_bytes(8, "little"))
    array = Calls(np._core.multiarray._reconstruct, np.ndarray, (0,), b"b")
    array.call = (*array.call, state)
    return [array, Calls(np.ndarray, (1,), objects, place.to_bytes(8, "little"))]


@pytest.mark.parametrize("which", range(2))
def test_no_number_is_taken_for_an_address(which: int, tmp_path: Path) -> None:
    """NumPy's own constructors follow it; so nothing of such a file is opened, whatever it is called."""
    content = pickle.dumps({"x": pointers(0x41414141)[which]})
    for name, read in (("a.pickle", load_pickle), ("a.pt", load_torch), ("a.npy", load_npy)):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(SSTCastError, match=rf"{re.escape(name)}: (a pickle|cannot)"):
            read(tmp_path / name)
    torch.save({"x": pointers(0x41414141)[which]}, tmp_path / "b.pt")
    with pytest.raises(SSTCastError, match=rf"b\.pt: {REFUSED}"):
        load_torch(tmp_path / "b.pt")
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|O", "fortran_order": False, "shape": (1,)})
    with zipfile.ZipFile(tmp_path / "c.npz", "w") as archive:
        archive.writestr("x.npy", header.getvalue() + content)
    with pytest.raises(SSTCastError, match=rf"c\.npz: {REFUSED}"):
        load_npz(tmp_path / "c.npz")["x"]


@pytest.mark.parametrize("descr", ["|O", "[('a', '|O')]", "('|O', (2,))"])
def test_arrays_of_objects_are_refused_unread(descr: str, tmp_path: Path) -> None:
    made = tmp_path / "made"
    header = f"{{'descr': {descr if descr[0] in '[(' else repr(descr)}, 'fortran_order': False, 'shape': (1,)}}\n"
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
    content += pickle.dumps(np.array([Calls(os.system, f"touch {made}")], dtype=object))
    (tmp_path / "a.npy").write_bytes(content)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", content)
    for read in (lambda: load_npy(tmp_path / "a.npy"), lambda: load_npz(tmp_path / "a.npz")["x"]):
        with pytest.raises(SSTCastError, match=r"a\.np[yz]: (a pickle|cannot)"):
            read()
    assert not made.exists()


def test_only_the_arrays_that_are_asked_for_are_read(tmp_path: Path) -> None:
    """Published archives hold names as objects, beside arrays of numbers."""
    names = np.array(["a", None], dtype=object)
    np.savez(tmp_path / "a.npz", numbers=np.arange(3), names=names)
    arrays = load_npz(tmp_path / "a.npz")
    assert list(arrays) == ["numbers", "names"]
    np.testing.assert_array_equal(arrays["numbers"], np.arange(3))
    with pytest.raises(SSTCastError, match=REFUSED):
        arrays["names"]
    assert "other" not in arrays
    np.testing.assert_array_equal(load_npz(tmp_path / "a.npz", trust=True)["names"], names)
    np.save(tmp_path / "a.npy", names)
    with pytest.raises(SSTCastError, match=REFUSED):
        load_npy(tmp_path / "a.npy")
    np.testing.assert_array_equal(load_npy(tmp_path / "a.npy", trust=True), names)


def test_a_known_pickle_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "known.pickle"
    path.write_bytes(pickle.dumps({"train": np.arange(3)}))
    with pytest.raises(SSTCastError, match=REFUSED):
        load_pickle(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(pickles, "_known", lambda: frozenset([digest]))
    np.testing.assert_array_equal(load_pickle(path)["train"], np.arange(3))
    path.write_bytes(path.read_bytes().replace(b"train", b"brain"))
    with pytest.raises(SSTCastError, match=REFUSED):
        load_pickle(path)


def test_what_is_judged_is_what_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is swapped between the look at its SHA-256 and its opening."""
    made, path = tmp_path / "made", tmp_path / "known.pickle"
    path.write_bytes(pickle.dumps({"train": 1}))

    def swap() -> frozenset[str]:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        path.write_bytes(pickle.dumps(touch(made)[0]))
        return frozenset([digest])

    monkeypatch.setattr(pickles, "_known", swap)
    assert load_pickle(path) == {"train": 1}
    assert not made.exists()


def test_the_list_of_known_files_is_one_of_digests() -> None:
    known = pickles._known()
    assert len(known) > 10
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in known)


def test_the_verb_opens_unknown_pickles_only_if_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(find_dataset("CSL"), tmp_path)

    def benchmark(*extra: str) -> tuple[int, str]:
        keys = (f"runs={tmp_path}/runs", f"cache={tmp_path}/cache", "training.epochs=1", "training.device=cpu")
        sets = [part for key in (*keys, "model.width=8") for part in ("--set", key)]
        command = ["sstcast", "benchmark", "csl", "--model", "mpnn", "--root", str(tmp_path), *sets, *extra]
        monkeypatch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as end:
            cli.main()
        return int(end.value.code or 0), capsys.readouterr().err

    code, err = benchmark()
    assert code == 2
    assert f"graphs_Kary_Deterministic_Graphs.pkl: {REFUSED}" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "runs").exists()
    assert benchmark("--trust")[0] == 0


def test_one_s_own_objects_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = npz(tmp_path)
    rewrite(tmp_path, labels=np.array([0, 1] * 20, dtype=object))
    assert run(tmp_path, raw) == 2
    err = capsys.readouterr().err
    assert f"mine.npz: {REFUSED}" in err
    assert err.count("\n") == 1


def test_a_matlab_file_is_read_only_if_trusted(tmp_path: Path) -> None:
    """SciPy 1.17 crashes on some that are damaged."""
    savemat(tmp_path / "a.mat", {"x": np.arange(3)})
    with pytest.raises(SSTCastError, match=r"a\.mat: a MATLAB file, .* not a known one \(SHA-256 "):
        load_mat(tmp_path / "a.mat")
    assert load_mat(tmp_path / "a.mat", trust=True)["x"].tolist() == [[0, 1, 2]]


def test_a_hostile_torch_file_is_refused(tmp_path: Path) -> None:
    made, path = tmp_path / "made", tmp_path / "hostile.pt"
    for old in (False, True):  # its older format has no archive
        torch.save([touch(made)[0]], path, _use_new_zipfile_serialization=not old)
        with pytest.raises(SSTCastError, match=rf"hostile\.pt: {REFUSED}"):
            load_torch(path)
        assert not made.exists()


class Longer:
    """A tensor that claims more numbers than it has."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __reduce_ex__(self, protocol: Any) -> Any:
        function, arguments = self.tensor.__reduce_ex__(2)[:2]
        return function, (*arguments[:2], (10_000,), (1,), *arguments[4:])


def test_a_tensor_shows_no_memory_beyond_its_file(tmp_path: Path) -> None:
    torch.save([Longer(torch.zeros(2))], tmp_path / "a.pt")
    with pytest.raises(SSTCastError, match=r"a\.pt: cannot be read"):
        load_torch(tmp_path / "a.pt")


def test_torch_files_may_hold_pyg_data(tmp_path: Path) -> None:
    data = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([1]))
    torch.save({"graphs": [data]}, tmp_path / "good.pt")
    assert load_torch(tmp_path / "good.pt")["graphs"][0].num_nodes == 2
    torch.save({"split": np.arange(3)}, tmp_path / "array.pt")
    with pytest.raises(SSTCastError, match=REFUSED):
        load_torch(tmp_path / "array.pt")
    np.testing.assert_array_equal(load_torch(tmp_path / "array.pt", trust=True)["split"], np.arange(3))


def bomb(path: Path) -> None:
    """A few kilobytes that unpack to 6 GB."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (6 * 10**9,)})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("edges.npy", header.getvalue() + bytes(10**6))
    size = len(header.getvalue()) + 10**6
    content = path.read_bytes().replace(size.to_bytes(4, "little"), (2**32 - 2).to_bytes(4, "little"))
    path.write_bytes(content)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("labels.npy", bytes(10**6))


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    bomb(tmp_path / "bomb.npz")
    with pytest.raises(SSTCastError, match=r"bomb\.npz: unpacks to 4 GB"):
        load_npz(tmp_path / "bomb.npz")


def test_a_size_that_is_made_up_takes_no_memory(tmp_path: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**14,)})
    (tmp_path / "a.npy").write_bytes(header.getvalue() + bytes(80))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", header.getvalue() + bytes(80))
    for read in (lambda: load_npy(tmp_path / "a.npy"), lambda: load_npz(tmp_path / "a.npz")["x"]):
        with pytest.raises(SSTCastError, match="cannot be read"):
            read()


@pytest.mark.parametrize("read", [load_pickle, load_npy, load_npz, load_torch])
@pytest.mark.parametrize("content", [b"", b"nothing of this kind", b"PK\x03\x04", b"\x80\x02."])
def test_damaged_files_say_so(read: Callable[..., Any], content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(SSTCastError, match="a: cannot be read"):
        read(tmp_path / "a", True)
    with pytest.raises(SSTCastError, match="b: cannot be read"):
        read(tmp_path / "b")


def test_what_was_trusted_once_needs_no_more_trust(tmp_path: Path) -> None:
    """The cache holds tensors, so that nothing is executed again."""
    dataset = find_dataset("CSL")
    write(dataset, tmp_path)
    with pytest.raises(SSTCastError, match=REFUSED):
        load(dataset, tmp_path, tmp_path / "cache")
    load(replace(dataset, trust=True), tmp_path, tmp_path / "cache")
    assert len(load(dataset, tmp_path, tmp_path / "cache").graphs) == 50
