"""Sums over groups, against NumPy and numerical derivatives."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from sstcast.graphs.sparse import Groups

SOURCES = Groups(torch.tensor([4, 0, 2, 2, 0, 1, 2]), 5)
TARGETS = Groups(torch.tensor([1, 1, 5, 0, 1, 5, 3]), 6)  # 2 and 4 are no item's
NONE = Groups(torch.zeros(0, dtype=torch.long), 3)
OPERATIONS: dict[str, tuple[Callable[[Tensor], Tensor], int]] = {
    "copy": (TARGETS.copy, 6),
    "sum": (TARGETS.sum, 7),
    "sum_of": (lambda x: TARGETS.sum_of(SOURCES, x), 5),
    "copy of none": (NONE.copy, 3),
    "sum of none": (NONE.sum, 0),
    "sum_of none": (lambda x: NONE.sum_of(NONE, x), 3),
}


def matrix(groups: Groups) -> np.ndarray:
    """The matrix `[groups, items]` that is 1 where an item is a group's."""
    return (np.arange(groups.groups)[:, None] == groups.index.numpy()).astype(float)


def test_they_are_products_with_a_matrix() -> None:
    source, target = matrix(SOURCES), matrix(TARGETS)
    x, y, z = (torch.randn(rows, 3, dtype=torch.double) for rows in (6, 7, 5))
    np.testing.assert_allclose(TARGETS.copy(x), target.T @ x.numpy())
    np.testing.assert_allclose(TARGETS.sum(y), target @ y.numpy())
    np.testing.assert_allclose(TARGETS.sum_of(SOURCES, z), target @ source.T @ z.numpy())
    np.testing.assert_array_equal(TARGETS.counts(x), target.sum(1, keepdims=True).clip(1))


@pytest.mark.parametrize("name", OPERATIONS)
def test_derivatives(name: str) -> None:
    operation, rows = OPERATIONS[name]
    x = torch.randn(rows, 2, dtype=torch.double, requires_grad=True)
    assert gradcheck(operation, x)
    assert gradgradcheck(operation, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_other_precisions_and_gradients_that_are_views(dtype: torch.dtype) -> None:
    x = torch.randn(7, 3).to(dtype).requires_grad_()
    total = TARGETS.sum(x)
    assert total.dtype == dtype
    total.sum(0).sum().backward()  # an expanded gradient
    assert torch.equal(x.grad, torch.ones(7, 3, dtype=dtype))
    tolerance = torch.finfo(dtype).eps * 4
    np.testing.assert_allclose(
        total.detach().float(), matrix(TARGETS) @ x.detach().double().numpy(), rtol=tolerance, atol=tolerance
    )
    turned = torch.randn(3, 7).to(dtype).T
    assert torch.equal(TARGETS.sum(turned), TARGETS.sum(turned.contiguous()))
