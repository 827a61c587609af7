"""The task `link-ranking`: whether two nodes of a graph are linked."""

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from sstcast.benchmarks.dataset import Dataset
from sstcast.benchmarks.objective import Objective
from sstcast.benchmarks.packed import GraphBatch


class Links(Objective):
    """Predicts whether two nodes are linked, from the product of their vectors, the model's outputs.

    For each true link, the metric ranks the second node among all nodes of the graph. It averages over a graph's
    links, then over graphs, as in Dwivedi et al. 2022; half of the tied nodes count as ranked ahead.
    """

    level = "pair"
    metrics: ClassVar = {"mrr": lambda prediction, target: float(prediction.mean())}  # of the graphs' means
    outputs = 64

    def __init__(self, y: Tensor, training: Tensor, dataset: Dataset) -> None:
        pass

    @classmethod
    def wrong(cls, values: Tensor, dataset: Dataset) -> tuple[Tensor, str]:
        return ~((values == 0) | (values == 1)), "0 or 1"

    @classmethod
    def shaped(cls, y: Tensor) -> Tensor:
        return y

    @classmethod
    def labels_of(cls, data: object, nodes: int) -> dict[str, Tensor]:
        pairs, y = getattr(data, "edge_label_index", None), getattr(data, "edge_label", None)
        if pairs is None or y is None:
            raise ValueError("no edge_label_index or no edge_label")
        return {"pairs": pairs, "y": y.float()}

    def weight(self, batch: GraphBatch) -> Tensor:
        return torch.tensor(len(batch.y))

    def loss(self, out: Tensor, batch: GraphBatch) -> Tensor:
        assert batch.pairs is not None
        scores = (out[batch.pairs[0]] * out[batch.pairs[1]]).sum(1)
        return F.binary_cross_entropy_with_logits(scores, batch.y.to(scores.dtype), reduction="sum")

    def judged(self, out: Tensor, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Return each graph's mean reciprocal rank of its true links (0 if it has none), as both values."""
        from torch_geometric.utils import scatter

        assert batch.pairs is not None
        source, target = batch.pairs[:, batch.y > 0]
        nodes, mask = batch.graph.dense(out)
        own = batch.graph.batch
        scores = (nodes[own[source]] @ out[source].unsqueeze(-1)).squeeze(-1)
        true = (out[source] * out[target]).sum(1, keepdim=True)
        others = mask[own[source]].scatter(1, _place(batch)[target].unsqueeze(1), False)
        ahead = ((scores > true) & others).sum(1)
        level = ((scores == true) & others).sum(1)
        ranks = scatter(1 / (1 + ahead + 0.5 * level), own[source], dim_size=batch.graph.graphs, reduce="mean")
        return ranks, ranks


def _place(batch: GraphBatch) -> Tensor:
    """Return each node's number within its graph."""
    own = batch.graph.batch
    sizes = torch.bincount(own, minlength=batch.graph.graphs)
    return torch.arange(len(own), device=own.device) - (sizes.cumsum(0) - sizes)[own]
