"""Backbones on graphs as others store them, and with features that do not fit."""

import pytest
import torch
from torch_geometric.data import Batch, Data

from sstcast.errors import SSTCastError
from sstcast.graphs.sparse import SparseGraph
from sstcast.models import MODELS, build_model, default_options, takes_graphs
from sstcast.models.base import Backbone

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
    if name == "sapdgt":  # without them, it reads no edge features
        options = {"edge_messages": True} | options
    return build_model(name, width=8, **options).eval()


@pytest.mark.parametrize("name", GRAPHS)
def test_a_plain_edge_index_is_a_graph(name: str) -> None:
    data = random_graph()
    wanted = build(name)(data.x, SparseGraph.from_pyg(data))
    torch.testing.assert_close(build(name)(data.x, data.edge_index), wanted)
    torch.testing.assert_close(build(name)(data.x, data), wanted)


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
    with pytest.raises(SSTCastError, match=rf"model {name}: edge_dim is 2, but the graph has 3 edge features"):
        build(name)(data.x, data)


def test_layers_without_edge_features_and_wrong_widths() -> None:
    data = random_graph(edge_features=3)
    build("mpnn", conv="gcn")(data.x, data)  # it never looks at them
    with pytest.raises(SSTCastError, match="model gps: 8 node features where it takes 64; map them first"):
        build_model("gps", width=64)(data.x, data)


def test_whole_numbers_of_edges_are_features_too() -> None:
    data, wanted = random_graph(), random_graph()
    data.edge_attr = torch.arange(24) % 3  # one a row, as in PyG's ZINC
    wanted.edge_attr = data.edge_attr.float().unsqueeze(1)
    torch.testing.assert_close(build("gps", data=data)(data.x, data), build("gps", edge_dim=1)(data.x, wanted))


@pytest.mark.parametrize("name", GRAPHS)
def test_a_batch_keeps_its_graphs_apart(name: str) -> None:
    data, model = random_graph(), build(name)
    both = Batch.from_data_list([data, data])
    both.x = torch.cat([data.x, 3 * data.x])
    with torch.no_grad():
        found = model(both.x, both.edge_index, batch=both.batch)
        torch.testing.assert_close(found[:9], model(data.x, data.edge_index), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(found, model(x=both.x, edge_index=both.edge_index, batch=both.batch))


@pytest.mark.parametrize(
    "wrong", [torch.zeros(2, 3), torch.eye(9).to_sparse(), torch.eye(9), torch.zeros(3, 2, dtype=torch.long)]
)
def test_an_edge_index_that_is_none_is_refused_in_one_line(wrong: torch.Tensor) -> None:
    with pytest.raises(SSTCastError, match=r"model gps: edge_index is .*; give whole numbers"):
        build("gps")(random_graph().x, wrong)
    with pytest.raises(SSTCastError, match="batch: give the graph of each of the 9 nodes, in order"):
        build("gps")(random_graph().x, random_graph().edge_index, batch=torch.zeros(8, dtype=torch.long))
