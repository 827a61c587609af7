"""The inputs of a ridge and its normal equations, which are sums of products of days.

Windows that start a few days apart share most of their days. So each box mean is computed once for a day, and each
product once for a pair of days, whatever the number of windows that contain them.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from sstcast.graphs.grid import GridGraph
from sstcast.models.registry import MEMORY_DAYS
from sstcast.progress import tracked

OUTPUTS_AT_ONCE = 2**15  # outputs per block of the normal equations: more take memory but save no time
DAYS_AT_ONCE = 28  # days per matrix product with the days that follow
VALUES_AT_ONCE = 2**22  # values per block of box means
DATES_AT_ONCE = 1024  # initial dates whose shares of all days in their memory are in one matrix
PERIODS = ((42, 90), (90, 180), (180, MEMORY_DAYS))  # of the memory, [from, to) days before the initial date
BOX_CELLS = (1, 7, 15, 0)  # sides of the boxes over which the memory is averaged, in cells, 0 for the whole tile
LAGS = (0, 3, 7, 14, 28)  # of the stencil, in days before the initial date
OFFSETS = tuple((n * row, n * col) for n in (2, 4) for row, col in ((-1, 0), (1, 0), (0, 1), (0, -1)))


class Sums:
    """The sums in the normal equations: products of inputs with each other and with the targets, over all rows."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self.gram = torch.zeros(inputs, inputs, dtype=torch.float64)
        self.cross = torch.zeros(inputs, outputs, dtype=torch.float64)
        self.squares = torch.zeros(outputs, dtype=torch.float64)

    def add(self, x: Tensor, y: Tensor) -> None:
        """Add rows `x [n, inputs]` and `y [n, outputs]`."""
        self.gram += x.T @ x
        for columns, part in self.parts():
            part.cross += x.T @ y[:, columns]
        self.squares += y.square().sum(0, dtype=torch.float64)

    def __add__(self, other: "Sums") -> "Sums":
        return self._combined(other, 1)

    def __sub__(self, other: "Sums") -> "Sums":
        return self._combined(other, -1)

    def _combined(self, other: "Sums", sign: int) -> "Sums":
        total = copy(self)
        for name in ("gram", "cross", "squares"):
            setattr(total, name, getattr(self, name) + sign * getattr(other, name))
        return total

    def parts(self) -> Iterator[tuple[slice, "Sums"]]:
        """Yield the sums for `OUTPUTS_AT_ONCE` outputs at a time, each with the slice of its outputs."""
        for first in range(0, self.cross.shape[1], OUTPUTS_AT_ONCE):
            columns = slice(first, first + OUTPUTS_AT_ONCE)
            part = copy(self)
            part.cross, part.squares = self.cross[:, columns], self.squares[columns]
            yield columns, part

    def solve(self, penalty: float | Tensor) -> Tensor:
        """Return the ridge weights `[inputs, outputs]`.

        The penalty, a number or one for each input, `[inputs - 1]`, applies to all inputs except the last.
        """
        diagonal = torch.zeros(len(self.gram), dtype=torch.float64)
        diagonal[:-1] = penalty
        return torch.linalg.solve(self.gram + diagonal.diag(), self.cross)

    def error(self, weight: Tensor) -> Tensor:
        """Return the summed squared error `[outputs]` of `weight` on these rows."""
        return self.squares - (weight * (2 * self.cross - self.gram @ weight)).sum(0)


