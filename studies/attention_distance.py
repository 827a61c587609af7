"""How far the heads of a trained TokenGT look, layer by layer: Figure 3 of TokenGT.

The paper's model is trained on PCQM4Mv2; here it is a smaller one, trained on NCI1.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from sstcast.errors import SSTCastError
from sstcast.graphs.graph import Graph
from sstcast.graphs.paths import path_distances
from sstcast.models.attention import SoftmaxAttention, split_heads
from sstcast.models.transformers import EncoderLayer, TokenGT
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
    accuracy, _ = task.predict(predictor, task.split.test)
    for layer, distances in enumerate(attention_distances(predictor.backbone, x, batch.graph).tolist(), 1):
        for head, hops in enumerate(distances, 1):
            yield {"layer": layer, "head": head, "hops": hops, "accuracy": accuracy}


@torch.no_grad()
def attention_distances(model: TokenGT, x: Tensor, graph: Graph) -> Tensor:
    """Return the hops between two tokens, a mean weighted by the attention that one pays to the other.

    `x` and `graph` are the model's input; the result is `[layers, heads]`, a mean over all tokens. Two tokens are
    as far apart as the nearest of their nodes, so an edge is at 0 hops from its ends. The graph token, and pairs
    of tokens without a path, are left out.

    Raises SSTCastError if the model's attention is not softmax, since others have no weights.
    """
    tokens, mask = model.embed(x, graph, model.draw_identifiers(x, graph))
    hops, (_, real) = path_distances(graph).to(x.device), graph.dense(x[..., :1])
    place = graph.sparse(torch.arange(real.shape[1], device=x.device).expand(real.shape).unsqueeze(-1))
    (nodes, _), edges = graph.dense(place), graph.dense_edges(place)
    ends = torch.cat([nodes.expand(-1, -1, 2), torch.cat([edges.source, edges.target], dim=-1)], dim=1)
    near = hops.gather(1, ends.flatten(1).unsqueeze(-1).expand(-1, -1, hops.shape[2]))
    apart = near.gather(2, ends.flatten(1).unsqueeze(1).expand(-1, near.shape[1], -1))
    apart = apart.unflatten(2, (-1, 2)).amin(3).unflatten(1, (-1, 2)).amin(2).unsqueeze(1)
    known = apart.isfinite() & mask[:, None, 1:, None] & mask[:, None, None, 1:]
    distances = []
    for layer in model.layers:
        assert isinstance(layer, EncoderLayer)
        if not isinstance(layer.attention, SoftmaxAttention):
            raise SSTCastError("attention: only softmax has weights, whose distance can be measured")
        q, k, _ = layer.attention.qkv(layer.attention_norm(tokens)).chunk(3, dim=-1)
        q, k = split_heads(q, layer.attention.heads)[:, :, 1:], split_heads(k, layer.attention.heads)[:, :, 1:]
        scores = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).masked_fill(~known, -torch.inf)
        weights = scores.softmax(-1).masked_fill(~known, 0)
        rows = known.any(-1).sum((0, 2))
        distances.append((weights * apart.masked_fill(~known, 0)).sum((0, 2, 3)) / rows)
        tokens = layer(tokens, mask)
    return torch.stack(distances)


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
