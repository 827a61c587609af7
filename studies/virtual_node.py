"""How well MPNN with a virtual node learns to imitate linear attention: Theorem 4.1 of Cai et al. 2023.

The theorem (arXiv:2301.11956) says that MPNN + VN of constant width and depth can approximate a layer of linear
attention as closely as one likes. Here it is trained to imitate one with fixed random weights, on rings of nodes
with random features, beside the same network without the virtual node, which sees three nodes to either side.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import networkx as nx
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from sstcast.models import build_model
from sstcast.models.attention import LinearAttention
from studies.study import Row, Study, batch_graphs, fit, label_decades, spread

CHANNELS, NODES, RINGS = 4, 16, 32
SHARPNESS = 8.0  # times the usual size of query and key weights, so that nodes attend to different ones
MODELS = {"mpnn": "MPNN", "mpnn-vn": "MPNN + VN"}


class Target(nn.Module):
    """A layer of linear attention with one head, its outputs standardised over all inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = LinearAttention(CHANNELS, heads=1)
        self.attention.qkv.weight.data[: 2 * CHANNELS] *= SHARPNESS
        with torch.no_grad():
            outputs = self.attention(features(4096), torch.ones(4096, NODES, dtype=torch.bool))
        self.mean, self.std = outputs.mean((0, 1)), outputs.std((0, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return `[B, NODES, CHANNELS]`."""
        return (self.attention(x, torch.ones(x.shape[:2], dtype=torch.bool)) - self.mean) / self.std


def study(
    widths: Sequence[int] = (4, 8, 16, 32, 64, 128),
    seeds: Sequence[int] = (0, 1, 2),
    steps: int = 1000,
    layers: int = 3,
) -> Study:
    """Both networks at all `widths`; a seed draws the target as well as the training."""
    cases = [
        {"model": model, "width": width, "seed": seed} for seed in seeds for model in MODELS for width in widths
    ]
    return Study(cases, partial(measure_case, steps, layers), tabulate, draw)


def measure_case(steps: int, layers: int, model: str, width: int, seed: int) -> Iterator[Row]:
    """Train on fresh features at each step; give the error on others, a share of the target's variance."""
    torch.manual_seed(seed)
    target = Target().requires_grad_(False)
    graph = batch_graphs([nx.cycle_graph(NODES)] * RINGS)
    encoder, backbone = nn.Linear(CHANNELS, width), build_model(model, width=width, layers=layers, edge_dim=0)
    network = nn.ModuleList([encoder, backbone, nn.Linear(width, CHANNELS)])

    def batch_error() -> Tensor:
        x = features(RINGS)
        y = network[2](backbone(encoder(x.flatten(0, 1)), graph)).unflatten(0, (RINGS, NODES))
        return (y - target(x)).square().mean()

    fit(network, lambda step: batch_error(), steps, rate=0.005)
    torch.manual_seed(1_000_000 + seed)
    with torch.no_grad():
        yield {"error": torch.stack([batch_error() for _ in range(50)]).mean().item()}


def features(rings: int) -> Tensor:
    """Draw `[rings, NODES, CHANNELS]`, uniform on a cube: the theorem asks for bounded features."""
    return 2 * torch.rand(rings, NODES, CHANNELS) - 1


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Give the errors by width, over the seeds."""
    table = []
    for width, own in rows.groupby("width"):
        by_model = {label: own.loc[own["model"] == name, "error"] for name, label in MODELS.items()}
        table.append({"width": width} | {label: spread(error, ".4f") for label, error in by_model.items()})
    return pd.DataFrame(table)


def draw(rows: pd.DataFrame) -> Figure:
    """Plot the errors against the width, the seeds as dots."""
    figure = Figure(figsize=(6.5, 4.5), layout="constrained")
    axes = figure.subplots()
    for number, (name, label) in enumerate(MODELS.items()):
        own = rows[rows["model"] == name]
        axes.plot(own["width"], own["error"], f"C{number}.", alpha=0.5)
        axes.plot(own.groupby("width")["error"].mean(), f"C{number}o-", label=label)
    widths = rows["width"].unique()
    axes.set(xscale="log", yscale="log", xlabel="width", ylabel="squared error / variance of the target")
    axes.set_xticks(widths, widths)
    axes.set_xticks([], minor=True)
    label_decades(axes.yaxis)
    axes.grid(alpha=0.3, which="both")
    axes.legend(loc="lower left")
    return figure
