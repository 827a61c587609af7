"""`SparseGraph`: graphs stored as edge lists. `Groups`: fast sums over the edges of each node."""

from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from sstcast.graphs.graph import DenseEdges, Planes, Reduce

if TYPE_CHECKING:
    from torch_geometric.data import Data


class SparseGraph:
    """Graphs stored as a batch of PyTorch Geometric stores them.

    Args:
        edge_index: (source, target) of each edge, `[2, edges]`.
        batch: the graph of each node, in ascending order, `[nodes]`.
        graphs: the number of graphs.
        edge_attr: edge features, `[edges, f]`.
        basis: Laplacian eigenvectors `[nodes, k]` and eigenvalues `[graphs, k]`, computed when needed if None.
        walk: landing probabilities `[nodes, steps]`, computed when needed if None.
        geography: place and time of each node, `[nodes, 5]` (see `Graph`).
        edge_weight: weights of the edges, `[edges]`, which `gcn` reads.
        components: the connected component of each node, `[nodes]`, computed when needed if None.
        laplacian_degree: the number of neighbours of each node, `[nodes]` (see `Graph`), likewise.
    """

    mask: Tensor | None = None

    def __init__(
        self,
        edge_index: Tensor,
        batch: Tensor,
        graphs: int,
        edge_attr: Tensor | None = None,
        basis: tuple[Tensor, Tensor] | None = None,
        walk: Tensor | None = None,
        geography: Tensor | None = None,
        edge_weight: Tensor | None = None,
        components: Tensor | None = None,
        laplacian_degree: Tensor | None = None,
    ) -> None:
        self.edge_index, self.batch, self.graphs = edge_index, batch, graphs
        self.sources, self.targets = (Groups(ends, len(batch)) for ends in edge_index)
        self.members = Groups(batch, graphs)
        self.edge_attr = None if edge_attr is None else [edge_attr]
        self.basis, self.walk, self.geography = basis, walk, geography
        self.edge_weight = None if edge_weight is None else [edge_weight.unsqueeze(1)]
        self._components, self._laplacian_degree = components, laplacian_degree
        self._loopless: tuple[SparseGraph, list[Tensor] | None] | None = None

    @classmethod
    def from_pyg(cls, data: "Data", nodes: int | None = None, dtype: torch.dtype | None = None) -> "SparseGraph":
        """Wrap a `Data` or `Batch` of PyTorch Geometric with this number of nodes, by default its own.

        Positional encodings are taken from `laplacian_vectors` `[nodes, k]`, `laplacian_values` `[1, k]` of each
        graph, and `random_walk` `[nodes, steps]`, where the data have them, `geography` likewise, and weights as
        `weights_in` finds them. Features and weights of edges are converted to `dtype`, by default integers to
        single precision.

        Raises ValueError if the edges or the features and weights of edges are malformed, `batch` is not the graph
        of each node in ascending order, or an edge is between two graphs.
        """
        nodes = int(data.num_nodes or 0) if nodes is None else nodes
        batch, graphs = _members(data.edge_index, data.batch, nodes)
        weight, edges, rows = weights_in(data), data.edge_attr, data.edge_index.shape[1]
        if edges is not None and (edges.ndim not in (1, 2) or len(edges) != rows):
            raise ValueError(f"edge_attr is {list(edges.shape)}; give [{rows}, features]")
        if weight is not None and weight.shape not in ((rows,), (rows, 1)):
            raise ValueError(f"edge_weight is {list(weight.shape)}; give [{rows}]")
        weight, edges = (_converted(values, dtype) for values in (weight, edges))
        edges = edges.unsqueeze(1) if edges is not None and edges.ndim == 1 else edges
        basis = (data.laplacian_vectors, data.laplacian_values) if "laplacian_vectors" in data else None
        walk, geography = (getattr(data, name, None) for name in ("random_walk", "geography"))
        graphs = max(graphs, getattr(data, "num_graphs", 0))  # the last graphs of a `Batch` may have no nodes
        weight = None if weight is None else weight.flatten()
        return cls(data.edge_index, batch, graphs, edges, basis, walk, geography, weight)

    def with_edges(self, edge_attr: Tensor | None) -> "SparseGraph":
        """Return the same graphs with other edge features."""
        graph = copy(self)
        graph.edge_attr = None if edge_attr is None else [edge_attr]
        graph._loopless = None
        return graph

    def without_loops(self) -> "tuple[SparseGraph, list[Tensor] | None]":
        if self._loopless is None:
            if not self._sizes[2]:
                self._loopless = self, None
            else:
                keep = self.edge_index[0] != self.edge_index[1]
                edges = None if self.edge_attr is None else self.edge_attr[0][keep]
                graph = SparseGraph(self.edge_index[:, keep], self.batch, self.graphs, edges)
                graph.edge_weight = None if self.edge_weight is None else [self.edge_weight[0][keep]]
                graph.mask = self.mask
                self._loopless = graph, [keep]
        return self._loopless

    @property
    def loop_weight(self) -> Tensor | None:
        if self.edge_weight is None:
            return None
        weight, is_loop = self.edge_weight[0], self.edge_index[0] == self.edge_index[1]
        nodes, zeros = self.edge_index[0, is_loop], weight.new_zeros(len(self.batch), 1)
        count = zeros.index_add(0, nodes, torch.ones_like(weight[is_loop]))
        total = zeros.index_add(0, nodes, weight[is_loop])
        return torch.where(count > 0, total / count.clamp(min=1), 1)

    def source(self, x: Tensor) -> Planes:
        return [self.sources.copy(x)]

    def target(self, x: Tensor) -> Planes:
        return [self.targets.copy(x)]

    def aggregate(self, messages: Planes, reduce: Reduce = "sum") -> Tensor:
        return _reduce(messages[0], self.targets, reduce)

    def neighbors(self, x: Tensor, reduce: Reduce = "sum") -> Tensor:
        if reduce == "max":
            return self.aggregate(self.source(x), reduce)
        total = self.targets.sum_of(self.sources, x)
        return total / self.targets.counts(x) if reduce == "mean" else total

    def pool(self, x: Tensor, reduce: Reduce = "mean") -> Tensor:
        return _reduce(x, self.members, reduce)

    def broadcast(self, g: Tensor) -> Tensor:
        return self.members.copy(g)

    @cached_property
    def _sizes(self) -> tuple[int, int, int]:
        """The most nodes and edges in a graph, at least 1, and the number of loops, in one wait for the device."""
        source, target = self.edge_index
        nodes, edges = (torch.zeros(self.graphs + 1, device=source.device, dtype=torch.long) for _ in range(2))
        nodes.index_add_(0, self.batch, torch.ones_like(self.batch))
        edges.index_add_(0, self.batch[source], torch.ones_like(source))
        counts = torch.stack([nodes.max().clamp(min=1), edges.max().clamp(min=1), (source == target).sum()])
        most_nodes, most_edges, loops = counts.tolist()
        return most_nodes, most_edges, loops

    @cached_property
    def _seats(self) -> tuple[Tensor, Tensor]:
        """The place of each node in the padded layout, `[nodes]`, and the mask of real nodes, `[graphs, N]`."""
        return _seats(self.members, self.batch, self._sizes[0])

    def dense(self, x: Tensor) -> tuple[Tensor, Tensor]:
        seats, mask = self._seats
        return _seated(x, seats, mask), mask

    def sparse(self, x: Tensor) -> Tensor:
        return x.flatten(0, 1).index_select(0, self._seats[0])

    def dense_edges(self, x: Tensor) -> DenseEdges:
        owners = self.batch[self.edge_index[0]]
        groups = Groups(owners, self.graphs)
        seats, mask = _seats(groups, owners[groups.order], self._sizes[1])
        source, target = (_seated(x[end[groups.order]], seats, mask) for end in self.edge_index)
        attr = None if self.edge_attr is None else _seated(self.edge_attr[0][groups.order], seats, mask)
        return DenseEdges(source, target, attr, mask)

    def with_virtual_nodes(self) -> "tuple[SparseGraph, Tensor]":
        """Return each graph with one more node, its last, linked to all others, and the rows of the others.

        The features of its edges are 0, their weights 1. `mask` is False on virtual nodes, so norms leave them out
        of their statistics.
        """
        nodes, device = len(self.batch), self.batch.device
        rows = torch.arange(nodes, device=device) + self.batch
        hubs = self.members.ends[1:] + torch.arange(self.graphs, device=device)
        spokes = torch.stack([rows, hubs[self.batch]])
        index = torch.cat([rows[self.edge_index], spokes, spokes.flip(0)], dim=1)
        batch = self.batch.new_empty(nodes + self.graphs)
        batch = batch.index_copy(0, rows, self.batch).index_copy(0, hubs, torch.arange(self.graphs).to(batch))
        attr, weight = (None if planes is None else planes[0] for planes in (self.edge_attr, self.edge_weight))
        attr = None if attr is None else torch.cat([attr, attr.new_zeros(2 * nodes, attr.shape[1])])
        weight = None if weight is None else torch.cat([weight.squeeze(1), weight.new_ones(2 * nodes)])
        graph = SparseGraph(index, batch, self.graphs, attr, edge_weight=weight)
        graph.mask = torch.ones_like(batch, dtype=torch.bool).index_fill(0, hubs, False)
        return graph, rows

    def laplacian(self, k: int) -> tuple[Tensor, Tensor]:
        if self.basis is None or self.basis[0].shape[1] < k:
            from sstcast.graphs.positions import laplacian_basis

            self.basis = laplacian_basis(self.edge_index, self.batch, self.graphs, k)
        vectors, values = self.basis
        return vectors[:, :k], values[:, :k]

    @property
    def components(self) -> Tensor:
        if self._components is None:
            from sstcast.graphs.positions import components_of

            self._components = components_of(self.edge_index, self.batch, self.graphs)
        return self._components

    @property
    def laplacian_degree(self) -> Tensor:
        if self._laplacian_degree is None:
            from sstcast.graphs.positions import degrees_of

            self._laplacian_degree = degrees_of(self.edge_index, len(self.batch))
        return self._laplacian_degree

    def random_walk(self, steps: int) -> Tensor:
        if self.walk is None or self.walk.shape[1] < steps:
            from sstcast.graphs.positions import landing_probabilities

            self.walk = landing_probabilities(self.edge_index, len(self.batch), steps)
        return self.walk[:, :steps]


