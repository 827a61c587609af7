"""`lsat`, `sapdgt`, `sat` and `spdgt` on graphs small, empty, in pieces and too large."""

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.utils import from_networkx, subgraph

from sstcast.errors import SSTCastError
from sstcast.graphs.grid import GridGraph
from sstcast.graphs.paths import anchor_distances, path_distances
from sstcast.graphs.sparse import SparseGraph
from sstcast.models.kdlgt import AnchorDistance, PathDistance, StructureAware

WIDTH, HEADS = 16, 2
MODELS = {
    "lsat": lambda **kw: StructureAware(WIDTH, 2, HEADS, **kw),
    "sat": lambda **kw: StructureAware(WIDTH, 2, HEADS, linear=False, **kw),
    "lsat-subgraph": lambda **kw: StructureAware(WIDTH, 2, HEADS, extractor="subgraph", **kw),
    "sapdgt": lambda **kw: AnchorDistance(WIDTH, 2, HEADS, radius=2, **{"edge_messages": True} | kw),
    "spdgt": lambda **kw: PathDistance(WIDTH, 2, HEADS, max_hops=5, **kw),
}


def random_graph() -> nx.Graph:
    return nx.gnm_random_graph(14, 20, seed=0)


def as_sparse(*graphs: nx.Graph) -> SparseGraph:
    data = [Data(edge_index=from_networkx(g).edge_index, num_nodes=len(g)) for g in graphs]
    return SparseGraph.from_pyg(Batch.from_data_list(data))


