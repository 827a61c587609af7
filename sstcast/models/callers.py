"""What a backbone accepts beside sstcast's own graphs, and how it refuses features that do not fit."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from sstcast.errors import SSTCastError
from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph
from sstcast.models.base import Backbone


class GraphArgument:
    """A forward pre-hook of the backbone `name`, which reads `edge_dim` edge features, 0 for none.

    In place of a graph, the backbone then takes an `edge_index [2, edges]`, with `batch [nodes]` if it is of
    several graphs, or PyG's `Data` or `Batch`. Raises SSTCastError if an `edge_index` is none, or if there are not
    as many features as it was built for.
    """

    def __init__(self, name: str, edge_dim: int) -> None:
        self.name, self.edge_dim = name, edge_dim

    def __call__(
        self, backbone: Backbone, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of `forward`, the second of them a graph."""
        names = dict(zip(("x", "graph", "batch"), arguments, strict=False)) | named
        names |= {"graph": names.pop("edge_index")} if "edge_index" in names else {}
        if "graph" not in names or isinstance(names["graph"], GridGraph):
            return arguments, named
        x, graph, batch = names["x"], names["graph"], names.get("batch")
        if isinstance(graph, Tensor):
            graph = self._of_edges(graph, batch, len(x))
        elif batch is not None:
            raise SSTCastError(f"model {self.name}: batch goes with an edge_index; a graph knows its own")
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
        return (x, graph), {}

    def _of_edges(self, edge_index: Tensor, batch: Tensor | None, nodes: int) -> SparseGraph:
        whole = edge_index.layout == torch.strided and not edge_index.is_floating_point()
        if not whole or edge_index.ndim != 2 or len(edge_index) != 2:
            kind = f"{str(edge_index.layout).removeprefix('torch.')} {edge_index.dtype} {list(edge_index.shape)}"
            raise SSTCastError(
                f"model {self.name}: edge_index is {kind}; give whole numbers [2, edges], for instance by "
                "torch_geometric.utils.to_edge_index of a sparse matrix"
            )
        if batch is None:
            return SparseGraph(edge_index, edge_index.new_zeros(nodes), 1)
        if len(batch) != nodes or bool((batch.diff() < 0).any()):
            raise SSTCastError(f"model {self.name}: batch: give the graph of each of the {nodes} nodes, in order")
        return SparseGraph(edge_index, batch, int(batch.max()) + 1 if nodes else 0)
