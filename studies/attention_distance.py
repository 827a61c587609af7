"""How far the heads of a trained TokenGT look, layer by layer: Figure 3 of TokenGT.

The paper's model is trained on PCQM4Mv2; here it is a smaller one, trained on NCI1.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pandas as pd
import torch
from matplotlib.figure import Figure

from sstcast.models.attention_distance import attention_distances
from sstcast.models.tokengt import TokenGT
from studies.molecules import train
from studies.study import Row, Study

NAMES = {"orf": "TokenGT (ORF)", "laplacian": "TokenGT (Lap)"}
GRAPHS = 200


def study(
    root: Path = Path("data/graphs"), dataset: str = "NCI1", layers: int = 6, heads: int = 8, steps: int = 300
) -> Study:
    """Either kind of node identifiers, untrained and trained."""
    cases = [{"identifiers": kind, "steps": count} for kind in NAMES for count in (0, steps)]
    return Study(cases, partial(measure_case, root, dataset, layers, heads), tabulate, draw)


def measure_case(root: Path, dataset: str, layers: int, heads: int, identifiers: str, steps: int) -> Iterator[Row]:
    """Give the mean distance of each head on test molecules, in hops, and their accuracy."""
    overrides = (
        f"model.layers={layers}",
        f"model.heads={heads}",
        "model.width=64",
        "model.dropout=0.0",
        "model.attention=softmax",
        f"model.identifiers={identifiers}",
        f"model.identifier_size={64 if identifiers == 'orf' else 16}",
        "predictor.readout=token",
        "training.batch_size=32",
    )
    task, predictor = train(dataset, "tokengt", root, overrides, steps)
    assert isinstance(predictor.backbone, TokenGT)
    batch = task.batch(task.split.test[:GRAPHS])
    with torch.no_grad():
        x = predictor.encode_nodes(batch)
    accuracy = task.score(predictor, task.split.test)
    for layer, distances in enumerate(attention_distances(predictor.backbone, x, batch.graph).tolist(), 1):
        for head, hops in enumerate(distances, 1):
            yield {"layer": layer, "head": head, "hops": hops, "accuracy": accuracy}


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """Give the mean and the range over heads in the first and in the last layer."""
    own = rows[rows["steps"] > 0].groupby(["identifiers", "layer"], sort=False)
    return pd.DataFrame(
        {
            "identifiers": NAMES[identifiers],
            "layer": layer,
            "mean, hops": f"{hops.mean():.2f}",
            "nearest head": f"{hops.min():.2f}",
            "farthest head": f"{hops.max():.2f}",
            "test accuracy": f"{group['accuracy'].iloc[0]:.3f}",
        }
        for (identifiers, layer), group in own
        for hops in [group["hops"]]
    )


def draw(rows: pd.DataFrame) -> Figure:
    """Plot a dot for each head, and the mean without training as a line."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for axes, (identifiers, name) in zip(figure.subplots(1, 2, sharey=True), NAMES.items(), strict=True):
        own = rows[rows["identifiers"] == identifiers]
        trained = own[own["steps"] > 0]
        axes.scatter(trained["layer"], trained["hops"], s=18, c=trained["head"], cmap="viridis")
        before = own[own["steps"] == 0].groupby("layer")["hops"].mean()
        axes.plot(before.index, before, "0.6", ls="--", label="mean without training")
        axes.set(title=name, xlabel="layer", xticks=before.index)
    figure.axes[0].set(ylabel="mean attention distance, hops", ylim=(0, 1.1 * rows["hops"].max()))
    figure.axes[0].legend()
    return figure
