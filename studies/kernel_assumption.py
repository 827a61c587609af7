"""How often the assumption of KDLGT's Lemma 1 holds in a trained LSAT: Figure 3 of KDLGT.

The lemma bounds the error of the kernel's weights by c = sqrt((exp(|q + k|^2) - 1) / r) of r random features, if
it is below 1 for every pair of nodes. As in the paper, three layers are trained on NCI1, and each molecule gives
its largest c over pairs of atoms and heads.
"""

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from sstcast.benchmarks.graph_model import GraphModel
from sstcast.benchmarks.packed import GraphBatch
from sstcast.graphs.sparse import SparseGraph
from sstcast.models.kdlgt import StructureAware, StructureAwareAttention
from studies.molecules import train
from studies.study import Row, Study

LAYERS, GRAPHS, BATCH = 3, 1000, 50
SHOWN = {1: "bottom layer", LAYERS: "top layer"}
TRAINING = {True: "trained", False: "untrained"}


def study(root: Path = Path("data/graphs"), dataset: str = "NCI1", steps: int = 600) -> Study:
    """The bottom and the top layer, before and after training."""
    cases = [{"steps": 0}, {"steps": steps}]
    return Study(cases, partial(measure_case, root, dataset), tabulate, draw)


def measure_case(root: Path, dataset: str, steps: int) -> Iterator[Row]:
    """Give the logarithm of each molecule's largest c to the base 10, which may be beyond all floating numbers."""
    overrides = (f"model.layers={LAYERS}", "training.batch_size=32")
    task, predictor = train(dataset, "lsat", root, overrides, steps)
    assert isinstance(predictor.backbone, StructureAware)
    accuracy, _ = task.predict(predictor, task.split.test)
    chosen = np.random.default_rng(0).permutation(len(task.graphs))[:GRAPHS]
    for part in torch.from_numpy(chosen).split(BATCH):
        for layer, values in largest(predictor.backbone, predictor, task.batch(part)).items():
            for value in values.tolist():
                yield {"layer": layer, "log10_c": value, "accuracy": accuracy}


@torch.no_grad()
def largest(backbone: StructureAware, predictor: GraphModel, batch: GraphBatch) -> dict[int, Tensor]:
    """Return log10 of the largest c in each graph, by layer."""
    found: dict[int, Tensor] = {}

    def note(layer: int, attention: StructureAwareAttention, inputs: tuple[Tensor, SparseGraph]) -> None:
        q, k, _, mask = attention.project(*inputs)
        assert attention.directions is not None
        found[layer] = log_c(q, k, mask, len(attention.directions)).amax((1, 2, 3))

    layers = [part for part in backbone.modules() if isinstance(part, StructureAwareAttention)]
    hooks = [layers[layer - 1].register_forward_pre_hook(partial(note, layer)) for layer in SHOWN]
    predictor(batch)
    for hook in hooks:
        hook.remove()
    return found


def log_c(q: Tensor, k: Tensor, mask: Tensor, features: int) -> Tensor:
    """Return log10 of c for all pairs of nodes, `[graphs, heads, N, N]`, -inf for pairs without a node."""
    q, k = (part.double() * part.shape[-1] ** -0.25 for part in (q, k))  # as the kernel scales them
    squares = (q.unsqueeze(-2) + k.unsqueeze(-3)).square().sum(-1)
    logs = (squares + torch.log1p(-(-squares).exp()) - math.log(features)) / 2  # of exp(s) - 1, without overflow
    return (logs / math.log(10)).masked_fill(~(mask[:, None, :, None] & mask[:, None, None, :]), -torch.inf)


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Give the median and the range of c over molecules, and the share of molecules where the assumption holds."""
    return pd.DataFrame(
        {
            "LSAT": TRAINING[steps > 0],
            "layer": SHOWN[layer],
            "c, median": f"{10 ** logs.median():.3g}",
            "smallest": f"{10 ** logs.min():.3g}",
            "largest": f"{10 ** logs.max():.3g}",
            "molecules with c < 1, %": f"{100 * (logs < 0).mean():.1f}",
            "test accuracy": f"{group['accuracy'].iloc[0]:.3f}",
        }
        for (steps, layer), group in rows.groupby(["steps", "layer"])
        for logs in [group["log10_c"]]
    )


def draw(rows: pd.DataFrame) -> Figure:
    """Plot histograms over the molecules; the assumption holds left of the line."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    bins = np.linspace(min(-0.5, rows["log10_c"].min()), max(0.5, rows["log10_c"].max()), 60)
    for axes, (layer, name) in zip(figure.subplots(1, 2, sharey=True), SHOWN.items(), strict=True):
        for steps, group in rows[rows["layer"] == layer].groupby("steps"):
            axes.hist(group["log10_c"], bins, alpha=0.6, label=TRAINING[steps > 0])
        axes.axvline(0, color="C3", ls="--", label="c = 1")
        axes.set(title=name, xlabel="largest c of a molecule, log10")
    figure.axes[0].set(ylabel="molecules")
    figure.axes[0].legend()
    return figure
