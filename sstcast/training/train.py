"""The command `train`, which trains a forecaster on the windows of a prepared ocean."""

import datetime as dt
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sstcast.config import COMBINATION, RunConfig, load_config
from sstcast.errors import SSTCastError
from sstcast.models import LINEAR, base_of, build_forecaster, days_before
from sstcast.models.base import ForecastModel, LinearSystem
from sstcast.ocean.filled_days import check_test_dates
from sstcast.ocean.prepared import Prepared, check_source
from sstcast.ocean.splits import check_splits
from sstcast.ocean.windows import Windows, cut_windows, whole_windows
from sstcast.progress import waiting
from sstcast.runs import Run
from sstcast.storage.artefacts import locked
from sstcast.training.checkpoint import (
    close_training,
    load_checkpoint,
    load_weights,
    open_training,
    save_checkpoint,
    step_checkpoints,
)
from sstcast.training.cross_fitting import blocks_of_years, supported_share
from sstcast.training.data_record import check_data, record_of
from sstcast.training.devices import choose_device, start
from sstcast.training.forecast_task import ForecastTask, fit, tell_memory
from sstcast.training.initial_weights import InitialWeights
from sstcast.workers import FIRST_PROCESS

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def train(config: RunConfig, windows: Mapping[str, Windows], prepared: Prepared | None = None) -> tuple[Run, bool]:
    """Train `config.model` on `windows["train"]`, and select the weights by the error on `windows["validation"]`.

    A linear system is solved directly. It chooses its options on the validation windows and is then fitted to both
    splits. The linear base of a network is fitted only to the windows that train the network, so that the
    validation error can tell when to stop. With `training.cross_fit`, the share of the network's change is
    computed first. With `training.weights`, the network begins with these, and only its base is fitted.

    An interrupted run resumes where it stopped. On a CPU it ends with the same weights, bit for bit, as an
    uninterrupted one. If another process trains the run, this one waits, and takes over if the other one dies.

    `prepared` are the stores that the windows were cut from, which data.json is to identify, by default those of
    the configuration, opened now.

    Returns:
        The run, and whether there was anything to do.

    Raises SSTCastError if the folder of the run holds another configuration, the device is not available, the
    loss is not finite, or `training.weights` do not fit the model or may have learnt from test days. Raises
    Interrupted after Ctrl-C or SIGTERM, once a checkpoint is saved.
    """
    choose_device(config.training.device)  # raises before anything is written
    if config.model.name == COMBINATION:
        raise SSTCastError("model.name: a combination is not trained; make one with `sstcast combine`")
    if config.trained_on is not None:
        raise SSTCastError("trained_on: only for runs scored on another ocean; leave it out to train")
    if Run(config.folder).members[0].folder != config.folder:
        raise SSTCastError(f"{config.folder}: is an ensemble; continue it with --resume {config.folder}")
    torch.manual_seed(config.training.seed)
    model = forecaster(config, windows["train"])
    initial = _begin(config, model)
    run, prepared = Run.create(config, write=FIRST_PROCESS), prepared or Prepared.of(config.data)
    memory = days_before(config.model.name, config.model.options, config.data.history)
    # The first process waits for the lock before it starts the others, whose own wait would time out.
    with locked(run.checkpoints) if FIRST_PROCESS else nullcontext():
        if FIRST_PROCESS and not any(run.checkpoints.glob("*.pt")) and record_of(run) is None:
            record = prepared.record()
            if initial is not None:
                record = record.model_copy(update={"initial_weights": initial.digest})
            record.save(run.data)
        else:
            check_data(run, prepared)
            if initial is not None and (recorded := record_of(run)) is not None:
                initial.check_recorded(run, recorded.initial_weights)
        if isinstance(model, LinearSystem):
            if run.best.exists():
                close_training(run, config)  # a kill may have come before
                return run, False
            open_training(run)
            with waiting(f"fitting {config.model.name}"):
                choices = fit(model, windows["train"], windows["validation"])
            tell_memory(str(run.folder), memory, windows["train"].before)
            save_checkpoint(
                run.best, config, model=model.state_dict(), tile=list(windows["train"].shape), chosen=choices
            )
            close_training(run, config)
            return run, True
        fabric = start(config.training)
        fabric.barrier()
        if not step_checkpoints(run.checkpoints):
            tell_memory(str(run.folder), memory, windows["train"].before)
        if model.share is not None and not step_checkpoints(run.checkpoints):
            model.share.copy_(_cross_fitted(config, run, windows, fabric))
        has_trained = _train_network(config, run, model, windows, fabric)
        if FIRST_PROCESS:
            close_training(run, config)
        return run, has_trained


