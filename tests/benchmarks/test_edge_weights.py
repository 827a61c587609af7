"""Weights of edges: those that gcn reads, and what is said of all others."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
import yaml
from lightning_fabric import Fabric
from small_graphs import one_graph
from torch import Tensor
from torch_geometric import nn as pyg
from torch_geometric.data import Batch, Data
from torch_geometric.utils import from_networkx

import sstcast
from sstcast.benchmarks.config import BenchmarkConfig, load_benchmark
from sstcast.benchmarks.load import LoadedDataset, load
from sstcast.benchmarks.run import DataDigest, build_task
from sstcast.errors import SSTCastError
from sstcast.graphs.sparse import SparseGraph
from sstcast.models import build_model
from sstcast.models.convs import GCN

BARE = ["predictor.encoder=false", "predictor.head=false", "model.layers=2", "model.norm=none", "model.width=4"]
BARE += ["model.dropout=0", "predictor.input_dropout=0", "training.device=cpu"]


def weighted_graph(nodes: int = 20, seed: int = 0, **names: str) -> Data:
    """Return a graph with repeated edges, loops, edges of weight 0, and a node with edges of weight 0 alone."""
    generator = torch.Generator().manual_seed(seed)
    index = torch.randint(nodes - 1, (2, 4 * nodes), generator=generator)
    loops = torch.tensor([[2, 5, nodes - 1], [2, 5, nodes - 1]])  # the last one is the node's only edge
    weight = torch.rand(4 * nodes, generator=generator, dtype=torch.float64)
    weight[:6] = 0
    keep = index[0] != index[1]
    index = torch.cat([index[:, keep], loops], 1)
    weight = torch.cat([weight[keep], torch.tensor([0.3, 2.5, 0.0], dtype=torch.float64)])
    x = torch.randn(nodes, 3, generator=generator, dtype=torch.float64)
    return Data(x=x, edge_index=index, edge_weight=weight, y=torch.arange(nodes) % 3)


def copied(theirs: pyg.GCNConv, ours: GCN) -> None:
    torch.nn.init.normal_(ours.bias)
    theirs.lin.weight.data.copy_(ours.linear.weight)
    theirs.bias.data.copy_(ours.bias)


def test_a_weighted_gcn_is_pygs_in_double_precision() -> None:
    data = weighted_graph()
    ours, theirs = GCN(5, in_width=3).double(), pyg.GCNConv(3, 5).double()
    copied(theirs, ours)
    expected = theirs(data.x, data.edge_index, data.edge_weight)
    graph = SparseGraph.from_pyg(data)
    torch.testing.assert_close(ours(data.x, graph, None)[0], expected, rtol=1e-12, atol=1e-12)
    assert not torch.allclose(theirs(data.x, data.edge_index), expected)
    equal = SparseGraph.from_pyg(data.clone().update({"edge_weight": torch.ones_like(data.edge_weight)}))
    plain = one_graph(data.edge_index, 20)
    torch.testing.assert_close(ours(data.x, equal, None)[0], ours(data.x, plain, None)[0])


def test_edges_of_a_virtual_node_have_the_weight_1() -> None:
    data = weighted_graph()
    ours, theirs = GCN(5, in_width=3).double(), pyg.GCNConv(3, 5).double()
    copied(theirs, ours)
    extended, rows = SparseGraph.from_pyg(data).with_virtual_nodes()
    assert rows.tolist() == [*range(20)]
    others = torch.arange(20)
    spokes = torch.stack([others, torch.full_like(others, 20)])
    index = torch.cat([data.edge_index, spokes, spokes.flip(0)], 1)
    weight = torch.cat([data.edge_weight, torch.ones(40, dtype=torch.float64)])
    x = torch.cat([data.x, data.x.new_zeros(1, 3)])
    found = ours(x, extended, None)[0]
    torch.testing.assert_close(found, theirs(x, index, weight), rtol=1e-12, atol=1e-12)


def opened(data: Any, model: str, *overrides: str) -> tuple[BenchmarkConfig, LoadedDataset]:
    config = load_benchmark(None, model, None, list(overrides))
    found = load(config.declaration, config.root, Path(), source=data)
    return load_benchmark(None, model, None, list(overrides), found.dataset), found


@pytest.mark.parametrize("name", ["edge_weight", "weight"])
@pytest.mark.parametrize("level", ["node", "graph"])
def test_weights_of_a_user_reach_the_layers(name: str, level: str, fabric: Fabric) -> None:
    data = [weighted_graph(seed=i) for i in range(1 if level == "node" else 12)]
    for i, one in enumerate(data):
        if name == "weight":
            one.weight = one.edge_weight.unsqueeze(1)
            del one.edge_weight
        if level == "graph":
            one.y = torch.tensor([i % 3])
    config, found = opened(data, "gcn", *BARE, "model.residual=false", "predictor.readout=sum")
    task, model = build_task(config, found, fabric)
    theirs = pyg.models.GCN(3, 4, 2, 3)
    for ours, other in zip(model.backbone.convs, theirs.convs, strict=True):
        copied(other, ours)
    if level == "node":
        batch, whole, rows = task.batch(task.split.train), data[0], task.split.train
    else:
        picked = task.split.train[:4]
        batch, whole, rows = task.batch(picked), Batch.from_data_list([data[i] for i in picked]), None
    expected = theirs.eval()(whole.x.float(), whole.edge_index, whole[name].flatten().float())
    expected = expected[rows] if rows is not None else pyg.global_add_pool(expected, whole.batch)
    torch.testing.assert_close(model.eval()(batch), expected, rtol=1e-5, atol=1e-5)


HINT = "if they are weights, call them edge_weight"


def one_column(values: Callable[[Tensor], Tensor]) -> Data:
    data = weighted_graph()
    data.edge_attr = values(data.edge_weight).unsqueeze(1)
    del data.edge_weight
    return data


@pytest.mark.parametrize(
    ("data", "model", "words", "weighted"),
    [
        (weighted_graph(), "gcn", "edge features: none; edge weights, read by gcn", True),
        (weighted_graph(), "sage", "edge features: none; edge weights, not read by sage", False),
        (one_column(lambda w: w), "gcn", f"edge features: 1, not read by gcn; {HINT}", False),
        (
            one_column(lambda w: w).update({"weight": torch.ones(80)}),
            "gcn",
            "1, not read by gcn; edge weights,",
            True,
        ),
        (
            one_column(lambda w: w).update({"weight": torch.ones(79)}),
            "gcn",
            "weight is not read, as it is not",
            False,
        ),
        (one_column(lambda w: w), "gps", "edge features: 1 linear", False),
        (one_column(lambda w: w), "sage", "edge features: 1, not read by sage", False),
        (one_column(lambda w: w), "gin", "edge features: 1, not read by gin", False),
        (one_column(lambda w: w), "sat hops=0", "edge features: 1, not read by sat", False),
        (one_column(lambda w: w), "spdgt max_hops=0", "edge features: 1, not read by spdgt", False),
        (
            one_column(lambda w: w),
            "polynormer local_layers=0 heads=2",
            "edge features: 1, not read by polynormer",
            False,
        ),
        (
            weighted_graph(),
            "polynormer conv=gcn local_layers=1 heads=2",
            "edge features: none; edge weights, read by polynormer",
            True,
        ),
    ],
)
def test_the_line_tells_what_a_model_reads(
    data: Data, model: str, words: str, weighted: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = ["model.width=4", "training.epochs=1", "training.device=cpu", f"runs={tmp_path}"]
    model, *options = model.split()
    keys += [f"cache={tmp_path}", *(f"model.{option}" for option in options or ["layers=1"])]
    sstcast.benchmark(data, model, overrides=keys)
    assert words in capsys.readouterr().out
    (record,) = tmp_path.rglob("data.json")
    digest = DataDigest.load(record, "")
    assert digest.weighted is weighted
    digest.model_copy(update={"weighted": not weighted}).save(record)
    with pytest.raises(SSTCastError, match=f"trained with{'out' * weighted} weights of the edges; delete"):
        sstcast.benchmark(data, model, overrides=keys)


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (lambda w: -w, r"edge 6 has the weight -0\.\d+; give weights of 0 or more"),
        (lambda w: w / 0, "edge 0 has the weight nan"),
        (lambda w: w[1:], "edge_weight has .* rows instead of"),
        (lambda w: w.view(-1, 1).expand(-1, 2), "edge_weight must be one number for each edge"),
    ],
)
def test_weights_that_gcn_cannot_use_are_refused(weight: Any, words: str, tmp_path: Path) -> None:
    data = weighted_graph()
    data.edge_weight = weight(data.edge_weight)
    with pytest.raises(SSTCastError, match=words):
        sstcast.benchmark(data, "gcn", overrides=[f"runs={tmp_path}"])
    assert not list(tmp_path.iterdir())


def test_weights_of_networkx_are_read_and_a_node_s_weight_is_none() -> None:
    graph = nx.karate_club_graph()
    for _, node in graph.nodes(data=True):
        node.update(y=int(node.pop("club") == "Officer"), weight=2.0)
    data = from_networkx(graph)  # which calls the edges' own edge_weight beside the nodes' weight
    _, found = opened(data, "gcn")
    assert torch.equal(found.graphs.edge_weight, data.edge_weight.float())
    wanted = {(a, b): w for a, b, w in graph.to_directed().edges(data="weight")}
    index = found.graphs.edge_index.T.tolist()
    assert [wanted[tuple(ends)] for ends in index] == found.graphs.edge_weight.tolist()
    for _, node in graph.nodes(data=True):
        del node["weight"]
    assert torch.equal(opened(from_networkx(graph), "gcn")[1].graphs.edge_weight, found.graphs.edge_weight)
    other = data.clone().update({"weight": data.edge_weight + 1})
    with pytest.raises(SSTCastError, match="edge_weight and weight are not the same numbers; delete one"):
        opened(other, "gcn")
    same = data.clone().update({"weight": data.edge_weight.double().unsqueeze(1)})
    assert opened(same, "gcn")[1].digest == found.digest


def test_a_model_reads_weights_of_any_dtype_and_refuses_those_that_a_benchmark_refuses() -> None:
    data = weighted_graph()
    data.update({"x": data.x.float(), "edge_weight": (4 * data.edge_weight).floor()})
    model, expected = build_model("gcn", width=3, layers=1), None
    for dtype in (torch.float32, torch.float64, torch.int64):
        found = model(data.x, data.clone().update({"edge_weight": data.edge_weight.to(dtype)}))
        expected = found if expected is None else expected
        assert torch.equal(found, expected)
    for number in (-1.0, torch.nan, torch.inf):
        wrong = data.clone()
        wrong.edge_weight[7] = number
        with pytest.raises(
            SSTCastError, match=f"model gcn: edge 7 has the weight {number:g}; give weights of 0 or"
        ):
            model(data.x, wrong)
        build_model("gps", width=3, heads=1)(data.x, wrong)  # does not read them


def test_a_backbone_reads_networkx_s_weights() -> None:
    data = weighted_graph()
    renamed = Data(x=data.x, edge_index=data.edge_index, weight=data.edge_weight)
    layer = GCN(5, in_width=3).double()
    ours, theirs = (layer(data.x, SparseGraph.from_pyg(one), None)[0] for one in (renamed, data))
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("name", ["Weight", "edge_weight", "EDGE_WEIGHT"])
@pytest.mark.parametrize("listed", [True, False])
def test_a_column_of_weights_is_the_weight(name: str, listed: bool, tmp_path: Path) -> None:
    def read(header: str, *rows: str) -> LoadedDataset:
        (tmp_path / "nodes.csv").write_text("id,y,a\n" + "".join(f"n{i},{i % 2},{i}.5\n" for i in range(6)))
        (tmp_path / "edges.csv").write_text("\n".join([header, *rows]))
        keys = {"kind": "graph_csv", "path": "nodes.csv", "edges": "edges.csv", "id": "id", "target": "y"}
        keys |= {"edge_features": [name]} if listed else {}
        (tmp_path / "mine.yaml").write_text(yaml.safe_dump(keys))
        config = load_benchmark(str(tmp_path / "mine.yaml"), "gcn")
        return load(config.declaration, config.root, tmp_path)

    found = read(f"source,target,Type,{name}", "n0,n1,Undirected,1", "n1,n0,Undirected,2", "n2,n3,Undirected,0.5")
    assert found.graphs.edge_index.T.tolist() == [[0, 1], [1, 0], [2, 3], [3, 2]]
    assert found.graphs.edge_weight.tolist() == [1.0, 2.0, 0.5, 0.5]
    assert (found.graphs.edge_attr is not None) is listed
    if name != "Weight":
        with pytest.raises(SSTCastError, match=f"{name} and weight are not the same numbers; keep one column"):
            read(f"source,target,{name},weight", "n0,n1,1,1", "n2,n3,1,2")


def test_weights_that_some_graphs_lack_are_refused() -> None:
    data = [weighted_graph(seed=i) for i in range(6)]
    del data[3].edge_weight
    with pytest.raises(SSTCastError, match="graph 3 and graph 0 do not have the same columns of edge_weight"):
        opened(data, "gcn")


def test_sets_by_name_have_no_weights(
    configure: Callable[..., BenchmarkConfig], build: Callable[..., Any]
) -> None:
    task, _ = build("PascalVOC-SP", "mpnn", "model.conv=gcn")
    assert task.graphs.edge_attr is not None
    assert task.graphs.edge_weight is None
