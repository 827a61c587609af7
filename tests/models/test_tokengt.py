"""TokenGT: its tokens, its identifiers, and the graphs that it tells apart."""

import itertools

import networkx as nx
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from small_graphs import as_sparse, land_grid, one_graph, path, same
from torch import Tensor, nn

from sstcast.errors import SSTCastError
from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph
from sstcast.models.attention import SoftmaxAttention
from sstcast.models.mpnn import MPNN
from sstcast.models.transformers import EncoderLayer, TokenGT, laplacian_identifiers, orthogonal_identifiers
from studies.attention_distance import attention_distances
from studies.equivariant_basis import BASES

WIDTH, H, W = 16, 4, 5

VARIANTS = [("softmax", "laplacian"), ("linear", "orf"), ("performer", "orf"), ("linear", "none")]

every_variant = pytest.mark.parametrize(("attention", "identifiers"), VARIANTS)


def make(attention: str = "linear", identifiers: str = "laplacian", **options: object) -> TokenGT:
    torch.manual_seed(0)
    return TokenGT(WIDTH, 2, 2, attention, identifiers, **{"identifier_size": 8, "edge_dim": 0} | options).eval()


def test_products_of_identifiers_show_incidence() -> None:
    """(P_u, P_v) (P_k, P_k) is 1 if node k is an end of the edge (u, v), else 0."""
    graph = nx.gnm_random_graph(8, 12, seed=0)
    batch = as_sparse(graph)
    p = orthogonal_identifiers(torch.zeros(8, 1), batch, 8, None)
    torch.testing.assert_close(p @ p.T, torch.eye(8), rtol=0, atol=1e-5)
    source, target = batch.edge_index
    products = torch.cat([p[source], p[target]], 1) @ torch.cat([p, p], 1).T
    expected = torch.eye(8)[source] + torch.eye(8)[target]
    torch.testing.assert_close(products, expected, rtol=0, atol=1e-5)


def test_two_heads_are_the_bases_of_order_1() -> None:
    """Equations 4 to 6: one head finds the node itself, the other all other nodes."""
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


@pytest.mark.parametrize("more", [[], [(1, 1), (4, 4)], [(2, 3), (2, 3)], "directed"])
def test_identifiers_are_orthonormal_whatever_the_stored_edges(more: list[tuple[int, int]] | str) -> None:
    edges = path(5)[:, :4] if more == "directed" else torch.cat([path(5), torch.tensor([*more]).view(-1, 2).T], 1)
    p = laplacian_identifiers(torch.zeros(5, 1), one_graph(edges.long(), 5), 5)
    same(p.T @ p, 5 * torch.eye(5))
    same(p, laplacian_identifiers(torch.zeros(5, 1), one_graph(path(5), 5), 5))


@pytest.mark.parametrize("shape", [(4, 6), (3, 1), (4, 2)])
def test_identifiers_of_a_grid_are_those_of_all_its_cells(shape: tuple[int, int]) -> None:
    grid = land_grid(*shape, wrap=True)
    nodes = grid.mask.shape[1]
    p = laplacian_identifiers(torch.zeros(2, nodes, 1), grid, nodes)
    same(p[0].T @ p[0], nodes * torch.eye(nodes), 1e-4)
    assert torch.equal(p[0], p[1])


DISCONNECTED = [
    nx.disjoint_union(nx.complete_graph(2), nx.complete_graph(2)),
    nx.disjoint_union(nx.cycle_graph(6), nx.cycle_graph(6)),
    nx.disjoint_union(nx.path_graph(4), nx.empty_graph(2)),
    nx.empty_graph(3),
    nx.gnm_random_graph(9, 16, seed=0),
]


