"""Graph transformers with structural attention (`sat`, `spdgt`), and their linear versions by a kernel (KDLGT).

Source: Wu et al. 2023, KDLGT.

| name     | weight of node j for node i, before it is normalised over j             | time              |
|----------|-------------------------------------------------------------------------|-------------------|
| `sat`    | exp((q_i k_j + (S W_q)_i (S W_k)_j) / sqrt(d))                          | nodes^2           |
| `lsat`   | phi([q, S W_q]_i) phi([k, S W_k]_j)                                     | nodes             |
| `spdgt`  | exp(q_i k_j / sqrt(d) + b), with a bias b for the path from i to j      | nodes^2           |
| `sapdgt` | phi(q_i) phi(k_j) exp(c hops(j, a) / 2), c < 0; mean over the anchors a | nodes x anchors   |

S is the output of a GNN on the layer's input, and phi are the positive random features of softmax. `sat` is
KDLGT's SAT, with scores of content and of structure. That of Chen et al. has scores of structure alone. The
paper's `sapdgt` also adds c hops(i, a) / 2 to each row, which the normalisation over j cancels. The other half of
the bias is a factor of each key, so the decomposition is exact and phi needs no further dimension. Only `spdgt`
stores a number for every pair of nodes.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sstcast.graphs.graph import Graph, check_memory
from sstcast.graphs.paths import anchor_distances, ego_graphs, mean_along_paths, path_distances
from sstcast.models.attention import (
    HeadedAttention,
    check_heads,
    favor_attention,
    favor_features,
    merge_heads,
    orthogonal_directions,
    softmax_attention,
    split_heads,
)
from sstcast.models.convs import MessagePassing, add_edges, edge_linear
from sstcast.models.norms import widen
from sstcast.models.sizes import Count, Layers, Share, Size
from sstcast.models.transformers import Transformer


class StructureAware(Transformer):
    """`lsat`, or `sat` if `linear` is false.

    Args:
        hops: the depth k of the structure extractor.
        linear: whether the softmax is replaced by random features.
        features: random features per head.
        extractor: the k-subtree or k-subgraph extractor (see `StructureAwareAttention`).
    """

    def __init__(
        self,
        width: Count = 64,
        layers: Layers = 3,
        heads: Count = 4,
        hops: Size = 2,
        linear: bool = True,
        features: Count = 64,
        dropout: Share = 0.0,
        edge_dim: Size = 2,
        extractor: Literal["subtree", "subgraph"] = "subtree",
    ) -> None:
        sizes = (width, heads, hops, edge_dim, features if linear else 0, extractor == "subgraph")
        super().__init__(width, (StructureAwareAttention(*sizes) for _ in range(layers)), dropout)


class AnchorDistance(Transformer):
    """`sapdgt`, with a bias for the shortest path distances to anchors (KDLGT, equations 14 to 16).

    On graphs with symmetries, such as a cycle, the numbering of nodes chooses between tied anchors, so the model
    is not equivariant there.

    Args:
        radius: hops within which every node has an anchor. A larger radius needs fewer anchors and less time.
        features: random features per head.
        edge_messages: whether `x_i + mean_j ReLU(x_j + E e_ij)` replaces the input if edges have features, which
            the paper's bias does not read. Without it, as in the paper, nodes interact by attention alone.
    """

    def __init__(
        self,
        width: Count = 64,
        layers: Layers = 3,
        heads: Count = 4,
        radius: Size = 5,
        features: Count = 64,
        dropout: Share = 0.0,
        edge_dim: Size = 2,
        edge_messages: bool = False,
    ) -> None:
        super().__init__(width, (AnchorAttention(width, heads, features) for _ in range(layers)), dropout)
        self.radius = radius
        self.edge = edge_linear(edge_dim if edge_messages else 0, width)

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Map `x [..., width]` to the same shape."""
        if self.edge is not None and graph.edge_attr is not None:
            messages = add_edges(graph.source(x), self.edge, graph.edge_attr)
            x = x + graph.aggregate([m.relu() for m in messages], "mean")
        return self.attend(x, graph, anchor_distances(graph, self.radius).to(x.device))


