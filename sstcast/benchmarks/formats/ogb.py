"""CSV files of the Open Graph Benchmark (Hu et al. 2020, arXiv:2005.00687), for graphs and for nodes of one graph.

`options`: `inverse` adds the inverse of each edge directly after it; `syntax` is for ogbg-code2, whose syntax
trees get edges between successive tokens, as in its authors' baselines, and whose labels are words.
"""

from collections import Counter
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from sstcast.benchmarks.dataset import ATOMS, BONDS, WORDS, Dataset, Metric, TaskName
from sstcast.benchmarks.formats.arrays import read_numbers, undirected
from sstcast.benchmarks.packed import Graphs, Loaded, Split, compact
from sstcast.benchmarks.pickles import REMEDY
from sstcast.errors import SSTCastError, reading, shorten
from sstcast.validation import suggest

METRICS: dict[str, Metric] = {"rocauc": "roc-auc", "ap": "ap", "rmse": "rmse", "acc": "accuracy", "F1": "f1"}
DEEPEST = 20  # deeper nodes of a syntax tree count as this deep


def complete(dataset: Dataset) -> Dataset:
    """Complete a declaration by OGB's own table of its data sets.

    Raises SSTCastError if ogb is not installed, or does not know the data set, or has it in another form.
    """
    level = "graph" if dataset.name.startswith("ogbg") else "node"
    table = _table(level)
    if dataset.name not in table:
        raise SSTCastError(f"no data set {shorten(dataset.name)!r}{suggest(dataset.name, table)}; OGB has no such")
    known = table[dataset.name]
    if known["binary"] == "True" or known.get("is hetero") == "True":
        raise SSTCastError(f"{dataset.name}: not supported: it is not a single kind of nodes in CSV files")
    kind, molecules = known["task type"].split()[0], known.get("data type") == "mol"
    task = f"{level}-{'regression' if kind == 'regression' else 'classification'}"
    if kind == "binary" and level == "graph" and int(known["num tasks"]) > 1:
        task = "multi-label"
    has = [what for what in ("node", "edge") if known[f"has_{what}_attr"] == "True"]
    wanted = ["raw/edge", "raw/num-node-list", "raw/num-edge-list", f"raw/{level}-label"]
    wanted += [f"split/{known['split']}/{part}" for part in ("train", "valid", "test")]
    wanted += [f"raw/{what}-feat" for what in has]
    if kind == "subtoken":
        task, wanted = "next-tokens", [*wanted, "raw/node_is_attributed", "raw/node_depth"]
    return replace(
        dataset,
        folder=dataset.name.replace("-", "_"),
        files={f"{stem}.csv.gz": known["url"] for stem in wanted},
        task=cast(TaskName, task),
        metric=METRICS[known["eval metric"]],
        split="official",
        single=level == "node",
        node=dataset.node or (ATOMS if molecules else "linear" if "node" in has else "none"),
        edge=dataset.edge or (BONDS if molecules else "linear" if "edge" in has else "none"),
        options={
            "inverse": known["add_inverse_edge"] == "True" and level == "graph",
            "syntax": kind == "subtoken",
            "archive": known["download_name"],
        },
    )


@cache
def _table(level: str) -> dict[str, dict[str, str]]:
    spec = find_spec("ogb")  # without importing it, which would ask PyPI for a newer version
    if spec is None or spec.origin is None:
        raise SSTCastError("OGB's data sets need ogb; python -m pip install 'sstcast[benchmarks]'")
    path = Path(spec.origin).parent / f"{level}proppred/master.csv"
    table = pd.read_csv(path, index_col=0, dtype=str, keep_default_na=False)
    return {str(name): {str(k): str(v) for k, v in column.items()} for name, column in table.items()}


