"""What the studies of time and memory measure."""

from functools import partial

import networkx as nx
import pandas as pd
import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from studies import attention_cost, kernel_speedup
from studies.attention_cost import MODELS, slope
from studies.kernel_speedup import build, run
from studies.measure import peak_bytes
from studies.study import batch_graphs


def test_peak_counts_what_is_alive_at_once() -> None:
    given = torch.ones(1000)

    def run() -> None:
        a = given + 1
        b = (a[:500] * 2).view(50, 10)  # 2000 bytes more
        del a
        b.add_(1)
        b + given[:500].view(50, 10)

    assert peak_bytes(run) == 6000


def test_peak_of_training_agrees_with_the_profiler() -> None:
    """Torch's profiler sees every call of the allocator."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.TransformerEncoderLayer(64, 4, 128, batch_first=True))
    x = torch.randn(4, 300, 64)

    def run() -> None:
        network(x).square().mean().backward()

    run()  # gradients of parameters are there from now on
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    events = profiler.profiler.kineto_results.events()
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    theirs = int(torch.tensor([change for _, change in changes]).cumsum(0).max())
    assert peak_bytes(run) == pytest.approx(theirs, rel=0.02)


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    sizes = {"middle": 512, "quadratic_up_to": 512, "width": 16, "heads": 2, "repeats": 1}
    return attention_cost.study((256, 512, 1024), (4, 16), **sizes).rows()


def test_every_attention_is_measured_and_the_quadratic_one_up_to_its_limit(rows: pd.DataFrame) -> None:
    sizes = rows.groupby("attention")["nodes"].agg(set)
    assert set(sizes.index) == set(MODELS)
    assert sizes.pop("softmax") == {256, 512}
    assert all(size == {256, 512, 1024} for size in sizes)
    assert (rows["milliseconds"] > 0).all()
    points = rows[["nodes", "degree", "edges"]].drop_duplicates()
    assert (points["edges"] == points["nodes"] * points["degree"] // 2).all()


def test_memory_is_linear_in_nodes_and_grows_with_edges(rows: pd.DataFrame) -> None:
    by_nodes, by_edges = attention_cost.sweeps(rows)
    for name in MODELS:
        own, more = (part[part["attention"] == name] for part in (by_nodes, by_edges))
        assert slope(own["nodes"], own["megabytes"]) == pytest.approx(1, abs=0.2), name
        assert 0.2 < slope(more["edges"], more["megabytes"]) < 1, name
    at = by_nodes[by_nodes["nodes"] == 512].set_index("attention")["megabytes"]
    assert (at.drop("polynormer") >= at["none"]).all()  # the peak is in the local layer for some
    assert at.drop("polynormer").idxmax() == "exphormer"  # alone in having states on edges


def test_both_forms_of_sat_compute_the_same() -> None:
    torch.manual_seed(0)
    models = build(width=16, heads=4)
    (explicit, _), (fused, _) = models["SAT"], models["SAT, fused"]
    fused.load_state_dict(explicit.state_dict())
    graph = batch_graphs([nx.random_regular_graph(6, 100, seed=0)])
    x = nn.Parameter(torch.randn(100, 16))
    gradients = [torch.autograd.grad(model(x, graph).square().sum(), x)[0] for model in (explicit, fused)]
    torch.testing.assert_close(explicit(x, graph), fused(x, graph), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)


def test_memory_of_sat_is_quadratic_and_of_lsat_linear() -> None:
    memory = {}
    for nodes in (512, 1024):
        graph = batch_graphs([nx.random_regular_graph(6, nodes, seed=0)])
        x, labels = torch.randn(nodes, 16), torch.zeros(nodes, dtype=torch.long)
        for name, model in build(width=16, heads=4).items():
            one = partial(run, "training", model, x, labels, graph)
            one()
            memory[name, nodes] = peak_bytes(one)
    assert 4 * 1024**2 * 4 < memory["SAT", 1024] < 4 * 1024**2 * 7  # a matrix a head is kept, and up to two more
    growth = {name: memory[name, 1024] / memory[name, 512] for name in ("LSAT", "SAT", "SAT, fused")}
    assert growth["SAT"] > 3.5
    assert growth["LSAT"] == pytest.approx(2, abs=0.1)
    assert growth["SAT, fused"] == pytest.approx(2, abs=0.1)


def test_sat_is_left_out_where_it_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_speedup, "LIMIT", 4 * 128**2 * 6)
    rows = kernel_speedup.study(sizes=(128, 256), widths=(16,)).rows()
    assert set(rows.loc[rows["nodes"] == 128, "model"]) == {"LSAT", "SAT", "SAT, fused"}
    assert set(rows.loc[rows["nodes"] == 256, "model"]) == {"LSAT", "SAT, fused"}
    table = kernel_speedup.tabulate(rows)
    assert list(table["SAT / LSAT"] == "-") == [False, True, False, True]
    assert set(table["phase"]) == {"evaluation", "training"}
    assert len(kernel_speedup.draw(rows).axes) == 2
