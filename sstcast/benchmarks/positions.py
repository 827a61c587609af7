"""Positional encodings of the nodes of whole data sets, computed once and cached."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich import get_console
from rich.progress import track
from torch import Tensor

from sstcast.benchmarks.load import cached, digest_tensors
from sstcast.benchmarks.packed import Graphs
from sstcast.graphs.positions import landing_probabilities, laplacian_basis
from sstcast.graphs.sparse import SparseGraph
from sstcast.progress import hides_progress

FORMAT = 5
AT_ONCE = 256  # graphs
QUICK = 2000  # graphs for which no bar is shown


def with_positions(graphs: Graphs, name: str, pairs: int, steps: int, cache: Path) -> Graphs:
    """Return the graphs with `pairs` Laplacian eigenpairs and landing probabilities of up to `steps` steps.

    Either may be 0. Results are kept in `cache`, under the digest of the edges.
    """
    found: dict[str, Any] = {}
    if pairs or steps:
        edges = {"nodes": graphs.nodes, "edges": graphs.edges, "index": graphs.edge_index}
        stem = f"{name}-{digest_tensors(edges, FORMAT)[:12]}"

    def eigenpairs() -> dict[str, Tensor]:
        parts = [laplacian_basis(g.edge_index, g.batch, g.graphs, pairs) for g in _some(graphs, "eigenvectors")]
        return {"vectors": torch.cat([v for v, _ in parts]), "values": torch.cat([v for _, v in parts])}

    def walks() -> dict[str, Tensor]:
        some = _some(graphs, "random walks")
        return {"walk": torch.cat([landing_probabilities(g.edge_index, len(g.batch), steps) for g in some])}

    if pairs:
        found |= cached(cache / f"{stem}-laplacian-{pairs}.pt", eigenpairs)
    if steps:
        found |= cached(cache / f"{stem}-walk-{steps}.pt", walks)
    return replace(graphs, **found)


def _some(graphs: Graphs, what: str) -> Iterator[SparseGraph]:
    parts = torch.arange(len(graphs)).split(AT_ONCE)
    for index in track(parts, what, transient=True, disable=len(graphs) < QUICK or hides_progress(get_console())):
        yield graphs.batch(index).graph
