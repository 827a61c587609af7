"""A training step reads nothing from the host.

On a GPU, each such reading would wait for the device, and a step with one cannot become a CUDA graph. A CPU
does not wait, so a mode watches all operations of a step for what would cross from one to the other.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from sstcast.config import RunConfig, load_config
from sstcast.models import MODELS
from sstcast.ocean.windows import Windows
from sstcast.reading.days_of_year import YEAR_DAYS
from sstcast.runs import Run
from sstcast.training.engine import Trainer
from sstcast.training.forecast_task import ForecastTask, fit
from sstcast.training.train import forecaster

HISTORY, HORIZON, SIDE = 42, 4, 6
# What copies a value of Python to a tensor, reads a value, or makes a tensor whose shape depends on values.
CROSSINGS = ("lift_fresh", "_local_scalar_dense", "nonzero", "masked_select", "_unique2", "equal")
METHODS = ("cpu", "numpy", "tolist")  # which a CPU does without an operation
SHAPES_DEPEND_ON_DATA = ("sapdgt", "spdgt")  # these models run ordinary steps
MEMORY = "{name: local, memory: true, stencil: true}"


class Watch(TorchDispatchMode):
    """Notes operations that cross between host and device, and the tensors that existed before the step."""

    def __init__(self) -> None:
        super().__init__()
        self.crossings: list[str] = []
        self.made: dict[int, Tensor] = {}
        self.read: dict[int, Tensor] = {}

    def __enter__(self) -> "Watch":
        self.patches = pytest.MonkeyPatch()
        for name in METHODS:
            self.patches.setattr(Tensor, name, self.noting(name, getattr(Tensor, name)))
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.patches.undo()

    def noting(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(tensor: Tensor, *arguments: Any, **named: Any) -> Any:
            self.crossings.append(name)
            return method(tensor, *arguments, **named)

        return call

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        leaves = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        by_mask = func.overloadpacket.__name__ == "index" and any(leaf.dtype == torch.bool for leaf in leaves[1:])
        if by_mask or func.overloadpacket.__name__ in CROSSINGS:
            self.crossings.append(str(func))
        self.read |= {id(leaf): leaf for leaf in leaves if id(leaf) not in self.made}
        out = func(*args, **(kwargs or {}))
        self.made |= {id(leaf): leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)}
        return out


def windows_of(tiles: int, before: int, seed: int) -> Windows:
    generator = np.random.default_rng(seed)
    days, nodes = before + HISTORY + HORIZON + 30, SIDE * SIDE
    ocean = torch.from_numpy(generator.random((tiles, nodes)) < 0.8)
    values = torch.from_numpy(generator.standard_normal((days, tiles, nodes), np.float32)) * ocean
    place = F.normalize(torch.from_numpy(generator.standard_normal((tiles, nodes, 3), np.float32)), dim=-1)
    dates = np.datetime64("2001-01-01") + np.arange(days)
    return Windows(values, ocean, dates, (SIDE, SIDE), HISTORY, HORIZON, place, before)


def trainer_of(folder: Path, windows: Windows, model: str, *overrides: str) -> Trainer:
    settings = [f"runs={folder}", f"model={model}", "training.device=cpu", "training.compile=false", *overrides]
    config: RunConfig = load_config(Path("configs/demo.yaml"), settings)
    torch.manual_seed(0)
    network = forecaster(config, windows)
    if network.linear is not None:
        fit(network.linear, windows, None)
    run = Run.create(config)
    run.checkpoints.mkdir(exist_ok=True)
    fabric = Fabric(accelerator="cpu", devices=1)
    task = ForecastTask({"train": windows, "validation": windows}, config.training, fabric)
    trainer = Trainer(run, config, config.training, network, task, fabric)
    trainer.module, trainer.stepper = fabric.setup(trainer.model, trainer.optimizer)
    trainer.model.train()
    return trainer


def crossings(trainer: Trainer) -> list[str]:
    """Return what the third step of a training reads from the host, given that the second is like it."""
    index = trainer.task.order(0, 0)[0]
    trainer._step(index)
    trainer.state.step += 1
    watches = Watch(), Watch()
    for watch in watches:
        with watch:
            trainer._step(index)
        trainer.state.step += 1
    new = [tensor for key, tensor in watches[1].read.items() if key not in watches[0].read]
    return watches[1].crossings + [f"a tensor of the host, {list(tensor.shape)}" for tensor in new]


@pytest.fixture(autouse=True)
def _repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])


SMALL = {"mlp": {}, "tfnet": {"width": 4}, "polynormer": {"width": 8, "local_layers": 2}}
POSITIONAL = ("mpnn", "linear-transformer", "tokengt", "sat", "sapdgt")  # all models share the encodings


@pytest.mark.parametrize(
    ("name", "positional"),
    [*((name, "none") for name in MODELS), *((name, kind) for name in POSITIONAL for kind in ("lap", "rwse"))],
)
def test_no_model_reads_the_host(tmp_path: Path, name: str, positional: str) -> None:
    options = {"name": name} | SMALL.get(name, {"width": 8})
    if positional != "none":
        options["positional"] = positional
    trainer = trainer_of(tmp_path, windows_of(3, 0, 0), json.dumps(options))
    crossed = crossings(trainer)
    assert bool(crossed) == (name in SHAPES_DEPEND_ON_DATA), crossed


@pytest.mark.parametrize("name", ["mpnn", "mlp", "tfnet"])
def test_a_predictor_does_not_read_the_host(tmp_path: Path, name: str) -> None:
    windows = windows_of(3, 0, 0)
    told = torch.from_numpy(np.random.default_rng(1).standard_normal((len(windows.days), 2), np.float32))
    ahead = torch.stack([windows.values.roll(-day, 0) for day in range(HORIZON)], 1)
    index, grid = "{kind: index, source: data/sample/soi.csv, delay: 10}", "{kind: grid, source: sample, delay: 1}"
    forecast, static = "{kind: forecast, source: f.nc}", "{kind: static, source: s.nc}"
    field = windows.values.flip(0)
    read = replace(windows, predictors={"soi": told, "sst": field, "gefs": ahead, "depth": field})
    keys = f"data.predictors={{soi: {index}, sst: {grid}, gefs: {forecast}, depth: {static}}}"
    model = json.dumps({"name": name} | SMALL.get(name, {"width": 8}))
    trainer = trainer_of(tmp_path, read, model, keys, f"data.horizon={HORIZON}")
    assert trainer.model.reads == {"soi": 2, "sst": HISTORY, "gefs": HORIZON, "depth": 1}
    assert not crossings(trainer)


@pytest.mark.parametrize("base", ["none", "persistence", "linear", "local", MEMORY])
@pytest.mark.parametrize("gap", [0, 9])
def test_no_base_and_no_gap_reads_the_host(tmp_path: Path, base: str, gap: int) -> None:
    windows = windows_of(1, 365 - HISTORY if base == MEMORY else 0, 0)
    windows = replace(windows, at=np.delete(windows.at, slice(10, 10 + gap)))
    options = ["training.ema=0.9", "training.clip=1", "training.accumulate=2", "training.schedule=cosine"]
    assert crossings(trainer_of(tmp_path, windows, f"{{name: mpnn-vn, width: 8, base: {base}}}", *options)) == []


def test_the_watch_sees_arrays_lists_values_and_shapes_of_the_host() -> None:
    weight, array = torch.ones(3), np.ones(3, np.float32)
    for crossing in (
        lambda: weight + torch.from_numpy(array),
        lambda: weight[[0, 1]],
        lambda: weight * torch.tensor(2.0),
        lambda: weight * float(weight[0]),
        lambda: weight[weight > 0],
        lambda: weight.cpu().numpy(),
    ):
        with Watch() as watch:
            crossing()
        assert watch.crossings


def test_a_batch_has_the_windows_of_each_tile_and_start_also_after_a_gap() -> None:
    whole = windows_of(3, 3, 1)
    windows = replace(whole, at=whole.at[[0, 1, 2, 3, 20, 21, 22]])
    index = torch.tensor([7, 3, 20, 12, 11])
    batch = windows.batch(index)
    for row, number in enumerate(index.tolist()):
        start, tile = [0, 1, 2, 3, 20, 21, 22][number // 3], number % 3
        days = windows.values[start : start + 3 + HISTORY + HORIZON, tile].T
        assert torch.equal(batch.history[row], days[:, : 3 + HISTORY])
        assert torch.equal(batch.target[row], days[:, 3 + HISTORY :])
        assert torch.equal(batch.ocean[row], windows.ocean[tile])
        neighbours = F.conv2d(
            windows.ocean[tile].float().view(1, 1, SIDE, SIDE), torch.ones(1, 1, 3, 3), padding=1
        )
        expected = neighbours.flatten() - windows.ocean[tile].float()
        torch.testing.assert_close(batch.graph.degree[row, :, 0], expected)
        day = windows.days[start + 3 + HISTORY - 1]
        angle = (day - day.astype("datetime64[Y]")) / np.timedelta64(1, "D") * 2 * np.pi / YEAR_DAYS
        assert batch.graph.geography is not None
        assert batch.graph.geography[row, 0, 3:].tolist() == pytest.approx(
            [np.sin(angle), np.cos(angle)], abs=1e-5
        )
