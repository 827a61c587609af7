"""`virtual_node: graph` against graphs to which the node is added explicitly, in layers of sstcast and of PyG."""

from typing import Literal

import numpy as np
import pytest
import torch
from small_graphs import land_grid, ocean_of, one_graph, path, same
from torch import Tensor, nn
from torch_geometric.nn import GCNConv
from torch_geometric.utils import scatter

from sstcast.errors import SSTCastError
from sstcast.graphs.sparse import SparseGraph
from sstcast.graphs.virtual import WithVirtualNode
from sstcast.models.convs import GatedGCN
from sstcast.models.layers import CONVS
from sstcast.models.mpnn import MPNN

D, FEATURES, SIZES = 8, 3, (5, 1, 4)
NODES = sum(SIZES)
BATCH = torch.arange(len(SIZES)).repeat_interleave(torch.tensor(SIZES))
REAL = torch.tensor([True] * 5 + [False] + [True] + [False] + [True] * 4 + [False])  # of the extended graphs


def pieces(features: int = FEATURES, loops: bool = False) -> SparseGraph:
    """Return three graphs: a path with a loop or an isolated node, a single node, and a path."""
    edges = torch.cat([path(4), path(4) + 6], dim=1)
    if loops:
        edges = torch.cat([edges, torch.tensor([[4, 7], [4, 7]])], dim=1)
    return SparseGraph(edges, BATCH, 3, torch.randn(edges.shape[1], features) if features else None)


def extended(graph: SparseGraph) -> SparseGraph:
    """Return the same graphs with a further last node each, whose edges have features of 0."""
    places, index, graphs = REAL.nonzero().flatten(), [], torch.arange(NODES + 3)[~REAL]
    index.append(places[graph.edge_index])
    ends = torch.stack([places, graphs[graph.batch]])
    index += [ends, ends.flip(0)]
    attr = None
    if graph.edge_attr is not None:
        attr = torch.cat([graph.edge_attr[0], torch.zeros(2 * NODES, graph.edge_attr[0].shape[1])])
    batch = torch.repeat_interleave(torch.arange(3), torch.tensor(SIZES) + 1)
    return SparseGraph(torch.cat(index, dim=1), batch, 3, attr)


def with_zeros(x: Tensor) -> Tensor:
    return x.new_zeros(NODES + 3, x.shape[1]).masked_scatter(REAL.unsqueeze(1), x)


@pytest.mark.parametrize("features", [0, FEATURES])
@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("conv", CONVS)
def test_it_is_message_passing_on_the_extended_graph(conv: str, loops: bool, features: int) -> None:
    """With the same weights, and with jumping knowledge, which sees the virtual node's rows too."""
    graph, x = pieces(features, loops), torch.randn(NODES, D)
    options = {"edge_dim": features, "conv": conv, "jumping": conv == "gcn"}
    plain, model = MPNN(D, 3, **options), MPNN(D, 3, virtual_node="graph", **options)
    model.load_state_dict(plain.state_dict())  # no further weights
    same(model(x, graph), plain(with_zeros(x), extended(graph))[REAL])
    assert not torch.allclose(model(x, graph), plain(x, graph), atol=1e-3)
    assert model.encode(x, graph)[1] is None


def test_against_layers_of_pyg() -> None:
    """Three layers of GCN, LayerNorm, ReLU and residual connections."""
    graph, x, model = pieces(0), torch.randn(NODES, D), MPNN(D, 3, conv="gcn", edge_dim=0, virtual_node="graph")
    y, whole = with_zeros(x), extended(graph)
    for conv, norm in zip(model.convs, model.norms, strict=True):
        layer = GCNConv(D, D)
        layer.lin.weight.data.copy_(conv.linear.weight)
        layer.bias.data.copy_(conv.bias)
        y = y + nn.functional.layer_norm(layer(y, whole.edge_index), (D,), norm.weight, norm.bias).relu()
    same(model(x, graph), y[REAL])


@pytest.mark.parametrize("virtual_node", [False, "graph"])
@pytest.mark.parametrize("conv", CONVS)
def test_grid_and_sparse_give_the_same(conv: str, virtual_node: bool | Literal["graph"]) -> None:
    """In training, with BatchNorm: land has no virtual edges, and its edges do not count in statistics."""
    grid, x = land_grid(4, 5), torch.randn(2, 20, D)
    model = MPNN(D, 3, virtual_node=virtual_node, conv=conv, norm="batch").train()
    same(model(x, grid)[grid.mask], model(x[grid.mask], ocean_of(grid)), 1e-4)


