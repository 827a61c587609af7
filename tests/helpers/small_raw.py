"""Tiny data sets in every raw format that is declared, written as their authors' files are."""

import json
import pickle
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.sparse import coo_matrix, csr_matrix
from torch_geometric import datasets as pyg
from torch_geometric.data import Data
from torch_geometric.data import Dataset as PyGDataset

from sstcast.benchmarks.packed import ConcatenatedGraphs, Graphs, pack
from sstcast.benchmarks.registry import ATOMS, BONDS, Categories, Dataset

NODES, GRAPHS = 40, 24
TASKS = {  # one data set for each kind of task
    "graph regression": "ZINC",
    "graph classification": "MUTAG",
    "multi-label with missing labels": "ogbg-molpcba",
    "node classification, ROC-AUC": "minesweeper",
    "node classification in many graphs": "PascalVOC-SP",
    "link ranking": "PCQM-Contact",
    "next tokens": "ogbg-code2",
}
OPTIONAL = {  # files of features that are not in every folder of TUDataset's form
    "MUTAG": ("node_labels", "edge_labels"),
    "PROTEINS": ("node_labels", "node_attributes"),
    "COX2_MD": ("node_labels", "edge_labels", "edge_attributes"),
}
SMILES = ["CCO", "c1ccccc1", "CC(=O)O", "C", "CCN", "OCC(O)CO", "CC#N", "c1ccncc1", "CCS", "C1CCC1", "CO", "CC=C"]


def packed(graphs: list[dict[str, torch.Tensor | int]], level: str, **more: torch.Tensor) -> Graphs:
    """Pack graphs given as their parts, all of which are used."""
    joined = ConcatenatedGraphs.of_list([Data.from_dict(graph) for graph in graphs])
    parts = {name: joined.data.get(name) for name in ("x", "edge_attr", "y")}
    return pack(joined, level, **(parts | more))


def raw_files(dataset: Dataset, root: Path) -> list[Path]:
    """Return the raw files of a declared data set below `root`: its class reads them, or sstcast itself."""
    found = [root / name for name in dataset.files]
    if dataset.reader == "ogb":
        return [root / dataset.folder / f"{stem}.csv.gz" for stem in ogb_files(dataset)]
    if dataset.reader == "smiles_csv":
        return found

    def stop(source: PyGDataset) -> None:
        found[:0] = map(Path, source.raw_paths)
        raise StopIteration

    cls = type("Stopping", (getattr(pyg, dataset.reader),), {"_download": stop})
    name = {} if dataset.part is None else {"name": dataset.part}
    with suppress(StopIteration):
        cls(str(root / dataset.folder), **name, **dataset.options.get("arguments", {}))
    return found


def ogb_files(dataset: Dataset) -> list[str]:
    """Return the files of a set of OGB, by OGB's own table."""
    level = "node" if dataset.single else "graph"
    table = Path(find_spec("ogb").origin).parent / f"{level}proppred/master.csv"
    known = pd.read_csv(table, index_col=0, keep_default_na=False)[dataset.name]
    names = ["edge", "num-node-list", "num-edge-list", f"{level}-label"]
    names += [name for name in known["additional node files"].split(",") if name != "None"]
    names += [f"{what}-feat" for what in ("node", "edge") if known[f"has_{what}_attr"] == "True"]
    parts = [f"split/{known['split']}/{part}" for part in ("train", "valid", "test")]
    return [*(f"raw/{name}" for name in names), *parts]


def write(dataset: Dataset, root: Path) -> None:
    """Write raw files of `dataset` below `root`."""
    files = raw_files(dataset, root)
    for path in files:
        path.parent.mkdir(parents=True, exist_ok=True)
    WRITERS[dataset.reader](dataset, files, np.random.default_rng(7))


