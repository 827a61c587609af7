"""Rivals without a network for the graph data sets: the same splits, and choices on the validation samples alone.

    python perf/rivals.py [--sets mutag nci1 ...] [--seeds 10] [--root data/graphs]

A set of graphs is counted by the colours of Weisfeiler and Lehman (1968) after 0 to 3 rounds (the features of the
subtree kernel, Shervashidze et al. 2011). The nodes of one graph have their own features and the means over their
neighbours, repeated 0 to 3 times (the features of SIGN, arXiv:2004.11198). A linear model and trees are fitted to
them. The validation samples choose the rounds, the model and its penalty. Prints a row of a Markdown table for
each set, with the mean and deviation over splits. docs/graph-results.md has the networks' scores.
"""

import argparse
import platform
import statistics
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sklearn
import torch
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from torch_geometric.nn import WLConv
from torch_geometric.utils import scatter

from sstcast.benchmarks.load import load
from sstcast.benchmarks.objectives import objective_of
from sstcast.benchmarks.packed import Graphs, Split
from sstcast.benchmarks.registry import Dataset, find_dataset
from sstcast.benchmarks.splits import choose_split

ROUNDS = 3
TREES = 300
PENALTIES = (0.1, 1.0, 10.0)
MOST_COLOURS = 1000  # for boosted trees, which need dense features
# The splits and their number in docs/graph-results.md.
SETS = {
    "mutag": ("folds:10", 10),
    "proteins": ("folds:10", 10),
    "cox2_md": ("folds:10", 10),
    "nci1": ("folds:10", 10),
    "zinc": (None, 1),
    "cora": ("random:20-per-class", 5),
    "amazon-photo": (None, 5),
    "minesweeper": (None, 3),
}


class ErrorsBySystem(NamedTuple):
    """The scores of a model, and what was chosen."""

    validation: float
    test: float
    chosen: str


def colours(graphs: Graphs) -> Iterator[sparse.csr_array]:
    """Yield the numbers of each colour in each graph, `[graphs, colours]`, for 0 to `ROUNDS` rounds."""
    batch = graphs.batch(torch.arange(len(graphs)))
    edges, of = batch.graph.edge_index, batch.graph.batch
    x = torch.zeros(len(of), 1) if batch.x is None else batch.x
    colour = x.unique(dim=0, return_inverse=True)[1]
    found = []
    for round in range(ROUNDS + 1):
        colour = WLConv()(colour, edges) if round else colour
        ends = of.numpy().astype(np.int32), colour.numpy().astype(np.int32)  # trees read no other indices
        counts = sparse.csr_array((np.ones(len(of)), ends), (len(graphs), int(colour.max()) + 1))
        found.append(counts[:, np.flatnonzero((counts > 0).sum(0) > 1)])  # a colour of one graph tells nothing
        yield sparse.csr_array(sparse.hstack(found))


def hops(graphs: Graphs) -> Iterator[np.ndarray]:
    """Yield the features of the nodes and their repeated means over neighbours, `[nodes, f * (1 + rounds)]`."""
    assert graphs.x is not None
    (source, target), x = graphs.edge_index.long(), graphs.x.float()
    found = [x]
    for round in range(ROUNDS + 1):
        if round:
            found.append(scatter(found[-1][source], target, dim_size=len(x), reduce="mean"))
        yield torch.cat(found, 1).numpy()


def models(regression: bool, seed: int) -> Iterator[tuple[str, Any, bool]]:
    """Yield the name of each model, the model, and whether its features are dense."""
    for penalty in PENALTIES:
        line = Ridge(1 / penalty) if regression else LogisticRegression(C=penalty, max_iter=1000)
        yield f"linear, C={penalty:g}", make_pipeline(MaxAbsScaler(), line), False
    if regression:
        yield "boosted trees", HistGradientBoostingRegressor(loss="absolute_error", random_state=seed), True
    else:
        yield "random forest", RandomForestClassifier(TREES, random_state=seed, n_jobs=1), False


def dense(x: Any) -> np.ndarray:
    """Return the most frequent columns of counts."""
    return x[:, np.sort(np.argsort(-x.sum(0), kind="stable")[:MOST_COLOURS])].toarray()


def outputs(model: Any, x: Any, y: np.ndarray, train: np.ndarray, wanted: np.ndarray, classes: bool) -> np.ndarray:
    """Fit to the training samples, and return what the metric reads of the samples `wanted`."""
    if classes:
        model.fit(x[train], y[train, 0].astype(int))
        found = np.zeros((len(wanted), int(y.max()) + 1))
        found[:, model.classes_] = model.predict_proba(x[wanted])
        return found
    columns = []
    for column in y.T:
        known = train[np.isfinite(column[train])]
        model.fit(x[known], column[known])
        columns.append(
            model.predict_proba(x[wanted])[:, 1] if hasattr(model, "predict_proba") else model.predict(x[wanted])
        )
    return np.stack(columns, 1)


def fit(dataset: Dataset, graphs: Graphs, features: list[Any], split: Split, seed: int) -> ErrorsBySystem:
    """Fit all models to the training samples, and return the scores of the best on the validation samples."""
    objective = objective_of(dataset)
    metric = objective.metrics[dataset.metric]
    score, sign = metric.score, -1 if metric.lower_is_better else 1
    train, validation, test = (part.numpy() for part in split)
    y = graphs.y.numpy().reshape(len(graphs.y), -1).astype(float)
    target = y[:, 0].astype(int) if objective.classes else y
    tried = []
    for rounds, x in enumerate(features):
        for label, model, needs_dense in models(metric.lower_is_better, seed):
            seen = dense(x) if needs_dense else x
            out = outputs(model, seen, y, train, np.r_[validation, test], objective.classes)
            scores = score(out[: len(validation)], target[validation]), score(out[len(validation) :], target[test])
            tried.append(ErrorsBySystem(*scores, f"{rounds} rounds, {label}"))
    return max(tried, key=lambda found: sign * found.validation)


def row(name: str, root: Path, seeds: int | None) -> str:
    """Return a row of the table."""
    own_split, splits = SETS[name]
    loaded = load(find_dataset(name), root, Path("data/prepared/graphs"))
    dataset, graphs = loaded.dataset, loaded.graphs
    if own_split is not None:
        dataset = replace(dataset, split=own_split)
    features = list((hops if graphs.transductive else colours)(graphs))
    started, found = time.monotonic(), []
    for seed in range(seeds or splits):
        split = choose_split(dataset, graphs, loaded.splits, seed)
        found.append(fit(dataset, graphs, features, split, seed))
    cells = [f"{name}, {dataset.split}", dataset.metric]
    for values in zip(*((one.validation, one.test) for one in found), strict=True):
        spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
        cells.append(f"{statistics.mean(values):.4f}{spread}")
    chosen = Counter(one.chosen for one in found).most_common(2)
    cells += [str(len(found)), "; ".join(f"{label} ({times})" for label, times in chosen)]
    cells.append(f"{(time.monotonic() - started) / len(found):.0f}")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--seeds", type=int, help="splits, instead of each set's own number")
    parser.add_argument("--root", type=Path, default=Path("data/graphs"))
    options = parser.parse_args()
    warnings.simplefilter("ignore", sklearn.exceptions.ConvergenceWarning)
    print(f"scikit-learn {sklearn.__version__}, {platform.machine()}\n")
    print("| set | metric | validation | test | splits | chosen | s a split |\n|---|---|---|---|---|---|---|")
    for name in options.sets:
        print(row(name, options.root, options.seeds), flush=True)


if __name__ == "__main__":
    main()
