"""The inputs of a ridge, and its normal equations.

Windows that start a few days apart share most of their days. So each box mean is computed once for a day, whatever
the number of windows that contain it.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from sstcast.graphs.grid import GridGraph
from sstcast.models.registry import MEMORY_DAYS
from sstcast.progress import tracked

OUTPUTS_AT_ONCE = 2**15  # outputs per block of the normal equations: more take memory but save no time
VALUES_AT_ONCE = 2**22  # values per block of box means
DATES_AT_ONCE = 1024  # initial dates whose shares of all days in their memory are in one matrix
PERIODS = ((42, 90), (90, 180), (180, MEMORY_DAYS))  # of the memory, [from, to) days before the initial date
BOX_CELLS = (1, 7, 15, 0)  # sides of the boxes over which the memory is averaged, in cells, 0 for the whole tile
LAGS = (0, 3, 7, 14, 28)  # of the stencil, in days before the initial date
OFFSETS = tuple((n * row, n * col) for n in (2, 4) for row, col in ((-1, 0), (1, 0), (0, 1), (0, -1)))
Penalty = TypeVar("Penalty")


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


def cross_validate(
    blocks: Sequence[Sums], solve: Callable[[Sums, Penalty], Tensor], penalties: Sequence[Penalty], leads: int
) -> tuple[Tensor, Tensor]:
    """Choose the penalty of each lead over all cells by cross-validation, and fit to all blocks.

    Args:
        blocks: the sums of each block of rows, with outputs `[cells, leads]`. If there is only one, the first
            penalty is chosen.
        solve: returns the weights `[inputs, outputs]` with a penalty.
        penalties: the candidates.
        leads: the number of leads.

    Returns:
        The weights `[inputs, cells, leads]`, and the index of the chosen candidate for each lead, `[leads]`.
    """
    total = reduce(add, blocks)
    errors = torch.zeros(len(penalties), leads, dtype=torch.float64)
    for block in tracked(blocks if len(blocks) > 1 else [], "choosing penalties"):
        train_sums = total - block
        for error, penalty in zip(errors, penalties, strict=True):
            error += block.error(solve(train_sums, penalty)).unflatten(0, (-1, leads)).sum(0)
    best = errors.argmin(0)
    return solve_by_lead(total, solve, penalties, best), best


def solve_by_lead(
    sums: Sums, solve: Callable[[Sums, Penalty], Tensor], penalties: Sequence[Penalty], best: Tensor
) -> Tensor:
    """Return the weights `[inputs, cells, leads]` with the penalty of each lead, `best [leads]` of the candidates.

    `sums` have outputs `[cells, leads]`, and `solve` is described at `cross_validate`.
    """
    weight = torch.zeros_like(sums.cross).unflatten(1, (-1, len(best)))
    for choice in best.unique().tolist():
        fitted = solve(sums, penalties[choice]).unflatten(1, (-1, len(best)))
        weight[..., best == choice] = fitted[..., best == choice]
    return weight


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
        inputs = past_means(windows, BOX_CELLS) if self.memory else []
        if self.stencil:
            last, box = windows.history - 1, 1 + self.boxes.index(3)
            lags = [lag for lag in LAGS if lag <= last]
            days = torch.stack([fields[last - lag :: windows.every, box][: windows.starts] for lag in lags], 1)
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
    last, fields = windows.history - 1, daily(windows, boxes)
    inputs = [fields[last - lag :: windows.every][: windows.starts] for lag in LAGS if lag <= last]
    return torch.cat([*inputs, *(past_means(windows, (1, *boxes)) if memory else [])], 1)


def past_means(windows: Any, boxes: tuple[int, ...]) -> list[Tensor]:
    """Return for each of `boxes` the means over `PERIODS`, `[starts, periods, tiles * N]`, 0 on land."""
    height, width = windows.shape
    graph = GridGraph(height, width, windows.ocean, windows.wrap)
    means = _period_means(windows).unflatten(1, windows.ocean.shape).permute(1, 2, 0)
    averages = [box_means(means, graph, size) if size != 1 else means for size in boxes]
    return [field.permute(2, 0, 1).reshape(windows.starts, len(PERIODS), -1) for field in averages]


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
    history, every, horizon = windows.history, windows.every, windows.horizon
    fields, ones = daily(windows, inputs.boxes), windows.ocean.flatten()[None].to(windows.values)
    further = fields.new_zeros(windows.starts, 0, ones.numel())
    if inputs.memory or inputs.stencil:
        further = inputs.further(windows, fields)
    sums = Sums(sum(inputs.groups(history).values()) + 1, horizon)
    for day, others in zip(range(0, windows.starts * every, every), further, strict=True):
        past, ahead = fields[day : day + history], fields[day + history : day + history + horizon, 0]
        sums.add(torch.cat([past.transpose(0, 1).flatten(0, 1), others, ones]).T, ahead.T)
    return sums


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
