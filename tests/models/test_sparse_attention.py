"""BigBird and Exphormer against softmax over their pairs, and the random draws behind both."""

import networkx as nx
import numpy as np
import pytest
import torch
from small_graphs import one_graph
from torch import nn
from torch.nn import functional as F
from torch_geometric.utils import softmax

from sstcast.models.attention import SoftmaxAttention, split_heads
from sstcast.models.sparse_attention import (
    BigBirdAttention,
    ExphormerAttention,
    pack,
    random_cycles,
    random_integers,
)

D, HEADS = 12, 3
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


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
    x = torch.randn(1, nodes, D, dtype=torch.double)
    q, k, v = (split_heads(part, HEADS) for part in big.qkv(x).chunk(3, dim=-1))
    expected = big.out(F.scaled_dot_product_attention(q, k, v, allowed).transpose(1, 2).flatten(2))
    torch.testing.assert_close(big(x, torch.ones(1, nodes, dtype=torch.bool)), expected)


def test_one_softmax_over_all_pairs() -> None:
    """Exphormer's edges, cycles and virtual nodes as one list of pairs, which PyG's softmax normalises."""
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
    """Each cycle visits every node once; the second eigenvalue stays well below the degree of 6."""
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


def test_packing_there_and_back() -> None:
    x, mask = torch.randn(3, 20, 2), torch.rand(3, 20) < 0.6
    packed, front, index = pack(x, mask)
    for row, real, kept, first in zip(x, mask, packed, front, strict=True):
        assert torch.equal(kept[first], row[real])
        assert first.sum() == real.sum()
    assert torch.equal(packed.gather(1, index), x)


def test_random_integers_are_uniform_and_only_append() -> None:
    """A histogram within five sigma, columns and seeds that know nothing of each other, and a stable prefix."""
    draws = random_integers(20_000, 2, 0, CPU)
    assert torch.equal(random_integers(100, 2, 0, CPU), draws[:100])
    assert draws.min() >= 0
    assert draws.max() < 2**32
    values = (draws.double() / 2**32).numpy()
    counts, _ = np.histogram(values, bins=16, range=(0, 1))
    assert np.abs(counts - 2500).max() < 5 * np.sqrt(2500)
    other = random_integers(20_000, 2, 10**12, CPU).double().numpy()
    first = values[:, 0]
    for later in (values[:, 1], values[1:, 0], other[:, 0]):
        assert abs(np.corrcoef(first[: len(later)], later)[0, 1]) < 5 / np.sqrt(20_000)
