"""Every attention against its definition, written out over pairs of nodes, and the random features."""

import math
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
import torch
from small_graphs import one_graph
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.utils import softmax

from sstcast.errors import SSTCastError
from sstcast.models.attention import (
    DeepSets,
    LinearAttention,
    PerformerAttention,
    SoftmaxAttention,
    elu_features,
    favor_attention,
    favor_features,
    orthogonal_directions,
    split_heads,
)
from sstcast.models.sparse_attention import (
    BigBirdAttention,
    ExphormerAttention,
    random_cycles,
    random_integers,
)

D, HEADS = 12, 3
CPU = torch.device("cpu")


def make(batch: int = 2, nodes: int = 30) -> tuple[Tensor, Tensor]:
    return torch.randn(batch, nodes, D, dtype=torch.double), torch.rand(batch, nodes) < 0.7


def test_softmax_against_torch() -> None:
    ours, theirs = SoftmaxAttention(D, HEADS).double(), nn.MultiheadAttention(D, HEADS, batch_first=True).double()
    theirs.in_proj_weight, theirs.in_proj_bias = ours.qkv.weight, ours.qkv.bias
    theirs.out_proj.load_state_dict(ours.out.state_dict())
    x, mask = make()
    expected = theirs(x, x, x, key_padding_mask=~mask, need_weights=False)[0]
    torch.testing.assert_close(ours(x, mask)[mask], expected[mask])
    with pytest.raises(SSTCastError, match="5 heads cannot share a width of 12"):
        SoftmaxAttention(D, 5)


@pytest.mark.parametrize("dtype", [torch.float, torch.double])
def test_linear_attention_by_its_quadratic_form(dtype: torch.dtype) -> None:
    attention, (x, mask) = LinearAttention(D, HEADS).double(), make(1)
    q, k, v = (split_heads(part, HEADS) for part in attention.qkv(x).chunk(3, dim=-1))
    weights = (F.elu(q) + 1) @ (F.elu(k) + 1).transpose(2, 3) * mask
    y = weights / weights.sum(-1, keepdim=True) @ v
    expected = attention.out(y.transpose(1, 2).flatten(2))
    ours = attention.to(dtype)(x.to(dtype), mask).double()
    torch.testing.assert_close(ours[mask], expected[mask], rtol=1e-5, atol=1e-5)


def test_the_derivative_of_the_elu_features_is_continuous() -> None:
    x = torch.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    elu_features(x).sum().backward()
    torch.testing.assert_close(x.grad, torch.tensor([math.exp(-1), 1.0, 1.0]))


@pytest.mark.parametrize("norm", ["none", "layer"])
def test_deepsets_by_its_equation(norm: str) -> None:
    """Definition 5.2 of Cai et al. 2023 without a norm: ReLU(X A + 1/n 1 1^T X B + 1 c^T)."""
    layer, (x, mask) = DeepSets(D, norm=norm).double(), make()
    a, b, c = (part.detach().numpy() for part in (layer.each.weight.T, layer.mean.weight.T, layer.each.bias))
    for row, real, out in zip(x, mask, layer(x, mask), strict=True):
        nodes = row[real].numpy()
        ones = np.ones((len(nodes), 1))
        mixed = torch.from_numpy(nodes @ a + ones @ ones.T @ nodes @ b / len(nodes) + ones @ c[None])
        mixed = F.layer_norm(mixed, [D]) if norm == "layer" else mixed
        torch.testing.assert_close(out[real], mixed.relu(), rtol=1e-9, atol=1e-12)


def test_favor_error_shrinks_with_the_number_of_features() -> None:
    """The mean error falls with the square root of their number: four times the features halve it.

    Moderate queries and keys: the estimator's variance grows with exp |q + k|^2, and a few draws of a heavy tail
    show no rate.
    """
    q, k, v = torch.randn(3, 8, 2, 40, 8, dtype=torch.double).unbind(0)
    q, k, mask = q / 2, k / 2, torch.rand(8, 40) < 0.8
    exact = F.scaled_dot_product_attention(q, k, v, mask[:, None, None])
    errors = []
    for features in (16, 64, 256, 1024):
        draws = [orthogonal_directions(features, 8).double() for _ in range(8)]
        outputs = [favor_attention(q, k, v, mask, w) for w in draws]
        errors.append(float(torch.stack([(y - exact).square().mean() for y in outputs]).mean().sqrt()))
    ratios = [b / a for a, b in pairwise(errors)]
    assert all(0.4 < ratio < 0.6 for ratio in ratios), ratios
    assert errors[-1] < 0.1 * float(exact.square().mean().sqrt()), errors


