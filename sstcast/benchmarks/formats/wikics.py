"""WikiCS (Mernyei and Cangea 2020, arXiv:2007.02901): one JSON file with 20 splits and one test set."""

import json
from pathlib import Path

import numpy as np

from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.formats.arrays import splits_of, undirected
from sstcast.benchmarks.packed import Loaded, pack
from sstcast.benchmarks.pickles import REMEDY
from sstcast.errors import reading


def read(folder: Path, dataset: Dataset) -> Loaded:
    """Read the graph, with links in both directions."""
    with reading(folder / dataset.names[0], REMEDY):
        raw = json.loads((folder / dataset.names[0]).read_text())
    pairs = [(i, j) for i, neighbours in enumerate(raw["links"]) for j in neighbours]
    nodes = len(raw["labels"])
    index = undirected(np.array(pairs, np.int64).T, nodes)
    graph = {"x": np.array(raw["features"], np.float32), "edge_index": index, "y": np.array(raw["labels"])}
    masks = (np.array(raw[name], bool) for name in ("train_masks", "val_masks", "test_mask"))
    return Loaded(pack([graph], "node"), splits_of(masks, nodes))
