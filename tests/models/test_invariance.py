"""What every system must keep, whatever it is: one parametrised file."""

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch_geometric.data import Batch, Data
from torch_geometric.utils import subgraph

from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph
from sstcast.models import MODELS, build_forecaster

H, W, HISTORY, HORIZON = 5, 6, 7, 3
SMALL = {
    "mlp": {"hidden": 16},
    "tfnet": {"width": 4},
    "gps": {"width": 16, "layers": 2},
    "polynormer": {"width": 16, "heads": 4, "local_layers": 2, "global_layers": 1},
    "primphormer": {"width": 16, "layers": 2, "attention_options": {"rank": 5, "projections": 6}},
    "sapdgt": {"width": 16, "radius": 2},
}
EQUIVARIANT = [name for name in MODELS if name not in {"mlp", "tfnet"}]
# The signs and rotations of Laplacian identifiers are settled by the order of nodes: tested in test_tokengt.py.
UNORDERED = [name for name in EQUIVARIANT if name != "tokengt"]


def make(name: str, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    options = SMALL.get(name, {"width": 16})
    return build_forecaster(name, history=HISTORY, horizon=HORIZON, shape=(H, W), **options).eval()


def make_grid(batch: int = 2) -> tuple[Tensor, GridGraph]:
    generator = torch.Generator().manual_seed(3)
    mask = torch.rand(batch, H * W, generator=generator) < 0.8
    return torch.randn(batch, H * W, HISTORY, generator=generator), GridGraph(H, W, mask)


def as_sparse(grid: GridGraph, edge_order: Tensor | None = None) -> SparseGraph:
    """The ocean nodes of a grid as one sparse graph a sample."""
    index = grid.edge_index()
    attr = torch.stack([index[0] % W - index[1] % W, index[0] // W - index[1] // W], dim=1).float()
    graphs = []
    for keep in grid.mask:
        edges, features = subgraph(keep, index, attr, relabel_nodes=True, num_nodes=H * W)
        graphs.append(Data(edge_index=edges, edge_attr=features, num_nodes=int(keep.sum())))
    return SparseGraph.from_pyg(Batch.from_data_list(graphs))


@pytest.mark.parametrize("name", MODELS)
def test_land_changes_nothing(name: str) -> None:
    model, (x, graph) = make(name), make_grid()
    land = ~graph.mask
    assert land.any()
    changed = x.clone()
    changed[land] = 100 * torch.randn(int(land.sum()), HISTORY)
    torch.testing.assert_close(model(changed, graph)[graph.mask], model(x, graph)[graph.mask])


@pytest.mark.parametrize("name", MODELS)
def test_batch_mates_change_nothing(name: str) -> None:
    model, (x, graph) = make(name), make_grid(3)
    alone = GridGraph(H, W, graph.mask[:1])
    torch.testing.assert_close(model(x, graph)[:1], model(x[:1], alone), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", UNORDERED)
def test_grid_and_sparse_give_the_same(name: str) -> None:
    model, (x, graph) = make(name), make_grid()
    ours, theirs = model(x, graph)[graph.mask], model(x[graph.mask], as_sparse(graph))
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", UNORDERED)
def test_permuting_nodes_permutes_outputs(name: str) -> None:
    model, (x, grid) = make(name), make_grid(1)
    graph, x = as_sparse(grid), x[grid.mask]
    order = torch.randperm(len(x))
    place = torch.empty_like(order)
    place[order] = torch.arange(len(x))
    shuffled = SparseGraph(place[graph.edge_index], graph.batch, 1, graph.edge_attr[0])
    torch.testing.assert_close(model(x[order], shuffled), model(x, graph)[order], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", EQUIVARIANT)
def test_padding_changes_nothing(name: str) -> None:
    """A small graph is padded to its batch's largest: alone or beside a large one, it gets the same."""
    model, (x, grid) = make(name), make_grid(1)
    grid.mask[0, H * W // 2 :] = False
    grid = GridGraph(H, W, grid.mask)
    large = GridGraph(H, W)
    both = GridGraph(H, W, torch.cat([grid.mask, large.mask]))
    small_alone = model(x[grid.mask], as_sparse(grid))
    together = torch.cat([x[grid.mask], torch.randn(H * W, HISTORY)])
    torch.testing.assert_close(
        model(together, as_sparse(both))[: len(small_alone)], small_alone, rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("name", MODELS)
def test_seeds_decide_the_weights(name: str) -> None:
    x, graph = make_grid()
    assert torch.equal(make(name)(x, graph), make(name)(x, graph))
    assert not torch.equal(make(name)(x, graph), make(name, seed=1)(x, graph))


@pytest.mark.parametrize("name", MODELS)
def test_gradient_reaches_every_parameter(name: str) -> None:
    model, (x, graph) = make(name).train(), make_grid()
    (model(x, graph)[graph.mask].square().sum() + model.auxiliary_loss()).backward()
    for parameter, value in model.named_parameters():
        assert value.grad is not None, parameter
        assert value.grad.abs().sum() > 0, parameter


@pytest.mark.parametrize("name", MODELS)
def test_bf16_is_finite(name: str) -> None:
    model, (x, graph) = make(name), make_grid()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(10 * x, graph)
    assert torch.isfinite(out).all()
    torch.testing.assert_close(out.float(), model(10 * x, graph), rtol=0.1, atol=0.3)


@pytest.mark.parametrize("name", MODELS)
def test_state_dict_round_trip(name: str) -> None:
    x, graph = make_grid()
    other = make(name, seed=1)
    other.load_state_dict(make(name).state_dict())
    assert torch.equal(other(x, graph), make(name)(x, graph))


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # Dynamo's own, where it resumes after a break
@pytest.mark.parametrize("name", MODELS)
def test_compiled_gives_the_same(name: str) -> None:
    """Dynamo's graphs, run op by op: generating code for them would take minutes."""
    torch._dynamo.reset()
    model, (x, graph) = make(name), make_grid()
    traced = CompileCounterWithBackend("eager")
    results = []
    for call in (model, torch.compile(model, backend=traced)):
        out = call(x, graph)[graph.mask]
        loss = out.square().sum() + model.auxiliary_loss()
        results.append((out, *torch.autograd.grad(loss, list(model.parameters()))))
    assert traced.op_count > 5
    torch.testing.assert_close(*results, rtol=1e-6, atol=1e-6)