def _members(index: Tensor | None, batch: Tensor | None, nodes: int) -> tuple[Tensor, int]:
    """Return the graph of each node, by default 0, and the number of graphs.

    All that is checked of the values is read from the device at once. Raises ValueError as `SparseGraph.from_pyg`.
    """
    whole = isinstance(index, Tensor) and index.layout == torch.strided and not index.is_floating_point()
    if index is None or not whole or index.ndim != 2 or len(index) != 2:
        kind = "missing"
        if index is not None:
            kind = f"{str(index.layout).removeprefix('torch.')} {index.dtype} {list(index.shape)}"
        raise ValueError(
            f"edge_index is {kind}; give integers [2, edges], for a sparse matrix "
            "torch_geometric.utils.to_edge_index(matrix)[0]"
        )
    outside, graphs = ((index < 0) | (index >= nodes)).any(), index.new_ones(())
    unordered = between = torch.zeros_like(outside)
    if batch is None:
        batch = index.new_zeros(nodes)
    elif batch.shape != (nodes,) or batch.is_floating_point():
        unordered = torch.ones_like(outside)
    elif nodes:
        source, target = batch[index.clamp(0, nodes - 1)]
        unordered, between = (F.pad(batch, (1, 0)).diff() < 0).any(), (source != target).any()
        graphs = batch[-1] + 1
    else:
        graphs = index.new_zeros(())
    *wrong, found = torch.stack([outside, unordered, between, graphs]).tolist()
    for is_so, remark in zip(
        wrong,
        (
            f"edge_index has nodes outside 0..{nodes - 1}; x has {nodes} rows",
            f"batch: give the graph of each of the {nodes} nodes, in order",
            "edge_index has edges between two graphs of batch; correct one",
        ),
        strict=True,
    ):
        if is_so:
            raise ValueError(remark)
    return batch, found