def test_favor_features_without_their_stabiliser() -> None:
    """phi(x) = exp(w x - |x|^2 / 2) as the paper writes it, in a range where nothing can overflow."""
    w, mask = orthogonal_directions(20, 4).double(), torch.rand(1, 30) < 0.7
    q, k = torch.randn(2, 1, 1, 30, 4, dtype=torch.double)
    naive_q, naive_k = (torch.exp(a @ w.T / math.sqrt(2) - a.square().sum(-1, keepdim=True) / 4) for a in (q, k))
    weights = (naive_q @ naive_k.transpose(2, 3)).masked_fill(~mask, 0)
    ours_q, ours_k = favor_features(q, k, mask, w)
    ours = ours_q @ ours_k.transpose(2, 3)
    torch.testing.assert_close(ours / ours.sum(-1, keepdim=True), weights / weights.sum(-1, keepdim=True))
    assert (ours.sum(-1) >= 1).all()


@pytest.mark.parametrize("size", [1, 4, 32])
def test_performer_has_d_ln_d_features(size: int) -> None:
    """Their number is the next integer above d ln(d + 1), which is less than 2 above d ln d and at least 1."""
    features = len(PerformerAttention(2 * size, 2).directions)
    assert 0 < features - size * math.log(size) < 2
    assert len(PerformerAttention(2 * size, 2, features=7).directions) == 7


def test_directions_are_orthogonal_and_favour_none() -> None:
    w = orthogonal_directions(4000, 4)
    blocks, bound = w.reshape(1000, 4, 4), 5 / math.sqrt(1000)
    products = blocks @ blocks.transpose(1, 2)
    off = products - torch.diag_embed(products.diagonal(dim1=1, dim2=2))
    assert off.abs().max() < 1e-4
    assert blocks.mean(0).abs().max() < bound  # the Q of LAPACK has means of 0.4
    torch.testing.assert_close(w.T @ w / 4000, torch.eye(4), rtol=0, atol=bound)


def test_error_of_features_by_equation_18_of_kdlgt() -> None:
    """The relative error of r independent features is c = sqrt((exp(|q + k|^2) - 1) / r), in the mean of squares.

    Orthogonal ones have less. Both are right on average, so that P' = P in Lemma 1 whatever c is.
    """
    q, k, features, draws = *torch.randn(2, 4, dtype=torch.double) / 4, 16, 20_000
    squared = float(((q + k).square().sum().exp() - 1) / features)
    assert squared < 1
    found = []
    for w in (torch.randn(draws * features, 4), orthogonal_directions(draws * features, 4)):
        both = [torch.exp(w.double() @ x - x.square().sum() / 2) for x in (q, k)]
        ratio = (both[0] * both[1]).view(draws, features).mean(1) / torch.exp(q @ k)
        assert abs(ratio.mean() - 1) < 5 * (squared / draws) ** 0.5
        found.append(float((ratio - 1).square().mean()))
    assert abs(found[0] / squared - 1) < 0.1
    assert found[1] < 0.95 * squared


# BigBird and Exphormer against softmax over their pairs, and the random draws of both.


def test_it_is_softmax_where_every_block_sees_every_other() -> None:
    big, full = BigBirdAttention(D, HEADS, block=10).double(), SoftmaxAttention(D, HEADS).double()
    full.load_state_dict(big.state_dict())
    x, mask = torch.randn(2, 30, D, dtype=torch.double), torch.rand(2, 30) < 0.7
    torch.testing.assert_close(big(x, mask)[mask], full(x, mask)[mask])


