from functools import partial

import networkx as nx
import pytest
import torch
from torch.nn import Parameter

from studies import kernel_speedup
from studies.kernel_speedup import build, run, study
from studies.measure import peak_bytes
from studies.study import batch_graphs


def test_both_forms_of_sat_compute_the_same() -> None:
    torch.manual_seed(0)
    models = build(width=16, heads=4)
    (explicit, _), (fused, _) = models["SAT"], models["SAT, fused"]
    fused.load_state_dict(explicit.state_dict())
    graph = batch_graphs([nx.random_regular_graph(6, 100, seed=0)])
    x = Parameter(torch.randn(100, 16))
    gradients = []
    for model in (explicit, fused):
        y = model(x, graph)
        gradients.append(torch.autograd.grad(y.square().sum(), x)[0])
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


def test_the_graph_is_6_regular_and_sat_is_left_out_where_it_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_speedup, "LIMIT", 4 * 128**2 * 6)
    rows = study(sizes=(128, 256), widths=(16,)).rows()
    assert set(rows.loc[rows["nodes"] == 128, "model"]) == {"LSAT", "SAT", "SAT, fused"}
    assert set(rows.loc[rows["nodes"] == 256, "model"]) == {"LSAT", "SAT, fused"}
    table = kernel_speedup.tabulate(rows)
    assert list(table["SAT / LSAT"] == "-") == [False, True, False, True]
    assert set(table["phase"]) == {"evaluation", "training"}
    assert len(kernel_speedup.draw(rows).axes) == 2
