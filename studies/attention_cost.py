"""Time and memory of each attention inside GPS, against nodes and against edges, on Erdos-Renyi graphs.

The questions are those of Primphormer's Table 4 and Polynormer's Figure 5, whose graphs have an average degree of
about 5. One layer, forward and backward; `none` is GPS without attention, and Polynormer has one local and one
global layer.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import networkx as nx
import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sstcast.graphs.sparse import SparseGraph
from sstcast.models import build_model
from sstcast.models.base import Backbone
from sstcast.models.layers import ATTENTIONS
from studies.measure import median_seconds, peak_bytes
from studies.study import Row, Study, batch_graphs, label_decades

MODELS = ("none", *ATTENTIONS, "polynormer")
QUADRATIC = "softmax"
MEASURES = {"milliseconds": "time, ms", "megabytes": "memory, MB"}


def study(
    sizes: Sequence[int] = (2**10, 2**11, 2**12, 2**13, 2**14, 2**15),
    degrees: Sequence[int] = (5, 10, 20, 40),
    middle: int = 2**12,
    quadratic_up_to: int = 2**14,
    width: int = 64,
    heads: int = 4,
    repeats: int = 3,
    seed: int = 0,
) -> Study:
    """All `sizes` at the first of the `degrees`, and all `degrees` with `middle` nodes.

    Softmax attention is left out beyond `quadratic_up_to` nodes.
    """
    points = dict.fromkeys([(n, degrees[0]) for n in sizes] + [(middle, degree) for degree in degrees])
    measure = partial(measure_point, quadratic_up_to, width, heads, repeats, seed)
    return Study([{"nodes": n, "degree": degree} for n, degree in points], measure, tabulate, draw)


def measure_point(
    quadratic_up_to: int, width: int, heads: int, repeats: int, seed: int, nodes: int, degree: int
) -> Iterator[Row]:
    """Give milliseconds and megabytes (1e6 bytes, beside parameters and their gradients) of every model."""
    graph = batch_graphs([nx.gnm_random_graph(nodes, nodes * degree // 2, seed)])
    torch.manual_seed(seed)
    x = torch.randn(nodes, width)
    passes = {
        name: partial(train_pass, build(name, width, heads), x, graph)
        for name in MODELS
        if name != QUADRATIC or nodes <= quadratic_up_to
    }
    seconds = median_seconds(passes, repeats)
    for name, run in passes.items():
        yield {
            "attention": name,
            "edges": graph.edge_index.shape[1] // 2,
            "milliseconds": 1e3 * seconds[name],
            "megabytes": peak_bytes(run) / 1e6,
        }


def build(name: str, width: int, heads: int) -> Backbone:
    """Build one layer of GPS with the attention called `name`, or Polynormer."""
    options = {"width": width, "heads": heads, "edge_dim": 0}
    if name == "polynormer":
        return build_model(name, local_layers=1, global_layers=1, **options)
    return build_model("gps", layers=1, attention=name, **options)


def train_pass(model: Backbone, x: torch.Tensor, graph: SparseGraph) -> None:
    """Run forward and backward."""
    (model(x, graph).square().mean() + model.auxiliary_loss()).backward()


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Give time and memory at two sizes and the slopes of both in a log-log plot."""
    by_nodes, by_edges = sweeps(rows)
    sizes = [by_edges["nodes"].iloc[0], by_nodes["nodes"].max()]
    table = []
    for name in rows["attention"].unique():
        own, own_edges = (part[part["attention"] == name] for part in (by_nodes, by_edges))
        line = {"attention": name}
        for size in sizes:
            at = own[own["nodes"] == size]
            for column, label in MEASURES.items():
                line[f"N = {size}: {label}"] = "-" if at.empty else f"{at[column].iloc[0]:.0f}"
        for column, label in MEASURES.items():
            line[f"slope in N: {label.split(',')[0]}"] = f"{slope(own['nodes'], own[column]):.2f}"
            line[f"slope in edges: {label.split(',')[0]}"] = f"{slope(own_edges['edges'], own_edges[column]):.2f}"
        table.append(line)
    return pd.DataFrame(table)


def draw(rows: pd.DataFrame) -> Figure:
    """Plot time and memory against nodes and against edges."""
    figure = Figure(figsize=(14, 8), layout="constrained")
    grid = figure.subplots(2, 2)
    by_nodes, by_edges = sweeps(rows)
    for row, (column, label) in zip(grid, MEASURES.items(), strict=True):
        draw_sweep(row[0], by_nodes, "nodes", column, label)
        draw_sweep(row[1], by_edges, "edges", column, label)
    grid[0, 0].set_title(f"average degree {by_nodes['degree'].iloc[0]}")
    grid[0, 1].set_title(f"{by_edges['nodes'].iloc[0]} nodes")
    return figure


def draw_sweep(axes: Axes, rows: pd.DataFrame, against: str, column: str, label: str) -> None:
    """Plot one line an attention, with its slope in the legend."""
    for number, name in enumerate(MODELS):
        own = rows[rows["attention"] == name].sort_values(against)
        style = f"C{number}{'os^vD'[number % 5]}{'--' if number > 4 else '-'}"
        axes.plot(own[against], own[column], style, ms=5, label=f"{name}: {slope(own[against], own[column]):.2f}")
    axes.set(xscale="log", yscale="log", xlabel=against, ylabel=label)
    ticks = rows[against].unique()
    axes.set_xticks(ticks, ticks)
    axes.set_xticks([], minor=True)
    label_decades(axes.yaxis)
    axes.grid(alpha=0.3)
    axes.legend(title="slope", fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))


def sweeps(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of the smallest degree, and the rows of the size that has several degrees."""
    most = rows["degree"].idxmax()
    return rows[rows["degree"] == rows["degree"].min()], rows[rows["nodes"] == rows["nodes"][most]]


def slope(x: pd.Series, y: pd.Series) -> float:
    """Return the exponent p of y ~ x^p, fitted to the three largest x."""
    order = np.argsort(x.to_numpy())[-3:]
    return float(np.polyfit(np.log(x.to_numpy()[order]), np.log(y.to_numpy()[order]), 1)[0])
