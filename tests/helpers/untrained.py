"""Runs whose models have random weights: enough to forecast with, and made at once."""

import torch

from sstcast.config import RunConfig
from sstcast.models import build_forecaster
from sstcast.ocean.prepared import Prepared
from sstcast.runs import Run
from sstcast.training.checkpoint import close_training, open_training, save_checkpoint
from sstcast.training.train import members


def replace_weights(run: Run, content: bytes) -> None:
    """Give a run the weights of another one of its configuration, as if it had been trained again."""
    open_training(run)
    run.best.write_bytes(content)
    close_training(run, run.config)


def make_run(config: RunConfig, seeds: tuple[int, ...] = (0,), noise: float = 0) -> Run:
    """Make a run's folder, or an ensemble's if there are several seeds.

    With `noise` in their weights, networks differ from persistence and from each other.
    """
    run = Run.create(config)
    data, options = config.data, config.model.options
    for seed, own in zip(seeds, members(config, list(seeds)) if len(seeds) > 1 else [config], strict=True):
        member = Run.create(own)
        torch.manual_seed(seed)
        sizes = {"history": data.history, "horizon": data.horizon, "shape": data.box.tile}
        model = build_forecaster(config.model.name, **sizes, **options)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(noise * torch.randn_like(parameter))
        if Prepared.of(data).is_current:
            Prepared.of(data).record().save(member.data)
        save_checkpoint(member.best, own, model=model.state_dict(), epoch=0)
        close_training(member, own)
    return run