class PathDistance(Transformer):
    """`spdgt`: the attention of Graphormer, with one bias for all layers (see `PathBias`).

    Args:
        max_hops: from this distance on, all distances share one number.
        graph_node: whether a further node is linked to all others. Its features are the readout `token`.
    """

    def __init__(
        self,
        width: Count = 64,
        layers: Layers = 3,
        heads: Count = 4,
        max_hops: Size = 30,
        dropout: Share = 0.0,
        edge_dim: Size = 2,
        graph_node: bool = False,
    ) -> None:
        super().__init__(width, (PathAttention(width, heads) for _ in range(layers)), dropout)
        self.heads, self.readout = heads, "token" if graph_node else None
        self.bias = PathBias(heads, max_hops, edge_dim, graph_node)
        self.graph_node = nn.Parameter(0.02 * torch.randn(1, 1, width)) if graph_node else None

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Map `x [..., width]` to the same shape."""
        return self.encode(x, graph)[0]

    def encode(self, x: Tensor, graph: Graph) -> tuple[Tensor, Tensor | None]:
        """Return the nodes, and the graph node `[graphs, width]` if there is one."""
        y, mask = graph.dense(x)
        if self.graph_node is not None:
            y = torch.cat([self.graph_node.expand(len(y), -1, -1), y], dim=1)
            mask = F.pad(mask, (1, 0), value=True)
        scores = (len(y), self.heads, *mask.shape[1:], *mask.shape[1:])
        check_memory(f"attention with {' x '.join(map(str, scores))} scores", math.prod(scores), x.device)
        keys = mask | ~mask.any(-1, keepdim=True)  # the softmax of a sample without nodes would be NaN
        y = self.attend(y, self.bias(x, graph).masked_fill(~keys[:, None, None], -torch.inf))
        if self.graph_node is None:
            return graph.sparse(y), None
        return graph.sparse(y[:, 1:]), y[:, 0]


class StructureAwareAttention(nn.Module):
    """Attention whose queries and keys combine content and structure: `lsat`, or `sat` if `features` is 0.

    The structure extractor is a GNN of `hops` layers on the input of the layer, the k-subtree extractor of SAT.
    With `subgraph` it is the k-subgraph extractor: the GNN runs on the subgraph within `hops` hops of each node,
    and the sum of its output is concatenated to the features of the node (Chen et al. 2022, arXiv:2202.03036).
    """

    def __init__(
        self, width: int, heads: int, hops: int, edge_dim: int, features: int, subgraph: bool = False
    ) -> None:
        super().__init__()
        check_heads(width, heads)
        self.heads = heads
        self.convs = nn.ModuleList(MessagePassing(width, edge_dim) for _ in range(hops))
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.subgraph = subgraph
        self.structure = nn.Linear(2 * width if subgraph else width, 2 * width, bias=False)
        self.out = nn.Linear(width, width)
        size = 2 * width // heads
        self.directions: Tensor | None
        self.register_buffer("directions", orthogonal_directions(features, size) if features else None)

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Map `x [..., width]` to the same shape."""
        q, k, v, mask = self.project(x, graph)
        return self.out(graph.sparse(merge_heads(self.attend(q, k, v, mask))))

    def project(self, x: Tensor, graph: Graph) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return queries and keys `[graphs, heads, N, 2 d]`, values of width d, and the mask `[graphs, N]`."""
        s = self.extract(x, graph)
        projected, mask = graph.dense(torch.cat([self.qkv(x), self.structure(s)], dim=-1))
        q, k, v, s_q, s_k = (split_heads(part, self.heads) for part in projected.chunk(5, dim=-1))
        # The kernels divide by the square root of 2 d, but the equation divides by the square root of d.
        return torch.cat([q, s_q], dim=-1) * 2**0.25, torch.cat([k, s_k], dim=-1) * 2**0.25, v, mask

    def extract(self, x: Tensor, graph: Graph) -> Tensor:
        """Return the structure S."""
        if not self.subgraph:
            return self.norm(self.convolve(x, graph))
        if not len(x):  # no node, so no subgraph
            return torch.cat([x, x], dim=-1)
        egos, member, centre = ego_graphs(graph, x, len(self.convs))
        y, _ = graph.dense(x)
        s = self.convolve(y.flatten(0, 1)[member], egos)
        s = s.new_zeros(y.flatten(0, 1).shape).index_add(0, centre, s).view_as(y)
        return torch.cat([x, self.norm(graph.sparse(s))], dim=-1)

    def convolve(self, x: Tensor, graph: Graph) -> Tensor:
        for conv in self.convs:
            x = conv(x, graph, graph.edge_attr)[0].relu()
        return x

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """Return `[B, heads, N, d]` from the result of `project`."""
        if self.directions is None:
            # The fused kernels of torch, which store no N x N matrix, need values as wide as keys.
            return softmax_attention(q, k, F.pad(v, (0, v.shape[-1])), mask)[..., : v.shape[-1]]
        return favor_attention(q, k, v, mask, self.directions)


class AnchorAttention(nn.Module):
    """The attention of `sapdgt`. For each anchor, the weight of a key decreases with its distance from the anchor.

    The result is the mean over the anchors to which a node has a path. `slope` is the inverse softplus of -c for
    each head.
    """

    def __init__(self, width: int, heads: int, features: int) -> None:
        super().__init__()
        check_heads(width, heads)
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.slope = nn.Parameter(torch.full((heads, 1, 1), math.log(math.expm1(0.1))))
        self.out = nn.Linear(width, width)
        self.directions: Tensor
        self.register_buffer("directions", orthogonal_directions(features, width // heads))

    def forward(self, x: Tensor, graph: Graph, hops: Tensor) -> Tensor:
        """Map `x` to the same shape, given `hops` from `anchor_distances(graph, radius)`."""
        projected, mask = graph.dense(self.qkv(x))
        q, k, v = (split_heads(part, self.heads) for part in projected.chunk(3, dim=-1))
        values = v.numel() * hops.shape[-1]
        check_memory(f"attention to {mask.numel()} nodes by {hops.shape[-1]} anchors", values, x.device)
        reached = hops.isfinite().unsqueeze(1)  # [graphs, 1, N, anchors]
        # Unreachable keys get no weight. Their hops are set to 0, because inf * 0 is NaN in the slope's gradient.
        finite_hops = hops.unsqueeze(1).masked_fill(~reached, 0)
        with torch.autocast(q.device.type, enabled=False):
            phi_q, phi_k = favor_features(widen(q), widen(k), mask, self.directions)
            weights = (-F.softplus(self.slope) * finite_hops / 2).exp() * reached
            y = anchored_attention(phi_q, phi_k, widen(v), weights) * reached.unsqueeze(-1)
        y = y.sum(3) / reached.sum(3).unsqueeze(-1).clamp(min=1)
        return self.out(graph.sparse(merge_heads(y)))


class PathBias(nn.Module):
    """The attention bias of Graphormer (Ying et al. 2021, arXiv:2106.05234, equations 6 and 7).

    It has two terms. The first is a learned number for each number of hops between two nodes. The second is the
    mean over the edges of the shortest path of `e w_k`, where the weight w_k belongs to the k-th edge. If there
    are several shortest paths, it is the mean over all of them. From `max_hops` on, all distances share a number,
    and beyond it the second term is 0. Pairs without a path have a number of their own. A `graph_node` comes
    first, and all pairs with it share a number.
    """

    def __init__(self, heads: int, max_hops: int, edge_dim: int, graph_node: bool) -> None:
        super().__init__()
        self.max_hops = max_hops
        self.by_hops = nn.Parameter(0.02 * torch.randn(heads, max_hops + 2))
        shape = max_hops, edge_dim, heads
        self.by_edges = nn.Parameter(0.02 * torch.randn(shape)) if max_hops and edge_dim else None
        self.to_graph_node = nn.Parameter(0.02 * torch.randn(heads, 1, 1)) if graph_node else None

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Return the bias between all nodes of each graph, `[graphs, heads, N, N]`."""
        hops = path_distances(graph).to(x.device)
        steps = hops.clamp(max=self.max_hops).masked_fill(hops.isinf(), self.max_hops + 1).long()
        bias = self.by_hops[:, steps].transpose(0, 1)
        if self.by_edges is not None and graph.edge_attr is not None:
            bias = bias + self.along_paths(self.by_edges, x, graph, hops)
        if self.to_graph_node is None:
            return bias
        border = self.to_graph_node.expand(len(bias), -1, bias.shape[2], 1)
        corner = self.to_graph_node.expand(len(bias), -1, 1, 1)
        top = torch.cat([corner, border.transpose(2, 3)], dim=3)
        return torch.cat([top, torch.cat([border, bias], dim=3)], dim=2)

    def along_paths(self, weights: Tensor, x: Tensor, graph: Graph, hops: Tensor) -> Tensor:
        """Return the second term of the bias, given `weights [max_hops, edge_dim, heads]`."""
        attr = graph.dense_edges(x[..., :1]).attr
        assert attr is not None
        attr = attr[: len(hops)]  # samples with a common mask count as one graph
        means = mean_along_paths(graph, [attr @ weight for weight in weights], hops.shape[1])
        return means.permute(0, 3, 1, 2)


