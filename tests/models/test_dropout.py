"""Where dropout acts in training: equations that draw the same masks, in the order in which they apply them."""

from collections.abc import Callable

import pytest
import torch
from small_graphs import one_graph
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.utils import scatter

from sstcast.models.attention import OnGraph
from sstcast.models.gps import GPS
from sstcast.models.layers import build_attention
from sstcast.models.mlp import PointwiseMLP
from sstcast.models.mpnn import MPNN
from sstcast.models.polynormer import Polynormer
from sstcast.models.primphormer import PrimphormerAttention
from sstcast.models.transformers import TokenGT

NODES, WIDTH, LAYERS, HEADS = 7, 8, 2, 2
GRAPH = one_graph(torch.tensor([[0, 1, 2, 0, 3, 4, 4, 5], [1, 0, 1, 2, 2, 0, 3, 6]]), NODES)
LOCAL, GLOBAL = 0.3, 0.6


def drop(x: Tensor, share: float = LOCAL) -> Tensor:
    return F.dropout(x, share, training=True)


def mlp(model: PointwiseMLP, x: Tensor) -> Tensor:
    for linear, norm, _, _ in model.layers:
        x = x + drop(norm(linear(x)).relu())
    return x


def mpnn(model: MPNN, x: Tensor) -> Tensor:
    for conv, norm in zip(model.convs, model.norms, strict=True):
        x = x + drop(norm(conv(x, GRAPH, None)[0]).relu())
    return x


def gatedgcn(model: MPNN, x: Tensor) -> Tensor:
    """Nodes and edges of Bresson and Laurent's layers, see `sstcast.models.convs`."""
    (source, target), edges = GRAPH.edge_index, model.edge_encoder(torch.ones(GRAPH.edge_index.shape[1], 1))
    for layer in model.convs:
        score = layer.target(x[target]) + layer.source(x[source]) + layer.edge(edges)
        gate = score.sigmoid()
        total = scatter(gate * layer.neighbor(x[source]), target, dim_size=NODES)
        mean = total / (scatter(gate, target, dim_size=NODES) + 1e-6)
        x = x + drop(layer.node_norm(layer.own(x) + mean).relu())
        if layer.edge_norm is not None:
            edges = edges + drop(layer.edge_norm(score).relu())
    return x


def perceptron(net: nn.Sequential, x: Tensor) -> Tensor:
    first, last = (module for module in net if isinstance(module, nn.Linear))
    return drop(last(drop(first(x).relu())))


def gps(model: GPS, x: Tensor) -> Tensor:
    """Primphormer, Algorithm 2, lines 8 and 9."""
    for layer in model.layers:
        local = layer.conv_norm(x + drop(layer.conv(x, GRAPH, None)[0]))
        y = local + layer.attention_norm(x + drop(layer.attention(x, GRAPH, None, None)[0]))
        x = layer.norm(y + perceptron(layer.feed_forward, y))
    return x


def tokengt(model: TokenGT, x: Tensor) -> Tensor:
    tokens, mask = model.embed(x, GRAPH, x[:, :0])
    for layer in model.layers:
        tokens = tokens + drop(layer.attention(layer.attention_norm(tokens), mask))
        tokens = tokens + perceptron(layer.feed_forward, layer.feed_forward_norm(tokens))
    return model.norm(tokens)[0, 1 : 1 + NODES]


def polynormer(model: Polynormer, x: Tensor) -> Tensor:
    """Equation 17 in the local layers, with the dropouts of the released code."""
    x, total = drop(x), torch.zeros(NODES, WIDTH)
    for layer in model.local_layers:
        y, beta = drop((layer.conv(x, GRAPH, None)[0] + layer.root(x)).relu()), layer.beta.value.sigmoid()
        x = (1 - beta) * layer.norm(layer.gate(x).relu() * y) + beta * y
        total = total + x
    x = model.norm(total)
    for layer in model.global_layers:
        x = drop(model.out(layer(x, GRAPH, None)).relu(), GLOBAL)
    return x


def parallel(model: Polynormer, x: Tensor) -> Tensor:
    x = drop(x)
    for layer in model.local_layers:
        x = drop(layer(x, GRAPH, None).relu())
    return x


