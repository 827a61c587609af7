"""Files of PyTorch Geometric: a list of `Data` written by `torch.save`, or a processed `InMemoryDataset`."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.separate import separate

from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.formats.arrays import splits_of
from sstcast.benchmarks.packed import Loaded, pack
from sstcast.benchmarks.pickles import load_torch
from sstcast.errors import SSTCastError

MASKS = ("train_mask", "val_mask", "test_mask")


def read(folder: Path, dataset: Dataset) -> Loaded:
    """Read the graphs; a single graph may have the masks `train_mask`, `val_mask` and `test_mask`."""
    path = folder / dataset.names[0]
    data = _separate(load_torch(path, dataset.trust), path)
    level = "node" if dataset.task.startswith("node") else "graph"
    graphs = pack([_graph(d, i, level, path, dataset) for i, d in enumerate(data)], level)
    if len(data) == 1 and all(name in data[0] for name in MASKS):
        return Loaded(graphs, splits_of((data[0][name].numpy() for name in MASKS), int(graphs.nodes[0])))
    return Loaded(graphs, [])


def _separate(raw: Any, path: Path) -> list[Data]:
    if isinstance(raw, Data):
        return [raw]
    if isinstance(raw, tuple) and len(raw) > 1 and isinstance(raw[0], dict):  # (fields, slices, ...)
        whole, slices = Data.from_dict(raw[0]), raw[1]
        if not slices:
            return [whole]
        count = len(next(iter(slices.values()))) - 1
        return [separate(Data, whole, i, slices, decrement=False) for i in range(count)]
    if isinstance(raw, list) and raw and all(isinstance(d, (Data, dict)) for d in raw):
        return [d if isinstance(d, Data) else Data.from_dict(d) for d in raw]
    raise SSTCastError(f"{path}: holds {type(raw).__name__}; torch.save a list of torch_geometric.data.Data")


def _graph(data: Data, number: int, level: str, path: Path, dataset: Dataset) -> dict[str, Any]:
    if data.edge_index is None or data.y is None:
        missing = "edge_index" if data.edge_index is None else "y"
        raise SSTCastError(f"{path}: graph {number} has no {missing}")
    y: Tensor = torch.as_tensor(data.y)
    rows = int(data.num_nodes or 0) if level == "node" else 1
    if y.numel() % max(rows, 1) or (dataset.classes and y.numel() != rows):
        raise SSTCastError(f"{path}: graph {number}: {y.numel()} labels for {rows} {level}s")
    y = y.reshape(-1) if dataset.classes else y.reshape(rows, -1).float()
    found = {"x": data.x, "edge_index": data.edge_index, "edge_attr": data.edge_attr, "y": y}
    return {
        k: v.view(-1, 1) if k in ("x", "edge_attr") and v.ndim == 1 else v
        for k, v in found.items()
        if v is not None
    } | {"num_nodes": rows if level == "node" else int(data.num_nodes or 0)}
