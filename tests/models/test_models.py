"""Message passing against its equations, options, backbones on graphs of PyG, and the presets."""

from typing import Any

import pytest
import torch
from small_graphs import land_grid, ocean_of, offsets, same
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.data import Batch, Data
from torch_geometric.utils import scatter

from sstcast.config import RunConfig, load_config
from sstcast.errors import SSTCastError
from sstcast.graphs.grid import GridGraph
from sstcast.graphs.sparse import SparseGraph
from sstcast.models import MODELS, build_forecaster, build_model, default_options, takes_graphs
from sstcast.models.base import Backbone
from sstcast.models.convs import MessagePassing
from sstcast.models.mpnn import MPNN
from sstcast.storage.paths import packaged

OWN = "conv gatedgcn: has its own activation and residual connection, and a norm layer or batch"


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("mpn", {}, "model.name.*did you mean 'mpnn'"),
        ("mpnn", {"widht": 8}, "widht.*did you mean 'width'"),
        ("mpnn", {"width": "wide"}, "width.*integer"),
        ("gps", {"layers": -1}, "model gps: layers: .*greater than or equal to 0"),
        ("gps", {"width": 0}, "model gps: width: .*greater than or equal to 1"),
        ("gps", {"attention": "performer", "attention_options": {"featurs": 8}}, "did you mean 'features'"),
        ("gps", {"attention": "performer", "attention_options": {"features": 0}}, "features.*equal to 1"),
        (
            "gps",
            {"attention": "performer", "attention_options": {"features": 10**6}},
            "features.*less than.* 10000",
        ),
        ("lsat", {"features": 0}, "model lsat: features: .*greater than or equal to 1"),
        ("sapdgt", {"features": 0}, "features: .*greater than or equal to 1"),
        ("tokengt", {"identifier_size": 0}, "identifier_size: .*greater than or equal to 1"),
        ("tokengt", {"layers": 10_000}, "layers.*less than or equal to 1000"),
        ("polynormer", {"global_dropout": 1.5}, "global_dropout.*less than or equal to 1"),
        ("gps", {"attention": "primphormer", "attention_options": {"heads": 4}}, "primphormer.*heads"),
        ("mpnn", {"conv": "gatedgcn", "norm": "none"}, OWN),
        ("mpnn", {"virtual_node": "grap"}, "virtual_node: Input should be 'graph'"),
        ("gps", {"conv": "gcn", "conv_norm": "batch"}, "model gps: conv_norm: gcn follows norm"),
        ("mpnn", {"conv": "gatedgcn", "activation": "gelu"}, OWN),
        ("mpnn", {"conv": "gatedgcn", "residual": False}, OWN),
    ],
)
def test_wrong_names_and_options(name: str, options: dict[str, object], words: str) -> None:
    with pytest.raises(SSTCastError, match=words):
        build_model(name, **options)


def test_options_of_the_forecaster() -> None:
    sizes = {"history": 7, "horizon": 3, "shape": (4, 5)}
    assert build_forecaster("mpnn", **sizes, width=8).position is None
    assert build_forecaster("mpnn", **sizes, width=8, positional="rwse").position is not None
    with pytest.raises(SSTCastError, match="positional"):
        build_forecaster("mpnn", **sizes, positional="rwsee")
    with pytest.raises(SSTCastError, match="positional: unknown key"):
        build_forecaster("tfnet", **sizes, positional="lap")


def test_message_passing_by_its_equation() -> None:
    layer, graph, x = MessagePassing(4), GridGraph(3, 4), torch.randn(1, 12, 4)
    source, target = graph.edge_index
    messages = (layer.neighbor(x[0, source]) + offsets(graph) @ layer.edge.weight.T).relu()
    expected = layer.root(x[0]) + scatter(messages, target, reduce="mean")
    torch.testing.assert_close(layer(x, graph, graph.edge_attr)[0][0], expected)


@torch.no_grad()
def test_the_virtual_node_by_its_equation() -> None:
    """Each layer first adds vn to its nodes. Each but the last then sets vn <- vn + MLP(mean of nodes + vn)."""
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
    x, graph = torch.randn(1, 100, 8), GridGraph(1, 100)
    changed = x.clone()
    changed[0, 0] += 10
    for virtual_node, reaches in ((False, False), (True, True)):
        model = MPNN(8, 3, virtual_node=virtual_node)
        far = (model(x, graph) - model(changed, graph))[0, 99].abs().max()
        assert (far > 1e-6) == reaches


GRAPHS = [name for name in MODELS if takes_graphs(name)]

READERS = [name for name in GRAPHS if "edge_dim" in default_options(name)]


def random_graph(edge_features: int = 0) -> Data:
    torch.manual_seed(0)
    index = torch.randint(9, (2, 24))
    index[1, index[0] == index[1]] += 1
    attr = torch.randn(24, edge_features) if edge_features else None
    return Data(x=torch.randn(9, 8), edge_index=index % 9, edge_attr=attr)


