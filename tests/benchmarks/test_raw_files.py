"""Raw files and foreign classes run no code unless they are known or trusted."""

import gc
import os
import pickle
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from logged import logged
from small_raw import graphs, raw_files, write

import sstcast
from perf.beside_pyg import edges_of_class
from sstcast.benchmarks import reading
from sstcast.benchmarks.load import load
from sstcast.benchmarks.reading import check_raw, fetch, join, read_file
from sstcast.benchmarks.registry import find_dataset
from sstcast.benchmarks.splits import choose_split
from sstcast.benchmarks.tables import featurise, read_table
from sstcast.errors import SSTCastError

REFUSED = "a pickle, which may run any code when it is read"


Spoil, Command = Callable[[Path, Path], None], Callable[..., tuple[int, str, str]]


class Hostile:
    """Its pickle writes the file `made` when it is opened."""

    def __init__(self, made: Path) -> None:
        self.made = str(made)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return np.savetxt, (self.made, [1.0])


def hostile_npz(path: Path, made: Path) -> None:
    np.savez(path, **(dict(np.load(path)) | {"features": np.array([Hostile(made)], dtype=object)}))


def hostile_pickle(path: Path, made: Path) -> None:
    path.write_bytes(pickle.dumps(Hostile(made)))


def hostile_torch(path: Path, made: Path) -> None:
    torch.save([[{"x": Hostile(made)}]] * 3, path)


@pytest.mark.parametrize(
    ("name", "file", "spoil"),
    [
        ("LastFM-Asia", "lastfm_asia.npz", hostile_npz),  # PyG reads it with allow_pickle=True
        ("CIFAR10", "CIFAR10_v2.pt", hostile_torch),  # PyG falls back to weights_only=False
        ("PascalVOC-SP", "val.pickle", hostile_pickle),
        ("peptides-func", "splits_random_stratified_peptide.pickle", hostile_pickle),
    ],
)
def test_a_raw_file_runs_no_code(name: str, file: str, spoil: Spoil, tmp_path: Path) -> None:
    dataset = find_dataset(name)
    write(dataset, tmp_path)
    (path,) = (path for path in raw_files(dataset, tmp_path)[0].parent.iterdir() if path.name == file)
    spoil(path, tmp_path / "made")
    with pytest.raises(SSTCastError, match=r"--trust \(trust=True in Python\)"):
        load(dataset, tmp_path, tmp_path / "cache")
    elsewhere = path.parent.rename(tmp_path / "elsewhere")
    path.parent.symlink_to(elsewhere)
    with pytest.raises(SSTCastError, match=r"--trust \(trust=True in Python\)"):
        load(dataset, tmp_path, tmp_path / "cache")
    assert not (tmp_path / "made").exists()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # PyG leaves its file open
        with pytest.raises(SSTCastError):  # trusted, the attack itself works, and there is nothing to read
            load(dataset, tmp_path, tmp_path / "cache", trust=True)
        gc.collect()
    assert (tmp_path / "made").exists()


def test_processed_files_of_others_run_no_code(tmp_path: Path) -> None:
    """PyG opens its own files with weights_only=False."""
    dataset = find_dataset("MUTAG")
    write(dataset, tmp_path)
    processed = tmp_path / "TUDataset/MUTAG/processed"
    processed.mkdir()
    for name in ("data.pt", "pre_transform.pt", "pre_filter.pt"):
        torch.save(Hostile(tmp_path / "made"), processed / name)
    with pytest.raises(SSTCastError, match=REFUSED):
        load(dataset, tmp_path, tmp_path / "cache")
    assert not (tmp_path / "made").exists()


def test_raw_files_are_checked_whenever_a_class_reads_them(tmp_path: Path) -> None:
    """One of the processed files is missing, and none is older than the raw ones."""
    dataset = find_dataset("CIFAR10")
    write(dataset, tmp_path)
    load(dataset, tmp_path, tmp_path / "cache")
    (path,) = raw_files(dataset, tmp_path)
    then = path.stat().st_mtime
    hostile_torch(path, tmp_path / "made")
    os.utime(path, (then, then))
    assert load(dataset, tmp_path, tmp_path / "cache").graphs.nodes.tolist()  # what it had read before
    (path.parents[1] / "processed/val_data.pt").unlink()
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