def test_nodes_average_over_anchors_within_reach() -> None:
    """Two pieces in one graph get what they get apart."""
    torch.manual_seed(0)
    one, two = nx.path_graph(9), nx.cycle_graph(5)
    model, x = MODELS["sapdgt"]().eval(), torch.randn(14, WIDTH)
    whole = model(x, as_sparse(nx.disjoint_union(one, two)))
    torch.testing.assert_close(whole, model(x, as_sparse(one, two)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_small_and_empty_graphs(name: str) -> None:
    """No edges, a single node, isolated nodes and no node at all, alone or beside others."""
    torch.manual_seed(0)
    model = MODELS[name]().train()
    graphs = [
        random_graph(),
        nx.empty_graph(5),
        nx.empty_graph(1),
        nx.Graph(),
        nx.disjoint_union(nx.path_graph(3), nx.empty_graph(2)),
    ]
    xs = [torch.randn(len(g), WIDTH) for g in graphs]
    together = model(torch.cat(xs), as_sparse(*graphs))
    together.sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    for graph, x, ours in zip(graphs, xs, together.split([len(x) for x in xs]), strict=True):
        torch.testing.assert_close(ours, model(x, as_sparse(graph)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["sapdgt", "spdgt"])
def test_bonds_are_seen(name: str) -> None:
    """Two molecules of the same atoms and bonds, of which the double one is elsewhere."""
    torch.manual_seed(0)
    index = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    single, double = torch.tensor([1.0, 0]), torch.tensor([0, 1.0])
    bonds = [torch.stack([double, double, *[single] * 4]), torch.stack([single] * 2 + [double] * 2 + [single] * 2)]
    batch, x = torch.zeros(4, dtype=torch.long), torch.randn(4, WIDTH)
    with_bonds, blind = MODELS[name](edge_dim=2), MODELS[name](edge_dim=0)
    ours = [with_bonds(x, SparseGraph(index, batch, 1, attr)) for attr in bonds]
    same = [blind(x, SparseGraph(index, batch, 1, attr)) for attr in bonds]
    assert not torch.allclose(ours[0].sum(0), ours[1].sum(0), atol=1e-4)
    assert torch.equal(*same)


def test_neighbours_act_by_attention_alone() -> None:
    """The paper has no encoder of messages: with attention off, a node sees only itself."""
    torch.manual_seed(0)
    model, x, attr = AnchorDistance(WIDTH, 2, HEADS, edge_dim=3), torch.randn(3, WIDTH), torch.randn(4, 3)
    graph = SparseGraph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.zeros(3, dtype=torch.long), 1, attr)
    changed = x.clone()
    changed[1:] = torch.randn(2, WIDTH)
    assert not torch.allclose(model(x, graph)[0], model(changed, graph)[0], atol=1e-3)
    for block in model.blocks:
        torch.nn.init.zeros_(block.attention.out.weight)
    assert torch.equal(model(x, graph)[0], model(changed, graph)[0])


@pytest.mark.parametrize("length", [12, 20, 31])
def test_an_anchor_far_from_both_nodes_breaks_equation_17(length: int) -> None:
    """A path: an anchor at distance d from a node puts the node at distance d from itself, whatever k is."""
    k, path = 5, nx.path_graph(length)
    to_anchor = anchor_distances(as_sparse(path), k)[0].numpy()
    exact = np.abs(np.subtract.outer(np.arange(length), np.arange(length)))
    assert to_anchor.min(1).max() <= k  # what the paper infers equation 17 from holds
    by_anchor = (to_anchor[:, None] + to_anchor) / 2  # equation 14, [i, j, anchor]
    furthest = to_anchor.max()
    assert furthest > k
    assert np.abs(exact[..., None] - by_anchor).max() >= furthest
    node, anchor = np.unravel_index(to_anchor.argmax(), to_anchor.shape)
    assert by_anchor[node, node, anchor] == furthest


def test_path_lengths_are_no_product_of_few_columns() -> None:
    """KDLGT, section 4.3, ineffective decomposition: the rank of SPD is nearly N, that of SAPD at most 2."""
    graph = nx.random_regular_graph(6, 64, seed=0)
    hops, to_anchor = path_distances(as_sparse(graph))[0].numpy(), anchor_distances(as_sparse(graph), 2)[0].numpy()
    assert np.linalg.matrix_rank(hops) > 60
    for column in to_anchor.T:
        assert np.linalg.matrix_rank(np.add.outer(column, column) / 2) <= 2


def test_sapdgt_adds_its_neighbours_by_their_edges() -> None:
    torch.manual_seed(0)
    options = {"edge_dim": 3, "edge_messages": True}
    model, x, attr = AnchorDistance(WIDTH, 0, HEADS, **options), torch.randn(3, WIDTH), torch.randn(4, 3)
    model.norm = torch.nn.Identity()
    index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    messages = (x[index[0]] + attr @ model.edge.weight.T).relu()
    added = torch.stack([messages[1], (messages[0] + messages[3]) / 2, messages[2]])
    ours = model(x, SparseGraph(index, torch.zeros(3, dtype=torch.long), 1, attr))
    torch.testing.assert_close(ours, x + added)


def test_the_graph_node_reads_the_whole_graph() -> None:
    """As one more node of the graph: alone, beside others, and without any node."""
    torch.manual_seed(0)
    model = MODELS["spdgt"](graph_node=True).eval()
    assert model.row == "token"
    graphs = [random_graph(), nx.path_graph(3), nx.Graph()]
    xs = [torch.randn(len(g), WIDTH) for g in graphs]
    nodes, tokens = model.encode(torch.cat(xs), as_sparse(*graphs))
    assert nodes.shape == (17, WIDTH)
    assert tokens.shape == (3, WIDTH)
    for graph, x, token in zip(graphs, xs, tokens, strict=True):
        torch.testing.assert_close(model.encode(x, as_sparse(graph))[1][0], token, rtol=1e-4, atol=1e-5)
    other = model.encode(torch.cat([-xs[0], *xs[1:]]), as_sparse(*graphs))[1]
    assert not torch.allclose(other[0], tokens[0], atol=1e-3)
    torch.testing.assert_close(other[1:], tokens[1:], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_a_tile_without_ocean_stays_finite(name: str) -> None:
    torch.manual_seed(0)
    mask = torch.tensor([[False] * 12, [True] * 12])
    model, x = MODELS[name]().train(), torch.randn(2, 12, WIDTH, requires_grad=True)
    out = model(x, GridGraph(3, 4, mask))
    assert out.isfinite().all()
    out[1].square().sum().backward()
    assert x.grad.isfinite().all()
    torch.testing.assert_close(out[1:], model(x[1:], GridGraph(3, 4)), rtol=1e-5, atol=1e-5)


def test_subgraphs_of_a_grid_are_those_of_its_ocean() -> None:
    """With a mask of its own for each sample, and one for all."""
    torch.manual_seed(0)
    model, x = MODELS["lsat-subgraph"](), torch.randn(2, 20, WIDTH)
    masks = torch.rand(2, 20) < 0.7
    ours = model(x, GridGraph(4, 5, masks))
    for number in range(2):
        shared = model(x, GridGraph(4, 5, masks[number : number + 1]))
        torch.testing.assert_close(
            shared[number, masks[number]], ours[number, masks[number]], rtol=1e-4, atol=1e-5
        )
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = model(x, GridGraph(4, 5, masks)).float()
    torch.testing.assert_close(half[masks], ours[masks], rtol=0.1, atol=0.1)
    grid = GridGraph(4, 5, masks[:1])
    index = grid.edge_index()
    attr = torch.stack([index[0] % 5 - index[1] % 5, index[0] // 5 - index[1] // 5], dim=1).float()
    index, attr = subgraph(masks[0], index, attr, relabel_nodes=True, num_nodes=20)
    ocean = SparseGraph(index, index.new_zeros(int(masks[0].sum())), 1, attr)
    torch.testing.assert_close(model(x[0, masks[0]], ocean), ours[0, masks[0]], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_dropout_and_wrong_heads(name: str) -> None:
    graph, x = as_sparse(random_graph()), torch.randn(14, WIDTH)
    model = MODELS[name](dropout=0.5)
    assert not torch.equal(model.train()(x, graph), model(x, graph))
    assert torch.equal(model.eval()(x, graph), model(x, graph))
    with pytest.raises(SSTCastError, match="heads: 3 heads cannot share a width of 16"):
        type(model)(width=16, heads=3)


@pytest.mark.parametrize("name", ["spdgt", "sapdgt"])
def test_too_large_is_refused_with_the_number(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 2 heads the scores of 500 isolated nodes take 1.9 MiB, and the values of as many anchors 15 MiB."""
    model, graph, x = MODELS[name](), as_sparse(nx.empty_graph(500)), torch.randn(500, WIDTH)
    assert model(x, graph).isfinite().all()
    monkeypatch.setattr("sstcast.graphs.graph.LIMIT", 1.5 * 2**20)
    with pytest.raises(SSTCastError, match=r"500 .*GiB"):
        model(x, graph)