def _begin(config: RunConfig, model: ForecastModel) -> InitialWeights | None:
    """Load the weights that a training begins from. Return None if there are none, or the training has begun.

    Raises SSTCastError if they do not fit the model, or learnt from days that the run is tested on.
    """
    if config.training.weights is None or step_checkpoints(Run(config.folder).checkpoints):
        return None
    if isinstance(model, LinearSystem):
        raise SSTCastError(f"training.weights: {config.model.name} is solved in one step; leave them out")
    initial = InitialWeights.read(config.training.weights)
    source_config = initial.config_as(RunConfig)
    splits = source_config.data.splits
    last = max(splits.validation[1], splits.base[1])
    if source_config.training.weights is not None:  # which ended before the test days of that run
        last = max(last, splits.test[0] - dt.timedelta(1))
    if last >= (test := config.data.splits.test[0]):
        raise SSTCastError(
            f"{initial.key}: may have learnt from days up to {last}, but this run is tested from {test}; choose "
            "weights of earlier days, or later test days"
        )
    initial.check_predictors(source_config.data, config.data)
    initial.put_into(model, fitted=("linear.", "share"))
    return initial


def _train_network(
    config: RunConfig, run: Run, model: ForecastModel, windows: Mapping[str, Windows], fabric: "Fabric"
) -> bool:
    """Fit the base and train the network. Return whether there was anything to do."""
    from sstcast.training.engine import Trainer  # here, because linear systems do not need Lightning Fabric

    if model.linear is not None and not step_checkpoints(run.checkpoints):
        with waiting("fitting the linear base"):
            fit(model.linear, windows["train"], None)
    trainer = Trainer(run, config, config.training, model, ForecastTask(windows, config.training, fabric), fabric)
    if trainer.finished:
        return False
    if FIRST_PROCESS:
        open_training(run)
    trainer.fit()
    return True


def _cross_fitted(config: RunConfig, run: Run, windows: Mapping[str, Windows], fabric: "Fabric") -> Tensor:
    """Return the share of the change, from networks that are each trained without a block of years."""

    def networks() -> Iterator[tuple[ForecastModel, Windows]]:
        blocks = blocks_of_years(windows["train"], config.training.cross_fit)
        for number, (train_windows, block) in enumerate(blocks, 1):
            part_run = Run(run.folder / "cross-fitting" / f"without-{number}")
            part_run.checkpoints.mkdir(parents=True, exist_ok=True)
            torch.manual_seed(config.training.seed)
            model = forecaster(config, train_windows)
            _train_network(config, part_run, model, {**windows, "train": train_windows}, fabric)
            load_weights(model, load_checkpoint(part_run.best, config), part_run.best)
            yield model, block

    return supported_share(networks(), config.data.horizon)


