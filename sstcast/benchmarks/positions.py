"""Positions of nodes for whole data sets, computed once and kept."""

import hashlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import torch
from rich.progress import Progress
from torch import Tensor

from sstcast.benchmarks.digests import digest_tensors
from sstcast.benchmarks.packed import Graphs
from sstcast.files import alone, atomic
from sstcast.graphs.positions import landing_probabilities, laplacian_basis
from sstcast.graphs.sparse import SparseGraph

FORMAT = b"2"
AT_ONCE = 256  # graphs
QUICK = 2000  # graphs for which no bar is shown


def with_positions(graphs: Graphs, name: str, pairs: int, steps: int, cache: Path) -> Graphs:
    """Return the graphs with `pairs` Laplacian eigenpairs and the returns of walks of up to `steps` steps.

    Either may be 0. What was computed is kept in `cache`, under the digest of the edges.
    """
    if not pairs and not steps:
        return graphs
    content = hashlib.sha256(FORMAT)
    for tensor in (graphs.nodes, graphs.edges, graphs.edge_index):
        content.update(tensor.numpy().tobytes())
    stem = f"{name}-{content.hexdigest()[:12]}"
    if pairs:
        parts = _cached(cache / f"{stem}-laplacian-{pairs}.pt", lambda: _eigenpairs(graphs, pairs))
        graphs = replace(graphs, vectors=parts[0], values=parts[1])
    if steps:
        parts = _cached(cache / f"{stem}-walk-{steps}.pt", lambda: _walks(graphs, steps))
        graphs = replace(graphs, walk=parts[0])
    return graphs


def _eigenpairs(graphs: Graphs, pairs: int) -> list[Tensor]:
    parts = [laplacian_basis(g.edge_index, g.batch, g.graphs, pairs) for g in _some(graphs, "eigenvectors")]
    return [torch.cat([vectors for vectors, _ in parts]), torch.cat([values for _, values in parts])]


def _walks(graphs: Graphs, steps: int) -> list[Tensor]:
    found = [landing_probabilities(g.edge_index, len(g.batch), steps) for g in _some(graphs, "random walks")]
    return [torch.cat(found)]


def _some(graphs: Graphs, what: str) -> Iterator[SparseGraph]:
    with Progress(transient=True, disable=len(graphs) < QUICK) as bar:
        for index in bar.track(torch.arange(len(graphs)).split(AT_ONCE), description=what):
            yield graphs.batch(index).graph


def _cached(path: Path, compute: Callable[[], list[Tensor]]) -> list[Tensor]:
    parts = _restore(path)
    if parts is None:
        if path.exists():
            print(f"{path}: damaged; it is computed anew", file=sys.stderr)
        with alone(path):
            parts = _restore(path)  # computed while this one waited?
            if parts is None:
                parts = compute()
                with atomic(path) as temporary:
                    torch.save({"parts": parts, "digest": _digest(path, parts)}, temporary)
    return parts


def _restore(path: Path) -> list[Tensor] | None:
    """Return what was computed before; None if there is nothing, or if it is not what it was."""
    try:
        state = torch.load(path, weights_only=True)
        parts: list[Tensor] = state["parts"]
        return parts if state["digest"] == _digest(path, parts) else None
    except Exception:  # a damaged file can raise anything
        return None


def _digest(path: Path, parts: list[Tensor]) -> str:
    return digest_tensors({str(i): part for i, part in enumerate(parts)}, path.name)
