"""Exphormer against softmax over its pairs, one by one."""

import math

import torch
from torch import nn

from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph
from sstcast.models.sparse_attention import ExphormerAttention, random_cycles

D, HEADS = 12, 3


def test_one_softmax_over_all_pairs() -> None:
    torch.manual_seed(0)
    attention = ExphormerAttention(D, HEADS, edge_state=True, cycles=1, virtual_nodes=2).double()
    for kind in (attention.expander, attention.membership):
        nn.init.normal_(kind)
    nodes = 7
    edge_index = torch.tensor([[0, 1, 2, 3, 3, 5, 5], [1, 0, 1, 1, 2, 4, 1]])
    x, state = torch.randn(nodes, D, dtype=torch.double), torch.randn(7, D, dtype=torch.double)
    graph = SparseGraph(edge_index, torch.zeros(nodes, dtype=torch.long), 1)
    memory = torch.randn(1, 2, D, dtype=torch.double)
    out, virtual = attention(x, graph, [state], memory)

    before = attention.virtual + memory[0]
    q, k, v = attention.qkv(torch.cat([x, before])).chunk(3, dim=-1)
    joined = [(int(t), int(s), attention.edge(state[e])) for e, (s, t) in enumerate(edge_index.T)]
    planes = random_cycles(torch.ones(1, nodes, dtype=torch.bool), 1, 0)
    joined += [(i, int(plane[0, i]), attention.expander) for plane in planes for i in range(nodes)]
    joined += [(i, j, attention.membership) for i in range(nodes) for j in (nodes, nodes + 1)]
    joined += [(i, j, torch.ones(D).double()) for i in (nodes, nodes + 1) for j in range(nodes)]
    size = D // HEADS
    for i in range(nodes + 2):
        seen = [(j, kind) for target, j, kind in joined if target == i]
        y = []
        for h in range(HEADS):
            part = slice(h * size, (h + 1) * size)
            scores = torch.stack([(q[i] * k[j] * kind)[part].sum() / math.sqrt(size) for j, kind in seen])
            y.append(scores.softmax(0) @ torch.stack([v[j, part] for j, _ in seen]))
        got = out[i] if i < nodes else virtual[0, i - nodes]
        expected = attention.out(torch.cat(y)) if i < nodes else before[i - nodes] + torch.cat(y)
        torch.testing.assert_close(got, expected)


def test_gradient_where_masked_scores_are_huge() -> None:
    torch.manual_seed(0)
    attention, mask = ExphormerAttention(D, HEADS), torch.ones(1, 9, dtype=torch.bool)
    mask[0, 4] = False
    x = torch.randn(1, 9, D)
    x[0, 4] *= 1e4
    out, _ = attention(x.requires_grad_(), GridGraph(3, 3, mask), None, None)
    out[mask].sum().backward()
    assert torch.isfinite(x.grad).all()
    assert (x.grad[0, 4] == 0).all()
