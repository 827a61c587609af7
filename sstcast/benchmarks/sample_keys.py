"""Keys of samples, by which a run recognises those that other weights have learnt."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from sstcast.benchmarks.equal_graphs import NUMBERS_AT_ONCE, hash_rows, mix
from sstcast.benchmarks.packed import Graphs, digest_tensors

LABEL_BITS = 24  # of the 64 of a key; the others are of the graph
LABELS = {"y", "pairs", "pair_counts"}


def sample_keys(graphs: Graphs) -> Tensor:
    """Return a key of each graph, or of each node of a single one, `[samples]`.

    The last bits are those of its labels. The others are those of the graph as read, with features and order of
    its nodes and edges, and of the number of the node.
    """
    if not graphs.transductive:
        return torch.cat([_keys_of(part) for part in _blocks(graphs)])
    tensors = {name: value for name, value in graphs.tensors().items() if name not in LABELS}
    whole = int.from_bytes(bytes.fromhex(digest_tensors(tensors, None))[:8], "little", signed=True)
    return _joined(whole + mix(torch.arange(int(graphs.nodes))), hash_rows(_table(graphs.y)))


def without_labels(keys: Tensor) -> Tensor:
    """Return the parts of keys that do not depend on labels."""
    return keys >> LABEL_BITS


def _keys_of(graphs: Graphs) -> Tensor:
    tables = [graphs.x, graphs.edge_index.T, graphs.edge_attr, graphs.edge_weight]
    inputs = mix(graphs.nodes.long())
    for number, table in enumerate(tables):
        inputs = mix(inputs)  # in turn, so that no two tables may change places
        if table is not None:
            inputs = inputs + _sums(table, graphs.edges if number else graphs.nodes)
    labels = torch.zeros_like(inputs)
    if graphs.pairs is not None and graphs.pair_counts is not None:
        labels = mix(_sums(graphs.pairs.T, graphs.pair_counts))
    return _joined(inputs, labels + _sums(graphs.y, _rows_of_labels(graphs)))


def _joined(inputs: Tensor, labels: Tensor) -> Tensor:
    return mix(inputs) >> LABEL_BITS << LABEL_BITS | mix(labels) & (1 << LABEL_BITS) - 1


def _sums(table: Tensor, counts: Tensor) -> Tensor:
    """Return a hash of the rows of each graph in their order, `[graphs]`."""
    owner = torch.arange(len(counts)).repeat_interleave(counts)
    place = torch.arange(len(owner)) - (counts.cumsum(0) - counts)[owner]
    rows = mix(hash_rows(_table(table)) + mix(place))
    return torch.zeros(len(counts), dtype=torch.long).index_add_(0, owner, rows)


def _table(values: Tensor) -> Tensor:
    return values.flatten(1) if values.ndim > 1 else values.unsqueeze(1)


def _rows_of_labels(graphs: Graphs) -> Tensor:
    counts = {"node": graphs.nodes, "pair": graphs.pair_counts}.get(graphs.level)
    return torch.ones_like(graphs.nodes) if counts is None else counts


def _blocks(graphs: Graphs) -> Iterator[Graphs]:
    """Yield the graphs in parts of `NUMBERS_AT_ONCE` numbers or so."""
    numbers = sum(table.numel() for table in graphs.tensors().values())
    blocks = torch.arange(len(graphs)).tensor_split(numbers // NUMBERS_AT_ONCE + 1)
    sizes = [len(block) for block in blocks if len(block)]
    rows = {
        "x": graphs.nodes,
        "edge_attr": graphs.edges,
        "edge_weight": graphs.edges,
        "y": _rows_of_labels(graphs),
    }
    columns = {"edge_index": graphs.edges, "pairs": graphs.pair_counts}
    tensors, parts = graphs.tensors(), {}
    for name, counts in {"nodes": None, "edges": None, "pair_counts": None, **rows, **columns}.items():
        if name in tensors:
            ends = sizes if counts is None else [int(part.sum()) for part in counts.split(sizes)]
            parts[name] = tensors[name].split(ends, dim=1 if name in columns else 0)
    for number in range(len(sizes)):
        yield replace(graphs, **{name: part[number] for name, part in parts.items()})
