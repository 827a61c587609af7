"""A user's own data: each kind trains, and what is wrong with it is named in one line."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from small_raw import NODES, ring
from torch_geometric.data import Data

from sstcast import cli
from sstcast.benchmarks.config import load_benchmark, published
from sstcast.benchmarks.load import choose_split, load
from sstcast.benchmarks.run import run_benchmark
from sstcast.errors import SSTCastError

Make = Callable[[Path], dict[str, Any]]
MASKS = ("train_mask", "val_mask", "test_mask")
MOLECULES = ["CCO", "c1ccccc1", "CC(=O)O", "CC#N", "CCN", "CCS", "CO", "CC=C", "CCCl", "CBr", "C", "CCCC"]


def run(folder: Path, raw: dict[str, Any], *extra: str) -> int:
    """Run the verb on two epochs; return its exit code."""
    (folder / "mine.yaml").write_text(yaml.safe_dump(raw))
    settings = (f"runs={folder}/runs", f"cache={folder}/cache", "training.epochs=2", "training.batch_size=4")
    sets = [part for s in (*settings, "model.width=8", "training.device=cpu") for part in ("--set", s)]
    sys.argv = ["sstcast", "benchmark", str(folder / "mine.yaml"), "--model", "mpnn", *sets, *extra]
    with pytest.raises(SystemExit) as end:
        cli.main()
    return int(end.value.code or 0)


def smiles_csv(folder: Path) -> dict[str, Any]:
    rows = "".join(f"m{i},{text},{len(text)}.5,{i % 2}\n" for i, text in enumerate(MOLECULES))
    (folder / "mine.csv").write_text("name,smiles,solubility,toxic\n" + rows)
    return {
        "kind": "smiles_csv",
        "path": "mine.csv",
        "task": "graph-regression",
        "targets": ["solubility"],
        "id": "name",
    }


def npz(folder: Path) -> dict[str, Any]:
    labels = np.arange(NODES) % 3
    features = np.eye(3)[labels] + np.random.default_rng(0).random((NODES, 3))
    np.savez(folder / "mine.npz", edges=ring(NODES).T, features=features, labels=labels)
    return {"kind": "npz", "path": "mine.npz", "task": "node-classification"}


def tudataset(folder: Path) -> dict[str, Any]:
    (folder / "TU").mkdir()
    edges = [(1, 2), (2, 1), (2, 3), (3, 2)]
    files: dict[str, list[Any]] = {"A": [], "graph_indicator": [], "graph_labels": [], "node_labels": []}
    for graph in range(12):
        files["A"] += [f"{a + 3 * graph}, {b + 3 * graph}" for a, b in edges]
        files["graph_indicator"] += [graph + 1] * 3
        files["graph_labels"].append(graph % 2)
        files["node_labels"] += [graph % 2, 0, 1]
    for name, lines in files.items():
        (folder / "TU" / f"MINE_{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    return {"kind": "tudataset", "path": "TU", "task": "graph-classification"}


def pyg(folder: Path) -> dict[str, Any]:
    index = torch.from_numpy(ring(5))
    graphs = [Data(x=torch.randn(5, 2), edge_index=index, y=torch.tensor([[float(i), -i]])) for i in range(12)]
    torch.save(graphs, folder / "mine.pt")
    return {"kind": "pyg", "path": "mine.pt", "task": "graph-regression"}


@pytest.mark.parametrize("make", [smiles_csv, npz, tudataset, pyg])
def test_every_kind_trains(make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, make(tmp_path)) == 0
    out = capsys.readouterr().out
    assert "mine, mpnn: test" in out
    assert (tmp_path / "runs/mine/mpnn/seed-0/metrics.json").exists()
    assert run(tmp_path, yaml.safe_load((tmp_path / "mine.yaml").read_text())) == 0
    assert "nothing to do" in capsys.readouterr().out


def edit(folder: Path, name: str, old: str, new: str) -> None:
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1))


def bad(make: Make, change: Callable[[Path, dict[str, Any]], Any]) -> Make:
    def prepare(folder: Path) -> dict[str, Any]:
        raw = make(folder)
        change(folder, raw)
        return raw

    return prepare


def rewrite(folder: Path, **arrays: Any) -> None:
    with np.load(folder / "mine.npz") as file:
        known = dict(file)
    np.savez(folder / "mine.npz", **(known | arrays))


def official(folder: Path, raw: dict[str, Any], **masks: Any) -> None:
    rewrite(folder, **masks)
    raw.update(split="official")


def regraph(folder: Path, change: Callable[[list[Data]], Any]) -> None:
    graphs = torch.load(folder / "mine.pt", weights_only=False)
    change(graphs)
    torch.save(graphs, folder / "mine.pt")


def lonely(folder: Path) -> None:
    """Take the last graph's edges away."""
    lines = (folder / "TU/MINE_A.txt").read_text().splitlines()[:-4]
    (folder / "TU/MINE_A.txt").write_text("".join(f"{line}\n" for line in lines))


