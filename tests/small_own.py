"""A user's own data of each kind, and ways to spoil them."""

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