def cross_validate(blocks: Sequence[Sums], penalties: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Choose penalties by cross-validation, for each output its own, and fit to all blocks.

    Args:
        blocks: the sums of each block of rows. If there is only one, the first penalties are chosen.
        penalties: the candidates, each as `Sums.solve` takes it.

    Returns:
        The weights `[inputs, outputs]`, and the index of the chosen candidate for each output, `[outputs]`.
    """
    total = reduce(add, blocks)
    errors = torch.zeros(len(penalties), total.cross.shape[1], dtype=torch.float64)
    for block in tracked(blocks if len(blocks) > 1 else [], "choosing penalties"):
        train_sums = total - block
        errors += torch.stack([block.error(train_sums.solve(penalty)) for penalty in penalties])
    best = errors.argmin(0)
    weight = torch.empty_like(total.cross)
    for choice in best.unique().tolist():
        weight[:, best == choice] = total.solve(penalties[choice])[:, best == choice]
    return weight, best


@dataclass(frozen=True)
class Inputs:
    """The inputs of a ridge at an initial date, in groups.

    The first group is the history of the cell and of means over boxes around it. The other groups are optional.

    Args:
        boxes: sides of these boxes, in cells, 0 for the whole tile.
        memory: whether to read means over three periods of the last year, in the cell and boxes around it.
        stencil: whether to read 3 x 3 means on five days, two and four cells to the north, south, east and west.
    """

    boxes: tuple[int, ...] = ()
    memory: bool = False
    stencil: bool = False

    def groups(self, history: int) -> dict[str, int]:
        """Return the number of inputs in each group, in order."""
        lags = [lag for lag in LAGS if lag < history]
        return {
            "history": (1 + len(self.boxes)) * history,
            "memory": len(BOX_CELLS) * len(PERIODS) * self.memory,
            "stencil": len(OFFSETS) * len(lags) * self.stencil,
        }

    def further(self, windows: Any, fields: Tensor) -> Tensor:
        """Return memory and stencil at the initial dates of windows, `[starts, inputs, tiles * N]`, 0 on land.

        `fields` is the result of `daily` for these windows. Without days before the windows, the memory is 0.
        """
        height, width = windows.shape
        graph, starts = GridGraph(height, width, windows.ocean, windows.wrap), windows.starts
        inputs = []
        if self.memory:
            means = _period_means(windows).unflatten(1, windows.ocean.shape).permute(1, 2, 0)
            box_averages = [box_means(means, graph, size) if size != 1 else means for size in BOX_CELLS]
            inputs += [field.permute(2, 0, 1).reshape(starts, len(PERIODS), -1) for field in box_averages]
        if self.stencil:
            last, box = windows.history - 1, 1 + self.boxes.index(3)
            lags = [lag for lag in LAGS if lag <= last]
            days = torch.stack([fields[last - lag :: windows.every, box][:starts] for lag in lags], 1)
            maps = days.unflatten(-1, (-1, *windows.shape))
            inputs += [
                shifted(maps, *offset, windows.wrap).flatten(2) * windows.ocean.flatten() for offset in OFFSETS
            ]
        return torch.cat(inputs, 1)

    def further_of(self, past: Tensor, graph: GridGraph, history: int) -> Tensor:
        """Return memory and stencil at the end of `past [B, N, days]`, `[B, N, inputs]`, 0 on land.

        The stencil reads only the last `history` days. The memory is 0 if `past` is too short for it.
        """
        ocean, count, inputs = graph.mask.unsqueeze(-1).to(past.dtype), past.shape[-1], []
        if self.memory:
            means = past.new_zeros(*past.shape[:-1], len(PERIODS))
            if count >= MEMORY_DAYS:
                means = torch.stack([past[..., count - b : count - a].mean(-1) for a, b in PERIODS], -1)
            inputs += [box_means(means, graph, size) if size != 1 else means for size in BOX_CELLS]
        if self.stencil:
            lagged = torch.stack([past[..., -1 - lag] for lag in LAGS if lag < history], -1)
            days = box_means(lagged, graph, 3)
            maps = days.movedim(-1, 1).unflatten(-1, (graph.height, graph.width))
            inputs += [shifted(maps, *offset, graph.wrap).flatten(2).movedim(1, -1) * ocean for offset in OFFSETS]
        return torch.cat(inputs, -1)


def means_count(history: int, boxes: tuple[int, ...], memory: bool) -> int:
    """Return the number of inputs that `lagged_means` gives."""
    return (1 + len(boxes)) * (len([lag for lag in LAGS if lag < history]) + len(PERIODS) * memory)


def lagged_means(windows: Any, values: Tensor, boxes: tuple[int, ...], memory: bool) -> Tensor:
    """Return means of a field around the cell, in boxes, on the days of the stencil's `LAGS`.

    With `memory`, means over `PERIODS` follow. The field `values [T, tile, N]` is on the days of the windows.
    Returns `[starts, inputs, tiles * N]`, 0 on land.
    """
    windows = replace(windows, values=values)
    last, every, starts = windows.history - 1, windows.every, windows.starts
    fields = daily(windows, boxes)
    inputs = [fields[last - lag :: every][:starts] for lag in LAGS if lag <= last]
    if memory:
        means = _period_means(windows).unflatten(1, windows.ocean.shape).permute(1, 2, 0)
        height, width = windows.shape
        graph = GridGraph(height, width, windows.ocean, windows.wrap)
        averages = [means, *(box_means(means, graph, size) for size in boxes)]
        inputs += [field.permute(2, 0, 1).reshape(starts, len(PERIODS), -1) for field in averages]
    return torch.cat(inputs, 1)


def lagged_means_of(past: Tensor, graph: GridGraph, history: int, boxes: tuple[int, ...], memory: bool) -> Tensor:
    """Return the means of `lagged_means` at the end of `past [B, N, days]`, 0 on land, `[B, N, inputs]`."""
    count, lags = past.shape[-1], [lag for lag in LAGS if lag < history]
    days = torch.stack([past[..., -1 - lag] for lag in lags], -1)
    fields = torch.stack([days, *(box_means(days, graph, size) for size in boxes)], -1)
    inputs = [fields.flatten(-2)]
    if memory:
        means = past.new_zeros(*past.shape[:-1], len(PERIODS))
        if count >= MEMORY_DAYS:
            means = torch.stack([past[..., count - b : count - a].mean(-1) for a, b in PERIODS], -1)
        inputs += [means, *(box_means(means, graph, size) for size in boxes)]
    return torch.cat(inputs, -1)


def shifted(field: Tensor, rows: int, cols: int, wrap: bool = False) -> Tensor:
    """Return, for each cell of `field [..., H, W]`, the value `rows` rows and `cols` columns further on, 0 outside
    the tile.

    With `wrap`, the first column follows the last.
    """
    height, width = field.shape[-2:]
    if wrap:
        field, cols = field.roll(-cols, -1), 0
    wide = functional.pad(field, (abs(cols), abs(cols), abs(rows), abs(rows)))
    return wide.narrow(-2, abs(rows) + rows, height).narrow(-1, abs(cols) + cols, width)


def _period_means(windows: Any) -> Tensor:
    """Return the means over `PERIODS` before the initial dates of windows, `[starts * periods, tiles * N]`."""
    values = (windows.values * windows.ocean).flatten(1)
    if windows.before + windows.history < MEMORY_DAYS:
        return values.new_zeros(windows.starts * len(PERIODS), values.shape[1])
    means = []
    dates = windows.before + windows.history - 1 + windows.every * torch.arange(windows.starts)
    for today in dates.split(DATES_AT_ONCE):
        first, last = 0, len(values) - 1
        if len(dates) > DATES_AT_ONCE:  # a matrix of all dates and days would not fit in memory
            first, last = int(today[0]) + 1 - MEMORY_DAYS, int(today[-1])
        ago = today[:, None] - torch.arange(first, last + 1)
        weights = torch.stack([((ago >= a) & (ago < b)) / (b - a) for a, b in PERIODS], 1)
        means.append(weights.flatten(0, 1).to(values) @ values[first : last + 1])
    return torch.cat(means)


def daily(windows: Any, boxes: tuple[int, ...]) -> Tensor:
    """Return all days of the windows and their box means, `[T, 1 + boxes, tiles * N]`, 0 on land."""
    height, width = windows.shape
    graph = GridGraph(height, width, windows.ocean, windows.wrap)
    values = windows.values[windows.before :] * windows.ocean
    fields = values.new_empty(len(values), 1 + len(boxes), windows.ocean.numel())
    fields[:, 0] = values.flatten(1)
    at_once = max(1, VALUES_AT_ONCE // windows.ocean.numel())
    for part, days in zip(fields.split(at_once), values.split(at_once), strict=True):
        for number, size in enumerate(boxes, 1):
            part[:, number] = box_means(days.permute(1, 2, 0), graph, size).flatten(0, 1).T
    return fields


def lagged_sums(windows: Any, inputs: Inputs) -> Sums:
    """Return the sums in the normal equations of windows, whose inputs are the groups of `inputs`, then 1."""
    history, length, starts = windows.history, windows.history + windows.horizon, windows.starts
    fields = daily(windows, inputs.boxes)
    # products[i, d, f, g]: of field f on day i of a window and field g, d days later, over windows and cells
    products = torch.stack(list(_over_windows(fields, length, windows.every, starts)))
    size, count = fields.shape[1] * history, int(windows.ocean.sum())
    day = torch.arange(history)
    first, input_lags = torch.minimum(day[:, None], day), (day[:, None] - day).abs()
    gram = products[first, input_lags]
    gram = torch.where((day[:, None] <= day)[..., None, None], gram, gram.transpose(2, 3))
    target_lags = torch.arange(history, length) - day[:, None]
    # A single sum would copy all fields.
    total = torch.stack([day_fields.sum(1, dtype=torch.float64) for day_fields in fields])
    total = torch.stack([total[i :: windows.every][:starts].sum(0) for i in range(length)])  # [day, field]
    sums = Sums(sum(inputs.groups(history).values()) + 1, windows.horizon)
    sums.gram[:size, :size] = gram.permute(2, 0, 3, 1).reshape(size, size)
    sums.gram[-1, :size] = sums.gram[:size, -1] = total[:history].T.flatten()
    sums.gram[-1, -1] = starts * count
    sums.cross[:size] = products[day[:, None], target_lags, :, 0].permute(2, 0, 1).reshape(size, -1)
    sums.cross[-1] = total[history:, 0]
    sums.squares += products[history:, 0, 0, 0]
    if len(sums.gram) > size + 1:
        _add_further(sums, inputs.further(windows, fields), fields, windows)
    return sums


def _add_further(sums: Sums, further: Tensor, fields: Tensor, windows: Any) -> None:
    """Add the products of `further [starts, inputs, cells]` with each other and with all fields."""
    history, count, size = windows.history, fields.shape[1], windows.history * fields.shape[1]
    block = slice(size, -1)
    for start, x in enumerate(further):
        first = start * windows.every
        window_fields = fields[first : first + history + windows.horizon].flatten(0, 1)
        products = (x @ window_fields.T).unflatten(1, (-1, count))  # [input, day, field]
        sums.gram[block, :size] += products[:, :history].transpose(1, 2).flatten(1)
        sums.gram[block, block] += x @ x.T
        sums.gram[block, -1] += x.sum(1)
        sums.cross[block] += products[:, history:, 0]
    sums.gram[:size, block] = sums.gram[block, :size].T
    sums.gram[-1, block] = sums.gram[block, -1]


def _over_windows(fields: Tensor, length: int, every: int, starts: int) -> Iterator[Tensor]:
    """Yield for each day of a window its products with the days from it on, `[days later, field, field]`.

    The products are summed over all windows and cells.
    """
    count = fields.shape[1]
    chunk_days = every * max(1, DAYS_AT_ONCE // every)
    reach = chunk_days + length - 1
    days = -(-((starts - 1) * every + length) // chunk_days) * chunk_days
    total = torch.zeros(-(-length // every), every, length, count, count, dtype=torch.float64)
    for day in range(0, days, chunk_days):
        chunk = fields[day : day + reach].flatten(0, 1)
        product = fields.new_zeros(chunk_days * count, reach * count)  # 0 for days after the last one
        product[: len(chunk), : len(chunk)] = chunk[: chunk_days * count] @ chunk.T
        row_stride = count * reach * count
        band = product.as_strided(
            (chunk_days // every, every, length, count, count),
            (every * (row_stride + count), row_stride + count, count, reach * count, 1),
        )
        band_sums: dict[tuple[int, int], Tensor] = {}
        for step in range(len(total)):  # the windows in which these days are days step * every, ... of the window
            ends = max(0, step - day // every), min(chunk_days // every, starts + step - day // every)
            if ends[0] < ends[1]:
                if ends not in band_sums:
                    band_sums[ends] = band[slice(*ends)].sum(0, dtype=torch.float64)
                total[step] += band_sums[ends]
    yield from total.flatten(0, 1)[:length]


def box_means(history: Tensor, graph: GridGraph, size: int) -> Tensor:
    """Average `history [B, N, T]`, 0 on land, over the ocean in a box of `size` x `size` cells around each node.

    Boxes end at the edge of the tile, unless it goes around the globe. A `size` of 0 is the whole tile. The result
    is 0 on land.
    """
    shape, ocean = (graph.height, graph.width), graph.mask.unsqueeze(-1).to(history.dtype)
    if size == 0:
        return (history.sum(1) / ocean.sum(1).clamp(min=1)).unsqueeze(1) * ocean
    sums, counts = (_box_sums(x.unflatten(1, shape), size, graph.wrap).flatten(1, 2) for x in (history, ocean))
    return sums * (ocean / counts.clamp(min=1))


def _box_sums(field: Tensor, size: int, wrap: bool) -> Tensor:
    """Sum `[B, H, W, T]` over boxes by differences of cumulative sums, whose cost does not depend on the size.

    With `wrap`, boxes continue from the last column to the first, but contain no column twice.
    """
    reach, width = size // 2, field.shape[2]
    if wrap:
        padding = min(reach, (width - 1) // 2)
        field = torch.cat([field[:, :, width - padding :], field, field[:, :, :padding]], 2)
        return _box_sums_within(field, (reach, padding)).narrow(2, padding, width)
    return _box_sums_within(field, (reach, reach))


def _box_sums_within(field: Tensor, reaches: tuple[int, int]) -> Tensor:
    """Sum `[B, H, W, T]` over boxes that reach so many rows and columns from their centre, and end at the edge."""
    for dim, reach in enumerate(reaches, 1):
        total, cells = field.cumsum(dim), field.shape[dim]
        inner = max(cells - reach, 0)
        field = total.narrow(dim, cells - 1, 1).repeat_interleave(cells, dim)
        field.narrow(dim, 0, inner).copy_(total.narrow(dim, cells - inner, inner))
        beyond = max(inner - 1, 0)
        field.narrow(dim, cells - beyond, beyond).sub_(total.narrow(dim, 0, beyond))
    return field
