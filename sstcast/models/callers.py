"""What a backbone accepts beside sstcast's own graphs, and how it refuses features that do not fit."""

from typing import Any

from torch import Tensor
from torch_geometric.data import Data

from sstcast.errors import SSTCastError
from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph
from sstcast.models.base import Backbone


class GraphArgument:
    """A forward pre-hook of the backbone `name`, which reads `edge_dim` edge features, 0 for none.

    In place of a graph, the backbone then takes an `edge_index [2, edges]`, or PyG's `Data` or `Batch`. Raises
    SSTCastError if there are not as many features as it was built for.
    """

    def __init__(self, name: str, edge_dim: int) -> None:
        self.name, self.edge_dim = name, edge_dim

    def __call__(self, backbone: Backbone, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments of `forward`, the second of them a graph."""
        if len(arguments) != 2 or isinstance(arguments[1], GridGraph):
            return arguments
        x, graph = arguments
        if isinstance(graph, Tensor):
            graph = SparseGraph(graph, graph.new_zeros(len(x)), 1)
        elif isinstance(graph, Data):
            graph = SparseGraph.from_pyg(graph)
        width = backbone.ends[0]
        if x.shape[-1] != width:
            raise SSTCastError(
                f"model {self.name}: {x.shape[-1]} node features where it takes {width}; "
                f"map them first, for instance by torch.nn.Linear({x.shape[-1]}, {width})"
            )
        if self.edge_dim and graph.edge_attr is not None:
            found = {edges.shape[-1] for edges in graph.edge_attr}
            if found != {self.edge_dim}:
                has = ", ".join(map(str, sorted(found)))
                raise SSTCastError(
                    f"model {self.name}: edge_dim is {self.edge_dim}, but the graph has {has} edge features; "
                    f"build it with edge_dim={has}, or with data=, the first graph"
                )
        return x, graph
