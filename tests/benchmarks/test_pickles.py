"""Files from outside: what is data opens, what is a program is opened only if it is known or trusted."""

import hashlib
import os
import pickle
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_own import npz, rewrite, run
from small_raw import write
from torch_geometric.data import Data

from sstcast import cli
from sstcast.benchmarks import pickles
from sstcast.benchmarks.load import load
from sstcast.benchmarks.pickles import guarded, load_torch, unpickle
from sstcast.benchmarks.registry import find_dataset
from sstcast.errors import SSTCastError

REFUSED = "may run any code, as a pickle does, and is not a known one"


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
    with pytest.raises(SSTCastError, match=rf"hostile\.pickle: {REFUSED} \(SHA-256 {digest}\).*--trust"):
        unpickle(path, False)
    assert not made.exists()
    unpickle(path, True)  # the attack itself works
    assert made.exists()


def test_a_known_pickle_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "known.pickle"
    path.write_bytes(pickle.dumps({"train": np.arange(3)}))
    with pytest.raises(SSTCastError, match=REFUSED):
        unpickle(path, False)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(pickles, "_known", lambda: frozenset([digest]))
    np.testing.assert_array_equal(unpickle(path, False)["train"], np.arange(3))
    path.write_bytes(path.read_bytes().replace(b"train", b"brain"))
    with pytest.raises(SSTCastError, match=REFUSED):
        unpickle(path, False)


def test_what_is_judged_is_what_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is swapped between the look at its SHA-256 and its opening."""
    made, path = tmp_path / "made", tmp_path / "known.pickle"
    path.write_bytes(pickle.dumps({"train": 1}))

    def swap() -> frozenset[str]:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        path.write_bytes(pickle.dumps(touch(made)[0]))
        return frozenset([digest])

    monkeypatch.setattr(pickles, "_known", swap)
    assert unpickle(path, False) == {"train": 1}
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
    assert "mine.npz: cannot be read (Object arrays cannot be loaded" in err
    assert err.count("\n") == 1


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


@pytest.mark.parametrize("read", [unpickle, load_torch])
@pytest.mark.parametrize("content", [b"", b"nothing of this kind", b"PK\x03\x04", b"\x80\x02."])
def test_damaged_files_say_so(read: Callable[..., Any], content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(SSTCastError, match="a: cannot be read"):
        read(tmp_path / "a", True)
    with pytest.raises(SSTCastError, match="b: cannot be read"):
        read(tmp_path / "b", False)


def test_what_was_trusted_once_needs_no_more_trust(tmp_path: Path) -> None:
    """The cache holds tensors, so that nothing is executed again."""
    dataset = find_dataset("CSL")
    write(dataset, tmp_path)
    with pytest.raises(SSTCastError, match=REFUSED):
        load(dataset, tmp_path, tmp_path / "cache")
    load(replace(dataset, trust=True), tmp_path, tmp_path / "cache")
    assert len(load(dataset, tmp_path, tmp_path / "cache").graphs) == 50


def hostile_npz(path: Path, made: Path) -> None:
    arrays = dict(np.load(path))
    np.savez(path, **(arrays | {"features": np.array([touch(made)[0]], dtype=object)}))


def hostile_npy(path: Path, made: Path) -> None:
    """NumPy takes a file for a pickle by its content, whatever it is called."""
    path.write_bytes(pickle.dumps(touch(made)[0]))


def hostile_torch(path: Path, made: Path) -> None:
    torch.save([[{"x": touch(made)[3]}]] * 3, path)


@pytest.mark.parametrize(
    ("name", "file", "spoil"),
    [
        ("LastFM-Asia", "lastfm_asia.npz", hostile_npz),  # PyG reads it with allow_pickle=True
        ("LastFM-Asia", "lastfm_asia.npz", hostile_npy),
        ("CIFAR10", "CIFAR10_v2.pt", hostile_torch),  # PyG falls back to weights_only=False
        ("PCQM-Contact", "train.pt", hostile_torch),
        ("PascalVOC-SP", "val.pickle", hostile_npy),
        ("Cora", "ind.cora.graph", hostile_npy),
    ],
)
def test_a_class_of_pyg_runs_no_code_of_a_file(
    name: str, file: str, spoil: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    dataset = find_dataset(name)
    write(dataset, tmp_path)
    spoil(tmp_path / dataset.folder / file, tmp_path / "made")
    with pytest.raises(SSTCastError, match="--trust"):
        load(dataset, tmp_path, tmp_path / "cache")
    assert not (tmp_path / "made").exists()
    with pytest.raises(SSTCastError):  # trusted, the attack itself works, and there is nothing to read
        load(replace(dataset, trust=True), tmp_path, tmp_path / "cache")
    assert (tmp_path / "made").exists()


def test_the_guard_ends_with_its_block(tmp_path: Path) -> None:
    before = pickle.load, pickle.loads, os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD")
    with pytest.raises(SSTCastError, match=REFUSED), guarded(trust=False):
        pickle.loads(pickle.dumps(1))
    assert (pickle.load, pickle.loads, os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD")) == before
    with guarded(trust=True):
        assert pickle.loads(pickle.dumps(1)) == 1