def plan(
    config: RunConfig | None, resume: Path | None, seeds: list[int] | None, overrides: list[str]
) -> list[RunConfig]:
    """Return the configurations to train: `config`, an ensemble of it with `seeds`, or a run to resume.

    `resume` is the folder of a run or ensemble, whose configuration `overrides` change. Raises SSTCastError if the
    arguments contradict each other, or a run of this name has another configuration.
    """
    if (config is None) == (resume is None):
        raise SSTCastError("train: give either a YAML, for instance configs/demo.yaml, or --resume RUN")
    if resume is not None:
        run = Run(resume)
        if not run.config_file.exists():
            raise SSTCastError(f"--resume {resume}: not a run (no config.yaml); name a folder that train made")
        if seeds is not None:
            raise SSTCastError(f"--resume {resume}: keeps the seeds it started with; leave out --seeds")
        if run.trained != run:
            raise SSTCastError(f"--resume {resume}: nothing is trained there; resume {run.trained.folder}")
        for key in ("name", "runs"):
            if any(override.partition("=")[0] == key for override in overrides):
                raise SSTCastError(f"--resume {resume}: continues in that folder; leave out --set {key}=...")
        # The folder may have been moved, or config.yaml may be relative to another working folder.
        return [
            load_config(member.config_file, overrides).model_copy(
                update={"name": member.folder.name, "runs": member.folder.parent}
            )
            for member in run.members
        ]
    assert config is not None
    return [config] if seeds is None else ensemble(config, seeds)


def members(config: RunConfig, seeds: list[int]) -> list[RunConfig]:
    """Return the configurations of an ensemble's members."""
    return [
        config.model_copy(
            update={
                "name": f"seed-{seed}",
                "runs": config.folder,
                "training": config.training.model_copy(update={"seed": seed}),
            }
        )
        for seed in seeds
    ]


def ensemble(config: RunConfig, seeds: list[int]) -> list[RunConfig]:
    """Return the configurations of an ensemble's members, and make their folders.

    Raises SSTCastError if a run of that name has another configuration or is a single run.
    """
    run = Run.create(config)
    if run.best.exists():
        raise SSTCastError(f"{run.folder}: is a single run; choose another name with --set name=...")
    configs = members(config, seeds)
    for member in configs:  # all of them now: --resume continues only members that have a folder
        Run.create(member)
    return configs


def training_windows(config: RunConfig, prepared: Prepared | None = None) -> dict[str, Windows]:
    """Return the training and validation windows of a run, cut from its `prepared` stores.

    Raises SSTCastError if the data are not prepared or their source has changed since, if a split has days outside
    the data, or if the base of the model fits one tile and there are several.
    """
    as_one, model, data = config.model.name in LINEAR, config.model, config.data
    prepared = prepared or Prepared.of(data)
    check_source(prepared)
    anomalies = prepared.open_anomalies()
    check_splits(data, anomalies["time"].values)
    check_test_dates(prepared)
    before = days_before(model.name, model.options, data.history)
    train = "before_test" if config.training.include_validation and not as_one else "train"
    cut = whole_windows if as_one else cut_windows
    windows = {
        split: cut(anomalies, data, days, before=before)
        for split, days in (("train", train), ("validation", "validation"))
    }
    prepared.replaced(data.splits.before_test[1])  # raises if other days were read
    if base_of(model.options)[0] == "local" and windows["train"].tiles > 1:
        raise SSTCastError("model.base: local is fitted to the cells of one tile; choose linear for several")
    return windows


def check_model(config: RunConfig) -> None:
    """Raise SSTCastError if the configured model does not exist or cannot be built with its options."""
    if config.model.name != COMBINATION:
        _build(config, config.data.history, config.data.horizon, config.data.box.tile)


def forecaster(config: RunConfig, windows: Windows) -> ForecastModel:
    """Build the configured forecaster for the tile shape of `windows`."""
    return _build(config, windows.history, windows.horizon, windows.shape)


def _build(config: RunConfig, history: int, horizon: int, shape: tuple[int, int]) -> ForecastModel:
    return build_forecaster(
        config.model.name,
        history=history,
        horizon=horizon,
        shape=shape,
        shared=config.training.cross_fit > 0,
        predictors=config.data.kinds,
        **config.model.options,
    )
