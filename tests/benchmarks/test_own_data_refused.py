"""What is wrong with a user's own data is said in one line that names file and row."""

from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from small_own import (
    MASKS,
    Make,
    bad,
    edit,
    lonely,
    npz,
    official,
    pyg,
    regraph,
    rewrite,
    run,
    smiles_csv,
    tudataset,
)
from small_raw import NODES

from sstcast.benchmarks.config import load_benchmark
from sstcast.benchmarks.load import load


def hole(length: int, row: int) -> np.ndarray:
    values = np.ones(length)
    values[row] = np.nan
    return values


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
        ["mine.csv", "line 2", "column 'solubility': 'high' is not a number"],
    ),
    "a list that is none": (
        bad(smiles_csv, lambda f, raw: edit(f, "mine.csv", "3.5", "[1 0]") or raw.update(task="multi-label")),
        ["mine.csv", "line 2", "'[1 0]' is not a list of numbers"],
    ),
    "neither yes nor no": (
        bad(smiles_csv, lambda f, raw: raw.update(task="multi-label", targets=["solubility", "toxic"])),
        ["mine.csv", "line 2, column 'solubility': label 3.5", "0, 1 or missing"],
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
        ["mine.npz", "array 'edges', row 1: 3 - 40 points outside", "0..39"],
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
    "a split before the data": (
        bad(npz, lambda f, raw: official(f, raw, train_mask=[5, 6, 7], val_mask=[8], test_mask=[-1])),
        ["mine", "sample -1", f"0..{NODES - 1}"],
    ),
    "a category that is none": (
        bad(pyg, lambda f, raw: raw.update(node=[3, 3])),
        ["mine.pt", "node 0: feature", "which is no category"],
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
    "half an edge": (
        bad(npz, lambda f, raw: rewrite(f, edges=[[0, 1.5]])),
        ["mine.npz", "array 'edges', row 0: 0.0 - 1.5", "whole numbers"],
    ),
    "a feature that is none": (
        bad(npz, lambda f, raw: rewrite(f, features=np.full((NODES, 1), np.nan))),
        ["mine.npz", "node 0: feature 0 is nan"],
    ),
    "a damaged archive": (
        bad(
            npz,
            lambda f, raw: (f / "mine.npz").write_bytes((f / "mine.npz").read_bytes().replace(b"NUMPY", b"NUMPX")),
        ),
        ["mine.npz", "cannot be read"],
    ),
    "too many folds": (
        bad(tudataset, lambda f, raw: raw.update(split="folds:10")),
        ["mine", "no class has 10 samples"],
    ),
    "a class that is not whole": (
        bad(smiles_csv, lambda f, raw: raw.update(task="graph-classification")),
        ["mine.csv", "line 2", "label 3.5"],
    ),
    "graphs of unlike features": (
        bad(pyg, lambda f, raw: regraph(f, lambda g: g[3].update({"x": torch.randn(5, 4)}))),
        ["mine", "graph 3: x of shape [5, 4]"],
    ),
    "features of too many edges": (
        bad(pyg, lambda f, raw: regraph(f, lambda g: [d.update({"edge_attr": torch.ones(11, 1)}) for d in g])),
        ["mine", "graph 0: 11 rows of edge_attr where 6 belong"],
    ),
    "an edge feature that is no number": (
        bad(npz, lambda f, raw: rewrite(f, weights=hole(41, 17)) or raw.update(edge_features="weights")),
        ["mine.npz", "array 'weights', row 17, column 0: nan"],
    ),
    "edge features of other edges": (
        bad(npz, lambda f, raw: rewrite(f, weights=np.ones(3)) or raw.update(edge_features="weights")),
        ["mine.npz", "3 rows of 'weights' for 41 edges"],
    ),
    "scaffolds of no molecules": (
        bad(npz, lambda f, raw: raw.update(split="scaffold")),
        ["mine", "scaffold is for molecules"],
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


def test_labels_of_a_folder_that_are_no_classes_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = tudataset(tmp_path)
    path = tmp_path / "TU/MINE_graph_labels.txt"
    lines = path.read_text().splitlines()
    for label in ("7.5", "-3", "nan", "inf", "-inf", "1e300", "", "-1", "x", "0, 1", "1e19"):
        path.write_text("".join(f"{line}\n" for line in [*lines[:4], label, *lines[5:]]))
        assert run(tmp_path, raw) == 2, label
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert "MINE_graph_labels.txt" in err, label
        assert "line 5" in err, label
    path.write_text("".join(f"{2 * int(line) - 1}\n" for line in lines))  # -1 and 1 are two classes, as in MUTAG
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(raw))
    config = load_benchmark(str(tmp_path / "mine.yaml"), "mpnn", None, None)
    y = load(config.declaration, config.root, tmp_path / "cache").graphs.y
    assert y.tolist() == [int(line) for line in lines]


def test_real_labels_of_a_folder_are_for_regression(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = tudataset(tmp_path) | {"task": "graph-regression"}
    path = tmp_path / "TU/MINE_graph_attributes.txt"
    path.write_text("".join(f"{i - 7.5}\n" for i in range(12)))
    assert run(tmp_path, raw) == 0
    capsys.readouterr()
    path.write_text(path.read_text().replace("-3.5", "inf"))
    assert run(tmp_path, raw, "--set", f"runs={tmp_path}/others") == 2
    assert "MINE_graph_attributes.txt: line 5: 'inf'" in capsys.readouterr().err
