"""BatchNorm on grids with land and on sparse graphs, against torch's BatchNorm of the real nodes."""

import pytest
import torch
from torch import nn

from sstcast.models.norms import BatchNorm

D = 6


def pair() -> tuple[BatchNorm, nn.BatchNorm1d]:
    ours, theirs = BatchNorm(D), nn.BatchNorm1d(D)
    nn.init.normal_(ours.weight)
    nn.init.normal_(ours.bias)
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


@pytest.mark.parametrize("shared", [False, True], ids=["a mask each", "one mask for all"])
def test_only_the_ocean_counts(shared: bool) -> None:
    """Outputs, gradients and running statistics in three steps of training and one of evaluation."""
    ours, theirs = pair()
    mask = torch.rand(1 if shared else 4, 30) < 0.6
    ocean = mask.expand(4, -1)
    for step in range(4):
        if step == 3:
            ours.eval()
            theirs.eval()
        x = (3 + 2 * torch.randn(4, 30, D)).masked_fill(~ocean.unsqueeze(-1), 1e6).requires_grad_()
        rows = x.detach()[ocean].requires_grad_()
        found, expected, pull = ours(x, mask)[ocean], theirs(rows), torch.randn(int(ocean.sum()), D)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        (found * pull).sum().backward()
        (expected * pull).sum().backward()
        torch.testing.assert_close(x.grad[ocean], rows.grad, rtol=1e-4, atol=1e-5)
        assert not x.grad[~ocean].any()
        torch.testing.assert_close(ours.state_dict(), theirs.state_dict(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("nodes", [0, 1])
def test_a_single_node_has_no_variance(nodes: int) -> None:
    """So the running statistics are used and stay as they are, on a sparse graph and on a grid."""
    ours, _ = pair()
    ours.running_mean.normal_()
    ours.running_var.uniform_(1, 2)
    before = {name: ours.state_dict()[name].clone() for name in ("running_mean", "running_var")}
    mask, x = torch.arange(12).reshape(2, 6) < nodes, torch.randn(2, 6, D)
    expected = nn.functional.batch_norm(x[mask], *before.values(), ours.weight, ours.bias)
    torch.testing.assert_close(ours(x, mask)[mask], expected)
    torch.testing.assert_close(ours(x[mask]), expected)
    for name, value in before.items():
        assert torch.equal(ours.state_dict()[name], value), name


def test_bf16_is_normalised_in_single_precision() -> None:
    ours, theirs = pair()
    mask = torch.rand(2, 40) < 0.7
    x = (100 + torch.randn(2, 40, D)).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = ours(x, mask)[mask]
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), theirs(x[mask].float()), rtol=0.02, atol=0.02)
