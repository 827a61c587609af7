"""GPS against its equations."""

import pytest
import torch
from small_graphs import land_grid, one_graph
from torch import Tensor, nn

from sstcast.errors import SSTCastError
from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph
from sstcast.models.gps import GPS
from sstcast.models.layers import ATTENTIONS

D = 16


def make_grid() -> tuple[Tensor, GridGraph]:
    return torch.randn(2, 42, D), land_grid(6, 7)


@pytest.mark.parametrize("norm", ["layer", "batch"])
@pytest.mark.parametrize("conv", ["gatedgcn", "mean"])
def test_layer_by_its_equations(conv: str, norm: str) -> None:
    model, (x, graph) = GPS(D, 1, conv, "softmax", heads=2, norm=norm).eval(), make_grid()
    layer = model.layers[0]
    for norm in (layer.conv_norm, layer.attention_norm, layer.norm):
        nn.init.normal_(norm.weight)
    edges = [model.edge_encoder(e) for e in graph.edge_attr] if conv == "gatedgcn" else graph.edge_attr
    local, _ = layer.conv(x, graph, edges)
    attended = layer.attention.attention(*graph.dense(x))
    y = layer.conv_norm(local if conv == "gatedgcn" else local + x) + layer.attention_norm(attended + x)
    torch.testing.assert_close(model(x, graph), layer.norm(y + layer.feed_forward(y)))


@pytest.mark.parametrize("inside", ["layer", "batch"])
def test_the_norm_inside_gatedgcn_is_chosen_apart(inside: str) -> None:
    """It is LayerNorm by default, even in presets whose layers have BatchNorm, and of the same size."""
    default, model = (GPS(D, 2, norm="batch", **options) for options in ({}, {"conv_norm": inside}))
    kinds = {"layer": nn.LayerNorm, "batch": nn.BatchNorm1d}
    for first, second in zip(default.layers, model.layers, strict=True):
        assert isinstance(first.conv.node_norm, nn.LayerNorm)
        assert isinstance(second.conv.node_norm, kinds[inside])
        assert isinstance(second.norm, nn.BatchNorm1d)
    assert isinstance(model.layers[0].conv.edge_norm, kinds[inside])
    count, other = (sum(p.numel() for p in network.parameters()) for network in (default, model))
    assert count == other


def test_dropout_acts_in_training_only() -> None:
    x, graph = make_grid()
    for name in (*ATTENTIONS, "none"):
        model = GPS(D, 2, attention=name, heads=2, attention_dropout=0.5)
        drops = not torch.equal(model(x, graph), model(x, graph))
        assert drops == (name != "none"), name
        assert torch.equal(model.eval()(x, graph), model(x, graph)), name


def test_stable_positions_reach_the_gates_alone() -> None:
    """ESLapPE depends on the eigenvectors, but not on their signs or a rotation of all of them."""
    ring = torch.arange(7)
    edges = torch.cat([torch.stack([ring, (ring + 1) % 7]), torch.tensor([[0, 3], [2, 5]])], dim=1)
    edges = torch.cat([edges, edges.flip(0)], dim=1)
    graph = one_graph(edges, 7)
    vectors, values = graph.laplacian(3)
    model, x = GPS(width=8, layers=2, edge_dim=0, attention="none", stable_pairs=3).eval(), torch.randn(7, 8)
    assert model.eigenpairs == 3
    before = model(x, graph)
    rotation = torch.linalg.qr(torch.randn(3, 3)).Q
    for turned in (vectors * torch.tensor([1.0, -1.0, -1.0]), vectors @ rotation):
        torch.testing.assert_close(model(x, SparseGraph(edges, graph.batch, 1, None, (turned, values))), before)
    other = SparseGraph(edges, graph.batch, 1, None, (torch.randn(7, 3), values))
    assert not torch.allclose(model(x, other), before)
    with pytest.raises(SSTCastError, match="stable_pairs: gine has no gates"):
        GPS(width=8, conv="gine", stable_pairs=3)
