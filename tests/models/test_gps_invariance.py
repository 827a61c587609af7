"""What GPS with every attention, and the linear transformer with each of its own, must keep."""

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.utils import subgraph

from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph
from sstcast.models.base import Backbone
from sstcast.models.gps import GPS
from sstcast.models.transformers import LinearTransformer

H, W, D = 6, 7, 16
OPTIONS = {
    "none": {},
    "softmax": {},
    "linear": {},
    "deepsets": {},
    "performer": {"features": 24},
    "bigbird": {"block": 4, "random_blocks": 1},
    "exphormer": {"cycles": 2, "virtual_nodes": 2},
    "primal": {"rank": 5, "samples": 6},
    "primphormer": {"rank": 5, "projections": 6},
}
BY_ORDER = {"bigbird", "exphormer", "primal"}  # whose edges or samples follow the order of storage
SYSTEMS = (
    [(f"gps-{name}", lambda name=name: gps(name)) for name in OPTIONS]
    + [("gps-exphormer-gat", lambda: gps("exphormer", conv="gat"))]
    + [(f"transformer-{name}", lambda name=name: transformer(name)) for name in ("linear", "performer", "softmax")]
)


def gps(attention: str, layers: int = 2, **options: object) -> GPS:
    return GPS(D, layers, attention=attention, heads=2, attention_options=OPTIONS[attention], **options)


def transformer(attention: str) -> LinearTransformer:
    return LinearTransformer(D, 2, 2, attention, attention_options=OPTIONS[attention])


@pytest.fixture(params=[build for _, build in SYSTEMS], ids=[name for name, _ in SYSTEMS])
def model(request: pytest.FixtureRequest) -> Backbone:
    torch.manual_seed(0)
    return request.param().eval()


def make_grid(batch: int = 2) -> tuple[Tensor, GridGraph]:
    generator = torch.Generator().manual_seed(3)
    mask = torch.rand(batch, H * W, generator=generator) < 0.8
    return torch.randn(batch, H * W, D, generator=generator), GridGraph(H, W, mask)


def as_sparse(grid: GridGraph) -> SparseGraph:
    index = grid.edge_index()
    attr = torch.stack([index[0] % W - index[1] % W, index[0] // W - index[1] // W], dim=1).float()
    graphs = []
    for keep in grid.mask:
        edges, features = subgraph(keep, index, attr, relabel_nodes=True, num_nodes=H * W)
        graphs.append(Data(edge_index=edges, edge_attr=features, num_nodes=int(keep.sum())))
    return SparseGraph.from_pyg(Batch.from_data_list(graphs))


def same(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_grid_and_sparse_give_the_same(model: Backbone) -> None:
    x, graph = make_grid()
    on_grid, penalty = model(x, graph)[graph.mask], model.auxiliary_loss()
    same(on_grid, model(x[graph.mask], as_sparse(graph)))
    same(penalty, model.auxiliary_loss())


def test_land_changes_nothing(model: Backbone) -> None:
    x, graph = make_grid()
    changed = torch.where(graph.mask.unsqueeze(-1), x, 100 * torch.randn_like(x))
    same(model(changed, graph)[graph.mask], model(x, graph)[graph.mask])


def test_land_gets_no_gradient(model: Backbone) -> None:
    """Even where scores on land would overflow: an inf behind a mask is NaN on the way back."""
    x, graph = make_grid()
    x = torch.where(graph.mask.unsqueeze(-1), x, 1e4 * x).requires_grad_()
    model(x, graph)[graph.mask].square().sum().backward()
    assert torch.isfinite(x.grad).all()
    assert (x.grad[~graph.mask] == 0).all()


def test_batch_mates_change_nothing(model: Backbone) -> None:
    x, graph = make_grid(3)
    same(model(x, graph)[:1], model(x[:1], GridGraph(H, W, graph.mask[:1])))


def test_padding_changes_nothing(model: Backbone) -> None:
    """A small graph is padded to its batch's largest: alone or beside a large one, it gets the same."""
    x, grid = make_grid(1)
    grid.mask[0, H * W // 2 :] = False
    small = GridGraph(H, W, grid.mask)
    both = GridGraph(H, W, torch.cat([small.mask, torch.ones(1, H * W, dtype=torch.bool)]))
    alone = model(x[small.mask], as_sparse(small))
    together = model(torch.cat([x[small.mask], torch.randn(H * W, D)]), as_sparse(both))
    same(together[: len(alone)], alone)


@pytest.mark.parametrize("name", OPTIONS)
def test_permuting_nodes_permutes_outputs(name: str) -> None:
    torch.manual_seed(0)
    model, (x, grid) = gps(name).eval(), make_grid(1)
    graph, x = as_sparse(grid), x[grid.mask]
    order = torch.randperm(len(x))
    place = order.argsort()
    shuffled = SparseGraph(place[graph.edge_index], graph.batch, 1, graph.edge_attr[0])
    ours, theirs = model(x[order], shuffled), model(x, graph)[order]
    assert torch.allclose(ours, theirs, rtol=1e-5, atol=1e-5) == (name not in BY_ORDER)


def test_gradient_reaches_every_parameter(model: Backbone) -> None:
    x, graph = make_grid()
    loss = model.train()(x, graph)[graph.mask].square().sum() + model.auxiliary_loss()
    loss.backward()
    for parameter, value in model.named_parameters():
        assert value.grad is not None, parameter
        assert torch.isfinite(value.grad).all(), parameter
        assert value.grad.abs().sum() > 0, parameter


def test_bf16_is_finite(model: Backbone) -> None:
    x, graph = make_grid()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(10 * x, graph)
        loss = out.float()[graph.mask].square().sum() + model.auxiliary_loss()
    loss.backward()
    assert torch.isfinite(out).all()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    torch.testing.assert_close(out.float(), model(10 * x, graph), rtol=0.1, atol=0.3)


def test_compiled_gives_the_same(model: Backbone) -> None:
    x, graph = make_grid()
    torch.compiler.reset()
    same(torch.compile(model, backend="eager", fullgraph=True)(x, graph), model(x, graph))


def test_state_dict_round_trip() -> None:
    x, graph = make_grid()
    for _, build in SYSTEMS:
        one, other = build().eval(), build().eval()
        assert not torch.equal(one(x, graph), other(x, graph))
        other.load_state_dict(one.state_dict())
        assert torch.equal(one(x, graph), other(x, graph))


def test_graphs_without_edges_or_neighbours(model: Backbone) -> None:
    """A single node, alone and beside a graph; nodes without edges; a tile of land alone."""
    none = torch.empty(2, 0, dtype=torch.long)
    single = SparseGraph(none, torch.zeros(1, dtype=torch.long), 1, torch.empty(0, 2))
    isolated = SparseGraph(none, torch.tensor([0, 1, 1, 1]), 2, torch.empty(0, 2))
    x = torch.randn(4, D)
    same(model(x, isolated)[:1], model(x[:1], single))
    assert torch.isfinite(model(x, isolated)).all()
    values, grid = make_grid()
    grid.mask[1] = False
    land = model(values, GridGraph(H, W, grid.mask))
    assert torch.isfinite(land).all()
    (land.sum() + model.auxiliary_loss()).backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
