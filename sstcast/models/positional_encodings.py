"""Positional encodings: `forward(graph)` returns a vector per node, to be added to its features."""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sstcast.graphs.graph import Graph


class LaplacianEncoding(nn.Module):
    """`rho(sum_k phi(v_ik, lambda_k))` over k eigenpairs (LapPE; Rampasek et al. 2022, arXiv:2205.12454).

    In training each eigenvector of a graph gets a random sign in each pass, since the sign is arbitrary. Samples
    on one grid share the signs.
    """

    def __init__(self, width: int, pairs: int = 16, hidden: int = 32) -> None:
        super().__init__()
        self.pairs = pairs
        self.phi = nn.Sequential(nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.rho = nn.Linear(hidden, width)

    def forward(self, graph: Graph) -> Tensor:
        """Return `[1, H*W, width]` on a grid, `[nodes, width]` on a sparse graph."""
        vectors, values = graph.laplacian(self.pairs)
        if self.training:
            vectors = vectors * graph.spread(torch.randint(0, 2, values.shape, device=values.device) * 2.0 - 1)
        values = graph.spread(values).expand_as(vectors)
        pairs = self.phi(torch.stack([vectors, values], dim=-1))
        return self.rho(pairs.masked_fill(values.unsqueeze(-1) == 0, 0).sum(-2))  # 0: padding


class RandomWalkEncoding(nn.Module):
    """A linear map of landing probabilities, each scaled by BatchNorm (Dwivedi et al. 2022, arXiv:2110.07875)."""

    def __init__(self, width: int, steps: int = 16) -> None:
        super().__init__()
        self.steps = steps
        self.norm = nn.BatchNorm1d(steps)
        self.linear = nn.Linear(steps, width)

    def forward(self, graph: Graph) -> Tensor:
        """Return `[1, H*W, width]` on a grid, `[nodes, width]` on a sparse graph."""
        walk = graph.random_walk(self.steps)
        rows = walk.flatten(0, -2)
        if len(rows) == 1:  # a single node has no variance
            norm = self.norm
            rows = F.batch_norm(rows, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps)
        else:
            rows = self.norm(rows)
        return self.linear(rows.reshape(walk.shape))


Positional = Literal["none", "lap", "rwse"]


def build_encoding(name: Positional, width: int) -> LaplacianEncoding | RandomWalkEncoding | None:
    """Build the encoding called `name`, None for `none`."""
    if name == "none":
        return None
    return LaplacianEncoding(width) if name == "lap" else RandomWalkEncoding(width)
