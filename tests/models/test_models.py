import pytest
import torch
from torch import nn

from sstcast.errors import SSTCastError
from sstcast.graphs.grid import GridGraph
from sstcast.models import build_forecaster, build_model
from sstcast.models.convs import MessagePassing
from sstcast.models.mpnn import MPNN


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("mpn", {}, ["model.name", "did you mean 'mpnn'"]),
        ("mpnn", {"widht": 8}, ["widht", "did you mean 'width'"]),
        ("mpnn", {"width": "wide"}, ["width", "integer"]),
        ("gps", {"layers": -1}, ["model gps: layers: -1 is too small; give 0"]),
        ("gps", {"width": 0}, ["model gps: width: 0 is too small; give 1"]),
        ("gps", {"edge_dim": -1}, ["model gps: edge_dim: -1 is too small; give 0 or more"]),
    ],
)
def test_wrong_names_and_options(name: str, options: dict[str, object], words: list[str]) -> None:
    with pytest.raises(SSTCastError) as error:
        build_model(name, **options)
    for word in words:
        assert word in str(error.value)


def test_options_of_the_forecaster() -> None:
    sizes = {"history": 7, "horizon": 3, "shape": (4, 5)}
    assert build_forecaster("mpnn", **sizes, width=8).position is None
    assert build_forecaster("mpnn", **sizes, width=8, positional="rwse").position is not None
    with pytest.raises(SSTCastError, match="positional"):
        build_forecaster("mpnn", **sizes, positional="rwsee")
    with pytest.raises(SSTCastError, match="positional: unknown key"):
        build_forecaster("tfnet", **sizes, positional="lap")


def test_message_passing_by_its_equation() -> None:
    torch.manual_seed(0)
    layer, graph, x = MessagePassing(4), GridGraph(3, 4), torch.randn(1, 12, 4)
    out, _ = layer(x, graph, graph.edge_attr)
    for i in range(12):
        messages = []
        for j in range(12):
            dy, dx = j // 4 - i // 4, j % 4 - i % 4
            if i != j and max(abs(dy), abs(dx)) == 1:
                e = layer.edge.weight @ torch.tensor([float(dx), float(dy)])
                messages.append((layer.neighbor(x[0, j]) + e).relu())
        torch.testing.assert_close(out[0, i], layer.root(x[0, i]) + torch.stack(messages).mean(0))


@torch.no_grad()
def test_the_virtual_node_by_its_equation() -> None:
    """After each layer but the last, vn <- vn + MLP(mean of nodes + vn); each layer first adds it to its nodes."""
    torch.manual_seed(0)
    model, graph, x = MPNN(8, 4, virtual_node=True), GridGraph(4, 5), torch.randn(1, 20, 8)
    y, vn = x, torch.zeros(1, 1, 8)
    for layer, (conv, norm) in enumerate(zip(model.convs, model.norms, strict=True)):
        y = y + vn
        y = y + norm(conv(y, graph, graph.edge_attr)[0], graph.mask).relu()
        if layer < 3:
            vn = vn + model.virtual_nodes[layer].mlp(y.mean(1, keepdim=True) + vn)
    nodes, row = model.encode(x, graph)
    torch.testing.assert_close(nodes, y)
    torch.testing.assert_close(row, vn[:, 0])


def test_the_virtual_node_is_the_only_difference() -> None:
    torch.manual_seed(0)
    plain, virtual = MPNN(8, 3), MPNN(8, 3, virtual_node=True)
    shared = dict(plain.named_parameters()).keys()
    assert all(name.startswith("virtual_nodes") for name, _ in virtual.named_parameters() if name not in shared)
    virtual.load_state_dict(plain.state_dict(), strict=False)
    for layer in virtual.virtual_nodes:
        nn.init.zeros_(layer.mlp[2].weight)
        nn.init.zeros_(layer.mlp[2].bias)
    x, graph = torch.randn(2, 20, 8), GridGraph(4, 5)
    assert torch.equal(plain(x, graph), virtual(x, graph))


def test_the_virtual_node_reaches_the_far_end() -> None:
    torch.manual_seed(0)
    x, graph = torch.randn(1, 100, 8), GridGraph(1, 100)
    changed = x.clone()
    changed[0, 0] += 10
    for virtual_node, reaches in ((False, False), (True, True)):
        model = MPNN(8, 3, virtual_node=virtual_node)
        far = (model(x, graph) - model(changed, graph))[0, 99].abs().max()
        assert (far > 1e-6) == reaches