def test_laplacian_identifiers_are_orthonormal_on_disconnected_graphs() -> None:
    batch, sizes = as_sparse(*DISCONNECTED), [len(graph) for graph in DISCONNECTED]
    p = laplacian_identifiers(torch.zeros(sum(sizes), 1), batch, 12)
    for graph, part in zip(DISCONNECTED, p.split(sizes), strict=True):
        same(part @ part.T, len(graph) * torch.eye(len(graph)))
        laplacian = torch.from_numpy(nx.normalized_laplacian_matrix(graph).toarray()).float()
        values = torch.linalg.eigvalsh(laplacian)
        same(laplacian @ part[:, : len(graph)], part[:, : len(graph)] * values)
        same(part[:, len(graph) :], torch.zeros(len(graph), 12 - len(graph)))
    few = laplacian_identifiers(torch.zeros(sum(sizes), 1), batch, 4).split(sizes)
    for graph, part in zip(DISCONNECTED, few, strict=True):
        same(part.T @ part, len(graph) * torch.diag((torch.arange(4) < len(graph)).float()))


def test_tokens_of_a_tile() -> None:
    """There is one for the graph, and 900 nodes and 3,422 edges in two directions."""
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
def test_seeds_and_modes(attention: str, identifiers: str) -> None:
    """Evaluation is repeatable. Training draws identifiers, if any, for every graph, from torch's generator."""
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
    """W (P_u, P_v) and the encoded edge, for u -> v and v -> u. Without identifiers, no ends."""
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
    """Those of its own graph alone."""
    model, x = make(), torch.randn(6, WIDTH)
    path, cycle = nx.path_graph(6), nx.cycle_graph(6)
    tokens = model.encode(x.repeat(2, 1), as_sparse(path, cycle))[1]
    same(tokens[1:], model.encode(x, as_sparse(cycle))[1], 1e-4)
    assert not torch.allclose(tokens[0], tokens[1], atol=1e-3)
    assert not torch.allclose(tokens[:1], model.encode(x + torch.randn(WIDTH), as_sparse(path))[1], atol=1e-3)


def test_attention_distance_of_known_weights() -> None:
    """Equal weights give the mean over pairs of tokens. Attention of each token to itself gives 0."""
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


@torch.no_grad()
def test_attention_distance_by_the_weights_of_the_layer() -> None:
    """softmax(q k^T / sqrt(d)) over the tokens of nodes and of edges, all 0 without features and identifiers."""
    path, x = nx.path_graph(3), torch.randn(3, WIDTH)
    model = make(attention="softmax", identifiers="none", edge_dim=0)
    layer = model.layers[0]
    tokens = layer.attention_norm(torch.cat([x, torch.zeros(4, WIDTH)]))
    q, k, _ = layer.attention.qkv(tokens).chunk(3, dim=1)
    places = [(i, i) for i in path] + as_sparse(path).edge_index.T.tolist()
    hops = torch.tensor([[min(abs(a - b) for a in one for b in two) for two in places] for one in places])
    size = WIDTH // layer.attention.heads
    for head, distance in enumerate(attention_distances(model, x, as_sparse(path))[0]):
        part = slice(head * size, head * size + size)
        weights = (q[:, part] @ k[:, part].T / size**0.5).softmax(1)
        torch.testing.assert_close(distance, (weights * hops).sum(1).mean())