def test_it_sees_its_blocks_and_no_others() -> None:
    nodes, block, blocks = 29, 3, 10
    big = BigBirdAttention(D, HEADS, block=block, random_blocks=2, seed=7).double()
    drawn = (random_integers(blocks, 2, 7, CPU).double() / 2**32 * blocks).long()
    own = torch.arange(blocks)[:, None]
    allowed = torch.zeros(blocks, blocks, dtype=torch.bool)
    allowed.scatter_(1, torch.cat([0 * own, own - 1, own, own + 1, drawn], 1).clamp(0, blocks - 1), True)
    allowed[0] = True
    allowed = allowed.repeat_interleave(block, 0).repeat_interleave(block, 1)[:nodes, :nodes]
    assert 0.3 < allowed.double().mean() < 0.8
    x, mask = torch.randn(1, 40, D, dtype=torch.double), torch.zeros(1, 40, dtype=torch.bool)
    mask[0, torch.randperm(40)[:nodes]] = True  # blocks are of real nodes, in their order
    q, k, v = (split_heads(part, HEADS) for part in big.qkv(x[mask][None]).chunk(3, dim=-1))
    expected = big.out(F.scaled_dot_product_attention(q, k, v, allowed).transpose(1, 2).flatten(2))
    torch.testing.assert_close(big(x, mask)[mask], expected[0])


def test_one_softmax_over_all_pairs() -> None:
    """Exphormer against PyG's softmax over one list of edges, cycles and links to virtual nodes."""
    attention, nodes = ExphormerAttention(D, HEADS, edge_state=True, cycles=1, virtual_nodes=2).double(), 7
    for kind in (attention.expander, attention.membership):
        nn.init.normal_(kind)
    edges = torch.tensor([[0, 1, 2, 3, 3, 5, 5], [1, 0, 1, 1, 2, 4, 1]])
    x, state, memory = (torch.randn(*shape, dtype=torch.double) for shape in ((nodes, D), (7, D), (1, 2, D)))
    out, virtual = attention(x, one_graph(edges, nodes), [state], memory)

    before = attention.virtual + memory[0]
    q, k, v = attention.qkv(torch.cat([x, before])).chunk(3, dim=-1)
    here, real = torch.arange(nodes), torch.ones(1, nodes, dtype=torch.bool)
    cycles = [torch.stack([plane[0], here]) for plane in random_cycles(real, 1, 0)]
    members = torch.cartesian_prod(torch.tensor([nodes, nodes + 1]), here).T
    kinds = [attention.edge(state), attention.expander.expand(2 * nodes, -1)]
    kinds += [attention.membership.expand(2 * nodes, -1), torch.ones(2 * nodes, D)]
    source, target = torch.cat([edges, *cycles, members, members.flip(0)], dim=1)
    scores = (q[target] * k[source] * torch.cat(kinds)).unflatten(1, (HEADS, -1)).sum(-1) / (D // HEADS) ** 0.5
    messages = softmax(scores, target).unsqueeze(-1) * v[source].unflatten(1, (HEADS, -1))
    y = torch.zeros(nodes + 2, D, dtype=torch.double).index_add(0, target, messages.flatten(1))
    torch.testing.assert_close(out, attention.out(y[:nodes]))
    torch.testing.assert_close(virtual[0], before + y[nodes:])


def test_random_cycles_are_an_expander() -> None:
    """Each cycle visits every node once, and the second eigenvalue is well below the degree of 6."""
    mask = torch.ones(1, 400, dtype=torch.bool)
    mask[0, ::5] = False
    real, planes = np.flatnonzero(mask[0]), random_cycles(mask, 3, seed=0)
    adjacency = np.zeros((400, 400))
    for after, before in zip(planes[::2], planes[1::2], strict=True):
        after, before = after[0].numpy(), before[0].numpy()
        cycle = nx.DiGraph(zip(real, after[real], strict=True))
        assert len(nx.find_cycle(cycle)) == len(cycle) == len(real)
        np.testing.assert_array_equal(before[after[real]], real)
        np.add.at(adjacency, (np.tile(real, 2), np.concatenate([after[real], before[real]])), 1)
    eigenvalues = np.linalg.eigvalsh(adjacency[real][:, real])
    assert eigenvalues[-1] == pytest.approx(6)
    assert max(eigenvalues[-2], -eigenvalues[0]) < 5.2  # 2 sqrt(5) = 4.5 is the best a large graph can do
    assert not torch.equal(planes[0], random_cycles(mask, 3, seed=1)[0])
