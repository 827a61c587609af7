"""The layers of `lsat`, `sapdgt`, `sat` and `spdgt` against explicit softmax over all pairs of nodes."""

import networkx as nx
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Batch, Data
from torch_geometric.utils import from_networkx, k_hop_subgraph

from sstcast.graphs.paths import anchor_distances
from sstcast.graphs.sparse import SparseGraph
from sstcast.models.kdlgt import (
    AnchorAttention,
    PathAttention,
    PathBias,
    StructureAwareAttention,
    anchored_attention,
)

WIDTH, HEADS, SIZE = 16, 2, 8


def random_graph() -> nx.Graph:
    return nx.gnm_random_graph(14, 20, seed=0)


def as_sparse(graph: nx.Graph) -> SparseGraph:
    return SparseGraph(from_networkx(graph).edge_index, torch.zeros(len(graph), dtype=torch.long), 1)


def heads_of(x: Tensor) -> Tensor:
    """`[N, width]` to `[heads, N, SIZE]`."""
    return x.reshape(len(x), HEADS, SIZE).transpose(0, 1)


def explicit(layer: nn.Module, x: Tensor, bias: Tensor) -> Tensor:
    """Softmax over all pairs of the layer's content and `bias [heads, N, N]`."""
    q, k, v = (heads_of(part) for part in layer.content(x).chunk(3, dim=-1))
    weights = (q @ k.transpose(1, 2) / SIZE**0.5 + bias).softmax(-1)
    return layer.out((weights @ v).transpose(0, 1).reshape(len(x), WIDTH))


def structure_bias(layer: StructureAwareAttention, x: Tensor, graph: SparseGraph) -> Tensor:
    """(S W_q) (S W_k)^T / sqrt(d), equation 12."""
    s = x
    for conv in layer.convs:
        s = conv(s, graph, None)[0].relu()
    w_q, w_k = layer.structure.weight.chunk(2)
    s = layer.norm(s)
    return heads_of(s @ w_q.T) @ heads_of(s @ w_k.T).transpose(1, 2) / SIZE**0.5


