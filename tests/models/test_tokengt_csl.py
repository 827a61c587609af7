"""TokenGT tells two graphs apart that 1-WL, and so message passing, cannot."""

import networkx as nx
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.utils import from_networkx

from sstcast.graphs.sparse import SparseGraph
from sstcast.models.mpnn import MPNN
from sstcast.models.transformers import TokenGT


def as_sparse(*graphs: nx.Graph) -> SparseGraph:
    data = [Data(edge_index=from_networkx(g).edge_index, num_nodes=len(g)) for g in graphs]
    return SparseGraph.from_pyg(Batch.from_data_list(data))


def csl(nodes: int, skip: int) -> nx.Graph:
    """Circular skip links: a ring, and from every node another edge to the one `skip` further on."""
    return nx.circulant_graph(nodes, [1, skip])


def incidence_model(nodes: int) -> TokenGT:
    """Weights under which the tokens' products, and so the output, depend on the graph alone and not on the draw.

    A token holds (P_u + P_v, type) and the same with the other sign, so that LayerNorm leaves its direction. The
    first layer moves identifiers along edges: a node's token then holds its neighbours' P as well. By the second
    layer's products a node gives weight to edges between its neighbours, and notes the types that it gives
    weight to.
    """
    half = nodes + 2
    model = TokenGT(2 * half, 2, 1, "softmax", "orf", identifier_size=nodes, edge_dim=0)
    place, kind = torch.zeros(half), torch.zeros(half)
    place[:nodes], kind[nodes:] = 1, 1
    place, kind = torch.diag(place.repeat(2)), torch.diag(kind.repeat(2))
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.fill_(1.0 if "norm" in name and name.endswith("weight") else 0.0)
        model.node_identifiers.weight[:nodes] = torch.eye(nodes).repeat(1, 2)
        model.type_identifiers[:, nodes:half] = torch.eye(2)
        model.node_identifiers.weight[half:] = -model.node_identifiers.weight[:half]
        model.type_identifiers[:, half:] = -model.type_identifiers[:, :half]
        for layer, value in zip(model.layers, (place, kind), strict=True):
            layer.attention.qkv.weight.copy_(torch.cat([place, place, value]))
            layer.attention.out.weight.copy_(torch.eye(2 * half))
    return model


def test_csl_graphs_are_told_apart_where_message_passing_cannot() -> None:
    """1-WL sees two 4-regular graphs of 11 nodes; one has triangles and the other none."""
    draws, (with_triangles, without) = 16, (csl(11, 2), csl(11, 3))
    assert (sum(nx.triangles(with_triangles).values()), sum(nx.triangles(without).values())) == (33, 0)
    model = incidence_model(11)
    mpnn = MPNN(model.width, 3, virtual_node=True, edge_dim=0)
    kind = slice(11, 13)
    x = torch.zeros(11 * draws, model.width)

    def pooled(backbone: torch.nn.Module, graph: nx.Graph, x: Tensor) -> Tensor:
        batch = as_sparse(*[graph] * draws)
        return batch.pool(backbone.train()(x, batch))

    ours = [pooled(model, graph, x)[:, kind] for graph in (with_triangles, without)]
    renumbered = nx.relabel_nodes(with_triangles, {i: 7 * i % 11 for i in range(11)})
    shuffled = nx.Graph()
    shuffled.add_nodes_from(range(11))
    shuffled.add_edges_from(renumbered.edges)
    same = pooled(model, shuffled, x)[:, kind]
    assert (ours[0].mean(0) - ours[1].mean(0)).abs().max() > 5e-4
    assert max(out.std(0).max() for out in ours) < 1e-6  # from draw to draw
    torch.testing.assert_close(ours[0].mean(0), same.mean(0), rtol=0, atol=1e-6)
    torch.testing.assert_close(
        pooled(mpnn, with_triangles, x + 1), pooled(mpnn, without, x + 1), rtol=1e-6, atol=1e-6
    )