def test_files_of_torch_may_hold_data_alone(tmp_path: Path) -> None:
    torch.save(graphs(1), tmp_path / "good.pt")
    assert read_file(tmp_path / "good.pt", trust=False)[0].nodes.tolist() == [4]
    for old in (False, True):  # its older format has no archive
        torch.save([Hostile(tmp_path / "made")], tmp_path / "bad.pt", _use_new_zipfile_serialization=not old)
        with pytest.raises(SSTCastError, match=REFUSED):
            read_file(tmp_path / "bad.pt", trust=False)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("trust", [False, True])
def test_a_class_that_is_not_reviewed_needs_trust(trust: bool, tmp_path: Path, command: Command) -> None:
    """PyG evaluates a part of these CSV files as code."""
    folder = tmp_path / "CornellTemporalHyperGraphDataset/email-Eu/transductive/raw"
    folder.mkdir(parents=True)
    row = f"\"__import__('os').system('touch {tmp_path / 'made'}') or [0, 1]\",1\n"
    for part in ("train", "val", "test"):
        (folder / f"{part}_df.csv").write_text("nodes,timestamp\n" + row)
    name = "CornellTemporalHyperGraphDataset:email-Eu"
    places = (f"runs={tmp_path}/runs", f"cache={tmp_path}/cache")
    sets = [part for place in places for part in ("--set", place)]
    code, _, err = command("benchmark", name, "--model", "gin", "--root", tmp_path, *sets, *["--trust"] * trust)
    assert code == 2
    assert (tmp_path / "made").exists() == trust
    if not trust:
        assert err.count("\n") == 1
        assert "CornellTemporalHyperGraphDataset is not reviewed" in err
        with pytest.raises(SSTCastError, match="trust=True in Python"):
            sstcast.benchmark(name, "gin", root=tmp_path)