class PathAttention(HeadedAttention):
    """Softmax attention with a bias in place of the mask. The bias is `-inf` for masked keys."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """Return `[B, heads, N, d]`. `mask` is the bias `[B, heads, N, N]`."""
        return F.scaled_dot_product_attention(q, k, v, mask.to(q.dtype))


def anchored_attention(phi_q: Tensor, phi_k: Tensor, v: Tensor, weights: Tensor) -> Tensor:
    """Average the values for each anchor, with weights phi_q phi_k^T times the weights of the keys for the anchor.

    The weights multiply the values instead of phi_k, because there are usually fewer channels than features. A
    column of ones beside the values gives the denominator.

    Args:
        phi_q: features of the queries, `[B, heads, N, features]`.
        phi_k: features of the keys, `[B, heads, N, features]`.
        v: values, `[B, heads, N, d]`.
        weights: weights of the keys, `[B, heads, N, anchors]`.

    Returns:
        The averages, `[B, heads, N, anchors, d]`.
    """
    values = weights.unsqueeze(-1) * F.pad(v, (0, 1), value=1.0).unsqueeze(-2)
    sums = (phi_q @ (phi_k.transpose(-1, -2) @ values.flatten(-2))).unflatten(-1, values.shape[-2:])
    return sums[..., :-1] / sums[..., -1:].clamp(min=torch.finfo(sums.dtype).tiny)
