"""Raw files of every kind of task, and small runs on them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lightning_fabric import Fabric
from small_raw import TASKS, write

from sstcast.benchmarks.config import BenchmarkConfig, load_benchmark
from sstcast.benchmarks.graph_model import GraphModel
from sstcast.benchmarks.load import load
from sstcast.benchmarks.registry import find_dataset
from sstcast.benchmarks.run import build_task
from sstcast.benchmarks.tasks import BenchmarkTask
from sstcast.config import TrainingConfig
from sstcast.training.devices import start

SMALL = {
    "polynormer": ["model.heads=2", "model.local_layers=2", "model.global_layers=1", "predictor.head_layers=0"],
    "tokengt": ["model.layers=2", "model.identifier_size=4"],
}


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("raw")
    for name in (*TASKS.values(), "Cora"):
        write(find_dataset(name), folder)
    return folder


@pytest.fixture
def configure(root: Path, tmp_path: Path) -> Callable[..., BenchmarkConfig]:
    def make(dataset: str, model: str, *overrides: str) -> BenchmarkConfig:
        small = ["model.width=8", "training.epochs=2", "training.batch_size=4", "training.device=cpu"]
        places = [f"runs={tmp_path / 'runs'}", f"cache={root / 'cache'}"]
        return load_benchmark(
            dataset, model, root, [*small, *SMALL.get(model, ["model.layers=2"]), *places, *overrides]
        )

    return make


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    return start(TrainingConfig(device="cpu"))


@pytest.fixture
def build(configure: Callable[..., BenchmarkConfig], fabric: Fabric) -> Callable[..., Any]:
    def make(dataset: str, model: str, *overrides: str) -> tuple[BenchmarkTask, GraphModel]:
        config = configure(dataset, model, *overrides)
        loaded = load(config.declaration, config.root, config.cache, trust=True)  # some pickles are our own
        return build_task(config, loaded, fabric)

    return make
