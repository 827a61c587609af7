"""The verb `train`: fit a forecaster to the windows of a prepared ocean."""

import torch

from sstcast.config import RunConfig
from sstcast.models import build_forecaster
from sstcast.models.base import ForecastModel
from sstcast.ocean.windows import Windows
from sstcast.runs import Run
from sstcast.training.devices import start
from sstcast.training.engine import Trainer
from sstcast.training.forecasting import ForecastTask


def train(config: RunConfig, windows: dict[str, Windows]) -> tuple[Run, bool]:
    """Fit `config.model` to `windows["train"]`, selecting by the error on `windows["validation"]`.

    Returns the run and whether there was anything to do. A run that was interrupted goes on where it
    stopped: on a CPU to the same weights, bit by bit, that an undisturbed run ends with.

    Raises SSTCastError if the run's folder holds another configuration, the device is not there or the loss is
    not finite, and Interrupted after Ctrl-C or SIGTERM, when `checkpoints/` holds all that was learnt.
    """
    fabric = start(config.training)
    torch.manual_seed(config.training.seed)
    model = forecaster(config, windows["train"])
    run = Run.create(config, write=fabric.is_global_zero)
    fabric.barrier()
    trainer = Trainer(run, config, config.training, model, ForecastTask(windows, config.training, fabric), fabric)
    if trainer.finished:
        return run, False
    trainer.fit()
    return run, True


def forecaster(config: RunConfig, windows: Windows) -> ForecastModel:
    """Build the configured forecaster for tiles like those of `windows`."""
    return build_forecaster(
        config.model.name,
        history=windows.history,
        horizon=windows.horizon,
        shape=windows.shape,
        **config.model.options,
    )
