"""A user's own data of each kind, and ways to spoil them."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from small_raw import NODES, both_ways, ring
from torch_geometric.data import Data

from sstcast import cli

Make = Callable[[Path], dict[str, Any]]
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


def graph_csv(folder: Path) -> dict[str, Any]:
    labels = np.arange(NODES) % 3
    features = np.eye(3)[labels] + np.random.default_rng(0).random((NODES, 3))
    rows = "".join(f"n{i},{labels[i]},{','.join(f'{v:.4f}' for v in features[i])}\n" for i in range(NODES))
    (folder / "mine.csv").write_text("name,kind,a,b,c\n" + rows)
    edges = "".join(f"n{a},n{b},{a / 4}\n" for a, b in ring(NODES).T)
    (folder / "edges.csv").write_text("source,target,weight\n" + edges)
    keys = {"kind": "graph_csv", "path": "mine.csv", "edges": "edges.csv", "id": "name", "target": "kind"}
    return keys | {"task": "node-classification"}


def pyg(folder: Path) -> dict[str, Any]:
    index = torch.from_numpy(ring(5))
    graphs = [Data(x=torch.randn(5, 2), edge_index=index, y=torch.tensor([[float(i), -i]])) for i in range(12)]
    torch.save(graphs, folder / "mine.pt")
    return {"kind": "pyg", "path": "mine.pt", "task": "graph-regression"}


def graphs(count: int = 12, **changes: Any) -> list[Data]:
    """Return small graphs for `sstcast.benchmark`; functions of a graph and its number change its attributes."""
    found = []
    for i in range(count):
        index = torch.from_numpy(both_ways(ring(4 + i % 3)))
        data = Data(x=torch.randn(4 + i % 3, 2), edge_index=index, y=torch.tensor([i % 2]))
        found.append(data.update({name: make(data, i) for name, make in changes.items()}))
    return found


def edit(folder: Path, name: str, old: str, new: str) -> None:
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1))
