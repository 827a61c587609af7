"""How far TokenGT's heads look: the paper's Figure 3."""

import torch
from torch import Tensor

from sstcast.errors import SSTCastError
from sstcast.graphs.anchors import path_distances
from sstcast.graphs.edges import dense_edges
from sstcast.graphs.graph import Graph
from sstcast.models.attention import SoftmaxAttention, split_heads
from sstcast.models.linear_transformer import EncoderLayer
from sstcast.models.tokengt import TokenGT


@torch.no_grad()
def attention_distances(model: TokenGT, x: Tensor, graph: Graph) -> Tensor:
    """Return the hops between two tokens, a mean weighted by the attention that one pays to the other.

    `x` and `graph` are the model's input; the result is `[layers, heads]`, a mean over all tokens. Two tokens are
    as far apart as the nearest of their nodes, so an edge is at 0 hops from its ends. The graph token, and pairs
    of tokens without a path, are left out.

    Raises SSTCastError if the model's attention is not softmax, since others have no weights.
    """
    tokens, mask = model.embed(x, graph, model.draw_identifiers(x, graph))
    hops, (_, real) = path_distances(graph).to(x.device), graph.dense(x[..., :1])
    place = graph.sparse(torch.arange(real.shape[1], device=x.device).expand(real.shape).unsqueeze(-1))
    (nodes, _), edges = graph.dense(place), dense_edges(graph, place)
    ends = torch.cat([nodes.expand(-1, -1, 2), torch.cat([edges.source, edges.target], dim=-1)], dim=1)
    near = hops.gather(1, ends.flatten(1).unsqueeze(-1).expand(-1, -1, hops.shape[2]))
    apart = near.gather(2, ends.flatten(1).unsqueeze(1).expand(-1, near.shape[1], -1))
    apart = apart.unflatten(2, (-1, 2)).amin(3).unflatten(1, (-1, 2)).amin(2).unsqueeze(1)
    known = apart.isfinite() & mask[:, None, 1:, None] & mask[:, None, None, 1:]
    distances = []
    for layer in model.layers:
        assert isinstance(layer, EncoderLayer)
        if not isinstance(layer.attention, SoftmaxAttention):
            raise SSTCastError("attention: only softmax has weights, whose distance can be measured")
        q, k, _ = layer.attention.qkv(layer.attention_norm(tokens)).chunk(3, dim=-1)
        q, k = split_heads(q, layer.attention.heads)[:, :, 1:], split_heads(k, layer.attention.heads)[:, :, 1:]
        scores = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).masked_fill(~known, -torch.inf)
        weights = scores.softmax(-1).masked_fill(~known, 0)
        rows = known.any(-1).sum((0, 2))
        distances.append((weights * apart.masked_fill(~known, 0)).sum((0, 2, 3)) / rows)
        tokens = layer(tokens, mask)
    return torch.stack(distances)