def weights_in(data: "Data") -> Tensor | None:
    """Return the weights of the edges of a `Data`: its `edge_weight`, or `weight`, as networkx calls them.

    A `weight` that is not one number for each edge belongs to something else. Raises ValueError if both are
    weights of edges and differ.
    """
    weight, other, index = data.get("edge_weight"), data.get("weight"), data.get("edge_index")
    edges = index.shape[-1] if isinstance(index, Tensor) else 0
    if not isinstance(other, Tensor) or other.shape not in ((edges,), (edges, 1)):
        return weight
    if weight is not None and not torch.equal(weight.flatten().double(), other.flatten().double()):
        raise ValueError("edge_weight and weight are not the same numbers; delete one of them")
    return other if weight is None else weight


def _converted(values: Tensor | None, dtype: torch.dtype | None) -> Tensor | None:
    if values is None or (dtype is None and values.is_floating_point()):
        return values
    return values.to(dtype or torch.float32)


def check_weights(weights: Tensor) -> None:
    """Raise ValueError, naming the edge, if a weight is negative or not finite."""
    if len(wrong := (~(weights >= 0) | weights.isinf()).nonzero()):
        number = int(wrong[0][0])
        raise ValueError(
            f"edge {number} has the weight {float(weights[number]):g}; give weights of 0 or more, or leave "
            "edge_weight out"
        )


