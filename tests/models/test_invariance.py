"""Invariances of every network, with each local layer and attention.

Land, other samples and padding change nothing, grids and edge lists agree, and almost empty graphs give finite
numbers.
"""

from typing import Any

import pytest
import torch
from small_graphs import NO_EDGES, PAIRS, land_grid, ocean_of, one_graph, path, same
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend

from sstcast.errors import SSTCastError
from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph
from sstcast.models import MODELS, build_forecaster
from sstcast.models.layers import ATTENTIONS, CONVS

H, W, HISTORY, HORIZON = 5, 6, 7, 3
SMALL = {"width": 16}
GPS = {**SMALL, "layers": 2, "heads": 2}
POLYNORMER = {**SMALL, "heads": 4, "local_layers": 2, "global_layers": 1}
FEW = {
    "performer": {"features": 24},
    "bigbird": {"block": 4, "random_blocks": 1},
    "exphormer": {"cycles": 2, "virtual_nodes": 2},
    "primal": {"rank": 5, "samples": 6},
    "primphormer": {"rank": 5, "projections": 6},
}
SYSTEMS = {name: (name, SMALL) for name in MODELS} | {
    "mlp": ("mlp", {"hidden": 16}),
    "tfnet": ("tfnet", {"width": 4}),
    "gps": ("gps", GPS),
    "primphormer": ("primphormer", {**GPS, "attention_options": FEW["primphormer"]}),
    "polynormer": ("polynormer", POLYNORMER),
    "polynormer-parallel": ("polynormer", {**POLYNORMER, "form": "local-and-global", "beta": 0.9}),
    "polynormer-gcn": ("polynormer", {**POLYNORMER, "conv": "gcn", "separate_queries": True}),
    "polynormer-local": ("polynormer", {**POLYNORMER, "global_layers": 0}),
    "polynormer-prenorm": ("polynormer", {**POLYNORMER, "pre_norm": True, "gate": "sigmoid"}),
    "sapdgt": ("sapdgt", {**SMALL, "radius": 2, "edge_messages": True}),
    "lsat-subgraph": ("lsat", {**SMALL, "extractor": "subgraph"}),
    "tokengt-orf": ("tokengt", {**SMALL, "identifiers": "orf", "attention": "softmax"}),
    "tokengt-none": ("tokengt", {**SMALL, "identifiers": "none", "attention": "performer"}),
    "mpnn-batch": ("mpnn", {**SMALL, "norm": "batch", "conv": "gin"}),
    "mpnn-gatedgcn-batch": ("mpnn", {**SMALL, "norm": "batch", "conv": "gatedgcn"}),
    "gps-gatedgcn-batch": ("gps", {**GPS, "norm": "batch", "conv_norm": "batch"}),
    "gps-batch": ("gps", {**GPS, "norm": "batch", "conv": "gat", "attention": "exphormer"}),
    **{f"mpnn-{conv}": ("mpnn-vn", {**SMALL, "conv": conv}) for conv in CONVS if conv != "mean"},
    **{
        f"gps-{kind}": ("gps", {**GPS, "attention": kind, "attention_options": FEW.get(kind, {})})
        for kind in ("none", *ATTENTIONS)
        if kind not in ("softmax", "primphormer")
    },
    **{
        f"transformer-{kind}": ("linear-transformer", {**GPS, "attention": kind})
        for kind in ("softmax", "performer")
    },
    **{f"transformer-{kind}": ("linear-transformer", {**GPS, "positional": kind}) for kind in ("lap", "rwse")},
}
FREE = [label for label, (name, _) in SYSTEMS.items() if name not in {"mlp", "tfnet"}]  # not bound to one tile
# Their edges, samples or identifiers follow the order of nodes. test_tokengt.py permutes identifiers.
BY_ORDER = {"gps-bigbird", "gps-exphormer", "gps-primal", "gps-batch", "tokengt-orf"}
# One of each kind with as few layers as it needs, because tracing takes seconds.
COMPILED = {
    "tfnet": {},
    "mpnn-vn": {"layers": 2},  # its node passes messages between layers
    "mpnn-batch": {"layers": 1},
    "mpnn-gatedgcn-batch": {"layers": 1},
    "linear-transformer": {"layers": 1},
    "primphormer": {"layers": 1},
    "polynormer": {"local_layers": 1},
    "tokengt": {"layers": 1},
    "spdgt": {"layers": 1},
}
every = pytest.mark.parametrize("label", SYSTEMS)
every_free = pytest.mark.parametrize("label", FREE)


