"""The studies of what models can learn: graphs that 1-WL cannot tell apart, attention, and equivariant bases."""

import itertools

import networkx as nx
import numpy as np
import pandas as pd
import torch

from studies import equivariant_basis, virtual_node, wl
from studies.equivariant_basis import BASES, SIZE, BasisAttention, make_tokens
from studies.study import Study
from studies.virtual_node import CHANNELS, NODES, Target, features
from studies.wl import skip_link_graphs


def rows_of(study: Study, *kept: dict[str, object]) -> pd.DataFrame:
    """Measure the cases that have the values of one of `kept`."""
    return pd.concat(
        study.rows_of(case) for case in study.cases if any(case.items() >= one.items() for one in kept)
    )


def test_the_graphs_are_the_same_to_1wl_and_differ_by_class_alone() -> None:
    graphs, classes = skip_link_graphs(seed=0)
    assert np.bincount(classes).tolist() == [15] * 10
    for graph in graphs:
        nx.set_node_attributes(graph, "same", "start")
    assert len({nx.weisfeiler_lehman_graph_hash(g, node_attr="start") for g in graphs}) == 1
    spectra = np.array([np.linalg.eigvalsh(nx.to_numpy_array(g, range(41))) for g in graphs])
    first = spectra[::15]
    np.testing.assert_allclose(spectra, first[classes], atol=1e-9)
    distances = abs(first[:, None] - first).max(-1)
    assert distances[~np.eye(10, dtype=bool)].min() > 0.1
    assert all(dict(g.degree) == dict.fromkeys(range(41), 4) for g in graphs)
    assert len({frozenset(map(frozenset, g.edges)) for g in graphs}) == 150


def test_message_passing_guesses_and_encodings_help() -> None:
    guesses = wl.study(models=("MPNN", "MPNN + VN"), folds=(0,), epochs=2).rows()
    assert guesses["accuracy"].tolist() == [10, 10]
    encoded = wl.study(models=("MPNN + RWSE",), folds=(0,), epochs=25).rows()
    assert encoded["accuracy"].item() > 80


@torch.no_grad()
def test_the_target_is_standardised_attention_to_all_nodes() -> None:
    torch.manual_seed(0)
    target, x = Target(), features(4096)
    y = target(x)
    torch.testing.assert_close(y.mean((0, 1)), torch.zeros(CHANNELS), rtol=0, atol=0.1)
    torch.testing.assert_close(y.std((0, 1)), torch.ones(CHANNELS), rtol=0, atol=0.05)
    order = torch.randperm(NODES)
    torch.testing.assert_close(target(x[:8, order]), target(x[:8])[:, order])
    other = x[:8].clone()
    other[:, NODES // 2] *= -1
    assert ((target(other) - target(x[:8]))[:, 0].abs() > 1e-3).all()  # beyond three hops


def test_the_error_falls_with_width_and_needs_the_virtual_node() -> None:
    study = virtual_node.study(widths=(4, 32), seeds=(0,), steps=120)
    rows = rows_of(study, {"model": "mpnn-vn"}, {"model": "mpnn", "width": 32})
    error = rows.set_index(["model", "width"])["error"]
    assert error["mpnn-vn", 32] < error["mpnn-vn", 4] / 1.5
    assert error["mpnn-vn", 32] < error["mpnn", 32] / 2


def test_the_bases_are_the_orbits_of_quadruples_under_permutations() -> None:
    """The tensors `[15, n, n, n, n]` of a complete graph's tokens, all pairs."""
    tokens = make_tokens([nx.complete_graph(4)], dense=True)
    i, j = tokens.ends[0].T.tolist()
    bases = np.zeros((15, *[4] * 4), bool)
    bases[:, np.array(i)[:, None], np.array(j)[:, None], i, j] = tokens.bases[0].numpy()
    assert (bases.sum(0) == 1).all()
    orbits = {
        frozenset(tuple(np.array(p)[list(q)]) for p in itertools.permutations(range(4)))
        for q in itertools.product(range(4), repeat=4)
    }
    assert {frozenset(map(tuple, np.argwhere(basis))) for basis in bases} == orbits
    assert len(orbits) == 15
    names = list(BASES)
    assert bases[names.index("ij → ji")][0, 1, 1, 0]
    assert bases[names.index("ii → jk")][2, 2, 0, 3]


def test_sparse_tokens_are_nodes_and_edges() -> None:
    path, triangle = nx.path_graph(4), nx.complete_graph(3)
    tokens = make_tokens([path, triangle], dense=False)
    assert tokens.mask.sum(1).tolist() == [4 + 2 * 3, 3 + 2 * 3]
    ends = {tuple(pair) for pair in tokens.ends[0].tolist()}
    assert ends == {(i, i) for i in path} | set(path.edges) | {(j, i) for i, j in path.edges}
    real = tokens.mask[1]
    assert not tokens.bases[1, :, ~real].any()
    assert not tokens.bases[1, :, :, ~real].any()
    assert (tokens.bases[1][:, real][:, :, real].sum(0) == 1).all()


@torch.no_grad()
def test_weights_of_each_head_by_equation_3() -> None:
    """softmax(q k^T / sqrt(d)) over the tokens of a graph, with queries and keys of width d = 9."""
    torch.manual_seed(0)
    tokens = make_tokens([nx.path_graph(4), nx.complete_graph(3)], dense=False)
    model = BasisAttention("none", types=True, width=8, head=9)
    weights, (nodes, mask) = model(tokens), (len(tokens.laplacian), tokens.mask)
    nothing = torch.zeros(nodes, 8), tokens.graph, torch.zeros(nodes, SIZE)
    queries, keys = model.qk(model.tokengt.embed(*nothing)[0][:, 1:]).chunk(2, dim=-1)
    for graph in range(2):
        for head in range(15):
            q, k = (part[graph, mask[graph], 9 * head : 9 * head + 9] for part in (queries, keys))
            expected = (q @ k.T / 9**0.5).softmax(-1)
            torch.testing.assert_close(weights[graph, head][mask[graph]][:, mask[graph]], expected)


def test_only_both_identifiers_together_fit_the_bases() -> None:
    study = equivariant_basis.study(seeds=(0,), steps=60, representations=("dense",))
    kept = ({"identifiers": i, "types": t} for i, t in (("none", "yes"), ("orf", "no"), ("orf", "yes")))
    error = rows_of(study, *kept).groupby(["identifiers", "types"])["test"].mean()
    assert error["orf", "yes"] < error["orf", "no"] / 2
    assert error["orf", "no"] < error["none", "yes"] / 2
