"""`lsat`, `sapdgt`, `sat` and `spdgt` against explicit softmax over all pairs, and the claims of their paper."""

import networkx as nx
import numpy as np
import pytest
import torch
from small_graphs import as_sparse, one_graph, path, same
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.utils import k_hop_subgraph, scatter

from sstcast.errors import SSTCastError
from sstcast.graphs.paths import anchor_distances, path_distances
from sstcast.graphs.sparse import SparseGraph
from sstcast.models.attention import favor_attention, orthogonal_directions, softmax_attention, split_heads
from sstcast.models.kdlgt import (
    AnchorAttention,
    AnchorDistance,
    PathAttention,
    PathBias,
    PathDistance,
    StructureAware,
    StructureAwareAttention,
    anchored_attention,
)

WIDTH, HEADS, SIZE = 16, 2, 8
MODELS = {
    "lsat": lambda **kw: StructureAware(WIDTH, 2, HEADS, **kw),
    "sat": lambda **kw: StructureAware(WIDTH, 2, HEADS, linear=False, **kw),
    "lsat-subgraph": lambda **kw: StructureAware(WIDTH, 2, HEADS, extractor="subgraph", **kw),
    "sapdgt": lambda **kw: AnchorDistance(WIDTH, 2, HEADS, radius=2, **{"edge_messages": True} | kw),
    "spdgt": lambda **kw: PathDistance(WIDTH, 2, HEADS, max_hops=5, **kw),
}


def random_graph() -> nx.Graph:
    return nx.gnm_random_graph(14, 20, seed=0)


def heads_of(x: Tensor, heads: int = HEADS) -> Tensor:
    """`[N, width]` to `[heads, N, size]`."""
    return split_heads(x[None], heads)[0]


def explicit(layer: nn.Module, x: Tensor, bias: Tensor) -> Tensor:
    """Compute softmax attention over all pairs, with the queries, keys and values of the layer and a bias."""
    q, k, v = (heads_of(part) for part in layer.qkv(x).chunk(3, dim=-1))
    return layer.out(F.scaled_dot_product_attention(q, k, v, bias).transpose(0, 1).flatten(1))


def subtree(layer: StructureAwareAttention, x: Tensor, edges: Tensor, attr: Tensor | None = None) -> Tensor:
    """x_i <- ReLU(W_root x_i + mean_j ReLU(W x_j + E e_ij)), k times."""
    source, target = edges
    for conv in layer.convs:
        messages = conv.neighbor(x[source]) + (0 if attr is None else attr @ conv.edge.weight.T)
        x = (conv.root(x) + scatter(messages.relu(), target, dim_size=len(x), reduce="mean")).relu()
    return x


def structure_bias(layer: StructureAwareAttention, x: Tensor, graph: SparseGraph) -> Tensor:
    """(S W_q) (S W_k)^T / sqrt(d), equation 12."""
    s, (w_q, w_k) = layer.norm(subtree(layer, x, graph.edge_index)), layer.structure.weight.chunk(2)
    return heads_of(s @ w_q.T) @ heads_of(s @ w_k.T).transpose(1, 2) / SIZE**0.5


@pytest.mark.parametrize("rank", [2, 6])
def test_a_symmetric_bias_is_a_product_of_queries_and_keys(rank: int) -> None:
    """Section 4.2: B = B_q B_k^T from its eigenpairs, as further channels of softmax and its random features."""
    generator = np.random.default_rng(0)
    factor, signs = generator.normal(size=(12, rank)), np.resize([1, -1], rank)
    bias = torch.from_numpy(0.05 * (factor * signs) @ factor.T)
    values, vectors = torch.linalg.eigh(bias)
    kept = values.abs() > 1e-9
    assert int(kept.sum()) == rank
    b_q, b_k = vectors[:, kept] * values[kept], vectors[:, kept]
    torch.testing.assert_close(b_q @ b_k.T, bias)

    size = SIZE + rank
    q, k, v = (torch.from_numpy(0.5 * generator.normal(size=(1, 1, 12, SIZE))) for _ in range(3))
    expected = F.scaled_dot_product_attention(q, k, v, bias)
    scale, sqrt = (size / SIZE) ** 0.25, size**0.25  # attention divides by the square root of all channels
    q, k = (torch.cat([scale * part, sqrt * b[None, None]], dim=-1) for part, b in ((q, b_q), (k, b_k)))
    mask = torch.ones(1, 12, dtype=torch.bool)
    torch.testing.assert_close(softmax_attention(q, k, v, mask), expected)
    errors = []
    for features in (16, 4096):
        drawn = [orthogonal_directions(features, size).double() for _ in range(8)]
        errors.append(torch.stack([favor_attention(q, k, v, mask, w) - expected for w in drawn]).norm())
    assert errors[1] < errors[0] / 4


