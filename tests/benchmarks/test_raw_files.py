"""Files and classes from outside: nothing of theirs runs unless it is known or trusted."""

import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_raw import raw_files, write
from torch_geometric.data import Data

import sstcast
from sstcast import cli
from sstcast.benchmarks import reading
from sstcast.benchmarks.load import load
from sstcast.benchmarks.reading import check_raw, fetch, read_file
from sstcast.benchmarks.registry import Dataset, find_dataset
from sstcast.errors import SSTCastError

REFUSED = "may run any code when it is read"


class Calls:
    """Pickles as a call of `function` when opened."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.call


def hostile(path: Path) -> Calls:
    return Calls(np.savetxt, str(path), [1.0])


def hostile_npz(path: Path, made: Path) -> None:
    arrays = dict(np.load(path))
    np.savez(path, **(arrays | {"features": np.array([hostile(made)], dtype=object)}))


def hostile_pickle(path: Path, made: Path) -> None:
    """NumPy takes a file for a pickle by its content, whatever it is called."""
    path.write_bytes(pickle.dumps(hostile(made)))


def hostile_torch(path: Path, made: Path) -> None:
    torch.save([[{"x": hostile(made)}]] * 3, path)


@pytest.mark.parametrize(
    ("name", "file", "spoil"),
    [
        ("LastFM-Asia", "lastfm_asia.npz", hostile_npz),  # PyG reads it with allow_pickle=True
        ("CIFAR10", "CIFAR10_v2.pt", hostile_torch),  # PyG falls back to weights_only=False
        ("PascalVOC-SP", "val.pickle", hostile_pickle),
        ("peptides-func", "splits_random_stratified_peptide.pickle", hostile_pickle),
    ],
)
def test_a_raw_file_runs_no_code(
    name: str, file: str, spoil: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    dataset = find_dataset(name)
    write(dataset, tmp_path)
    (path,) = (path for path in raw_files(dataset, tmp_path)[0].parent.iterdir() if path.name == file)
    spoil(path, tmp_path / "made")
    with pytest.raises(SSTCastError, match=r"--trust \(trust=True in Python\)"):
        load(dataset, tmp_path, tmp_path / "cache")
    assert not (tmp_path / "made").exists()
    with pytest.raises(SSTCastError):  # trusted, the attack itself works, and there is nothing to read
        load(dataset, tmp_path, tmp_path / "cache", trust=True)
    assert (tmp_path / "made").exists()


def test_processed_files_of_others_run_no_code(tmp_path: Path) -> None:
    """PyG opens its own files with weights_only=False."""
    dataset = find_dataset("MUTAG")
    write(dataset, tmp_path)
    processed = tmp_path / "TUDataset/MUTAG/processed"
    processed.mkdir()
    for name in ("data.pt", "pre_transform.pt", "pre_filter.pt"):
        torch.save(hostile(tmp_path / "made"), processed / name)
    with pytest.raises(SSTCastError, match=REFUSED):
        load(dataset, tmp_path, tmp_path / "cache")
    assert not (tmp_path / "made").exists()


def test_a_known_pickle_opens(tmp_path: Path) -> None:
    path = tmp_path / "known.pickle"
    path.write_bytes(pickle.dumps({"train": np.arange(3)}))
    with pytest.raises(SSTCastError, match=REFUSED) as error:
        check_raw([path], ())
    digest = str(error.value).split("SHA-256 ")[1].split(")")[0]
    check_raw([path], [digest])
    assert sum(len(dataset.sha256) for dataset in raw_sets()) > 25
    assert all(len(digest) == 64 for dataset in raw_sets() for digest in dataset.sha256)


def raw_sets() -> list[Dataset]:
    return [find_dataset(name) for name in ("Cora", "CiteSeer", "PubMed", "ZINC", "CSL", "peptides-func")]


def test_files_of_torch_may_hold_data_alone(tmp_path: Path) -> None:
    data = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([1]))
    torch.save([data], tmp_path / "good.pt")
    assert read_file(tmp_path / "good.pt", trust=False)[0].nodes.tolist() == [2]
    for old in (False, True):  # its older format has no archive
        torch.save([hostile(tmp_path / "made")], tmp_path / "bad.pt", _use_new_zipfile_serialization=not old)
        with pytest.raises(SSTCastError, match=REFUSED):
            read_file(tmp_path / "bad.pt", trust=False)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("trust", [False, True])
def test_a_class_that_is_not_reviewed_runs_nothing_unless_trusted(
    trust: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """PyG gives a part of these CSV files to `eval`."""
    folder = tmp_path / "CornellTemporalHyperGraphDataset/email-Eu/transductive/raw"
    folder.mkdir(parents=True)
    row = f"\"__import__('os').system('touch {tmp_path / 'made'}') or [0, 1]\",1\n"
    for part in ("train", "val", "test"):
        (folder / f"{part}_df.csv").write_text("nodes,timestamp\n" + row)
    name = "CornellTemporalHyperGraphDataset:email-Eu"
    places = (f"runs={tmp_path}/runs", f"cache={tmp_path}/cache")
    command = ["sstcast", "benchmark", name, "--model", "gin", "--root", str(tmp_path)]
    command += [part for place in places for part in ("--set", place)]
    monkeypatch.setattr(sys, "argv", command + ["--trust"] * trust)
    with pytest.raises(SystemExit) as end:
        cli.main()
    err = capsys.readouterr().err
    assert end.value.code == 2
    assert (tmp_path / "made").exists() == trust
    if not trust:
        assert err.count("\n") == 1
        assert "CornellTemporalHyperGraphDataset is not reviewed" in err
        with pytest.raises(SSTCastError, match="trust=True in Python"):
            sstcast.benchmark(name, "gin", root=tmp_path)


def test_a_download_says_its_size_and_fetches_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = find_dataset("peptides-func")

    def fake(address: str, folder: str, filename: str) -> None:
        Path(folder).mkdir(exist_ok=True)
        if "j4zcnx2eipuo0xz" in address and failing:
            raise OSError("no route to host")
        (Path(folder) / filename).write_text(address)

    monkeypatch.setattr(reading, "download_url", fake)
    failing = True
    with pytest.raises(SSTCastError, match=r"peptide.pickle: the download from .*no route to host.*put it there"):
        fetch(dataset, tmp_path)
    assert "15,535 graphs" in capsys.readouterr().out
    failing = False
    fetch(dataset, tmp_path)
    assert sorted(path.name for path in (tmp_path / "peptides-func").iterdir()) == sorted(dataset.files)
    capsys.readouterr()
    fetch(dataset, tmp_path)
    assert not capsys.readouterr().out


def test_two_folders_and_files_replaced_are_told_apart(tmp_path: Path) -> None:
    """What PyG processed belongs to the raw files as they were."""
    dataset, found = find_dataset("minesweeper"), []
    for name in ("a", "b", "a"):
        write(dataset, tmp_path / name)
        if name == "b":
            (path,) = raw_files(dataset, tmp_path / "b")
            with np.load(path) as file:
                arrays = dict(file)
            np.savez(path, **(arrays | {"node_labels": 1 - arrays["node_labels"]}))
        found.append(load(dataset, tmp_path / name, tmp_path / "cache").digest)
    assert found[0] != found[1]
    assert found[0] == found[2]
    (tmp_path / "b" / path.relative_to(tmp_path / "b")).write_bytes(
        raw_files(dataset, tmp_path / "a")[0].read_bytes()
    )
    assert load(dataset, tmp_path / "b", tmp_path / "cache").digest == found[0]
