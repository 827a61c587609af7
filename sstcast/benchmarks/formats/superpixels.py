"""PascalVOC-SP, COCO-SP and PCQM-Contact (Dwivedi et al. 2022, LRGB, arXiv:2206.08164).

Each of the three files holds tuples of tensors: `(x, edge_attr, edge_index, y)`, or for the contacts
`(x, edge_attr, edge_index, pairs, y)`.
"""

from pathlib import Path
from typing import Any

import torch

from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.formats.arrays import ranges
from sstcast.benchmarks.packed import Loaded, pack
from sstcast.benchmarks.pickles import load_pickle, load_torch

# COCO numbers its 80 object classes 1..90; these numbers are not used.
UNUSED = torch.tensor([12, 26, 29, 30, 45, 66, 68, 69, 71, 83])


def read(folder: Path, dataset: Dataset) -> Loaded:
    """Read training, validation and test graphs."""
    files = [folder / name for name in dataset.names]
    parts = [(load_torch if f.suffix == ".pt" else load_pickle)(f, dataset.trust) for f in files]
    graphs = [_graph(g, dataset) for part in parts for g in part]
    level = "pair" if dataset.task == "link-ranking" else "node"
    return Loaded(pack(graphs, level), [ranges([len(part) for part in parts])])


def _graph(graph: Any, dataset: Dataset) -> dict[str, Any]:
    x, edge_attr, edge_index, *labels = graph
    if dataset.task == "link-ranking":
        whole = {"x": x, "edge_attr": edge_attr}
        return whole | {"edge_index": edge_index, "pairs": labels[0], "y": labels[1].float()}
    y = torch.as_tensor(labels[0])
    if dataset.options.get("coco"):
        y = y - torch.searchsorted(UNUSED, y)
    return {"x": x.float(), "edge_attr": edge_attr.float(), "edge_index": edge_index, "y": y}
