"""Message passing with and without a virtual node (Cai et al. 2023, arXiv:2301.11956)."""

from typing import Literal

import torch
from torch import Tensor, nn

from sstcast.errors import SSTCastError
from sstcast.graphs.graph import Graph
from sstcast.graphs.sparse import SparseGraph
from sstcast.models.base import Backbone
from sstcast.models.convs import Conv, EdgeEncoder
from sstcast.models.layers import CONVS, ConvName, build_conv
from sstcast.models.norms import ACTIVATIONS, NORMS, ActivationName, NormName
from sstcast.models.sizes import Count, Layers, Share, Size


class VirtualNode(nn.Module):
    """A node linked to all others: `vn <- vn + MLP(mean_i x_i + vn)`, starting from `vn = 0`.

    The perceptron has `hidden` units, by default twice the width.
    """

    def __init__(self, width: int, hidden: int | None = None) -> None:
        super().__init__()
        hidden = hidden or 2 * width
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width))

    def forward(self, x: Tensor, vn: Tensor | None, graph: Graph) -> Tensor:
        """Return the new `vn [graphs, width]` from the nodes and the old one, which is 0 if None."""
        mean = graph.pool(x, "mean")
        return self.mlp(mean) if vn is None else vn + self.mlp(mean + vn)


class MPNN(Backbone):
    """Layers of message passing, norm, activation and dropout, each with a residual connection.

    With a virtual node, every layer first adds it to the nodes, and every layer but the last then updates it. All
    else is the same with and without it, so that a comparison is fair.

    Args:
        virtual_node: whether there is a virtual node with a perceptron of its own (Cai et al. 2023, Definition
            3.3). With `graph`, it is instead one more node of each graph, linked to all others (section 7.1): the
            layers treat it as any node, and it needs no weights. Its first features and those of its edges are 0,
            which the paper leaves open. It has no part in positional encodings, readouts, the loss and the
            statistics of `batch`. Tiles of the sea have no place for it.
        virtual_hidden: hidden units of the virtual node's perceptron, by default `2 * width`.
        conv: the message passing (see `sstcast.models.convs`). If it updates edges, they are encoded to `width`
            channels and passed from layer to layer.
        norm: `batch`, `layer` or `none`.
        activation: the activation after the norm.
        residual: whether a layer's input is added to its output where both have the same width. `linear` adds a
            linear map of the input before the norm instead (Luo et al. 2024, arXiv:2406.08993).
        heads: attention heads of `gat`.
        jumping: whether the result is a linear map of the outputs of all layers (Xu et al. 2019,
            arXiv:1810.00826).
        in_width: channels of the input, by default `width`.
        out_width: channels of the result, by default `width`. If given without `jumping`, the last layer is
            message passing alone, with one head, as in Kipf & Welling 2017 (arXiv:1609.02907).

    Raises SSTCastError if `conv` has its own activation and residual connection, and `activation` or `residual` is
    changed or `norm` is `none`. Also raises it if `conv` cannot change the number of channels, if a model with a
    virtual node has only one layer, or if `virtual_hidden` is given without a virtual node that has a perceptron.
    """

    def __init__(
        self,
        width: Count = 256,
        layers: Layers = 3,
        virtual_node: Literal["graph"] | bool = False,  # in this order, an error names `graph`
        dropout: Share = 0.0,
        edge_dim: Size = 2,
        conv: ConvName = "mean",
        norm: NormName = "layer",
        activation: ActivationName = "relu",
        residual: bool | Literal["linear"] = True,
        heads: Count = 4,
        jumping: bool = False,
        in_width: Count | None = None,
        out_width: Count | None = None,
        virtual_hidden: Count | None = None,
    ) -> None:
        super().__init__()
        if CONVS[conv].residual and (norm == "none" or (activation, residual) != ("relu", True)):
            raise SSTCastError(
                f"conv {conv}: has its own activation and residual connection, and a norm layer or batch; "
                "leave others out"
            )
        if virtual_node and layers == 1:
            raise SSTCastError("model.layers: one layer would not use the virtual node; choose two or more")
        if virtual_hidden and virtual_node is not True:
            raise SSTCastError(
                "model.virtual_hidden: no virtual node has a perceptron; leave it out, or set virtual_node=true"
            )
        self.width, self.residual, self._ends = width, residual, (in_width or width, out_width or width)
        self.bare = layers - 1 if out_width and not jumping else None  # the layer of message passing alone
        self.edge_encoder = EdgeEncoder(edge_dim, width) if layers and CONVS[conv].updates_edges else None

        def convolve(layer: int) -> Conv:
            into = width if layer else self._ends[0]
            out, of_heads = (self._ends[1], 1) if layer == self.bare else (width, heads)
            edges = edge_dim if self.edge_encoder is None else width
            options = {"heads": of_heads, "last": layer == layers - 1, "dropout": dropout, "norm": norm}
            return build_conv(conv, out, edges, into, **options)

        self.convs = nn.ModuleList(map(convolve, range(layers)))
        self.norms = nn.ModuleList(
            nn.Identity() if CONVS[conv].residual or layer == self.bare else NORMS[norm](width)
            for layer in range(layers)
        )
        self.act = ACTIVATIONS[activation]()
        shortcuts = range(layers if self.bare is None else self.bare) if residual == "linear" else ()
        self.shortcuts = nn.ModuleList(nn.Linear(width if n else self._ends[0], width) for n in shortcuts)
        self.jump = nn.Linear(layers * width, self._ends[1]) if jumping else None
        self.in_graph, self.virtual_hidden = virtual_node == "graph", virtual_hidden
        updates = layers - 1 if virtual_node is True else 0  # nothing would read an update after the last layer
        self.virtual_nodes = nn.ModuleList(VirtualNode(width, virtual_hidden) for _ in range(updates))
        self.readout = "virtual-node" if len(self.virtual_nodes) else None
        self.dropout = nn.Dropout(dropout)

    @property
    def ends(self) -> tuple[int, int]:
        return self._ends

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Map `x [..., width]` to the same shape."""
        return self.encode(x, graph)[0]

    def encode(self, x: Tensor, graph: Graph) -> tuple[Tensor, Tensor | None]:
        """Return the nodes, and the virtual node that the last layer read (None without a perceptron for it)."""
        rows = None
        if self.in_graph:  # for the layers alone
            assert isinstance(graph, SparseGraph)
            graph, rows = graph.with_virtual_nodes()
            x = x.new_zeros(len(graph.batch), x.shape[1]).index_copy(0, rows, x)
        vn, edges, layer_outputs = None, graph.edge_attr, []
        if self.edge_encoder is not None:
            edges = self.edge_encoder.planes(x, graph)
        for layer, conv in enumerate(self.convs):
            if vn is not None:
                x = x + graph.broadcast(vn)
            update, edges = conv(x, graph, edges)
            x = update if conv.residual or layer == self.bare else self._finish(layer, x, update, graph)
            if self.jump is not None:
                layer_outputs.append(x)
            if layer < len(self.virtual_nodes):
                vn = self.virtual_nodes[layer](x, vn, graph)
        x = x if self.jump is None else self.jump(torch.cat(layer_outputs, dim=-1))
        return x if rows is None else x.index_select(0, rows), vn

    def _finish(self, layer: int, x: Tensor, update: Tensor, graph: Graph) -> Tensor:
        if len(self.shortcuts):
            update = update + self.shortcuts[layer](x)
        y = self.dropout(self.act(self.norms[layer](update, graph.mask)))
        return x + y if self.residual is True and x.shape[-1] == y.shape[-1] else y