def test_sat_by_its_equation() -> None:
    graph, x = as_sparse(random_graph()), torch.randn(14, WIDTH)
    layer = StructureAwareAttention(WIDTH, HEADS, hops=2, edge_dim=0, features=0)
    same(layer(x, graph), explicit(layer, x, structure_bias(layer, x, graph)))


@pytest.mark.parametrize("subgraph", [False, True])
def test_structure_extractors(subgraph: bool) -> None:
    """Node by node, on a batch of a connected graph, a disconnected one, and a single node."""
    two = nx.disjoint_union(nx.path_graph(4), nx.cycle_graph(3))
    batch = as_sparse(nx.gnm_random_graph(9, 12, seed=1), two, nx.empty_graph(1), features=3)
    layer, x = StructureAwareAttention(WIDTH, HEADS, 2, 3, 0, subgraph), torch.randn(17, WIDTH)
    attr = batch.edge_attr[0]
    expected = subtree(layer, x, batch.edge_index, attr)
    if subgraph:
        rows = []
        for node in range(17):
            near, edges, _, kept = k_hop_subgraph(node, 2, batch.edge_index, relabel_nodes=True, num_nodes=17)
            rows.append(subtree(layer, x[near], edges, attr[kept]).sum(0))
        expected = torch.stack(rows)
    expected = layer.norm(expected)
    torch.testing.assert_close(layer.extract(x, batch), torch.cat([x, expected], 1) if subgraph else expected)


def test_lsat_approaches_softmax_with_more_features() -> None:
    graph, x = as_sparse(random_graph()), torch.randn(14, WIDTH)
    errors = []
    for features in (16, 256, 4096):
        runs = []
        for seed in range(8):
            torch.manual_seed(seed)
            layer = StructureAwareAttention(WIDTH, HEADS, hops=2, edge_dim=0, features=features)
            with torch.no_grad():  # the variance of the features grows as exp(|q + k|^2)
                layer.qkv.weight *= 0.6
                layer.structure.weight *= 0.6
            exact = explicit(layer, x, structure_bias(layer, x, graph))
            runs.append((layer(x, graph) - exact).square().mean() / exact.square().mean())
        errors.append(torch.stack(runs).mean().sqrt())
    assert errors[0] > 2 * errors[1] > 4 * errors[2]  # 1 / sqrt(features) falls to a quarter each time
    assert errors[2] < 0.02


def test_lemma_1_of_kdlgt_assumes_more_than_holds() -> None:
    """It assumes c = sqrt((exp(|q + k|^2) - 1) / r) < 1 for all pairs, which fails even for untrained weights."""
    graph, x, features = as_sparse(nx.random_regular_graph(4, 60, seed=0)), torch.randn(60, 64), 64
    layer = StructureAwareAttention(64, 4, hops=2, edge_dim=0, features=features)
    parts = torch.cat([layer.qkv(x)[:, :128], layer.structure(layer.extract(x, graph))], dim=1)
    q, k, s_q, s_k = (heads_of(part, 4) / 16**0.25 for part in parts.chunk(4, dim=1))
    sums = torch.cat([q, s_q], dim=-1).unsqueeze(2) + torch.cat([k, s_k], dim=-1).unsqueeze(1)
    assert ((sums.square().sum(-1).exp() - 1) / features).sqrt().max() > 1


def test_sapdgt_approaches_softmax_with_more_features() -> None:
    """The explicit form has both terms of the bias, c hops(i, a) / 2 and c hops(j, a) / 2, for each anchor a."""
    graph, x = as_sparse(nx.path_graph(14)), torch.randn(14, WIDTH)
    hops = anchor_distances(graph, 2)
    assert hops.shape[2] > 2
    layer = AnchorAttention(WIDTH, HEADS, features=2**14)
    nn.init.uniform_(layer.slope, -2, 0)
    c = -F.softplus(layer.slope)
    outputs = [explicit(layer, x, c * (b[:, None] + b) / 2) for b in hops[0].T]
    torch.testing.assert_close(layer(x, graph, hops), torch.stack(outputs).mean(0), rtol=0, atol=0.01)


def test_the_slope_starts_gentle_and_stays_negative() -> None:
    """Section 4.3 learns c < 0 in f(x) = c x. It starts at -0.1 in every head, which the paper leaves open."""
    layer = AnchorAttention(WIDTH, HEADS, features=4)
    torch.testing.assert_close(-F.softplus(layer.slope), torch.full((HEADS, 1, 1), -0.1))


