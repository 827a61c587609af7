"""Which nodes Polynormer's global attention picks out: Figure 4 of Polynormer.

The paper's model is trained on minesweeper, the graph of Platonov et al. 2023 (arXiv:2302.11640): a grid whose
cells are linked to the eight around them. A fifth of the cells are mines, to be predicted; a node's feature is the
number of mines around it, which half of the nodes hide. Here a smaller grid of the same kind is drawn.
"""

from collections.abc import Iterator
from functools import partial

import networkx as nx
import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from scipy.sparse.csgraph import shortest_path
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.nn import functional as F

from sstcast.graphs.graph import Graph
from sstcast.graphs.sparse import SparseGraph
from sstcast.models.attention import split_heads
from sstcast.models.polynormer import GlobalLayer, Polynormer
from studies.study import Row, Study, batch_graphs, fit

MINES, HIDDEN, NEIGHBOURS = 0.2, 0.5, 8
SAMPLE, NEAR = 40, 5
MAPS = {
    "local": f"same label, at most {NEAR} hops",
    "global": "same label",
    "attention": "attention, last global layer",
}


class Sweeper(nn.Module):
    """Polynormer between linear maps."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.encoder = nn.Linear(NEIGHBOURS + 2, width)
        self.backbone = Polynormer(
            width, local_layers=6, global_layers=2, heads=4, dropout=0.2, global_dropout=0.2, edge_dim=0
        )
        self.heads = nn.ModuleDict({stage: nn.Linear(width, 2) for stage in ("local", "whole")})

    def forward(self, x: Tensor, graph: SparseGraph, stage: str = "whole") -> Tensor:
        """Return `[nodes, 2]`."""
        return self.heads[stage](self.backbone(self.encoder(x), graph))


def study(side: int = 40, local_steps: int = 200, steps: int = 200) -> Study:
    """One grid and one network."""
    return Study([{"seed": 0}], partial(measure_case, side, local_steps, steps), tabulate, draw)


def measure_case(side: int, local_steps: int, steps: int, seed: int) -> Iterator[Row]:
    """Train on half of the cells; give the maps of some others, mines first, and the attention to all pairs."""
    graph, x, mine = minefield(side, seed)
    torch.manual_seed(seed)
    order = torch.randperm(side**2)
    train, test = order[: side**2 // 2], order[side**2 // 2 :]
    model = Sweeper()

    def loss(stage: str, _: int) -> Tensor:
        return F.cross_entropy(model(x, graph, stage)[train], mine[train])

    for stage, count in (("local", local_steps), ("whole", steps)):
        model.backbone.enter(stage)
        fit(model, partial(loss, stage), count, rate=3e-3)
    model.eval()
    with torch.no_grad():
        scores = model(x, graph).softmax(-1)[test, 1]
        attention = attention_map(model.backbone, model.encoder(x), graph)[0].mean(0)
    chosen = test[:SAMPLE]
    chosen = chosen[mine[chosen].argsort(descending=True, stable=True)]
    same = mine[chosen, None] == mine[chosen]
    hops = shortest_path(nx.to_scipy_sparse_array(grid(side)), unweighted=True, indices=chosen.numpy())
    near = torch.from_numpy(hops[:, chosen.numpy()] <= NEAR)
    sampled = attention[chosen][:, chosen]
    maps = {"local": (same & near).double(), "global": same.double(), "attention": sampled / sampled.max()}
    for name, values in maps.items():
        for row, column in np.ndindex(*values.shape):
            yield {"what": name, "row": row, "column": column, "value": float(values[row, column])}
    auc = roc_auc_score(mine[test], scores)
    yield {"what": "test ROC-AUC", "row": 0, "column": 0, "value": auc}
    for of, name in ((1, "mines"), (0, "other cells")):
        rows = attention[test][mine[test] == of]
        ratio = rows[:, mine == of].mean() / rows[:, mine != of].mean()
        yield {"what": f"of {name}: same label / other label", "row": 0, "column": 0, "value": float(ratio)}


@torch.no_grad()
def attention_map(model: Polynormer, x: Tensor, graph: Graph) -> Tensor:
    """Return the weights of the last global layer, `[graphs, heads, N, N]`."""
    layer, inputs = model.global_layers[-1], list[Tensor]()
    assert isinstance(layer, GlobalLayer)
    hook = layer.register_forward_pre_hook(lambda _, arguments: inputs.append(arguments[0]))
    model(x, graph)
    hook.remove()
    return attention_weights(layer, inputs[0], graph)


def attention_weights(layer: GlobalLayer, x: Tensor, graph: Graph) -> Tensor:
    """Return the weights of a global layer of Polynormer on its input, `[graphs, heads, N, N]`."""
    key, mask = graph.dense(layer.key(x))
    query = key if layer.query is None else graph.dense(layer.query(x))[0]
    q, k = (split_heads(part.sigmoid(), layer.heads) for part in (query, key))
    scores = q @ k.transpose(-1, -2) * mask[:, None, None]
    return scores / scores.sum(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).tiny)


def grid(side: int) -> nx.Graph:
    """Return the graph of `side` x `side` cells, each linked to the eight around it."""
    return nx.convert_node_labels_to_integers(nx.strong_product(nx.path_graph(side), nx.path_graph(side)))


def minefield(side: int, seed: int) -> tuple[SparseGraph, Tensor, Tensor]:
    """Return the graph, the features `[nodes, 10]` (number of mines around, hidden) and where the mines are."""
    cells, generator = grid(side), np.random.default_rng(seed)
    mine = generator.permutation(side**2) < round(MINES * side**2)
    around = nx.to_scipy_sparse_array(cells) @ mine.astype(int)
    hidden = generator.random(side**2) < HIDDEN
    x = np.eye(NEIGHBOURS + 2, dtype=np.float32)[np.where(hidden, NEIGHBOURS + 1, around)]
    return batch_graphs([cells]), torch.from_numpy(x), torch.from_numpy(mine.astype(np.int64))


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Give the score, and the mean attention to nodes of the same label over that to the others."""
    numbers = rows[~rows["what"].isin(MAPS)]
    return pd.DataFrame({"": numbers["what"], "value": [f"{value:.3f}" for value in numbers["value"]]})


def draw(rows: pd.DataFrame) -> Figure:
    """Draw the three maps, mines first."""
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    for axes, (name, title) in zip(figure.subplots(1, 3), MAPS.items(), strict=True):
        values = rows[rows["what"] == name].pivot(index="row", columns="column", values="value")
        image = axes.imshow(values, cmap="viridis", vmin=0, vmax=1)
        axes.set(title=title, xlabel="node (mines first)")
    figure.axes[0].set(ylabel="node (mines first)")
    figure.colorbar(image, ax=figure.axes, shrink=0.8)
    return figure