def read(root: Path, dataset: Dataset) -> Loaded:
    """Read the graphs and the official split."""
    folder = root / dataset.folder
    nodes = _read(folder, "raw/num-node-list").ravel()
    edges = _read(folder, "raw/num-edge-list").ravel()
    index, attr = _read(folder, "raw/edge").T, _optional(folder, "raw/edge-feat", dataset)
    x = _optional(folder, "raw/node-feat", dataset)
    if dataset.options.get("inverse"):
        index = np.stack([index, index[::-1]], axis=2).reshape(2, -1)
        edges, attr = 2 * edges, None if attr is None else attr.repeat(2, axis=0)
    if dataset.options.get("syntax"):
        depth = np.minimum(_read(folder, "raw/node_depth"), DEEPEST)
        x = np.concatenate([x, depth], axis=1) if x is not None else depth
        index, attr, edges = _syntax(folder, index, nodes, edges)
    if dataset.of_nodes:
        index = undirected(index, int(nodes[0])).numpy()
        edges = np.array([index.shape[1]])

    (split,) = sorted({(folder / name).parent for name in dataset.files if "/train." in name})
    parts = (read_numbers(split / f"{part}.csv.gz").ravel() for part in ("train", "valid", "test"))
    official = Split(*(torch.from_numpy(part.astype(np.int64)) for part in parts))
    graphs = Graphs(
        level="node" if dataset.of_nodes else "graph",
        nodes=torch.tensor(nodes),
        edges=torch.tensor(edges),
        edge_index=compact(torch.from_numpy(np.ascontiguousarray(index))),
        y=_labels(folder, dataset, official),
        x=None if x is None else compact(torch.tensor(x)),
        edge_attr=None if attr is None else compact(torch.tensor(attr)),
    )
    return Loaded(graphs, [official])


def _labels(folder: Path, dataset: Dataset, split: Split) -> torch.Tensor:
    if dataset.options.get("syntax"):
        path = folder / "raw/graph-label.csv.gz"
        with reading(path, REMEDY):
            lines = pd.read_csv(path, header=None, keep_default_na=False, dtype=str)[0].str.split(" ").tolist()
        return compact(number_words(lines, [lines[i] for i in split.train.tolist()]))
    kind = "node" if dataset.of_nodes else "graph"
    labels = torch.tensor(_read(folder, f"raw/{kind}-label"))
    return labels.squeeze(1) if dataset.classes else labels.float()


def number_words(lines: list[list[str]], training: list[list[str]]) -> torch.Tensor:
    """Number the words, `[lines, longest]`, -1 after the end; the `WORDS` most frequent in training come first.

    Words that count as unknown get numbers from `WORDS` on, so that different unknown words stay different in the
    reference.
    """
    frequent = [word for word, _ in Counter(w for line in training for w in line).most_common(WORDS)]
    number = {word: i for i, word in enumerate(frequent)}
    for line in lines:
        for word in line:
            number.setdefault(word, WORDS + len(number))
    numbered = torch.full((len(lines), max(map(len, lines))), -1)
    for row, line in zip(numbered, lines, strict=True):
        row[: len(line)] = torch.tensor([number[word] for word in line])
    return numbered


def _syntax(
    folder: Path, index: NDArray[Any], nodes: NDArray[Any], edges: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return edges, features (successive tokens?, inverse?) and counts: tree edges, then tokens, both ways."""
    owner = np.arange(len(nodes)).repeat(edges)
    token = _read(folder, "raw/node_is_attributed").ravel().astype(bool)
    graph_of, first = np.arange(len(nodes)).repeat(nodes), nodes.cumsum() - nodes
    where = np.flatnonzero(token)  # nodes are in the order of a depth-first search
    follows = graph_of[where[1:]] == graph_of[where[:-1]]
    token_owner = graph_of[where[:-1]][follows]
    tokens = np.stack([where[:-1][follows], where[1:][follows]]) - first[token_owner]
    whole = np.concatenate([index, index[::-1], tokens, tokens[::-1]], axis=1)
    kinds = [(0, 0), (0, 1), (1, 0), (1, 1)]
    sizes = [index.shape[1]] * 2 + [tokens.shape[1]] * 2
    attr = np.array(kinds, np.int64).repeat(sizes, axis=0)
    graph = np.concatenate([owner, owner, token_owner, token_owner])
    order = np.argsort(graph, kind="stable")
    return whole[:, order], attr[order], np.bincount(graph, minlength=len(nodes))


def _read(folder: Path, name: str) -> NDArray[Any]:
    return read_numbers(folder / f"{name}.csv.gz")


def _optional(folder: Path, name: str, dataset: Dataset) -> NDArray[Any] | None:
    return _read(folder, name) if f"{name}.csv.gz" in dataset.files else None
