"""Graphs that are almost nothing, or too much, for every system: the right answer or a clear error, never NaN."""

import pytest
import torch
from torch import Tensor, nn

from sstcast.errors import SSTCastError
from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph
from sstcast.models import MODELS, build_forecaster

HISTORY, HORIZON = 7, 3
WIDTH = {"width": 16}
SYSTEMS = {name: (name, WIDTH) for name in MODELS} | {
    "mlp": ("mlp", {"hidden": 16}),
    "tfnet": ("tfnet", {"width": 4}),
    "polynormer": ("polynormer", {**WIDTH, "heads": 4, "local_layers": 2, "global_layers": 1}),
    "gps": ("gps", {**WIDTH, "layers": 2}),
    "primphormer": ("primphormer", {**WIDTH, "layers": 2}),
    "mpnn-batch": ("mpnn", {**WIDTH, "layers": 2, "norm": "batch", "conv": "gin"}),
    "gps-batch": ("gps", {**WIDTH, "layers": 2, "norm": "batch"}),
    "tokengt-orf": ("tokengt", {**WIDTH, "identifiers": "orf"}),
    "transformer-lap": ("linear-transformer", {**WIDTH, "positional": "lap"}),
    "transformer-rwse": ("linear-transformer", {**WIDTH, "positional": "rwse"}),
    "transformer-performer": ("linear-transformer", {**WIDTH, "layers": 1, "attention": "performer"}),
    "transformer-softmax": ("linear-transformer", {**WIDTH, "layers": 1, "attention": "softmax"}),
    **{
        f"mpnn-{conv}": ("mpnn", {**WIDTH, "layers": 1, "conv": conv})
        for conv in ("gin", "gine", "gcn", "sage", "gat", "gatedgcn")
    },
    **{
        f"gps-{attention}": ("gps", {**WIDTH, "layers": 1, "conv": "mean", "attention": attention})
        for attention in ("none", "performer", "bigbird", "exphormer", "primal", "linear", "deepsets")
    },
}
FREE = [label for label, (name, _) in SYSTEMS.items() if name not in {"mlp", "tfnet"}]  # of the shape of a tile
NO_EDGES = torch.zeros(2, 0, dtype=torch.long)


def make(label: str, shape: tuple[int, int] = (1, 1)) -> nn.Module:
    torch.manual_seed(0)
    name, options = SYSTEMS[label]
    return build_forecaster(name, history=HISTORY, horizon=HORIZON, shape=shape, **options)


def check(model: nn.Module, x: Tensor, graph: GridGraph | SparseGraph) -> Tensor:
    """Numbers in training and evaluation, forwards and backwards; returns those of evaluation."""
    loss = model.train()(x, graph).square().sum() + model.auxiliary_loss()
    loss.backward()
    assert torch.isfinite(loss)
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or torch.isfinite(parameter.grad).all(), name
    out = model.eval()(x, graph)
    assert out.shape == (*x.shape[:-1], HORIZON)
    assert torch.isfinite(out).all()
    return out


def sparse(edges: Tensor, sizes: list[int], attr: bool = True) -> SparseGraph:
    batch = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes, dtype=torch.long))
    return SparseGraph(edges, batch, len(sizes), torch.randn(edges.shape[1], 2) if attr else None)


def path(nodes: int) -> Tensor:
    steps = torch.stack([torch.arange(nodes - 1), torch.arange(1, nodes)])
    return torch.cat([steps, steps.flip(0)], dim=1)


@pytest.mark.parametrize("label", FREE)
@pytest.mark.parametrize("sizes", [[1], [3], [1, 4, 1]], ids=str)
def test_no_edges(label: str, sizes: list[int]) -> None:
    """Encodings and identifiers of 16 numbers ask for more eigenpairs than there are."""
    check(make(label), torch.randn(sum(sizes), HISTORY), sparse(NO_EDGES, sizes))


@pytest.mark.parametrize("label", FREE)
def test_isolated_nodes_and_loops(label: str) -> None:
    edges = torch.cat([path(4), torch.tensor([[5], [5]])], dim=1)
    check(make(label), torch.randn(8, HISTORY), sparse(edges, [7, 1]))


@pytest.mark.parametrize("label", FREE)
def test_edges_without_features(label: str) -> None:
    check(make(label), torch.randn(6, HISTORY), sparse(path(6), [6], attr=False))


@pytest.mark.parametrize("label", SYSTEMS)
def test_a_tile_of_one_node(label: str) -> None:
    check(make(label), torch.randn(2, 1, HISTORY), GridGraph(1, 1))


@pytest.mark.parametrize("label", SYSTEMS)
def test_a_tile_without_ocean_beside_one_with_little(label: str) -> None:
    mask = torch.zeros(2, 12, dtype=torch.bool)
    mask[1, 5] = True
    model, x = make(label, (3, 4)), torch.randn(2, 12, HISTORY)
    out = check(model, x, GridGraph(3, 4, mask))
    alone = model(x[1:], GridGraph(3, 4, mask[1:]))
    torch.testing.assert_close(alone[0, 5], out[1, 5], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("label", FREE)
def test_a_graph_without_nodes_beside_others(label: str) -> None:
    model, x = make(label), torch.randn(5, HISTORY)
    edges = path(5)
    graph = SparseGraph(edges, torch.tensor([1] * 5), 3, torch.randn(edges.shape[1], 2))
    out = check(model, x, graph)
    assert graph.edge_attr is not None
    alone = SparseGraph(edges, torch.zeros(5, dtype=torch.long), 1, graph.edge_attr[0])
    torch.testing.assert_close(model(x, alone), out, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("label", FREE)
@pytest.mark.parametrize("graphs", [0, 2])
def test_no_nodes_at_all(label: str, graphs: int) -> None:
    graph = SparseGraph(NO_EDGES, torch.zeros(0, dtype=torch.long), graphs, torch.zeros(0, 2))
    assert check(make(label), torch.zeros(0, HISTORY), graph).shape == (0, HORIZON)


@pytest.mark.parametrize("label", SYSTEMS)
def test_no_windows(label: str) -> None:
    graph = GridGraph(3, 4, torch.ones(0, 12, dtype=torch.bool))
    assert check(make(label, (3, 4)), torch.zeros(0, 12, HISTORY), graph).shape == (0, 12, HORIZON)


LARGE = 50_000  # nodes, for each pair of which a number in single precision takes 9.3 GiB


@pytest.mark.parametrize("name", ["spdgt", "linear-transformer", "gps"])
def test_more_nodes_than_a_quadratic_model_can_hold(name: str) -> None:
    """Dropout makes softmax attention one of these on a CPU."""
    options = {"spdgt": {}, "linear-transformer": {"dropout": 0.1}, "gps": {"attention_dropout": 0.1}}[name]
    if name == "linear-transformer":
        options["attention"] = "softmax"
    elif name == "gps":
        options["conv"] = "gcn"
    model = build_forecaster(name, history=1, horizon=1, shape=(1, 1), width=4, layers=1, heads=1, **options)
    with pytest.raises(SSTCastError, match=rf"{LARGE}.* (9\.3|37\.3) GiB"):
        model.train()(torch.zeros(LARGE, 1), sparse(path(LARGE), [LARGE]))


@pytest.mark.parametrize("options", [{"layers": -1}, {"width": 0}, {"heads": 0}, {"edge_dim": -3}])
def test_sizes_below_their_least_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(SSTCastError, match=f"model gps: {next(iter(options))}: .* is too small; give"):
        build_forecaster("gps", history=HISTORY, horizon=HORIZON, shape=(2, 2), **options)
