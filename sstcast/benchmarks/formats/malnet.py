"""MalNet-Tiny (Freitas et al. 2021, arXiv:2011.07682): an edge list for each call graph, in its class's folder."""

from pathlib import Path

import numpy as np
import torch

from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.formats.arrays import ranges
from sstcast.benchmarks.packed import Loaded, pack
from sstcast.benchmarks.pickles import REMEDY
from sstcast.errors import SSTCastError, reading


def read(folder: Path, dataset: Dataset) -> Loaded:
    """Read the graphs in the order of the three lists; edges keep the direction of calls."""
    names = []
    for file in dataset.files:
        with reading(folder / file, REMEDY):
            names.append((folder / file).read_text().split())
    kinds = sorted({name.partition("/")[0] for part in names for name in part})
    graphs = []
    for name in (name for part in names for name in part):
        path = folder / "malnet-graphs-tiny" / f"{name}.edgelist"
        if not path.exists():
            raise SSTCastError(f"{path} is missing; get it from {next(iter(dataset.files.values()))}")
        with reading(path, REMEDY):
            edges = np.loadtxt(path, np.int64, comments="#", ndmin=2)
        index = torch.from_numpy(edges[:, :2].T.copy())
        label = torch.tensor([kinds.index(name.partition("/")[0])])
        graphs.append({"num_nodes": int(index.max()) + 1, "edge_index": index, "y": label})
    return Loaded(pack(graphs, "graph"), [ranges([len(part) for part in names])])
