"""GatedGCN against its equations, other local layers against PyG's layers and networks with the same weights."""

from pathlib import Path

import networkx as nx
import pytest
import torch
from small_graphs import as_sparse, one_graph
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.utils import scatter

from perf.beside_pyg import CONVS as OF_PYG
from perf.beside_pyg import RECIPES, Plain, Recipe, build, configure
from sstcast.benchmarks.graph_model import GraphModel, LinearEncoder
from sstcast.graphs.sparse import SparseGraph
from sstcast.models import build_model
from sstcast.models.convs import GatedGCN
from sstcast.models.layers import CONVS, build_conv
from sstcast.models.mpnn import MPNN

D = 8


def directed(edge_dim: int = D) -> SparseGraph:
    """Return a graph with a node without incoming edges, and an isolated one."""
    edge_index = torch.tensor([[0, 1, 2, 0, 3, 4, 4], [1, 0, 1, 2, 2, 0, 3]])
    return one_graph(edge_index, 6, torch.randn(7, edge_dim) if edge_dim else None)


def normalise(norm: nn.Module, x: Tensor) -> Tensor:
    """LayerNorm over channels, or BatchNorm over all rows, in training."""
    axis = 1 if isinstance(norm, nn.LayerNorm) else 0
    scaled = (x - x.mean(axis, keepdim=True)) / (x.var(axis, correction=0, keepdim=True) + 1e-5).sqrt()
    return scaled * norm.weight + norm.bias


def gatedgcn(
    layer: GatedGCN, x: Tensor, e: Tensor, edges: Tensor, near: Tensor | float = 1.0
) -> tuple[Tensor, Tensor]:
    """Compute one layer as in the released code of arXiv:2003.00982, its gates multiplied by `near`."""
    source, target = edges
    score = layer.target(x[target]) + layer.source(x[source]) + layer.edge(e)
    gate = score.sigmoid() * near
    above, below = (scatter(part, target, dim_size=len(x)) for part in (gate * layer.neighbor(x[source]), gate))
    new_e = e if layer.edge_norm is None else e + normalise(layer.edge_norm, score).relu()
    return x + normalise(layer.node_norm, layer.own(x) + above / (below + 1e-6)).relu(), new_e


@pytest.mark.parametrize("edge_dim", [0, 3])
@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_gatedgcn_by_its_equations(edge_dim: int, norm: str) -> None:
    """Three layers in training. Without features, all edges start with the same learned vector."""
    graph, x = directed(edge_dim), torch.randn(6, D)
    model = MPNN(D, 3, edge_dim=edge_dim, conv="gatedgcn", norm=norm)
    for parameter in model.parameters():  # so that none stays 0 or 1
        nn.init.normal_(parameter, std=0.5)
    nodes, edges = x, model.edge_encoder(graph.edge_attr[0] if edge_dim else torch.ones(7, 1))
    for layer in model.convs:
        nodes, edges = gatedgcn(layer, nodes, edges, graph.edge_index)
    torch.testing.assert_close(model(x, graph), nodes, rtol=1e-4, atol=1e-5)


def test_stable_positions_multiply_the_gates() -> None:
    """ESLapPE: by sigmoid(MLP(|p_i - p_j|^2)), where p are the eigenvectors (arXiv:2203.00199)."""
    graph, x, e = as_sparse(nx.lollipop_graph(4, 3)), torch.randn(7, D), torch.randn(18, D)
    layer, (vectors, _), (source, target) = GatedGCN(D, D, pairs=3), graph.laplacian(3), graph.edge_index
    apart = (vectors[source] - vectors[target]).square().sum(1, keepdim=True)
    first, _, last = layer.near
    near = 1 / (1 + torch.exp(-last(first(apart).clamp(min=0))))
    expected, edges = gatedgcn(layer, x, e, graph.edge_index, near)
    out, (state,) = layer(x, graph, [e])
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(state, edges)


@pytest.mark.parametrize("name", CONVS)
def test_the_edge_state_is_seen_or_handed_back(name: str) -> None:
    graph, x, layer = directed(), torch.randn(6, D), build_conv(name, D, D)
    out, edges = layer(x, graph, graph.edge_attr)
    without, none = layer(x, graph, None)
    assert (none is None) == (name != "gatedgcn")
    reads = any("edge" in part for part, _ in layer.named_parameters())
    assert torch.equal(out, without) != reads
    assert (edges is graph.edge_attr) == (name != "gatedgcn")


def test_residual_connections() -> None:
    """No residual, the input itself, and a linear map of the input before the norm."""
    x, graph = torch.randn(6, D), directed(0)
    for residual in (False, True, "linear"):
        options = {"conv": "gcn", "width": D, "layers": 1, "activation": "silu", "edge_dim": 0}
        model = build_model("mpnn", residual=residual, **options).eval()
        y = model.convs[0](x, graph, None)[0]
        if residual == "linear":
            y = y + model.shortcuts[0](x)
        y = nn.functional.silu(nn.functional.layer_norm(y, (D,)))
        torch.testing.assert_close(model(x, graph), x + y if residual is True else y)


# GCN, GraphSAGE, GIN, GINE and GAT against PyG, with the same weights and the same initial distributions.

PLAIN = Recipe(1, norm="none")


def graphs(edge_dim: int = 0, loops: bool = False) -> SparseGraph:
    """Return two directed graphs with a node without incoming edges."""
    edges = torch.tensor([[0, 1, 2, 0, 3, 4, 4, 6, 7], [1, 0, 1, 2, 2, 0, 3, 7, 8]])
    if loops:
        edges = torch.cat([edges, torch.tensor([[3, 3, 4], [3, 3, 4]])], dim=1)
    attr = torch.randn(edges.shape[1], edge_dim) if edge_dim else None
    return SparseGraph(edges, torch.tensor([0, 0, 0, 0, 0, 0, 1, 1, 1]), 2, attr)