def test_bias_in_the_features_is_exact() -> None:
    """exp(b_i + b_j) phi_q phi_k^T, normalised, equals the softmax of its logarithm."""
    phi_q, phi_k, v = torch.rand(2, HEADS, 9, 5), torch.rand(2, HEADS, 9, 5), torch.randn(2, HEADS, 9, SIZE)
    b = -3 * torch.rand(2, HEADS, 9, 4)
    ours = anchored_attention(phi_q, phi_k, v, b.exp())
    scores = (phi_q @ phi_k.transpose(-1, -2)).log()
    for a, bias in enumerate(b.unbind(-1)):
        weights = (scores + bias.unsqueeze(-1) + bias.unsqueeze(-2)).softmax(-1)
        torch.testing.assert_close(ours[..., a, :], weights @ v, rtol=1e-4, atol=1e-5)


def test_spdgt_by_its_equation() -> None:
    """Both terms of Graphormer's bias, on trees, where there is one path between two nodes."""
    pieces = nx.disjoint_union(nx.path_graph(9), nx.star_graph(4))
    graph = as_sparse(pieces, features=3)
    feature = dict(zip(map(tuple, graph.edge_index.T.tolist()), graph.edge_attr[0], strict=True))
    layer, biases, x = PathAttention(WIDTH, HEADS), PathBias(HEADS, 4, 3, False), torch.randn(14, WIDTH)
    nn.init.normal_(biases.by_hops)
    nn.init.normal_(biases.by_edges)
    bias = biases.by_hops[:, -1:, None].expand(HEADS, 14, 14).clone()  # no path
    for i, paths in nx.all_pairs_shortest_path(pieces):
        for j, nodes in paths.items():
            bias[:, i, j] = biases.by_hops[:, min(len(nodes) - 1, 4)]
            if 1 < len(nodes) <= 5:
                edges = zip(biases.by_edges, nx.utils.pairwise(nodes), strict=False)
                bias[:, i, j] += torch.stack([feature[e] @ w for w, e in edges]).mean(0)
    ours = biases(x, graph)
    same(ours[0], bias)
    same(layer(x[None], ours)[0], explicit(layer, x, bias))


def test_the_graph_node_has_a_bias_of_its_own() -> None:
    graph, x = as_sparse(nx.path_graph(4)), torch.randn(4, WIDTH)
    with_node, without = PathBias(HEADS, 4, 0, True), PathBias(HEADS, 4, 0, False)
    without.by_hops = with_node.by_hops
    bias = with_node(x, graph)[0]
    torch.testing.assert_close(bias[:, 1:, 1:], without(x, graph)[0])
    assert torch.equal(bias[:, 0], with_node.to_graph_node[:, 0].expand(HEADS, 5))
    assert torch.equal(bias[:, :, 0], bias[:, 0])


def test_the_graph_node_reads_the_whole_graph() -> None:
    """The graph node gets the same for a graph alone as in a batch, even for a graph without nodes."""
    model = MODELS["spdgt"](graph_node=True).eval()
    assert model.readout == "token"
    graphs = [random_graph(), nx.path_graph(3), nx.Graph()]
    xs = [torch.randn(len(g), WIDTH) for g in graphs]
    nodes, tokens = model.encode(torch.cat(xs), as_sparse(*graphs))
    assert nodes.shape == (17, WIDTH)
    for graph, x, token in zip(graphs, xs, tokens, strict=True):
        same(model.encode(x, as_sparse(graph))[1][0], token, 1e-4)
    other = model.encode(torch.cat([-xs[0], *xs[1:]]), as_sparse(*graphs))[1]
    assert not torch.allclose(other[0], tokens[0], atol=1e-3)
    same(other[1:], tokens[1:], 1e-4)


def test_nodes_average_over_anchors_within_reach() -> None:
    """The components of a graph get the same as separate graphs."""
    one, two = nx.path_graph(9), nx.cycle_graph(5)
    model, x = MODELS["sapdgt"]().eval(), torch.randn(14, WIDTH)
    same(model(x, as_sparse(nx.disjoint_union(one, two))), model(x, as_sparse(one, two)))


def test_neighbours_act_by_attention_alone() -> None:
    """As in the paper, no messages are passed: without attention, a node reads only itself."""
    model, x = AnchorDistance(WIDTH, 2, HEADS, edge_dim=3), torch.randn(3, WIDTH)
    graph, changed = one_graph(path(3), 3, torch.randn(4, 3)), x.clone()
    changed[1:] = torch.randn(2, WIDTH)
    assert not torch.allclose(model(x, graph)[0], model(changed, graph)[0], atol=1e-3)
    for block in model.layers:
        nn.init.zeros_(block.attention.out.weight)
    assert torch.equal(model(x, graph)[0], model(changed, graph)[0])


