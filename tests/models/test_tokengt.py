"""TokenGT: its tokens, its identifiers, and what they can tell apart."""

import networkx as nx
import pytest
import torch
from small_graphs import as_sparse, one_graph, same
from torch import Tensor

from sstcast.errors import SSTCastError
from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph
from sstcast.models.attention import SoftmaxAttention
from sstcast.models.mpnn import MPNN
from sstcast.models.transformers import TokenGT, laplacian_identifiers, orthogonal_identifiers
from studies.attention_distance import attention_distances

WIDTH, H, W = 16, 4, 5
VARIANTS = [("softmax", "laplacian"), ("linear", "orf"), ("performer", "orf"), ("linear", "none")]
every_variant = pytest.mark.parametrize(("attention", "identifiers"), VARIANTS)


def make(attention: str = "linear", identifiers: str = "laplacian", **options: object) -> TokenGT:
    torch.manual_seed(0)
    return TokenGT(WIDTH, 2, 2, attention, identifiers, **{"identifier_size": 8, "edge_dim": 0} | options).eval()


def test_products_of_identifiers_show_incidence() -> None:
    """(P_u, P_v) (P_k, P_k) = 1 where node k is an end of the edge, else 0; of a node with itself 2."""
    graph = nx.gnm_random_graph(8, 12, seed=0)
    batch = as_sparse(graph)
    p = orthogonal_identifiers(torch.zeros(8, 1), batch, 8, None)
    torch.testing.assert_close(p @ p.T, torch.eye(8), rtol=0, atol=1e-5)
    source, target = batch.edge_index
    products = torch.cat([p[source], p[target]], 1) @ torch.cat([p, p], 1).T
    expected = torch.eye(8)[source] + torch.eye(8)[target]
    torch.testing.assert_close(products, expected, rtol=0, atol=1e-5)


def test_two_heads_are_the_bases_of_order_1() -> None:
    """Equations 4 to 6: on orthonormal identifiers one head finds the node itself, the other all but it."""
    graph, x = as_sparse(nx.empty_graph(8)), torch.randn(1, 8, 3)
    p = orthogonal_identifiers(torch.zeros(8, 1), graph, 8, None)[None]
    own, others = x, (x.sum(1, keepdim=True) - x) / 7
    size, mask = 3 + 8, torch.ones(1, 8, dtype=torch.bool)
    place, value = torch.eye(size), torch.eye(size)
    place[:3], value[3:] = 0, 0
    attention, gaps = SoftmaxAttention(2 * size, heads=2), []
    for a in (2.0, 8.0, 32.0):
        rows = torch.cat([place, place, place, -place, value, value]) * (a * size**0.5) ** 0.5
        rows[4 * size :] /= (a * size**0.5) ** 0.5
        with torch.no_grad():
            for parameter in attention.parameters():
                parameter.zero_()
            attention.qkv.weight[:, :size] = rows
            attention.out.weight.copy_(torch.eye(2 * size))
        first, second = attention(torch.cat([x, p, torch.zeros(1, 8, size)], dim=-1), mask).chunk(2, dim=-1)
        gaps.append(max((first[..., :3] - own).abs().max().item(), (second[..., :3] - others).abs().max().item()))
    assert gaps[0] > 10 * gaps[1] > 100 * gaps[2]
    assert gaps[2] < 1e-5


def test_laplacian_identifiers_are_eigenvectors() -> None:
    graph = nx.gnm_random_graph(12, 30, seed=1)
    p = laplacian_identifiers(torch.zeros(12, 1), as_sparse(graph), 6).double().numpy()
    laplacian = nx.normalized_laplacian_matrix(graph).toarray()
    values, _ = torch.linalg.eigh(torch.from_numpy(laplacian))
    torch.testing.assert_close(
        torch.from_numpy(laplacian @ p), torch.from_numpy(p) * values[:6], rtol=0, atol=1e-5
    )
    torch.testing.assert_close(torch.from_numpy(p.T @ p), 12 * torch.eye(6).double(), rtol=0, atol=1e-4)


def test_tokens_of_a_tile() -> None:
    """One for the graph, 900 nodes and 3,422 edges in two directions."""
    model, seen = make(edge_dim=2), []
    model.layers[0].register_forward_pre_hook(lambda _, args: seen.append(int(args[1].sum())))
    model(torch.zeros(1, 900, WIDTH), GridGraph(30, 30))
    assert seen == [1 + 900 + 2 * 3422]


