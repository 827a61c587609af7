"""Plain GCN, GraphSAGE, GIN and GAT: PyG's layers and networks with the same weights, and weights drawn alike."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg

from perf.parity import CONVS, RECIPES, Plain, Recipe, build, configure
from sstcast.benchmarks.predictor import GraphPredictor, LinearEncoder
from sstcast.errors import SSTCastError
from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph
from sstcast.models import build_forecaster, build_model
from sstcast.models.layers import build_conv

PLAIN = Recipe(1, norm="none")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def graphs() -> SparseGraph:
    """Two graphs, directed, with a node that hears nobody."""
    edges = torch.tensor([[0, 1, 2, 0, 3, 4, 4, 6, 7], [1, 0, 1, 2, 2, 0, 3, 7, 8]])
    return SparseGraph(edges, torch.tensor([0, 0, 0, 0, 0, 0, 1, 1, 1]), 2)


def take(ours: nn.Module, theirs: nn.Module, conv: str) -> None:
    """Give our layer random weights, and PyG's the same."""
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
    else:
        pairs = [(theirs.eps, ours.eps)]
        for layer, linear in zip(theirs.nn.lins, (ours.mlp[0], ours.mlp[2]), strict=True):
            pairs += [(layer.weight, linear.weight), (layer.bias, linear.bias)]
        if list(ours.norm.parameters()):
            norm = theirs.nn.norms[0].module
            pairs += [(norm.weight, ours.norm.weight), (norm.bias, ours.norm.bias)]
    for other, own in pairs:
        other.data.copy_(own.detach().reshape(other.shape))


@pytest.mark.parametrize("norm", ["none", "batch"])
@pytest.mark.parametrize("conv", CONVS)
def test_layers_that_change_the_width_are_pygs(conv: str, norm: str) -> None:
    ours = build_conv(conv, 8, 0, 5, heads=4, norm=norm)
    theirs = build(conv, 5, 8, 4, Recipe(1, norm=norm))
    take(ours, theirs, conv)
    x, graph = torch.randn(9, 5), graphs()
    torch.testing.assert_close(ours(x, graph, None)[0], theirs(x, graph.edge_index), rtol=1e-5, atol=1e-5)


def weights(module: nn.Module) -> dict[str, Tensor]:
    """The matrices, and attention vectors, of a layer by their sizes."""
    found = [p.detach().squeeze(0) for p in module.parameters()]
    return {f"{tuple(sorted(p.shape))}": p for p in found if p.dim() == 2}


@pytest.mark.parametrize("conv", CONVS)
def test_weights_are_drawn_as_pyg_draws_them(conv: str) -> None:
    """From uniform distributions of the same bounds."""
    ours, theirs = build_conv(conv, 80, 0, 300, heads=8), build(conv, 300, 80, 8, PLAIN)
    own, other = weights(ours), weights(theirs)
    assert own.keys() == other.keys()
    for size, value in own.items():
        assert value.abs().max() == pytest.approx(float(other[size].abs().max()), rel=0.03), size
        assert value.std() == pytest.approx(float(other[size].std()), rel=0.1), size
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("conv", CONVS)
def test_networks_of_the_same_recipe_are_the_same(name: str, conv: str) -> None:
    """Training and evaluation of sstcast's predictor and of plain PyG, on the recipes of perf/parity.py."""
    recipe, graph, features = RECIPES[name], graphs(), 11
    config = configure(name, conv, recipe, Path())
    several, outputs = name in ("NCI1", "ZINC"), 8
    options = config.model.options | {"edge_dim": 0, "dropout": 0.0, "in_width": features}
    if not recipe.head:
        options["out_width"] = outputs
    nodes = LinearEncoder(features, None)
    ours = GraphPredictor(nodes, None, build_model("mpnn", **options), outputs, several, config.predictor)
    theirs = Plain(Recipe(**vars(recipe) | {"dropout": 0.0}), conv, features, outputs, pool=several)
    for mine, other in zip(ours.backbone.convs, theirs.convs, strict=True):
        take(mine, other, conv)
    theirs.head.load_state_dict(ours.head.state_dict())
    for training in (True, False):
        x = torch.randn(9, features)
        found = ours.head(
            ours.readout(ours.backbone(x, graph), None, graph) if several else ours.backbone(x, graph)
        )
        expected = theirs(x, graph.edge_index, graph.batch)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        ours.train(not training)
        theirs.train(not training)


def test_jumping_is_a_linear_map_of_all_layers() -> None:
    ours = build_model(
        "mpnn", conv="gin", width=8, layers=3, norm="none", residual=False, jumping=True, edge_dim=0
    )
    theirs = pyg.models.GIN(8, 8, 3, 8, norm=None, jk="cat", train_eps=True)
    for mine, other in zip(ours.convs, theirs.convs, strict=True):
        take(mine, other, "gin")
    theirs.lin.load_state_dict(ours.jump.state_dict())
    x, graph = torch.randn(9, 8), graphs()
    torch.testing.assert_close(ours(x, graph), theirs(x, graph.edge_index))


def test_residual_connections() -> None:
    """None, the input itself, and a linear map of it before the norm."""
    x, graph = torch.randn(9, 8), graphs()
    for residual in (False, True, "linear"):
        model = build_model(
            "mpnn", conv="gcn", width=8, layers=1, residual=residual, activation="silu", edge_dim=0
        ).eval()
        y = model.convs[0](x, graph, None)[0]
        if residual == "linear":
            y = y + model.shortcuts[0](x)
        y = nn.functional.silu(nn.functional.layer_norm(y, (8,)))
        torch.testing.assert_close(model(x, graph), x + y if residual is True else y)


def test_a_forecaster_fits_the_ends_of_its_backbone() -> None:
    sizes = {"history": 7, "horizon": 3, "shape": (4, 5)}
    model = build_forecaster("mpnn", **sizes, width=8, in_width=5, out_width=6, positional="lap")
    assert model.encoder.weight.shape == (5, 7)
    assert model(torch.randn(2, 20, 7), GridGraph(4, 5)).shape == (2, 20, 3)


def test_a_layer_that_keeps_the_width_says_so() -> None:
    with pytest.raises(SSTCastError, match="conv gatedgcn: cannot map 5 channels to 8; leave encoder and head on"):
        build_model("mpnn", conv="gatedgcn", width=8, in_width=5)
