"""BatchNorm on grids with land and on sparse graphs, against torch's on the real nodes alone."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from sstcast.errors import SSTCastError
from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph
from sstcast.models import build_model
from sstcast.models.norms import BatchNorm

D = 6


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def pair() -> tuple[BatchNorm, nn.BatchNorm1d]:
    ours, theirs = BatchNorm(D), nn.BatchNorm1d(D)
    nn.init.normal_(ours.weight)
    nn.init.normal_(ours.bias)
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


@pytest.mark.parametrize("shared", [False, True], ids=["a mask each", "one mask for all"])
def test_only_the_ocean_counts(shared: bool) -> None:
    """Three steps of training and then evaluation: outputs, gradients and running statistics."""
    ours, theirs = pair()
    mask = torch.rand(1 if shared else 4, 30) < 0.6
    ocean = mask.expand(4, -1)
    for step in range(4):
        if step == 3:
            ours.eval()
            theirs.eval()
        x = (3 + 2 * torch.randn(4, 30, D)).masked_fill(~ocean.unsqueeze(-1), 1e6).requires_grad_()
        rows = x.detach()[ocean].requires_grad_()
        found, expected, pull = ours(x, mask)[ocean], theirs(rows), torch.randn(int(ocean.sum()), D)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        (found * pull).sum().backward()
        (expected * pull).sum().backward()
        torch.testing.assert_close(x.grad[ocean], rows.grad, rtol=1e-4, atol=1e-5)
        assert not x.grad[~ocean].any()
        for (name, mine), other in zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6, msg=name)
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad, rtol=1e-4, atol=1e-4)


def test_all_rows_of_a_sparse_graph_count() -> None:
    ours, theirs = pair()
    x = torch.randn(9, D)
    assert torch.equal(ours(x), theirs(x))
    assert torch.equal(ours.eval()(x), theirs.eval()(x))


@pytest.mark.parametrize("nodes", [0, 1])
def test_a_single_node_has_no_variance(nodes: int) -> None:
    """Then the running statistics are used, and stay as they are, on a sparse graph as in a single ocean cell."""
    ours, _ = pair()
    ours.running_mean.normal_()
    ours.running_var.uniform_(1, 2)
    before = {name: ours.state_dict()[name].clone() for name in ("running_mean", "running_var")}
    mask = torch.arange(12).reshape(2, 6) < nodes
    x = torch.randn(2, 6, D)
    expected = nn.functional.batch_norm(x[mask], *before.values(), ours.weight, ours.bias)
    torch.testing.assert_close(ours(x, mask)[mask], expected)
    torch.testing.assert_close(ours(x[mask]), expected)
    for name, value in before.items():
        assert torch.equal(ours.state_dict()[name], value), name


def test_bf16_is_normalised_in_single_precision() -> None:
    ours, theirs = pair()
    mask = torch.rand(2, 40) < 0.7
    x = (100 + torch.randn(2, 40, D)).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = ours(x, mask)[mask]
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), theirs(x[mask].float()), rtol=0.02, atol=0.02)


def test_compiled_it_is_the_same() -> None:
    plain, _ = pair()
    other = BatchNorm(D)
    other.load_state_dict(plain.state_dict())
    compiled = torch.compile(other, backend="aot_eager", fullgraph=True)
    mask = torch.rand(2, 20) < 0.7
    for _ in range(2):
        x = torch.randn(2, 20, D)
        torch.testing.assert_close(compiled(x, mask), plain(x, mask))
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(other.state_dict()[name], value, msg=name)


def trained(name: str, **options: object) -> nn.Module:
    """A model whose running statistics are not the first ones."""
    model = build_model(name, width=8, layers=2, norm="batch", edge_dim=0, **options)
    norms = [part for part in model.modules() if isinstance(part, BatchNorm)]
    assert norms
    for norm in norms:
        nn.init.normal_(norm.running_mean)
        nn.init.uniform_(norm.running_var, 0.5, 2)
    return model.eval()


MODELS: list[tuple[str, dict[str, object]]] = [
    *(("mpnn", {"conv": conv}) for conv in ("mean", "gin", "gcn", "sage", "gat")),
    ("mpnn", {"conv": "gine", "virtual_node": True}),
    ("gps", {"conv": "sage", "heads": 2}),
]


@pytest.mark.parametrize(("name", "options"), MODELS)
def test_a_graph_does_not_depend_on_its_batch_mates(name: str, options: dict[str, object]) -> None:
    model = trained(name, **options)
    ring, path = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), torch.tensor([[4, 5], [5, 6]])
    both = SparseGraph(torch.cat([ring, path], dim=1), torch.tensor([0, 0, 0, 0, 1, 1, 1]), 2)
    x = torch.randn(7, 8)
    alone = model(x[:4], SparseGraph(ring, torch.zeros(4, dtype=torch.long), 1))
    torch.testing.assert_close(model(x, both)[:4], alone)


@pytest.mark.parametrize(("name", "options"), MODELS)
def test_grid_and_sparse_train_alike(name: str, options: dict[str, object], sparse_of: Callable) -> None:
    """A step of training on the ocean of a grid: whatever is on land, the outputs and statistics are the same."""
    model, mask = trained(name, **options).train(), torch.rand(2, 20) < 0.7
    other = build_model(name, width=8, layers=2, norm="batch", edge_dim=0, **options)
    other.load_state_dict(model.state_dict())
    x = torch.randn(2, 20, 8)
    land = x.masked_fill(~mask.unsqueeze(-1), 1e3)
    found = model(land, GridGraph(4, 5, mask))[mask]
    torch.testing.assert_close(found, other(x[mask], sparse_of(mask)), rtol=1e-4, atol=1e-4)
    for part, value in other.state_dict().items():
        torch.testing.assert_close(model.state_dict()[part], value, rtol=1e-4, atol=1e-4, msg=part)


@pytest.fixture
def sparse_of() -> Callable[[Tensor], SparseGraph]:
    def make(mask: Tensor) -> SparseGraph:
        index = GridGraph(4, 5).edge_index()
        place = mask.flatten().cumsum(0) - 1
        edges = [index[:, keep[index].all(0)] + 20 * i for i, keep in enumerate(mask)]
        batch = torch.arange(len(mask)).repeat_interleave(mask.sum(1))
        return SparseGraph(place[torch.cat(edges, dim=1)], batch, len(mask))

    return make


@pytest.mark.parametrize("wrong", [{"norm": "batch"}, {"activation": "gelu"}, {"residual": False}])
def test_a_layer_that_has_its_own_refuses_others(wrong: dict[str, object]) -> None:
    with pytest.raises(SSTCastError, match="conv gatedgcn: has its own norm, activation and residual"):
        build_model("mpnn", conv="gatedgcn", **wrong)
    with pytest.raises(SSTCastError, match=r"norm: .*no 'btach'; did you mean 'batch'"):
        build_model("mpnn", norm="btach")