@torch.no_grad()
def test_statistics_of_batch_norm_are_those_of_real_nodes() -> None:
    """They normalise the virtual nodes too, in NumPy."""
    graph, x = pieces(0), torch.randn(NODES, D)
    model = MPNN(D, 2, conv="sage", edge_dim=0, norm="batch", residual=False, virtual_node="graph").train()
    source, target = extended(graph).edge_index.numpy()
    linked = np.zeros((NODES + 3, NODES + 3))
    linked[target, source] = 1
    mean = linked / linked.sum(1, keepdims=True)
    y = with_zeros(x).double().numpy()
    for layer in model.convs:
        y = (
            y @ layer.root.weight.double().numpy().T
            + layer.root.bias.double().numpy()
            + (mean @ y @ layer.neighbor.weight.double().numpy().T)
        )
        real = y[REAL.numpy()]
        y = np.maximum((y - real.mean(0)) / np.sqrt(real.var(0) + 1e-5), 0)
    same(model(x, graph), torch.from_numpy(y[REAL.numpy()]).float(), 1e-4)


@torch.no_grad()
def test_statistics_of_edges_are_those_of_real_edges() -> None:
    """The edge state after a layer of GatedGCN: each edge minus mean, over deviation, of the graph's own edges."""
    graph, x = pieces(D), torch.randn(NODES, D)
    whole, layer = WithVirtualNode(graph, x), GatedGCN(D, D, norm="batch").train()
    y = whole.join(x, torch.randn(3, D))
    edges = [graph.edge_attr[0], *torch.randn(2, NODES, D)]
    scores = [
        layer.target(t) + layer.source(s) + layer.edge(e)
        for t, s, e in zip(whole.target(y), whole.source(y), edges, strict=True)
    ]
    mean, deviation = scores[0].mean(0), (scores[0].var(0, correction=0) + 1e-5).sqrt()
    for ours, e, s in zip(layer(y, whole, edges)[1], edges, scores, strict=True):
        same(ours, e + ((s - mean) / deviation).relu())


@pytest.mark.parametrize("reduce", ["sum", "mean", "max"])
def test_sums_over_edges_are_those_of_the_extended_graph(reduce: str) -> None:
    graph, x = pieces(), torch.randn(NODES + 3, D)
    ours, whole = WithVirtualNode(graph, x[:NODES]), extended(graph)
    source, target = whole.edge_index
    order = torch.cat([REAL.nonzero(), (~REAL).nonzero()]).flatten()  # virtual nodes last
    y = torch.empty_like(x).index_copy(0, order, x)
    expected = scatter(y[source], target, dim_size=NODES + 3, reduce=reduce)[order]
    same(ours.neighbors(x, reduce), expected)
    same(ours.aggregate(ours.source(x), reduce), expected)
    ends = scatter(y[target] * y[source], target, dim_size=NODES + 3, reduce=reduce)[order]
    messages = [s * t for s, t in zip(ours.source(x), ours.target(x), strict=True)]
    same(ours.aggregate(messages, reduce), ends)
    assert ours.mask.tolist() == [True] * NODES + [False] * 3


def test_the_other_end_of_a_path_is_two_layers_away() -> None:
    x, graph = torch.randn(50, D), one_graph(path(50), 50)
    changed = x.clone()
    changed[0] += 10
    for virtual_node in (False, "graph"):
        model = MPNN(D, 2, virtual_node=virtual_node, edge_dim=0)
        far = (model(x, graph) - model(changed, graph))[49].abs().max()
        assert bool(far > 1e-6) is (virtual_node == "graph")


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(SSTCastError, match="one layer would not use the virtual node"):
        MPNN(D, 1, virtual_node="graph")
    for virtual_node in (False, "graph"):
        with pytest.raises(SSTCastError, match="virtual_hidden: no virtual node has a perceptron"):
            MPNN(D, 2, virtual_node=virtual_node, virtual_hidden=4)
    model = MPNN(D, 3, virtual_node=True, virtual_hidden=5)
    assert [part.mlp[0].weight.shape for part in model.virtual_nodes] == [(5, D), (5, D)]
    assert MPNN(D, 3, virtual_node=True).virtual_nodes[0].mlp[0].weight.shape == (2 * D, D)
