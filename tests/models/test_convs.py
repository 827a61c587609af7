"""Local layers against PyTorch Geometric's with the same weights, or plain loops, on grids and edge lists."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.data import Batch, Data
from torch_geometric.utils import subgraph

from sstcast.errors import SSTCastError
from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph
from sstcast.models.convs import GAT, GCN, GIN, GINE, GatedGCN
from sstcast.models.layers import CONVS, build_conv
from sstcast.models.mpnn import MPNN

NAMES = list(CONVS)
BLIND = {"gin", "gcn", "sage"}
H, W, D = 4, 5, 8


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def one_graph(edge_dim: int = D) -> SparseGraph:
    """A directed graph with a node that hears nobody and one that is alone."""
    edge_index = torch.tensor([[0, 1, 2, 0, 3, 4, 4], [1, 0, 1, 2, 2, 0, 3]])
    attributes = torch.randn(7, edge_dim) if edge_dim else None
    return SparseGraph(edge_index, torch.zeros(6, dtype=torch.long), 1, attributes)


def land_grid() -> tuple[GridGraph, SparseGraph]:
    """Two samples with different land, and their ocean as a sparse graph."""
    mask = torch.rand(2, H * W) < 0.7
    grid = GridGraph(H, W, mask)
    index = grid.edge_index()
    offsets = torch.stack([index[0] % W - index[1] % W, index[0] // W - index[1] // W], dim=1).float()
    graphs = []
    for keep in mask:
        edges, attributes = subgraph(keep, index, offsets, relabel_nodes=True, num_nodes=H * W)
        graphs.append(Data(edge_index=edges, edge_attr=attributes, num_nodes=int(keep.sum())))
    return grid, SparseGraph.from_pyg(Batch.from_data_list(graphs))


def disturb(module: nn.Module) -> None:
    """Move every parameter away from the zeros and ones that some start from."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)


def share(*pairs: tuple[Tensor, Tensor]) -> None:
    for theirs, ours in pairs:
        theirs.data.copy_(ours.reshape(theirs.shape))


@pytest.mark.parametrize("edge_dim", [0, 3])
def test_gin_is_pygs(edge_dim: int) -> None:
    graph, x, ours = one_graph(edge_dim), torch.randn(6, D), GINE(D, edge_dim) if edge_dim else GIN(D)
    disturb(ours)
    if edge_dim:
        theirs = pyg.GINEConv(ours.mlp, train_eps=True, edge_dim=edge_dim)
        share((theirs.lin.weight, ours.edge.weight), (theirs.eps, ours.eps))
        nn.init.zeros_(theirs.lin.bias)
        expected = theirs(x, graph.edge_index, graph.edge_attr[0])
    else:
        theirs = pyg.GINConv(ours.mlp, train_eps=True)
        share((theirs.eps, ours.eps))
        expected = theirs(x, graph.edge_index)
    torch.testing.assert_close(ours(x, graph, graph.edge_attr)[0], expected)


def test_gcn_is_pygs() -> None:
    graph, x, ours, theirs = one_graph(), torch.randn(6, D), GCN(D), pyg.GCNConv(D, D)
    disturb(ours)
    share((theirs.lin.weight, ours.linear.weight), (theirs.bias, ours.bias))
    torch.testing.assert_close(ours(x, graph, graph.edge_attr)[0], theirs(x, graph.edge_index))


