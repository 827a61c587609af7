"""Encoders, readouts and heads, against ogb's, PyG's pooling and hand-made sums."""

from pathlib import Path

import pytest
import torch
from ogb.graphproppred.mol_encoder import AtomEncoder, BondEncoder
from small_raw import write
from torch_geometric.nn import global_add_pool, global_max_pool, global_mean_pool

from sstcast.benchmarks.config import load_benchmark
from sstcast.benchmarks.graph_model import (
    HIGHEST_DEGREE,
    CategoricalEncoder,
    DegreeEncoder,
    GraphModel,
    Readout,
    build_graph_model,
    positions_of,
)
from sstcast.benchmarks.load import load
from sstcast.benchmarks.packed import GraphBatch
from sstcast.benchmarks.registry import ATOMS, BONDS
from sstcast.graphs.sparse import SparseGraph
from sstcast.models import build_model


@pytest.mark.parametrize(("sizes", "theirs"), [(ATOMS, AtomEncoder), (BONDS, BondEncoder)])
def test_atoms_and_bonds_are_embedded_as_ogb_does(sizes: tuple[int, ...], theirs: type) -> None:
    ours, other = CategoricalEncoder(sizes, 8), theirs(8)
    tables = next(iter(other.children()))
    for table, embedding in zip(tables, ours.embeddings, strict=True):
        embedding.load_state_dict(table.state_dict())
    x = torch.stack([torch.randint(size, (20,)) for size in sizes], dim=1)
    torch.testing.assert_close(ours(x), other(x))


def test_degrees_are_embedded_up_to_the_highest() -> None:
    hub = HIGHEST_DEGREE + 40
    index = torch.stack([torch.arange(1, hub + 1), torch.zeros(hub, dtype=torch.long)])
    encoder = DegreeEncoder(3)
    found = encoder(SparseGraph(index, torch.zeros(hub + 1, dtype=torch.long), 1))
    assert torch.equal(found[0], encoder.embedding.weight[HIGHEST_DEGREE])
    assert torch.equal(found[1], encoder.embedding.weight[0])


@pytest.mark.parametrize(
    ("kind", "theirs"), [("mean", global_mean_pool), ("sum", global_add_pool), ("max", global_max_pool)]
)
def test_readouts_are_those_of_pyg(kind: str, theirs: object) -> None:
    batch = torch.tensor([0, 0, 0, 1, 2, 2])
    x, graph = torch.randn(6, 4), SparseGraph(torch.zeros(2, 0).long(), batch, 3)
    ours = Readout(kind, build_model("mpnn", width=4))(x, None, graph)  # type: ignore[arg-type]
    torch.testing.assert_close(ours, theirs(x, batch))  # type: ignore[operator]


def make(tmp: Path, model: str, *overrides: str) -> tuple[GraphModel, GraphBatch]:
    config = load_benchmark("peptides-func", model, None, ["model.width=16", *overrides])
    write(config.declaration, tmp / "raw")
    loaded = load(config.declaration, tmp / "raw", tmp / "cache", trust=True)  # its split is a pickle, and our own
    torch.manual_seed(0)
    predictor = build_graph_model(config, config.declaration, loaded.graphs, 10).eval()
    return predictor, loaded.graphs.batch(torch.arange(len(loaded.graphs)))


@pytest.mark.parametrize(
    ("model", "readout"),
    [
        *(("mpnn-vn", "virtual-node"), ("tokengt", "token"), ("spdgt", "token")),
        *(
            ("gps", "sum"),
            ("lsat", "max"),
            ("linear-transformer", "mean"),
        ),  # which reads no edges, and encodes none
    ],
)
def test_gradient_reaches_every_parameter(model: str, readout: str, tmp_path: Path) -> None:
    overrides = [f"predictor.readout={readout}", "predictor.degree=true", "predictor.positional=rwse"]
    predictor, batch = make(tmp_path, model, *overrides)
    out = predictor.train()(batch)
    (out * torch.randn_like(out)).sum().backward()
    for name, value in predictor.named_parameters():
        rows = value.grad is not None and value.grad.abs().sum() > 0
        assert rows, name


def test_the_virtual_node_sees_the_last_layer(tmp_path: Path) -> None:
    """Vn <- vn + MLP(mean x + vn) once more, from the last layer's x and vn."""
    predictor, batch = make(tmp_path, "mpnn-vn", "predictor.readout=virtual-node")
    edges = predictor.edges(batch.edge_attr)
    g = batch.graph
    graph = SparseGraph(g.edge_index, g.batch, g.graphs, edges)
    x, vn = predictor.backbone.encode(predictor.encode_nodes(batch), graph)
    row = vn + predictor.readout.update.mlp(global_mean_pool(x, g.batch) + vn)
    torch.testing.assert_close(predictor(batch), predictor.head(row))


@torch.no_grad()
@pytest.mark.parametrize("positional", ["rwse", "lap"])
def test_a_virtual_node_in_the_graph_has_no_position_and_no_part_in_the_readout(
    positional: str, tmp_path: Path
) -> None:
    """Positions are those of the molecules, and the readout sums their atoms, as PyG does on larger graphs."""
    more = [f"predictor.positional={positional}", "predictor.readout=sum", "predictor.degree=true"]
    plain, batch = make(tmp_path, "gine", *more)
    model, _ = make(tmp_path, "gine-vn", *more)
    assert positions_of(model) == positions_of(plain)
    model.load_state_dict(plain.state_dict())
    g, x, edges = batch.graph, plain.encode_nodes(batch), plain.edges(batch.edge_attr)
    torch.testing.assert_close(model.encode_nodes(batch), x)
    nodes = torch.arange(len(x))  # the virtual nodes come last, and SparseGraph wants batches in order
    ends = torch.stack([nodes, len(x) + g.batch])
    index = torch.cat([g.edge_index, ends, ends.flip(0)], dim=1)
    order = torch.cat([g.batch, torch.arange(g.graphs)]).argsort(stable=True)
    attr = torch.cat([edges, edges.new_zeros(2 * len(x), edges.shape[1])])
    all_of_them = torch.cat([x, x.new_zeros(g.graphs, x.shape[1])])[order]
    whole = SparseGraph(
        order.argsort()[index], torch.cat([g.batch, torch.arange(g.graphs)])[order], g.graphs, attr
    )
    atoms = plain.backbone(all_of_them, whole)[order.argsort()][: len(x)]
    torch.testing.assert_close(model(batch), model.head(global_add_pool(atoms, g.batch)), rtol=1e-4, atol=1e-5)


def test_models_name_the_positions_they_need(tmp_path: Path) -> None:
    for model, overrides, wanted in (
        ("mpnn", ["predictor.positional=lap", "predictor.pairs=5"], (5, 0)),
        ("mpnn", ["predictor.positional=rwse", "predictor.steps=7"], (0, 7)),
        ("tokengt", ["model.identifier_size=9"], (8, 0)),
        ("tokengt", ["model.identifiers=orf"], (0, 0)),
    ):
        assert positions_of(make(tmp_path, model, *overrides)[0]) == wanted
