"""Data sets of the Open Graph Benchmark (Hu et al. 2020, arXiv:2005.00687), by OGB's own reader of its CSV files.

OGB's classes for PyG keep pickles, which torch from 2.6 on does not load by default.
"""

import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch_geometric.utils import remove_self_loops, to_undirected

from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.packed import Graphs, Split, pack
from sstcast.benchmarks.words import number_words
from sstcast.errors import SSTCastError

DEEPEST = 20  # deeper nodes of a syntax tree count as this deep


def read_ogb(dataset: Dataset, root: Path) -> tuple[Graphs, list[Split]]:
    """Read the graphs and the official split; raise SSTCastError if ogb is not installed."""
    try:
        from ogb.io.read_graph_raw import read_csv_graph_raw
    except ImportError as error:
        raise SSTCastError("OGB's data sets need ogb; python -m pip install 'sstcast[benchmarks]'") from error
    folder, words = root / dataset.folder, dataset.task == "next-tokens"
    extra = ["node_is_attributed", "node_depth"] if words else []
    quiet = io.StringIO()
    with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
        graphs = read_csv_graph_raw(str(folder / "raw"), dataset.options["inverse"], additional_node_files=extra)
    split = folder / dataset.options["split"]
    parts = (_table(split / f"{part}.csv.gz").ravel() for part in ("train", "valid", "test"))
    official = Split(*(torch.from_numpy(part.astype(np.int64)) for part in parts))
    if words:
        lines = pd.read_csv(folder / "raw/graph-label.csv.gz", header=None, keep_default_na=False, dtype=str)[0]
        split_lines = lines.str.split(" ").tolist()
        labels: Any = number_words(split_lines, [split_lines[i] for i in official.train.tolist()])
        graphs = [_syntax(graph) for graph in graphs]
    else:
        labels = torch.tensor(_table(folder / f"raw/{dataset.objective.level}-label.csv.gz"))
    if dataset.single:
        ends, _ = remove_self_loops(torch.from_numpy(graphs[0]["edge_index"]))
        graphs[0] |= {"edge_index": to_undirected(ends, num_nodes=graphs[0]["num_nodes"]), "edge_feat": None}
        labels = [labels]
    names = {"edge_index": "edge_index", "num_nodes": "num_nodes", "node_feat": "x", "edge_feat": "edge_attr"}
    found = [
        {ours: graph[theirs] for theirs, ours in names.items() if graph[theirs] is not None} for graph in graphs
    ]
    level = "node" if dataset.single else "graph"
    y = labels[0] if dataset.single else labels
    return pack([{"y": torch.zeros(0)} | graph for graph in found], level, y), [official]


def _syntax(graph: dict[str, Any]) -> dict[str, Any]:
    """Return a syntax tree with edges between successive tokens, both ways, as in ogbg-code2's baselines.

    Edge features are two: whether between tokens, and whether inverse. A node's depth joins its features.
    """
    tree, tokens = graph["edge_index"], np.flatnonzero(graph["node_is_attributed"])  # in depth-first order
    chain = np.stack([tokens[:-1], tokens[1:]])
    pieces: list[NDArray[Any]] = [tree, tree[::-1], chain, chain[::-1]]
    kinds = np.array([(0, 0), (0, 1), (1, 0), (1, 1)])
    features = [graph["node_feat"], np.minimum(graph["node_depth"], DEEPEST)]
    return graph | {
        "edge_index": np.concatenate(pieces, axis=1),
        "edge_feat": kinds.repeat([piece.shape[1] for piece in pieces], axis=0),
        "node_feat": np.concatenate([f for f in features if f is not None], axis=1),
    }


def _table(path: Path) -> NDArray[Any]:
    return pd.read_csv(path, header=None).to_numpy()