def test_sat_by_its_equation() -> None:
    torch.manual_seed(0)
    graph, x = as_sparse(random_graph()), torch.randn(14, WIDTH)
    layer = StructureAwareAttention(WIDTH, HEADS, hops=2, edge_dim=0, features=0)
    expected = explicit(layer, x, structure_bias(layer, x, graph))
    torch.testing.assert_close(layer(x, graph), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("subgraph", [False, True])
def test_structure_extractors(subgraph: bool) -> None:
    """Node by node, on a batch of a connected graph, one in pieces, and a single node."""
    torch.manual_seed(0)
    two = nx.disjoint_union(nx.path_graph(4), nx.cycle_graph(3))
    graphs = [nx.gnm_random_graph(9, 12, seed=1), two, nx.empty_graph(1)]
    data = []
    for graph in graphs:
        index = from_networkx(graph).edge_index
        data.append(Data(edge_index=index, edge_attr=torch.randn(index.shape[1], 3), num_nodes=len(graph)))
    batch, x = SparseGraph.from_pyg(Batch.from_data_list(data)), torch.randn(17, WIDTH)
    layer = StructureAwareAttention(WIDTH, HEADS, 2, 3, 0, subgraph)

    def gnn(x: Tensor, graph: SparseGraph) -> Tensor:
        for conv in layer.convs:
            x = conv(x, graph, graph.edge_attr)[0].relu()
        return x

    expected = gnn(x, batch)
    if subgraph:
        rows = []
        for node in range(17):
            near, edges, _, kept = k_hop_subgraph(node, 2, batch.edge_index, relabel_nodes=True, num_nodes=17)
            ego = SparseGraph(edges, torch.zeros_like(near), 1, batch.edge_attr[0][kept])
            rows.append(gnn(x[near], ego).sum(0))
        expected = torch.stack(rows)
    expected = layer.norm(expected)
    torch.testing.assert_close(layer.extract(x, batch), torch.cat([x, expected], 1) if subgraph else expected)


def test_lsat_approaches_softmax_with_more_features() -> None:
    torch.manual_seed(0)
    graph, x = as_sparse(random_graph()), torch.randn(14, WIDTH)
    errors = []
    for features in (16, 256, 4096):
        runs = []
        for seed in range(8):
            torch.manual_seed(seed)
            layer = StructureAwareAttention(WIDTH, HEADS, hops=2, edge_dim=0, features=features)
            with torch.no_grad():  # the variance of the features grows as exp(|q + k|^2)
                layer.content.weight *= 0.6
                layer.structure.weight *= 0.6
            exact = explicit(layer, x, structure_bias(layer, x, graph))
            runs.append((layer(x, graph) - exact).square().mean() / exact.square().mean())
        errors.append(torch.stack(runs).mean().sqrt())
    assert errors[0] > 2 * errors[1] > 4 * errors[2]  # as 1 / sqrt(features): by 4 each
    assert errors[2] < 0.02


def test_lemma_1_of_kdlgt_assumes_more_than_holds() -> None:
    """It needs c = sqrt((exp(|q + k|^2) - 1) / r) below 1 for all pairs, which untrained weights already break."""
    torch.manual_seed(0)
    graph, x = as_sparse(nx.random_regular_graph(4, 60, seed=0)), torch.randn(60, 64)
    layer, features = StructureAwareAttention(64, 4, hops=2, edge_dim=0, features=64), 64
    parts = torch.cat([layer.content(x)[:, :128], layer.structure(layer.extract(x, graph))], dim=1)
    q, k, s_q, s_k = (part.unflatten(1, (4, 16)).transpose(0, 1) / 16**0.25 for part in parts.chunk(4, dim=1))
    squares = (
        (torch.cat([q, s_q], dim=-1).unsqueeze(2) + torch.cat([k, s_k], dim=-1).unsqueeze(1)).square().sum(-1)
    )
    assert ((squares.exp() - 1) / features).sqrt().max() > 1


def test_sapdgt_approaches_softmax_with_more_features() -> None:
    """The explicit form has both terms of the bias, c hops(i, a) / 2 and c hops(j, a) / 2, and a softmax each."""
    torch.manual_seed(0)
    graph, x = as_sparse(nx.path_graph(14)), torch.randn(14, WIDTH)
    hops = anchor_distances(graph, 2)
    assert hops.shape[2] > 2
    layer = AnchorAttention(WIDTH, HEADS, features=2**14)
    nn.init.uniform_(layer.slope, -2, 0)
    c = -F.softplus(layer.slope)
    outputs = [explicit(layer, x, c * (b[:, None] + b) / 2) for b in hops[0].T]
    torch.testing.assert_close(layer(x, graph, hops), torch.stack(outputs).mean(0), rtol=0, atol=0.01)


def test_bias_in_the_features_is_exact() -> None:
    """For features that are the kernel: exp(b_i + b_j) phi_q phi_k^T normalised, as a softmax of its logarithm."""
    torch.manual_seed(0)
    phi_q, phi_k, v = torch.rand(2, HEADS, 9, 5), torch.rand(2, HEADS, 9, 5), torch.randn(2, HEADS, 9, SIZE)
    b = -3 * torch.rand(2, HEADS, 9, 4)
    ours = anchored_attention(phi_q, phi_k, v, b.exp())
    scores = (phi_q @ phi_k.transpose(-1, -2)).log()
    for a in range(4):
        bias = b[..., a]
        weights = (scores + bias.unsqueeze(-1) + bias.unsqueeze(-2)).softmax(-1)
        torch.testing.assert_close(ours[..., a, :], weights @ v, rtol=1e-4, atol=1e-5)


def test_spdgt_by_its_equation() -> None:
    """Graphormer's two biases; in a tree there is one path between two nodes."""
    torch.manual_seed(0)
    pieces = nx.disjoint_union(nx.path_graph(9), nx.star_graph(4))
    index = from_networkx(pieces).edge_index
    attr = torch.randn(index.shape[1], 3)
    feature = dict(zip(map(tuple, index.T.tolist()), attr, strict=True))
    graph = SparseGraph(index, torch.zeros(14, dtype=torch.long), 1, attr)
    layer, biases, x = PathAttention(WIDTH, HEADS), PathBias(HEADS, 4, 3, False), torch.randn(14, WIDTH)
    nn.init.normal_(biases.by_hops)
    nn.init.normal_(biases.by_edges)
    bias = biases.by_hops[:, -1:, None].expand(HEADS, 14, 14).clone()  # no path
    for i, paths in nx.all_pairs_shortest_path(pieces):
        for j, path in paths.items():
            bias[:, i, j] = biases.by_hops[:, min(len(path) - 1, 4)]
            if 1 < len(path) <= 5:
                products = [feature[e] @ w for w, e in zip(biases.by_edges, nx.utils.pairwise(path), strict=False)]
                bias[:, i, j] += torch.stack(products).mean(0)
    ours = biases(x, graph)
    torch.testing.assert_close(ours[0], bias, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(layer(x[None], ours)[0], explicit(layer, x, bias), rtol=1e-5, atol=1e-6)


def test_the_graph_node_has_a_bias_of_its_own() -> None:
    torch.manual_seed(0)
    graph, x = as_sparse(nx.path_graph(4)), torch.randn(4, WIDTH)
    with_node, without = PathBias(HEADS, 4, 0, True), PathBias(HEADS, 4, 0, False)
    without.by_hops = with_node.by_hops
    bias = with_node(x, graph)[0]
    torch.testing.assert_close(bias[:, 1:, 1:], without(x, graph)[0])
    assert torch.equal(bias[:, 0], with_node.to_graph_node[:, 0].expand(HEADS, 5))
    assert torch.equal(bias[:, :, 0], bias[:, 0])


def test_a_single_node_attends_to_itself() -> None:
    torch.manual_seed(0)
    graph, x = as_sparse(nx.empty_graph(1)), torch.randn(1, WIDTH)
    for layer, context in (
        (AnchorAttention(WIDTH, HEADS, 16), (graph, anchor_distances(graph, 2))),
        (StructureAwareAttention(WIDTH, HEADS, 1, 0, 16), (graph,)),
        (StructureAwareAttention(WIDTH, HEADS, 1, 0, 0), (graph,)),
    ):
        torch.testing.assert_close(layer(x, *context), layer.out(layer.content(x)[:, 2 * WIDTH :]))


def test_a_steep_slope_stays_finite() -> None:
    torch.manual_seed(0)
    graph, x = as_sparse(nx.path_graph(200)), torch.randn(200, WIDTH)
    layer = AnchorAttention(WIDTH, HEADS, 16)
    nn.init.constant_(layer.slope, 50.0)
    out = layer(x, graph, anchor_distances(graph, 20))
    out.sum().backward()
    assert out.isfinite().all()
    assert layer.slope.grad.isfinite().all()
