"""Finds graphs that occur several times, so that a drawn split keeps them in one part."""

import hashlib
import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor

from sstcast.benchmarks.cache import cached
from sstcast.benchmarks.objectives import Objective
from sstcast.benchmarks.packed import GraphBatch, Graphs
from sstcast.progress import tracked

ROUNDS = 6  # of colour refinement; graphs that differ only further away count as equal
NUMBERS_AT_ONCE = 3 * 10**7
INCREMENT = -7046029254386353131  # an odd number of 64 bits, by which a value of 0 has another hash than 0
MULTIPLIERS = -49064778989728563, -4265267296055464877  # odd numbers of 64 bits, which spread all bits


def equal_graphs(graphs: Graphs, smiles: object, cache: Path) -> Tensor:
    """Return the number of the group of each graph, `[graphs]`. Groups are numbered as they first occur.

    Molecules given as a list `smiles` are equal if their canonical SMILES are, which a file in `cache` keeps.
    Other graphs are equal if their nodes have the same Weisfeiler-Lehman colours (Shervashidze et al. 2011), which
    begin with the bits of their features. Some graphs that differ have the same colours.
    """
    if isinstance(smiles, list) and find_spec("rdkit") is not None:
        digest = hashlib.sha256(json.dumps(smiles).encode()).hexdigest()[:12]
        keys = cached(cache / f"canonical-smiles-{digest}.pt", lambda: _canonical(smiles))
    else:
        numbers = sum(table.numel() for table in graphs.tensors().values())
        blocks = torch.arange(len(graphs)).tensor_split(numbers // NUMBERS_AT_ONCE + 1)
        keys = torch.cat([_colours(graphs.batch(block)) for block in blocks]).tolist()
    return torch.from_numpy(pd.factorize(pd.Series(keys))[0])


def repeats_line(graphs: Graphs, groups: Tensor, objective: type[Objective]) -> str:
    """Return how many graphs equal another, and how many of these have another label. Return "" if none does."""
    repeated = groups.bincount()[groups] > 1
    rows = {"node": graphs.nodes, "pair": graphs.pair_counts}.get(graphs.level)
    labels = graphs.y.reshape(len(graphs.y), -1).double()
    if rows is None:
        table = pd.DataFrame(labels.where(objective.known(labels), torch.nan).numpy())
    else:  # the labels of a graph in any order
        owner = torch.arange(len(graphs)).repeat_interleave(rows)
        table = pd.DataFrame(torch.zeros_like(groups).index_add_(0, owner, hash_rows(labels)).numpy())
    differ = (table.groupby(groups.numpy()).nunique() > 1).any(axis=1)[groups.numpy()]
    equal = f"{int(repeated.sum()):,} of {len(graphs):,} graphs equal another"
    return f"{equal}, {int(differ.sum()):,} of them with another label" if repeated.any() else ""


def _canonical(smiles: Sequence[str]) -> list[str]:
    """Return canonical SMILES. A text that cannot be parsed stays as it is."""
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        molecules = map(Chem.MolFromSmiles, tracked(smiles, "canonical SMILES"))
        return [(m and Chem.MolToSmiles(m)) or text for m, text in zip(molecules, smiles, strict=True)]


def _colours(batch: GraphBatch) -> Tensor:
    """Return a hash of each graph's colours, `[graphs]`. Sums of hashes stand for multisets."""
    source, target = batch.graph.edge_index
    graph_of, colours = batch.graph.batch, torch.zeros_like(batch.graph.batch)
    if batch.x is not None:
        colours = hash_rows(batch.x)
    tables = [*([] if batch.edge_attr is None else [batch.edge_attr]), *(batch.graph.edge_weight or [])]
    edges = torch.zeros_like(source)
    for table in tables:
        edges = mix(edges + hash_rows(table))  # in turn, so that no two tables may change places
    for _ in range(ROUNDS):  # only what a node receives is mixed, so that its own colour stays apart
        received = torch.zeros_like(colours).index_add_(0, target, mix(colours[source] + edges))
        colours = mix(colours + received)
    return colours.new_zeros(batch.graph.graphs).index_add_(0, graph_of, mix(colours))


def hash_rows(table: Tensor) -> Tensor:
    """Return a hash of the bits of each row, `[rows]`."""
    integers = {torch.float32: torch.int32, torch.float64: torch.int64}.get(table.dtype, table.dtype)
    factors = mix(torch.arange(table.shape[1])) | 1
    return mix((mix(table.contiguous().view(integers).long()) * factors).sum(1))


def mix(values: Tensor) -> Tensor:
    values = values + INCREMENT
    for multiplier in MULTIPLIERS:
        values = (values ^ (values >> 31)) * multiplier
    return values ^ (values >> 29)
