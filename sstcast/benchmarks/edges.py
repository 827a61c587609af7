"""The edges of one graph: those that the lines of a user's file stand for, and their order. None are merged."""

from copy import copy
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Data

from sstcast.log import LOG


def listed_edges(index: Tensor, values: Tensor, nodes: int, directed: bool, where: Path) -> tuple[Tensor, Tensor]:
    """Return the edges that lines of a file stand for, sorted by source and target, and their values.

    Unless the graph is `directed`, the lines A,B and B,A are the same edge. Then A and B have as many edges each
    way as lines in the direction that has more of them. The k-th edge has the values of the k-th line in its
    direction, or else of the k-th line in the other direction. Print how many edges are self-loops, and how many
    repeat another.

    Args:
        index: source and target of each line, `[2, lines]`.
        values: the features and weights of each line, `[lines, columns]`.
        nodes: the number of nodes.
        directed: whether a line stands for one direction alone.
        where: the file, for the message.

    Returns:
        The edges `[2, edges]` and their values `[edges, columns]`.
    """
    if not directed:
        source, target = index
        ends, direction, lines = (source * nodes + target).unique(return_inverse=True, return_counts=True)
        order = direction.argsort(stable=True)
        first = lines.cumsum(0) - lines
        number = torch.empty_like(order)  # of a line among those of its direction
        number[order] = torch.arange(len(order)) - first[direction[order]]
        opposite = target * nodes + source
        place = torch.searchsorted(ends, opposite).clamp(max=max(len(ends) - 1, 0))
        lines_back = lines[place].where(ends[place] == opposite, 0)
        mirrored = (source != target) & (number >= lines_back)
        index = torch.cat([index, index.flip(0)[:, mirrored]], dim=1)
        values = torch.cat([values, values[mirrored]])
    order = _order(index, nodes)
    index, values = index[:, order], values[order]
    _tell(index if directed else index[:, index[0] <= index[1]], where)
    return index, values


def sorted_by_node(data: Data) -> Data:
    """Return a graph with its edges sorted by source and target. Repeated edges keep their order."""
    if not isinstance(data.edge_index, Tensor):
        return data
    order = _order(data.edge_index, data.num_nodes or 0)
    columns = {name: data[name][order] for name in ("edge_attr", "edge_weight") if data.get(name) is not None}
    return copy(data).update({"edge_index": data.edge_index[:, order], **columns})


def _order(index: Tensor, nodes: int) -> Tensor:
    return (index[0] * nodes + index[1]).argsort(stable=True)


def _tell(index: Tensor, where: Path) -> None:
    """Print the number of self-loops and of edges that repeat another, if there are any."""
    counts = {
        "self-loop": int((index[0] == index[1]).sum()),
        "repeated edge": index.shape[1] - index.unique(dim=1).shape[1],
    }
    if parts := [f"{count:,} {what}{'s' * (count > 1)}" for what, count in counts.items() if count]:
        LOG.info(f"{where}: {' and '.join(parts)}; kept")
