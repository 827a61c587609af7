"""Pokec (Lim et al. 2021, arXiv:2110.14446): a MATLAB file, and splits in a NumPy file of dictionaries."""

from pathlib import Path

import numpy as np
import torch

from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.formats.arrays import splits_of, undirected
from sstcast.benchmarks.packed import Loaded, Split, pack
from sstcast.benchmarks.pickles import load_mat, load_npy


def read(folder: Path, dataset: Dataset) -> Loaded:
    """Read the friendships in both directions; people of unknown gender (-1) are in no split."""
    raw = load_mat(folder / dataset.names[0], dataset.trust)
    labels = raw["label"].ravel().astype(np.int64)
    index = undirected(raw["edge_index"], len(labels))
    graph = {"x": raw["node_feat"].astype(np.float32), "edge_index": index, "y": labels}
    splits = []
    for split in load_npy(folder / dataset.names[1], dataset.trust).ravel():
        (one,) = splits_of((np.asarray(split[part]) for part in ("train", "valid", "test")), len(labels))
        splits.append(Split(*(part[torch.from_numpy(labels)[part] >= 0] for part in one)))
    return Loaded(pack([graph], "node"), splits)