def incidence_model(nodes: int) -> TokenGT:
    """Return a model whose output depends on the graph and not on the draw of identifiers.

    A token holds (P_u + P_v, type), and the same with the other sign, so that LayerNorm keeps its direction. The
    first layer moves identifiers along edges, so the token of a node also holds the P of its neighbours. In the
    second layer, a node attends to edges between its neighbours, and collects the types of these tokens.
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
    """1-WL cannot tell two 4-regular graphs of 11 nodes apart, of which only one has triangles."""
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


# Lemma 1, Theorems 1 and 2 and Corollary 1 of TokenGT for graphs (k = 2), with constructed weights.
# All n^2 pairs of nodes are tokens with orthonormal node identifiers and a type. A head's score counts which
# of the conditions of a basis tensor hold: for each index of query and key that they are equal, or not, and
# the key's type. All hold exactly on the tensor's entries, so softmax becomes a mean over them as the scores
# are scaled up. A perceptron then multiplies by their number, and by 0 where the query has the other type. The
# attention is the shipped one.

Array = NDArray[np.float64]

PATTERNS = list(BASES.values())


class Layout:
    """The channels of a token: value, type (1 on the diagonal), constant, both identifiers, sums of the heads."""

    def __init__(self, nodes: int) -> None:
        self.nodes, self.heads = nodes, len(PATTERNS)
        self.size = 2 * nodes + 1  # of a query
        self.width = self.heads * self.size
        self.ends = [slice(3, 3 + nodes), slice(3 + nodes, 3 + 2 * nodes)]
        self.sums = slice(3 + 2 * nodes, 3 + 2 * nodes + self.heads)
        self.pairs = list(itertools.product(range(nodes), repeat=2))

    def tokens(self, x: Array, seed: int = 0) -> Tensor:
        """Return the tokens of `x [n, n]`, `[1, n^2, width]`."""
        rotation = np.linalg.qr(np.random.default_rng(seed).normal(size=(self.nodes, self.nodes)))[0]
        tokens = torch.zeros(1, len(self.pairs), self.width, dtype=torch.double)
        for number, pair in enumerate(self.pairs):
            tokens[0, number, :3] = torch.tensor([x[pair], float(pair[0] == pair[1]), 1.0])
            for end, node in zip(self.ends, pair, strict=True):
                tokens[0, number, end] = torch.from_numpy(rotation[node])
        return tokens


def basis(pattern: tuple[int, ...], layout: Layout) -> Array:
    """Return a basis tensor as a matrix over pairs."""
    wanted = np.equal.outer(pattern, pattern)
    return np.array(
        [[float((np.equal.outer((*i, *j), (*i, *j)) == wanted).all()) for j in layout.pairs] for i in layout.pairs]
    )


@torch.no_grad()
def attention(layout: Layout, scale: float) -> SoftmaxAttention:
    """Return heads whose weights tend to the basis tensors. Head h writes its sum into channel `sums[h]`."""
    layer = SoftmaxAttention(layout.width, layout.heads).double()
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    query, key, value = layer.qkv.weight.unflatten(0, (3, layout.heads, layout.size))
    for head, pattern in enumerate(PATTERNS):
        for b in range(2):  # the key's index, which has a block of channels
            block = slice(b * layout.nodes, (b + 1) * layout.nodes)
            key[head, block, layout.ends[b]] = torch.eye(layout.nodes).double()
            for a in range(2):
                sign = 1 if pattern[a] == pattern[2 + b] else -1
                query[head, block, layout.ends[a]] += scale * sign * torch.eye(layout.nodes).double()
        query[head, -1, 2] = scale
        key[head, -1, 1] = 1 if pattern[2] == pattern[3] else -1
        value[head, 0, 0] = 1
        layer.out.weight[layout.sums.start + head, head * layout.size] = 1
    return layer


@torch.no_grad()
def equivariant_layer(layout: Layout, scale: float, weights: Array, biases: Array, bound: float) -> EncoderLayer:
    """Return a Transformer layer that replaces the value by L(X) of equation 2, for values up to `bound`."""
    layer = EncoderLayer(layout.width, attention(layout, scale), 0.0).double()
    layer.attention_norm = layer.feed_forward_norm = nn.Identity()
    first, _, _, last, _ = layer.feed_forward
    for parameter in layer.feed_forward.parameters():
        nn.init.zeros_(parameter)
    for head, (pattern, weight) in enumerate(zip(PATTERNS, weights, strict=True)):
        same = pattern[0] == pattern[1]
        count = basis(pattern, layout).sum(1).max()
        for part, sign in enumerate((1, -1)):  # z if the query has the type, else 0: ReLU(z - b) - ReLU(-z - b)
            unit = 2 * head + part
            first.weight[unit, layout.sums.start + head] = sign
            first.weight[unit, 1] = bound if same else -bound
            first.bias[unit] = -bound if same else 0
            last.weight[0, unit] = sign * weight * count
            last.weight[layout.sums.start + head, layout.heads * 2 + unit] = -sign  # the sums are 0 again
            first.weight[layout.heads * 2 + unit, layout.sums.start + head] = sign
    for part, sign in enumerate((1, -1)):  # X itself is replaced
        unit = 4 * layout.heads + part
        first.weight[unit, 0], last.weight[0, unit] = sign, -sign
    last.bias[0] = biases[1]
    unit = 4 * layout.heads + 2
    first.weight[unit, 1], last.weight[0, unit] = 1, biases[0] - biases[1]
    return layer


def exact_layer(x: Array, layout: Layout, weights: Array, biases: Array) -> Array:
    """Return L(X) of equation 2, from the basis tensors."""
    out = sum(w * basis(p, layout) @ x.flatten() for w, p in zip(weights, PATTERNS, strict=True))
    diagonal = np.array([i == j for i, j in layout.pairs])
    return np.asarray(out + np.where(diagonal, biases[0], biases[1])).reshape(x.shape)


@torch.no_grad()
@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_basis_tensor_is_the_limit_of_a_head(pattern: tuple[int, ...]) -> None:
    """Lemma 1: the weights tend to the nonzero rows of the tensor, divided by their sums."""
    layout, head = Layout(4), PATTERNS.index(pattern)
    exact = basis(pattern, layout)
    rows = exact.any(1)
    exact = exact[rows] / exact[rows].sum(1, keepdims=True)
    errors = []
    for scale in (20.0, 40.0, 400.0):
        layer, tokens = attention(layout, scale), layout.tokens(np.zeros((4, 4)))
        q, k, _ = (part.unflatten(-1, (layout.heads, -1))[0, :, head] for part in layer.qkv(tokens).chunk(3, -1))
        weights = (q @ k.T / layout.size**0.5).softmax(-1).numpy()
        errors.append(np.abs(weights[rows] - exact).max())
    assert errors[2] < 1e-12
    assert errors[2] <= errors[1] <= errors[0]


def random_layer(generator: np.random.Generator) -> tuple[Array, Array]:
    return generator.normal(size=len(PATTERNS)) / 4, generator.normal(size=2)


@torch.no_grad()
@pytest.mark.parametrize("nodes", [4, 5])
def test_a_layer_is_an_equivariant_linear_layer(nodes: int) -> None:
    """Theorem 1: the error falls exponentially with the scale of queries."""
    layout, generator = Layout(nodes), np.random.default_rng(0)
    weights, biases = random_layer(generator)
    x = generator.normal(size=(nodes, nodes))
    exact, errors = exact_layer(x, layout, weights, biases), []
    for scale in (20.0, 40.0, 400.0):
        layer = equivariant_layer(layout, scale, weights, biases, bound=50.0)
        out = layer(layout.tokens(x), torch.ones(1, nodes**2, dtype=torch.bool))[0, :, 0]
        errors.append(np.abs(out.numpy() - exact.flatten()).max())
    assert errors[1] < errors[0] / 10
    assert errors[2] < 1e-10


@torch.no_grad()
def network(x: Array, layers: list[tuple[Array, Array]], scale: float = 400.0) -> float:
    """Compute layers with ReLU between them, and a sum over all tokens (Theorem 2)."""
    layout = Layout(len(x))
    tokens, mask = layout.tokens(x, seed=1), torch.ones(1, len(x) ** 2, dtype=torch.bool)
    for number, (weights, biases) in enumerate(layers):
        tokens = equivariant_layer(layout, scale, weights, biases, bound=1e4)(tokens, mask)
        if number < len(layers) - 1:
            tokens[..., 0] = tokens[..., 0].relu()  # a perceptron on each token
    return float(tokens[0, :, 0].relu().sum())


def exact_network(x: Array, layers: list[tuple[Array, Array]]) -> float:
    layout = Layout(len(x))
    for weights, biases in layers:
        x = np.maximum(exact_layer(x, layout, weights, biases), 0)
    return float(x.sum())


def test_a_transformer_is_an_invariant_graph_network() -> None:
    """Theorem 2 and Corollary 1 for k = 2: the same numbers, for any order of the nodes."""
    generator = np.random.default_rng(0)
    layers = [random_layer(generator) for _ in range(3)]
    x = generator.normal(size=(4, 4))
    exact = exact_network(x, layers)
    assert exact > 1
    assert network(x, layers) == pytest.approx(exact, rel=1e-8)
    order = generator.permutation(4)
    assert network(x[order][:, order], layers) == pytest.approx(exact, rel=1e-8)
