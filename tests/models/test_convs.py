"""GatedGCN by its equations, what layers do with edges, and the options of message passing around them."""

import pytest
import torch
from small_graphs import one_graph
from torch import Tensor, nn

from sstcast.errors import SSTCastError
from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph
from sstcast.models import build_forecaster, build_model
from sstcast.models.convs import GatedGCN
from sstcast.models.layers import CONVS, build_conv
from sstcast.models.mpnn import MPNN

D = 8
BLIND = {"gin", "gcn", "sage"}


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def directed(edge_dim: int = D) -> SparseGraph:
    """A node that hears nobody, and one that is alone."""
    edge_index = torch.tensor([[0, 1, 2, 0, 3, 4, 4], [1, 0, 1, 2, 2, 0, 3]])
    return one_graph(edge_index, 6, torch.randn(7, edge_dim) if edge_dim else None)


def gatedgcn(layer: GatedGCN, x: Tensor, e: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    """One layer, edge by edge, as arXiv:2003.00982 releases it."""
    new_e, above, below = e.clone(), torch.zeros_like(x), torch.full_like(x, 1e-6)
    for number, (source, target) in enumerate(edges.T.tolist()):
        score = layer.target(x[target]) + layer.source(x[source]) + layer.edge(e[number])
        above[target] += score.sigmoid() * layer.neighbor(x[source])
        below[target] += score.sigmoid()
        if layer.edge_norm is not None:
            new_e[number] += layer.edge_norm(score).relu()
    return x + layer.node_norm(layer.own(x) + above / below).relu(), new_e


@pytest.mark.parametrize("edge_dim", [0, 3])
def test_gatedgcn_by_its_equations(edge_dim: int) -> None:
    """Three layers; without features all edges start with one learned vector, and keep a state of their own."""
    graph, x, model = directed(edge_dim), torch.randn(6, D), MPNN(D, 3, edge_dim=edge_dim, conv="gatedgcn")
    for parameter in model.parameters():  # away from zeros and ones
        nn.init.normal_(parameter, std=0.5)
    nodes, edges = x, model.edge_encoder(graph.edge_attr[0] if edge_dim else torch.ones(7, 1))
    for layer in model.convs:
        nodes, edges = gatedgcn(layer, nodes, edges, graph.edge_index)
    torch.testing.assert_close(model(x, graph), nodes, rtol=1e-4, atol=1e-5)


def test_gates_of_gatedgcn_can_close() -> None:
    """A node with a low score is left out of the mean; edges None start at 0 and are kept from then on."""
    graph = one_graph(torch.tensor([[0, 1], [2, 2]]), 3)
    layer, x = GatedGCN(2, 2), torch.tensor([[1.0, 0], [0, 1], [0, 0]])
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    layer.node_norm, layer.neighbor = nn.Identity(), nn.Identity()
    with torch.no_grad():
        layer.source.weight.copy_(torch.tensor([[30.0, -30], [30, -30]]))  # +30 of node 0, -30 of node 1
        layer.edge_norm.bias.fill_(0.5)
    new_x, edges = layer(x, graph, None)
    torch.testing.assert_close(new_x[2], torch.tensor([1.0, 0]))
    torch.testing.assert_close(edges[0], torch.full((2, 2), 0.5))


@pytest.mark.parametrize("name", CONVS)
def test_the_edge_state_is_seen_or_handed_back(name: str) -> None:
    graph, x, layer = directed(), torch.randn(6, D), build_conv(name, D, D)
    out, edges = layer(x, graph, graph.edge_attr)
    without, none = layer(x, graph, None)
    assert (none is None) == (name != "gatedgcn")
    assert torch.equal(out, without) == (name in BLIND)
    assert (edges is graph.edge_attr) == (name != "gatedgcn")


def test_residual_connections() -> None:
    """None, the input itself, and a linear map of it before the norm."""
    x, graph = torch.randn(6, D), directed(0)
    for residual in (False, True, "linear"):
        options = {"conv": "gcn", "width": D, "layers": 1, "activation": "silu", "edge_dim": 0}
        model = build_model("mpnn", residual=residual, **options).eval()
        y = model.convs[0](x, graph, None)[0]
        if residual == "linear":
            y = y + model.shortcuts[0](x)
        y = nn.functional.silu(nn.functional.layer_norm(y, (D,)))
        torch.testing.assert_close(model(x, graph), x + y if residual is True else y)


def test_a_forecaster_fits_the_ends_of_its_backbone() -> None:
    sizes = {"history": 7, "horizon": 3, "shape": (4, 5)}
    model = build_forecaster("mpnn", **sizes, width=8, in_width=5, out_width=6, positional="lap")
    assert model.encoder.weight.shape == (5, 7)
    assert model(torch.randn(2, 20, 7), GridGraph(4, 5)).shape == (2, 20, 3)


@pytest.mark.parametrize("wrong", [{"norm": "batch"}, {"activation": "gelu"}, {"residual": False}])
def test_a_layer_that_has_its_own_refuses_others(wrong: dict[str, object]) -> None:
    with pytest.raises(SSTCastError, match="conv gatedgcn: has its own norm, activation and residual"):
        build_model("mpnn", conv="gatedgcn", **wrong)


def test_a_layer_that_keeps_the_width_says_so() -> None:
    with pytest.raises(SSTCastError, match="conv gatedgcn: cannot map 5 channels to 8; leave encoder and head on"):
        build_model("mpnn", conv="gatedgcn", width=8, in_width=5)
