"""Caches the features of molecules and the positional encodings of graphs, which take long to compute."""

import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sstcast.benchmarks.packed import Graphs, compact, digest_tensors
from sstcast.graphs.positions import components_of, degrees_of, landing_probabilities, laplacian_basis
from sstcast.graphs.sparse import SparseGraph
from sstcast.log import LOG
from sstcast.progress import tracked
from sstcast.storage.artefacts import atomic, locked

FORMAT = 5  # of positional encodings
GRAPHS_AT_ONCE = 256  # graphs


def cached(path: Path, compute: Callable[[], Any]) -> Any:
    """Return the tensors and plain data in the file `path`. If it is missing or damaged, compute and write them.

    The name of the file must identify the input of `compute`.
    """
    with locked(path):
        if path.is_file():
            try:
                if zipfile.ZipFile(path).testzip() is None:  # torch.load ignores checksums
                    return torch.load(path, weights_only=True)
            except Exception:  # a damaged file can raise anything
                pass
            LOG.warning(f"{path}: damaged; computing it again")
        content = compute()
        with atomic(path) as temporary:
            torch.save(content, temporary)
    return content


def with_positions(graphs: Graphs, name: str, pairs: int, steps: int, cache: Path) -> Graphs:
    """Return the graphs with `pairs` Laplacian eigenpairs and landing probabilities of up to `steps` steps.

    Either may be 0. A file in `cache` is named after the data set and the digest of its edges.
    """
    edges = {"nodes": graphs.nodes, "edges": graphs.edges, "index": graphs.edge_index}
    stem = f"{name}-{digest_tensors(edges, FORMAT)[:12]}" if pairs or steps else ""

    def eigenpairs() -> dict[str, Tensor]:
        bases = [laplacian_basis(g.edge_index, g.batch, g.graphs, pairs) for g in _batches(graphs, "eigenvectors")]
        return {"vectors": torch.cat([v for v, _ in bases]), "values": torch.cat([v for _, v in bases])}

    def walks() -> dict[str, Tensor]:
        batches = _batches(graphs, "random walks")
        return {"walk": torch.cat([landing_probabilities(g.edge_index, len(g.batch), steps) for g in batches])}

    laplacian = cached(cache / f"{stem}-laplacian-{pairs}.pt", eigenpairs) if pairs else {}
    if pairs:  # in no file, as they take no time
        numbers, degrees = zip(
            *(
                (components_of(g.edge_index, g.batch, g.graphs), degrees_of(g.edge_index, len(g.batch)))
                for g in _batches(graphs, "components")
            ),
            strict=True,
        )
        laplacian |= {"components": compact(torch.cat(numbers)), "degrees": compact(torch.cat(degrees))}
    return replace(graphs, **laplacian, **(cached(cache / f"{stem}-walk-{steps}.pt", walks) if steps else {}))


def _batches(graphs: Graphs, description: str) -> Iterator[SparseGraph]:
    blocks = torch.arange(len(graphs)).split(GRAPHS_AT_ONCE)
    return (graphs.batch(index).graph for index in tracked(blocks, description))
