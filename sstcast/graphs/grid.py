"""`GridGraph`: a regular grid, whose edges are shifted planes."""

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

from sstcast.graphs.graph import Planes, Reduce
from sstcast.graphs.positional import landing_probabilities, laplacian_basis


class GridGraph:
    """B samples on one grid of `height` x `width` nodes, each joined to its 8 nearest.

    Edges are shifted planes: nothing is gathered or scattered. `mask`, `[B, H*W]` or `[1, H*W]`, is True
    on nodes that take part (ocean). `wrap` joins the last column to the first (a whole globe).
    `edge_attr` is the offset (dx, dy) from target to source in cells.
    """

    OFFSETS = tuple((dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if (dy, dx) != (0, 0))

    def __init__(
        self,
        height: int,
        width: int,
        mask: Tensor | None = None,
        wrap: bool = False,
        geography: Tensor | None = None,
    ) -> None:
        self.height, self.width, self.wrap, self.geography = height, width, wrap, geography
        self.mask = torch.ones(1, height * width, dtype=torch.bool) if mask is None else mask
        # [B, H*W, 1] a direction: True where the source lies off the grid or takes no part.
        self.no_edge = [~plane for plane in self.source(self.mask.unsqueeze(-1))]
        self.degree = torch.stack([~plane for plane in self.no_edge]).sum(0)
        offsets = [(float(dx), float(dy)) for dy, dx in self.OFFSETS]
        self.edge_attr = list(torch.tensor(offsets, device=self.mask.device))

    def source(self, x: Tensor) -> Planes:
        """Return node features at each edge's source, 0 beyond the border."""
        grid = x.reshape(x.shape[0], self.height, self.width, x.shape[-1])
        if self.wrap:
            grid = torch.cat([grid[:, :, -1:], grid, grid[:, :, :1]], dim=2)
        grid = F.pad(grid, (0, 0, 0 if self.wrap else 1, 0 if self.wrap else 1, 1, 1))
        h, w = self.height, self.width
        return [grid[:, 1 + dy : 1 + dy + h, 1 + dx : 1 + dx + w].flatten(1, 2) for dy, dx in self.OFFSETS]

    def target(self, x: Tensor) -> Planes:
        """Return `x` once a direction."""
        return [x] * len(self.OFFSETS)

    def aggregate(self, messages: Planes, reduce: Reduce = "sum") -> Tensor:
        """Reduce messages over the 8 directions."""
        pairs = list(zip(messages, self.no_edge, strict=True))
        if reduce == "max":
            best = torch.stack([m.masked_fill(absent, -torch.inf) for m, absent in pairs]).amax(0)
            return best.masked_fill(self.degree == 0, 0)
        total = pairs[0][0].masked_fill(pairs[0][1], 0)
        for message, absent in pairs[1:]:
            total = total + message.masked_fill(absent, 0)
        return total / self.degree.clamp(min=1).to(total.dtype) if reduce == "mean" else total

    def softmax(self, scores: Planes) -> Planes:
        """Normalise scores over the 8 directions."""
        lowest = torch.finfo(scores[0].dtype).min
        pairs = list(zip(scores, self.no_edge, strict=True))
        weights = torch.stack([s.masked_fill(absent, lowest) for s, absent in pairs]).softmax(0)
        return [w.masked_fill(absent, 0) for w, absent in zip(weights, self.no_edge, strict=True)]

    def neighbors(self, x: Tensor, reduce: Reduce = "sum") -> Tensor:
        """Reduce the 8 neighbours."""
        return self.aggregate(self.source(x), reduce)

    def pool(self, x: Tensor, reduce: Reduce = "mean") -> Tensor:
        """Reduce over the nodes that take part."""
        absent = ~self.mask.unsqueeze(-1)
        if reduce == "max":
            return x.masked_fill(absent, -torch.inf).amax(1)
        total = x.masked_fill(absent, 0).sum(1)
        return total / self.mask.sum(1, keepdim=True).clamp(min=1).to(x.dtype) if reduce == "mean" else total

    def spread(self, g: Tensor) -> Tensor:
        """Return `[B, 1, d]`."""
        return g.unsqueeze(1)

    def dense(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return `x`, 0 on masked nodes, and the mask."""
        return x.masked_fill(~self.mask.unsqueeze(-1), 0), self.mask.expand(x.shape[0], -1)

    def sparse(self, x: Tensor) -> Tensor:
        """Return `x`."""
        return x

    def edge_index(self) -> Tensor:
        """Return one sample's edges as `[2, edges]` of (source, target), masks aside."""
        nodes = torch.arange(1, self.height * self.width + 1).reshape(1, -1, 1)  # from 1: 0 is beyond the border
        pairs = [
            torch.stack([s, t])[:, s > 0] for s, t in zip(self.source(nodes), self.target(nodes), strict=True)
        ]
        return torch.cat(pairs, dim=1) - 1

    def laplacian(self, k: int) -> tuple[Tensor, Tensor]:
        """Return eigenpairs of the whole grid, land included."""
        return _laplacian(self.height, self.width, self.wrap, k, self.mask.device)

    def random_walk(self, steps: int) -> Tensor:
        """Return landing probabilities on the whole grid, land included."""
        return _random_walk(self.height, self.width, self.wrap, steps, self.mask.device)


@torch.compiler.disable  # type: ignore[untyped-decorator]
@lru_cache
def _laplacian(height: int, width: int, wrap: bool, k: int, device: torch.device) -> tuple[Tensor, Tensor]:
    one_graph = torch.zeros(height * width, dtype=torch.long)
    vectors, values = laplacian_basis(GridGraph(height, width, wrap=wrap).edge_index(), one_graph, 1, k)
    return vectors.unsqueeze(0).to(device), values.to(device)


@torch.compiler.disable  # type: ignore[untyped-decorator]
@lru_cache
def _random_walk(height: int, width: int, wrap: bool, steps: int, device: torch.device) -> Tensor:
    edges = GridGraph(height, width, wrap=wrap).edge_index()
    return landing_probabilities(edges, height * width, steps).unsqueeze(0).to(device)