def test_a_download_says_its_size_and_fetches_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = find_dataset("peptides-func")

    def fake(address: str, folder: str, filename: str) -> None:
        Path(folder).mkdir(exist_ok=True)
        if "j4zcnx2eipuo0xz" in address and failing:
            raise OSError("no route to host")
        (Path(folder) / filename).write_text(address)

    monkeypatch.setattr(reading, "download_url", fake)
    failing = True
    pattern = r"peptide.pickle: .*no route to host.*; download .* and put it there"
    with logged() as lines, pytest.raises(SSTCastError, match=pattern):
        fetch(dataset, tmp_path)
    assert "15,535 graphs" in lines[0]
    failing = False
    fetch(dataset, tmp_path)
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/*")) == sorted(dataset.files)
    with logged() as lines:
        fetch(dataset, tmp_path)
    assert not lines


def test_processed_files_are_used_only_with_the_raw_files_they_were_made_of(tmp_path: Path) -> None:
    dataset = find_dataset("minesweeper")
    write(dataset, tmp_path)
    (path,) = raw_files(dataset, tmp_path)
    whole, digests = path.read_bytes(), []
    for change in (False, True, False):
        path.write_bytes(whole)
        if change:
            arrays = dict(np.load(path))
            np.savez(path, **(arrays | {"node_labels": 1 - arrays["node_labels"]}))
        digests.append(load(dataset, tmp_path, tmp_path / "cache").digest)
    assert digests[0] == digests[2] != digests[1]


# Data sets in data/graphs have their published statistics.

PROJECT = Path(__file__).parents[2]

PLACES = [os.environ.get("SSTCAST_GRAPHS", ""), PROJECT / "data/graphs", PROJECT.parent / "shared/data/graphs"]

ROOT = next((Path(place) for place in PLACES if place and Path(place).is_dir()), None)


@pytest.fixture(scope="module")
def need(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A folder of links to the raw files of a set, where PyG and OGB may write what they process; or skip."""
    root, made = tmp_path_factory.mktemp("raw") / "graphs", shutil.ignore_patterns(".*", "processed")
    if ROOT is not None:
        shutil.copytree(ROOT.resolve(), root, copy_function=os.symlink, ignore=made)

    def of(name: str) -> Path:
        if not all(path.exists() for path in raw_files(find_dataset(name), root)):
            pytest.skip(f"the raw files of {name} are not in data/graphs, nor where SSTCAST_GRAPHS says")
        return root

    return of


# graphs, nodes and directed edges a graph, columns of nodes and edges, classes, samples in train, validation, test
STATISTICS = {
    "Cora": (1, 2708, 10556, 1433, 0, 7, (140, 500, 1000)),
    "minesweeper": (1, 10_000, 2 * 39_402, 7, 0, 2, (5000, 2500, 2500)),
    "amazon-photo": (1, 7650, 238_162, 745, 0, 8, (4590, 1530, 1530)),
    "MUTAG": (188, 17.93, 39.59, 7, 4, 2, (132, 28, 28)),
    "NCI1": (4110, 29.87, 64.60, 37, 0, 2, (2877, 617, 616)),
    "CSL": (150, 41.0, 164.0, 0, 0, 10, (90, 30, 30)),
    "ZINC": (12_000, 23.16, 49.83, 1, 1, None, (10_000, 1000, 1000)),
    "ogbg-molhiv": (41_127, 25.51, 54.94, 9, 3, 2, (32_901, 4113, 4113)),
}


@pytest.mark.parametrize("name", STATISTICS)
def test_published_statistics(name: str, tmp_path: Path, need: Callable[[str], Path]) -> None:
    loaded = load(find_dataset(name), need(name), tmp_path)
    dataset = loaded.dataset
    graphs, (count, nodes, edges, x, edge_attr, classes, parts) = loaded.graphs, STATISTICS[name]
    assert len(graphs) == count
    assert float(graphs.nodes.double().mean()) == pytest.approx(nodes, abs=0.005)
    assert float(graphs.edges.double().mean()) == pytest.approx(edges, abs=0.005)
    assert (0 if graphs.x is None else graphs.x.shape[1]) == x
    assert (0 if graphs.edge_attr is None else graphs.edge_attr.shape[1]) == edge_attr
    assert classes is None or len(graphs.y.unique()) == classes
    assert tuple(len(part) for part in choose_split(dataset, loaded.graphs, loaded.splits, 0)) == parts
    assert name != "ogbg-molhiv" or int(graphs.y.sum()) == 1443  # active molecules
    if len(graphs) == 1:
        (theirs,) = edges_of_class(dataset, need(name))
        assert sorted(graphs.edge_index.T.tolist()) == sorted(theirs.T.tolist())


def test_peptides_by_their_table_and_every_fiftieth_molecule(need: Callable[[str], Path]) -> None:
    """All 15,535 take a minute: here their number, labels and split, and the features of some."""
    dataset = find_dataset("peptides-func")
    table_file, split_file = (need("peptides-func") / name for name in dataset.files)
    table = read_table(table_file, [], ["smiles"])
    assert len(table) == 15_535
    assert {len(text.split(",")) for text in table["labels"]} == {10}
    check_raw([split_file], dataset.sha256)  # a known pickle
    split = pickle.loads(split_file.read_bytes())
    assert [len(split[part]) for part in ("train", "val", "test")] == [10_873, 2331, 2331]
    graphs = join(featurise(table["smiles"][::50]))
    nodes, edges = graphs.nodes.double(), graphs.counts["edge_index"].double()
    assert (nodes > 0).all()
    assert float(nodes.mean()) == pytest.approx(150.94, rel=0.1)
    assert float((edges / nodes).mean()) == pytest.approx(307.30 / 150.94, rel=0.01)
    assert (graphs.data.x.shape[1], graphs.data.edge_attr.shape[1]) == (9, 3)
