"""One interface for two ways to store a graph.

A layer reads a graph through the interface `Graph`, so it works on grids and on edge lists alike. Edge features
and messages are lists of planes: a grid has one plane for each of its 8 directions, a sparse graph has a single
plane with all its edges. Layers compute plane by plane, `[f(xj) for xj in graph.source(x)]`. Shapes, with d
channels:

| call                                    | GridGraph                    | SparseGraph                       |
|-----------------------------------------|------------------------------|-----------------------------------|
| node features `x`                       | `[B, H*W, d]`                | `[nodes, d]`                      |
| `source(x)`, `target(x)`, messages      | 8 planes `[B, H*W, d]`       | 1 plane `[edges, d]`              |
| `edge_attr`                             | 8 planes `[B or 1, 1, 2]`    | 1 plane `[edges, f]`, or None     |
| `aggregate(messages)`, `neighbors(x)`   | `[B, H*W, d]`                | `[nodes, d]`                      |
| `pool(x)`                               | `[B, d]`                     | `[graphs, d]`                     |
| `broadcast(g)`, broadcastable to `x`    | `[B, 1, d]`                  | `[nodes, d]`                      |
| `dense(x)`: features, mask              | `[B, H*W, d]`, `[B, H*W]`    | `[graphs, N, d]`, `[graphs, N]`   |
| `dense_edges(x)`: ends, mask            | `[B, 8*H*W, d]`, `[B, 8*H*W]`| `[graphs, M, d]`, `[graphs, M]`   |
| `laplacian(k)`: vectors, values         | `[1, H*W, k]`, `[1, k]`      | `[nodes, k]`, `[graphs, k]`       |
| `random_walk(steps)`                    | `[1, H*W, steps]`            | `[nodes, steps]`                  |
| `edge_index`, for layers of PyG         | `[2, edges]`, land included  | `[2, edges]`                      |
| `mask`, True on real nodes              | `[B, H*W]` or `[1, H*W]`     | None: all nodes are real          |
| `geography`, or None                    | `[B, H*W, 5]`                | `[nodes, 5]`                      |
| `predictors` besides SST, by name       | `[B, H*W or 1, values]`      | not there                         |

One plane fits into a CPU's cache and eight do not. A compiler can fuse a sum over planes, but not a stack of them.
`perf/log.md` has the times of both.

Masked nodes of a grid (land) send no messages, and pooling and attention leave them out. Their values must be
finite but never affect the ocean. The positional encodings `laplacian` and `random_walk` are computed on the whole
grid, land included, so all tiles of one shape share them.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor
from torch._compile import _disable_dynamo  # torch.compiler.disable takes a second to import

from sstcast.errors import LESS_MEMORY, SSTCastError

Reduce = Literal["sum", "mean", "max"]
Planes = Sequence[Tensor]
GEOGRAPHY_CHANNELS = 5  # channels of `Graph.geography`
CPU = torch.device("cpu")
AVAILABLE = Path("/proc/meminfo")  # of Linux
MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")  # bytes, of this machine
UNCHECKED = max(MEMORY // 4, 1600 * 10**6)  # bytes that are not checked: the matrix of 20,000 nodes, or more
TRAINING_COPIES, SCORING_COPIES = 4, 2  # of an array of scores, which any model that stores it holds at once


class DenseEdges(NamedTuple):
    """Directed edges, padded to M edges in each graph."""

    source: Tensor  # node features at the source of each edge, [graphs, M, d]
    target: Tensor  # node features at its target, [graphs, M, d]
    attr: Tensor | None  # edge features, [graphs, M, f]
    mask: Tensor  # True on edges, False on padding, [graphs, M]


class Graph(Protocol):
    """The interface that layers use. The table above lists the shapes."""

    geography: Tensor | None
    """Unit vector of each node's position on the globe, then sine and cosine of the time of year."""

    @property
    def mask(self) -> Tensor | None:
        """True on real nodes, or None if all nodes are real."""

    @property
    def edge_index(self) -> Tensor:
        """Source and target of the edges, `[2, edges]`: of a grid those of the whole grid, with its land."""

    @property
    def edge_attr(self) -> Planes | None:
        """Edge features. Each plane broadcasts against a plane of messages."""

    @property
    def edge_weight(self) -> Planes | None:
        """Weights of the edges, of one channel, or None if all are 1, as on a grid."""

    @property
    def loop_weight(self) -> Tensor | None:
        """The weight of each node's self-loop, of one channel: the mean of several, 1 without one.

        It is None if all edges have 1.
        """

    def without_loops(self) -> "tuple[Graph, Sequence[Tensor | slice] | None]":
        """Return the graph without self-loops, and the edges it keeps of each plane (None if it keeps all)."""

    def source(self, x: Tensor) -> Planes:
        """Return the node features at the source of each edge."""

    def target(self, x: Tensor) -> Planes:
        """Return the node features at the target of each edge."""

    def aggregate(self, messages: Planes, reduce: Reduce = "sum") -> Tensor:
        """Reduce messages over the incoming edges of each node. A node without incoming edges gets 0."""

    def neighbors(self, x: Tensor, reduce: Reduce = "sum") -> Tensor:
        """Return `aggregate(source(x))`."""

    def pool(self, x: Tensor, reduce: Reduce = "mean") -> Tensor:
        """Reduce node features to one row per graph."""

    def broadcast(self, g: Tensor) -> Tensor:
        """Copy the row of each graph to all its nodes."""

    def dense(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return node features padded with 0 to `[graphs, N, d]`, and the mask of real nodes."""

    def sparse(self, x: Tensor) -> Tensor:
        """Undo `dense`."""

    def dense_edges(self, x: Tensor) -> DenseEdges:
        """Return all edges with the node features `x` at their ends.

        A grid returns one edge for each node and direction, in the order of its planes. A sparse graph keeps the
        order of its edges.
        """

    def laplacian(self, k: int) -> tuple[Tensor, Tensor]:
        """Return the `k` smallest non-trivial eigenpairs of each graph (see `positions.laplacian_basis`)."""

    @property
    def components(self) -> Tensor | None:
        """The connected component of each node, numbered in each graph, or None on a grid.

        A grid is one component, because its positional encodings are computed with land.
        """

    @property
    def laplacian_degree(self) -> Tensor:
        """The number of neighbours of each node in the graph of `laplacian`, `[nodes]`, on a grid `[1, H*W]`.

        This graph has no directions, self-loops and repeated edges. On a grid it includes land.
        """

    def random_walk(self, steps: int) -> Tensor:
        """Return the probabilities that a walk returns to its node (see `positions.landing_probabilities`)."""


def check_full_attention(nodes: int, device: torch.device) -> None:
    """Raise SSTCastError if a CPU has no memory free for the matrix of one head.

    The fused kernel does not store it, but a computation of that size would take days.
    """
    check_memory(f"full attention of {nodes:,} x {nodes:,} nodes", nodes**2, device, 1)


def check_memory(label: str, numbers: int, device: torch.device = CPU, copies: int | None = None) -> None:
    """Raise SSTCastError, naming the array `label`, if a CPU has no memory free for it, of `numbers` float32.

    Of the array, `copies` are held at once, by default those of scores: a bound from below, so that nothing that
    fits is refused. Where memory runs out on a CPU, the system kills the process. A GPU raises an error itself.
    """
    needed = 4 * numbers * (copies or (TRAINING_COPIES if torch.is_grad_enabled() else SCORING_COPIES))
    if device.type == "cpu" and needed > UNCHECKED and needed > (free := free_memory()):
        raise SSTCastError(
            f"{label}: needs {needed / 2**30:.1f} GiB of memory, and {free / 2**30:.3g} GiB is free; {LESS_MEMORY}"
        )


@_disable_dynamo
def free_memory() -> int:
    """Return the bytes that this machine can still give, swap included, or all where it does not tell."""
    with suppress(OSError, KeyError):
        sizes = dict(line.split(":") for line in AVAILABLE.read_text().splitlines())
        return sum(1024 * int(sizes[name].split()[0]) for name in ("MemAvailable", "SwapFree"))
    return MEMORY
