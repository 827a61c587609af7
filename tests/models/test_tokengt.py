"""TokenGT: what its tokens are, and what must not change them."""

import networkx as nx
import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.utils import from_networkx, subgraph

from sstcast.errors import SSTCastError
from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph
from sstcast.models.attention import SoftmaxAttention
from sstcast.models.transformers import TokenGT, laplacian_identifiers, orthogonal_identifiers
from studies.attention_distance import attention_distances

WIDTH, H, W = 16, 4, 5
VARIANTS = [(a, i) for a in ("softmax", "linear", "performer") for i in ("laplacian", "orf")] + [
    ("linear", "none")
]
every_variant = pytest.mark.parametrize(("attention", "identifiers"), VARIANTS)


def make(attention: str = "linear", identifiers: str = "laplacian", **options: object) -> TokenGT:
    torch.manual_seed(0)
    return TokenGT(WIDTH, 2, 2, attention, identifiers, **{"identifier_size": 8, "edge_dim": 0} | options).eval()


def as_sparse(*graphs: nx.Graph) -> SparseGraph:
    data = [Data(edge_index=from_networkx(g).edge_index, num_nodes=len(g)) for g in graphs]
    return SparseGraph.from_pyg(Batch.from_data_list(data))


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
def test_grid_and_sparse_give_the_same(attention: str, identifiers: str) -> None:
    """The Laplacian of a grid is that of the whole, land included: the sparse graph is given it."""
    model, x = make(attention, identifiers, edge_dim=2), torch.randn(1, H * W, WIDTH)
    mask = torch.ones(1, H * W, dtype=torch.bool)
    mask[0, [3, 8, 9, 17]] = False
    grid = GridGraph(H, W, mask)
    index = grid.edge_index()
    attr = torch.stack([index[0] % W - index[1] % W, index[0] // W - index[1] // W], dim=1).float()
    index, attr = subgraph(mask[0], index, attr, relabel_nodes=True, num_nodes=H * W)
    vectors, values = grid.laplacian(8)
    sparse = SparseGraph(index, index.new_zeros(int(mask.sum())), 1, attr, (vectors[mask], values))
    (ours, token), (theirs, other) = model.encode(x, grid), model.encode(x[mask], sparse)
    torch.testing.assert_close(ours[mask], theirs, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(token, other, rtol=1e-4, atol=1e-5)


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
    torch.testing.assert_close(ours, expected[order], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(token, other, rtol=1e-4, atol=1e-5)


@every_variant
def test_land_and_batch_mates_change_nothing(attention: str, identifiers: str) -> None:
    model = make(attention, identifiers, edge_dim=2)
    mask = torch.rand(3, H * W, generator=torch.Generator().manual_seed(0)) < 0.8
    mask[2] = False
    x, graph = torch.randn(3, H * W, WIDTH), GridGraph(H, W, mask)
    out = model(x, graph)
    assert out.isfinite().all()
    changed = torch.where(mask.unsqueeze(-1), x, 100 * torch.randn_like(x))
    torch.testing.assert_close(model(changed, graph)[mask], out[mask])
    alone = model(x[:1], GridGraph(H, W, mask[:1]))
    torch.testing.assert_close(alone[0, mask[0]], out[0, mask[0]], rtol=1e-4, atol=1e-5)


@every_variant
def test_small_and_empty_graphs(attention: str, identifiers: str) -> None:
    """Fewer nodes than identifiers, no edges, isolated nodes, one node and none, alone or beside others."""
    model = make(attention, identifiers)
    graphs = [
        nx.gnm_random_graph(14, 20, seed=0),
        nx.empty_graph(5),
        nx.empty_graph(1),
        nx.Graph(),
        nx.star_graph(3),
    ]
    graphs.append(nx.disjoint_union(nx.path_graph(3), nx.empty_graph(2)))
    xs = [torch.randn(len(g), WIDTH) for g in graphs]
    together, tokens = model.encode(torch.cat(xs), as_sparse(*graphs))
    for graph, x, ours, token in zip(graphs, xs, together.split([len(x) for x in xs]), tokens, strict=True):
        theirs, other = model.encode(x, as_sparse(graph))
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(token, other[0], rtol=1e-4, atol=1e-5)
    model.train()(torch.cat(xs), as_sparse(*graphs)).square().sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


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


@every_variant
def test_bf16_and_gradients(attention: str, identifiers: str) -> None:
    model, graph = make(attention, identifiers, edge_dim=2), GridGraph(H, W)
    x = torch.randn(2, H * W, WIDTH)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(10 * x, graph)
    torch.testing.assert_close(out.float(), model(10 * x, graph), rtol=0.1, atol=0.1)
    model.train()(x, graph).square().sum().backward()
    for name, p in model.named_parameters():
        assert p.grad.abs().sum() > 0, name


def test_each_direction_is_a_token_of_its_own() -> None:
    """W (P_u, P_v) with the encoded edge, for u -> v and v -> u; a model without identifiers sees no ends."""
    index, attr = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.randn(4, 3)
    graph, x = SparseGraph(index, torch.zeros(3, dtype=torch.long), 1, attr), torch.randn(3, WIDTH)
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


def test_wrong_heads() -> None:
    with pytest.raises(SSTCastError, match="heads: 3 heads cannot share a width of 16"):
        TokenGT(16, heads=3)


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
