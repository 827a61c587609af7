"""Every attention against its definition, written out over pairs of nodes."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sstcast.errors import SSTCastError
from sstcast.models.attention import (
    Attention,
    DeepSets,
    LinearAttention,
    PerformerAttention,
    SoftmaxAttention,
    split_heads,
)
from sstcast.models.primphormer import PrimalAttention
from sstcast.models.sparse_attention import BigBirdAttention

D, HEADS = 12, 3
KINDS = {
    "softmax": lambda: SoftmaxAttention(D, HEADS),
    "linear": lambda: LinearAttention(D, HEADS),
    "performer": lambda: PerformerAttention(D, HEADS),
    "deepsets": lambda: DeepSets(D),
    "bigbird": lambda: BigBirdAttention(D, HEADS, block=4, random_blocks=1),
    "primal": lambda: PrimalAttention(D, HEADS, rank=5, samples=6),
}


@pytest.fixture(params=KINDS)
def attention(request: pytest.FixtureRequest) -> nn.Module:
    torch.manual_seed(0)
    return KINDS[request.param]().double().eval()


def make(batch: int = 2, nodes: int = 30) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(batch, nodes, D, generator=generator, dtype=torch.double)
    return x, torch.rand(batch, nodes, generator=generator) < 0.7


def heads(attention: Attention, x: Tensor) -> list[np.ndarray]:
    """Queries, keys and values of one sample, `[heads, N, d]`."""
    return [split_heads(part, HEADS)[0].detach().numpy() for part in attention.qkv(x).chunk(3, dim=-1)]


def weighted(attention: Attention, weights: np.ndarray, v: np.ndarray) -> Tensor:
    """The output for explicit weights `[heads, N, N]`, which it normalises."""
    y = weights / weights.sum(-1, keepdims=True) @ v
    return attention.out(torch.from_numpy(y.transpose(1, 0, 2).reshape(len(y[0]), D)))


def test_masked_nodes_change_nothing(attention: nn.Module) -> None:
    x, mask = make()
    changed = torch.where(mask.unsqueeze(-1), x, 100 * torch.randn_like(x))
    torch.testing.assert_close(attention(changed, mask)[mask], attention(x, mask)[mask])


def test_padding_changes_nothing(attention: nn.Module) -> None:
    """Wherever it stands: behind the nodes, before them or among them."""
    x, mask = make(1)
    alone = attention(x[mask][None], torch.ones(1, int(mask.sum()), dtype=torch.bool))
    torch.testing.assert_close(attention(x, mask)[mask], alone[0])
    longer = F.pad(x, (0, 0, 7, 50), value=3.0)
    shifted = F.pad(mask, (7, 50))
    torch.testing.assert_close(attention(longer, shifted)[shifted], alone[0])


def test_batch_mates_change_nothing(attention: nn.Module) -> None:
    x, mask = make(3)
    torch.testing.assert_close(attention(x, mask)[1:2], attention(x[1:2], mask[1:2]))


def test_masked_nodes_get_no_gradient(attention: nn.Module) -> None:
    x, mask = make()
    x.requires_grad_()
    attention(x, mask)[mask].square().sum().backward()
    assert (x.grad[~mask] == 0).all()
    assert (x.grad[mask] != 0).any(-1).all()


def test_no_nodes_and_one_node(attention: nn.Module) -> None:
    x, mask = make(2, 9)
    mask[0], mask[1] = False, torch.arange(9) == 4
    out = attention(x, mask)
    out.sum().backward()
    assert torch.isfinite(out).all()
    assert all(torch.isfinite(p.grad).all() for p in attention.parameters() if p.grad is not None)
    torch.testing.assert_close(out[1, 4], attention(x[1:, 4:5], torch.ones(1, 1, dtype=torch.bool))[0, 0])


@pytest.mark.parametrize("name", ["softmax", "linear", "performer", "deepsets"])
def test_permuting_nodes_permutes_outputs(name: str) -> None:
    torch.manual_seed(0)
    attention, (x, mask), order = KINDS[name]().double().eval(), make(), torch.randperm(30)
    permuted = attention(x[:, order], mask[:, order])
    torch.testing.assert_close(permuted[mask[:, order]], attention(x, mask)[:, order][mask[:, order]])


def test_softmax_against_torch() -> None:
    torch.manual_seed(0)
    ours, theirs = SoftmaxAttention(D, HEADS).double(), nn.MultiheadAttention(D, HEADS, batch_first=True).double()
    theirs.in_proj_weight, theirs.in_proj_bias = ours.qkv.weight, ours.qkv.bias
    theirs.out_proj.load_state_dict(ours.out.state_dict())
    x, mask = make()
    expected = theirs(x, x, x, key_padding_mask=~mask, need_weights=False)[0]
    torch.testing.assert_close(ours(x, mask)[mask], expected[mask])


@pytest.mark.parametrize("dtype", [torch.float, torch.double])
def test_linear_attention_by_its_quadratic_form(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    attention, (x, mask) = LinearAttention(D, HEADS).double(), make(1)
    q, k, v = heads(attention, x)
    phi_q, phi_k = (np.where(a > 0, a + 1, np.exp(np.minimum(a, 0))) for a in (q, k))
    expected = weighted(attention, (phi_q @ phi_k.transpose(0, 2, 1)) * mask[0].numpy(), v)
    ours = attention.to(dtype)(x.to(dtype), mask)[0].double()
    torch.testing.assert_close(ours[mask[0]], expected[mask[0]], rtol=1e-5, atol=1e-5)


def test_favor_survives_large_queries_and_keys() -> None:
    torch.manual_seed(0)
    attention, (x, mask) = PerformerAttention(D, HEADS), make()
    x = (1e3 * x).float().requires_grad_()
    out = attention(x, mask)
    out.sum().backward()
    assert torch.isfinite(out).all()
    assert torch.isfinite(x.grad).all()


def test_redraw_in_training_only() -> None:
    x, mask = make()
    for redraw in (False, True):
        attention = PerformerAttention(D, HEADS, redraw=redraw).double()
        assert torch.equal(attention(x, mask), attention(x, mask)) != redraw
        before = attention.eval().directions
        assert torch.equal(attention(x, mask), attention(x, mask))
        assert attention.directions is before
        assert "directions" in attention.state_dict()


@pytest.mark.parametrize("norm", ["none", "layer"])
def test_deepsets_by_its_equation(norm: str) -> None:
    """Definition 5.2 of Cai et al. 2023 without a norm: ReLU(X A + 1/n 1 1^T X B + 1 c^T)."""
    torch.manual_seed(0)
    layer, (x, mask) = DeepSets(D, norm=norm).double(), make()
    a, b, c = (part.detach().numpy() for part in (layer.each.weight.T, layer.mean.weight.T, layer.each.bias))
    for row, real, out in zip(x, mask, layer(x, mask), strict=True):
        nodes = row[real].numpy()
        ones = np.ones((len(nodes), 1))
        mixed = nodes @ a + ones @ ones.T @ nodes @ b / len(nodes) + ones @ c[None]
        if norm == "layer":
            mixed = F.layer_norm(torch.from_numpy(mixed), [D]).numpy()
        np.testing.assert_allclose(out[real].detach().numpy(), np.maximum(mixed, 0), rtol=1e-9, atol=1e-12)


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(SSTCastError, match="5 heads cannot share a width of 12"):
        SoftmaxAttention(D, 5)
