import itertools

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch

from studies.equivariant_basis import (
    BASES,
    BasisAttention,
    make_tokens,
    study,
)


def dense_bases(nodes: int) -> np.ndarray:
    """The tensors `[15, n, n, n, n]` of a complete graph's tokens, all pairs."""
    tokens = make_tokens([nx.complete_graph(nodes)], dense=True)
    i, j = tokens.ends[0].T.tolist()
    bases = np.zeros((15, *[nodes] * 4), bool)
    bases[:, np.array(i)[:, None], np.array(j)[:, None], i, j] = tokens.bases[0].numpy()
    return bases


def test_the_bases_are_the_orbits_of_quadruples_under_permutations() -> None:
    bases = dense_bases(4)
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


@pytest.mark.parametrize(("identifiers", "square"), [("orf", 1), ("laplacian", 7)])
def test_node_identifiers_are_orthogonal(identifiers: str, square: int) -> None:
    tokens = make_tokens([nx.barabasi_albert_graph(7, 2, seed=0)], dense=True)
    p = BasisAttention(identifiers, types=True).identify(tokens)
    torch.testing.assert_close(p @ p.T, square * torch.eye(7), rtol=0, atol=1e-5)


def test_only_both_identifiers_together_fit_the_bases() -> None:
    whole = study(seeds=(0,), steps=60, representations=("dense",))
    kept = [
        c
        for c in whole.cases
        if (c["identifiers"], c["types"]) in {("none", "yes"), ("orf", "no"), ("orf", "yes")}
    ]
    rows = pd.concat([whole.rows_of(case) for case in kept])
    error = rows.groupby(["identifiers", "types"])["test"].mean()
    assert error["orf", "yes"] < error["orf", "no"] / 2
    assert error["orf", "no"] < error["none", "yes"] / 2
