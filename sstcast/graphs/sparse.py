"""`SparseGraph`: any graphs, stored as an edge list."""

from torch import Tensor
from torch_geometric import utils as pyg
from torch_geometric.data import Data

from sstcast.graphs.graph import Planes, Reduce


class SparseGraph:
    """Any graphs, stored as PyTorch Geometric stores a batch.

    `edge_index` is `[2, edges]` of (source, target) nodes, `edge_attr` `[edges, f]` or None, `batch`
    `[nodes]` the graph each node belongs to, in order.
    """

    def __init__(self, edge_index: Tensor, batch: Tensor, graphs: int, edge_attr: Tensor | None = None) -> None:
        self.edge_index, self.batch, self.graphs = edge_index, batch, graphs
        self.edge_attr = None if edge_attr is None else [edge_attr]

    @classmethod
    def from_pyg(cls, data: Data) -> "SparseGraph":
        """Wrap a PyTorch Geometric `Data` or `Batch`."""
        batch = data.edge_index.new_zeros(data.num_nodes) if data.batch is None else data.batch
        return cls(data.edge_index, batch, getattr(data, "num_graphs", 1), data.edge_attr)

    def source(self, x: Tensor) -> Planes:
        """Return `x` at each edge's source."""
        return [x[self.edge_index[0]]]

    def target(self, x: Tensor) -> Planes:
        """Return `x` at each edge's target."""
        return [x[self.edge_index[1]]]

    def aggregate(self, messages: Planes, reduce: Reduce = "sum") -> Tensor:
        """Scatter messages to their targets."""
        return pyg.scatter(messages[0], self.edge_index[1], dim_size=len(self.batch), reduce=reduce)

    def softmax(self, scores: Planes) -> Planes:
        """Normalise scores over the edges of each target."""
        return [pyg.softmax(scores[0], self.edge_index[1], num_nodes=len(self.batch))]

    def neighbors(self, x: Tensor, reduce: Reduce = "sum") -> Tensor:
        """Gather and scatter."""
        return self.aggregate(self.source(x), reduce)

    def pool(self, x: Tensor, reduce: Reduce = "mean") -> Tensor:
        """Reduce over each graph's nodes."""
        return pyg.scatter(x, self.batch, dim_size=self.graphs, reduce=reduce)

    def spread(self, g: Tensor) -> Tensor:
        """Return each node's graph's row."""
        return g[self.batch]

    def dense(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Pad every graph to the largest."""
        features, mask = pyg.to_dense_batch(x, self.batch, batch_size=self.graphs)
        return features, mask

    def sparse(self, x: Tensor) -> Tensor:
        """Drop the padding."""
        _, mask = self.dense(x.new_zeros(len(self.batch), 1))
        return x[mask]
