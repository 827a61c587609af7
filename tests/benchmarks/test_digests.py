"""A run is scored on the data it was trained on, or not at all."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_own import Make, edit, npz, pyg, rewrite, run, smiles_csv, tudataset
from small_raw import write

from sstcast.benchmarks import load as load_module
from sstcast.benchmarks.cache import digest_files
from sstcast.benchmarks.config import BenchmarkConfig, load_benchmark
from sstcast.benchmarks.load import load
from sstcast.benchmarks.registry import find_dataset
from sstcast.benchmarks.run import run_benchmark
from sstcast.errors import SSTCastError

DIGEST = r"SHA-256 \w{{12}}\.\.\."
OTHER = rf"seed-0: trained on other data: .*{{}}: {DIGEST} then, {DIGEST} now; put the old data"


def configure(name: str, root: Path, tmp: Path, *overrides: str) -> BenchmarkConfig:
    small = [
        "model.width=8",
        "model.layers=1",
        "training.epochs=1",
        "training.batch_size=4",
        "training.device=cpu",
    ]
    places = [f"runs={tmp / 'runs'}", f"cache={tmp / 'cache'}"]
    return load_benchmark(name, "mpnn", root, [*small, *places, *overrides])


def interrupt(config: BenchmarkConfig) -> None:
    """Leave a run as one that was killed before its score."""
    (config.folder / "seed-0/metrics.json").unlink()


def change_in_place(path: Path) -> None:
    """Swap two labels of MUTAG: the same size, and the same time of modification."""
    stat = path.stat()
    lines = path.read_text().splitlines()
    first, second = lines.index("1"), lines.index("-1")
    lines[first], lines[second] = lines[second], lines[first]
    content = "".join(f"{line}\n" for line in lines).encode()
    with path.open("r+b") as file:
        file.write(content)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert path.stat().st_size == stat.st_size


def test_a_file_changed_while_it_is_read_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = find_dataset("MUTAG")
    write(dataset, tmp_path)
    labels = tmp_path / dataset.folder / "MUTAG_graph_labels.txt"
    whole = load_module._read
    monkeypatch.setattr(load_module, "_read", lambda *a: (whole(*a), change_in_place(labels))[0])
    with pytest.raises(SSTCastError, match="changed while it was read"):
        load(dataset, tmp_path, tmp_path / "cache")
    monkeypatch.undo()
    assert not list((tmp_path / "cache").glob("MUTAG*.pt"))


@pytest.mark.parametrize("finished", [True, False])
def test_a_file_changed_in_place_is_refused(finished: bool, tmp_path: Path) -> None:
    dataset = find_dataset("MUTAG")
    write(dataset, tmp_path / "raw")
    config = configure("mutag", tmp_path / "raw", tmp_path)
    (first,) = run_benchmark(config, [0])
    if not finished:
        interrupt(config)
    labels = tmp_path / "raw" / dataset.folder / "MUTAG_graph_labels.txt"
    before = labels.read_bytes()
    change_in_place(labels)
    for _ in range(2):
        with pytest.raises(SSTCastError, match=OTHER.format("MUTAG_graph_labels.txt")):
            run_benchmark(config, [0])
    with pytest.raises(SSTCastError, match=OTHER.format("MUTAG_graph_labels.txt")):
        run_benchmark(config, [1, 0])
    assert not (config.folder / "seed-1").exists()
    labels.write_bytes(before)
    (again,) = run_benchmark(config, [0])
    assert again["test"] == first["test"]
    assert again["data"] == first["data"]


@pytest.mark.parametrize("finished", [True, False])
def test_two_folders_of_one_data_set_are_told_apart(finished: bool, tmp_path: Path) -> None:
    dataset = find_dataset("minesweeper")
    for name in ("a", "b"):
        write(dataset, tmp_path / name)
    path = tmp_path / "b" / dataset.folder / dataset.names[0]
    with np.load(path) as file:
        arrays = dict(file)
    np.savez(path, **(arrays | {"node_labels": 1 - arrays["node_labels"]}))
    ours, theirs = (configure("minesweeper", tmp_path / name, tmp_path) for name in ("a", "b"))
    run_benchmark(ours, [0])
    if not finished:
        interrupt(ours)
    with pytest.raises(SSTCastError, match=OTHER.format("minesweeper.npz")):
        run_benchmark(theirs, [0])
    y = [load(c.declaration, c.root, c.cache).graphs.y for c in (ours, theirs)]
    assert torch.equal(y[0], 1 - y[1])
    shutil.copytree(tmp_path / "a", tmp_path / "moved")
    run_benchmark(configure("minesweeper", tmp_path / "moved", tmp_path), [0])


def other_labels(folder: Path) -> None:
    rewrite(folder, labels=(np.arange(40) + 1) % 3)


def other_graphs(folder: Path) -> None:
    graphs = torch.load(folder / "mine.pt", weights_only=False)
    torch.save(graphs[::-1], folder / "mine.pt")


OWN: dict[str, tuple[Make, Callable[[Path], Any]]] = {
    "mine.csv": (smiles_csv, lambda folder: edit(folder, "mine.csv", "3.5", "4.5")),
    "mine.npz": (npz, other_labels),
    "MINE_graph_labels.txt": (tudataset, lambda folder: edit(folder, "TU/MINE_graph_labels.txt", "0\n1", "1\n0")),
    "mine.pt": (pyg, other_graphs),
}


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("name", OWN)
def test_one_s_own_data_replaced_is_refused(
    name: str, finished: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, change = OWN[name]
    raw = make(tmp_path)
    assert run(tmp_path, raw, "--set", "training.epochs=1") == 0
    if not finished:
        (tmp_path / "runs/mine/mpnn/seed-0/metrics.json").unlink()
    change(tmp_path)
    capsys.readouterr()
    assert run(tmp_path, raw, "--set", "training.epochs=1") == 2
    out, err = capsys.readouterr()
    assert err.count("\n") == 1
    assert f"{name}: SHA-256" in err
    assert "trained on other data" in err
    assert "nothing to do" not in out


def test_files_that_come_or_go_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = tudataset(tmp_path)
    assert run(tmp_path, raw) == 0
    labels = tmp_path / "TU/MINE_node_labels.txt"
    (tmp_path / "TU/MINE_node_attributes.txt").write_text("1\n" * 36)
    assert run(tmp_path, raw) == 2
    assert "MINE_node_attributes.txt: none then, SHA-256" in capsys.readouterr().err
    (tmp_path / "TU/MINE_node_attributes.txt").unlink()
    labels.unlink()
    assert run(tmp_path, raw) == 2
    assert "MINE_node_labels.txt: SHA-256" in capsys.readouterr().err


def test_graphs_of_a_list_are_part_of_the_data(tmp_path: Path) -> None:
    """Each call graph of MalNet-Tiny is a file of its own, which only a list names."""
    dataset = find_dataset("MalNet-Tiny")
    write(dataset, tmp_path)
    before = digest_files(dataset, tmp_path)
    path = next((tmp_path / dataset.folder).rglob("*.edgelist"))
    path.write_text(path.read_text() + "0 3\n")
    after = digest_files(dataset, tmp_path)
    assert [name for name in before if before[name] != after[name]] == ["malnet-graphs-tiny"]


def test_a_run_without_digests_is_refused(tmp_path: Path) -> None:
    write(find_dataset("MUTAG"), tmp_path)
    config = configure("mutag", tmp_path, tmp_path)
    run_benchmark(config, [0])
    (config.folder / "seed-0/data.json").unlink()
    with pytest.raises(SSTCastError, match=r"data\.json: .*No such file.*; delete the run's folder"):
        run_benchmark(config, [0])


def test_a_score_of_other_data_is_refused(tmp_path: Path) -> None:
    write(find_dataset("MUTAG"), tmp_path)
    config = configure("mutag", tmp_path, tmp_path)
    run_benchmark(config, [0, 1])
    scores = [config.folder / f"seed-{seed}/metrics.json" for seed in (0, 1)]
    kept = scores[0].read_text()
    scores[0].write_text(scores[1].read_text())
    with pytest.raises(SSTCastError, match=r"metrics\.json: seed is 1, but the run's is 0; delete the file"):
        run_benchmark(config, [0])
    score = json.loads(kept)
    score["data"]["loaded"] = "0" * 64
    scores[0].write_text(json.dumps(score))
    with pytest.raises(SSTCastError, match=r"metrics\.json: its data are not those of data\.json"):
        run_benchmark(config, [0])
    scores[0].unlink()
    assert run_benchmark(config, [0]) == [json.loads(kept)]


def test_files_read_otherwise_than_before_are_refused(tmp_path: Path) -> None:
    write(find_dataset("MUTAG"), tmp_path)
    config = configure("mutag", tmp_path, tmp_path)
    run_benchmark(config, [0])
    interrupt(config)
    record = config.folder / "seed-0/data.json"
    data = json.loads(record.read_text())
    record.write_text(json.dumps(data | {"loaded": "0" * 64}))
    with pytest.raises(SSTCastError, match=r"MUTAG, as read from the same files .*: SHA-256 0{12}\.\.\. then"):
        run_benchmark(config, [0])


def test_a_score_without_its_configuration_is_refused(tmp_path: Path) -> None:
    write(find_dataset("MUTAG"), tmp_path)
    config = configure("mutag", tmp_path, tmp_path)
    run_benchmark(config, [0])
    (config.folder / "seed-0/config.yaml").unlink()
    with pytest.raises(SSTCastError, match=r"config\.yaml is missing"):
        run_benchmark(config, [0])
