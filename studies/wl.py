"""Which models tell circular skip link graphs apart: all are 4-regular, and so the same to 1-WL.

CSL (Murphy et al. 2019, arXiv:1903.02541) has 10 classes of 15 graphs with 41 nodes: a ring, and from every node
another edge to the one R further on. Graphs of a class differ in the numbering of nodes. Nodes carry no features.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from sklearn.model_selection import StratifiedKFold
from torch import Tensor, nn
from torch.nn import functional as F

from sstcast.graphs.sparse import SparseGraph
from sstcast.models import build_model
from sstcast.models.base import Positional, build_encoding
from studies.study import Row, Study, batch_graphs, fit, spread

NODES, COPIES, FOLDS = 41, 15, 5
SKIPS = (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)
WIDTH = 32


class Contender(NamedTuple):
    """A backbone with its options, and the positional encoding added to its input."""

    backbone: str
    positional: Positional
    options: dict[str, Any]


CONTENDERS = {
    "MPNN": Contender("mpnn", "none", {"edge_dim": 0}),
    "MPNN + VN": Contender("mpnn-vn", "none", {"edge_dim": 0}),
    "GPS": Contender("gps", "none", {"edge_dim": 0, "layers": 2}),
    "Polynormer": Contender("polynormer", "none", {"edge_dim": 0, "local_layers": 2, "global_layers": 1}),
    "MPNN + RWSE": Contender("mpnn", "rwse", {"edge_dim": 0}),
    "GPS + RWSE": Contender("gps", "rwse", {"edge_dim": 0, "layers": 2}),
    "MPNN + LapPE": Contender("mpnn", "lap", {"edge_dim": 0}),
    "TokenGT (Lap)": Contender("tokengt", "none", {"edge_dim": 0, "layers": 2, "attention": "softmax"}),
}
WITHIN_1WL = tuple(CONTENDERS)[:4]


class Classifier(nn.Module):
    """The same vector on every node and its positional encoding, a backbone, the nodes' mean, a linear layer."""

    def __init__(self, contender: Contender) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.randn(WIDTH))
        self.position = build_encoding(contender.positional, WIDTH)
        self.backbone = build_model(contender.backbone, width=WIDTH, **contender.options)
        self.head = nn.Linear(WIDTH, len(SKIPS))

    def forward(self, graph: SparseGraph) -> Tensor:
        """Return `[graphs, classes]`."""
        x = self.start.expand(len(graph.batch), -1)
        if self.position is not None:
            x = x + self.position(graph)
        return self.head(graph.pool(self.backbone(x, graph)))


def study(
    models: Sequence[str] = tuple(CONTENDERS), folds: Sequence[int] = range(FOLDS), epochs: int = 150
) -> Study:
    """Every contender on `folds` of the five."""
    cases = [{"model": model, "fold": fold} for model in models for fold in folds]
    return Study(cases, partial(measure_case, epochs), tabulate, draw)


def measure_case(epochs: int, model: str, fold: int, batch_size: int = 30) -> Iterator[Row]:
    """Train on four fifths of the graphs; give the accuracy on the others."""
    graphs, classes = skip_link_graphs(seed=0)
    train, test = list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(classes, classes))[fold]
    torch.manual_seed(fold)
    classifier = Classifier(CONTENDERS[model])
    order = np.random.default_rng(fold).permutation(train)
    batches = [
        (batch_graphs([graphs[i] for i in part]), torch.from_numpy(classes[part]))
        for part in np.array_split(order, len(order) // batch_size)
    ]

    def loss(step: int) -> Tensor:
        graph, labels = batches[step % len(batches)]
        return F.cross_entropy(classifier(graph), labels)

    fit(classifier, loss, epochs * len(batches), rate=0.01)
    with torch.no_grad():
        predicted = classifier.eval()(batch_graphs([graphs[i] for i in test])).argmax(1)
    yield {"accuracy": 100 * float((predicted.numpy() == classes[test]).mean())}


def skip_link_graphs(seed: int) -> tuple[list[nx.Graph], np.ndarray]:
    """Return the 150 graphs, their nodes numbered at random, and their classes."""
    generator = np.random.default_rng(seed)
    graphs = [
        nx.relabel_nodes(nx.circulant_graph(NODES, [1, skip]), dict(enumerate(generator.permutation(NODES))))
        for skip in SKIPS
        for _ in range(COPIES)
    ]
    return graphs, np.repeat(np.arange(len(SKIPS)), COPIES)


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Give the accuracies over the folds."""
    return pd.DataFrame(
        {
            "model": name,
            "no more than 1-WL": "yes" if name in WITHIN_1WL else "no",
            "accuracy, %": spread(own["accuracy"], ".1f"),
        }
        for name, own in rows.groupby("model", sort=False)
    )


def draw(rows: pd.DataFrame) -> Figure:
    """Plot the mean accuracies and the folds."""
    means = rows.groupby("model", sort=False)["accuracy"].mean()[::-1]
    figure = Figure(figsize=(7, 0.6 + 0.38 * len(means)), layout="constrained")
    axes = figure.subplots()
    axes.barh(means.index, means, color=["0.6" if name in WITHIN_1WL else "C0" for name in means.index])
    axes.plot(rows["accuracy"], rows["model"], "k.", ms=4)
    chance = 100 / len(SKIPS)
    axes.axvline(chance, color="C3", ls="--", label=f"chance, {chance:.0f} %")
    axes.set(xlabel="accuracy on CSL, % (bars: mean of the folds, which are the dots)", xlim=(0, 103))
    axes.legend(loc="upper right")
    return figure