def make(label: str, seed: int = 0, shape: tuple[int, int] = (H, W), **more: Any) -> nn.Module:
    torch.manual_seed(seed)
    name, options = SYSTEMS[label]
    return build_forecaster(name, history=HISTORY, horizon=HORIZON, shape=shape, **(options | more)).eval()


def windows(batch: int = 2) -> tuple[Tensor, GridGraph]:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(batch, H * W, HISTORY, generator=generator), land_grid(H, W, batch)


@every
def test_land_changes_nothing_and_gets_no_gradient(label: str) -> None:
    """Even if scores on land overflow: the gradient of a masked inf would be NaN."""
    model, (x, graph) = make(label), windows()
    changed = torch.where(graph.mask.unsqueeze(-1), x, 1e4 * torch.randn_like(x)).requires_grad_()
    out = model(changed, graph)[graph.mask]
    same(out, model(x, graph)[graph.mask])
    out.square().sum().backward()
    assert torch.isfinite(changed.grad).all()
    assert not changed.grad[~graph.mask].any()


@every
def test_batch_mates_change_nothing(label: str) -> None:
    model, (x, graph) = make(label), windows(3)
    same(model(x, graph)[:1], model(x[:1], GridGraph(H, W, graph.mask[:1])))


@every_free
def test_padding_changes_nothing(label: str) -> None:
    """A graph gets the same output alone as beside a larger one, to whose size it is padded."""
    model, (x, grid) = make(label), windows(1)
    grid.mask[0, H * W // 2 :] = False
    small = GridGraph(H, W, grid.mask)
    both = GridGraph(H, W, torch.cat([small.mask, torch.ones(1, H * W, dtype=torch.bool)]))
    alone = model(x[small.mask], ocean_of(small))
    together = model(torch.cat([x[small.mask], torch.randn(H * W, HISTORY)]), ocean_of(both))
    same(together[: len(alone)], alone)


@every_free
def test_grid_and_sparse_give_the_same(label: str) -> None:
    model, (x, graph) = make(label), windows()
    if label == "tokengt":  # its first identifier is of the whole grid, with a mean square of 1 over land too
        graph = GridGraph(H, W, torch.ones_like(graph.mask))
    on_grid, penalty = model(x, graph)[graph.mask], model.auxiliary_loss()
    same(on_grid, model(x[graph.mask], ocean_of(graph)))
    same(penalty, model.auxiliary_loss())


@every_free
def test_permuting_nodes_permutes_outputs(label: str) -> None:
    """Their positions are permuted with them."""
    model, (x, grid) = make(label), windows(1)
    graph, x = ocean_of(grid), x[grid.mask]
    order = torch.randperm(len(x))
    edges, (vectors, values) = order.argsort()[graph.edge_index], graph.laplacian(PAIRS)
    shuffled = SparseGraph(edges, graph.batch, 1, graph.edge_attr[0], (vectors[order], values), graph.walk[order])
    ours, theirs = model(x[order], shuffled), model(x, graph)[order]
    assert torch.allclose(ours, theirs, rtol=1e-5, atol=1e-5) == (label not in BY_ORDER)


@every
def test_seeds_decide_the_weights_and_a_state_is_all_of_them(label: str) -> None:
    (x, graph), other = windows(), make(label, seed=1)
    expected = make(label)(x, graph)
    assert not torch.equal(other(x, graph), expected)
    other.load_state_dict(make(label).state_dict())
    assert torch.equal(other(x, graph), expected)


@every
def test_gradient_reaches_every_parameter(label: str) -> None:
    model, (x, graph) = make(label).train(), windows()
    (model(x, graph)[graph.mask].square().sum() + model.auxiliary_loss()).backward()
    for parameter, value in model.named_parameters():
        assert value.grad is not None, parameter
        assert value.grad.isfinite().all(), parameter
        assert value.grad.abs().sum() > 0, parameter


@every
def test_bf16_is_finite(label: str) -> None:
    model, (x, graph) = make(label), windows()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(10 * x, graph)
        loss = out.float()[graph.mask].square().sum() + model.auxiliary_loss()
    loss.backward()
    assert torch.isfinite(out).all()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    torch.testing.assert_close(out.float(), model(10 * x, graph), rtol=0.1, atol=0.3)


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # from Dynamo itself, which resumes after a graph break
@pytest.mark.parametrize("label", COMPILED)
def test_compiled_gives_the_same(label: str) -> None:
    """Dynamo's graphs run op by op, because generating code for them would take minutes."""
    torch._dynamo.reset()
    model, (x, graph) = make(label, **COMPILED[label]).train(label == "mpnn-batch"), windows()
    traced = CompileCounterWithBackend("eager")
    results = []
    for call in (model, torch.compile(model, backend=traced)):
        out = call(x, graph)[graph.mask]
        loss = out.square().sum() + model.auxiliary_loss()
        results.append((out, *torch.autograd.grad(loss, list(model.parameters()))))
    assert traced.op_count > 5
    torch.testing.assert_close(*results, rtol=1e-6, atol=1e-6)


def check(model: nn.Module, x: Tensor, graph: GridGraph | SparseGraph) -> Tensor:
    """Check that outputs and gradients are finite in training and evaluation. Return the output of evaluation."""
    loss = model.train()(x, graph).square().sum() + model.auxiliary_loss()
    loss.backward()
    assert torch.isfinite(loss)
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or torch.isfinite(parameter.grad).all(), name
    out = model.eval()(x, graph)
    assert out.shape == (*x.shape[:-1], HORIZON)
    assert torch.isfinite(out).all()
    return out


@every_free
def test_graphs_with_little_in_them(label: str) -> None:
    """Single and isolated nodes, self-loops, no edge features, and fewer eigenpairs than encodings read."""
    loop = torch.tensor([[5], [5]])
    for edges, sizes in ((NO_EDGES, [1]), (NO_EDGES, [1, 4, 1]), (torch.cat([path(4), loop], dim=1), [7, 1])):
        batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
        graph = SparseGraph(edges, batch, len(sizes), torch.randn(edges.shape[1], 2))
        check(make(label), torch.randn(sum(sizes), HISTORY), graph)
    check(make(label), torch.randn(6, HISTORY), one_graph(path(6), 6))


@every_free
def test_graphs_without_nodes(label: str) -> None:
    """A batch of empty graphs, and empty graphs around another, whose output they do not change."""
    none = SparseGraph(NO_EDGES, torch.zeros(0, dtype=torch.long), 2, torch.zeros(0, 2))
    check(make(label), torch.zeros(0, HISTORY), none)
    model, x, attr = make(label), torch.randn(5, HISTORY), torch.randn(8, 2)
    out = check(model, x, SparseGraph(path(5), torch.tensor([1] * 5), 3, attr))
    same(model(x, one_graph(path(5), 5, attr)), out)


@every
def test_tiles_with_little_in_them(label: str) -> None:
    """A tile of one node, and a tile without ocean beside one with a single cell of it."""
    check(make(label, shape=(1, 1)), torch.randn(2, 1, HISTORY), GridGraph(1, 1))
    model, mask = make(label, shape=(3, 4)), torch.zeros(2, 12, dtype=torch.bool)
    mask[1, 5] = True
    x = torch.randn(2, 12, HISTORY)
    out = check(model, x, GridGraph(3, 4, mask))
    same(model(x[1:], GridGraph(3, 4, mask[1:]))[0, 5], out[1, 5])


LARGE = 50_000  # nodes. A float32 for each pair of them takes 9.3 GiB.


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("spdgt", {}),
        ("linear-transformer", {"dropout": 0.1, "attention": "softmax"}),
        ("gps", {"attention_dropout": 0.1, "conv": "gcn"}),
    ],
)
def test_more_nodes_than_a_quadratic_model_can_hold(name: str, options: dict[str, object]) -> None:
    """On a CPU, softmax attention with dropout is quadratic."""
    model = build_forecaster(name, history=1, horizon=1, shape=(1, 1), width=4, layers=1, heads=1, **options)
    with pytest.raises(SSTCastError, match=rf"{LARGE}.* (9\.3|37\.3) GiB"):
        model.train()(torch.zeros(LARGE, 1), one_graph(path(LARGE), LARGE))