def test_sapdgt_adds_its_neighbours_by_their_edges() -> None:
    model = AnchorDistance(WIDTH, 0, HEADS, edge_dim=3, edge_messages=True)
    x, attr = torch.randn(3, WIDTH), torch.randn(4, 3)
    model.norm = nn.Identity()
    source, target = path(3)
    added = scatter((x[source] + attr @ model.edge.weight.T).relu(), target, reduce="mean")
    torch.testing.assert_close(model(x, one_graph(path(3), 3, attr)), x + added)


@pytest.mark.parametrize("length", [12, 20, 31])
def test_an_anchor_far_from_both_nodes_breaks_equation_17(length: int) -> None:
    """On a path, an anchor at distance d from a node puts the node at distance d from itself, whatever k is."""
    k = 5
    to_anchor = anchor_distances(as_sparse(nx.path_graph(length)), k)[0].numpy()
    exact = np.abs(np.subtract.outer(np.arange(length), np.arange(length)))
    assert to_anchor.min(1).max() <= k  # the premise of equation 17 holds
    by_anchor = (to_anchor[:, None] + to_anchor) / 2  # equation 14, [i, j, anchor]
    furthest = to_anchor.max()
    assert furthest > k
    assert np.abs(exact[..., None] - by_anchor).max() >= furthest
    node, anchor = np.unravel_index(to_anchor.argmax(), to_anchor.shape)
    assert by_anchor[node, node, anchor] == furthest


def test_anchors_between_the_nodes_break_equation_17() -> None:
    """On a path of 21 nodes, every anchor halves the distance of the ends. Random graphs have such anchors too."""
    to_anchor = anchor_distances(as_sparse(nx.path_graph(21)), 2)[0].numpy()
    assert to_anchor.shape == (21, 6)
    assert set(to_anchor.argmin(0).tolist()).isdisjoint({0, 20})
    np.testing.assert_array_equal((to_anchor[0] + to_anchor[20]) / 2, 10)  # equation 14, for a distance of 20
    broken = []
    for seed in range(40):
        graph = nx.gnp_random_graph(30, 0.12, seed=seed)
        graph = nx.convert_node_labels_to_integers(graph.subgraph(max(nx.connected_components(graph), key=len)))
        to_anchor = anchor_distances(as_sparse(graph), 2)[0].numpy()
        assert to_anchor.min(1).max() <= 2
        by_anchor = (to_anchor[:, None] + to_anchor) / 2
        broken.append((np.abs(nx.floyd_warshall_numpy(graph)[..., None] - by_anchor) > 2).mean())
    assert 0.05 < np.mean(broken) < 0.15


@torch.no_grad()
@pytest.mark.parametrize(
    ("graph", "equivariant"), [(nx.cycle_graph(14), False), (random_graph(), True)], ids=["cycle", "no symmetry"]
)
def test_the_numbering_of_nodes_chooses_between_tied_anchors(graph: nx.Graph, equivariant: bool) -> None:
    """All nodes of a cycle are alike, so the anchors, and SAPDGT with them, depend on their numbers."""
    model, furthest = AnchorDistance(WIDTH, 2, HEADS, radius=2).eval(), []
    for _ in range(5):
        order, x = torch.randperm(14), torch.randn(14, WIDTH)
        numbers = order.argsort().tolist()
        renumbered = nx.empty_graph(14)
        renumbered.add_edges_from((numbers[i], numbers[j]) for i, j in graph.edges)
        ours, theirs = model(x[order], as_sparse(renumbered)), model(x, as_sparse(graph))[order]
        furthest.append(float((ours - theirs).abs().max()))
    assert max(furthest) < 1e-5 if equivariant else max(furthest) > 1e-3


def test_path_lengths_are_no_product_of_few_columns() -> None:
    """KDLGT, section 4.3: shortest path distances have a rank of nearly N, distances to one anchor at most 2."""
    graph = as_sparse(nx.random_regular_graph(6, 64, seed=0))
    assert np.linalg.matrix_rank(path_distances(graph)[0].numpy()) > 60
    for column in anchor_distances(graph, 2)[0].numpy().T:
        assert np.linalg.matrix_rank(np.add.outer(column, column) / 2) <= 2


@pytest.mark.parametrize("name", ["spdgt", "sapdgt"])
def test_too_large_is_refused_with_the_number(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 2 heads, the scores of 500 isolated nodes take 1.9 MiB, and the values for as many anchors 15 MiB."""
    model, graph, x = MODELS[name](), as_sparse(nx.empty_graph(500)), torch.randn(500, WIDTH)
    assert model(x, graph).isfinite().all()
    monkeypatch.setattr("sstcast.graphs.graph.UNCHECKED", 0)
    monkeypatch.setattr("sstcast.graphs.graph.free_memory", lambda: 6 * 2**20)
    with pytest.raises(SSTCastError, match=r"500 .*GiB"):
        model(x, graph)