BAD: dict[str, tuple[Make, list[str]]] = {
    "no such column": (
        bad(smiles_csv, lambda f, raw: raw.update(targets=["logS"])),
        ["mine.csv", "no column 'logS'", "name, smiles, solubility, toxic"],
    ),
    "an empty CSV": (bad(smiles_csv, lambda f, raw: (f / "mine.csv").write_text("")), ["mine.csv", "empty"]),
    "only a header": (
        bad(smiles_csv, lambda f, raw: (f / "mine.csv").write_text("name,smiles,solubility,toxic\n")),
        ["mine.csv", "no molecules"],
    ),
    "a duplicate id": (
        bad(smiles_csv, lambda f, raw: edit(f, "mine.csv", "m4,", "m2,")),
        ["mine.csv", "line 6", "'m2' has come before"],
    ),
    "not a number": (
        bad(smiles_csv, lambda f, raw: edit(f, "mine.csv", "3.5", "high")),
        ["mine.csv", "line 2", "'high' is not a number"],
    ),
    "a list that is none": (
        bad(smiles_csv, lambda f, raw: edit(f, "mine.csv", "3.5", "[1 0]") or raw.update(task="multi-label")),
        ["mine.csv", "line 2", "'[1 0]' is not a list of numbers"],
    ),
    "neither yes nor no": (
        bad(smiles_csv, lambda f, raw: raw.update(task="multi-label", targets=["solubility", "toxic"])),
        ["mine.csv", "graph 0", "0, 1 or missing"],
    ),
    "no molecule at all": (
        bad(smiles_csv, lambda f, raw: raw.update(smiles="name")),
        ["mine.csv", "no molecule can be parsed"],
    ),
    "labels out of range": (
        bad(npz, lambda f, raw: raw.update(classes=2)),
        ["mine.npz", "node 2", "label 2", "0..1"],
    ),
    "edges that point outside": (
        bad(npz, lambda f, raw: rewrite(f, edges=[[0, 1], [3, NODES]])),
        ["mine.npz", "3 - 40 points outside", "0..39"],
    ),
    "no edges": (bad(npz, lambda f, raw: rewrite(f, edges=np.zeros((0, 2), int))), ["mine.npz", "has no edges"]),
    "a split that repeats": (
        bad(npz, lambda f, raw: official(f, raw, train_mask=[5, 6, 7], val_mask=[7, 8], test_mask=[9])),
        ["mine", "sample 7 more than once"],
    ),
    "a split beyond the data": (
        bad(npz, lambda f, raw: official(f, raw, train_mask=[5, 6, 7], val_mask=[8], test_mask=[NODES])),
        ["mine", f"sample {NODES}", f"0..{NODES - 1}"],
    ),
    "a mask of other nodes": (
        bad(npz, lambda f, raw: official(f, raw, **dict.fromkeys(MASKS, np.ones(NODES - 1, bool)))),
        ["mine", f"a mask of {NODES - 1} nodes"],
    ),
    "nothing to test": (
        bad(npz, lambda f, raw: official(f, raw, train_mask=[1, 2], val_mask=[3], test_mask=np.zeros(0, int))),
        ["mine", "none is for test"],
    ),
    "one-hot labels": (
        bad(npz, lambda f, raw: rewrite(f, labels=np.eye(NODES, dtype=int))),
        ["mine.npz", f"{NODES * NODES} labels for {NODES} nodes"],
    ),
    "half a class": (
        bad(npz, lambda f, raw: rewrite(f, labels=np.arange(NODES) / 2)),
        ["mine.npz", "node 1", "label 0.5"],
    ),
    "words for labels": (
        bad(npz, lambda f, raw: rewrite(f, labels=np.full(NODES, "a"))),
        ["mine.npz", "array 'labels' is <U1"],
    ),
    "half an edge": (bad(npz, lambda f, raw: rewrite(f, edges=[[0, 1.5]])), ["mine", "1.5 where whole numbers"]),
    "a feature that is none": (
        bad(npz, lambda f, raw: rewrite(f, features=np.full((NODES, 1), np.nan))),
        ["mine.npz", "node 0: feature 0 is nan"],
    ),
    "a damaged archive": (
        bad(
            npz,
            lambda f, raw: (f / "mine.npz").write_bytes((f / "mine.npz").read_bytes().replace(b"NUMPY", b"NUMPX")),
        ),
        ["mine.npz", "damaged"],
    ),
    "too many folds": (
        bad(tudataset, lambda f, raw: raw.update(split="folds:10")),
        ["mine", "no class has 10 samples"],
    ),
    "a class that is not whole": (
        bad(smiles_csv, lambda f, raw: raw.update(task="graph-classification")),
        ["mine.csv", "graph 0", "label 3.5"],
    ),
    "graphs of unlike features": (
        bad(pyg, lambda f, raw: regraph(f, lambda g: g[3].update({"x": torch.randn(5, 4)}))),
        ["mine", "graph 3: x of shape [5, 4]"],
    ),
    "features of too many edges": (
        bad(pyg, lambda f, raw: regraph(f, lambda g: [d.update({"edge_attr": torch.ones(11, 1)}) for d in g])),
        ["mine", "graph 0: 11 rows of edge_attr where 6 belong"],
    ),
    "a missing array": (bad(npz, lambda f, raw: raw.update(labels="y")), ["mine.npz", "no array 'y'", "labels"]),
    "too few labels": (bad(npz, lambda f, raw: rewrite(f, labels=[0, 1])), ["mine.npz", "2 labels, 40 rows"]),
    "an edge between graphs": (
        bad(tudataset, lambda f, raw: edit(f, "TU/MINE_A.txt", "3, 2", "3, 4")),
        ["MINE_A.txt", "line 4", "edge 3, 4 points outside"],
    ),
    "an edge to nowhere": (
        bad(tudataset, lambda f, raw: edit(f, "TU/MINE_A.txt", "3, 2", "3, 99")),
        ["MINE_A.txt", "line 4", "edge 3, 99 points outside"],
    ),
    "a graph without edges": (bad(tudataset, lambda f, raw: lonely(f)), ["MINE_A.txt", "graph 12 has no edges"]),
    "a word among numbers": (
        bad(tudataset, lambda f, raw: edit(f, "TU/MINE_graph_indicator.txt", "2\n", "two\n")),
        ["MINE_graph_indicator.txt", "line 4", "'two'"],
    ),
    "an empty file": (
        bad(tudataset, lambda f, raw: (f / "TU/MINE_A.txt").write_text("")),
        ["MINE_A.txt", "empty"],
    ),
    "too many node labels": (
        bad(tudataset, lambda f, raw: edit(f, "TU/MINE_node_labels.txt", "0\n", "0\n0\n")),
        ["MINE_node_labels.txt", "37 lines where 36 belong"],
    ),
    "no data set in the folder": (
        bad(tudataset, lambda f, raw: (f / "TU/MINE_A.txt").unlink()),
        ["TU", "0 files NAME_A.txt"],
    ),
    "not PyG's": (bad(pyg, lambda f, raw: torch.save([1, 2], f / "mine.pt")), ["mine.pt", "holds list"]),
    "no file": (bad(pyg, lambda f, raw: (f / "mine.pt").unlink()), ["mine.pt is missing"]),
    "a task of another kind": (bad(npz, lambda f, raw: raw.update(task="graph-regression")), ["mine", "task"]),
    "a metric of another task": (bad(npz, lambda f, raw: raw.update(metric="mae")), ["accuracy or", "roc-auc"]),
    "shares beyond the whole": (bad(npz, lambda f, raw: raw.update(split="random:0.8/0.3/0.1")), ["add up to 1"]),
    "an unknown kind": (bad(npz, lambda f, raw: raw.update(kind="hdf5")), ["kind", "smiles_csv"]),
    "a key that does not exist": (bad(npz, lambda f, raw: raw.update(lables="y")), ["lables", "unknown key"]),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_said_in_one_line(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepare, words = BAD[case]
    assert run(tmp_path, prepare(tmp_path)) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    for word in words:
        assert word in err


@pytest.mark.parametrize("package", ["ogb.utils", "rdkit"])
def test_without_ogb_or_rdkit_the_command_to_install_them_is_said(
    package: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert run(tmp_path, smiles_csv(tmp_path)) == 2
    assert "pip install 'sstcast[benchmarks]'" in capsys.readouterr().err


def test_edgeless_graphs_may_be_kept(tmp_path: Path) -> None:
    raw = tudataset(tmp_path)
    lonely(tmp_path)
    assert run(tmp_path, raw | {"edgeless": "keep"}) == 0


def test_the_documented_example_runs(tmp_path: Path) -> None:
    page = (Path(cli.__file__).parents[1] / "docs/benchmarks.md").read_text()
    table = re.search(r"```text\n(name,smiles.*?)```", page, re.DOTALL)
    settings = re.search(r"```yaml\n(kind: smiles_csv.*?)```", page, re.DOTALL)
    assert table
    assert settings
    (tmp_path / "solubility.csv").write_text(table[1])
    (tmp_path / "solubility.yaml").write_text(settings[1])
    options = ["training.epochs=2", "model.width=8", f"cache={tmp_path / 'cache'}", f"runs={tmp_path / 'runs'}"]
    config = load_benchmark(str(tmp_path / "solubility.yaml"), "gine-vn", None, options)
    graphs = load(config.declaration, config.root, config.cache).graphs
    assert graphs.nodes.tolist() == [3, 6, 4, 2, 7, 7, 10, 6, 6, 7]  # heavy atoms
    assert graphs.y.flatten()[:3].tolist() == pytest.approx([1.10, -1.64, 1.22])
    assert [result["epochs"] for result in run_benchmark(config, [0, 1, 2])] == [2, 2, 2]


def test_molecules_that_cannot_be_parsed_are_counted_and_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = smiles_csv(tmp_path)
    edit(tmp_path, "mine.csv", "CC#N", "C1CC")  # an open ring
    edit(tmp_path, "mine.csv", "m7,CC=C", "m7,")
    assert run(tmp_path, raw) == 0
    out = capsys.readouterr().out
    assert "2 of 12 molecules cannot be parsed" in out
    assert "line 5: 'C1CC'" in out
    (listed,) = (tmp_path / "cache").glob("*.skipped.txt")
    assert [line.split(": ")[1] for line in listed.read_text().splitlines()] == ["line 5", "line 9"]


def test_a_column_may_hold_the_split(tmp_path: Path) -> None:
    raw = smiles_csv(tmp_path) | {"split": "official", "split_column": "part"}
    lines = (tmp_path / "mine.csv").read_text().splitlines()
    parts = ["part", *["train"] * 6, *["valid"] * 3, *["test"] * 3]
    (tmp_path / "mine.csv").write_text("".join(f"{a},{b}\n" for a, b in zip(lines, parts, strict=True)))
    edit(tmp_path, "mine.csv", "c1ccccc1", "c1ccccc")  # the rows that follow move up
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(raw))
    config = load_benchmark(str(tmp_path / "mine.yaml"), "mpnn", None, None)
    dataset = config.declaration
    split = choose_split(dataset, load(dataset, config.root, tmp_path / "cache"), 0)
    assert [part.tolist() for part in split] == [[0, 1, 2, 3, 4], [5, 6, 7], [8, 9, 10]]


def test_what_one_s_own_data_are_called_does_not_matter(tmp_path: Path) -> None:
    """Neither a paper's settings nor its scores are those of a file that happens to be called like its data."""
    raw = npz(tmp_path)
    for name in ("mine", "cora"):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(raw))
    mine, cora = (load_benchmark(str(tmp_path / f"{name}.yaml"), "lsat", None, None) for name in ("mine", "cora"))
    assert cora.model_copy(update={"dataset": "mine"}) == mine
    assert published(cora.model_copy(update={"dataset": "Cora"})) is None
    assert published(load_benchmark("cora", "lsat", None, None)) is not None
    assert load_benchmark(str(tmp_path / "mine.yaml"), "lsat", tmp_path / "elsewhere", None) == mine
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(raw | {"name": "../mine"}))
    with pytest.raises(SSTCastError, match="dataset"):
        load_benchmark(str(tmp_path / "mine.yaml"), "lsat", None, None)


