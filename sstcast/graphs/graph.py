"""One interface for two ways to store a graph.

A layer gets what it needs from a `Graph` and does not depend on how the graph is stored. Edge features and
messages are always a list of planes: a grid has one plane for each of its 8 directions, a sparse graph a single
plane of all its edges. Layers compute plane by plane, `[f(xj) for xj in graph.source(x)]`. Shapes, with d
channels:

| call                                    | GridGraph                    | SparseGraph                       |
|-----------------------------------------|------------------------------|-----------------------------------|
| node features `x`                       | `[B, H*W, d]`                | `[nodes, d]`                      |
| `source(x)`, `target(x)`, messages      | 8 planes `[B, H*W, d]`       | 1 plane `[edges, d]`              |
| `edge_attr`                             | 8 planes `[B, 1, 2]`         | 1 plane `[edges, f]`, or None     |
| `aggregate(messages)`, `neighbors(x)`   | `[B, H*W, d]`                | `[nodes, d]`                      |
| `pool(x)`                               | `[B, d]`                     | `[graphs, d]`                     |
| `broadcast(g)`, which fits `x`          | `[B, 1, d]`                  | `[nodes, d]`                      |
| `dense(x)`: features, mask              | `[B, H*W, d]`, `[B, H*W]`    | `[graphs, N, d]`, `[graphs, N]`   |
| `dense_edges(x)`: ends, mask            | `[B, 8*H*W, d]`, `[B, 8*H*W]`| `[graphs, M, d]`, `[graphs, M]`   |
| `laplacian(k)`: vectors, values         | `[1, H*W, k]`, `[1, k]`      | `[nodes, k]`, `[graphs, k]`       |
| `random_walk(steps)`                    | `[1, H*W, steps]`            | `[nodes, steps]`                  |
| `mask`, True on real nodes              | `[B, H*W]` or `[1, H*W]`     | None: all nodes are real          |
| `geography`, or None                    | `[B, H*W, 5]`                | `[nodes, 5]`                      |

A plane of one direction fits into a CPU's cache where all eight together do not, and a compiler can fuse a sum
over planes but not a stack of them: `perf/planes.py` compares the two.

Masked nodes of a grid (land) send no messages, and pooling and attention leave them out, so their values never
affect the ocean. They only have to be finite. The positional encodings `laplacian` and `random_walk` belong to the
whole grid, so that all tiles of one shape share them.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from torch import Tensor

from sstcast.errors import SSTCastError

Reduce = Literal["sum", "mean", "max"]
Planes = Sequence[Tensor]
GEOGRAPHY = 5  # channels of `geography`
LIMIT = 8 * 2**30  # bytes


class DenseEdges(NamedTuple):
    """Directed edges, padded to M places in each graph."""

    source: Tensor  # node features at each edge's source, [graphs, M, d]
    target: Tensor  # node features at its target, [graphs, M, d]
    attr: Tensor | None  # edge features, [graphs, M, f]
    mask: Tensor  # True on edges, False on padding, [graphs, M]


class Graph(Protocol):
    """The interface of a graph for layers; the module's table lists the shapes."""

    geography: Tensor | None
    """Place and time: the unit vector of a node's position on the globe, sine and cosine of the time of year."""

    @property
    def mask(self) -> Tensor | None:
        """True on real nodes, None if all are real."""

    @property
    def edge_attr(self) -> Planes | None:
        """Edge features, each plane broadcastable against a plane of messages."""

    def without_loops(self) -> "tuple[Graph, Tensor | None]":
        """Return the graph without edges from a node to itself, and which edges it keeps, None if all."""

    def source(self, x: Tensor) -> Planes:
        """Return node features at each edge's source."""

    def target(self, x: Tensor) -> Planes:
        """Return node features at each edge's target."""

    def aggregate(self, messages: Planes, reduce: Reduce = "sum") -> Tensor:
        """Reduce messages over each node's incoming edges; a node without incoming edges gets 0."""

    def neighbors(self, x: Tensor, reduce: Reduce = "sum") -> Tensor:
        """Return `aggregate(source(x))`."""

    def pool(self, x: Tensor, reduce: Reduce = "mean") -> Tensor:
        """Reduce node features to one row per graph."""

    def broadcast(self, g: Tensor) -> Tensor:
        """Copy one row per graph to all nodes of the graph."""

    def dense(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return node features padded with 0 to `[graphs, N, d]`, and the mask of real nodes."""

    def sparse(self, x: Tensor) -> Tensor:
        """Undo `dense`."""

    def dense_edges(self, x: Tensor) -> DenseEdges:
        """Return each stored edge with the node features `x` at its ends.

        A grid has a place for each node and direction, in the order of its planes. The edges of a sparse graph
        keep their order.
        """

    def laplacian(self, k: int) -> tuple[Tensor, Tensor]:
        """Return each graph's `k` smallest non-trivial Laplacian eigenpairs, see `positions.laplacian_basis`."""

    def random_walk(self, steps: int) -> Tensor:
        """Return `positions.landing_probabilities`."""


def check_memory(what: str, numbers: int) -> None:
    """Raise SSTCastError if `numbers` values in single precision would need more than `LIMIT` bytes."""
    if 4 * numbers > LIMIT:
        raise SSTCastError(
            f"{what}: needs {4 * numbers / 2**30:.1f} GiB, more than the limit of {LIMIT / 2**30:g}; "
            "choose a model of linear cost, smaller batches or smaller graphs"
        )
