"""What a ridge sees of each day, and sums of products of days, from which its normal equations follow.

Windows that start a few days apart share most of their days. So box means are taken of days and not of windows,
and the product of two days, which is one of many windows, is computed once.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from sstcast.graphs.grid import GridGraph
from sstcast.models.sums import Sums

DAYS_AT_ONCE = 28  # whose products with the days that follow are one matrix product
VALUES_AT_ONCE = 2**22  # of days whose box means are taken together


def daily(windows: Any, boxes: tuple[int, ...]) -> Tensor:
    """Return the windows' days and the means over boxes around cells, `[T, 1 + boxes, tiles * N]`, 0 on land."""
    height, width = windows.shape
    graph = GridGraph(height, width, windows.ocean)
    values = windows.values * windows.ocean
    fields = values.new_empty(len(values), 1 + len(boxes), windows.ocean.numel())
    fields[:, 0] = values.flatten(1)
    at_once = max(1, VALUES_AT_ONCE // windows.ocean.numel())
    for part, days in zip(fields.split(at_once), values.split(at_once), strict=True):
        for number, size in enumerate(boxes, 1):
            part[:, number] = box_means(days.permute(1, 2, 0), graph, size).flatten(0, 1).T
    return fields


def lagged_sums(windows: Any, boxes: tuple[int, ...]) -> Sums:
    """Return the sums for the normal equations of windows, whose inputs are those of `linear.Ridge`."""
    history, length, starts = windows.history, windows.history + windows.horizon, windows.starts
    fields = daily(windows, boxes)
    # products[i, d, f, g]: of field f on day i of a window and field g, d days later, over windows and cells
    products = torch.stack(list(_over_windows(fields, length, windows.every, starts)))
    size, count = fields.shape[1] * history, int(windows.ocean.sum())
    day = torch.arange(history)
    first, apart = torch.minimum(day[:, None], day), (day[:, None] - day).abs()
    gram = products[first, apart]
    gram = torch.where((day[:, None] <= day)[..., None, None], gram, gram.transpose(2, 3))
    later = torch.arange(history, length) - day[:, None]
    total = torch.stack([of_day.sum(1, dtype=torch.float64) for of_day in fields])  # of all, a copy would be made
    total = torch.stack([total[i :: windows.every][:starts].sum(0) for i in range(length)])  # [day, field]
    sums = Sums(size + 1, windows.horizon)
    sums.gram[:size, :size] = gram.permute(2, 0, 3, 1).reshape(size, size)
    sums.gram[size, :size] = sums.gram[:size, size] = total[:history].T.flatten()
    sums.gram[size, size] = starts * count
    sums.cross[:size] = products[day[:, None], later, :, 0].permute(2, 0, 1).reshape(size, -1)
    sums.cross[size] = total[history:, 0]
    sums.squares += products[history:, 0, 0, 0]
    return sums


def _over_windows(fields: Tensor, length: int, every: int, starts: int) -> Iterator[Tensor]:
    """Yield, for each day of a window, the sums `[days later, field, field]` over windows."""
    count = fields.shape[1]
    rows = every * max(1, DAYS_AT_ONCE // every)
    reach = rows + length - 1
    days = -(-((starts - 1) * every + length) // rows) * rows
    total = torch.zeros(-(-length // every), every, length, count, count, dtype=torch.float64)
    for day in range(0, days, rows):
        seen = fields[day : day + reach].flatten(0, 1)
        product = fields.new_zeros(rows * count, reach * count)  # with days after the last one
        product[: len(seen), : len(seen)] = seen[: rows * count] @ seen.T
        row = count * reach * count
        band = product.as_strided(
            (rows // every, every, length, count, count),
            (every * (row + count), row + count, count, reach * count, 1),
        )
        known: dict[tuple[int, int], Tensor] = {}
        for step in range(len(total)):  # of the windows of which a day is one of days step * every ..
            ends = max(0, step - day // every), min(rows // every, starts + step - day // every)
            if ends[0] < ends[1]:
                if ends not in known:
                    known[ends] = band[slice(*ends)].sum(0, dtype=torch.float64)
                total[step] += known[ends]
    yield from total.flatten(0, 1)[:length]


def box_means(history: Tensor, graph: GridGraph, size: int) -> Tensor:
    """Average `history [B, N, T]`, 0 on land, over the ocean of boxes of `size` x `size` cells around each node.

    Boxes end at the tile's edge; a `size` of 0 is the whole tile. The mean is 0 on land.
    """
    shape, ocean = (graph.height, graph.width), graph.mask.unsqueeze(-1).to(history.dtype)
    if size == 0:
        return (history.sum(1) / ocean.sum(1).clamp(min=1)).unsqueeze(1) * ocean
    sums, counts = (_box_sums(x.unflatten(1, shape), size).flatten(1, 2) for x in (history, ocean))
    return sums * (ocean / counts.clamp(min=1))


def _box_sums(field: Tensor, size: int) -> Tensor:
    """Sum `[B, H, W, T]` over boxes: differences of cumulative sums, so the cost does not depend on the size."""
    reach = size // 2
    for dim in (1, 2):
        total, cells = field.cumsum(dim), field.shape[dim]
        inner = max(cells - reach, 0)
        field = total.narrow(dim, cells - 1, 1).repeat_interleave(cells, dim)
        field.narrow(dim, 0, inner).copy_(total.narrow(dim, cells - inner, inner))
        beyond = max(inner - 1, 0)
        field.narrow(dim, cells - beyond, beyond).sub_(total.narrow(dim, 0, beyond))
    return field