SIZES = {"width": WIDTH, "edge_dim": 0, "dropout": LOCAL}
POLYNORMER = {**SIZES, "local_layers": LAYERS, "global_layers": LAYERS, "heads": HEADS, "global_dropout": GLOBAL}
BACKBONES: dict[str, tuple[Callable[[], nn.Module], Callable[..., Tensor]]] = {
    "mlp-pointwise": (lambda: PointwiseMLP(WIDTH, LAYERS, LOCAL), mlp),
    "mpnn": (lambda: MPNN(layers=LAYERS, **SIZES), mpnn),
    "gatedgcn": (lambda: MPNN(layers=LAYERS, conv="gatedgcn", **SIZES), gatedgcn),
    "gps": (lambda: GPS(layers=LAYERS, conv="mean", heads=HEADS, attention_dropout=GLOBAL, **SIZES), gps),
    "tokengt": (lambda: TokenGT(layers=LAYERS, heads=HEADS, identifiers="none", **SIZES), tokengt),
    "polynormer": (lambda: Polynormer(**POLYNORMER), polynormer),
    "polynormer, local and global": (lambda: Polynormer(form="local-and-global", **POLYNORMER), parallel),
}


@pytest.mark.parametrize("name", BACKBONES)
def test_backbones_by_their_equations(name: str) -> None:
    build, equation = BACKBONES[name]
    model, x = build(), torch.randn(NODES, WIDTH)
    torch.manual_seed(1)
    out = model(x, GRAPH)
    torch.manual_seed(1)
    torch.testing.assert_close(out, equation(model, x))


def heads_of(x: Tensor) -> Tensor:
    """`[N, HEADS * d]` to `[1, HEADS, N, d]`."""
    return x.view(1, NODES, HEADS, -1).transpose(1, 2)


def softmax(layer: nn.Module, x: Tensor) -> Tensor:
    q, k, v = (heads_of(part) for part in layer.qkv(x).chunk(3, dim=-1))
    weights = drop((q @ k.transpose(2, 3) / (WIDTH // HEADS) ** 0.5).softmax(-1))
    return layer.out((weights @ v).transpose(1, 2).reshape(NODES, WIDTH))


def linear(layer: nn.Module, x: Tensor) -> Tensor:
    q, k, v = (heads_of(part) for part in layer.qkv(x).chunk(3, dim=-1))
    weights = (F.elu(q) + 1) @ (F.elu(k) + 1).transpose(2, 3)
    y = drop(weights / weights.sum(-1, keepdim=True) @ v)
    return layer.out(y.transpose(1, 2).reshape(NODES, WIDTH))


def deepsets(layer: nn.Module, x: Tensor) -> Tensor:
    return drop(layer.norm(layer.each(x) + layer.mean(x.mean(0, keepdim=True))).relu())


def primphormer(layer: PrimphormerAttention, x: Tensor) -> Tensor:
    """Equation 2.5. The dropout acts on the scores, before the output map."""
    f = layer.basis + layer.virtual(x.mean(0)).unsqueeze(1)
    phi = F.normalize(layer.qk(x).view(NODES, 2, HEADS, -1), dim=-1).unbind(1)
    scores = [torch.einsum("sn,nhd,ihd->ihs", f, *pair) for pair in zip((layer.w_e, layer.w_r), phi, strict=True)]
    return layer.compose(drop(torch.cat(scores, dim=-1))).flatten(-2)


ATTENTIONS: dict[str, Callable[..., Tensor]] = {
    "softmax": softmax,
    "linear": linear,
    "deepsets": deepsets,
    "primphormer": primphormer,
}


@pytest.mark.parametrize("name", ATTENTIONS)
def test_attentions_by_their_equations(name: str) -> None:
    layer, x = build_attention(name, width=WIDTH, heads=HEADS, dropout=LOCAL), torch.randn(NODES, WIDTH)
    whole = layer if name == "primphormer" else OnGraph(layer)
    torch.manual_seed(1)
    out, _ = whole(x, GRAPH, None, None)
    torch.manual_seed(1)
    torch.testing.assert_close(out, ATTENTIONS[name](layer, x))
