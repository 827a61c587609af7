"""Pokec (Lim et al. 2021, arXiv:2110.14446): a MATLAB file, and splits in a NumPy file of dictionaries."""

from functools import partial
from pathlib import Path

import numpy as np
import torch
from scipy.io import loadmat

from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.formats.arrays import splits_of, undirected
from sstcast.benchmarks.packed import Loaded, Split, pack
from sstcast.benchmarks.pickles import unpickle


def read(root: Path, dataset: Dataset) -> Loaded:
    """Read the friendships in both directions; people of unknown gender (-1) are in no split."""
    folder = root / dataset.folder
    raw = unpickle(folder / dataset.names[0], dataset.trust, loadmat)  # which some damaged files crash
    labels = raw["label"].ravel().astype(np.int64)
    index = undirected(raw["edge_index"], len(labels))
    graph = {"x": raw["node_feat"].astype(np.float32), "edge_index": index, "y": labels}
    splits = []
    for split in unpickle(folder / dataset.names[1], dataset.trust, partial(np.load, allow_pickle=True)).ravel():
        (one,) = splits_of((np.asarray(split[part]) for part in ("train", "valid", "test")), len(labels))
        splits.append(Split(*(part[torch.from_numpy(labels)[part] >= 0] for part in one)))
    return Loaded(pack([graph], "node"), splits)
