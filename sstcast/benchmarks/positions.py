"""Positional encodings of the nodes of whole data sets, computed once and cached."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich import get_console
from rich.progress import track
from torch import Tensor

from sstcast.benchmarks.cache import cached
from sstcast.benchmarks.packed import Graphs
from sstcast.graphs.positions import landing_probabilities, laplacian_basis
from sstcast.graphs.sparse import SparseGraph
from sstcast.progress import hides_progress

FORMAT = b"4"
AT_ONCE = 256  # graphs
QUICK = 2000  # graphs for which no bar is shown


def with_positions(graphs: Graphs, name: str, pairs: int, steps: int, cache: Path) -> Graphs:
    """Return the graphs with `pairs` Laplacian eigenpairs and landing probabilities of up to `steps` steps.

    Either may be 0. Results are kept in `cache`, under the digest of the edges.
    """
    content = hashlib.sha256(FORMAT)
    for tensor in (graphs.nodes, graphs.edges, graphs.edge_index) if pairs or steps else ():
        content.update(tensor.numpy().tobytes())
    stem = f"{name}-{content.hexdigest()[:12]}"

    def eigenpairs() -> tuple[dict[str, Tensor], Any]:
        some = _some(graphs, "eigenvectors")
        parts = [laplacian_basis(g.edge_index, g.batch, g.graphs, pairs) for g in some]
        return {"vectors": torch.cat([v for v, _ in parts]), "values": torch.cat([v for _, v in parts])}, None

    def walks() -> tuple[dict[str, Tensor], Any]:
        some = _some(graphs, "random walks")
        return {"walk": torch.cat([landing_probabilities(g.edge_index, len(g.batch), steps) for g in some])}, None

    found: dict[str, Any] = {}
    if pairs:
        found |= cached(cache / f"{stem}-laplacian-{pairs}.pt", eigenpairs)[0]
    if steps:
        found |= cached(cache / f"{stem}-walk-{steps}.pt", walks)[0]
    return replace(graphs, **found)


def _some(graphs: Graphs, what: str) -> Iterator[SparseGraph]:
    parts = torch.arange(len(graphs)).split(AT_ONCE)
    for index in track(parts, what, transient=True, disable=len(graphs) < QUICK or hides_progress(get_console())):
        yield graphs.batch(index).graph