def take(ours: nn.Module, theirs: nn.Module, conv: str) -> None:
    """Give our layer random weights, and PyG's layer the same."""
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.5)
    if conv == "gcn":
        pairs = [(theirs.lin.weight, ours.linear.weight), (theirs.bias, ours.bias)]
    elif conv == "sage":
        pairs = [(theirs.lin_l.weight, ours.neighbor.weight), (theirs.lin_r.weight, ours.root.weight)]
        pairs += [(theirs.lin_l.bias, ours.root.bias)]
    elif conv == "gat":
        pairs = [(theirs.lin.weight, ours.linear.weight), (theirs.bias, ours.bias)]
        pairs += [(theirs.att_src, ours.attend_source), (theirs.att_dst, ours.attend_target)]
        if ours.edge is not None:
            pairs += [(theirs.lin_edge.weight, ours.edge.weight), (theirs.att_edge, ours.attend_edge)]
    else:
        pairs = [(theirs.eps, ours.eps)]
        if ours.edge is not None:
            pairs += [(theirs.lin.weight, ours.edge.weight)]
            nn.init.zeros_(theirs.lin.bias)
        for layer, linear in zip(theirs.nn.lins, (ours.mlp[0], ours.mlp[2]), strict=True):
            pairs += [(layer.weight, linear.weight), (layer.bias, linear.bias)]
        if list(ours.norm.parameters()):
            norm = theirs.nn.norms[0].module
            pairs += [(norm.weight, ours.norm.weight), (norm.bias, ours.norm.bias)]
    for other, own in pairs:
        other.data.copy_(own.detach().reshape(other.shape))


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("conv", ["gine", "gat"])
def test_layers_that_see_edges_are_pygs(conv: str, heads: int) -> None:
    ours, x = build_conv(conv, 8, 3, heads=heads), torch.randn(9, 8)
    gine = pyg.GINEConv(pyg.MLP([8, 8, 8], norm=None), train_eps=True, edge_dim=3)
    theirs = gine if conv == "gine" else pyg.GATConv(8, 8 // heads, heads, edge_dim=3)
    take(ours, theirs, conv)
    for graph in (graphs(3), graphs(3, loops=conv == "gat")):
        expected = theirs(x, graph.edge_index, graph.edge_attr[0])
        torch.testing.assert_close(ours(x, graph, graph.edge_attr)[0], expected, rtol=1e-5, atol=1e-5)


def weights(module: nn.Module) -> dict[str, Tensor]:
    """Return the matrices and attention vectors of a layer by their sizes."""
    found = [p.detach().squeeze(0) for p in module.parameters()]
    return {f"{tuple(sorted(p.shape))}": p for p in found if p.dim() == 2}


@pytest.mark.parametrize("conv", [name for name in OF_PYG if name in CONVS])
def test_weights_are_drawn_as_pyg_draws_them(conv: str) -> None:
    """Both are uniform with the same bounds."""
    ours, theirs = build_conv(conv, 80, 0, 300, heads=8), build(conv, 300, 80, 8, PLAIN)
    own, other = weights(ours), weights(theirs)
    assert own.keys() == other.keys()
    for size, value in own.items():
        assert value.abs().max() == pytest.approx(float(other[size].abs().max()), rel=0.03), size
        assert value.std() == pytest.approx(float(other[size].std()), rel=0.1), size
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("conv", OF_PYG)
def test_networks_of_the_same_recipe_are_the_same(name: str, conv: str) -> None:
    """The predictor against plain PyG, in training and evaluation, with the recipes of perf/beside_pyg.py."""
    recipe, graph, features = RECIPES[name], graphs(loops=conv in ("gcn", "gat")), 11  # loops count once
    if conv == "gcn weighted":
        graph.edge_weight = [torch.rand(graph.edge_index.shape[1], 1)]
    weight = None if graph.edge_weight is None else graph.edge_weight[0].squeeze(1)
    config = configure(name, conv, recipe, Path())
    several, outputs = name in ("NCI1", "ZINC"), 8
    options = config.model.options | {"edge_dim": 0, "dropout": 0.0, "in_width": features}
    if not recipe.head:
        options["out_width"] = outputs
    nodes = LinearEncoder(features, None)
    ours = GraphModel(nodes, None, build_model("mpnn", **options), outputs, several, config.predictor)
    theirs = Plain(Recipe(**vars(recipe) | {"dropout": 0.0}), conv, features, outputs, pool=several)
    for mine, other in zip(ours.backbone.convs, theirs.convs, strict=True):
        take(mine, other, conv.split()[0])
    theirs.head.load_state_dict(ours.head.state_dict())
    for training in (True, False):
        x = torch.randn(9, features)
        found = ours.backbone(x, graph)
        found = ours.head(ours.readout(found, None, graph) if several else found)
        torch.testing.assert_close(found, theirs(x, graph.edge_index, graph.batch, weight), rtol=1e-4, atol=1e-4)
        ours.train(not training)
        theirs.train(not training)


def test_jumping_is_a_linear_map_of_all_layers() -> None:
    options = {"norm": "none", "residual": False, "jumping": True, "edge_dim": 0}
    ours = build_model("mpnn", conv="gin", width=8, layers=3, **options)
    theirs = pyg.models.GIN(8, 8, 3, 8, norm=None, jk="cat", train_eps=True)
    for mine, other in zip(ours.convs, theirs.convs, strict=True):
        take(mine, other, "gin")
    theirs.lin.load_state_dict(ours.jump.state_dict())
    x, graph = torch.randn(9, 8), graphs()
    torch.testing.assert_close(ours(x, graph), theirs(x, graph.edge_index))
