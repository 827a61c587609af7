"""`virtual_node: graph` against graphs to which the node is added explicitly, in layers of sstcast and of PyG."""

import numpy as np
import pytest
import torch
from small_graphs import one_graph, path, same
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from sstcast.errors import SSTCastError
from sstcast.graphs.sparse import SparseGraph
from sstcast.models import build_forecaster
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
    graph = pieces(D)
    whole, _ = graph.with_virtual_nodes()
    layer, y = GatedGCN(D, D, norm="batch").train(), torch.randn(NODES + 3, D)
    edges, (source, target) = torch.randn(whole.edge_index.shape[1], D), whole.edge_index
    scores = layer.target(y)[target] + layer.source(y)[source] + layer.edge(edges)
    real = scores[: graph.edge_index.shape[1]]
    expected = edges + ((scores - real.mean(0)) / (real.var(0, correction=0) + 1e-5).sqrt()).relu()
    same(layer(y, whole, [edges])[1][0], expected)


@pytest.mark.parametrize("weights", [False, True])
def test_the_extended_graph_is_a_graph(weights: bool) -> None:
    """Also around graphs without nodes. Loops, weights and the mask survive."""
    graph = pieces(loops=True)
    if weights:
        graph.edge_weight = [torch.rand(graph.edge_index.shape[1], 1)]
    (whole, rows), wanted = graph.with_virtual_nodes(), extended(graph)
    assert torch.equal(whole.edge_index, wanted.edge_index)
    assert torch.equal(whole.batch, wanted.batch)
    assert torch.equal(whole.edge_attr[0], wanted.edge_attr[0])
    assert torch.equal(whole.mask, REAL)
    assert torch.equal(rows, REAL.nonzero().flatten())
    assert (whole.edge_weight is not None) is weights
    if weights:
        assert torch.equal(whole.edge_weight[0], torch.cat([graph.edge_weight[0], torch.ones(2 * NODES, 1)]))
    loopless, keep = whole.without_loops()
    assert (~keep[0]).sum() == 2
    assert torch.equal(loopless.mask, REAL)
    few, rows = SparseGraph(torch.zeros(2, 0).long(), torch.tensor([1, 1]), 3).with_virtual_nodes()
    assert few.edge_index.T.tolist() == [[1, 3], [2, 3], [3, 1], [3, 2]]
    assert few.batch.tolist() == [0, 1, 1, 1, 2]
    assert (few.mask.tolist(), rows.tolist()) == ([False, True, True, False, False], [1, 2])


def test_tiles_are_refused() -> None:
    with pytest.raises(SSTCastError, match=r"model\.virtual_node: tiles have no place for a node of the graph"):
        build_forecaster("mpnn", history=5, horizon=2, shape=(4, 5), width=D, virtual_node="graph")


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
