"""`Groups`: sums over the members of groups, such as the edges of a node, and copies back to the members."""

from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


class Groups:
    """Items in groups: item i is in group `index[i]`, one of `groups`.

    Sums are those of a product with a matrix of zeros and ones, kept as lists of each group's items: a CPU takes a
    fraction of the time that it needs to scatter the items, for they are added up before they are written.
    """

    def __init__(self, index: Tensor, groups: int) -> None:
        self.index, self.groups = index, groups

    @cached_property
    def order(self) -> Tensor:
        """The items `[items]`, group by group."""
        return self.index.argsort(stable=True)

    @cached_property
    def ends(self) -> Tensor:
        """Where the groups begin and end in `order`, `[groups + 1]`."""
        return F.pad(torch.bincount(self.index, minlength=self.groups).cumsum(0), (1, 0))

    def copy(self, x: Tensor) -> Tensor:
        """Return `[items, d]` from `x [groups, d]`."""
        return _Copy.apply(x, self)

    def sum(self, x: Tensor) -> Tensor:
        """Return `[groups, d]` from `x [items, d]`; a group without items gets 0."""
        return _Sum.apply(x, self)

    def sum_of(self, others: "Groups", x: Tensor) -> Tensor:
        """Return `sum(others.copy(x))`, `[groups, d]` from `x [others.groups, d]`, without a row for each item."""
        return _SumOf.apply(x, others, self)

    def counts(self, like: Tensor) -> Tensor:
        """Return the number of items of each group, `[groups, 1]`, at least 1 for means, of the type of `like`."""
        return self.ends.diff().clamp(min=1).to(like.dtype).unsqueeze(1)


class _Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, groups: Groups) -> Tensor:
        ctx.groups = groups
        return x.index_select(0, groups.index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.groups.sum(grad), None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, groups: Groups) -> Tensor:
        ctx.groups = groups
        return _bags(x, groups.order, groups.ends)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.groups.copy(grad), None


class _SumOf(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, source: Groups, target: Groups) -> Tensor:
        ctx.groups = source, target
        return _bags(x, source.index.index_select(0, target.order), target.ends)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        source, target = ctx.groups
        return source.sum_of(target, grad), None, None


def _bags(x: Tensor, rows: Tensor, ends: Tensor) -> Tensor:
    return F.embedding_bag(rows, x.contiguous(), ends, mode="sum", include_last_offset=True)
