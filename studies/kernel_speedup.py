"""How much faster LSAT is than SAT on random 6-regular graphs: Figure 2 of KDLGT.

One layer and four heads, forward alone and with backward. SAT comes twice: as published, with the N x N weights in
memory, and with torch's fused kernel, which computes the same and never stores them.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import networkx as nx
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn import functional as F

from sstcast.graphs.sparse import SparseGraph
from sstcast.models.kdlgt import StructureAware, StructureAwareAttention
from sstcast.models.transformers import Transformer
from studies.measure import median_seconds
from studies.study import Row, Study, batch_graphs, label_decades

CLASSES = 5
LIMIT = 8 * 2**30  # bytes of the largest array of SAT
PUBLISHED = 9.63  # the largest ratio that the paper reports
PHASES = ("evaluation", "training")
ORIGINALS = {"SAT": "-", "SAT, fused": ":"}


class ExplicitAttention(StructureAwareAttention):
    """`sat` with its weights in memory, one head after the other; for one graph, which needs no mask."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """Return `[1, heads, N, d]`; for the backward pass, the weights `[N, N]` of every head are kept."""
        scale, heads = q.shape[-1] ** -0.5, zip(q.unbind(1), k.unbind(1), v.unbind(1), strict=True)
        return torch.stack(
            [(scale * q_h @ k_h.transpose(1, 2)).softmax(-1) @ v_h for q_h, k_h, v_h in heads], dim=1
        )


def study(
    sizes: Sequence[int] = (2**11, 2**12, 2**13, 2**14, 2**15),
    widths: Sequence[int] = (32, 64),
    heads: int = 4,
    seed: int = 0,
) -> Study:
    """All `sizes` (nodes) and `widths`; the weights of SAT must fit into `LIMIT`, or it is left out."""
    cases = [{"nodes": nodes, "width": width} for nodes in sizes for width in widths]
    return Study(cases, partial(measure_case, heads, seed), tabulate, draw)


def measure_case(heads: int, seed: int, nodes: int, width: int) -> Iterator[Row]:
    """Give the milliseconds of every model in either phase."""
    graph = batch_graphs([nx.random_regular_graph(6, nodes, seed)])
    torch.manual_seed(seed)
    x, labels = torch.randn(nodes, width), torch.randint(CLASSES, (nodes,))
    models = build(width, heads)
    if 4 * nodes**2 * (heads + 2) > LIMIT:  # every head's weights, and two more on the way back
        del models["SAT"]
    for phase in PHASES:
        passes = {name: partial(run, phase, model, x, labels, graph) for name, model in models.items()}
        seconds = median_seconds(passes, min(16, max(3, 2**15 // nodes)))
        for name, value in seconds.items():
            yield {"phase": phase, "model": name, "milliseconds": 1e3 * value}


def build(width: int, heads: int, hops: int = 2) -> dict[str, nn.ModuleList]:
    """Build LSAT and both forms of SAT, each with a classifier of nodes."""
    options: dict[str, Any] = {"width": width, "heads": heads, "hops": hops, "edge_dim": 0}
    backbones = {
        "LSAT": StructureAware(layers=1, **options),
        "SAT": Transformer(width, [ExplicitAttention(**options, features=0)], dropout=0.0),
        "SAT, fused": StructureAware(layers=1, linear=False, **options),
    }
    return {name: nn.ModuleList([backbone, nn.Linear(width, CLASSES)]) for name, backbone in backbones.items()}


def run(phase: str, model: nn.ModuleList, x: Tensor, labels: Tensor, graph: SparseGraph) -> None:
    """Classify nodes, and in training go back through it."""
    backbone, head = model
    with torch.set_grad_enabled(phase == "training"):
        loss = F.cross_entropy(head(backbone(x, graph)), labels)
    if phase == "training":
        loss.backward()


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Give the times, and their ratios to the time of LSAT."""
    table = []
    for (phase, width, nodes), times in times_of(rows).iterrows():
        line = {"phase": phase, "d": width, "N": nodes, "LSAT, ms": f"{times['LSAT']:.0f}"}
        for name in ORIGINALS:
            line |= {f"{name}, ms": text(times[name], ".0f"), f"{name} / LSAT": text(times[name] / times["LSAT"])}
        table.append(line)
    return pd.DataFrame(table)


def draw(rows: pd.DataFrame) -> Figure:
    """Plot the ratios against the number of nodes, a panel a phase."""
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    times = times_of(rows)
    for axes, phase in zip(figure.subplots(1, len(PHASES), sharey=True), PHASES, strict=True):
        for number, width in enumerate(rows["width"].unique()):
            own = times.loc[phase, width]
            for name, style in ORIGINALS.items():
                axes.plot(own.index, own[name] / own["LSAT"], f"C{number}o{style}", label=f"{name}, d = {width}")
        axes.axhline(PUBLISHED, color="0.5", lw=1, ls="--", label=f"the paper's best, {PUBLISHED}")
        axes.axhline(1, color="0.5", lw=1)
        axes.set_xscale("log", base=2)
        axes.set(yscale="log", xlabel="nodes", title=phase)
        label_decades(axes.yaxis)
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("time / time of LSAT")
    figure.axes[0].legend(fontsize="small")
    return figure


def times_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Return milliseconds by phase, width and nodes, a column a model; NaN where one was left out."""
    times = rows.pivot_table("milliseconds", ["phase", "width", "nodes"], "model")
    return times.reindex(columns=["LSAT", *ORIGINALS])


def text(value: float, form: str = ".1f") -> str:
    """Return a number, or a dash for NaN."""
    return "-" if pd.isna(value) else format(value, form)