def test_numbers_of_nodes_are_learnt(tmp_path: Path) -> None:
    raw = npz(tmp_path) | {"task": "node-regression"}
    rewrite(tmp_path, labels=np.linspace(0, 1, NODES))
    assert run(tmp_path, raw) == 0


def test_in_half_precision(tmp_path: Path) -> None:
    assert run(tmp_path, tudataset(tmp_path), "--set", "training.precision=bf16-mixed") == 0


def test_ten_folds(tmp_path: Path) -> None:
    raw = npz(tmp_path) | {"split": "folds:10"}
    assert run(tmp_path, raw) == 0


def test_new_node_labels_are_noticed(tmp_path: Path) -> None:
    raw = tudataset(tmp_path)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(raw))
    found = []
    for label in ("0", "7"):
        edit(tmp_path, "TU/MINE_node_labels.txt", "0\n", f"{label}\n")
        config = load_benchmark(str(tmp_path / "mine.yaml"), "mpnn", None, None)
        found.append(load(config.declaration, config.root, tmp_path / "cache").graphs.x)
    assert [x.shape[1] for x in found if x is not None] == [2, 3]


def test_a_test_score_that_is_not_defined_is_no_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = npz(tmp_path) | {"metric": "roc-auc"}
    number = np.arange(NODES)
    rewrite(tmp_path, labels=number % 2)
    masks = {"train_mask": number < 20, "val_mask": (number >= 20) & (number < 30), "test_mask": number == 31}
    official(tmp_path, raw, **masks)
    assert run(tmp_path, raw) == 2
    assert "roc-auc of the test split is not defined" in capsys.readouterr().err
    assert not list((tmp_path / "runs").rglob("metrics.json"))


