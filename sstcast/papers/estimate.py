"""What Table 5 will need before anything is done: downloads, disk, memory and, from measured steps, time."""

import datetime as dt
import time
from collections import Counter
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import numpy as np
import torch

from sstcast.config import DataConfig, RunConfig
from sstcast.ocean.windows import Windows
from sstcast.papers.table5 import Kept, Table5
from sstcast.sources.store import RawStore
from sstcast.training.devices import start
from sstcast.training.forecasting import ForecastTask
from sstcast.training.train import forecaster

DAY_FILE = 1.6e6  # bytes of one day of OISST on NOAA's servers, all of the globe
STEPS = 3  # measured for each system, after one to warm up


class Needs(NamedTuple):
    """What is left to do needs: days to download, bytes on disk and in memory, the device, runs, and seconds."""

    download: int
    disk: float
    memory: float
    device: str
    runs: int
    seconds: dict[tuple[str, int], float]  # of a system and a horizon, all its runs and epochs

    @property
    def gigabytes(self) -> float:
        """What is downloaded."""
        return self.download * DAY_FILE / 1e9


def estimate(table: Table5) -> Needs:
    """Estimate without downloading or writing anything; a few steps of each system are trained on noise."""
    data = table.data[0]
    days, (tiles, nodes) = _days(*data.splits.whole), _size(data)
    request = table.request
    missing = 0
    if request is not None:
        missing = int((RawStore(request.path, request.box).status(request.days) == 0).sum())
    cells = data.box.bounds.shape[0] * data.box.bounds.shape[1]
    kept, device = Kept(table.folder), ""
    left = [run for run in table.runs if kept.error(run) is None]
    seconds: dict[tuple[str, int], float] = {}
    for (system, horizon), count in Counter((run.model.name, run.data.horizon) for run in left).items():
        run = next(run for run in left if (run.model.name, run.data.horizon) == (system, horizon))
        device, forward, step = _measure(run)
        steps, validation = _windows(run, tiles)
        batch, epochs = run.training.batch_size, run.training.epochs
        seconds[system, horizon] = count * epochs * (steps * step + validation / batch * forward)
    return Needs(
        download=missing,
        disk=(2 * cells * missing + 8 * tiles * nodes * days),  # two bytes a cell; a cube and anomalies in float32
        memory=4 * tiles * nodes * (days - _days(*data.splits.test)),
        device=device,
        runs=len(left),
        seconds=seconds,
    )


def _days(first: dt.date, last: dt.date) -> int:
    return (last - first).days + 1


def _size(data: DataConfig) -> tuple[int, int]:
    """Return the number of tiles and of nodes in a tile; cells are taken to be OISST's."""
    box, (rows, cols) = data.box, data.box.tile
    height, width = (side // box.coarsen for side in box.bounds.shape)
    return (height // rows) * (width // cols) - len(box.skip), rows * cols


def _windows(run: RunConfig, tiles: int) -> tuple[int, int]:
    """Return the steps of an epoch, and the windows of a validation."""
    data, training = run.data, run.training
    length = data.history + data.horizon
    windows, validation = (
        tiles * (_days(*split) - length) for split in (data.splits.train, data.splits.validation)
    )
    return min(windows, training.windows_per_epoch or windows) // training.batch_size, validation


def _measure(run: RunConfig) -> tuple[str, float, float]:
    """Return the device, and the seconds of a forward pass and of a step, for a batch of noise."""
    fabric = start(run.training)
    (rows, cols), data = run.data.box.tile, run.data
    torch.manual_seed(0)
    days = data.history + data.horizon + run.training.batch_size
    windows = Windows(
        values=torch.randn(days, 1, rows * cols),
        ocean=torch.ones(1, rows * cols, dtype=torch.bool),
        days=np.datetime64(data.splits.train[0], "D") + np.arange(days),
        shape=(rows, cols),
        history=data.history,
        horizon=data.horizon,
        place=torch.zeros(1, rows * cols, 3),
    )
    task = ForecastTask({"train": windows, "validation": windows}, run.training, fabric)
    model = forecaster(run, windows).to(fabric.device)
    optimizer = torch.optim.Adam(model.parameters())
    batch = task.batch(torch.arange(run.training.batch_size))

    def forward() -> torch.Tensor:
        with fabric.autocast():
            return task.loss(model, batch)

    def step() -> None:
        (forward() / task.weight(batch)).backward()
        optimizer.step()
        optimizer.zero_grad()

    with torch.no_grad():
        alone = _seconds(forward)
    return str(fabric.device), alone, _seconds(step)


def _seconds(work: Callable[[], object]) -> float:
    times = []
    for _ in range(1 + STEPS):
        started = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return median(times[1:])