class Groups:
    """Items in groups: item i belongs to group `index[i]` of `groups`.

    Sums go through `embedding_bag` over the items sorted by group. A CPU adds up each group before it writes,
    which takes a fraction of the time of a scatter.
    """

    def __init__(self, index: Tensor, groups: int) -> None:
        self.index, self.groups = index, groups

    @cached_property
    def order(self) -> Tensor:
        """The items sorted by group, `[items]`."""
        return self.index.argsort(stable=True)

    @cached_property
    def ends(self) -> Tensor:
        """The bounds of the groups in `order`, `[groups + 1]`."""
        bounds = torch.arange(self.groups + 1, device=self.index.device)
        return torch.searchsorted(self.index[self.order], bounds)  # `bincount` would wait for a GPU

    def copy(self, x: Tensor) -> Tensor:
        """Copy the row of each group to its items: `x [groups, d]` to `[items, d]`."""
        return _Copy.apply(x, self)

    def sum(self, x: Tensor) -> Tensor:
        """Sum the rows of each group: `x [items, d]` to `[groups, d]`. A group without items gets 0."""
        return _Sum.apply(x, self)

    def sum_of(self, source: "Groups", x: Tensor) -> Tensor:
        """Return `sum(source.copy(x))`, `[groups, d]`, without storing a row for each item."""
        return _SumOf.apply(x, source, self)

    def counts(self, like: Tensor) -> Tensor:
        """Return the number of items in each group, at least 1, `[groups, 1]`, in the dtype of `like`."""
        return self.ends.diff().clamp(min=1).to(like.dtype).unsqueeze(1)


def _seats(groups: Groups, owners: Tensor, longest: int) -> tuple[Tensor, Tensor]:
    """Return the place of each item in a layout padded to `longest`, and the mask `[groups, longest]`.

    `owners` are the groups of the items in ascending order.
    """
    seats = torch.arange(len(owners), device=owners.device) - groups.ends[owners] + owners * longest
    mask = torch.zeros(groups.groups * longest, dtype=torch.bool, device=owners.device)
    return seats, mask.index_fill(0, seats, True).view(groups.groups, longest)


def _seated(x: Tensor, seats: Tensor, mask: Tensor) -> Tensor:
    """Return `x [items, d]` in the padded layout, `[*mask.shape, d]`, with 0 in between."""
    return x.new_zeros(mask.numel(), x.shape[-1]).index_copy(0, seats, x).view(*mask.shape, -1)


class _Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, groups: Groups) -> Tensor:
        """Copy `x [groups, d]` to `[items, d]`."""
        ctx.groups = groups
        return x.index_select(0, groups.index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.groups.sum(grad), None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, groups: Groups) -> Tensor:
        """Sum `x [items, d]` to `[groups, d]`."""
        ctx.groups = groups
        return _bags(x, groups.order, groups.ends)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.groups.copy(grad), None


class _SumOf(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, source: Groups, target: Groups) -> Tensor:
        """Copy `x [sources, d]` to the items, and sum these to `[targets, d]`."""
        ctx.groups = source, target
        return _bags(x, source.index.index_select(0, target.order), target.ends)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        source, target = ctx.groups
        return source.sum_of(target, grad), None, None


def _bags(x: Tensor, rows: Tensor, ends: Tensor) -> Tensor:
    return F.embedding_bag(rows, x.contiguous(), ends, mode="sum", include_last_offset=True)


def _reduce(x: Tensor, groups: Groups, reduce: Reduce) -> Tensor:
    if reduce == "max":
        from torch_geometric.utils import scatter

        return scatter(x, groups.index, dim_size=groups.groups, reduce="max")
    total = groups.sum(x)
    return total / groups.counts(x) if reduce == "mean" else total