def ring(nodes: int) -> np.ndarray:
    """A ring with a chord, each edge once: `[2, nodes + 1]`."""
    ends = np.arange(nodes)
    return np.stack([np.append(ends, 0), np.append((ends + 1) % nodes, nodes // 2)])


def both_ways(index: np.ndarray) -> np.ndarray:
    return np.concatenate([index, index[::-1]], axis=1)


def graphs(count: int = 12, **changes: Any) -> list[Data]:
    """Return small graphs in memory; functions of a graph and its number change its attributes."""
    found = []
    for i in range(count):
        index = torch.from_numpy(both_ways(ring(4 + i % 3)))
        data = Data(x=torch.randn(4 + i % 3, 2), edge_index=index, y=torch.tensor([i % 2]))
        found.append(data.update({name: make(data, i) for name, make in changes.items()}))
    return found


def masks(splits: int) -> tuple[np.ndarray, ...]:
    part = np.stack([np.roll(np.arange(NODES) % 4, s) for s in range(splits)])
    return part < 2, part == 2, part == 3


def categories(sizes: Categories, rows: int, random: np.random.Generator) -> np.ndarray:
    return np.stack([random.integers(0, size, rows) for size in sizes], axis=1)


def planetoid(dataset: Dataset, files: list[Path], random: np.random.Generator) -> None:
    """600 known nodes and 20 test nodes; in CiteSeer a number in between belongs to no node."""
    folder = files[0].parent
    known, test = 600, np.delete(np.arange(600, 621), 5 if dataset.name == "CiteSeer" else 20)
    random.shuffle(test)
    x = csr_matrix(random.integers(0, 2, (known + len(test), 12)).astype(np.float32))
    y = np.eye(3)[random.integers(0, 3, known + len(test))]
    graph = defaultdict(list)
    for a, b in both_ways(ring(int(test.max()) + 1)).T:
        graph[int(a)].append(int(b))
    parts = {"x": x[:30], "y": y[:30], "allx": x[:known], "ally": y[:known], "tx": x[known:], "ty": y[known:]}
    stem = f"ind.{dataset.name.lower()}"
    for name, part in (parts | {"graph": graph}).items():
        (folder / f"{stem}.{name}").write_bytes(pickle.dumps(part, protocol=2))
    (folder / f"{stem}.test.index").write_text("".join(f"{i}\n" for i in test))


def shchur(dataset: Dataset, files: list[Path], random: np.random.Generator) -> None:
    features, index = random.random((NODES, 6)), ring(NODES)
    arrays = {"labels": np.arange(NODES) // 4 % 2}
    sparse = {
        "adj": csr_matrix((np.ones(index.shape[1], np.float32), index), shape=(NODES, NODES)),
        "attr": csr_matrix(np.where(features > 0.5, features, 0).astype(np.float32)),
    }
    for name, matrix in sparse.items():
        arrays |= {f"{name}_{key}": getattr(matrix, key) for key in ("data", "indices", "indptr", "shape")}
    np.savez(files[0], **arrays)
    parts = zip(("train", "valid", "test"), masks(3), strict=True)
    np.savez(files[1], **{name: np.flatnonzero(mask[0]) for name, mask in parts})


def lastfm(dataset: Dataset, files: list[Path], random: np.random.Generator) -> None:
    features, target = random.random((NODES, 6)), np.arange(NODES) // 4 % 2
    np.savez(files[0], edges=both_ways(ring(NODES)).T, features=features, target=target)


def heterophilous(dataset: Dataset, files: list[Path], random: np.random.Generator) -> None:
    names = ("train_masks", "val_masks", "test_masks")
    features = random.random((NODES, 6)).astype(np.float32)
    arrays = {"edges": ring(NODES).T, "node_features": features, "node_labels": np.arange(NODES) // 4 % 2}
    np.savez(files[0], **arrays, **dict(zip(names, masks(3), strict=True)))


def wikics(dataset: Dataset, files: list[Path], random: np.random.Generator) -> None:
    links: list[list[int]] = [[] for _ in range(NODES)]
    for a, b in ring(NODES).T.tolist():
        links[a].append(b)
    train, validation, test = masks(2)
    stopping = train & (train.cumsum(1) == 1)  # the first node of each training part
    train = train & ~stopping
    raw = {
        "features": random.random((NODES, 5)).tolist(),
        "labels": (np.arange(NODES) % 3).tolist(),
        "links": links,
        "train_masks": train.tolist(),
        "val_masks": validation.tolist(),
        "stopping_masks": stopping.tolist(),
        "test_mask": test[0].tolist(),
    }
    files[0].write_text(json.dumps(raw))


def tudataset(dataset: Dataset, files: list[Path], random: np.random.Generator, graphs: int = 12) -> None:
    folder, prefix = files[0].parent, files[0].name.removesuffix("_A.txt")
    sizes = 4 + np.arange(graphs) % 3
    first = sizes.cumsum() - sizes
    index = np.concatenate([both_ways(ring(n)) + f for n, f in zip(sizes, first, strict=True)], axis=1)
    nodes, edges = int(sizes.sum()), index.shape[1]
    columns = {
        "graph_indicator": (np.arange(graphs) + 1).repeat(sizes)[:, None],
        "graph_labels": np.where(np.arange(graphs) % 2, 1, -1)[:, None],
        "node_labels": np.arange(nodes)[:, None] % 3,
        "edge_labels": np.arange(edges)[:, None] % 2,
        "node_attributes": random.random((nodes, 1)),
        "edge_attributes": random.random((edges, 2)),
    }
    text = "".join(f"{a + 1}, {b + 1}\n" for a, b in index.T)
    (folder / f"{prefix}_A.txt").write_text(text)
    for name, values in columns.items():
        if name.startswith("graph") or name in OPTIONAL.get(prefix, ("node_labels",)):
            lines = (", ".join(f"{v:g}" for v in row) for row in values)
            (folder / f"{prefix}_{name}.txt").write_text("".join(f"{line}\n" for line in lines))


def benchmarking(dataset: Dataset, files: list[Path], random: np.random.Generator) -> None:
    if dataset.name == "CSL":
        index = both_ways(ring(8))
        loops = np.concatenate([index, np.stack([np.arange(8)] * 2)], axis=1)
        graphs = [coo_matrix((np.ones(loops.shape[1]), loops), shape=(8, 8)) for _ in range(50)]
        files[0].write_bytes(pickle.dumps(graphs))
        torch.save(torch.arange(50) % 10, files[1], _use_new_zipfile_serialization=False)
    else:
        parts = [[_listed(dataset, i, random) for i in range(count)] for count in (8, 4, 4)]
        torch.save(parts, files[0])


def zinc(dataset: Dataset, files: list[Path], random: np.random.Generator) -> None:
    molecules = {}
    for i in range(9):
        bonds = torch.zeros(6, 6, dtype=torch.long)
        bonds[tuple(both_ways(ring(6)))] = 1 + i % 3
        target = {"logP_SA_cycle_normalized": torch.tensor([float(i)])}
        molecules[i] = {"atom_type": torch.arange(6), "bond_type": bonds} | target
    for path in files:
        path.write_bytes(pickle.dumps(molecules) if path.suffix == ".pickle" else b"8,1,3,5\n")


def _listed(dataset: Dataset, number: int, random: np.random.Generator) -> dict[str, torch.Tensor]:
    nodes = 5 + number % 3
    index = torch.from_numpy(both_ways(ring(nodes)))
    found = {"x": torch.from_numpy(random.random((nodes, 3)).astype(np.float32)), "edge_index": index}
    found["edge_attr"] = torch.from_numpy(random.random(index.shape[1]).astype(np.float32))
    if dataset.task == "graph-classification":
        return found | {"pos": found["x"][:, :2], "y": torch.tensor([number % 2])}
    return found | {"y": torch.arange(nodes) % 2}


def superpixels(dataset: Dataset, files: list[Path], random: np.random.Generator) -> None:
    for path, count in zip(files, (8, 4, 4), strict=True):
        graphs = [_tuple(dataset, i, random) for i in range(count)]
        torch.save(graphs, path) if path.suffix == ".pt" else path.write_bytes(pickle.dumps(graphs))


def _tuple(dataset: Dataset, number: int, random: np.random.Generator) -> tuple[object, ...]:
    nodes = 6 + number % 3
    index = torch.from_numpy(both_ways(ring(nodes)))
    if dataset.task == "link-ranking":
        x, attr = (
            torch.from_numpy(categories(s, n, random)) for s, n in ((ATOMS, nodes), (BONDS, index.shape[1]))
        )
        pairs = torch.tensor([[0, 1, 2, 3], [3, 4, 5, 0]])
        return x, attr, index, pairs, torch.tensor([1, 1, 0, 0])
    x, attr = (
        torch.from_numpy(random.random((n, f)).astype(np.float32)) for n, f in ((nodes, 14), (len(index.T), 2))
    )
    labels = [0, 1, 11, 13, 25, 27, 84, 90] if dataset.name == "COCO-SP" else range(8)
    return x, attr, index, [labels[i] for i in range(nodes)]


def malnet(dataset: Dataset, files: list[Path], random: np.random.Generator) -> None:
    graphs, lists = files
    lists.mkdir()
    for part, count in (("train", 6), ("val", 3), ("test", 3)):
        names = [f"{('adware', 'trojan', 'benign')[i % 3]}/some/{part}{i}" for i in range(count)]
        (lists / f"{part}.txt").write_text("".join(f"{n}\n" for n in names))
        for i, one in enumerate(names):
            path = graphs / f"{one}.edgelist"
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = "".join(f"{a} {b}\n" for a, b in ring(5 + i).T)
            path.write_text(
                "# Directed graph\n# a call graph\n# Nodes: ?\n# Edges: ?\n# FromNodeId\tToNodeId\n" + lines
            )


def ogb(dataset: Dataset, files: list[Path], random: np.random.Generator) -> None:
    one = dataset.task.startswith("node")
    sizes = np.array([NODES]) if one else 5 + np.arange(GRAPHS) % 3
    edges = [ring(n) for n in sizes]
    counts, index = np.array([e.shape[1] for e in edges]), np.concatenate(edges, axis=1)
    nodes, samples = int(sizes.sum()), NODES if one else GRAPHS
    labels = np.arange(samples)[:, None] % 2
    if dataset.task == "multi-label":
        labels = np.where(random.random((samples, 3)) < 0.3, np.nan, random.integers(0, 2, (samples, 3)))
    columns: dict[str, np.ndarray] = {
        "edge": index.T,
        "num-node-list": sizes[:, None],
        "num-edge-list": counts[:, None],
        "graph-label": labels,
        "node-label": labels,
        "node_is_attributed": (np.arange(nodes) % 3 > 0)[:, None].astype(int),
        **{name: np.arange(nodes)[:, None] for name in ("node_dfs_order", "node_year", "node_species")},
        "node_depth": np.arange(nodes)[:, None] % 30,
        "node-feat": random.random((nodes, 4)).round(3),
        "edge-feat": random.random((index.shape[1], 7)).round(3),
    }
    if isinstance(dataset.node, tuple):
        columns["node-feat"] = categories(
            dataset.node[:2] if dataset.task == "next-tokens" else dataset.node, nodes, random
        )
    if isinstance(dataset.edge, tuple):
        columns["edge-feat"] = categories(dataset.edge, index.shape[1], random)
    words = np.array(["get name", "set", "get value of all open files", "run test", "null", "get"] * 4)
    for path in files:
        stem = path.name.removesuffix(".csv.gz")
        part = (
            np.arange(samples)[{"train": slice(0, -16), "valid": slice(-16, -8), "test": slice(-8, None)}[stem]]
            if "split" in path.parts
            else columns[stem]
        )
        if stem == "graph-label" and dataset.task == "next-tokens":
            part = words
        pd.DataFrame(part).to_csv(path, header=False, index=False)


def smiles(dataset: Dataset, files: list[Path], random: np.random.Generator) -> None:
    several = [str([i % 2] * 10) for i in range(12)]
    targets = {
        name: several if dataset.task == "multi-label" else random.random(12).round(4)
        for name in dataset.options["targets"]
    }
    pd.DataFrame({"smiles": SMILES} | targets).to_csv(files[0])
    if files[1].suffix == ".pt":
        none = np.arange(0)
        torch.save(
            {"train": np.arange(10), "valid": np.arange(10, 12), "test-dev": none, "test-challenge": none},
            files[1],
        )
    else:
        parts = {"train": np.arange(8), "val": np.arange(8, 10), "test": np.arange(10, 12)}
        files[1].write_bytes(pickle.dumps(parts))


Writer = Callable[[Dataset, list[Path], np.random.Generator], None]
WRITERS: dict[str, Writer] = {
    "Planetoid": planetoid,
    "LastFMAsia": lastfm,
    "HeterophilousGraphDataset": heterophilous,
    "Amazon": shchur,
    "Coauthor": shchur,
    "WikiCS": wikics,
    "TUDataset": tudataset,
    "GNNBenchmarkDataset": benchmarking,
    "ZINC": zinc,
    "LRGBDataset": superpixels,
    "MalNetTiny": malnet,
    "ogb": ogb,
    "smiles_csv": smiles,
}
