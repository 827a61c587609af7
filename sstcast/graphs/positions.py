"""Positional encodings: Laplacian eigenvectors, landing probabilities of random walks, random identifiers.

Edges are undirected, and repeated ones count once. Self-loops are ignored.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array, diags_array, eye_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh, splu
from torch import Tensor
from torch._compile import _disable_dynamo  # torch.compiler.disable takes a second to import
from torch.nn import functional as F

from sstcast.types import Array

ENTRIES = 2**26  # matrix entries in memory at once, because long walks on a small-world graph reach every node
DENSE_SOLVER_NODES = 1000  # components of up to this many nodes always use the dense solver
SPARE = 8  # extra pairs from the iterative solver, so that it cuts few groups of equal eigenvalues
SAME = 1e-10  # eigenvalues that differ by less count as equal


@_disable_dynamo
def laplacian_basis(edge_index: Tensor, batch: Tensor, graphs: int, k: int) -> tuple[Tensor, Tensor]:
    """Return the `k` smallest non-trivial eigenpairs of the normalised Laplacian I - D^(-1/2) A D^(-1/2).

    Every connected component has one trivial pair with eigenvalue 0, which is left out. In a disconnected graph
    the smallest pairs of all components are returned, and a vector is 0 outside its component. Inside, its mean
    square is 1: with length 1, its entries would be tiny in large graphs.

    Eigenvectors have an arbitrary sign, and those of equal eigenvalues, which are common on a square grid, an
    arbitrary rotation. A reference vector fixes both, so a graph has the same basis on every computer. The
    reference follows the order of nodes: if they are renumbered, the basis may change. A group of equal
    eigenvalues is cut if only a part of it fits into `k`.

    Args:
        edge_index: (source, target) of each edge, `[2, edges]`.
        batch: the graph of each node, in ascending order, `[nodes]`.
        graphs: the number of graphs.
        k: the number of pairs for each graph.

    Returns:
        The vectors `[nodes, k]` and the ascending values `[graphs, k]`. A graph with fewer than `k` pairs is
        padded with zeros. No other eigenvalue is 0.
    """
    adjacency = _adjacency(edge_index, len(batch))
    starts = np.searchsorted(batch.cpu().numpy(), np.arange(graphs + 1))
    vectors, values = np.zeros((len(batch), k), np.float32), np.zeros((graphs, k), np.float32)
    for graph, (start, end) in enumerate(pairwise(starts)):
        pairs = _smallest_pairs(adjacency[start:end, start:end], k)
        for column, (value, members, vector) in enumerate(pairs):
            values[graph, column] = value
            vectors[start + members, column] = vector
    return torch.from_numpy(vectors).to(batch.device), torch.from_numpy(values).to(batch.device)


@_disable_dynamo
def components_of(edge_index: Tensor, batch: Tensor, graphs: int) -> Tensor:
    """Return the connected component of each node, `[nodes]`, numbered in each graph as they first occur.

    The arguments are those of `laplacian_basis`.
    """
    _, numbers = connected_components(_adjacency(edge_index, len(batch)), directed=False)
    starts = np.searchsorted(batch.cpu().numpy(), np.arange(graphs))
    first = torch.from_numpy(np.append(numbers, 0)[starts]).to(batch)  # of a graph without nodes, any number
    return torch.from_numpy(numbers).to(batch) - first[batch]


@_disable_dynamo
def degrees_of(edge_index: Tensor, nodes: int) -> Tensor:
    """Return the number of neighbours of each node in the graph of `laplacian_basis`, `[nodes]`."""
    return torch.from_numpy(np.diff(_adjacency(edge_index, nodes).indptr)).to(edge_index)


@_disable_dynamo
def landing_probabilities(edge_index: Tensor, nodes: int, steps: int) -> Tensor:
    """Return the probability that a random walk is back at its start after 1, 2, ..., `steps` steps.

    The result is `[nodes, steps]`. Source: Dwivedi et al. 2022, arXiv:2110.07875.
    """
    adjacency = _adjacency(edge_index, nodes)
    walk = csr_array(diags_array(1 / np.maximum(adjacency.sum(axis=1), 1)) @ adjacency)
    returns = np.zeros((nodes, steps), np.float32)
    block_size = max(1, ENTRIES // max(nodes, 1))
    for start in range(0, nodes, block_size):  # walks that end in one block of nodes
        block = slice(start, start + block_size)
        power = eye_array(nodes, format="csc")[:, block]
        for step in range(steps):
            power = walk @ power
            returns[block, step] = power[block].diagonal()
    return torch.from_numpy(returns).to(edge_index.device)


def node_identifiers(mask: Tensor, width: int, seed: int | None = None) -> Tensor:
    """Draw orthogonal random features for the nodes of each graph.

    A graph of n nodes gets the rows of a random orthogonal n x n matrix, cut to `width` columns and rescaled to
    length 1 (Kim et al. 2022, arXiv:2207.02505, section 2). They are orthonormal if n is at most `width`.

    Args:
        mask: True on real nodes, `[graphs, N]`.
        width: the number of features.
        seed: of the draw, which then does not depend on padding or on other graphs in the batch. If None, the
            features come from torch's generator, and each graph gets its own.

    Returns:
        The features `[graphs, N, width]`, 0 where the mask is False.
    """
    graphs, nodes = mask.shape
    if seed is None:
        normal = torch.randn(graphs, nodes, width, device=mask.device)
    else:  # NumPy fills row by row, so the rows of a small graph are the first rows of a large one
        rows = np.random.default_rng(seed).standard_normal((nodes, width), np.float32)
        normal = torch.from_numpy(rows).to(mask.device).expand(graphs, -1, -1)
    real = mask.unsqueeze(-1)
    q, r = torch.linalg.qr(normal.masked_fill(~real, 0))  # the first columns of the n x n matrix, up to signs
    q = q * torch.where(r.diagonal(dim1=1, dim2=2) < 0, -1.0, 1.0).unsqueeze(1)
    identifiers = F.normalize(q.masked_fill(~real, 0), dim=-1)
    return F.pad(identifiers, (0, width - identifiers.shape[-1]))


def _adjacency(edge_index: Tensor, nodes: int) -> csr_array:
    source, target = edge_index[:, edge_index[0] != edge_index[1]].cpu().numpy()
    ends = np.concatenate([source, target]), np.concatenate([target, source])
    adjacency = csr_array((np.ones(len(ends[0])), ends), shape=(nodes, nodes))
    adjacency.sum_duplicates()
    adjacency.data[:] = 1
    return adjacency


def _smallest_pairs(adjacency: csr_array, k: int) -> list[tuple[float, NDArray[np.intp], Array]]:
    """Return at most `k` tuples of an eigenvalue, the nodes of its component, and the vector on these nodes."""
    _, component = connected_components(adjacency, directed=False)
    pairs = []
    for members in np.split(np.argsort(component, kind="stable"), np.cumsum(np.bincount(component))[:-1]):
        if len(members) > 1:
            values, vectors = _component_pairs(adjacency[members][:, members], k)
            vectors *= np.sqrt(len(members))
            pairs += [(value, members, vector) for value, vector in zip(values, vectors.T, strict=True)]
    return sorted(pairs, key=lambda pair: round(pair[0], 9))[:k]  # rounding keeps equal components in order


def _component_pairs(adjacency: csr_array, k: int) -> tuple[Array, Array]:
    """Return the non-trivial eigenpairs of a connected graph: all of them, or the `k` smallest and a few more."""
    nodes = adjacency.shape[0]
    root = np.sqrt(adjacency.sum(axis=1))
    laplacian = eye_array(nodes, format="csr") - diags_array(1 / root) @ adjacency @ diags_array(1 / root)
    if nodes <= max(DENSE_SOLVER_NODES, 4 * (k + SPARE)):
        values, vectors = np.linalg.eigh(laplacian.toarray())
        values, vectors = values[1:], vectors[:, 1:]
    else:
        values, vectors = _iterate(laplacian, root / np.linalg.norm(root), k + SPARE)
    return values, _settle(values, vectors)


def _iterate(laplacian: csr_array, trivial: Array, k: int) -> tuple[Array, Array]:
    """Return the `k` smallest non-trivial eigenpairs of a large Laplacian.

    The Lanczos method needs no factorisation, which would fill the memory on graphs without small cuts. Where it
    does not converge, the eigenvalues are tiny. Then the graph has small cuts, and a factorisation is cheap.
    """
    try:
        vectors = _largest(lambda x: 2 * x - laplacian @ x, trivial, k)
    except ArpackNoConvergence:
        vectors = _largest(splu(csc_array(laplacian + 1e-6 * eye_array(len(trivial)))).solve, trivial, k)
    values = np.einsum("nk,nk->k", vectors, laplacian @ vectors)
    order = np.argsort(values)
    return values[order], vectors[:, order]


def _largest(apply: Callable[[Array], Array], trivial: Array, k: int) -> Array:
    """Return the eigenvectors of the `k` largest eigenvalues of a symmetric map, without `trivial`.

    One Krylov space may miss copies of a multiple eigenvalue. So the search goes on in the orthogonal complement
    of the vectors found, until no larger eigenvalue is left.
    """
    nodes = len(trivial)
    start = np.sin(np.arange(1.0, nodes + 1))
    basis, values = trivial[:, None], np.empty(0)

    def deflate(x: Array) -> Array:
        return x - basis @ (basis.T @ x)

    operator = LinearOperator(
        (nodes, nodes), matvec=lambda x: deflate(apply(deflate(x.ravel()))), dtype=np.float64
    )
    while True:
        count = k if len(values) < k else 1
        new_values, vectors = eigsh(operator, count, which="LA", v0=deflate(start), ncv=2 * k + 1, maxiter=500)
        if len(values) and new_values.max() <= np.sort(values)[-k] + SAME:
            return basis[:, 1:][:, np.argsort(values)[-k:]]
        basis, values = np.concatenate([basis, vectors], axis=1), np.concatenate([values, new_values])


def _settle(values: Array, vectors: Array) -> Array:
    """Rotate each eigenspace so that its product with a reference is upper triangular with positive diagonal."""
    places = np.arange(1.0, len(vectors) + 1)[:, None]
    groups = np.split(np.arange(len(values)), np.flatnonzero(np.diff(values) > SAME) + 1)
    for group in groups:
        reference = np.sin(places * np.arange(1, len(group) + 1))
        q, r = np.linalg.qr(vectors[:, group].T @ reference)
        vectors[:, group] = vectors[:, group] @ (q * np.where(np.diagonal(r) < 0, -1, 1))
    return vectors