@pytest.mark.parametrize("kind", [bool, int, np.uint8, float])
def test_masks_of_an_npz_are_its_official_split(tmp_path: Path, kind: type) -> None:
    raw = npz(tmp_path) | {"split": "official"}
    number = np.arange(NODES)
    parts = number < 20, (number >= 20) & (number < 30), number >= 30
    rewrite(tmp_path, **{name: part.astype(kind) for name, part in zip(MASKS, parts, strict=True)})
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(raw))
    config = load_benchmark(str(tmp_path / "mine.yaml"), "mpnn", None, None)
    split = choose_split(config.declaration, load(config.declaration, config.root, tmp_path / "cache"), 3)
    assert [part.tolist() for part in split] == [list(range(20)), list(range(20, 30)), list(range(30, 40))]


def test_a_processed_dataset_of_pyg_opens(tmp_path: Path) -> None:
    """What `InMemoryDataset.save` writes."""
    from torch_geometric.data import InMemoryDataset

    data = [
        Data(x=torch.ones(i, 1), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([i % 2]))
        for i in range(2, 22)
    ]
    InMemoryDataset.save(data, str(tmp_path / "mine.pt"))
    raw = {"kind": "pyg", "path": "mine.pt", "task": "graph-classification"}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(raw))
    config = load_benchmark(str(tmp_path / "mine.yaml"), "mpnn", None, None)
    graphs = load(config.declaration, config.root, tmp_path / "cache").graphs
    assert graphs.nodes.tolist() == list(range(2, 22))
    assert graphs.y.tolist() == [i % 2 for i in range(2, 22)]
