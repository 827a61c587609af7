"""The degree of Polynormer (Theorem 3.3), and its layers against their equations."""

import math

import networkx as nx
import numpy as np
import pytest
import torch
from small_graphs import as_sparse, land_grid, one_graph, path
from torch import Tensor, nn
from torch_geometric import nn as pyg

from sstcast.errors import SSTCastError
from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph
from sstcast.models.convs import GCN
from sstcast.models.polynormer import GateName, GlobalLayer, LocalLayer, Mixture, ParallelLayer, Polynormer
from studies.global_attention import attention_map, attention_weights

H, W, D = 3, 4, 8


def base_model(local_layers: int, global_layers: int) -> Polynormer:
    """Return a model without norms and activations, whose attention does not depend on the features."""
    model = Polynormer(D, local_layers, global_layers, heads=2, relu=False).double()
    model.norm = nn.Identity()
    for layer in (*model.local_layers, *model.global_layers):
        layer.norm = nn.Identity()
    for layer in model.local_layers:
        nn.init.zeros_(layer.conv.attend_source)
        nn.init.zeros_(layer.conv.attend_target)
    for layer in model.global_layers:
        nn.init.zeros_(layer.key.weight)
    model.global_attention = global_layers > 0
    return model


@torch.no_grad()
@pytest.mark.parametrize(("local_layers", "global_layers"), [(1, 0), (2, 0), (3, 0), (1, 1), (1, 2), (2, 1)])
def test_layers_double_the_degree(local_layers: int, global_layers: int) -> None:
    """Theorem 3.3: along a line, the output is a polynomial of degree 2^L.

    So its differences of order 2^L in steps of s are constant, 2^L! s^(2^L) times the leading coefficient, and
    those of the next order are 0.
    """
    model, degree = base_model(local_layers, global_layers), 2 ** (local_layers + global_layers)
    graph, (start, way) = GridGraph(H, W), torch.randn(2, 1, H * W, D).double()
    graph.edge_attr = [e.double() for e in graph.edge_attr]
    steps = torch.linspace(-4, 4, degree + 3, dtype=torch.float64)
    values = torch.cat([model(start + t * way, graph) for t in steps])
    differences = values
    for _ in range(degree):
        differences = differences.diff(dim=0)
    scale = differences.abs().amax()
    leading = differences[0] / math.factorial(degree) / float(steps[1] - steps[0]) ** degree
    assert leading.abs().amax() > 1e-9 * values.abs().amax()
    torch.testing.assert_close(
        differences, differences[:1].expand_as(differences), atol=float(1e-7 * scale), rtol=0
    )
    far = model(start + 1e4 * way, graph)[0]
    torch.testing.assert_close(far / 1e4**degree, leading, atol=float(1e-2 * leading.abs().amax()), rtol=0)


EDGES = torch.tensor([[0, 1, 2, 3, 0], [1, 0, 1, 2, 3]])