@pytest.mark.parametrize("edge_dim", [0, 3])
def test_loops_in_the_data_count_once_as_in_pyg(edge_dim: int) -> None:
    index = torch.tensor([[0, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 3, 4]])
    graph = SparseGraph(index, torch.zeros(5, dtype=torch.long), 1, torch.randn(7, edge_dim) if edge_dim else None)
    x, gcn, gat = torch.randn(5, D), GCN(D), GAT(D, edge_dim, 2)
    theirs = pyg.GCNConv(D, D), pyg.GATConv(D, D // 2, 2, edge_dim=edge_dim or None)
    share((theirs[0].lin.weight, gcn.linear.weight), (theirs[1].lin.weight, gat.linear.weight))
    share((theirs[1].att_src, gat.attend_source), (theirs[1].att_dst, gat.attend_target))
    if edge_dim:
        share((theirs[1].lin_edge.weight, gat.edge.weight), (theirs[1].att_edge, gat.attend_edge))
    torch.testing.assert_close(gcn(x, graph, graph.edge_attr)[0], theirs[0](x, index))
    attributes = graph.edge_attr[0] if edge_dim else None
    torch.testing.assert_close(gat(x, graph, graph.edge_attr)[0], theirs[1](x, index, attributes))


@pytest.mark.parametrize("edge_dim", [0, 3])
@pytest.mark.parametrize("heads", [1, 4])
def test_gat_is_pygs(heads: int, edge_dim: int) -> None:
    graph, x, ours = one_graph(edge_dim), torch.randn(6, D), GAT(D, edge_dim, heads)
    disturb(ours)
    theirs = pyg.GATConv(D, D // heads, heads, edge_dim=edge_dim or None)
    share(
        (theirs.lin.weight, ours.linear.weight),
        (theirs.bias, ours.bias),
        (theirs.att_src, ours.attend_source),
        (theirs.att_dst, ours.attend_target),
    )
    attributes = None
    if edge_dim:
        share((theirs.lin_edge.weight, ours.edge.weight), (theirs.att_edge, ours.attend_edge))
        attributes = graph.edge_attr[0]
    torch.testing.assert_close(ours(x, graph, graph.edge_attr)[0], theirs(x, graph.edge_index, attributes))


def normed(rows: np.ndarray, norm: nn.LayerNorm) -> np.ndarray:
    scaled = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + norm.eps)
    return scaled * norm.weight.detach().numpy() + norm.bias.detach().numpy()


def gatedgcn(
    layer: GatedGCN, x: np.ndarray, e: np.ndarray, pairs: list[list[int]]
) -> tuple[np.ndarray, np.ndarray]:
    """One layer in NumPy, edge by edge, as arXiv:2003.00982 releases it."""

    def of(name: str, rows: np.ndarray) -> np.ndarray:
        linear = getattr(layer, name)
        bias = 0 if linear.bias is None else linear.bias.detach().numpy()
        return rows @ linear.weight.detach().numpy().T + bias

    new_e, above, below = e.copy(), np.zeros_like(x), np.full_like(x, 1e-6)
    for number, (source, target) in enumerate(pairs):
        score = of("target", x[target]) + of("source", x[source]) + of("edge", e[number])
        gate = 1 / (1 + np.exp(-score))
        above[target] += gate * of("neighbor", x[source])
        below[target] += gate
        if layer.edge_norm is not None:
            new_e[number] += np.maximum(normed(score, layer.edge_norm), 0)
    return x + np.maximum(normed(of("own", x) + above / below, layer.node_norm), 0), new_e


@pytest.mark.parametrize("edge_dim", [0, 3])
def test_gatedgcn_by_its_equations(edge_dim: int) -> None:
    """Three layers; without features all edges start with one learned vector, and keep a state of their own."""
    graph, x, model = one_graph(edge_dim), torch.randn(6, D), MPNN(D, 3, edge_dim=edge_dim, conv="gatedgcn")
    disturb(model)
    attr = graph.edge_attr[0] if edge_dim else torch.ones(7, 1)
    nodes, edges = x.numpy(), model.edge_encoder(attr).detach().numpy()
    for layer in model.convs:
        nodes, edges = gatedgcn(layer, nodes, edges, graph.edge_index.T.tolist())
    torch.testing.assert_close(model(x, graph), torch.from_numpy(nodes), rtol=1e-4, atol=1e-5)


def test_gates_of_gatedgcn_can_close() -> None:
    """A node with a low score is left out of the mean; edges None start at 0 and are kept from then on."""
    graph = SparseGraph(torch.tensor([[0, 1], [2, 2]]), torch.zeros(3, dtype=torch.long), 1)
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


@pytest.mark.parametrize("name", NAMES)
def test_grid_and_sparse_give_the_same(name: str) -> None:
    """Two layers, so that the edge state of the first reaches the second."""
    grid, sparse = land_grid()
    encoder = nn.Linear(2, D)
    layers = [build_conv(name, D, D) for _ in range(2)]
    x = torch.randn(2, H * W, D)

    def run(x: Tensor, graph: GridGraph | SparseGraph) -> Tensor:
        edges = [encoder(e) for e in graph.edge_attr]
        for layer in layers:
            x, edges = layer(x, graph, edges)
        return x

    torch.testing.assert_close(run(x, grid)[grid.mask], run(x[grid.mask], sparse), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_the_edge_state_is_seen_or_handed_back(name: str) -> None:
    graph, x, layer = one_graph(), torch.randn(6, D), build_conv(name, D, D)
    out, edges = layer(x, graph, graph.edge_attr)
    without, none = layer(x, graph, None)
    assert (none is None) == (name != "gatedgcn")
    assert torch.equal(out, without) == (name in BLIND)
    assert (edges is graph.edge_attr) == (name != "gatedgcn")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("virtual_node", [False, True])
def test_mpnn_with_each(name: str, virtual_node: bool) -> None:
    model, (grid, sparse) = MPNN(D, 3, virtual_node, conv=name), land_grid()
    x = torch.randn(2, H * W, D)
    out = model(x, grid)
    torch.testing.assert_close(out[grid.mask], model(x[grid.mask], sparse), rtol=1e-5, atol=1e-5)
    out[grid.mask].square().sum().backward()
    for parameter, value in model.named_parameters():
        assert value.grad is not None, parameter
        assert value.grad.abs().sum() > 0, parameter
    changed = x.masked_fill(~grid.mask.unsqueeze(-1), 1e4).requires_grad_()
    again = model(changed, grid)[grid.mask]
    torch.testing.assert_close(again, out[grid.mask])
    again.square().sum().backward()
    assert torch.isfinite(changed.grad).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("edge_dim", [0, 2])
def test_mpnn_on_graphs_with_little_in_them(name: str, edge_dim: int) -> None:
    """No edges, a single node, isolated nodes; with and without edge features."""
    model = MPNN(D, 2, True, edge_dim=edge_dim, conv=name)
    none = torch.zeros(2, 0, dtype=torch.long)
    isolated = torch.tensor([[0, 1], [1, 0]])
    for edge_index, nodes in ((none, 4), (none, 1), (isolated, 5)):
        attributes = torch.randn(edge_index.shape[1], 2) if edge_dim else None
        graph = SparseGraph(edge_index, torch.zeros(nodes, dtype=torch.long), 1, attributes)
        x = torch.randn(nodes, D, requires_grad=True)
        out = model(x, graph)
        out.square().sum().backward()
        assert torch.isfinite(out).all()
        assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("name", NAMES)
def test_mpnn_in_bf16(name: str) -> None:
    model, (grid, _) = MPNN(D, 3, True, conv=name), land_grid()
    x = 3 * torch.randn(2, H * W, D)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(x, grid)
    torch.testing.assert_close(out.float(), model(x, grid), rtol=0.1, atol=0.3)


def test_heads_that_do_not_fit() -> None:
    with pytest.raises(SSTCastError, match="4 heads cannot share a width of 10"):
        MPNN(10, conv="gat")
