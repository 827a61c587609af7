"""Citation networks as Yang et al. 2016 (arXiv:1603.08861) released them: `ind.NAME.{x, y, tx, ty, allx, ally,
graph}`.

The graph maps a node to its neighbours. Nodes after `allx` are the test nodes, in the order that `test.index`
gives; numbers that are missing from it (CiteSeer has some) are nodes without features, edges or a class.
"""

from pathlib import Path

import numpy as np
import torch

from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.formats.arrays import read_numbers, undirected
from sstcast.benchmarks.packed import Loaded, Split, pack
from sstcast.benchmarks.pickles import load_pickle
from sstcast.errors import SSTCastError

VALIDATION = 500  # nodes after the training nodes


def read(folder: Path, dataset: Dataset) -> Loaded:
    """Read a network and its public split."""
    files = {name.split(".", 2)[2]: folder / name for name in dataset.names}
    wanted = ("y", "tx", "ty", "allx", "ally", "graph")
    parts = {name: load_pickle(files[name], dataset.trust, "latin1") for name in wanted}
    test = read_numbers(files["test.index"], 1).ravel().astype(np.int64)
    known = parts["allx"].shape[0]
    nodes = max(test.max() + 1, known)
    if test.min() < 0 or nodes > known + 10 * len(test):
        raise SSTCastError(f"{files['test.index']}: nodes {test.min()}..{test.max()}, where {known} are known")

    features = np.zeros((nodes, parts["allx"].shape[1]), np.float32)
    classes = np.zeros((nodes, parts["ally"].shape[1]))
    features[:known], classes[:known] = parts["allx"].toarray(), parts["ally"]
    features[test], classes[test] = parts["tx"].toarray(), parts["ty"]

    pairs = [(i, j) for i, neighbours in parts["graph"].items() for j in neighbours]
    index = undirected(np.array(pairs, np.int64).T, nodes)
    graph = {"x": features, "edge_index": index, "y": classes.argmax(1)}
    train = len(parts["y"])
    split = Split(torch.arange(train), torch.arange(train, train + VALIDATION), torch.from_numpy(np.sort(test)))
    return Loaded(pack([graph], "node"), [split])
