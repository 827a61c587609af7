"""The data of "Benchmarking graph neural networks" (Dwivedi et al. 2020, arXiv:2003.00982).

`options["layout"]` is `csl` (a pickle of sparse matrices and a tensor of classes), `zinc` (pickles of molecules
that an index file chooses from) or `lists` (one file with the dictionaries of all training, validation and test
graphs).
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.formats.arrays import ranges
from sstcast.benchmarks.packed import Loaded, pack
from sstcast.benchmarks.pickles import REMEDY, load_pickle, load_torch
from sstcast.errors import reading


def read(folder: Path, dataset: Dataset) -> Loaded:
    """Read the graphs; CSL has no official split."""
    files = [folder / name for name in dataset.names]
    if dataset.options["layout"] == "csl":
        graphs, classes = load_pickle(files[0], dataset.trust, "latin1"), load_torch(files[1], dataset.trust)
        pairs = zip(graphs, classes.tolist(), strict=True)
        return Loaded(pack([_skip_links(adjacency, y) for adjacency, y in pairs], "graph"), [])
    if dataset.options["layout"] == "zinc":
        parts = [
            [_molecule(molecules[i]) for i in _chosen(file.with_suffix(".index"))]
            for file, molecules in ((f, load_pickle(f, dataset.trust)) for f in files[:3])
        ]
    else:
        parts = [[_image(graph, dataset) for graph in part] for part in load_torch(files[0], dataset.trust)]
    level = "node" if dataset.task.startswith("node") else "graph"
    return Loaded(pack([g for part in parts for g in part], level), [ranges([len(part) for part in parts])])


def _chosen(index: Path) -> list[int]:
    with reading(index, REMEDY):
        chosen: list[int] = np.loadtxt(index, dtype=np.int64, delimiter=",", ndmin=1).tolist()
    return chosen


def _skip_links(adjacency: Any, label: int) -> dict[str, Any]:
    index = torch.from_numpy(np.stack(adjacency.nonzero())).long()
    index = index[:, index[0] != index[1]]
    return {"num_nodes": adjacency.shape[0], "edge_index": index, "y": torch.tensor([label])}


def _molecule(molecule: dict[str, Any]) -> dict[str, Any]:
    bonds = molecule["bond_type"]
    index = bonds.nonzero().T
    return {
        "x": molecule["atom_type"].view(-1, 1),
        "edge_index": index,
        "edge_attr": bonds[index[0], index[1]].view(-1, 1),
        "y": molecule["logP_SA_cycle_normalized"].view(1, 1).float(),
    }


def _image(graph: dict[str, Any], dataset: Dataset) -> dict[str, Any]:
    """Return pixels with their positions (MNIST, CIFAR10), or a block model's nodes."""
    x = graph["x"].float()
    if graph.get("pos") is not None:
        x = torch.cat([x, graph["pos"].float()], dim=1)
    found = {"x": x, "edge_index": graph["edge_index"], "y": graph["y"].view(-1)}
    if dataset.edge != "none":
        found["edge_attr"] = graph["edge_attr"].float().view(len(graph["edge_attr"]), -1)
    return found
