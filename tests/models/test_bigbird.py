"""BigBird against softmax attention over the pairs its blocks allow."""

import torch
from torch.nn import functional as F

from sstcast.models.attention import SoftmaxAttention, split_heads
from sstcast.models.sparse_attention import BigBirdAttention, random_integers

D, HEADS = 12, 3


def test_it_is_softmax_where_every_block_sees_every_other() -> None:
    torch.manual_seed(0)
    big, softmax = BigBirdAttention(D, HEADS, block=10).double(), SoftmaxAttention(D, HEADS).double()
    softmax.load_state_dict(big.state_dict())
    x, mask = torch.randn(2, 30, D, dtype=torch.double), torch.rand(2, 30) < 0.7
    torch.testing.assert_close(big(x, mask)[mask], softmax(x, mask)[mask])


def test_it_sees_its_blocks_and_no_others() -> None:
    torch.manual_seed(0)
    nodes, block, blocks = 29, 3, 10
    big = BigBirdAttention(D, HEADS, block=block, random_blocks=2, seed=7).double()
    draws = random_integers(blocks, 2, 7, torch.device("cpu")).double() / 2**32
    allowed = torch.zeros(nodes, nodes, dtype=torch.bool)
    for i in range(nodes):
        own = i // block
        seen = {0, own - 1, own, own + 1, *(draws[own] * blocks).long().tolist()}
        for j in range(nodes):
            allowed[i, j] = i < block or j // block in seen
    assert 0.3 < allowed.double().mean() < 0.8
    x = torch.randn(1, nodes, D, dtype=torch.double)
    q, k, v = (split_heads(part, HEADS) for part in big.qkv(x).chunk(3, dim=-1))
    y = F.scaled_dot_product_attention(q, k, v, allowed)
    expected = big.out(y.transpose(1, 2).reshape(1, nodes, D))
    torch.testing.assert_close(big(x, torch.ones(1, nodes, dtype=torch.bool)), expected)
