"""`GridGraph`: a regular grid whose edges are shifted planes."""

from collections.abc import Mapping
from functools import lru_cache
from functools import reduce as reduce_by

import torch
from torch import Tensor
from torch._compile import _disable_dynamo  # torch.compiler.disable takes a second to import
from torch.nn import functional as F

from sstcast.graphs.graph import DenseEdges, Planes, Reduce
from sstcast.graphs.sparse import SparseGraph


class GridGraph:
    """B samples on one grid of `height` x `width` nodes, each linked to its 8 nearest neighbours.

    Messages move by shifting planes, without gather or scatter operations. The edge features `edge_attr` are the
    offset (dx, dy) from target to source, in cells.

    Args:
        height: rows of the grid.
        width: columns of the grid.
        mask: True on real nodes (ocean), `[B, H*W]`, or `[1, H*W]` if all samples share it.
        wrap: whether the last column is linked to the first, as on a whole globe.
        geography: place and time of each node, `[B, H*W, 5]` (see `Graph`).
        degree: number of unmasked neighbours of each node, `[B, H*W, 1]`, if it is known.
        predictors: what is known besides SST by name, NaN where nothing is: of an index `[B, 1, summaries]`, of a
            grid `[B, H*W, days]`, of a forecast `[B, H*W, horizon]` (see `ocean.windows.Windows`).
    """

    OFFSETS = tuple((dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if (dy, dx) != (0, 0))

    def __init__(
        self,
        height: int,
        width: int,
        mask: Tensor | None = None,
        wrap: bool = False,
        geography: Tensor | None = None,
        degree: Tensor | None = None,
        predictors: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.height, self.width, self.wrap = height, width, wrap
        self.geography, self.predictors = geography, predictors or {}
        self.mask = torch.ones(1, height * width, dtype=torch.bool) if mask is None else mask
        self.degree = self._count_neighbors() if degree is None else degree
        self.edge_attr = _offsets(self.mask.device, len(self.mask))

    def _count_neighbors(self) -> Tensor:
        real = self.mask.unsqueeze(-1).float()
        by_row = real + self._shift(real, 0, 1) + self._shift(real, 0, -1)
        return by_row + self._shift(by_row, 1, 0) + self._shift(by_row, -1, 0) - real

    edge_weight = loop_weight = components = None

    def without_loops(self) -> "tuple[GridGraph, None]":
        return self, None

    def source(self, x: Tensor) -> Planes:
        """Return `x` once for each direction, since planes are stored at the sources of their edges."""
        return [x] * len(self.OFFSETS)

    def target(self, x: Tensor) -> Planes:
        return [self._shift(x, -dy, -dx) for dy, dx in self.OFFSETS]

    def aggregate(self, messages: Planes, reduce: Reduce = "sum") -> Tensor:
        absent, beyond = ~self.mask.unsqueeze(-1), -torch.inf if reduce == "max" else 0.0
        arrived = [
            self._shift(m.masked_fill(absent, beyond), dy, dx, beyond)
            for m, (dy, dx) in zip(messages, self.OFFSETS, strict=True)
        ]
        if reduce == "max":
            return reduce_by(torch.maximum, arrived).masked_fill(self.degree == 0, 0)
        total = sum(arrived[1:], start=arrived[0])
        return total / self.degree.clamp(min=1).to(total.dtype) if reduce == "mean" else total

    def _shift(self, x: Tensor, dy: int, dx: int, beyond: float = 0.0) -> Tensor:
        """Return at each node the value at the offset (dy, dx), and `beyond` where this lies outside the grid."""
        grid = x.expand(-1, self.height * self.width, -1).unflatten(1, (self.height, self.width))
        if self.wrap:
            grid, dx = grid.roll(-dx, dims=2), 0
        return F.pad(grid, (0, 0, -dx, dx, -dy, dy), value=beyond).flatten(1, 2)

    def neighbors(self, x: Tensor, reduce: Reduce = "sum") -> Tensor:
        return self.aggregate(self.source(x), reduce)

    def pool(self, x: Tensor, reduce: Reduce = "mean") -> Tensor:
        absent = ~self.mask.unsqueeze(-1)
        if reduce == "max":
            return x.masked_fill(absent, -torch.inf).amax(1)
        total = x.masked_fill(absent, 0).sum(1)
        return total / self.mask.sum(1, keepdim=True).clamp(min=1).to(x.dtype) if reduce == "mean" else total

    def broadcast(self, g: Tensor) -> Tensor:
        return g.unsqueeze(1)

    def dense(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.masked_fill(~self.mask.unsqueeze(-1), 0), self.mask.expand(x.shape[0], -1)

    def sparse(self, x: Tensor) -> Tensor:
        return x

    def dense_edges(self, x: Tensor) -> DenseEdges:
        shape = (len(x), -1, -1)
        attr = torch.cat([plane.to(x.dtype).expand(-1, x.shape[1], -1) for plane in self.edge_attr], dim=1)
        real = torch.cat([t & self.mask.unsqueeze(-1) for t in self.target(self.mask.unsqueeze(-1))], dim=1)
        source, target = torch.cat(list(self.source(x)), dim=1), torch.cat(list(self.target(x)), dim=1)
        return DenseEdges(source, target, attr.expand(shape), real.squeeze(-1).expand(len(x), -1))

    @property
    def edge_index(self) -> Tensor:
        """The edges of the whole grid, land included, as `[2, edges]` of (source, target), on the device."""
        return self._edge_index()

    @_disable_dynamo
    def _edge_index(self) -> Tensor:
        return _whole_grid(self.height, self.width, self.wrap, self.mask.device).edge_index

    @_disable_dynamo
    def laplacian(self, k: int) -> tuple[Tensor, Tensor]:
        """Return the eigenpairs of the whole grid, land included."""
        vectors, values = _whole_grid(self.height, self.width, self.wrap, self.mask.device).laplacian(k)
        return vectors.unsqueeze(0), values

    @property
    def laplacian_degree(self) -> Tensor:
        return self._laplacian_degree()

    @_disable_dynamo
    def _laplacian_degree(self) -> Tensor:
        degree = _whole_grid(self.height, self.width, self.wrap, self.mask.device).laplacian_degree
        return degree.unsqueeze(0)

    @_disable_dynamo
    def random_walk(self, steps: int) -> Tensor:
        """Return the landing probabilities on the whole grid, land included."""
        full_grid = _whole_grid(self.height, self.width, self.wrap, self.mask.device)
        return full_grid.random_walk(steps).unsqueeze(0)


@lru_cache
def _offsets(device: torch.device, samples: int) -> Planes:
    """Return the offset (dx, dy) of each direction, `[1, 1, 2]`, or on a CPU `[samples, 1, 2]`.

    On a CPU, a compiled backward pass then sums gradients by sample, which fits into the cache.
    """
    offsets = torch.tensor([(float(dx), float(dy)) for dy, dx in GridGraph.OFFSETS], device=device)[:, None, None]
    return list(offsets.expand(-1, samples if device.type == "cpu" else 1, 1, -1))


@lru_cache
def _whole_grid(height: int, width: int, wrap: bool, device: torch.device) -> SparseGraph:
    """Return a grid as an edge list, which caches its positional encodings for all tiles of this shape."""
    grid, nodes = GridGraph(height, width, wrap=wrap), torch.arange(1, height * width + 1).view(1, -1, 1)
    ends = zip(grid.source(nodes), grid.target(nodes), strict=True)  # from 1: 0 is outside the grid
    edges = torch.cat([torch.stack([s, t])[:, t > 0] for s, t in ends], dim=1) - 1
    return SparseGraph(edges.to(device), edges.new_zeros(height * width).to(device), 1)