@every_variant
def test_permuting_nodes_and_identifiers_permutes_outputs(
    attention: str, identifiers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, graph = make(attention, identifiers), as_sparse(nx.gnm_random_graph(12, 25, seed=0))
    x, order = torch.randn(12, WIDTH), torch.randperm(12)
    p = model.draw_identifiers(x, graph)
    expected, token = model.encode(x, graph)
    shuffled = SparseGraph(order.argsort()[graph.edge_index], graph.batch, 1)
    monkeypatch.setattr(model, "draw_identifiers", lambda x, graph: p[order])
    ours, other = model.encode(x[order], shuffled)
    same(ours, expected[order], 1e-4)
    same(token, other, 1e-4)


@every_variant
def test_small_and_empty_graphs(attention: str, identifiers: str) -> None:
    """Fewer nodes than identifiers, no edges, one node and none, alone or beside others: nodes and token."""
    model = make(attention, identifiers)
    graphs = [nx.gnm_random_graph(14, 20, seed=0), nx.empty_graph(5), nx.empty_graph(1), nx.Graph()]
    xs = [torch.randn(len(g), WIDTH) for g in graphs]
    together, tokens = model.encode(torch.cat(xs), as_sparse(*graphs))
    for graph, x, ours, token in zip(graphs, xs, together.split([len(x) for x in xs]), tokens, strict=True):
        theirs, other = model.encode(x, as_sparse(graph))
        same(ours, theirs, 1e-4)
        same(token, other[0], 1e-4)


@every_variant
def test_seeds_and_modes(attention: str, identifiers: str) -> None:
    """Evaluation repeats itself; training draws identifiers, if any, anew for every graph, by torch's seed."""
    model, graph = make(attention, identifiers), as_sparse(nx.path_graph(12), nx.path_graph(12))
    x = torch.randn(12, WIDTH).repeat(2, 1)
    assert torch.equal(model(x, graph), model(x, graph))
    torch.testing.assert_close(model(x, graph)[:12], model(x, graph)[12:], rtol=1e-4, atol=1e-5)
    other = make(attention, identifiers, seed=1)(x, graph)
    assert torch.allclose(other, model(x, graph)) == (identifiers != "orf")
    model.train()
    if identifiers == "none":
        assert torch.equal(model(x, graph), model.eval()(x, graph))
        return
    torch.manual_seed(3)
    first = model(x, graph)
    assert not torch.allclose(first[:12], first[12:], atol=1e-3)
    assert not torch.allclose(first, model(x, graph), atol=1e-3)
    torch.manual_seed(3)
    assert torch.equal(first, model(x, graph))


def test_each_direction_is_a_token_of_its_own() -> None:
    """W (P_u, P_v) with the encoded edge, for u -> v and v -> u; a model without identifiers sees no ends."""
    index, attr = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.randn(4, 3)
    graph, x = one_graph(index, 3, attr), torch.randn(3, WIDTH)
    model, blind = make(edge_dim=3), make(identifiers="none", edge_dim=3)
    p = torch.randn(3, 8)
    tokens, mask = model.embed(x, graph, p)
    weight, (node, edge) = model.node_identifiers.weight, model.type_identifiers
    nodes = x + torch.cat([p, p], dim=1) @ weight.T + node
    edges = attr @ model.edge_encoder.weight.T + torch.cat([p[index[0]], p[index[1]]], dim=1) @ weight.T + edge
    torch.testing.assert_close(tokens[0], torch.cat([model.graph_token[0], nodes, edges]))
    assert mask.all()
    own = torch.cat([blind.graph_token[0], x, attr @ blind.edge_encoder.weight.T])
    torch.testing.assert_close(blind.embed(x, graph, p)[0][0], own)


def test_the_graph_token_reads_nodes_and_edges() -> None:
    model, x = make(), torch.randn(6, WIDTH)
    path, cycle = as_sparse(nx.path_graph(6)), as_sparse(nx.cycle_graph(6))
    token = model.encode(x, path)[1]
    assert token.shape == (1, WIDTH)
    assert not torch.allclose(token, model.encode(x, cycle)[1], atol=1e-3)
    assert not torch.allclose(token, model.encode(x + torch.randn(WIDTH), path)[1], atol=1e-3)


def test_attention_distance_of_known_weights() -> None:
    """Equal weights give the mean over pairs of tokens; a layer that looks only at the token itself gives 0."""
    path, model = nx.path_graph(4), make(attention="softmax", identifiers="orf")
    tokens = [(i, i) for i in path] + [pair for i, j in path.edges for pair in ((i, j), (j, i))]
    mean = (
        sum(min(abs(a - b) for a in one for b in other) for one in tokens for other in tokens) / len(tokens) ** 2
    )
    for layer in model.layers:
        torch.nn.init.zeros_(layer.attention.qkv.weight)
    both, isolated = as_sparse(path, path), as_sparse(path, nx.empty_graph(1))
    torch.testing.assert_close(attention_distances(model, torch.randn(8, WIDTH), both), torch.full((2, 2), mean))
    shared = attention_distances(model, torch.randn(5, WIDTH), isolated)  # one more token, of distance 0
    torch.testing.assert_close(shared, torch.full((2, 2), mean * 10 / 11))
    first = model.layers[0].attention.qkv
    with torch.no_grad():
        first.weight[: 2 * WIDTH] = 100 * torch.eye(WIDTH).repeat(2, 1)
    alone = attention_distances(model, torch.randn(8, WIDTH), both)
    assert alone[0].max() < mean / 4
    with pytest.raises(SSTCastError, match="only softmax has weights"):
        attention_distances(make(), torch.randn(4, WIDTH), as_sparse(path))


def incidence_model(nodes: int) -> TokenGT:
    """Weights under which the tokens' products, and so the output, depend on the graph alone and not on the draw.

    A token holds (P_u + P_v, type) and the same with the other sign, so that LayerNorm leaves its direction. The
    first layer moves identifiers along edges: a node's token then holds its neighbours' P as well. By the second
    layer's products a node gives weight to edges between its neighbours, and notes the types that it gives
    weight to.
    """
    half = nodes + 2
    model = TokenGT(2 * half, 2, 1, "softmax", "orf", identifier_size=nodes, edge_dim=0)
    place, kind = torch.zeros(half), torch.zeros(half)
    place[:nodes], kind[nodes:] = 1, 1
    place, kind = torch.diag(place.repeat(2)), torch.diag(kind.repeat(2))
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.fill_(1.0 if "norm" in name and name.endswith("weight") else 0.0)
        model.node_identifiers.weight[:nodes] = torch.eye(nodes).repeat(1, 2)
        model.type_identifiers[:, nodes:half] = torch.eye(2)
        model.node_identifiers.weight[half:] = -model.node_identifiers.weight[:half]
        model.type_identifiers[:, half:] = -model.type_identifiers[:, :half]
        for layer, value in zip(model.layers, (place, kind), strict=True):
            layer.attention.qkv.weight.copy_(torch.cat([place, place, value]))
            layer.attention.out.weight.copy_(torch.eye(2 * half))
    return model


def test_csl_graphs_are_told_apart_where_message_passing_cannot() -> None:
    """1-WL sees two 4-regular graphs of 11 nodes; one has triangles and the other none."""
    draws, (with_triangles, without) = 16, (nx.circulant_graph(11, [1, skip]) for skip in (2, 3))
    assert (sum(nx.triangles(with_triangles).values()), sum(nx.triangles(without).values())) == (33, 0)
    model = incidence_model(11)
    mpnn = MPNN(model.width, 3, virtual_node=True, edge_dim=0)
    kind, x = slice(11, 13), torch.zeros(11 * draws, model.width)

    def pooled(backbone: torch.nn.Module, graph: nx.Graph, x: Tensor) -> Tensor:
        batch = as_sparse(*[graph] * draws)
        return batch.pool(backbone.train()(x, batch))

    ours = [pooled(model, graph, x)[:, kind] for graph in (with_triangles, without)]
    shuffled = nx.empty_graph(11)
    shuffled.add_edges_from((7 * i % 11, 7 * j % 11) for i, j in with_triangles.edges)
    renumbered = pooled(model, shuffled, x)[:, kind]
    assert (ours[0].mean(0) - ours[1].mean(0)).abs().max() > 5e-4
    assert max(out.std(0).max() for out in ours) < 1e-6  # from draw to draw
    torch.testing.assert_close(ours[0].mean(0), renumbered.mean(0), rtol=0, atol=1e-6)
    same(pooled(mpnn, with_triangles, x + 1), pooled(mpnn, without, x + 1), 1e-6)
