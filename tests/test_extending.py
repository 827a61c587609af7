"""To add one thing, touch one place: each test registers a toy once, and finds it wherever it should appear."""

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from documentation import EXTENDING, blocks
from small_raw import graphs, write
from torch import Tensor, nn

import sstcast
from sstcast import status
from sstcast.benchmarks.config import load_benchmark
from sstcast.benchmarks.registry import find_dataset
from sstcast.benchmarks.run import run_benchmark
from sstcast.config import load_config
from sstcast.errors import SSTCastError
from sstcast.forecasting.history import last_days
from sstcast.graphs.grid import GridGraph
from sstcast.models import MODELS, Entry, build_forecaster, build_model
from sstcast.models.attention import Attention
from sstcast.models.factory import register
from sstcast.models.layers import ATTENTIONS, CONVS
from sstcast.models.mpnn import MPNN
from sstcast.reading.raw import open_days
from sstcast.sources import SOURCES
from sstcast.sources.fetch import fetch
from sstcast.sources.source import FetchRequest

DAY = dt.timedelta(days=1)
FIRST, LAST = dt.date(2003, 1, 1), dt.date(2003, 1, 20)


def test_a_source_is_fetched_listed_and_forecast_from(
    run_yaml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source of the documentation."""
    monkeypatch.setitem(SOURCES, "lukewarm", None)  # removed again after the test
    exec(blocks(EXTENDING, "A source of days")[0], {})
    monkeypatch.setattr(SOURCES["lukewarm"], "grows", True)
    with pytest.raises(SSTCastError, match=r"give aws, .*lukewarm"):
        _ = FetchRequest(FIRST, LAST, "lukewarn").path
    request = FetchRequest(FIRST, LAST, "lukewarm", "170,173,-12,-10", tmp_path / "a.zarr")
    assert FetchRequest(FIRST, LAST, "lukewarm").path == Path("data/lukewarm-pacific.zarr")
    assert fetch(request).complete
    before = open_days(request.path).load()

    data = load_config(run_yaml, [f"data.source={request.path}"]).data
    history = last_days(data, LAST + 2 * DAY, LAST + 3 * DAY)
    np.testing.assert_allclose(history[-1], 20.21, atol=1e-5)
    (held,) = status(tmp_path)
    assert held.sources == {"lukewarm": 22}
    assert held.title == history.attrs["title"] == "A sea that warms"

    monkeypatch.delitem(SOURCES, "lukewarm")  # the store tells by itself what its days are
    assert [store.origin for store in status(tmp_path)] == [held.origin]
    xr.testing.assert_identical(open_days(request.path).sel(time=slice(None, str(LAST))).load(), before)


class ToyAttention(Attention):
    """A mean over all nodes, real or not, times a number that adds to the loss."""

    def __init__(self, width: int, strength: float = 1.0) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.full((width,), strength))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return (self.factor * x.mean(1, keepdim=True)).expand_as(x)

    def penalty(self) -> Tensor:
        return self.factor.square().sum()


def test_a_local_layer_is_one_registration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The layer of the documentation."""
    monkeypatch.setitem(CONVS, "twice", None)  # removed again after the test
    exec(blocks(EXTENDING, "A local layer")[0], {})

    write(find_dataset("MUTAG"), tmp_path / "raw")
    small = ["model.width=8", "training.epochs=1", "training.device=cpu"]
    places = [f"runs={tmp_path / 'runs'}", f"cache={tmp_path / 'cache'}"]
    config = load_benchmark("mutag", "twice-vn", tmp_path / "raw", [*small, *places])
    assert config.model.options.items() >= {"conv": "twice", "virtual_node": True, "width": 8}.items()
    (result,) = run_benchmark(config, [0])
    assert result["epochs"] == 1
    assert (tmp_path / "runs/MUTAG/twice-vn/seed-0/checkpoints/best.pt").exists()

    options: dict[str, Any] = {"width": 8, "conv": "twice"}
    for name, keys in (("twice", {"width": 8}), ("mpnn", options), ("gps", options)):
        model = build_forecaster(name, history=5, horizon=2, shape=(3, 4), **keys)
        assert any(isinstance(module, CONVS["twice"]) for module in model.modules())


def test_a_class_of_layers_of_pyg_trains_on_graphs_and_on_the_sea(
    run_yaml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Any
) -> None:
    """The second class of the section; the first is written into the package by test_extending_pages.py."""
    for name in ("two-sages", "TwoSages"):
        monkeypatch.setitem(MODELS, name, None)  # removed again after the test
    exec(blocks(EXTENDING, "A network")[-1], names := {})
    own = names["TwoSages"]
    assert MODELS["two-sages"] is own
    keys = ["model.width=8", "training.epochs=1", f"runs={tmp_path / 'runs'}", f"cache={tmp_path}"]
    given = [data.update({"edge_attr": None}) for data in graphs(30)]
    (by_class,) = sstcast.benchmark(given, own, overrides=keys)
    (by_name,) = sstcast.benchmark(given, "two-sages", overrides=keys)
    assert [by_class["model"], by_name["model"]] == ["TwoSages", "two-sages"]
    assert by_class["test"] == by_name["test"]
    with pytest.raises(SSTCastError, match="model: MPNN is the name of another model"):
        monkeypatch.setitem(MODELS, "MPNN", MODELS["mpnn"])
        register(MPNN)

    # On a tile without land it is the same function as on a list of its edges.
    model, x = build_model("two-sages", width=8), torch.randn(2, 12, 8)
    grid = GridGraph(3, 4)
    for sample, expected in zip(x, model(x, grid), strict=True):
        torch.testing.assert_close(model(sample, grid.edge_index), expected)
    land = GridGraph(3, 4, torch.arange(12)[None] > 2)
    changed = x.clone()
    changed[:, :3] = 9
    assert torch.equal(model(x, land)[:, 3:], model(changed, land)[:, 3:])
    sets = ["model={name: two-sages, width: 8}", "training.epochs=1", "name=mine", "training.windows_per_epoch=8"]
    run = sstcast.train(run_yaml, sets)
    assert sstcast.load(run) is not None

    for name in ("two-sages", "TwoSages"):
        del MODELS[name]
    code, _, err = command("evaluate", run.folder)
    assert code == 2
    assert "no model 'two-sages'" in err
    assert "must be added to MODELS, for commands in sstcast/models/registry.py (docs/extending.md)" in err


def test_any_name_may_begin_like_that_of_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "mpnn-mine", Entry("transformers.LinearTransformer", {}, "no message passing"))
    assert load_benchmark("mutag", "mpnn-mine").model.name == "mpnn-mine"


def test_an_attention_is_one_registration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ATTENTIONS, "toy", ToyAttention)

    for name in ("gps", "linear-transformer", "tokengt"):
        model = build_forecaster(
            name,
            history=5,
            horizon=2,
            shape=(3, 4),
            width=8,
            layers=2,
            heads=2,
            attention="toy",
            attention_options={"strength": 2.0},
        )
        assert float(model.auxiliary_loss().detach()) == 2 * 8 * 2.0**2