def pyg_gat(conv: nn.Module, heads: int) -> pyg.GATConv:
    attention = pyg.GATConv(D, D // heads, heads, bias=False).to(conv.linear.weight.dtype)
    attention.lin.weight.data.copy_(conv.linear.weight)
    attention.att_src.data.copy_(conv.attend_source[None])
    attention.att_dst.data.copy_(conv.attend_target[None])
    return attention


@torch.no_grad()
@pytest.mark.parametrize("gate", ["activation", "sigmoid"])
def test_local_layer_by_equation_7(gate: GateName) -> None:
    """`A V * (H + sigmoid(beta))`, or with a sigmoid of H.

    Biases, W x and the norm are off, and so is the factor 1 - beta, which comes with the norm (equation 17).
    """
    layer = LocalLayer(D, 2, nn.Identity(), Mixture(D, None, 1), 0.0, False, 0, gate).double()
    for extra in (layer.gate.bias, layer.root.weight, layer.root.bias):
        nn.init.zeros_(extra)
    x, beta = torch.randn(5, D).double(), layer.beta.value.sigmoid()
    layer.norm = nn.Linear(D, D, bias=False).double()
    layer.norm.weight.copy_(torch.diag(1 / (1 - beta)))
    h = x @ layer.gate.weight.T
    expected = pyg_gat(layer.conv, 2)(x, EDGES) * ((h.sigmoid() if gate == "sigmoid" else h) + beta)
    torch.testing.assert_close(layer(x, one_graph(EDGES, 5), None), expected)


@torch.no_grad()
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("gate", ["activation", "sigmoid"])
def test_local_layer_by_equation_17(gate: GateName, pre_norm: bool, relu: bool) -> None:
    """With W x, biases and, in Polynormer-r, ReLU, as in the released code, and so is the norm before all else."""
    act = nn.ReLU() if relu else nn.Identity()
    layer = LocalLayer(D, 2, act, Mixture(D, None, 1), 0.0, pre_norm, 0, gate).double()
    whole = 1 + 2 * torch.randn(5, D).double()
    x = nn.functional.layer_norm(whole, (D,)) if pre_norm else whole
    h = x @ layer.gate.weight.T + layer.gate.bias
    y = act(pyg_gat(layer.conv, 2)(x, EDGES) + x @ layer.root.weight.T + layer.root.bias)
    product, beta = (h.sigmoid() if gate == "sigmoid" else act(h)) * y, layer.beta.value.sigmoid()
    expected = (1 - beta) * nn.functional.layer_norm(product, (D,)) + beta * y
    torch.testing.assert_close(layer(whole, one_graph(EDGES, 5), None), expected)


@torch.no_grad()
def test_local_layer_with_gcn() -> None:
    """Appendix H.2: GCN for GAT in equation 17. It has a self-loop at each node."""
    layer, x = LocalLayer(D, 2, nn.ReLU(), Mixture(D, None, 1), 0.0, False, 3, conv="gcn"), torch.randn(5, D)
    nn.init.normal_(layer.conv.bias)
    conv = pyg.GCNConv(D, D)
    conv.lin.weight.copy_(layer.conv.linear.weight)
    conv.bias.copy_(layer.conv.bias)
    h, y = layer.gate(x).relu(), (conv(x, EDGES) + layer.root(x)).relu()
    beta = layer.beta.value.sigmoid()
    expected = (1 - beta) * nn.functional.layer_norm(h * y, (D,)) + beta * y
    torch.testing.assert_close(layer(x, one_graph(EDGES, 5, torch.randn(5, 3)), None), expected)
    assert all(isinstance(part.conv, GCN) for part in Polynormer(D, 2, conv="gcn").local_layers)
    with pytest.raises(SSTCastError, match=r"model\.conv: base has no gcn"):
        Polynormer(D, form="base", nodes=3, conv="gcn")


@torch.no_grad()
def test_without_global_layers_the_sum_of_the_local_ones_is_the_result() -> None:
    """Figure 3, local attention alone: no norm, and no weights of a global stage."""
    model, grid, x = Polynormer(D, 2, 0, 2), land_grid(H, W), torch.randn(2, H * W, D)
    first = model.local_layers[0](x, grid, None)
    torch.testing.assert_close(model(x, grid), first + model.local_layers[1](first, grid, None))
    whole = Polynormer(D, 2, 2, 2)
    whole.load_state_dict(model.state_dict(), strict=False)
    whole.enter("local")
    assert torch.equal(whole(x, grid), model(x, grid))
    assert {name.split(".")[0] for name, _ in model.named_parameters()} == {"local_layers"}


@torch.no_grad()
def test_the_shift_of_the_base_model_gives_lower_degrees() -> None:
    """Appendix B: along a ray, the output has the degrees 1 to 2^L with B, and only 2^L without."""
    x = torch.randn(1, H * W, D).double()
    rays = np.linspace(-1, 1, 9)
    for shift, lower in ((0.0, False), (1.0, True)):
        model = Polynormer(D, 2, heads=2, form="base", nodes=H * W).double()
        for layer in model.local_layers:
            nn.init.constant_(layer.shift, shift)
        values = np.stack([model(t * x, GridGraph(H, W)).flatten().numpy() for t in rays])
        sizes = np.abs(np.polynomial.polynomial.polyfit(rays, values, 6)).max(1)
        present = sizes > 1e-9 * sizes.max()
        assert present.tolist() == [False, lower, lower, lower, True, False, False]


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("separate", [False, True])
def test_global_layer_by_its_equation(heads: int, separate: bool) -> None:
    """Each head weighs all real nodes j by q_i k_j. Queries have the weights of keys or their own (equation 6)."""
    layer, grid = GlobalLayer(D, heads, Mixture(D, 0.7, 1), separate), land_grid(H, W)
    asks = layer.query if separate else layer.key
    x, size = torch.randn(2, H * W, D), D // heads
    out, shown = layer(x, grid, None), attention_weights(layer, x, grid)
    for sample, mask in zip(range(2), grid.mask, strict=True):
        q, k, v = (
            asks(x[sample, mask]).sigmoid(),
            layer.key(x[sample, mask]).sigmoid(),
            layer.value(x[sample, mask]),
        )
        mixed = []
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            weights = q[:, part] @ k[:, part].T
            weights = weights / weights.sum(1, keepdim=True)
            torch.testing.assert_close(shown[sample, head][mask][:, mask], weights)
            mixed.append(weights @ v[:, part])
        expected = layer.norm(torch.cat(mixed, dim=1)) * (layer.gate(x[sample, mask]) + 0.7)
        torch.testing.assert_close(out[sample, mask], expected, rtol=1e-5, atol=1e-5)


def pieces() -> SparseGraph:
    return as_sparse(nx.path_graph(5), nx.cycle_graph(4))


def test_local_and_global_by_equation_15() -> None:
    graph, x, heads = pieces(), torch.randn(9, D), 2
    layer = ParallelLayer(D, heads, Mixture(D, None, 1), 0)
    layer.norm = nn.Identity()
    local = pyg_gat(layer.conv, heads)(x, graph.edge_index)
    q, k, v = layer.query(x).sigmoid(), layer.key(x).sigmoid(), x @ layer.conv.linear.weight.T
    expected = torch.zeros(9, D)
    for own in (slice(0, 5), slice(5, 9)):
        for part in (slice(0, D // 2), slice(D // 2, D)):
            weights = q[own, part] @ k[own, part].T
            expected[own, part] = weights / weights.sum(1, keepdim=True) @ v[own, part]
    expected = (expected + local) * (layer.gate(x) + layer.beta.value.sigmoid())
    torch.testing.assert_close(layer(x, graph, None), expected)
    model = Polynormer(D, 2, 2, heads, form="local-and-global", edge_dim=0)
    first, second = model.local_layers
    chained = second(first(x, graph, None).relu(), graph, None).relu()
    torch.testing.assert_close(model(x, graph), chained)
    assert model.stages == ()


def test_base_form_by_equation_4() -> None:
    model = Polynormer(D, 2, heads=2, form="base", nodes=H * W)
    for layer in model.local_layers:
        nn.init.normal_(layer.shift)
    x = torch.randn(3, H * W, D)
    expected = x
    for layer in model.local_layers:
        expected = torch.einsum("ij,bjd->bid", layer.weight, expected) * (expected + layer.shift)
    torch.testing.assert_close(model(x, GridGraph(H, W)), expected)
    with pytest.raises(SSTCastError, match=r"model\.nodes: 12, but a graph has 20"):
        model(torch.randn(1, 20, D), GridGraph(4, 5))
    with pytest.raises(SSTCastError, match="base has a weight for each pair"):
        Polynormer(D, form="base")


@pytest.mark.parametrize("beta", [None, 0.7])
def test_v2_by_equation_19(beta: float | None) -> None:
    """Beta is multiplied by the second eigenvector, here of a path, computed with networkx."""
    graph = one_graph(path(5), 5)
    laplacian = nx.normalized_laplacian_matrix(nx.path_graph(5)).toarray()
    vector = np.linalg.eigh(laplacian)[1][:, 1] * 5**0.5
    place = graph.laplacian(1)[0]
    np.testing.assert_allclose(place.flatten().abs().numpy(), np.abs(vector), atol=1e-5)

    model, x = Polynormer(D, 1, 1, 2, beta=beta, edge_dim=0, eigenvector=True), torch.randn(5, D)
    assert model.eigenpairs == 1
    local, whole = model.local_layers[0], model.global_layers[0]
    product = local.beta.value * place
    mixture = product.sigmoid() if beta is None else product
    h, y = local.gate(x).relu(), (pyg_gat(local.conv, 2)(x, graph.edge_index) + local.root(x)).relu()
    expected = (1 - mixture) * local.norm(h * y) + mixture * y
    torch.testing.assert_close(local(x, graph, place), expected)
    inner = model.norm(expected)
    product = whole.beta.value * place
    mixture = product.sigmoid() if beta is None else product
    weights = attention_weights(whole, inner, graph)[0]
    mixed = (weights @ whole.value(inner).reshape(5, 2, -1).transpose(0, 1)).transpose(0, 1).reshape(5, D)
    last = model.out(whole.norm(mixed) * (whole.gate(inner) + mixture)).relu()
    torch.testing.assert_close(model(x, graph), last)


def test_attention_map_is_that_of_the_last_layer() -> None:
    model, graph, x = Polynormer(D, 1, 2, 2, edge_dim=0), pieces(), torch.randn(9, D)
    shown = attention_map(model, x, graph)
    assert shown.shape == (2, 2, 5, 5)
    torch.testing.assert_close(shown.sum(-1), torch.ones(2, 2, 5))
    assert not shown[1, :, :, 4].any()
    first = model.global_layers[0](model.norm(model.local_layers[0](x, graph, None)), graph, None)
    torch.testing.assert_close(shown, attention_weights(model.global_layers[1], model.out(first).relu(), graph))


def test_weights_start_as_released() -> None:
    """From Glorot's distribution for GAT and for the betas of all layers together. A given beta is exact."""
    model = Polynormer(512, 7, 2, 8, edge_dim=0)
    for layer in model.local_layers:
        assert layer.conv.linear.weight.std().item() == pytest.approx((2 / 1024) ** 0.5, rel=0.02)
    betas = torch.stack([layer.beta.value for layer in model.local_layers])
    assert betas.std().item() == pytest.approx((2 / 519) ** 0.5, rel=0.05)
    assert torch.equal(Mixture(5, 0.4, 3).value, torch.full((5,), 0.4))


def test_warm_up_trains_the_local_layers_alone() -> None:
    model, grid = Polynormer(D, 2, 2, 4), land_grid(H, W)
    x = torch.randn(2, H * W, D)
    model.global_attention = False
    local: list[Tensor] = [model.local_layers[0](x, grid, None)]
    local.append(model.local_layers[1](local[0], grid, None))
    torch.testing.assert_close(model(x, grid), local[0] + local[1])
    model(x, grid).sum().backward()
    assert {name.split(".")[0] for name, p in model.named_parameters() if p.grad is not None} == {"local_layers"}


@torch.no_grad()
def test_v2_tells_graphs_apart_that_v1_does_not() -> None:
    """Figure 6: two local layers on CSL graphs with ones as features and a random walk as attention.

    Two eigenvectors have the same eigenvalue. A mean over the 41 nodes is the same for both, so it does not
    depend on the numbering of nodes.
    """

    def shown(skip: int, numbering: int, eigenvector: bool) -> float:
        torch.manual_seed(0)
        model = Polynormer(D, 2, 1, 1, edge_dim=0, relu=False, eigenvector=eigenvector).double()
        model.enter("local")
        for layer in model.local_layers:
            layer.norm = nn.Identity()
            nn.init.constant_(layer.beta.value, 1.5)
            for end in (layer.conv.attend_source, layer.conv.attend_target):
                nn.init.zeros_(end)
        order = np.random.default_rng(numbering).permutation(41)
        edges = np.array([(order[i], order[(i + step) % 41]) for i in range(41) for step in (1, skip)]).T
        index = torch.from_numpy(np.concatenate([edges, edges[::-1]], axis=1))
        return float(model(torch.ones(41, D).double(), one_graph(index, 41)).norm(dim=1).square().mean())

    skips = (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)
    first, second = (np.array([[shown(skip, n, v2) for n in range(2)] for skip in skips]) for v2 in (False, True))
    np.testing.assert_allclose(first, first[0, 0], rtol=1e-10)
    within = np.abs(np.diff(second, axis=1)).flatten()
    assert (
        np.delete(within, skips.index(9)).max() < 1e-6
    )  # with skip 9, four eigenvectors have the same eigenvalue
    assert np.diff(np.sort(second[:, 0])).min() > 1e-3
