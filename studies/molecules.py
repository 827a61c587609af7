"""Networks trained for a few steps on a set of `sstcast benchmark`, for studies of what they learn."""

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from sstcast.benchmarks.config import load_benchmark
from sstcast.benchmarks.graph_model import GraphModel
from sstcast.benchmarks.load import load
from sstcast.benchmarks.run import build_task
from sstcast.benchmarks.tasks import BenchmarkTask
from sstcast.training.devices import start
from studies.study import fit


def train(
    dataset: str, model: str, root: Path, overrides: Sequence[str], steps: int, rate: float = 1e-3
) -> tuple[BenchmarkTask, GraphModel]:
    """Train on random batches of the training split; return the task, and the network as it is evaluated.

    Raises SSTCastError if the set's raw files are not below `root`.
    """
    config = load_benchmark(dataset, model, root, ["training.device=cpu", *overrides])
    task, predictor = build_task(config, load(config.declaration, root, config.cache), start(config.training))

    def loss(step: int) -> Tensor:
        epoch, place = divmod(step, per_epoch)
        batch = task.batch(task.order(0, epoch)[place])
        return task.loss(predictor, batch) / task.weight(batch)

    per_epoch = len(task.order(0, 0))
    if steps:
        fit(predictor, loss, steps, rate)
    return task, predictor.eval()