def build(name: str, **options: object) -> Backbone:
    torch.manual_seed(0)
    if name == "sapdgt":  # else it reads no edge features
        options = {"edge_messages": True} | options
    return build_model(name, width=8, **options).eval()


@pytest.mark.parametrize("name", GRAPHS)
def test_a_plain_edge_index_is_a_graph_and_a_batch_keeps_its_graphs_apart(name: str) -> None:
    data, model = random_graph(), build(name)
    both = Batch.from_data_list([data, data])
    both.x = torch.cat([data.x, 3 * data.x])
    with torch.no_grad():
        wanted = model(data.x, SparseGraph.from_pyg(data))
        for graph in (data, data.edge_index):
            torch.testing.assert_close(model(data.x, graph), wanted)
        found = model(both.x, both.edge_index, batch=both.batch)
        torch.testing.assert_close(found[:9], wanted, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(found, model(x=both.x, edge_index=both.edge_index, batch=both.batch))
        plain = Data(edge_index=both.edge_index, edge_attr=both.edge_attr, batch=both.batch)
        for graph in (plain, both):
            torch.testing.assert_close(model(both.x, graph), found)


class Waits(TorchDispatchMode):
    """Counts the numbers that are read from tensors one by one, for each of which a device would be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


ON_DEVICE = [name for name in GRAPHS if name not in ("sapdgt", "spdgt")]  # whose paths are found on the host


@pytest.mark.parametrize("name", [*ON_DEVICE, "mpnn with a loop"])
def test_a_pass_waits_once_for_the_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data, read = random_graph(), []
    if name == "mpnn with a loop":
        data.edge_index[1, 3] = data.edge_index[0, 3]
    graph, model = SparseGraph.from_pyg(data), build(name.partition(" ")[0])
    graph.laplacian(16)
    known = {"components": graph.components, "laplacian_degree": graph.laplacian_degree}
    graph = SparseGraph(graph.edge_index, graph.batch, 1, basis=graph.basis, **known)
    tolist = torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", lambda tensor: read.append(tensor) or tolist(tensor))
    with torch.no_grad(), Waits() as waits:
        model(data.x, graph)
    assert waits.count + len(read) <= 1


@pytest.mark.parametrize("name", READERS)
def test_edge_features_are_counted_in_the_data_or_refused_in_one_line(name: str) -> None:
    data = random_graph(edge_features=3)
    model = build(name, data=data)
    with torch.no_grad():
        other = data.clone()
        other.edge_attr = 5 * data.edge_attr
        assert not torch.allclose(model(data.x, data), model(data.x, other))
        batch = Batch.from_data_list([data, data])
        torch.testing.assert_close(model(batch.x, batch)[:9], model(data.x, data), rtol=1e-4, atol=1e-5)
        apart = model(data.x, data.edge_index, edge_attr=data.edge_attr)
        torch.testing.assert_close(apart, model(data.x, data))
    with pytest.raises(SSTCastError, match=rf"model {name}: edge_dim is 2, but the graph has 3 edge features"):
        build(name)(data.x, data)


def test_layers_without_edge_features_and_wrong_widths() -> None:
    data = random_graph(edge_features=3)
    build("mpnn", conv="gcn")(data.x, data)  # does not read them
    with pytest.raises(SSTCastError, match="model gps: got 8 node features, expected 64; map them first"):
        build_model("gps", width=64)(data.x, data)


def test_whole_numbers_of_edges_are_features_too() -> None:
    data, wanted = random_graph(), random_graph()
    data.edge_attr = torch.arange(24) % 3  # one number for each edge, as in PyG's ZINC
    wanted.edge_attr = data.edge_attr.float().unsqueeze(1)
    torch.testing.assert_close(build("gps", data=data)(data.x, data), build("gps", edge_dim=1)(data.x, wanted))


@pytest.mark.parametrize("name", READERS)
def test_features_of_edges_have_the_precision_of_the_nodes(name: str) -> None:
    data = random_graph(edge_features=3)
    model, other = build(name, data=data), data.clone()
    other.edge_attr = data.edge_attr.double()
    assert torch.equal(model(data.x, other), model(data.x, data))
    model.double()
    assert torch.equal(model(data.x.double(), data), model(data.x.double(), other))


def test_without_hops_paths_have_no_edges() -> None:
    data = random_graph(edge_features=3)
    model = build("spdgt", data=data, max_hops=0)
    assert torch.equal(model(data.x, data), model(data.x, data.edge_index))


@pytest.mark.parametrize(
    "wrong", [torch.zeros(2, 3), torch.eye(9).to_sparse(), torch.eye(9), torch.zeros(3, 2, dtype=torch.long)]
)
def test_an_edge_index_that_is_none_is_refused_in_one_line(wrong: torch.Tensor) -> None:
    with pytest.raises(SSTCastError, match=r"model gps: edge_index is .*; give integers"):
        build("gps")(random_graph().x, wrong)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"batch": torch.zeros(8, dtype=torch.long)}, "batch: give the graph of each of the 9 nodes, in order"),
        ({"batch": torch.arange(9)}, "edge_index has edges between two graphs"),
        ({"edge_index": torch.tensor([[0], [9]])}, r"edge_index has nodes outside 0\.\.8"),
        ({"batch": torch.tensor([0, 0, 0, 1, 0, 0, 0, 0, 0])}, "batch: give the graph of each"),
        ({"batch": torch.zeros(9)}, "batch: give the graph of each"),
        ({"batch": torch.full((9,), -1)}, "batch: give the graph of each"),
        ({"edge_index": torch.tensor([[0], [-1]])}, r"edge_index has nodes outside 0\.\.8"),
        ({"edge_attr": torch.zeros(23, 2)}, r"edge_attr is \[23, 2\]; give \[24, features\]"),
        ({"edge_weight": torch.zeros(23)}, r"edge_weight is \[23\]; give \[24\]"),
        ({"edge_weight": torch.zeros(24, 2)}, r"edge_weight is \[24, 2\]; give \[24\]"),
        ({"edge_index": None}, "edge_index is missing; give integers"),
    ],
)
def test_edges_and_what_belongs_to_them_are_checked(arguments: dict[str, Any], words: str) -> None:
    """A `Data` that holds them is refused like the arguments themselves."""
    data = random_graph()
    held = {"edge_index": data.edge_index} | arguments
    with pytest.raises(SSTCastError, match=f"model gps: {words}"):
        build("gps")(data.x, Data(**held))
    if held["edge_index"] is not None and "edge_weight" not in held:
        with pytest.raises(SSTCastError, match=f"model gps: {words}"):
            build("gps")(x=data.x, **held)


def test_unknown_arguments_are_refused() -> None:
    with pytest.raises(SSTCastError, match="model gps: does not read edge_weight; leave it out"):
        build("gps")(random_graph().x, random_graph().edge_index, edge_weight=torch.zeros(24))


def test_graphs_without_nodes_count() -> None:
    """A `Batch` knows of graphs after the last node, and a plain `batch` of those before it."""
    empty = Data(edge_index=torch.zeros(2, 0, dtype=torch.long), num_nodes=0)
    data = Data(edge_index=random_graph().edge_index, num_nodes=9)
    batch = Batch.from_data_list([data, empty, data, empty])
    graph = SparseGraph.from_pyg(batch)
    assert graph.graphs == 4
    assert graph.pool(torch.ones(18, 1), "sum").flatten().tolist() == [9, 0, 9, 0]
    plain = Data(edge_index=batch.edge_index, batch=batch.batch, num_nodes=18)
    assert SparseGraph.from_pyg(plain).graphs == 3


def test_geography() -> None:
    """A forecaster reads the position of nodes on the globe and the time of year, not those of land."""
    sizes = {"history": 7, "horizon": 2, "shape": (4, 5)}
    model = build_forecaster("mpnn", **sizes, width=16, geography=True).eval()
    x, where, mask = torch.randn(2, 20, 7), torch.randn(2, 20, 5), land_grid(4, 5).mask

    def forecast(where: Tensor) -> Tensor:
        return model(x, GridGraph(4, 5, mask, geography=where))[mask]

    expected = forecast(where)
    for changed in (torch.tensor([1.0, 1, 1, 0, 0]), torch.tensor([0.0, 0, 0, 1, 1])):  # the place, the season
        assert not torch.allclose(forecast(where + changed), expected, atol=1e-4)
    torch.testing.assert_close(forecast(torch.where(mask.unsqueeze(-1), where, 100.0)), expected)
    ocean = ocean_of(GridGraph(4, 5, mask))
    ocean.geography = where[mask]
    same(model(x[mask], ocean), expected)
    with pytest.raises(SSTCastError, match="geography"):
        model(x, GridGraph(4, 5))


# The presets of `configs/models/`: most models have one in each folder, and all can be built and compared.

FOLDERS = ["configs/models", "configs/models/paper"]
PRESETS = sorted(path.stem for path in packaged(FOLDERS[0]).glob("*.yaml"))


def preset(folder: str, name: str) -> RunConfig:
    return load_config(packaged(f"{folder}/{name}.yaml"))


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_is_named_like_its_model_and_all_see_the_same_windows(folder: str) -> None:
    found = {path.stem: preset(folder, path.stem) for path in packaged(folder).glob("*.yaml")}
    assert {config.model.name: config.name for config in found.values()} == {name: name for name in PRESETS}
    own = {"training": {"learning_rate"}, "model": True, "name": True}
    first, *others = (config.model_dump(exclude=own) for config in found.values())
    assert all(other == first for other in others)


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("name", PRESETS)
def test_their_options_exist(folder: str, name: str) -> None:
    config = preset(folder, name)
    with torch.device("meta"):  # without data, because the largest has 85 million weights
        build_forecaster(name, history=42, horizon=28, shape=config.data.box.tile, **config.model.options)
